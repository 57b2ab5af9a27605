import pytest
import torch

from crawl.data.features import combine, encode_columns, encode_integers


def test_categories():
    x, sizes = encode_columns({"element": ["N", "C", "C"], "charge": [-1, 1, 0], "ring": [True, True, False]})
    assert x.tolist() == [[1, 0, 1], [0, 2, 1], [0, 1, 0]]
    assert sizes == (2, 3, 2)


def test_numbers():
    x, sizes = encode_columns({"mass": [1.5, 2, 3], "position": [[0, 1], [2, 3], [4, 5]]})
    assert x.tolist() == [[1.5, 0, 1], [2, 2, 3], [3, 4, 5]]
    assert (x.dtype, sizes) == (torch.float32, ())


def test_both():
    x, sizes = encode_columns({"element": ["N", "C"], "mass": [14.0, 12.0]})
    assert x.tolist() == [[14, 0, 1], [12, 1, 0]]
    assert sizes == ()


def test_many_whole_numbers_are_quantities():
    assert encode_columns({"year": list(range(100))})[1] == (100,)
    assert encode_columns({"year": list(range(101))})[1] == ()


def test_nothing():
    assert encode_columns({}) == (None, ())
    assert combine(None, None, ()) == (None, ())


def test_integers():
    codes, sizes = encode_integers(torch.tensor([[7, 0], [3, 0], [7, 5]]))
    assert codes.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert sizes == (2, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 1], "'it' must be a number everywhere"),
        ([None, 1], "'it' must be a number everywhere"),
        ([[1, 2], [1]], "'it' must be a number everywhere"),
        ([float("nan"), 1], "finite"),
        ([str(i) for i in range(1001)], "1001 different words"),
    ],
)
def test_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        encode_columns({"it": values})
