"""What a model expects of graphs: what it refuses, and what it makes of categories it has not seen."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, replace

import pytest
import torch
from torch_geometric.data import Data

from crawl import Graph
from crawl.data import Dataset, GraphStore, OneGraph, Split, Task, csl, from_pyg
from crawl.data.features import Column, Columns
from crawl.nn.encoders import UNKNOWN
from crawl.plain import structure
from crawl.runs.features import Features

TASK = Task(kind="regression", num_outputs=1)
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
CATEGORIES = Features(TASK, (3, 2), (4,))
NUMBERS = Features(TASK, num_node_features=2, num_edge_features=1)


def store(x: torch.Tensor | None = None, edge_attr: torch.Tensor | None = None) -> GraphStore:
    """Two paths of three nodes."""
    return replace(GraphStore.from_graphs([Data(edge_index=EDGES, num_nodes=3)] * 2), x=x, edge_attr=edge_attr)


def columns(*values: list[float]) -> torch.Tensor:
    return torch.tensor(values).t()


FITTING = columns([0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0, 1]), columns([0, 1, 2, 3, 0, 1, 2, 3])


def test_what_fits_is_taken_as_it_is():
    prepared = CATEGORIES.prepared(store(*FITTING), "error")
    assert torch.equal(prepared.x, FITTING[0])
    assert torch.equal(prepared.edge_attr, FITTING[1])
    floats = CATEGORIES.prepared(store(FITTING[0].float(), FITTING[1].flatten().byte()), "error")
    assert (floats.x.dtype, floats.edge_attr.dtype) == (torch.int64, torch.int64)
    assert torch.equal(floats.x, FITTING[0])
    x, edge_attr = torch.randn(6, 2), torch.randn(8)
    numbers = NUMBERS.prepared(store(x, edge_attr))
    assert torch.equal(numbers.x, x)
    assert torch.equal(numbers.edge_attr, edge_attr.unsqueeze(1))
    bare = Features(TASK).prepared(store(torch.empty(6, 0)))
    assert (bare.x, bare.edge_attr) == (None, None)


def test_graphs_without_edges_need_no_edge_features():
    alone = GraphStore.from_graphs([Data(x=FITTING[0][:2], edge_index=torch.empty(2, 0, dtype=torch.long))])
    assert CATEGORIES.prepared(alone).edge_attr is None


@pytest.mark.parametrize(
    ("expected", "x", "edge_attr", "message"),
    [
        (CATEGORIES, None, FITTING[1], "x has 0 columns here, but had 2 in training: give graphs the features"),
        (CATEGORIES, FITTING[0], None, "edge_attr has 0 columns here, but had 1 in training: give"),
        (CATEGORIES, FITTING[0][:, :1], FITTING[1], "x has 1 columns here, but had 2 in training"),
        (Features(TASK), FITTING[0], None, "x has 2 columns here, but had 0 in training: leave it out"),
        (Features(TASK), None, FITTING[1], "edge_attr has 1 columns here, but had 0 in training: leave it out"),
        (NUMBERS, torch.ones(6, 2, 2), torch.ones(8), r"x must have a row of numbers .* not shape \[6, 2, 2\]"),
        (NUMBERS, columns([0.0] * 6, [0, 0, 0, 0, torch.nan, 0]), torch.ones(8), "Graph 1 has nan in x"),
        (NUMBERS, torch.ones(6, 2), torch.full((8,), torch.inf), "Graph 0 has inf in edge_attr"),
        (CATEGORIES, FITTING[0] + 0.5, FITTING[1], "Graph 0: x must hold categories, which are whole numbers"),
        (CATEGORIES, FITTING[0].float() - torch.inf, FITTING[1], "Graph 0 has -inf in x"),
    ],
)
def test_other_features_are_refused(expected, x, edge_attr, message):
    with pytest.raises(ValueError, match=message):
        expected.prepared(store(x, edge_attr))


def test_unknown_categories():
    x, edge_attr = FITTING[0].clone(), FITTING[1].clone()
    x[4] = torch.tensor([3, -1])
    x[5, 0] = 7
    edge_attr[1] = 4
    where = r"3, 7 in x\[:, 0\] \(2 nodes\); -1 in x\[:, 1\] \(1 node\); 4 in edge_attr\[:, 0\] \(1 edge\)\."
    with pytest.warns(UserWarning, match="not there in training are encoded as zeros: " + where) as caught:
        prepared = CATEGORIES.prepared(store(x, edge_attr))
    assert len(caught) == 1
    assert prepared.x[4:].tolist() == [[UNKNOWN, UNKNOWN], [UNKNOWN, 1]]
    assert torch.equal(prepared.x[:4], x[:4])
    assert prepared.edge_attr[:3].tolist() == [[0], [UNKNOWN], [2]]
    with pytest.raises(ValueError, match="were not there in training: " + where):
        CATEGORIES.prepared(store(x, edge_attr), "error")
    with pytest.raises(ValueError, match="handle_unknown must be one of warn, error, not 'ignore'"):
        CATEGORIES.prepared(store(x, edge_attr), "ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = CATEGORIES.prepared(prepared, "error")  # whoever made them unknown has told it
    assert torch.equal(again.x, prepared.x)


def test_categories_that_do_not_occur_are_unknown():
    graphs = [Data(x=torch.tensor([0, 4, 0]), edge_index=EDGES, y=float(i)) for i in range(10)]
    features = Features.of(from_pyg(graphs))
    assert (features.node_categories, features.node_gaps, features.edge_gaps) == ((5,), ((1, 2, 3),), ())
    with pytest.warns(UserWarning, match=r"1, 3 in x\[:, 0\] \(2 nodes\)"):
        prepared = features.prepared(store(torch.tensor([0, 1, 3, 4, 4, 0])))
    assert prepared.x.flatten().tolist() == [0, UNKNOWN, UNKNOWN, 4, 4, 0]


def test_atoms_and_bonds_that_do_not_occur(tmp_path):
    pytest.importorskip("rdkit")
    from crawl.data import from_csv

    (tmp_path / "few.csv").write_text("smiles,y\n" + "".join(f"{'C' * i},{i}.5\n" for i in range(1, 12)))
    features = Features.of(from_csv(tmp_path / "few.csv"))
    assert features.node_gaps[0] == tuple(number for number in range(119) if number != 5)  # all is carbon
    assert features.edge_gaps[0] == (1, 2, 3, 4)


def test_survives_json():
    some = Columns((Column("element", ("C", "N")),), (Column("length"),))
    for features in (
        Features.of(csl()),
        replace(CATEGORIES, node_gaps=((1,), ()), edge_gaps=((2, 3),)),
        replace(CATEGORIES, columns=some),
    ):
        assert structure(Features, json.loads(json.dumps(asdict(features))), "It") == features
    older = {key: value for key, value in asdict(CATEGORIES).items() if "gaps" not in key and key != "columns"}
    assert structure(Features, json.loads(json.dumps(older)), "It") == CATEGORIES


def one_graph(weight: torch.Tensor | None = None) -> OneGraph:
    graph = Graph.from_edge_index(EDGES[:, ::2], 3, edge_weight=weight, undirected=True)
    return OneGraph(graph, torch.arange(3))


def test_weights_of_edges_are_there_as_in_training():
    weighted, plain = one_graph(torch.tensor([1.0, 2.0])), one_graph()
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    task = replace(TASK, level="node")
    of_weighted, of_plain = (Features.of(Dataset("g", store, task, split)) for store in (weighted, plain))
    assert (of_weighted.is_weighted, of_plain.is_weighted) == (True, False)
    of_weighted.prepared(weighted)
    of_plain.prepared(plain)
    with pytest.raises(ValueError, match=r"have no weights, and those of the training had some.*: build .* with --wei"):
        of_weighted.prepared(plain)
    with pytest.raises(ValueError, match=r"have no weights"):
        of_weighted.prepared(store())
    with pytest.raises(ValueError, match=r"have weights, and those of the training had none.*: build .* without --wei"):
        of_plain.prepared(weighted)
    of_older = replace(of_plain, is_weighted=None)
    of_older.prepared(plain)
    with pytest.warns(UserWarning, match="does not say whether those of its training had"):
        of_older.prepared(weighted)
