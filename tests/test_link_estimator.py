"""The estimator for links of one graph: PyG data or a networkx graph, pairs of numbers or of nodes."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from crawl import CRaWlLinkPredictor

SMALL = {
    **{"hidden_channels": 16, "num_layers": 1, "num_steps": 8, "num_eval_steps": 8, "num_repeats": 2},
    **{"max_epochs": 30, "lr": 0.02, "device": "cpu", "dropout": 0.0},
}


def groups(sizes: tuple[int, ...] = (12, 12), seed: int = 0) -> nx.Graph:
    """Groups whose nodes are linked among each other; nodes know their group."""
    graph = nx.stochastic_block_model(sizes, np.full((len(sizes),) * 2, 0.03) + 0.6 * np.eye(len(sizes)), seed=seed)
    made = nx.Graph()
    for node, block in graph.nodes(data="block"):
        made.add_node(f"n{node}", x=[float(block), 1.0 - block])
    made.add_edges_from((f"n{u}", f"n{v}") for u, v in graph.edges)
    return made


def other_pairs(graph: nx.Graph) -> list[tuple[str, str]]:
    """Pairs without a link, of different groups."""
    block = dict(graph.nodes(data="x"))
    return [(u, v) for u, v in nx.non_edges(graph) if block[u] != block[v]]


@pytest.fixture(scope="module", params=["full", "closed"])
def fitted(request) -> CRaWlLinkPredictor:
    epochs = {"full": 60, "closed": 8}[request.param]
    return CRaWlLinkPredictor(**(SMALL | {"max_epochs": epochs}), batches=request.param).fit(groups())


def test_it_tells_links_of_this_and_of_another_graph(fitted):
    own = groups()
    assert is_classifier(fitted)
    assert fitted.classes_.tolist() == [0, 1]
    for graph in (None, groups((8, 10), seed=1)):
        known = own if graph is None else graph
        links, others = list(known.edges)[:20], other_pairs(known)[:20]
        pairs, y = [*links, *others], [1] * 20 + [0] * 20
        probabilities = fitted.predict_proba(pairs, graph)
        assert probabilities.shape == (40, 2)
        assert np.allclose(probabilities.sum(axis=1), 1)
        assert fitted.predict(pairs, graph).tolist() == (probabilities[:, 1] > 0.5).astype(int).tolist()
        for hide in (False, True):
            assert fitted.score(pairs, y, graph, hide=hide) > 0.8
        turned = [(v, u) for u, v in pairs]
        assert np.allclose(fitted.predict_proba(turned, graph), probabilities, atol=1e-5)
        assert not np.allclose(fitted.predict_proba(pairs, graph, hide=True), probabilities, atol=1e-5)


@pytest.mark.parametrize("hide", [False, True])
def test_a_bound_on_memory_changes_no_prediction(fitted, hide):
    bounded, pairs = pickle.loads(pickle.dumps(fitted)).set_params(memory_gb=1), list(groups().edges)[:6]
    wanted = fitted.predict_proba(pairs, hide=hide)
    assert np.allclose(bounded.predict_proba(pairs, hide=hide), wanted, atol=1e-5)


def test_embeddings_are_of_nodes(fitted):
    assert fitted.embed().shape == (24, 16)
    assert np.allclose(fitted.embed(nodes=["n3", "n1"]), fitted.embed()[[3, 1]], atol=1e-5)
    other = groups((5, 4), seed=2)
    assert np.allclose(fitted.transform(other), fitted.embed(other))
    assert fitted.embed(other).shape == (9, 16)
    assert fitted.embed(other, []).shape == (0, 16)
    for hide in (False, True):
        assert fitted.predict_proba([], hide=hide).shape == (0, 2)


def test_it_is_cloned_and_pickled(fitted):
    pairs = [("n0", "n1"), ("n0", "n23")]
    again = pickle.loads(pickle.dumps(fitted))
    assert np.allclose(again.predict_proba(pairs), fitted.predict_proba(pairs))
    assert clone(fitted).get_params() == fitted.get_params()
    for call in (clone(fitted).predict, clone(fitted).predict_proba, lambda pairs: clone(fitted).embed()):
        with pytest.raises(NotFittedError):
            call(pairs)


def test_pyg_data_and_forms_of_pairs():
    graph = groups()
    data = from_networkx(nx.convert_node_labels_to_integers(graph))
    model = CRaWlLinkPredictor(**(SMALL | {"max_epochs": 3}), metric="hits@5", pair="dot", num_negatives=2).fit(data)
    expected = model.predict_proba([[0, 1], [2, 15]])
    for pairs in (torch.tensor([[0, 1], [2, 15]]), np.array([[0, 1], [2, 15]]), [(0, 1), (2, 15)]):
        assert np.allclose(model.predict_proba(pairs), expected)
    named = CRaWlLinkPredictor(**(SMALL | {"max_epochs": 3}), metric="hits@5", pair="dot", num_negatives=2).fit(graph)
    assert np.allclose(named.predict_proba([("n0", "n1"), ("n2", "n15")]), expected, atol=1e-5)
    loops = Data(x=data.x, edge_index=torch.cat([data.edge_index, torch.tensor([[4], [4]])], 1))
    again = CRaWlLinkPredictor(**(SMALL | {"max_epochs": 3}), metric="hits@5", pair="dot", num_negatives=2).fit(loops)
    assert np.allclose(again.predict_proba([[0, 1], [2, 15]]), expected, atol=1e-5)  # a self-loop is not a link


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("n0", "zoe")], r"^There is no node 'zoe' in the graph\.$"),
        ([("n0", "n1"), ("n3", "n3")], r"^A link is between two different nodes, but pairs\[1\] names one twice\.$"),
        ([("n0", "n1", "n2")], r"^pairs\[0\] must be two nodes of the graph, not \('n0', 'n1', 'n2'\)\.$"),
        ([("n0", [])], r"^There is no node \[\] in the graph\.$"),
        (["n0"], r"^pairs\[0\] must be two nodes of the graph, not 'n0'\.$"),
        (5, "pairs"),
    ],
)
def test_wrong_pairs_are_refused(fitted, pairs, message):
    with pytest.raises(ValueError, match=message) as caught:
        fitted.predict_proba(pairs)
    assert "\n" not in str(caught.value)


def test_wrong_numbers_and_labels_are_refused(fitted):
    other = from_networkx(nx.convert_node_labels_to_integers(groups()))
    for pairs, message in (
        ([[0, 24]], r"^There is no node 24: the graph has nodes 0 to 23\.$"),
        ([[0, 0]], "names one twice"),
        (torch.tensor([[0, 1, 2], [3, 4, 5]]), r"\[n, 2\] integers.* Of edge_label_index, give the transpose\.$"),
        ([[0.5, 1.0]], r"^pairs\[0\] must be two numbers of nodes, not \[0\.5, 1\.0\]\.$"),
        ([[0, 1], ["a", "b"]], r"^pairs\[1\] must be two numbers of nodes"),
        ([[True, False]], r"^pairs\[0\] must be two numbers of nodes"),
        ([[0, other]], r"^pairs\[0\] must be two numbers of nodes"),
        ([[0, 1], other], r"^pairs\[1\] must be two nodes of the graph"),
        ([[0, 10**400]], r"^There is no node 1"),
        (np.array([object()]), r"^pairs\[0\] must be two nodes of the graph"),
        (np.array([[0, 99]], dtype=np.uint64), r"^There is no node 99"),
        (torch.tensor(3), r"^Pairs must be numbers of nodes, \[n, 2\] integers"),
        (np.array([[0.5, 1.0]]), r"^Pairs must be numbers of nodes, \[n, 2\] integers"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(pairs, other)
    for y, message in (
        ([1], r"^y must be 0 or 1 for each of 2 pairs, not \[1\]\.$"),
        ([1, 2], r"^y must be 0 or 1 for each of 2 pairs"),
        ([1, 1], r"^y says the same of all pairs: give some that are linked, and some that are not\.$"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.score([("n0", "n1"), ("n0", "n23")], y)
    assert fitted.predict_proba([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("graph", "settings", "message"),
    [
        (
            nx.DiGraph(["ab", "bc", "ca"]),
            {"batches": "closed"},
            r"The edge from 'a' to 'b' has no reverse, .*: give graph",
        ),
        (
            nx.DiGraph([(0, 1), (1, 2), (2, 0)]),
            {},
            r"The edge from 0 to 1 has no reverse, .*: give graph\.to_undirected",
        ),
        (nx.path_graph(3), {}, r"^The graph has 2 links, too few to learn from: 4 are needed\.$"),
        (nx.complete_graph(5), {}, "pairs without a link are needed, but the graph of 5 nodes has 0"),
        (nx.Graph(), {}, "0 links"),
        ([nx.path_graph(3)], {}, r"^Give one graph, a networkx graph or PyG Data, not"),
        (nx.cycle_graph(9), {"validation_fraction": 1.0}, "validation_fraction must be a number between 0 and 1"),
        (nx.cycle_graph(9), {"supervised_share": 0}, "supervised_share must be a number between 0 and 1"),
        (nx.cycle_graph(9), {"num_negatives": 0}, "num_negatives must be"),
        (nx.cycle_graph(9), {"pair": "sum"}, "pair"),
        (nx.cycle_graph(9), {"metric": "hits@0"}, "hits@"),
        (nx.cycle_graph(9), {"batch_size": 3}, "so batch_size=3 cannot change anything"),
    ],
)
def test_graphs_and_settings_are_refused_in_one_line(graph, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        CRaWlLinkPredictor(**(SMALL | settings)).fit(graph)
    assert "\n" not in str(caught.value)


def test_message_passing_needs_no_walks():
    quick = {**SMALL, "max_epochs": 2}
    model = CRaWlLinkPredictor(**quick, layer=("gcn",), pair="dot").fit(groups())
    assert model.model_.experiment.walk is None
    assert model.predict_proba([("n0", "n1")]).shape == (1, 2)
    with pytest.raises(ValueError, match=r"^Closed batches are walks, and gcn does not walk: use batches='full'\.$"):
        CRaWlLinkPredictor(**quick, layer=("gcn",), batches="closed").fit(groups())


def test_numbers_of_walks():
    quick = {**SMALL, "max_epochs": 1}
    model = CRaWlLinkPredictor(**quick, batches="closed", num_walks=3).fit(groups())
    assert model.model_.experiment.walk.num_walks == 3


def test_labels_are_not_learned():
    with pytest.raises(ValueError, match=r"^What is learned are the links of the graph: leave out y\.$"):
        CRaWlLinkPredictor(**SMALL).fit(nx.cycle_graph(9), [1] * 9)


def test_what_is_not_used_is_told_of():
    data = from_networkx(groups())
    data.pos, data.u, data.y = torch.rand(24, 2), torch.rand(1, 3), torch.zeros(24)
    with pytest.warns(UserWarning, match=r"^Of the graph, pos, u will not be used: put what a model should see into x"):
        CRaWlLinkPredictor(**{**SMALL, "max_epochs": 1}).fit(data)
