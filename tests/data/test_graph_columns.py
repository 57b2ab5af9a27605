from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from crawl.data.features import Column, Unknown
from crawl.data.graph_columns import (
    check_graph_columns,
    choose_descriptors,
    encode_graph_columns,
    fit_columns,
    kinds_of_columns,
    least_and_most,
    means_and_deviations,
    problem_of,
)
from crawl.data.table import Table

TEXT = "smiles,T,phase,y,empty\nC,280,solid,1,\nCC,hot,liquid,2,\nCCC,300.5,solid,3,\nCCO,,gas,4,\n"


@pytest.fixture
def table(tmp_path) -> Table:
    path = tmp_path / "table.csv"
    path.write_text(TEXT)
    return Table(path)


def test_numbers_and_words(table):
    rows = list(table)
    kinds = kinds_of_columns(rows, ["T", "phase"])
    assert [column.values is None for column in kinds] == [True, False]
    problems = [problem_of(row.cells, kinds) for row in rows]
    assert problems == [None, "T is 'hot', not a number", None, "T is missing"]
    usable = [row.cells for row, problem in zip(rows, problems, strict=True) if problem is None]
    usable.append({"T": "290", "phase": "liquid"})
    columns = fit_columns(usable, kinds)
    assert columns == (Column("T"), Column("phase", ("liquid", "solid")))
    unknown = Unknown()
    new = [{"T": "1", "phase": "solid"}, {"T": "2.5", "phase": "gas"}]
    assert encode_graph_columns(new, columns, unknown).tolist() == [[1, 0, 1], [2.5, 0, 0]]
    assert str(unknown) == "'gas' in phase (1 graph)"
    assert encode_graph_columns([], columns, unknown).shape == (0, 3)


def test_means_and_deviations_of_the_training_part():
    u = torch.tensor([[1.0, 0.0, 5.0], [3.0, 1.0, math.nan], [5.0, 1.0, 5.0], [100.0, 0.0, 7.0]])
    columns = (Column("a"), Column("word", ("one",)))
    means, deviations = means_and_deviations(u, columns, torch.tensor([0, 1, 2]))
    assert means == (3.0, 0.0, 5.0)
    assert deviations == (pytest.approx(np.std([1, 3, 5])), 1.0, 1.0)
    assert means_and_deviations(None, (), torch.tensor([0])) == ((), ())


def test_the_range_of_the_training_part():
    u = torch.tensor([[1.0, math.nan, 5.0], [3.0, math.nan, math.nan], [-5.0, math.nan, 4.0], [100.0, 1.0, 7.0]])
    assert least_and_most(u, torch.tensor([0, 1, 2])) == ((-5.0, 0.0, 4.0), (3.0, 0.0, 5.0))
    assert least_and_most(None, torch.tensor([0])) == least_and_most(u[:0], torch.tensor([])) == ((), ())


def test_descriptors_that_say_nothing_are_dropped():
    nan = math.nan
    values = np.array([[1.0, 2.0, nan, 1.0, nan]] + [[2.0, 2.0, 1.0, nan, 3.0]] + [[3.0, 2.0, 1.5, nan, 3.0]] * 10)
    assert choose_descriptors(["all", "same", "few_missing", "most_missing", "same_where_there"], values) == [0, 2]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["pressure"], "has no column 'pressure'"),
        (["T", "T"], "A feature column is named twice: T, T"),
        (["smiles"], "'smiles' of .* is a SMILES column, so it cannot be a feature"),
        (3, "feature_columns must be a list of names of columns, not 3"),
        ([3], "has no column 3"),
    ],
)
def test_columns_that_cannot_be_features(table, names, message):
    with pytest.raises(ValueError, match=message):
        check_graph_columns(table, names, [("a SMILES column", "smiles"), ("the column of the split", None)])


def test_columns_that_say_nothing(table):
    rows = list(table)
    with pytest.raises(ValueError, match="Column 'empty' has no values"):
        kinds_of_columns(rows, ["empty"])
    with pytest.raises(ValueError, match="Column 'phase' is solid in every training row"):
        fit_columns([rows[0].cells, rows[2].cells], kinds_of_columns(rows, ["phase"]))
    many = [{"name": f"word {i}"} for i in range(1001)]
    with pytest.raises(ValueError, match="1001 different words, too many for categories"):
        fit_columns(many, (Column("name", ("",)),))
