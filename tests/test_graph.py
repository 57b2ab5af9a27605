"""What a `Graph` means at its edges, and what it refuses."""

import copy
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData

from crawl import Graph, sample_walks

TRIANGLE = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def edge_index(*edges: tuple[int, int]) -> Tensor:
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()


def arcs(graph: Graph) -> list[tuple[int, int, int]]:
    """(source, target, column) of every arc, in the graph's order."""
    source = torch.repeat_interleave(graph.degree.long())
    return list(zip(source.tolist(), graph.col.tolist(), graph.edge_id.tolist(), strict=True))


def weights(graph: Graph, node: int) -> Tensor:
    """The chance of each arc of a node."""
    row = graph.cum_weight[graph.rowptr[node] : graph.rowptr[node + 1]].double()
    return torch.diff(row, prepend=torch.zeros(1, dtype=torch.float64)) / row[-1]


def assert_same(graph: Graph, expected: Graph) -> None:
    for name, value in vars(expected).items():
        found = getattr(graph, name)
        if isinstance(value, Tensor):
            assert torch.equal(found, value), name
            assert found.dtype == value.dtype, name
        else:
            assert found == value, name


# The rows


def test_unsorted_edges_become_sorted_rows_that_remember_their_columns() -> None:
    graph = Graph.from_edge_index(TRIANGLE)
    assert graph.rowptr.tolist() == [0, 2, 4, 6]
    assert graph.col.tolist() == [1, 2, 0, 2, 0, 1]
    assert graph.edge_id.tolist() == [0, 5, 3, 1, 2, 4]
    assert (graph.num_nodes, graph.num_edges, graph.num_arcs, graph.num_graphs) == (3, 6, 6, 1)
    assert graph.degree.tolist() == [2, 2, 2]
    assert not graph.is_weighted
    assert graph.device == torch.device("cpu")
    assert graph.batch.tolist() == [0, 0, 0]
    assert graph.graph_ptr.tolist() == [0, 3]
    tensors = (graph.rowptr, graph.col, graph.edge_id, graph.batch, graph.graph_ptr, graph.degree)
    assert {tensor.dtype for tensor in tensors} == {torch.int32}


@pytest.mark.parametrize("undirected", [False, True])
@settings(max_examples=60, deadline=None)
@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_arcs_are_the_edges_sorted_by_source_target_and_column(undirected: bool, edges: list[tuple[int, int]]) -> None:
    if not undirected:
        edges = edges + [(v, v) for v in {v for _, v in edges}]  # no dead ends
    expected = [(u, v, column) for column, (u, v) in enumerate(edges)]
    if undirected:
        expected += [(v, u, column) for column, (u, v) in enumerate(edges) if (v, u) not in edges]
    graph = Graph.from_edge_index(edge_index(*edges), num_nodes=6, undirected=undirected)
    assert arcs(graph) == sorted(expected)
    assert graph.num_edges == len(edges)


def test_parallel_edges_are_separate_arcs() -> None:
    graph = Graph.from_edge_index(edge_index((1, 0), (0, 1), (1, 0), (0, 1)))
    assert arcs(graph) == [(0, 1, 1), (0, 1, 3), (1, 0, 0), (1, 0, 2)]


def test_a_directed_graph_needs_no_reverse_arcs() -> None:
    graph = Graph.from_edge_index(edge_index((0, 1), (1, 2), (2, 0), (3, 0)))
    assert arcs(graph) == [(0, 1, 0), (1, 2, 1), (2, 0, 2), (3, 0, 3)]


def test_undirected_adds_only_what_is_missing() -> None:
    graph = Graph.from_edge_index(edge_index((2, 2), (0, 1), (0, 1), (1, 2), (2, 1), (1, 2)), undirected=True)
    assert arcs(graph) == [
        (0, 1, 1),
        (0, 1, 2),
        (1, 0, 1),  # both arcs of an edge listed once carry its column
        (1, 0, 2),
        (1, 2, 3),
        (1, 2, 5),
        (2, 1, 4),  # listed, though only once: nothing is added
        (2, 2, 0),  # a self-loop is its own reverse
    ]
    assert graph.num_edges == 6


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.int64])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
def test_any_integer_type_and_memory_layout(dtype: torch.dtype, layout: str) -> None:
    given = TRIANGLE.to(dtype)
    if layout == "transposed":
        given = given.t().contiguous().t()
    if layout == "strided":
        given = given.repeat_interleave(2, dim=1)[:, ::2]
    batch = torch.zeros(6, dtype=dtype)[::2]
    graph = Graph.from_edge_index(given, batch=batch)
    assert_same(graph, Graph.from_edge_index(TRIANGLE))
    assert all(value.is_contiguous() for value in vars(graph).values() if isinstance(value, Tensor))


def test_the_graph_shares_no_memory_with_its_input() -> None:
    given, batch = TRIANGLE.int(), torch.zeros(3, dtype=torch.int32)
    weight = torch.ones(6)
    graph = Graph.from_edge_index(given, batch=batch, edge_weight=weight)
    before = copy.deepcopy(graph)
    for tensor in (given, batch, weight):
        tensor.fill_(2)
    assert_same(graph, before)


# Few nodes, no edges


@pytest.mark.parametrize("given", [NO_EDGES, torch.tensor([[], []]), torch.tensor([]), torch.empty(0, 2)])
@pytest.mark.parametrize("num_nodes", [None, 0, 1, 3])
def test_no_edges(given: Tensor, num_nodes: int | None) -> None:
    graph = Graph.from_edge_index(given, num_nodes)
    assert (graph.num_nodes, graph.num_edges, graph.num_arcs, graph.num_graphs) == (num_nodes or 0, 0, 0, 1)
    assert graph.degree.tolist() == [0] * (num_nodes or 0)


def test_no_edges_with_weights() -> None:
    graph = Graph.from_edge_index(NO_EDGES, 2, edge_weight=torch.empty(0))
    assert graph.is_weighted
    assert graph.cum_weight.tolist() == []


@pytest.mark.parametrize("undirected", [False, True])
def test_one_node_with_a_self_loop(undirected: bool) -> None:
    graph = Graph.from_edge_index(edge_index((0, 0)), undirected=undirected)
    assert arcs(graph) == [(0, 0, 0)]


def test_isolated_nodes_have_empty_rows() -> None:
    assert Graph.from_edge_index(edge_index((1, 3), (3, 1)), num_nodes=6).degree.tolist() == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("num_nodes", [3, np.int64(3), torch.tensor(3)], ids=["int", "numpy", "torch"])
def test_any_kind_of_integer_is_a_number_of_nodes(num_nodes: Any) -> None:
    graph = Graph.from_edge_index(TRIANGLE, num_nodes)
    assert type(graph.num_nodes) is int
    assert graph.num_nodes == 3


# Batches


def test_batch_with_empty_graphs() -> None:
    batch = torch.tensor([1, 1, 3])
    graph = Graph.from_edge_index(edge_index((0, 1), (1, 0)), batch=batch, num_graphs=6)
    assert graph.graph_ptr.tolist() == [0, 0, 2, 2, 3, 3, 3]
    assert graph.batch.tolist() == [1, 1, 3]
    assert (graph.num_graphs, graph.num_nodes) == (6, 3)
    assert Graph.from_edge_index(NO_EDGES, batch=batch).num_graphs == 4


def test_batch_of_no_nodes() -> None:
    none = torch.empty(0, dtype=torch.long)
    assert Graph.from_edge_index(NO_EDGES, batch=none).num_graphs == 0
    assert Graph.from_edge_index(NO_EDGES, batch=none, num_graphs=2).graph_ptr.tolist() == [0, 0, 0]


def test_node_keys_do_not_depend_on_the_batch() -> None:
    graph = Graph.from_edge_index(NO_EDGES, batch=torch.tensor([0, 0, 2]))
    assert graph.node_keys().tolist() == [0, 1, 2 << 32]
    assert graph.node_keys(torch.tensor([7, 0, 2**31 - 1])).tolist() == [7 << 32, (7 << 32) + 1, (2**31 - 1) << 32]
    assert graph.node_keys(torch.tensor([7, 0, 5], dtype=torch.int32)).dtype == torch.int64


def test_keys_of_data_are_kept() -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), batch=torch.tensor([0, 0, 1, 1]))
    assert Graph.from_data(data).graph_keys is None
    data.graph_keys = torch.tensor([7, 5])
    graph = Graph.from_data(data)
    assert graph.node_keys().tolist() == [7 << 32, (7 << 32) + 1, 5 << 32, (5 << 32) + 1]
    for share in (None, 0.5):
        found = sample_walks(graph, num_steps=9, start=share)
        expected = sample_walks(replace(graph, graph_keys=None), num_steps=9, start=share, keys=graph.node_keys())
        assert torch.equal(found.nodes, expected.nodes)


@pytest.mark.parametrize(
    ("graph_ids", "message"),
    [
        (torch.tensor([1]), "graph_ids must be a tensor of 2 integers"),
        (torch.tensor([0.0, 1.0]), "graph_ids must be a tensor of 2 integers"),
        ([0, 1], "graph_ids must be a tensor of 2 integers"),
        (torch.tensor([0, -1]), "from 0 to 2147483647"),
        (torch.tensor([0, 2**32]), "from 0 to 2147483647"),
    ],
)
def test_node_keys_refuses(graph_ids: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.from_edge_index(NO_EDGES, batch=torch.tensor([0, 1])).node_keys(graph_ids)


# Weights


def test_chances_are_in_proportion_to_the_weights() -> None:
    weight = torch.tensor([1.0, 3.0, 4.0, 2.0], requires_grad=True)
    graph = Graph.from_edge_index(edge_index((0, 2), (0, 1), (0, 2), (1, 2)), edge_weight=weight, undirected=True)
    assert graph.is_weighted
    assert not graph.cum_weight.requires_grad
    exact = {0: [3, 1, 4], 1: [3, 2], 2: [1, 4, 2]}  # the arcs of node 2 lead to 0, 0, 1
    for node, row in exact.items():
        expected = torch.tensor(row, dtype=torch.float64) / sum(row)
        torch.testing.assert_close(weights(graph, node), expected, rtol=0, atol=2**-30)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e300])
def test_only_the_ratio_of_weights_matters(scale: float) -> None:
    weight = torch.tensor([1.0, 2.0, 7.0, 5.0, 3.0, 1.0], dtype=torch.float64)
    graph = Graph.from_edge_index(TRIANGLE, edge_weight=weight * scale)
    for node, row in enumerate([[1, 1], [5, 2], [7, 3]]):
        expected = torch.tensor(row, dtype=torch.float64) / sum(row)
        torch.testing.assert_close(weights(graph, node), expected, rtol=0, atol=2**-30)


def test_no_edge_is_lost_however_small_its_weight() -> None:
    weight = torch.tensor([1e-300, 1e300, 1e300, 5e-324], dtype=torch.float64)
    graph = Graph.from_edge_index(edge_index((0, 1), (0, 2), (0, 3), (0, 4)), edge_weight=weight, undirected=True)
    chances = weights(graph, 0)
    assert bool((chances > 0).all())
    torch.testing.assert_close(chances, torch.tensor([0, 0.5, 0.5, 0], dtype=torch.float64), rtol=0, atol=2**-30)
    assert graph.cum_weight.max() < 2**31


def test_a_heavy_edge_of_a_hub_keeps_its_share() -> None:
    weight = torch.ones(10_000)
    weight[0] = 1e6
    spokes = torch.stack([torch.zeros(10_000, dtype=torch.long), torch.arange(1, 10_001)])
    graph = Graph.from_edge_index(spokes, edge_weight=weight, undirected=True)
    assert weights(graph, 0)[0].item() == pytest.approx(1e6 / (1e6 + 9_999), abs=1e-5)
    assert graph.cum_weight.max() < 2**31


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(5e-324, 1e300), min_size=1, max_size=20))
def test_integer_weights_are_exact_to_a_few_parts_in_2_to_the_31(values: list[float]) -> None:
    weight = torch.tensor(values, dtype=torch.float64)
    loops = torch.zeros(2, len(values), dtype=torch.long)
    graph = Graph.from_edge_index(loops, edge_weight=weight)
    relative = weight / weight.max()
    atol = (len(values) + 2) * 2**-31
    torch.testing.assert_close(weights(graph, 0), relative / relative.sum(), rtol=0, atol=atol)
    assert bool((weights(graph, 0) > 0).all())
    assert graph.cum_weight[-1] < 2**31


# PyG


@pytest.mark.parametrize(
    ("attributes", "num_nodes"),
    [
        ({}, 3),
        ({"x": torch.ones(5, 2)}, 5),
        ({"num_nodes": 4}, 4),
        ({"num_nodes": 4, "x": None}, 4),
        ({"pos": torch.ones(6, 3)}, 6),
        ({"batch": torch.zeros(7, dtype=torch.long)}, 7),
        ({"feat": torch.ones(5, 2)}, 5),
        ({"node_type": torch.ones(5)}, 5),
        ({"y": torch.ones(1), "edge_attr": torch.ones(6, 1)}, 3),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_data_tells_its_number_of_nodes_and_is_only_read(attributes: dict[str, Any], num_nodes: int) -> None:
    data = Data(edge_index=TRIANGLE.clone(), **attributes)
    before = copy.copy(data).to_dict()
    contents = {key: copy.deepcopy(value) for key, value in before.items()}
    assert_same(Graph.from_data(data), Graph.from_edge_index(TRIANGLE, num_nodes))  # a warning would be an error
    after = data.to_dict()
    assert list(after) == list(before)
    for key, value in after.items():
        assert value is before[key]
        assert not isinstance(value, Tensor) or torch.equal(value, contents[key])


@pytest.mark.parametrize(
    ("data", "num_nodes"),
    [
        (Data(), 0),
        (Data(y=torch.ones(1)), 0),
        (Data(x=torch.ones(3, 1)), 3),
        (Data(num_nodes=2), 2),
        (Data(x=torch.ones(3, 1), edge_index=torch.tensor([[], []])), 3),
    ],
)
def test_data_without_edges(data: Data, num_nodes: int) -> None:
    assert_same(Graph.from_data(data), Graph.from_edge_index(NO_EDGES, num_nodes))


def test_data_undirected() -> None:
    once = Data(edge_index=edge_index((0, 1), (1, 2)), num_nodes=3)
    assert arcs(Graph.from_data(once, undirected=True)) == [(0, 1, 0), (1, 0, 0), (1, 2, 1), (2, 1, 1)]


def test_data_with_weights() -> None:
    data = Data(edge_index=TRIANGLE, num_nodes=3, edge_weight=torch.tensor([1.0, 2.0, 7.0, 5.0, 3.0, 1.0]))
    with pytest.raises(ValueError, match=r"data has edge_weight: pass weighted=True .* or weighted=False to ignore it"):
        Graph.from_data(data)
    assert_same(Graph.from_data(data, weighted=True), Graph.from_edge_index(TRIANGLE, edge_weight=data.edge_weight))
    assert_same(Graph.from_data(data, weighted=False), Graph.from_edge_index(TRIANGLE))
    both = Batch.from_data_list([data, data])
    weight = data.edge_weight.repeat(2)
    expected = Graph.from_edge_index(both.edge_index, edge_weight=weight, batch=both.batch)
    assert_same(Graph.from_data(both, weighted=True), expected)


def test_weights_that_are_all_equal_need_no_decision() -> None:
    data = Data(edge_index=TRIANGLE, num_nodes=3, edge_weight=torch.full((6,), 0.5))
    assert not Graph.from_data(data).is_weighted
    with pytest.raises(ValueError, match=r"weighted=True needs data\.edge_weight"):
        Graph.from_data(Data(edge_index=TRIANGLE, num_nodes=3), weighted=True)


def test_pyg_edge_index_becomes_plain_tensors() -> None:
    data = Data(edge_index=EdgeIndex(TRIANGLE, sparse_size=(4, 4)))
    graph = Graph.from_data(data)
    assert_same(graph, Graph.from_edge_index(TRIANGLE, 4))
    assert all(type(value) is Tensor for value in vars(graph).values() if isinstance(value, Tensor))


def test_batch_with_isolated_and_missing_nodes_at_the_end() -> None:
    graphs = [
        Data(edge_index=TRIANGLE, num_nodes=5),
        Data(edge_index=NO_EDGES, num_nodes=0),
        Data(edge_index=TRIANGLE, num_nodes=4),
        Data(edge_index=NO_EDGES, num_nodes=0),
    ]
    graph = Graph.from_data(Batch.from_data_list(graphs))
    assert graph.graph_ptr.tolist() == [0, 5, 5, 9, 9]
    assert graph.degree.tolist() == [2, 2, 2, 0, 0, 2, 2, 2, 0]
    assert graph.col[6:].tolist() == [6, 7, 5, 7, 5, 6]


def test_batch_without_edges() -> None:
    graph = Graph.from_data(Batch.from_data_list([Data(x=torch.ones(3, 1)), Data(x=torch.ones(2, 1))]))
    assert graph.graph_ptr.tolist() == [0, 3, 5]
    assert graph.num_arcs == 0


def hetero_data() -> HeteroData:
    data = HeteroData()
    data["atom"].x = torch.ones(2, 1)
    data["atom", "bond", "atom"].edge_index = edge_index((0, 1), (1, 0))
    return data


def test_homogeneous_form_of_hetero_data() -> None:
    assert arcs(Graph.from_data(hetero_data().to_homogeneous())) == [(0, 1, 0), (1, 0, 1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (hetero_data(), r"must be a PyG Data or Batch, not HeteroData; call data.to_homogeneous\(\)"),
        (nx.path_graph(2), "must be a PyG Data or Batch, not Graph"),
        (None, "must be a PyG Data or Batch, not NoneType"),
        (Data(adj_t=torch.eye(3).to_sparse(), num_nodes=3), "has an adjacency matrix but no edge_index"),
        (Data(adj=torch.eye(3), x=torch.ones(3, 1)), "has an adjacency matrix but no edge_index"),
        (Data(edge_index=[[0, 1], [1, 0]], num_nodes=2), "edge_index must be a torch tensor, not list"),
        (Data(edge_index=TRIANGLE, num_nodes=2), "edge_index holds node id 2, but there are only 2 nodes"),
        (Data(edge_index=TRIANGLE, x=torch.ones(2, 1)), "edge_index holds node id 2, but there are only 2 nodes"),
        (Data(edge_index=edge_index((0, 1))), "Node 1 can be entered but not left"),
    ],
)
def test_from_data_refuses(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.from_data(data)


# networkx


def test_networkx_numbers_nodes_and_edges_in_its_own_order() -> None:
    graph = nx.Graph()
    graph.add_nodes_from(["c", "b", "lonely", "a"])
    graph.add_edges_from([("a", "b"), ("b", "c"), ("c", "c")])
    found = Graph.from_networkx(graph)
    numbers = {node: i for i, node in enumerate(graph.nodes)}
    assert list(graph.edges) == [("c", "b"), ("c", "c"), ("b", "a")]
    c, b, a = numbers["c"], numbers["b"], numbers["a"]
    assert arcs(found) == sorted([(c, b, 0), (b, c, 0), (c, c, 1), (b, a, 2), (a, b, 2)])
    assert found.num_nodes == 4


def test_networkx_multigraph() -> None:
    graph = nx.MultiGraph([("a", "b"), ("b", "a"), ("a", "a"), ("a", "a")])
    assert arcs(Graph.from_networkx(graph)) == [(0, 0, 2), (0, 0, 3), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)]


def test_networkx_directed() -> None:
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
    assert arcs(Graph.from_networkx(graph)) == [(0, 1, 0), (0, 2, 1), (1, 2, 2), (2, 0, 3)]
    path = nx.MultiDiGraph([(0, 1), (0, 1)])
    assert arcs(Graph.from_networkx(path, undirected=True)) == [(0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)]


def test_networkx_weights() -> None:
    graph = nx.MultiGraph()
    graph.add_edge("a", "b", w=1, other=5)
    graph.add_edge("a", "b", w=np.float32(3.0))
    chances = weights(Graph.from_networkx(graph, weight="w"), 1)
    torch.testing.assert_close(chances, torch.tensor([0.25, 0.75], dtype=torch.float64), rtol=0, atol=2**-30)
    assert not Graph.from_networkx(graph).is_weighted


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_networkx_without_nodes_or_edges(kind: Any) -> None:
    assert Graph.from_networkx(kind()).num_nodes == 0
    graph = kind()
    graph.add_node("a")
    assert Graph.from_networkx(graph, weight="w").num_arcs == 0


def weighted_networkx(**attributes: Any) -> nx.Graph:
    graph = nx.Graph()
    graph.add_edge("a", "b", **attributes)
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (weighted_networkx(), r"Edge \('a', 'b'\) has no attribute 'w'"),
        (weighted_networkx(w="heavy"), r"Edge \('a', 'b'\) has w='heavy', which is not a number in range"),
        (weighted_networkx(w=[1, 2]), "which is not a number in range"),
        (weighted_networkx(w=0), "edge_weight must be positive and finite"),
        (weighted_networkx(w=float("nan")), "edge_weight must be positive and finite"),
        (nx.DiGraph([("a", "b", {"w": 1})]), "Node 1 can be entered but not left.*undirected=True"),
        (Data(edge_index=TRIANGLE), "graph must be a networkx graph, not Data"),
    ],
)
def test_from_networkx_refuses(graph: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.from_networkx(graph, weight="w")


# Refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[0, 1], [1, 0]], "edge_index must be a torch tensor, not list"),
        (np.zeros((2, 1), dtype=int), "edge_index must be a torch tensor, not ndarray"),
        (torch.zeros(3, 2, dtype=torch.long), r"must have shape \[2, num_edges\], not \[3, 2\]. Transpose it."),
        (torch.zeros(3, dtype=torch.long), r"must have shape \[2, num_edges\], not \[3\]"),
        (torch.zeros(3, 3, dtype=torch.long), r"must have shape \[2, num_edges\], not \[3, 3\]"),
        (TRIANGLE.float(), "edge_index must hold integers, not torch.float32"),
        (TRIANGLE.bool(), "edge_index must hold integers, not torch.bool"),
        (TRIANGLE.to(torch.complex64), "edge_index must hold real numbers, not torch.complex64"),
        (TRIANGLE - 1, "edge_index holds the negative node id -1"),
        (edge_index((0, 2**31), (2**31, 0)), "num_nodes must be a whole number from 0 to 2147483646, not 2147483649"),
        (edge_index((0, 2**62), (2**62, 0)), "num_nodes must be a whole number"),
        (edge_index((0, 1), (1, 2), (2, 1), (1, 3)), "Node 3 can be entered but not left.*undirected=True"),
    ],
)
def test_edge_index_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.from_edge_index(given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": 2}, "edge_index holds node id 2, but there are only 2 nodes"),
        ({"num_nodes": -1}, "num_nodes must be a whole number from 0 to 2147483646, not -1"),
        ({"num_nodes": 3.5}, "num_nodes must be a whole number"),
        ({"num_nodes": float("inf")}, "num_nodes must be a whole number"),
        ({"num_nodes": True}, "num_nodes must be a whole number"),
        ({"num_nodes": "many"}, "num_nodes must be a whole number from 0 to 2147483646, not 'many'"),
        ({"num_nodes": 2**31}, "num_nodes must be a whole number"),
        ({"batch": [0, 0, 0]}, "batch must be a tensor of integers"),
        ({"batch": torch.zeros(3)}, "batch must be a tensor of integers"),
        ({"batch": torch.zeros(3, dtype=torch.bool)}, "batch must be a tensor of integers"),
        ({"batch": torch.zeros(4).long(), "num_nodes": 3}, r"one entry for each of the 3 nodes, not \[4\]"),
        ({"batch": torch.zeros(3, 1).long()}, r"batch must have one entry for each of the 3 nodes"),
        ({"batch": torch.zeros(2).long()}, "edge_index holds node id 2, but there are only 2 nodes"),
        ({"batch": torch.tensor([0, 1, 0])}, "batch must be ascending"),
        ({"batch": torch.tensor([-1, 0, 0])}, "batch must be ascending and start at 0 or above"),
        ({"batch": torch.tensor([0, 0, 1])}, "An edge connects two graphs of the batch"),
        ({"batch": torch.tensor([2, 2, 2]), "num_graphs": 2}, "batch names graph 2, but num_graphs is 2"),
        ({"batch": torch.zeros(3).long(), "num_graphs": -1}, "num_graphs must be a whole number"),
        ({"batch": torch.zeros(3).long(), "num_graphs": 1.5}, "num_graphs must be a whole number"),
        ({"batch": torch.tensor([0, 0, 2**40])}, "num_graphs must be a whole number"),
        ({"num_graphs": 2}, "num_graphs=2 needs `batch`"),
        ({"edge_weight": [1.0] * 6}, "edge_weight must be a torch tensor, not list"),
        ({"edge_weight": torch.ones(6) + 1j}, "edge_weight must hold real numbers"),
        ({"edge_weight": torch.ones(5)}, r"edge_weight must have shape \[6\], not \[5\]"),
        ({"edge_weight": torch.ones(6, 1)}, r"edge_weight must have shape \[6\], not \[6, 1\]"),
        ({"edge_weight": torch.tensor([1.0] * 5 + [0.0])}, "edge_weight must be positive and finite"),
        ({"edge_weight": torch.tensor([1.0] * 5 + [-1.0])}, "edge_weight must be positive and finite"),
        ({"edge_weight": torch.tensor([1.0] * 5 + [float("inf")])}, "edge_weight must be positive and finite"),
        ({"edge_weight": torch.tensor([1.0] * 5 + [float("nan")])}, "edge_weight must be positive and finite"),
    ],
)  # fmt: skip
def test_arguments_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        Graph.from_edge_index(TRIANGLE, **arguments)
    assert "\n" not in str(refusal.value)


# The rest


def test_to_moves_every_tensor() -> None:
    graph = Graph.from_edge_index(TRIANGLE, edge_weight=torch.ones(6))
    moved = graph.to("meta")
    assert {value.device.type for value in vars(moved).values() if isinstance(value, Tensor)} == {"meta"}
    assert (moved.num_edges, moved.num_nodes, moved.is_weighted) == (6, 3, True)
    assert_same(graph.to("cpu"), graph)


def test_repr() -> None:
    assert repr(Graph.from_edge_index(TRIANGLE)) == "Graph(num_nodes=3, num_edges=6, num_graphs=1, device='cpu')"
    weighted = Graph.from_edge_index(TRIANGLE, edge_weight=torch.ones(6))
    assert repr(weighted) == "Graph(num_nodes=3, num_edges=6, num_graphs=1, weighted, device='cpu')"
