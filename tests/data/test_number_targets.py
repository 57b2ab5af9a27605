"""Numbers in arrays give the targets that `targets_from_text` finds in text."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl.data.number_targets import targets_from_numbers
from crawl.data.targets import AnyKind, reason_of, targets_from_text, value_of

CELL = st.sampled_from(["0", "1", "1.0", "2", "3", "0.5", "-7", "", "nan", "[1]", "1e9", "1e-3"])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=12),
    st.integers(1, 2),
    st.sampled_from(["auto", "regression", "binary", "multiclass", "multilabel"]),
)
def test_it_is_what_text_gives(rows: list[tuple[str, str]], width: int, kind: AnyKind) -> None:
    names = ("a", "b")[:width]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    values = np.array([[np.nan if (v := value_of(cell)) is None else v for cell in row[:width]] for row in rows], float)
    found = targets_from_numbers(names, values, kind)
    try:
        task, y, problems = targets_from_text(columns, kind)
    except ValueError:
        assert found is None
        return
    assert found is not None
    assert found[0] == task
    assert torch.equal(found[1].nan_to_num(-1), y.nan_to_num(-1))
    assert found[1].dtype == y.dtype
    assert set(np.flatnonzero(~found[2])) == set(problems)
    for i, reason in problems.items():
        assert reason_of({name: columns[name][i] for name in names}, task.kind) == reason


def test_no_rows() -> None:
    assert targets_from_numbers(("a",), np.empty((0, 1))) is None
