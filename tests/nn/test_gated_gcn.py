"""GatedGCN: its formula, spelled out edge by edge."""

from __future__ import annotations

import torch
from batches import WIDTH, assert_same, first_state, make_batch, make_block, results
from torch import Tensor

from crawl.nn import Batch, GatedGCN, State


def normed(x: Tensor, norm: torch.nn.BatchNorm1d) -> Tensor:
    mean, var = x.mean(0), x.var(0, correction=0)
    return ((x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias).relu()


class Reference(GatedGCN):
    """The same weights in a loop over edges."""

    def forward(self, state: State, batch: Batch) -> State:
        h, e = state.nodes, state.edges
        gate_source, value = self.source.weight.split(WIDTH)
        heard = [self.own.weight @ row for row in h]
        sources, targets = batch.edge_index.tolist()
        gates = [
            gate_source @ h[u] + self.target.weight @ h[v] + self.edge.weight @ e[i]
            for i, (u, v) in enumerate(zip(sources, targets, strict=True))
        ]
        for v in range(len(h)):
            into = [i for i, target in enumerate(targets) if target == v]
            total = sum((gates[i].sigmoid() for i in into), torch.zeros(WIDTH)) + 1e-6
            for i in into:
                heard[v] = heard[v] + gates[i].sigmoid() / total * (value @ h[sources[i]])
        nodes = h + normed(torch.stack(heard), self.norm)
        return State(nodes, e + normed(torch.stack(gates), self.edge_norm), state.graphs)


def test_formula() -> None:
    block, batch = make_block("gated_gcn"), make_batch()
    reference = Reference(WIDTH)
    reference.load_state_dict(block.state_dict())
    assert_same(results(block, batch), results(reference, batch), 1e-10)


def test_gates_of_a_node_add_up_to_one() -> None:
    """With values of 1 and nothing of its own, a node with edges hears 1, the others 0."""
    block, batch = make_block("gated_gcn").double(), make_batch()
    heard: list[Tensor] = []
    block.norm.register_forward_hook(lambda module, inputs, output: heard.append(inputs[0]))
    state = first_state(batch, torch.float64)
    state = State(torch.cat([state.nodes[:, 1:], torch.ones(batch.num_nodes, 1)], 1), state.edges, state.graphs)
    with torch.no_grad():
        block.own.weight.zero_()
        block.source.weight[WIDTH:] = torch.eye(WIDTH)[-1:].expand(WIDTH, WIDTH)
        block(state, batch)
    expected = (batch.edges.count > 0).double().unsqueeze(1).expand(-1, WIDTH)
    torch.testing.assert_close(heard[0], expected, rtol=1e-4, atol=1e-4)
