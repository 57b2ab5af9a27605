"""The GRU along walks: its formula, walk by walk and gate by gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import WIDTH, WINDOW, assert_same, first_state, make_batch, results, with_uneven_norms
from torch_geometric.data import Data

from crawl import Network
from crawl.nn import Batch, State, WalkGRU

STEPS = 5


class Reference(WalkGRU):
    """The same weights, position by position."""

    def forward(self, state: State, batch: Batch) -> State:
        walks, bits = batch.walks, batch.walks.bits()
        at_nodes = [[] for _ in range(batch.num_nodes)]
        at_edges = [[] for _ in range(batch.num_edges)]
        for walk in range(len(walks)):
            hidden = torch.zeros(WIDTH, dtype=state.nodes.dtype)
            for i, node in enumerate(walks.nodes[walk].tolist()):
                x = self.node.weight @ state.nodes[node]
                edge = int(walks.edges[walk, i - 1]) if i else None
                if edge is not None and self.edge is not None:
                    x = x + self.edge.weight @ state.edges[edge]
                for j in range(bits.shape[2]):
                    if bits[walk, i, j] and self.is_used[j]:
                        x = x + self.bits[j]
                hidden = self.step(x, hidden)
                at_nodes[node].append(hidden)
                if edge is not None:
                    at_edges[edge].append(hidden)
        rows = pooled(at_nodes) @ self.first.weight.t()
        rows = (rows - rows.mean(0)) / (rows.var(0, correction=0) + self.norm.eps).sqrt()
        rows = (rows * self.norm.weight + self.norm.bias).relu()
        edges = state.edges + pooled(at_edges) @ self.to_edge.weight.t() if self.changes_edges else state.edges
        return State(state.nodes + rows @ self.last.weight.t(), edges, state.graphs)

    def step(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        reset_x, update_x, new_x = (self.gru.weight_ih_l0 @ x + self.gru.bias_ih_l0).split(WIDTH)
        reset_h, update_h, new_h = (self.gru.weight_hh_l0 @ hidden + self.gru.bias_hh_l0).split(WIDTH)
        reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
        return (1 - update) * (new_x + reset * new_h).tanh() + update * hidden


def pooled(rows: list[list[torch.Tensor]]) -> torch.Tensor:
    zero = torch.zeros(WIDTH, dtype=torch.float64)
    return torch.stack([sum(heard, zero) / max(len(heard), 1) for heard in rows])


@pytest.mark.parametrize(
    "options",
    [{}, {"edge_channels": WIDTH}, {"pools_edges": True}, {"bits": (True, False)}, {"bits": (False, True)}],
    ids=str,
)
def test_formula(options: dict) -> None:
    torch.manual_seed(0)
    batch = make_batch(num_steps=STEPS)
    block = with_uneven_norms(WalkGRU(WIDTH, window_size=WINDOW, **options))
    reference = Reference(WIDTH, window_size=WINDOW, **options)
    reference.load_state_dict(block.state_dict())
    assert_same(results(block, batch), results(reference, batch), 1e-10)


def test_a_network_tells_which_bits_are_used() -> None:
    model = Network(1, 1, layer=("gru",), num_layers=1, hidden_channels=4, window_size=3, identity=False)
    assert model.blocks[0].is_used.flatten().tolist() == [False] * 3 + [True] * 2
    without = Network(1, 1, layer=("gru",), num_layers=1, hidden_channels=4, window_size=0)
    assert without.blocks[0].bits.shape == (0, 4)


def test_no_walks() -> None:
    block, batch = WalkGRU(WIDTH, WIDTH, WINDOW, pools_edges=True), make_batch()
    walks = batch.walks
    none = replace(walks, nodes=walks.nodes[:0], edges=walks.edges[:0], code=walks.code[:0])
    state = first_state(batch, torch.float32)
    after = block(state, replace(batch, walks=none))
    assert after.nodes.isfinite().all()
    assert torch.equal(after.edges, state.edges)


def test_walks_with_another_window_are_refused() -> None:
    batch = make_batch()
    with pytest.raises(ValueError, match=r"7 bits .*shape \[11, 8\].*window_size"):
        WalkGRU(WIDTH, window_size=6)(first_state(batch, torch.float32), batch)


def test_walks_that_jump_need_their_row() -> None:
    model = Network(1, 1, layer=("gru",), num_layers=1, hidden_channels=4, strategy="restart", num_eval_steps=9)
    data = Data(edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), num_nodes=3)
    model.train()(data, seed=1).sum().backward()
    assert bool((model.blocks[0].jump.grad != 0).any())
    model = Network(1, 1, layers=(WalkGRU(4),), hidden_channels=4, strategy="restart")
    with pytest.raises(ValueError, match="These walks jump, so give WalkGRU jumps=True"):
        model(data)
