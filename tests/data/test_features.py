import json
from dataclasses import asdict

import pytest
import torch

from crawl.data.features import (
    Column,
    Columns,
    Unknown,
    category_sizes,
    check_names,
    encode_columns,
    find_columns,
)
from crawl.nn.encoders import UNKNOWN


def encoded(attributes):
    """The features as in training, and the sizes of categories."""
    columns = find_columns(attributes)
    return encode_columns("node", attributes, columns, Unknown()), category_sizes(columns)


def test_categories():
    x, sizes = encoded({"element": ["N", "C", "C"], "charge": [-1, 1, 0], "ring": [True, True, False]})
    assert x.tolist() == [[1, 0, 1], [0, 2, 1], [0, 1, 0]]
    assert sizes == (2, 3, 2)


def test_numbers():
    x, sizes = encoded({"mass": [1.5, 2, 3], "position": [[0, 1], [2, 3], [4, 5]]})
    assert x.tolist() == [[1.5, 0, 1], [2, 2, 3], [3, 4, 5]]
    assert (x.dtype, sizes) == (torch.float32, ())


def test_both():
    x, sizes = encoded({"element": ["N", "C"], "mass": [14.0, 12.0]})
    assert x.tolist() == [[14, 0, 1], [12, 1, 0]]
    assert sizes == ()


def test_many_whole_numbers_are_quantities():
    assert encoded({"year": list(range(100))})[1] == (100,)
    assert encoded({"year": list(range(101))})[1] == ()


def test_nothing():
    assert encoded({}) == (None, ())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 1], "'it' must be a number everywhere"),
        ([None, 1], "'it' must be a number everywhere"),
        ([[1, 2], [1]], "'it' must be a number everywhere"),
        ([float("nan"), 1], "finite"),
        ([{"a": 1}, {"a": 2}], "'it' must be a number everywhere"),
        ([10**400 + i for i in range(101)], "'it' must be a number everywhere"),
        ([str(i) for i in range(1001)], "1001 different words"),
    ],
)
def test_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        encoded({"it": values})


class TestOtherFiles:
    """They are numbered by the columns that training found, not by what occurs in them."""

    COLUMNS = find_columns({"charge": [-1, 0, 1], "element": ["C", "N", "O"]})

    def test_have_the_same_numbers(self):
        x = encode_columns("node", {"element": ["O", "N"], "charge": [1, 1]}, self.COLUMNS, Unknown())
        assert x.tolist() == [[2, 2], [2, 1]]

    def test_may_hold_unknown_values(self):
        unknown = Unknown()
        attributes = {"element": ["Xe", "N", "Xe", "Kr"], "charge": [1, 0, 0, 5]}
        x = encode_columns("node", attributes, self.COLUMNS, unknown)
        assert x.tolist() == [[2, UNKNOWN], [1, 1], [1, UNKNOWN], [UNKNOWN, UNKNOWN]]
        assert unknown
        assert str(unknown) == "5 in charge (1 node); 'Kr', 'Xe' in element (3 nodes)"
        encode_columns("edge", {"kind": list(range(9))}, [Column("kind", (99,))], unknown)
        molecules = Unknown({("node", "atomic number", 119): 2, ("node", "atomic number", 34): 1})
        assert str(molecules) == "34, 0 (a dummy atom) in atomic number (3 nodes)"
        assert str(unknown).endswith("; 0, 1, 2, 3, 4, … (9 in all) in kind (9 edges)")

    def test_unknown_values_beside_numbers_are_zeros(self):
        columns = find_columns({"element": ["N", "C"], "mass": [14.0, 12.0]})
        x = encode_columns("node", {"element": ["Xe", "N"], "mass": [131.0, 14.0]}, columns, Unknown())
        assert x.tolist() == [[131, 0, 0], [14, 0, 1]]

    def test_whole_numbers_stay_numbers(self):
        columns = find_columns({"mass": [1.5, 2.0]})
        assert encode_columns("node", {"mass": [1, 2]}, columns, Unknown()).tolist() == [[1.0], [2.0]]

    def test_without_rows(self):
        assert encode_columns("edge", {}, self.COLUMNS, Unknown()).shape == (0, 2)
        columns = find_columns({"position": [[0.5, 1.0]]})
        assert encode_columns("edge", {}, columns, Unknown()).shape == (0, 2)

    @pytest.mark.parametrize(
        ("attributes", "message"),
        [
            ({"element": [7], "charge": [0]}, "'element' must hold words as in training, not 7"),
            ({"element": ["C"], "charge": [0.5]}, "'charge' must hold whole numbers as in training, not 0.5"),
            ({"element": ["C"], "charge": [[1, 2]]}, "'charge' must hold whole numbers"),
        ],
    )
    def test_must_hold_the_same_kind(self, attributes, message):
        with pytest.raises(ValueError, match=message):
            encode_columns("node", attributes, self.COLUMNS, Unknown())

    def test_must_hold_numbers_of_the_same_width(self):
        columns = find_columns({"position": [[0.5, 1.0]]})
        with pytest.raises(ValueError, match="'position' has 3 numbers, but had 2 in training"):
            encode_columns("node", {"position": [[1.0, 2.0, 3.0]]}, columns, Unknown())

    def test_must_have_the_same_attributes(self):
        check_names("node", ["element", "charge"], self.COLUMNS, 1)
        check_names("edge", [], self.COLUMNS, 0)  # no edge, no attribute
        with pytest.raises(ValueError, match="node attributes are 'element' and were 'charge', 'element'"):
            check_names("node", ["element"], self.COLUMNS, 1)
        with pytest.raises(ValueError, match="edge attributes are 'bond' and were none"):
            check_names("edge", ["bond"], (), 1)


def test_columns_survive_json():
    columns = Columns(
        find_columns({"element": ["N", "C"], "ring": [True, False], "mass": [1.5, 2.5]}),
        find_columns({"position": [[0.5, 1.0]], "kind": [3, -1]}),
    )
    assert Columns.from_dict(json.loads(json.dumps(asdict(columns)))) == columns


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"knots": []},
        {"nodes": [1], "edges": []},
        {"nodes": [{"name": 1, "values": None, "width": 1}], "edges": []},
        {"nodes": [{"name": "a", "values": [], "width": 1}], "edges": []},
        {"nodes": [{"name": "a", "values": ["a", 1], "width": 1}], "edges": []},
        {"nodes": [{"name": "a", "values": [[1]], "width": 1}], "edges": []},
    ],
)
def test_what_is_not_columns(content):
    with pytest.raises(ValueError, match=r"not (None|\[\]|1|\(\)|\('a', 1\)|\[1\])\.|no key knots"):
        Columns.from_dict(content)
