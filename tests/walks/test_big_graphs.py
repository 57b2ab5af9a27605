"""Walks where 2^31 arcs and edges are not enough: the same as on a small graph, from rows far out in a sparse file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crawl import Graph, Walks, build_graph_file, compressed_rows, sample_walks
from crawl.walks.coverage import Seen
from crawl.walks.strategies import StepLaw

FAR = 2**31 + 10  # the first arc, and the first edge
LAWS: list[dict[str, Any]] = [
    {"strategy": "uniform"},
    {"strategy": "non_backtracking"},
    {"strategy": "non_backtracking", "centred": True},
    {"strategy": "node2vec", "p": 0.5, "q": 2.0},
    {"strategy": "depth_first"},
    {"strategy": "restart", "restart": 0.3},
]
each_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law['strategy']}{'-centred' * ('centred' in law)}")
each_weighting = pytest.mark.parametrize("is_weighted", [False, True], ids=["unweighted", "weighted"])


def small_graph(is_weighted: bool) -> Graph:
    """Nodes of many degrees, parallel edges, self-loops, an isolated node and a hub whose row is searched."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(30, (2, 120), generator=generator)
    edge_index = torch.cat([edge_index, torch.stack([torch.full((80,), 3), torch.arange(80)])], dim=1)
    weight = torch.rand(200, generator=generator) + 0.01 if is_weighted else None
    return Graph.from_edge_index(edge_index, 81, edge_weight=weight, undirected=True)


def far_away(folder: Path, values: Tensor) -> Tensor:
    """The values from place FAR on, after zeros in a sparse file, of which few pages are stored."""
    path = folder / f"{len(list(folder.iterdir()))}.numbers"
    array = np.memmap(path, values.numpy().dtype, "w+", shape=(FAR + values.numel() + 16,))
    array[FAR : FAR + values.numel()] = values.numpy()
    return torch.from_numpy(array)


@pytest.fixture
def graphs(tmp_path: Path, is_weighted: bool) -> tuple[Graph, Graph]:
    """A graph, and the same with arcs and edges that are counted from FAR on."""
    small = small_graph(is_weighted)
    big = replace(
        small,
        rowptr=small.rowptr.long() + FAR,
        col=far_away(tmp_path, small.col),
        edge_id=far_away(tmp_path, small.edge_id.long() + FAR),
        cum_weight=None if small.cum_weight is None else far_away(tmp_path, small.cum_weight),
        num_edges=small.num_edges + FAR,
    )
    stored = sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())
    assert stored < 2**20 < FAR
    return small, big


def assert_far(walks: tuple[Tensor, ...], expected: Walks) -> None:
    nodes, edges, code = walks
    assert torch.equal(nodes, expected.nodes)
    assert edges.dtype == torch.int64
    assert torch.equal(edges, expected.edges.long() + FAR)
    assert torch.equal(code, expected.code)


@each_law
@each_weighting
@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_walks_are_the_same(graphs: tuple[Graph, Graph], law: dict[str, Any], backend: str) -> None:
    small, big = graphs
    start = torch.tensor([3, 3, 3, 0, 5, 29, 70, 12])
    arguments: dict[str, Any] = {"num_steps": 12, "window_size": 5, "start": start, "seed": 4, **law}
    expected = sample_walks(small, **arguments)
    walks = sample_walks(big, backend=backend, **arguments)
    assert_far((walks.nodes, walks.edges, walks.code), expected)
    assert walks.num_edges == big.num_edges
    if law["strategy"] != "restart":
        again = Walks.from_nodes(big, walks.nodes, 5, walks.edges)
        assert_far((again.nodes, again.edges, again.code), expected)


@each_law
@each_weighting
def test_triton_walks_are_the_same(
    graphs: tuple[Graph, Graph], law: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("the whole file would have to be on the GPU")
    from triton.runtime.interpreter import GridExecutor

    from crawl.walks import gpu

    # It copies all arguments back to where they came from, which is where they are.
    monkeypatch.setattr(GridExecutor, "_restore_args_dev", lambda *_: None)
    small, big = graphs
    start, keys = torch.tensor([3, 3, 0, 5, 29, 70], dtype=torch.int32), torch.arange(6)
    expected = sample_walks(small, 7, start=start, window_size=4, seed=4, keys=keys, **law)
    assert_far(gpu.sample(big, start, keys, 7, StepLaw.named(**law), 4, 4), expected)


@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_walks_on_a_file_are_those_in_memory(tmp_path: Path, backend: str) -> None:
    graph = small_graph(is_weighted=False)
    edge_index = torch.stack([torch.repeat_interleave(graph.degree), graph.col])
    build_graph_file(edge_index, tmp_path / "graph.crawl", num_nodes=81)
    opened, expected = Graph.open(tmp_path / "graph.crawl"), Graph.from_edge_index(edge_index, 81)
    for law in (*LAWS, {"strategy": "min_degree"}, {"strategy": "min_degree_non_backtracking", "centred": True}):
        for start in (None, 0.3, torch.tensor([3, 0, 3])):
            walks = sample_walks(opened, 9, start=start, window_size=4, seed=2, num_walks=2, backend=backend, **law)
            wanted = sample_walks(expected, 9, start=start, window_size=4, seed=2, num_walks=2, **law)
            assert torch.equal(walks.nodes, wanted.nodes)
            assert torch.equal(walks.edges, wanted.edges)
            assert torch.equal(walks.code, wanted.code)
    assert torch.equal(opened.node_keys(torch.tensor([5])), expected.node_keys(torch.tensor([5])))
    assert [share.tolist() for share in wanted.coverage(opened)] == [s.tolist() for s in wanted.coverage(expected)]


@pytest.mark.parametrize("undirected", [True, False])
def test_pairs_that_numba_counts_are_those_of_torch(undirected: bool) -> None:
    for seed in range(30):
        generator = torch.Generator().manual_seed(seed)
        edge_index = torch.randint(12, (2, 30), generator=generator)
        edge_index = torch.cat([edge_index, torch.arange(12).expand(2, 12)], dim=1)
        batch = (torch.arange(13) > 6).long()
        edge_index = edge_index[:, batch[edge_index[0]] == batch[edge_index[1]]]
        graph = Graph.from_edge_index(edge_index, 13, batch=batch, undirected=undirected)
        seen = Seen(graph)
        seen.is_walked = torch.rand(graph.num_edges, generator=generator) < 0.3
        total, found = seen.pairs()
        assert torch.equal(seen.coverage().edges, found / total)


def test_arcs_that_do_not_lead_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba, torch and a search of all arcs find the first one, in parts and where rows begin far out."""
    monkeypatch.setattr(compressed_rows, "_PART", 7)
    num_found = 0
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        edge_index = torch.randint(9, (2, 25), generator=generator)
        edge_index = torch.cat([edge_index, edge_index.flip(0)[:, seed % 3 :], torch.arange(9).expand(2, 9)], dim=1)
        graph = Graph.from_edge_index(edge_index, 11)
        arcs = list(zip(torch.repeat_interleave(graph.degree).tolist(), graph.col.tolist(), strict=True))
        expected = next(((u, v) for u, v in arcs if (v, u) not in arcs), None)
        num_found += expected is not None
        far = graph.rowptr.long() + 5, torch.cat([graph.col.new_full((5,), 3), graph.col])
        for rowptr, col in ((graph.rowptr, graph.col), far):
            assert compressed_rows.one_way_arc(rowptr, col) == expected
            assert compressed_rows.one_way_arc_by_search(rowptr, col) == expected
    assert 10 < num_found < 50
    for empty in (
        Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 3),
        Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0),
    ):
        assert compressed_rows.one_way_arc(empty.rowptr, empty.col) is None
        assert compressed_rows.one_way_arc_by_search(empty.rowptr, empty.col) is None
