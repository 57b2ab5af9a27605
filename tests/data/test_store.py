import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

import crawl
from crawl.data import GraphStore


class InMemory(InMemoryDataset):
    """A PyG data set of these graphs, in its collated form."""

    def __init__(self, graphs, transform=None):
        super().__init__(None, transform)
        self.data, self.slices = self.collate(graphs)


def random_graph(generator, num_nodes, with_x, with_edge_attr, y):
    num_edges = int(torch.randint(0, 2 * num_nodes + 1, (), generator=generator))
    data = Data(edge_index=torch.randint(max(num_nodes, 1), (2, num_edges), generator=generator), num_nodes=num_nodes)
    if with_x:
        data.x = torch.randn(num_nodes, 3, generator=generator)
    if with_edge_attr:
        data.edge_attr = torch.randint(5, (num_edges, 2), generator=generator)
    if y != "none":
        shape = {"number": (1,), "row": (1, 4), "node": (num_nodes,)}[y]
        data.y = torch.randn(shape, generator=generator)
    return data


def path(num_nodes):
    ids = torch.arange(num_nodes)
    edges = torch.stack([ids[:-1], ids[1:]])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=num_nodes)


def assert_same(store, graphs, ids):
    """The batch equals the one that PyG makes of the same graphs."""
    batch, expected = store.batch(ids), Batch.from_data_list([graphs[i] for i in ids])
    for name in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
        ours, theirs = getattr(batch, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs), name
    assert batch.num_nodes == expected.num_nodes
    assert batch.num_graphs == expected.num_graphs == len(ids)
    assert batch.graph_ids.tolist() == list(ids)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    with_x=st.booleans(),
    with_edge_attr=st.booleans(),
    y=st.sampled_from(["none", "number", "row", "node"]),
    seed=st.integers(0, 2**32),
    collated=st.booleans(),
    choice=st.data(),
)
def test_batch_equals_pyg(sizes, with_x, with_edge_attr, y, seed, collated, choice):
    generator = torch.Generator().manual_seed(seed)
    graphs = [random_graph(generator, n, with_x, with_edge_attr, y) for n in sizes]
    level = "node" if y == "node" else None
    store = GraphStore.from_dataset(InMemory(graphs) if collated else graphs, level=level)
    ids = choice.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=12))
    assert len(store) == len(sizes)
    assert_same(store, graphs, ids)
    assert_same(store.subset(ids), [graphs[i] for i in ids], range(len(ids)))
    for name, value in store.graph(ids[0]).to_dict().items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(graphs[ids[0]][name]))


def test_shares_memory_with_pyg():
    generator = torch.Generator().manual_seed(0)
    dataset = InMemory([random_graph(generator, n, True, True, "row") for n in (3, 0, 5)])
    store = GraphStore.from_dataset(dataset)
    for name in ("x", "edge_index", "edge_attr", "y"):
        assert getattr(store, name).data_ptr() == dataset._data[name].data_ptr()


def test_parts_and_transforms_of_pyg():
    graphs = [path(n) for n in (2, 3, 4, 5)]

    def add_x(data):
        data.x = torch.full((data.num_nodes, 1), float(data.num_nodes))
        return data

    assert GraphStore.from_dataset(InMemory(graphs)[[3, 1]]).node_ptr.tolist() == [0, 5, 8]
    assert GraphStore.from_dataset(InMemory(graphs)[:1]).node_ptr.tolist() == [0, 2]
    assert GraphStore.from_dataset(InMemory(graphs, transform=add_x)[1:3]).x.flatten().tolist() == [3.0] * 3 + [4.0] * 4
    assert GraphStore.from_dataset(graphs).node_ptr.tolist() == [0, 2, 5, 9, 14]


def test_pyg_that_lost_its_last_graph():
    # PyG's reader of TU files forgets graphs without edges at the end: the store has what the data set shows.
    dataset = InMemory(
        [Data(x=torch.ones(n, 1), edge_index=torch.zeros(2, n - 1, dtype=torch.long)) for n in (3, 2, 1)]
    )
    dataset.slices = {"edge_index": dataset.slices["edge_index"][:-1], "x": dataset.slices["x"]}
    assert len(dataset) == 2
    assert GraphStore.from_dataset(dataset).node_ptr.tolist() == [0, 3, 5]


def test_refuses_heterogeneous_graphs():
    hetero = HeteroData()
    hetero["a"].x = torch.ones(2, 1)
    with pytest.raises(ValueError, match="must be a PyG Data, not HeteroData"):
        GraphStore.from_dataset(InMemory([hetero, hetero]))


def test_pyg_without_edges():
    dataset = InMemory([Data(x=torch.ones(n, 1)) for n in (3, 2)])
    assert GraphStore.from_dataset(dataset).edge_ptr.tolist() == [0, 0, 0]


@pytest.mark.parametrize("collated", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_meaning_of_y(collated, count):
    def store(y, level=None):
        graphs = [path(4) for _ in range(count)]
        for data in graphs:
            data.y = y
        return GraphStore.from_dataset(InMemory(graphs) if collated else graphs, level=level)

    assert store(torch.tensor(1.5)).y.shape == (count,)
    assert store(torch.ones(1, 3)).y.shape == (count, 3)
    assert store(torch.ones(3)).y.shape == (count, 3)
    assert store(torch.ones(4, 2)).y_per_node
    with pytest.raises(ValueError, match="one row for each graph or one for each node"):
        store(torch.ones(2, 2))

    # A number for each node, or four for each graph?
    assert store(torch.ones(4), "node").y_per_node
    assert store(torch.ones(4), "graph").y.shape == (count, 4)
    if count == 1:
        assert store(torch.ones(4)).y_per_node  # one graph is not enough for a task about graphs
    else:
        with pytest.raises(ValueError, match=r"4 nodes and 4 numbers in y: say level='graph' .* or level='node'"):
            store(torch.ones(4))
    for y, level in ((torch.ones(3), "node"), (torch.ones(4, 2), "graph"), (torch.ones(1, 3), "node")):
        with pytest.raises(ValueError, match=f"y must have one row for each {level}"):
            store(y, level)
    with pytest.raises(ValueError, match=r"level must be one of graph, node, not 'nodes'\. Did you mean 'node'"):
        store(torch.ones(4), "nodes")


def test_one_target_for_each_of_several_nodes_needs_no_level_if_graphs_differ():
    graphs = [path(4), path(5)]
    for data in graphs:
        data.y = torch.ones(data.num_nodes)
    assert GraphStore.from_graphs(graphs).y_per_node


@pytest.mark.parametrize("collated", [True, False])
class TestWeights:
    def graphs(self, collated, weights):
        graphs = [path(4) for _ in range(3)]
        for data, weight in zip(graphs, weights, strict=True):
            data.edge_weight = torch.as_tensor(weight).expand(6).clone()
        return InMemory(graphs) if collated else graphs

    def test_are_refused_unless_ignored(self, collated):
        graphs = self.graphs(collated, [1.0, torch.arange(1.0, 7.0), 1.0])
        owner = "The data set" if collated else "Graph 1"
        with pytest.raises(ValueError, match=rf"{owner} has edge_weight, .* or give ignore=\['edge_weight'\]"):
            GraphStore.from_dataset(graphs)
        assert len(GraphStore.from_dataset(graphs, ignore=["edge_weight"])) == 3

    def test_that_are_all_equal_change_nothing(self, collated):
        assert len(GraphStore.from_dataset(self.graphs(collated, [1.0, 1.0, 1.0]))) == 3


@pytest.mark.parametrize("collated", [True, False])
def test_features_can_be_ignored(collated):
    graphs = [random_graph(torch.Generator().manual_seed(0), n, True, True, "row") for n in (3, 4)]
    dataset = InMemory(graphs) if collated else graphs
    store = GraphStore.from_dataset(dataset, ignore=["edge_attr"])
    assert (store.x is None, store.edge_attr is None) == (False, True)
    store = GraphStore.from_dataset(dataset, ignore=("x", "edge_weight"))
    assert (store.x is None, store.edge_attr is None) == (True, False)
    with pytest.raises(ValueError, match="ignore must be one of x, edge_attr, edge_weight, u, not 'edge_atr'"):
        GraphStore.from_dataset(dataset, ignore=["edge_atr"])
    with pytest.raises(ValueError, match=r"ignore must be a list of names, such as \['x'\], not 'x'"):
        GraphStore.from_dataset(dataset, ignore="x")


@pytest.mark.parametrize("collated", [True, False])
@pytest.mark.parametrize("name", ["x", "edge_attr", "y"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused(collated, name, wrong):
    graphs = [path(n) for n in (3, 4, 5)]
    for data in graphs:
        data.x, data.edge_attr, data.y = torch.ones(data.num_nodes, 2), torch.ones(data.num_edges, 1), torch.ones(1, 2)
    graphs[1][name][-1, -1] = wrong
    dataset = InMemory(graphs) if collated else graphs
    if name == "y" and wrong != wrong:  # a target that is missing
        assert GraphStore.from_dataset(dataset).y.isnan().sum() == 1
        return
    with pytest.raises(ValueError, match=rf"^Graph 1 has {wrong} in {name}: give finite numbers"):
        GraphStore.from_dataset(dataset)


def test_nodes_without_features_or_numbers():
    graphs = [path(3), path(2)]
    for data in graphs:
        del data.num_nodes
    assert GraphStore.from_dataset(InMemory(graphs)).node_ptr.tolist() == [0, 3, 5]
    assert GraphStore.from_graphs([*graphs, Data(), Data(pos=torch.ones(4, 2))]).node_ptr.tolist() == [0, 3, 5, 5, 9]


def test_graphs_without_edge_index():
    store = GraphStore.from_graphs([Data(x=torch.ones(2, 1)), Data(x=torch.ones(0, 1))])
    assert store.node_ptr.tolist() == [0, 2, 2]
    assert store.edge_ptr.tolist() == [0, 0, 0]


def test_model_runs_on_batch_with_empty_graphs_last():
    graphs = [path(n) for n in (4, 1, 0, 0)]
    for data in graphs:
        data.x = torch.ones(data.num_nodes, 1)
    batch = GraphStore.from_graphs(graphs).batch([0, 1, 2, 3])
    assert crawl.Graph.from_data(batch).num_graphs == 4
    assert crawl.CRaWl(1, 2, hidden_channels=8).eval()(batch).shape == (4, 2)


def test_edge_index_dtype_is_kept_or_widened():
    graphs = [path(3), path(3)]
    for dtype, expected in [(torch.int32, torch.int32), (torch.uint8, torch.int64)]:
        for data in graphs:
            data.edge_index = data.edge_index.to(dtype)
        assert GraphStore.from_graphs(graphs).batch([1, 0]).edge_index.dtype == expected


def test_empty_batch():
    batch = GraphStore.from_graphs([path(3)]).batch([])
    assert batch.num_graphs == batch.num_nodes == 0


def test_to_device_keeps_everything():
    store = GraphStore.from_graphs([path(3), path(2)]).to("cpu")
    assert_same(store, [path(3), path(2)], [1, 0])
    assert "num_graphs=2, num_nodes=5, num_edges=6" in repr(store)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_batch_on_gpu_waits_for_nothing():
    generator = torch.Generator().manual_seed(0)
    graphs = [random_graph(generator, n, True, True, "row") for n in (5, 0, 3, 8)]
    store = GraphStore.from_graphs(graphs).to("cuda")
    ids = torch.tensor([3, 1, 0, 3])
    store.batch(ids)
    try:
        torch.cuda.set_sync_debug_mode("error")
        batch = store.batch(ids)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = Batch.from_data_list([graphs[i] for i in ids])
    for name in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
        assert torch.equal(batch[name].cpu(), expected[name])


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "no graphs"),
        ([path(2), "graph"], "Graph 1 must be a PyG Data"),
        ([path(2), Data(edge_index=torch.tensor([[0], [2]]), num_nodes=2)], "Graph 1 has 2 nodes but an edge from 0"),
        ([Data(x=torch.ones(2, 1)), Data(num_nodes=2)], "Graph 1 has no x"),
        ([Data(x=torch.ones(2, 1)), Data(x=torch.ones(2, 2))], "Graph 1 has x of shape"),
        ([Data(num_nodes=1, y="high")], "y must be a tensor or a number, not 'high'"),
        ([Data(num_nodes=1, edge_index=torch.ones(3, 1, dtype=torch.long))], r"shape \[2, num_edges\], not \[3, 1\]"),
    ],
)
def test_refuses_what_is_no_data_set(graphs, message):
    with pytest.raises(ValueError, match=message):
        GraphStore.from_graphs(graphs)


@pytest.mark.parametrize(("ids", "message"), [([0, 2], "no graph 2"), ([-1], "no graph -1"), ([0.5], "whole numbers")])
def test_refuses_wrong_ids(ids, message):
    with pytest.raises(ValueError, match=message):
        GraphStore.from_graphs([path(2), path(3)]).batch(ids)


def test_rows_without_numbers_are_not_taken_for_no_rows():
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(edge_index=edge_index, num_nodes=3, y=y) for y in (torch.ones(3), torch.ones(3, 0))]
    with pytest.raises(ValueError, match=re.escape("[3, 0]")):
        GraphStore.from_graphs(graphs)


def test_refuses_wrong_number_of_rows():
    ptr = torch.tensor([0, 2])
    with pytest.raises(ValueError, match="x must have 2 entries"):
        GraphStore(ptr, ptr, torch.zeros(2, 2, dtype=torch.long), x=torch.ones(3, 1))


@pytest.mark.parametrize(
    ("node_ptr", "edge_ptr", "edge_index", "message"),
    [
        ([0, 2, 4], [0, 1, 2], [[0, 0], [1, 2]], "Graph 1 has 2 nodes but an edge from 0 to 2"),
        ([0, 2, 4], [0, 1, 2], [[0, -1], [1, 0]], "Graph 1 has 2 nodes but an edge from -1 to 0"),
        (
            [0, 2, 4],
            [0, 1, 2],
            [[0, 0], [1, 1], [1, 1]],
            r"edge_index must have shape \[2, num_edges\], not \[3, 2\]\. Transpose it",
        ),
        ([0, 5, 4], [0, 1, 2], [[0, 0], [1, 1]], "must begin with 0 and never fall"),
        ([1, 2, 4], [0, 1, 2], [[0, 0], [1, 1]], "must begin with 0 and never fall"),
        ([0, 4], [0, 1, 2], [[0, 0], [1, 1]], "node_ptr has 2 entries, but edge_ptr 3"),
    ],
)
def test_arrays_that_are_no_graphs(node_ptr, edge_ptr, edge_index, message):
    with pytest.raises(ValueError, match=message):
        GraphStore(torch.tensor(node_ptr), torch.tensor(edge_ptr), torch.tensor(edge_index)).checked()


def test_a_store_of_graphs_is_its_own_checked_one():
    store = GraphStore.from_graphs([path(2), path(3)])
    assert store.checked() is store


def test_one_data_is_one_graph_and_a_batch_its_graphs():
    one = Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    assert torch.equal(GraphStore.from_dataset(one).graph(0).x, one.x)
    assert len(GraphStore.from_dataset(Batch.from_data_list([one, one]))) == 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int16])
def test_ids_of_any_integer_type(dtype):
    ends = torch.tensor([[0, 1], [1, 0]])
    store = GraphStore.from_graphs([Data(edge_index=ends.to(dtype), num_nodes=2)] * 3)
    assert store.batch(torch.tensor([2, 0]).to(dtype)).edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]


@pytest.mark.parametrize("ids", [None, "0", ["0"], {0}, {0: 1}, [None], [10**400], 1.5, torch.zeros(1, device="meta")])
def test_ids_of_wrong_types_are_refused(ids):
    store = GraphStore.from_graphs([Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)])
    for method in (store.batch, store.subset):
        with pytest.raises(ValueError, match="ids "):
            method(ids)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": torch.tensor(1.0)}, "x must have a row for each node, but it has no dimensions"),
        ({"x": torch.eye(2).to_sparse()}, r"x .*must not be sparse"),
        ({"x": torch.zeros(2, 1, device="meta")}, "x .*has no values"),
        ({"x": torch.zeros(2, 1) * 1j}, "x .*must hold real numbers"),
        ({"x": [[1.0], [2.0]]}, "x .*must be a torch tensor, not list"),
        ({"edge_attr": torch.tensor(1.0)}, "edge_attr of graph 0 has no dimensions"),
        ({"edge_index": torch.tensor([[0, 1], [1, 0]]).to_sparse()}, "edge_index must not be sparse"),
        ({"edge_index": [[0], [1]]}, "edge_index must be a torch tensor"),
        ({"num_nodes": 10**400}, "num_nodes must be a whole number"),
        ({"y": torch.zeros(1, device="meta")}, "y is on the device meta"),
    ],
)
def test_tensors_that_cannot_be_used_are_refused(changed, message):
    graph = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    for name, value in changed.items():
        graph[name] = value
    with pytest.raises(ValueError, match=message):
        GraphStore.from_graphs([graph])


@pytest.mark.parametrize("dataset", [5, None, "a", {}, torch.zeros(2), [None], Data, (i for i in range(2))])
def test_what_is_not_a_data_set_is_refused(dataset):
    with pytest.raises(ValueError, match=r"Give a PyG data set|must be a PyG Data"):
        GraphStore.from_dataset(dataset)


def test_joined_graphs_are_side_by_side() -> None:
    ring = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]), num_nodes=3)
    pair = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    bare = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=2)
    store = GraphStore.from_graphs([ring, bare, Data(edge_index=bare.edge_index, num_nodes=0), pair])
    expected = Batch.from_data_list([ring, bare, pair]).edge_index
    assert torch.equal(store.joined_edge_index, expected)
    assert torch.equal(replace(store, edge_index=store.edge_index.int()).joined_edge_index, expected)
    graph = store.joined()
    assert graph.graph_ptr.tolist() == [0, 3, 5, 5, 7]
    assert graph.degree.tolist() == [2, 2, 2, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="can be entered but not left"):
        GraphStore.from_graphs([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)]).joined()


def with_pairs() -> GraphStore:
    """Three graphs, of which the second has no pairs."""
    graphs = [cycle(4), cycle(3), cycle(5)]
    pairs = torch.tensor([[0, 1], [2, 3], [4, 0]])
    store = GraphStore.from_graphs(graphs)
    return replace(store, pairs=pairs, pair_ptr=torch.tensor([0, 2, 2, 3]), y=torch.arange(3.0).unsqueeze(1))


def cycle(num_nodes: int) -> Data:
    """A cycle, both ways."""
    nodes = torch.arange(num_nodes)
    one_way = torch.stack([nodes, (nodes + 1) % num_nodes])
    return Data(edge_index=torch.cat([one_way, one_way.flip(0)], dim=1), num_nodes=num_nodes)


def test_targets_of_pairs_follow_their_graphs() -> None:
    store = with_pairs().checked()
    assert (store.level, store.targets_per_graph.tolist()) == ("pair", [2, 0, 1])
    batch = store.batch([2, 0, 2])
    assert batch.edge_label_index.tolist() == [[4, 5, 7, 13], [0, 6, 8, 9]]
    assert batch.y[:, 0].tolist() == [2, 0, 1, 2]
    part = store.subset([1, 2])
    assert (part.pairs.tolist(), part.pair_ptr.tolist(), part.y.tolist()) == ([[4, 0]], [0, 0, 1], [[2.0]])
    assert store.graph(0).edge_label_index.tolist() == [[0, 2], [1, 3]]
    again = GraphStore.concatenate([store.subset([0, 1]), store.subset([2])])
    assert torch.equal(again.pairs, store.pairs)
    assert torch.equal(again.pair_ptr, store.pair_ptr)
    assert store.to("cpu").targets_per_graph.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pair_ptr": None}, "need both pairs and pair_ptr"),
        ({"y_per_node": True}, "and y_per_node=False"),
        ({"pairs": torch.zeros(3, 3, dtype=torch.long)}, "pairs must be integers of shape"),
        ({"pairs": torch.zeros(2, 2, dtype=torch.long)}, "pairs must have 3 entries"),
        ({"pair_ptr": torch.tensor([0, 3])}, "but pair_ptr 2"),
        ({"pair_ptr": torch.tensor([0, 4, 2, 3])}, "pair_ptr must begin with 0 and never fall"),
        (
            {"pairs": torch.tensor([[0, 1], [2, 4], [4, 0]])},
            "Graph 0: a pair names a node that the graph does not have",
        ),
        ({"y": torch.zeros(12, 1)}, "y must have 3 entries"),
    ],
)
def test_wrong_pairs_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(with_pairs(), **changes).checked()
