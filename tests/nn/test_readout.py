"""The readout: its formula, spelled out graph by graph, and its refusals."""

import pytest
import torch
from torch import Tensor, nn

from crawl import Readout, Segments

BATCH = torch.tensor([0, 0, 1, 3, 3, 3], dtype=torch.int32)  # graph 2 has no nodes
MEMBERS = Segments.of(BATCH, 4)


def make_readout(**options: object) -> Readout:
    torch.manual_seed(0)
    readout = Readout(3, 2, **options)
    for tensor in (readout.norm.weight, readout.norm.bias, readout.norm.running_mean):
        nn.init.normal_(tensor)
    return readout


def pooled_by_hand(rows: Tensor, pool: str | None) -> Tensor:
    if pool is None:
        return rows
    graphs = []
    for g in range(4):
        members = [rows[v] for v in range(6) if BATCH[v] == g]
        total = sum(members, torch.zeros(3))
        graphs.append(total / max(len(members), 1) if pool == "mean" else total)
    return torch.stack(graphs)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("head", ["mlp", "linear"])
@pytest.mark.parametrize("pool", ["sum", "mean", None])
def test_formula(pool: str | None, head: str, training: bool) -> None:
    readout = make_readout(pool=pool, head=head).train(training)
    x, norm = torch.randn(6, 3), readout.norm
    mean, var = (x.mean(0), x.var(0, correction=0)) if training else (norm.running_mean, norm.running_var)
    rows = ((x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias).relu()
    expected = pooled_by_hand(rows, pool)
    for layer in [readout.head] if head == "linear" else [readout.head[0], nn.ReLU(), readout.head[2]]:
        expected = layer(expected) if isinstance(layer, nn.ReLU) else expected @ layer.weight.t() + layer.bias
    torch.testing.assert_close(readout(x, MEMBERS), expected)


@pytest.mark.parametrize(("head", "expected"), [("linear", 2 * 3 + 3 * 2 + 2), ("mlp", 2 * 3 + 3 * 3 + 3 + 3 * 2 + 2)])
def test_parameters(head: str, expected: int) -> None:
    assert sum(parameter.numel() for parameter in make_readout(head=head).parameters()) == expected


def test_a_graph_without_nodes_pools_to_zero() -> None:
    readout = make_readout(pool="mean")
    x = torch.randn(6, 3)
    torch.testing.assert_close(readout(x, MEMBERS)[2], readout.head(torch.zeros(3)))
    torch.testing.assert_close(readout(x, Segments.of(BATCH, 5))[4], readout.head(torch.zeros(3)))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("pool", ["sum", "mean", None])
@pytest.mark.parametrize(("num_nodes", "num_graphs"), [(0, 0), (0, 1), (1, 1), (0, 2)])
def test_tiny_batches(num_nodes: int, num_graphs: int, pool: str | None, training: bool) -> None:
    batch = torch.zeros(num_nodes, dtype=torch.int32)
    out = make_readout(pool=pool).train(training)(torch.randn(num_nodes, 3), Segments.of(batch, num_graphs))
    assert out.shape == (num_nodes if pool is None else num_graphs, 2)
    assert out.isfinite().all()


@pytest.mark.parametrize("pool", ["sum", "mean", None])
def test_dropout_is_before_the_head(pool: str | None) -> None:
    readout = make_readout(pool=pool, dropout=1.0)
    x = torch.randn(6, 3)
    out = readout(x, MEMBERS)
    torch.testing.assert_close(out, readout.head(torch.zeros_like(pooled_by_hand(x, pool))))
    assert not torch.allclose(readout.eval()(x, MEMBERS)[0], out[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "max"}, r"pool must be one of sum, mean, None, not 'max'"),
        ({"head": "conv"}, "head must be one of mlp, linear, not 'conv'"),
    ],
)
def test_bad_readouts_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Readout(3, 2, **options)
