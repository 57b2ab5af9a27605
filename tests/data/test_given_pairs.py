"""Pairs of nodes in all forms that people have them in."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crawl.data.given_pairs import pair_ids


def test_all_forms_are_the_same_pairs() -> None:
    for pairs in (
        [(0, 1), [5, 3]],
        ((0, 1), (5, 3)),
        np.array([[0, 1], [5, 3]], dtype=np.int32),
        torch.tensor([[0, 1], [5, 3]], dtype=torch.uint8),
        [torch.tensor([0, 1]), (torch.tensor(5), np.int64(3))],
    ):
        found = pair_ids(pairs)
        assert (found.dtype, found.tolist()) == (torch.int64, [[0, 1], [5, 3]])
    assert pair_ids([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(0, 1), (2, 2)], r"^A link is between two different nodes, but pairs\[1\] names one twice\.$"),
        (torch.tensor([[0, 1, 2], [1, 2, 3]]), r"\[n, 2\] integers, .* Of edge_label_index, give the transpose\.$"),
        ([(0, "b")], r"^pairs\[0\] must be two numbers of nodes, not \(0, 'b'\)\.$"),
        ([(0, 1, 2)], r"^pairs\[0\] must be two nodes of the graph, not \(0, 1, 2\)\.$"),
    ],
)
def test_what_are_no_pairs_is_refused(pairs: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pair_ids(pairs)  # type: ignore[arg-type]
