"""The walk convolution as a block: pooling into edges, and padding."""

from __future__ import annotations

import pytest
import torch
from batches import WIDTH, WINDOW, assert_same, make_batch, make_block, results, with_uneven_norms
from torch import Tensor, nn

from crawl import Network
from crawl.nn import Batch, BlockSettings, CRaWlConv, State, WalkBlock, WalkEdgeBlock


def normed(rows: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    rows = (rows - rows.mean(0)) / (rows.var(0, correction=0) + norm.eps).sqrt()
    return rows * norm.weight + norm.bias


def mean(rows: list[Tensor]) -> Tensor:
    return sum(rows) / len(rows) if rows else torch.zeros(WIDTH, dtype=torch.float64)


class Reference(WalkEdgeBlock):
    """The same weights in a loop over the windows of each walk."""

    def forward(self, state: State, batch: Batch) -> State:
        conv, walks = self.conv, batch.walks
        half = conv.kernel_size // 2
        windows, at_node, at_edge = [], {}, {}
        for features, nodes, edges in zip(
            conv.walk_features(state.nodes, walks, state.edges), walks.nodes.tolist(), walks.edges.tolist(), strict=True
        ):
            along = features @ conv.project.weight.squeeze(2).t()
            for centre in range(len(nodes)) if conv.padding else range(half, len(nodes) - half):
                seen = [i for i in range(centre - half, centre + half + 1) if 0 <= i < len(nodes)]
                at_node.setdefault(nodes[centre], []).append(len(windows))
                if centre:
                    at_edge.setdefault(edges[centre - 1], []).append(len(windows))
                windows.append(sum(conv.depthwise.weight[:, 0, i - centre + half] * along[i] for i in seen))
        out = (normed(torch.stack(windows), conv.norm).relu() @ conv.mix.weight.squeeze(2).t()).relu()
        of_nodes = torch.stack([mean([out[i] for i in at_node.get(v, [])]) for v in range(batch.num_nodes)])
        of_edges = torch.stack([mean([out[i] for i in at_edge.get(e, [])]) for e in range(batch.num_edges)])
        first, norm, _, last = conv.update
        nodes = state.nodes + normed(of_nodes @ first.weight.t(), norm).relu() @ last.weight.t()
        return State(nodes, state.edges + of_edges @ self.to_edge.weight.t(), state.graphs)


@pytest.mark.parametrize("padding", [False, True])
def test_formula(padding: bool) -> None:
    torch.manual_seed(0)
    settings = BlockSettings(WIDTH, WIDTH, WIDTH, window_size=WINDOW, padding=padding)
    block, reference = with_uneven_norms(WalkEdgeBlock.build(settings)), Reference.build(settings)
    reference.load_state_dict(block.state_dict())
    batch = make_batch(num_steps=7)
    assert_same(results(block, batch), results(reference, batch), 1e-10)


def test_nodes_are_those_of_the_block_that_does_not_pool_into_edges() -> None:
    block, batch = make_block("walk_edges"), make_batch()
    found, expected = results(block, batch), results(WalkBlock(block.conv), batch)
    assert torch.equal(found["nodes"], expected["nodes"])
    assert not torch.equal(found["edges"], expected["edges"])


def test_a_network_passes_padding_on_and_makes_edges() -> None:
    settings = {"num_layers": 2, "hidden_channels": WIDTH, "window_size": WINDOW, "num_steps": 2, "num_eval_steps": 2}
    model = Network(WIDTH, 1, layer=("walk_edges",), edge_dim=0, padding=True, **settings)
    assert [block.conv.padding for block in model.blocks] == [True, True]
    batch = make_batch(num_steps=2)  # walks that are shorter than one window
    plain = Network(WIDTH, 1, layer=("walk_edges",), edge_dim=0, **settings)
    plain.load_state_dict(model.state_dict())
    model(Batch(**{**vars(batch), "edge_attr": None})).sum().backward()
    assert model.blocks[0].to_edge.weight.grad.any()  # the second layer sees what the first made of edges
    with pytest.raises(ValueError, match=r"2 steps .*5 nodes.*padding=True"):
        plain(Batch(**{**vars(batch), "edge_attr": None}))


def test_a_block_object_may_have_padding() -> None:
    block = WalkBlock(CRaWlConv(WIDTH, WIDTH, edge_dim=WIDTH, window_size=WINDOW, padding=True))
    model = Network(WIDTH, 1, layers=[block], hidden_channels=WIDTH, edge_dim=WIDTH, window_size=WINDOW)
    assert model(make_batch(num_steps=2)).shape == (make_batch().num_graphs, 1)
