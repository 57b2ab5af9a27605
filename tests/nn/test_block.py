"""Blocks side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import WIDTH, first_state, make_batch, make_block

from crawl.nn import Batch, Block, BlockSettings, Parallel, State


class Add(Block):
    """Adds a number to what it is told to."""

    uses_walks = sees_edges = False

    def __init__(self, number: float, name: str = "nodes") -> None:
        super().__init__()
        self.number, self.name, self.changes_edges = number, name, name == "edges"

    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, **{self.name: getattr(state, self.name) + self.number})


class Narrow(Block):
    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, nodes=state.nodes[:, :2])


def test_parallel_adds_the_changes() -> None:
    batch = make_batch()
    state = first_state(batch, torch.float64)
    after = Parallel(Add(1), Add(2), Add(4, "edges"), Add(8, "graphs"))(state, batch)
    for value, before, change in (
        (after.nodes, state.nodes, 3),
        (after.edges, state.edges, 4),
        (after.graphs, state.graphs, 8),
    ):
        torch.testing.assert_close(value, before + change)


def test_parallel_blocks_read_the_same_state() -> None:
    batch, blocks = make_batch(), [make_block("gcn").double(), make_block("attention").double()]
    state = first_state(batch, torch.float64)
    changes = [block(state, batch).nodes - state.nodes for block in blocks]
    torch.testing.assert_close(Parallel(*blocks)(state, batch).nodes, state.nodes + sum(changes))


def test_parallel_says_what_its_blocks_read() -> None:
    quiet, loud = Parallel(Add(1), Add(2)), Parallel(Add(1, "edges"), make_block("gru"))
    assert (quiet.uses_walks, quiet.sees_edges, quiet.changes_edges) == (False, False, False)
    assert quiet.why_not_captured is None
    slow = Add(3)
    slow.why_not_captured = "it is slow"
    assert Parallel(Add(1), slow).why_not_captured == "it is slow"
    assert (loud.uses_walks, loud.sees_edges, loud.changes_edges) == (True, True, True)


def test_parallel_refuses_what_does_not_add_up() -> None:
    batch = make_batch()
    state = first_state(batch, torch.float64)
    with pytest.raises(ValueError, match=rf"\[14, {WIDTH}\] to \[14, 2\].*width of the network"):
        Parallel(Add(1), Narrow())(state, batch)
    with pytest.raises(ValueError, match=r"Parallel needs blocks, not \[\]"):
        Parallel()


def test_a_block_without_forward_or_build_says_so() -> None:
    batch = make_batch()
    with pytest.raises(NotImplementedError, match=r"Block .*write its forward"):
        Block()(first_state(batch, torch.float64), batch)
    with pytest.raises(NotImplementedError, match=r"Add .*give the object"):
        Add.build(BlockSettings(WIDTH, WIDTH))
