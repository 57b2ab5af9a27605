import math

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.nn import GCNConv

from crawl.data import GraphStore, Split, from_pyg


class InMemory(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__(None)
        self.data, self.slices = self.collate(graphs)


class WithSplit(InMemory):
    name = "ogbg-something"

    def get_idx_split(self):
        return {"train": torch.tensor([0, 1]), "valid": torch.tensor([2]), "test": torch.tensor([3])}


def graphs(count, y, x=None):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    return [
        Data(x=torch.rand(2, 3) if x is None else x, edge_index=edge_index, edge_attr=torch.tensor([1, 2]), y=y(i))
        for i in range(count)
    ]


def test_regression_shares_memory():
    pyg = InMemory(graphs(10, lambda i: torch.tensor([[i + 0.5, 1.0 - i]])))
    dataset = from_pyg(pyg)
    assert (dataset.name, dataset.task.kind, dataset.task.num_outputs) == ("InMemory", "regression", 2)
    assert dataset.num_node_features == 3
    assert dataset.edge_categories == (3,)
    for name in ("x", "edge_attr", "edge_index", "y"):
        assert getattr(dataset.store, name).data_ptr() == pyg._data[name].data_ptr()


def test_list_of_classes():
    dataset = from_pyg(graphs(30, lambda i: i % 3), split="stratified", metric="macro_f1", name="mine")
    assert (dataset.name, dataset.task.kind, dataset.task.num_outputs) == ("mine", "multiclass", 3)
    assert dataset.store.y[dataset.split.test].tolist() in (
        [0, 1, 2],
        [2, 0, 1],
        [1, 2, 0],
        [0, 2, 1],
        [1, 0, 2],
        [2, 1, 0],
    )
    assert dataset.store.y.dtype == torch.int64


def test_node_level():
    dataset = from_pyg(graphs(10, lambda i: torch.tensor([0, i % 2])), level="node")
    assert (dataset.task.level, dataset.task.kind) == ("node", "binary")
    assert dataset.store.batch([3, 4]).y.tolist() == [0, 1, 0, 0]
    with pytest.raises(ValueError, match="one class for each graph"):
        from_pyg(graphs(10, lambda i: torch.tensor([0, i % 2])), split="stratified", level="node")


def test_targets_of_graphs_or_of_nodes():
    both = graphs(10, lambda i: torch.tensor([0.5, i]))
    for dataset in (both, InMemory(both)):
        with pytest.raises(ValueError, match=r"2 nodes and 2 numbers in y: say level='graph' .* or level='node'"):
            from_pyg(dataset)
        as_graphs, as_nodes = from_pyg(dataset, level="graph"), from_pyg(dataset, level="node")
        assert (as_graphs.task.level, as_graphs.task.num_outputs, as_graphs.store.y.shape) == ("graph", 2, (10, 2))
        assert (as_nodes.task.level, as_nodes.task.num_outputs, as_nodes.store.y.shape) == ("node", 1, (20, 1))
    parts = from_pyg(both, both[:2], both[:1], level="graph")
    assert parts.store.y.shape == (13, 2)


def test_edge_weights_are_not_lost():
    weighted = graphs(10, lambda i: i + 0.5)
    for data in weighted:
        data.edge_weight = torch.tensor([1.0, 2.0])
    for dataset in (weighted, InMemory(weighted)):
        with pytest.raises(ValueError, match=r"edge_weight, .*: make it a feature \(edge_attr\), or give ignore="):
            from_pyg(dataset)
        assert from_pyg(dataset, ignore=["edge_weight", "edge_attr"]).edge_categories == ()


def test_attributes_that_are_not_used_are_named():
    some = graphs(10, lambda i: torch.tensor([i + 0.5]))
    for data in some:
        data.pos, data.z, data.smiles, data.charge = torch.rand(2, 3), torch.tensor([6, 1]), "C", 3
    for dataset in (some, InMemory(some)):
        with pytest.warns(
            UserWarning, match="Of the graphs, charge, pos, z will not be used: put .* into x or edge"
        ) as caught:
            from_pyg(dataset)
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("name", ["x", "edge_attr"])
def test_features_that_are_not_finite_are_refused(name):
    wrong = graphs(10, lambda i: i + 0.5)
    for data in wrong:
        data.x, data.edge_attr = torch.ones(2, 3), torch.ones(2, 3)
    wrong[7][name][1, 2] = torch.nan
    for dataset in (wrong, InMemory(wrong)):
        with pytest.raises(ValueError, match=f"Graph 7 has nan in {name}"):
            from_pyg(dataset)


def test_targets_that_differ_late_in_their_digits_stay_apart():
    y = from_pyg(graphs(10, lambda i: torch.tensor([1e9 + i], dtype=torch.float64)), task="regression").store.y
    assert y.flatten().tolist() == [1e9 + i for i in range(10)]


@pytest.mark.parametrize(
    ("x", "categories", "width"),
    [
        (torch.tensor([[0, 4], [2, 0]]), (3, 5), 0),
        (torch.tensor([3, 1]), (4,), 0),
        (torch.tensor([[-1], [1]]), (), 1),
        (torch.tensor([[True], [False]]), (), 1),
        (torch.tensor([0.5, 1.0]), (), 1),
    ],
)
def test_features(x, categories, width):
    dataset = from_pyg(graphs(5, lambda i: i + 0.5, x))
    assert (dataset.node_categories, dataset.num_node_features) == (categories, width)


def test_split_of_the_dataset_or_of_the_user():
    pyg = WithSplit(graphs(4, lambda i: i % 2))
    assert from_pyg(pyg).split.val.tolist() == [2]
    assert from_pyg(pyg).name == "ogbg-something"
    given = Split(torch.tensor([3]), torch.tensor([0]), torch.tensor([1]))
    assert from_pyg(pyg, split=given).split is given


def test_three_parts():
    parts = [graphs(count, lambda i: i + 0.5) for count in (4, 1, 2)]
    dataset = from_pyg(parts[0], InMemory(parts[1]), InMemory(parts[2]))
    assert (dataset.split.train.tolist(), dataset.split.test.tolist()) == ([0, 1, 2, 3], [5, 6])
    assert dataset.store.y.flatten().tolist() == [0.5, 1.5, 2.5, 3.5, 0.5, 0.5, 1.5]
    assert torch.equal(dataset.store.graph(6).x, parts[2][1].x)
    with pytest.raises(ValueError, match="both val and test"):
        from_pyg(parts[0], parts[1])
    with pytest.raises(ValueError, match="Leave out split"):
        from_pyg(*parts, split="random")
    with pytest.raises(ValueError, match="Part 1 has no y"):
        from_pyg(parts[0], [Data(x=torch.rand(2, 3), edge_attr=torch.tensor([]))], parts[2])
    with pytest.raises(ValueError, match="belong to graphs and others to nodes"):
        GraphStore.concatenate(
            [GraphStore.from_graphs(part) for part in (parts[0], graphs(1, lambda i: torch.ones(2)))]
        )
    with pytest.raises(ValueError, match="Part 1 has y of shape"):
        from_pyg(parts[0], graphs(2, lambda i: torch.ones(2)), parts[2])


def test_refuses():
    with pytest.raises(ValueError, match="no targets: set y"):
        from_pyg([Data(num_nodes=1)] * 5)
    with pytest.raises(ValueError, match="There are no graphs"):
        from_pyg([])
    with pytest.raises(ValueError, match="target of graph 0 is missing"):
        from_pyg(graphs(5, lambda i: float("nan")), task="regression")
    with pytest.raises(ValueError, match=r"one graph with targets of its nodes: use crawl\.data\.from_graph\(data\)"):
        from_pyg(graphs(1, lambda i: torch.tensor([0, 1])))
    (with_mask,) = graphs(1, lambda i: torch.tensor([0.5]))
    with_mask.train_mask = torch.tensor([True, False])
    with pytest.raises(ValueError, match=r"use crawl\.data\.from_graph\(data\)"):
        from_pyg(with_mask)


def test_integers_too_large_for_categories_are_refused():
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.tensor([0, 10**8]), edge_index=edges, y=torch.tensor([float(i)])) for i in range(10)]
    with pytest.raises(ValueError, match="x holds integers up to 100000000, too many for categories"):
        from_pyg(graphs)


def test_one_graph_is_a_data_set_of_one():
    edges = torch.tensor([[0, 1], [1, 0]])
    one, two, three = (Data(x=torch.rand(3, 1), edge_index=edges, y=torch.tensor([y])) for y in (0.5, 1.5, 2.5))
    with pytest.raises(ValueError, match="One graph cannot be split into three parts: give graphs for val and test"):
        from_pyg(one)
    assert from_pyg(one, two, three).store.y.tolist() == [[0.5], [1.5], [2.5]]


@pytest.mark.parametrize("layer", [GCNConv(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2))])
def test_a_layer_is_not_a_data_set(layer) -> None:
    with pytest.raises(ValueError, match=r"is a layer, not graphs: use crawl\.nn\.from_pyg to make it a block\.$"):
        from_pyg(layer)


def test_features_of_graphs():
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    graphs = [Data(edge_index=ring, num_nodes=3, y=i / 2, u=torch.tensor([i, 2.0 * i])) for i in range(10)]
    store = from_pyg(graphs).store
    assert store.u.tolist() == [[i, 2.0 * i] for i in range(10)]
    assert store.subset([3, 1]).u.tolist() == [[3, 6], [1, 2]]
    assert store.batch([3, 1]).u.tolist() == [[3, 6], [1, 2]]
    assert store.graph(4).u.tolist() == [[4, 8]]
    assert GraphStore.concatenate([store, store]).u.shape == (20, 2)
    assert "u=[10, 2]" in repr(store)
    assert from_pyg(graphs, ignore=["u"]).store.u is None
    for data in graphs:
        data.conditions = data.u
        del data.u
    assert torch.equal(from_pyg(graphs, graph_attr="conditions").store.u, store.u)
    assert "u" not in graphs[0]  # what was given is not changed
    with pytest.raises(ValueError, match="Graph 0 has no attribute 'pressure'"):
        from_pyg(graphs, graph_attr="pressure")
    graphs[3].u = torch.zeros(1, 2)
    with pytest.raises(ValueError, match="Graph 3 has both u and conditions"):
        from_pyg(graphs, graph_attr="conditions")
    with pytest.raises(ValueError, match="Graph 0 has no u, but others do"):
        GraphStore.from_graphs(graphs)
    cases = ((torch.zeros(2, 2), r"u of shape \[2, 2\]: give one row"), (torch.tensor([math.inf]), "inf in u"))
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            GraphStore.from_graphs([Data(edge_index=ring, num_nodes=3, u=wrong)])
