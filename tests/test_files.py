import pytest

from crawl.files import parse_json


def test_json():
    assert parse_json('{"a": [1, 2.5, null, {"b": "c"}]}') == {"a": [1, 2.5, None, {"b": "c"}]}
    assert parse_json(b"[]") == []
    assert parse_json("[" * 100 + "]" * 100) is not None


@pytest.mark.parametrize("depth", [101, 5_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_that_is_nested_too_deep(depth, opening, closing):
    inside = "1" if closing == "}" else ""
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        parse_json(depth * opening + inside + depth * closing)


@pytest.mark.parametrize("text", ["", "{", "nothing", b"\xff\xfe\x00", "[" + "9" * 5000 + "]"])
def test_what_is_not_json(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
