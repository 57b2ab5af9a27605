"""Graphs, stores and walks of any tensors at all: refused by us, or what comes out is a graph."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from crawl import Graph, Walks, sample_walks
from crawl.data import GraphStore
from tests.fuzz.oracle import judge_call

_DTYPES = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool,
           torch.float32, torch.float64, torch.float16, torch.complex64)  # fmt: skip
_IDS = st.integers(-2, 6) | st.sampled_from((2**31, 2**40))
_FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def tensors(draw: st.DrawFn, max_dim: int = 3) -> Tensor:
    """A small tensor of any shape, type and layout."""
    shape = draw(st.lists(st.integers(0, 4), max_size=max_dim))
    size = 1
    for length in shape:
        size *= length
    values = draw(st.lists(_IDS, min_size=size, max_size=size))
    whole = torch.tensor(values, dtype=torch.int64).reshape(shape)
    tensor = whole.to(draw(st.sampled_from(_DTYPES)))
    form = draw(st.sampled_from(("plain", "plain", "plain", "sparse", "meta", "transposed")))
    if form == "sparse" and tensor.dim():
        return whole.to_sparse()
    if form == "meta":
        return tensor.to("meta")
    return tensor.mT if form == "transposed" and tensor.dim() >= 2 else tensor


@st.composite
def edge_lists(draw: st.DrawFn) -> Tensor:
    """Edges that are nearly always fine, both ways."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
    ends = torch.tensor([*pairs, *((b, a) for a, b in pairs)], dtype=torch.int64).reshape(-1, 2).t()
    return ends.to(draw(st.sampled_from(_DTYPES[:7])))


anything = st.none() | st.booleans() | _IDS | st.floats() | st.text(max_size=3) | st.lists(_IDS, max_size=3) | tensors()


def answered(call: Any) -> Any:
    """The result of a call; None if it is refused. Any other outcome is a failure."""
    kind, outcome = judge_call(call, 20)
    assert kind != "failed", outcome
    return outcome if kind == "result" else None


@_FEW
@given(tensors() | edge_lists(), st.none() | anything, st.none() | tensors(1), st.none() | tensors(1), st.booleans())
def test_graphs(edge_index: Tensor, num_nodes: Any, weight: Any, batch: Any, undirected: bool) -> None:
    num_nodes = None if isinstance(num_nodes, int) and num_nodes > 100 else num_nodes
    graph = answered(
        lambda: Graph.from_edge_index(edge_index, num_nodes, edge_weight=weight, batch=batch, undirected=undirected)
    )
    if graph is not None:
        assert graph.rowptr[-1] == graph.num_arcs >= graph.num_edges
        assert graph.graph_ptr[-1] == graph.num_nodes
        assert not graph.num_arcs or 0 <= int(graph.col.min()) <= int(graph.col.max()) < graph.num_nodes


@_FEW
@given(
    st.lists(st.tuples(edge_lists(), st.none() | tensors(), st.none() | tensors(), st.none() | tensors(2)), max_size=3),
    anything,
)
def test_stores(parts: list[tuple[Any, ...]], ids: Any) -> None:
    graphs = [Data(edge_index=edges, x=x, edge_attr=edge_attr, y=y, num_nodes=6) for edges, x, edge_attr, y in parts]
    store = answered(lambda: GraphStore.from_graphs(graphs))
    if store is not None:
        assert len(store) == len(graphs)
        batch = answered(lambda: store.batch(ids))
        if batch is not None:
            assert batch.num_nodes == 6 * len(batch.graph_ids)


@_FEW
@given(edge_lists(), anything, anything, st.integers(0, 40), anything, anything)
def test_walks(edge_index: Tensor, num_steps: Any, start: Any, window_size: int, seed: Any, keys: Any) -> None:
    graph = Graph.from_edge_index(edge_index, num_nodes=6)
    num_steps = 5 if isinstance(num_steps, int) and num_steps > 100 else num_steps
    walks = answered(lambda: sample_walks(graph, num_steps, start=start, window_size=window_size, seed=seed, keys=keys))
    if walks is not None:
        again = Walks.from_nodes(graph, walks.nodes, walks.window_size)  # every step is an edge
        assert torch.equal(again.code, walks.code)
