"""The edge update: its formula, spelled out edge by edge."""

from __future__ import annotations

import torch
from batches import WIDTH, assert_same, make_batch, make_block, results

from crawl.nn import Batch, EdgeUpdate, State


class Reference(EdgeUpdate):
    """The same weights in a loop over edges."""

    def forward(self, state: State, batch: Batch) -> State:
        rows = [
            self.source.weight @ state.nodes[u]
            + self.target.weight @ state.nodes[v]
            + self.edge.weight @ state.edges[i]
            for i, (u, v) in enumerate(batch.edge_index.t().tolist())
        ]
        rows = torch.stack(rows)
        rows = (rows - rows.mean(0)) / (rows.var(0, correction=0) + self.norm.eps).sqrt()
        change = (rows * self.norm.weight + self.norm.bias).relu()
        return State(state.nodes, state.edges + change, state.graphs)


def test_formula() -> None:
    block, batch = make_block("edge_update"), make_batch()
    reference = Reference(WIDTH)
    reference.load_state_dict(block.state_dict())
    assert_same(results(block, batch), results(reference, batch), 1e-10)
