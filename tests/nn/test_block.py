"""Blocks side by side, and what a network says of blocks that are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import WIDTH, first_state, make_batch, make_block
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, GraphConv

from crawl import Network
from crawl.nn import Batch, Block, BlockSettings, Parallel, State, from_pyg


def cycle(size: int) -> Data:
    nodes = torch.arange(size)
    return Data(edge_index=torch.stack([nodes, nodes.roll(-1)]), num_nodes=size)


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
    assert (quiet.changes_nodes, Parallel(make_block("edge_update")).changes_nodes) == (True, False)
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


class NewEdges(Block):
    """Makes edges where there are none."""

    uses_walks = False

    def __init__(self, value: float, width: int = 2) -> None:
        super().__init__()
        self.value, self.width = value, width

    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, edges=torch.full((batch.num_edges, self.width), self.value))


def test_parallel_adds_edges_where_there_were_none() -> None:
    batch = make_batch()
    state = replace(first_state(batch, torch.float64), edges=None)
    assert Parallel(NewEdges(1), Add(1), NewEdges(2))(state, batch).edges.unique().tolist() == [3]
    with pytest.raises(ValueError, match="changes the shape of the state"):
        Parallel(NewEdges(1), NewEdges(2, 3))(state, batch)


class Bare(Block):
    uses_walks = False

    def forward(self, state: State, batch: Batch) -> torch.Tensor:
        return state.nodes


class Wide(Block):
    uses_walks = False

    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, nodes=torch.cat([state.nodes, state.nodes], 1))


class Walking(Block):
    uses_walks = False

    def forward(self, state: State, batch: Batch) -> State:
        return replace(state, nodes=state.nodes + batch.walks.mean_at_nodes(batch.walks.gather(state.nodes)))


class Wrong(Block):
    uses_walks = False

    def forward(self, state: State, batch: Batch) -> State:
        return self.gather(state)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Bare(), r"^Bare must return a State, such as replace\(state, nodes=…\), not a tensor"),
        (Wide(), r"^Wide must return nodes of shape \[9, 4\], .* shape \[9, 8\]"),
        (Walking(), r"^Walking reads walks, but has uses_walks=False: set it to True\.$"),
    ],
)
@pytest.mark.parametrize("after", [[], ["gin"], [("gin", "gcn")], [from_pyg(GraphConv(4, 4))]], ids=str)
def test_what_a_block_does_wrong_is_said_with_its_name(block: Block, message: str, after: list) -> None:
    data = cycle(9)
    with pytest.raises(ValueError, match=message):
        Network(1, 1, layers=[block, *after], hidden_channels=4, edge_dim=None)(data)
    if not isinstance(block, Wide):
        with pytest.raises(ValueError, match=message):
            Network(1, 1, layers=[Parallel(Add(1), block), *after], hidden_channels=4, edge_dim=None)(data)


def test_widths_may_change_between_blocks_that_say_so() -> None:
    blocks = [from_pyg(GraphConv(4, 6)), from_pyg(GINConv(nn.Linear(6, 6))), Parallel(from_pyg(GraphConv(6, 6)))]
    model = Network(1, 1, layers=[*blocks, from_pyg(GraphConv(6, 4))], hidden_channels=4, edge_dim=None)
    assert model(cycle(9)).shape == (1, 1)


def test_other_errors_of_a_block_stay_as_they_are() -> None:
    with pytest.raises(AttributeError, match="'Wrong' object has no attribute 'gather'"):
        Network(1, 1, layers=[Wrong()], hidden_channels=4, edge_dim=None)(cycle(9))
