"""The parser of edge lists agrees with Python's int and float, and names the line of what is not an edge."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl.graph_files import text
from crawl.graph_files.text import edges_of_text


def parse(
    content: str | bytes, most_id: int = 2**31 - 3, *, weighted: bool = False, header: bool = False
) -> list[list]:
    content = content.encode() if isinstance(content, str) else content
    blocks = list(edges_of_text(io.BytesIO(content), "list", most_id, weighted=weighted, header=header))
    columns = [np.concatenate(column).tolist() for column in list(zip(*blocks, strict=True))[: 3 if weighted else 2]]
    return columns or [[], []]


@pytest.mark.parametrize(
    "content",
    [
        "0 1\n20 3\n",
        "0,1\n20,3\n",
        "0;1\n20;3",
        "0\t1\n20\t3",
        "\n  0 , 1\r\n\r\n# nothing\n20 ;3  # more\r\n",
        b"\xef\xbb\xbf0 1\n20 3\n",
        "#\n00 01\n020 3\n\n\n",
    ],
)
def test_separators_comments_and_line_ends(content: str | bytes) -> None:
    assert parse(content) == [[0, 20], [1, 3]]


def test_headers() -> None:
    assert parse("# a\n\nsource,target\n0,1\n20,3\n", header=True) == [[0, 20], [1, 3]]
    assert parse("from to\n", header=True) == [[], []]
    assert parse("", header=True) == parse("") == parse("\n\n#") == [[], []]
    assert parse('"Source" "Target" w\n0 1 2\n', header=True, weighted=True) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("# a\n\n0 1\n1 2\n", "line 3: '0 1' does not name columns: leave out --header"),
        ("0,1,0.5\n1,2,3\n", "line 1: '0,1,0.5' does not name columns"),
        ("target,source\n0,1\n", "line 1: column 2 is named 'source', but columns are read in the order source"),
        ("id;Source;Target\n0;1;2\n", "column 2 is named 'source'"),
        ("weight,from,to\n3,0,1\n", "column 1 is named 'weight'"),
    ],
)
def test_a_header_that_would_be_misread_is_refused(content: str, message: str) -> None:
    for weighted in (False, True):
        with pytest.raises(ValueError, match=message):
            parse(content, header=True, weighted=weighted)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.floats(min_value=5e-324, max_value=1.7e308).map(repr)
        | st.decimals(0, 10**6, places=3, allow_nan=False).map(str).filter(lambda w: float(w) > 0)
        | st.from_regex(r"[0-9]{1,20}(\.[0-9]{0,20})?([eE][-+]?[0-9]{1,2})?", fullmatch=True).filter(
            lambda w: 0 < float(w) < float("inf")
        ),
        max_size=20,
    )
)
def test_weights_are_those_of_python(weights: list[str]) -> None:
    content = "".join(f"{i},{i + 1},{weight}\n" for i, weight in enumerate(weights))
    found = parse(content, weighted=True)
    assert (found[2] if weights else []) == [float(weight) for weight in weights]


def test_blocks_of_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    edges = [(rng.randrange(10 ** rng.randrange(1, 9)), rng.randrange(1000)) for _ in range(200)]
    content = "".join(f"{u} {v}\n" for u, v in edges)
    for size in (1, 2, 3, 10, 64, 1000, 10**6):
        monkeypatch.setattr(text, "_BYTES_AT_ONCE", size)
        assert parse(content) == [list(column) for column in zip(*edges, strict=True)]
        with pytest.raises(ValueError, match=r"^list, line 201: the target 'x' is not a whole number from 0 on\.$"):
            parse(content + "5 x\n" + content)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 -1", "the target '-1' is not a whole number from 0 on"),
        ("1.0 2", "the source '1.0' is not a whole number"),
        ("1e3 2", "the source '1e3' is not a whole number"),
        ("+1 2", r"the source '\+1' is not a whole number"),
        ("1_0 2", "the source '1_0' is not a whole number"),
        ("٣ 2", "the source '٣' is not a whole number"),
        ("1,,2", r"expected 2 columns \(source, target\), not 3"),
        ("1,2,", "expected 2 columns"),
        (",1", "the source '' is not a whole number"),
        ("7", r"expected 2 columns \(source, target\), not 1: '7'"),
        ("1 2 3", "If the third one is a weight, add --weighted"),
        ('"1","2"', "the source '\"1\"' is not"),
        ("1 100", "the target 100 is not a node: ids go from 0 to 99"),
        ("99999999999999999999999 1", "is not a node: ids go from 0 to 99"),
        ("1\x002", "expected 2 columns"),
        ("ab cd", "the source 'ab' is not"),
    ],
)
def test_lines_that_are_not_edges(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^list, line 3: .*{message}"):
        parse(f"0 1\n# comment\n{line}\n2 3\n", 99)
    with pytest.raises(ValueError, match=f"^list, line 1: .*{message}"):
        parse(line, 99)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2", r"expected 3 columns \(source, target, weight\), not 2"),
        ("1 2 ", "expected 3 columns"),
        ("1 2 3 4", "expected 3 columns"),
        ("1 2 x", "the weight 'x' is not a positive number"),
        ("1 2 -1", "the weight '-1' is not a positive number"),
        ("1 2 0", "the weight '0' is not a positive number"),
        ("1 2 .", r"the weight '\.' is not a positive number"),
        ("1 2 nan", "the weight 'nan' is not"),
        ("1 2 1e400", "the weight '1e400' is not"),
    ],
)
def test_weights_that_no_edge_has(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^list, line 2: {message}"):
        parse(f"0 1 0.5\n{line}\n1 x 1\n", weighted=True)


def test_a_first_line_of_words_is_perhaps_a_header() -> None:
    for content in ("source,target\n0,1\n", "# list\nsource,target,weight\n"):
        with pytest.raises(ValueError, match="If this line names the columns, add --header"):
            parse(content)


def test_endless_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_BYTES_AT_ONCE", 1000)
    with pytest.raises(ValueError, match="a line has more than 65536 characters"):
        parse(b"\x01" * 10**6)
