"""The estimator for nodes of one graph: PyG data or a networkx graph, masks, numbers or names of nodes."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from crawl import CRaWlNodeClassifier, CRaWlNodeRegressor
from crawl.estimators.node_targets import labelled, names_of, node_ids, weights_at
from crawl.training import Pretraining
from tests.data.test_nodes import ring

SMALL = {
    **{"hidden_channels": 16, "num_layers": 1, "num_steps": 10, "num_eval_steps": 10, "num_repeats": 2},
    **{"lr": 0.02, "max_epochs": 30, "device": "cpu"},
}


def coloured(num_nodes: int = 40, seed: int = 0) -> nx.Graph:
    """A path of nodes whose colour is their class."""
    generator = np.random.default_rng(seed)
    graph = nx.path_graph(num_nodes)
    for node in graph:
        colour = int(generator.integers(2))
        graph.nodes[node].update(x=[float(colour), 1.0], y="red" if colour else "blue")
    return nx.relabel_nodes(graph, {node: f"n{node}" for node in graph})


@pytest.fixture(scope="module", params=["full", "closed"])
def fitted(request) -> CRaWlNodeClassifier:
    return CRaWlNodeClassifier(**SMALL, batches=request.param).fit(coloured())


def test_it_predicts_the_nodes_of_another_graph(fitted):
    other = coloured(25, seed=1)
    assert fitted.classes_.tolist() == ["blue", "red"]
    assert fitted.score(other) > 0.9
    probabilities = fitted.predict_proba(other)
    assert probabilities.shape == (25, 2)
    assert np.allclose(probabilities.sum(axis=1), 1)
    some = ["n7", "n3"]
    assert fitted.predict(other, some).tolist() == fitted.predict(other)[[7, 3]].tolist()
    assert fitted.embed(other, some).shape == (2, 16)
    assert np.allclose(fitted.transform(other), fitted.embed(other))
    assert fitted.embed(other, []).shape == (0, 16)
    assert fitted.predict(other, []).shape == (0,)


def test_it_is_cloned_and_pickled(fitted):
    other = coloured(9, seed=2)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.allclose(again.predict_proba(other), fitted.predict_proba(other))
    with pytest.raises(NotFittedError):
        clone(fitted).predict(other)
    assert clone(fitted).get_params() == fitted.get_params()


def test_masks_numbers_and_labels_of_some_nodes():
    data = ring(24)
    model = CRaWlNodeClassifier(**SMALL).fit(data)  # train_mask, and val_mask to validate
    assert model.score(data) == np.mean(model.predict(data)[data.test_mask] == data.y[data.test_mask].numpy())
    plain = Data(x=data.x, edge_index=data.edge_index, y=data.y)
    first = CRaWlNodeClassifier(**SMALL).fit(plain, nodes=range(12))
    mask = torch.arange(24) < 12
    for other in (
        CRaWlNodeClassifier(**SMALL).fit(plain, nodes=mask),
        CRaWlNodeClassifier(**SMALL).fit(plain, plain.y[:12], nodes=np.arange(12)),
        CRaWlNodeClassifier(**SMALL).fit(plain, [int(y) if i < 12 else None for i, y in enumerate(plain.y)]),
    ):
        assert np.allclose(other.predict_proba(plain), first.predict_proba(plain))
    named = CRaWlNodeClassifier(**SMALL).fit(nx.path_graph(9), {i: "ab"[i % 2] for i in range(8)})
    assert named.predict(nx.path_graph(9), [8]).shape == (1,)


def test_masks_hold_also_where_classes_are_given():
    data = ring(24)
    small = {**SMALL, "max_epochs": 1}
    first = CRaWlNodeClassifier(**small).fit(data)
    given = CRaWlNodeClassifier(**small).fit(data, data.y)
    assert np.array_equal(given.predict_proba(data), first.predict_proba(data))
    assert first.score(data, data.y) == first.score(data)
    named = CRaWlNodeClassifier(**small).fit(data, data.y, nodes=range(24))  # whoever names nodes means these
    assert not np.array_equal(named.predict_proba(data), first.predict_proba(data))
    assert first.score(data, data.y, range(24)) == np.mean(first.predict(data) == data.y.numpy())


def test_a_validation_mask_without_known_classes_is_as_none():
    data = ring(24)
    known = [int(y) if train else None for y, train in zip(data.y, data.train_mask, strict=True)]
    small = {**SMALL, "max_epochs": 1}
    found = CRaWlNodeClassifier(**small).fit(data, known).predict_proba(data)
    wanted = CRaWlNodeClassifier(**small).fit(data, data.y[data.train_mask], nodes=data.train_mask)
    assert np.array_equal(found, wanted.predict_proba(data))
    with pytest.raises(ValueError, match="name nodes whose target is known"):
        wanted.score(data, known)


def test_folds_of_masks():
    data = ring(24)
    small = {**SMALL, "max_epochs": 1}
    other, train, val = data.clone(), data.train_mask, data.val_mask
    other.train_mask, other.val_mask = val, train
    swapped = CRaWlNodeClassifier(**small).fit(other)
    data.train_mask, data.val_mask = torch.stack([train, val], dim=1), torch.stack([val, train], dim=1)
    second = CRaWlNodeClassifier(**small).fit(data, fold=1)
    assert np.array_equal(second.predict_proba(data), swapped.predict_proba(data))
    assert second.score(data, fold=1) == swapped.score(other)  # one test mask for both folds
    with pytest.raises(ValueError, match="fold must be a whole number from 0 to 1, not 2"):
        second.fit(data, fold=2)
    with pytest.raises(ValueError, match="fold=1 chooses a column of the masks of PyG data, which are not used here"):
        second.fit(data, nodes=range(24), fold=1)


def test_numbers_of_nodes():
    torch.manual_seed(0)
    data = ring(24)
    data.y = 1000 + 100 * data.x[:, 0]
    small = {**SMALL, "max_epochs": 150}
    model = CRaWlNodeRegressor(**small, layer=("walk",)).fit(data)
    assert model.predict(data).shape == (24,)
    assert model.score(data) == pytest.approx(r2_score(data.y[data.test_mask], model.predict(data, data.test_mask)))
    assert model.score(data, nodes=data.train_mask) > 0.5
    graph = nx.path_graph(9)
    mean, walk_spread = model.predict(data, data.test_mask, return_walk_spread=True)
    assert np.array_equal(mean, model.predict(data, data.test_mask))
    assert walk_spread.shape == mean.shape
    assert walk_spread.max() > 0
    with pytest.raises(ValueError, match="return_walk_spread must be True or False"):
        model.predict(data, return_walk_spread="yes")
    named = CRaWlNodeRegressor(**SMALL, loss="mse").fit(graph, {node: -float(node) for node in range(8)})
    assert named.predict(graph, [8]).shape == (1,)
    assert clone(named).get_params() == named.get_params()
    with pytest.raises(ValueError, match="real numbers"):
        CRaWlNodeRegressor(**SMALL).fit(graph, list("abcabcabc"))


def test_a_mask_is_not_a_list_of_nodes_0_and_1():
    graph, mask = nx.path_graph(9), np.arange(9) > 6
    model = CRaWlNodeClassifier(**{**SMALL, "max_epochs": 1}).fit(graph, {i: "ab"[i % 2] for i in range(8)})
    expected = model.predict_proba(graph, [7, 8])
    for same in (mask, torch.from_numpy(mask), mask.tolist()):
        assert np.array_equal(model.predict_proba(graph, same), expected)
    data = from_networkx(graph)
    numbered = CRaWlNodeClassifier(**{**SMALL, "max_epochs": 1}).fit(data, list("ababababa"))
    for same in (pd.Series(mask), pd.Series(mask, dtype="boolean"), mask.astype(object), pd.Series(mask, dtype=object)):
        assert np.array_equal(model.predict_proba(graph, same), expected)
        assert np.array_equal(numbered.predict_proba(data, same), numbered.predict_proba(data, [7, 8]))
    for wrong in ([True, False], mask[:, None], pd.Series([True])):
        with pytest.raises(ValueError, match="A mask of nodes must have 9 booleans"):
            model.predict(graph, wrong)
    for wrong in (torch.tensor(mask).to(torch.uint8), mask.astype(np.uint8)):
        for fitted, of in ((model, graph), (numbered, data)):
            with pytest.raises(
                ValueError, match=r"^nodes are of (torch\.)?uint8, .*: call \.bool\(\) for a mask, or \.long"
            ):
                fitted.embed(of, wrong)
    assert model.predict(graph, np.array([3, 4], dtype=np.int32)).shape == (2,)


def test_the_index_of_a_mask_names_its_nodes():
    graph = nx.relabel_nodes(nx.path_graph(5), dict(enumerate("abcde")))
    mask = pd.Series([True, False, True, False, False], index=list("ecabd"))
    assert node_ids(graph, mask).tolist() == [0, 4]
    with pytest.raises(
        ValueError, match=r"^There is no node 'z' in the graph, but it is in the index of nodes: give nod"
    ):
        node_ids(graph, mask.rename({"e": "z"}))


def test_labels_of_the_graph_follow_nodes_in_any_order():
    data = ring(24, train_mask=None, val_mask=None, test_mask=None)
    order = torch.arange(24).flip(0)
    owners, labels, _ = labelled(data, None, order)
    assert labels.tolist() == data.y[owners].tolist() != data.y.tolist()


def named(graph: nx.Graph, y: object, nodes: object = None) -> dict[object, object]:
    owners, labels, _ = labelled(graph, y, nodes)
    return dict(zip(names_of(graph, owners), labels.tolist(), strict=True))


def test_the_index_of_a_series_names_its_nodes():
    graph = nx.relabel_nodes(nx.path_graph(4), dict(enumerate("cadb")))
    y = pd.Series([1, 2, 3, 4], index=list("abcd"))
    assert named(graph, y) == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert named(graph, y.iloc[:2]) == {"a": 1, "b": 2}
    assert named(graph, y, ["d", "a"]) == {"a": 1, "d": 4}
    assert named(graph, pd.Series([1, 2, 3, 4])) == {"c": 1, "a": 2, "d": 3, "b": 4}  # in the order of the graph
    assert named(graph, pd.Series([1, 2]), ["d", "a"]) == {"d": 1, "a": 2}
    assert named(graph, pd.Series([1, pd.NA, 3, 4], index=list("abcd"), dtype="Int64")) == {"a": 1, "c": 3, "d": 4}
    for wrong, nodes, message in (
        (
            y.rename({"a": "z"}),
            None,
            r"^There is no node 'z' in the graph, but it is in the index of y: give y\.to_numpy",
        ),
        (y.iloc[[0, 1, 0]], None, r"^A node is named twice in the index of y: name each once\.$"),
        (y.iloc[:2], ["d", "a"], r"^y says nothing of node 'd': give a row for each node, or leave it out\.$"),
    ):
        with pytest.raises(ValueError, match=message):
            labelled(graph, wrong, nodes)
    numbers = nx.Graph([(3, 0), (0, 2), (2, 1)])
    assert named(numbers, pd.Series([1, 2, 3, 4], index=[2, 1, 0, 3])) == {2: 1, 1: 2, 0: 3, 3: 4}
    with pytest.raises(
        ValueError, match=r"The index of y is 0 to 3, and .* in another order: give y\.to_dict\(\) if the"
    ):
        labelled(numbers, pd.Series([1, 2, 3, 4]), None)


def test_the_index_of_a_series_for_pyg_data_is_in_order():
    data, y = ring(24), pd.Series(np.arange(24) % 3)
    assert labelled(data, y, None)[1].tolist() == y.tolist()
    assert labelled(data, y.iloc[[5, 3]], [5, 3])[1].tolist() == [2, 0]
    assert labelled(data, y, [5, 3])[1].tolist() == [2, 0]
    for wrong, nodes in ((y[::-1], None), (y.iloc[[5, 3]], [3, 5]), (y.iloc[[5, 3]], None)):
        with pytest.raises(
            ValueError, match=r"^The index of y is not 0 to \d+, nor .*\.sort_index\(\) .* give y\.to_numpy"
        ):
            labelled(data, wrong, nodes)
    with pytest.raises(ValueError, match=r"^The index of y is not"):
        CRaWlNodeClassifier(**SMALL).fit(data, y[::-1])


def test_rows_for_all_nodes_in_another_order_are_refused_unless_they_are_named():
    data, order = ring(24, train_mask=None, val_mask=None, test_mask=None), list(range(23, -1, -1))
    for y in (data.y, pd.Series(data.y.numpy())):
        with pytest.raises(
            ValueError, match=r"^y has 24 rows and nodes are named in another order .* as a dict from nod"
        ):
            CRaWlNodeClassifier(**SMALL).fit(data, y, nodes=order)
        assert labelled(data, y, range(24))[1].tolist() == data.y.tolist()
    by_name = {i: int(data.y[i]) for i in order}
    owners, labels, _ = labelled(data, by_name, None)
    assert labels.tolist() == data.y[owners].tolist()
    weights = np.arange(24.0)
    with pytest.raises(ValueError, match=r"^sample_weight has 24 rows and nodes are named in another order"):
        weights_at(weights, data, owners, owners)
    assert weights_at(dict(enumerate(weights)), data, owners, owners).tolist() == order
    assert weights_at(weights, data, owners[:5], owners[:5]).tolist() == order[:5]


def test_weights_with_names():
    graph = nx.relabel_nodes(nx.path_graph(4), dict(enumerate("cadb")))
    weights, asked = pd.Series([1.0, 2.0, 3.0, 4.0], index=list("abcd")), torch.tensor([3, 0])
    for given in (torch.arange(4), asked):
        assert weights_at(weights, graph, asked, given).tolist() == [2, 3]
    assert weights_at(pd.Series([5.0, 6.0]), graph, asked, asked).tolist() == [5, 6]
    with pytest.raises(ValueError, match="sample_weight says nothing of node 'b'"):
        weights_at(weights.drop("b"), graph, asked, asked)
    with pytest.raises(ValueError, match="The index of sample_weight is not 0 to 23"):
        weights_at(pd.Series(np.ones(24))[::-1], ring(24), torch.arange(24), torch.arange(24))


@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object), lambda y: pd.Series(y, dtype=object)])
def test_words_and_numbers_are_not_mixed(kind):
    for y in ([0, "a"], [1.5, "a"], [True, "a"]):
        with pytest.raises(ValueError, match=r"^y mixes classes of different kinds: give words, or give numbers\.$"):
            CRaWlNodeClassifier(**SMALL).fit(nx.path_graph(12), kind(y * 6))
        with pytest.raises(ValueError, match=r"^y must hold real numbers"):
            CRaWlNodeRegressor(**SMALL).fit(nx.path_graph(12), kind(y * 6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fold": 1}, r"^fold=1 chooses a column of the masks, which have one: leave it out\.$"),
        ({"nodes": [1, 99]}, r"^There is no node 99: the graph has nodes 0 to 23\.$"),
        ({"nodes": torch.ones(5, dtype=torch.bool)}, "A mask of nodes must have 24 booleans"),
        ({"nodes": [1, 1, 2]}, r"^A node is named twice in nodes: name each once\.$"),
        ({"y": [0, 1]}, r"^y has 2 targets for a graph of 24 nodes with masks: .* say in nodes which they are\.$"),
        ({"y": [0, 1], "nodes": range(24)}, r"^y has 2 targets for 24 nodes of a graph with 24 nodes\.$"),
        ({"y": [0] * 24}, "y holds one class only"),
        ({"nodes": [0, 1]}, r"^2 nodes with a target are too few to learn from: give at least 3\.$"),
    ],
)
def test_refuses_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        CRaWlNodeClassifier(**SMALL).fit(ring(24), **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("row", [[1, 2], np.array([1, 2]), torch.tensor([1, 2])], ids=["list", "array", "tensor"])
def test_several_targets_of_a_node_are_refused(row):
    for estimator in (CRaWlNodeClassifier, CRaWlNodeRegressor):
        with pytest.raises(ValueError, match=r"^y must hold one target for each node, a word or a number, not shape"):
            estimator(**SMALL).fit(nx.cycle_graph(6), [row] * 6)
    assert labelled(nx.cycle_graph(3), [[1], [2], [1]], None)[1].tolist() == [1, 2, 1]


def test_refuses_other_graphs_and_settings():
    with pytest.raises(ValueError, match=r"^There is no node 'z' in the graph\.$"):
        CRaWlNodeClassifier(**SMALL).fit(coloured(), {"n1": 0, "z": 1, "n2": 0})
    with pytest.raises(ValueError, match=r"^Give one graph, a networkx graph or PyG Data, not"):
        CRaWlNodeClassifier(**SMALL).fit([coloured()])
    with pytest.raises(ValueError, match="so batch_size=3 cannot change anything: leave it out, or give batches='clos"):
        CRaWlNodeClassifier(**SMALL, batch_size=3).fit(coloured())
    overlapping = ring(24, val_mask=torch.ones(24, dtype=torch.bool))
    with pytest.raises(ValueError, match="is in train_mask and in val_mask: masks must not overlap"):
        CRaWlNodeClassifier(**SMALL).fit(overlapping)
    unmarked = ring(24, train_mask=torch.zeros(24, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^No node is for training: train_mask is False for all of them; mark"):
        CRaWlNodeClassifier(**SMALL).fit(unmarked)
    missing = ring(24, y=torch.where(torch.arange(24) == 2, 2, torch.arange(24) % 2))
    with pytest.raises(ValueError, match=r"^No target of class 2 is in the training split"):
        CRaWlNodeClassifier(**SMALL).fit(missing)


def test_numbers_below_0_are_refused_as_from_graph_refuses_them():
    graph = nx.cycle_graph(8)
    for labels in ([0, 1, -1, 1, 0, 1, 0, 1], [1, -1] * 4):
        node = labels.index(-1)
        with pytest.raises(ValueError, match=f"The label of node {node} is -1, and classes are words"):
            CRaWlNodeClassifier(**SMALL).fit(graph, labels)


def test_score_refuses_what_is_no_class_of_the_model(fitted):
    graph = coloured(9, seed=3)
    for wrong, message in (
        ([0, 1] * 4 + [0], r"^y holds numbers, such as 0, and the classes .* words, such as 'blue': give the classes"),
        ([0, -1] * 4 + [0], r"^The label of node 'n1' is -1, and classes are words, .*: leave the node out"),
        (["blue", 1] * 4 + ["red"], "^y mixes classes of different kinds: give words, or give numbers"),
        ([0.0, np.inf] * 4 + [1], "^The target of node 'n1' is inf, which is not a class: leave out this node"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.score(graph, wrong)
    assert fitted.score(graph, ["green"] * 9) == 0  # a class that training had none of
    numbered = CRaWlNodeClassifier(**{**SMALL, "max_epochs": 1}).fit(nx.cycle_graph(8), [0, 1] * 4)
    with pytest.raises(ValueError, match=r"^y holds words, such as 'a', .* are numbers, such as 0: give the classes"):
        numbered.score(nx.cycle_graph(3), list("aba"))
    assert numbered.score(nx.cycle_graph(3), [True, True, True]) == numbered.score(nx.cycle_graph(3), [1.0, 1.0, 1.0])


@pytest.mark.parametrize("last", [np.inf, -np.inf])
def test_infinite_targets_are_named_by_their_node(last):
    graph, y = coloured(12), [None] * 5 + [0.0, 1.0, 0.0, 1.0, 0.0, last, 1.0]
    for given, node in ((graph, "'n10'"), (ring(12, train_mask=None, val_mask=None, test_mask=None), "10")):
        with pytest.raises(ValueError, match=rf"^The target of node {node} is NaN or infinite: leave out this node\.$"):
            CRaWlNodeRegressor(**SMALL).fit(given, y)
        message = f"^The target of node {node} is inf, which" if last > 0 else f"^The label of node {node} is -inf, and"
        with pytest.raises(ValueError, match=rf"{message} .*: leave"):
            CRaWlNodeClassifier(**SMALL).fit(given, y)
    regressor = CRaWlNodeRegressor(**{**SMALL, "max_epochs": 1}).fit(graph, [None] * 5 + [0.0, 1.0] * 3 + [2.0])
    with pytest.raises(ValueError, match=r"^The target of node 'n10' is NaN or infinite: leave out this node\.$"):
        regressor.score(graph, y)


def test_a_table_of_one_column_is_that_column():
    data = ring(24)
    table = pd.DataFrame({"y": data.y.numpy()})
    for given in (data, ring(24, train_mask=None, val_mask=None, test_mask=None)):
        small = {**SMALL, "max_epochs": 1}
        wanted = CRaWlNodeClassifier(**small).fit(given, data.y).predict_proba(given)
        assert np.array_equal(CRaWlNodeClassifier(**small).fit(given, table).predict_proba(given), wanted)
    graph = nx.relabel_nodes(nx.path_graph(4), dict(enumerate("cadb")))
    assert named(graph, pd.DataFrame({"y": [1, 2]}, index=["a", "d"])) == {"a": 1, "d": 2}
    weights = pd.DataFrame({"w": [1.0, 2.0, 3.0, 4.0]}, index=list("abcd"))
    assert weights_at(weights, graph, torch.tensor([3, 0]), torch.arange(4)).tolist() == [2, 3]
    for what, call in (
        ("y", lambda two: labelled(graph, two, None)),
        ("sample_weight", lambda two: weights_at(two, graph, torch.arange(4), torch.arange(4))),
    ):
        with pytest.raises(ValueError, match=rf"^{what} is a table with 2 columns, .*: give {what}\[name\] of one of"):
            call(weights.assign(v=1.0))


def test_weights_in_a_column_or_for_another_number_of_nodes():
    data, some = ring(24), torch.arange(9)
    for kind in (torch.tensor, np.array, list):
        column = kind([[float(i)] for i in range(24)])
        assert weights_at(column, data, some, torch.arange(24)).tolist() == list(range(9))
        assert weights_at(column, data, some[2:], some).tolist() == list(range(2, 9))
        assert weights_at(column[:9], data, some[2:], some).tolist() == list(range(2, 9))
    with pytest.raises(
        ValueError, match=r"must be 9 numbers, one for each node that is given, or 24, .* of the graph, not \[5\]"
    ):
        weights_at([1.0] * 5, data, some, some)
    with pytest.raises(ValueError, match=r"must be 24 numbers, one for each node, not \[24, 2\]"):
        weights_at(torch.ones(24, 2), data, some, torch.arange(24))


def test_weights_follow_their_nodes(monkeypatch):
    graph, seen = coloured(12), []
    monkeypatch.setattr(CRaWlNodeClassifier, "_train", lambda self, dataset, _: seen.append(dataset.store))
    weights, some = np.arange(12.0), ["n7", "n3", "n5", "n1", "n9", "n2", "n8"]
    classifier = CRaWlNodeClassifier(**SMALL)
    for how in (
        {"nodes": some, "sample_weight": weights},
        {"nodes": some, "sample_weight": weights[[7, 3, 5, 1, 9, 2, 8]]},
    ):
        classifier.fit(graph, **how)
        assert seen[-1].owners.tolist() == [7, 3, 5, 1, 9, 2, 8]
        assert seen[-1].sample_weight.tolist() == [7, 3, 5, 1, 9, 2, 8]
    colours = {name: None if name == "n5" else graph.nodes[name]["y"] for name in some}
    classifier.fit(graph, colours, sample_weight=weights[[7, 3, 5, 1, 9, 2, 8]])
    assert seen[-1].sample_weight.tolist() == [7, 3, 1, 9, 2, 8]  # n5 has no class
    with pytest.raises(ValueError, match="sample_weight must be 7 numbers, one for each node"):
        classifier.fit(graph, nodes=some, sample_weight=[1.0, 2.0])


def test_ratios_of_weights_matter_in_training():
    graph, settings = coloured(20), {**SMALL, "max_epochs": 3, "random_state": 0}
    alike = CRaWlNodeClassifier(**settings).fit(graph).predict_proba(graph)
    doubled = CRaWlNodeClassifier(**settings).fit(graph, sample_weight=[2.0] * 20).predict_proba(graph)
    uneven = CRaWlNodeClassifier(**settings).fit(graph, sample_weight=[0.0, 2.0] * 10).predict_proba(graph)
    assert np.allclose(alike, doubled, atol=1e-6)
    assert not np.allclose(alike, uneven, atol=1e-3)


def test_weights_below_0_are_refused():
    with pytest.raises(ValueError, match="sample_weight has -1"):
        CRaWlNodeClassifier(**SMALL).fit(coloured(), sample_weight=[-1.0] * 40)


def test_message_passing_needs_no_walks():
    graph, quick = coloured(12), {**SMALL, "max_epochs": 2}
    model = CRaWlNodeClassifier(**quick, layer=("gcn",)).fit(graph)
    assert model.model_.experiment.walk is None
    assert model.predict_proba(graph).shape == (12, 2)
    assert model.embed(graph, ["n3"]).shape == (1, 16)
    with pytest.raises(
        ValueError, match=r"^Closed batches are walks, and gcn gin does not walk: use batches='full'\.$"
    ):
        CRaWlNodeClassifier(**quick, layer=("gcn", "gin"), batches="closed").fit(graph)
    with pytest.raises(ValueError, match=r"^gcn does not walk, so pretraining=.* cannot change it: leave it out\.$"):
        CRaWlNodeClassifier(**quick, layer=("gcn",), pretraining=Pretraining(epochs=1)).fit(graph)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num_steps": 7},
            r"^Walks of 7 steps \(num_steps\) are shorter than .* 9 nodes: take 8 or more, or a smaller",
        ),
        ({"num_eval_steps": 3}, r"^Walks of 3 steps \(num_eval_steps\) are shorter than one window of 9 nodes"),
        ({"window_size": 5}, r"^window_size must be even, so that a window has a centre, not 5\.$"),
        ({"num_walks": 0}, r"^num_walks must be a whole number from 1"),
        ({"num_eval_walks": 0}, r"^num_eval_walks must be a whole number from 1"),
    ],
)
def test_remedies_are_parameters_that_there_are(settings, message):
    with pytest.raises(ValueError, match=message):
        CRaWlNodeClassifier(**{**SMALL, **settings}).fit(coloured(12))


def test_closed_batches_need_edges_both_ways():
    directed = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    message = (
        r"^Closed batches walk edges in both directions, but the edge from {} has no reverse: {}, or use batches='ful"
    )
    for graph, edge, remedy in (
        (directed, "'a' to 'b'", r"give graph\.to_undirected\(\)"),
        (from_networkx(directed), "0 to 1", "list both directions"),
    ):
        with pytest.raises(ValueError, match=message.format(edge, remedy)):
            CRaWlNodeClassifier(**SMALL, batches="closed").fit(graph, [0, 1, 1])


@pytest.mark.parametrize(("batches", "num_walks", "wanted"), [("full", None, 1), ("closed", None, 2), ("closed", 5, 5)])
def test_numbers_of_walks(batches, num_walks, wanted):
    quick = {**SMALL, "max_epochs": 1}
    model = CRaWlNodeClassifier(**quick, batches=batches, num_walks=num_walks, num_eval_walks=6).fit(coloured(12))
    assert model.model_.experiment.walk.num_walks == model.model_.model.walk_plan.num_walks == wanted
    assert model.model_.model.walk_plan.in_mode(is_training=False).num_walks == 6
    assert clone(model).num_walks == num_walks


def test_what_is_not_used_is_told_of():
    settings = {**SMALL, "max_epochs": 1}
    with pytest.warns(UserWarning, match=r"^Of the graph, pos, u will not be used: put what a model should see into x"):
        CRaWlNodeClassifier(**settings).fit(ring(24, pos=torch.rand(24, 2), u=torch.rand(1, 3)))
