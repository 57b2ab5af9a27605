"""Explanations of networks, trained models and models of one's own; what cannot be explained is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_mean_pool

import crawl
import crawl.nn
from crawl import Graph, Walks, explain, sample_walks
from crawl.data import from_csv
from crawl.data.store import GraphStore
from crawl.encodings.settings import Encodings
from crawl.training.evaluation import Scaling
from tests.explanations.small_models import house, network, trained, trained_on

QUICK: dict[str, Any] = {"num_repeats": 2, "num_points": 4}


def test_nodes_edges_and_residual_add_up() -> None:
    found = explain(network(), house(), target=1, **QUICK)
    total = found.nodes.sum() + found.edges.sum() + found.residual
    assert total == pytest.approx(found.prediction - found.baseline, abs=1e-5)
    read = sum(each.values.sum() for each in found.walks) / found.num_repeats
    residual_of_walks = found.prediction - found.silent - read
    assert abs(residual_of_walks) < 0.2 * np.abs(found.nodes).sum()
    assert found.nodes.shape == found.node_spread.shape == found.own.shape == (6,)
    assert found.edges.shape == found.edge_spread.shape == (14,)
    assert bool((found.node_spread > 0).any())
    assert len(found.walks) == 2
    assert [each.values.shape for each in found.walks[0].windows] == [(6, 9), (6, 9)]
    assert json.loads(json.dumps(found.to_dict()))["nodes"] == found.nodes.tolist()
    assert found.subgraphs
    again = explain(network(), house(), target=1, **QUICK)
    assert np.array_equal(again.nodes, found.nodes)
    assert not np.array_equal(explain(network(), house(), target=1, seed=1, **QUICK).nodes, found.nodes)


def test_float64_agrees() -> None:
    single, double = (explain(network(), house(), target=0, double=each, **QUICK) for each in (False, True))
    assert np.allclose(single.nodes, double.nodes, atol=1e-4)
    assert single.prediction == pytest.approx(double.prediction, abs=1e-5)


@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_a_linear_readout_is_exact_against_brute_force(pool: str) -> None:
    model, data = network(pool=pool, head="linear").double(), house()
    data.x, data.edge_attr = data.x.double(), data.edge_attr.double()
    graph = Graph.from_data(data)
    walks = model.sample_walks(graph, seed=5)
    found = explain(model, data, target=1, walks=walks, num_points=2, double=True)
    assert found.readout is not None
    assert found.readout_rest is not None
    assert found.readout.sum() + found.readout_rest == pytest.approx(found.prediction, abs=1e-12)
    with torch.no_grad():
        state = model.last_state(model.encode(model.batch_of(data, walks, None, None))).nodes
        pooled = model.readout.norm(state).relu()
        whole = model.readout.head(pooled.sum(0) / (6 if pool == "mean" else 1))[1]
        for node in range(6):
            rest = torch.cat([pooled[:node], pooled[node + 1 :]]).sum(0) / (6 if pool == "mean" else 1)
            assert found.readout[node] == pytest.approx(float(whole - model.readout.head(rest)[1]), abs=1e-12)


def test_other_readouts_have_no_exact_part() -> None:
    assert explain(network(), house(), target=0, **QUICK).readout is None
    assert explain(network(pool=None, head="linear"), house(), target=0, node=1, **QUICK).readout is None


@pytest.mark.parametrize("settings", [{}, {"pool": "sum", "layer": ("walk", "gine", "virtual_node")}])
def test_other_numbers_of_nodes_permute_the_explanation(settings: dict[str, Any]) -> None:
    model, data = network(**settings), house()
    order = torch.tensor([3, 0, 5, 1, 4, 2])  # node v becomes order[v]
    columns = torch.randperm(14, generator=torch.Generator().manual_seed(0))
    x = torch.empty_like(data.x)
    x[order] = data.x
    renamed = Data(x=x, edge_index=order[data.edge_index][:, columns], edge_attr=data.edge_attr[columns])
    walks = [sample_walks(Graph.from_data(data), num_steps=12, window_size=4, seed=seed) for seed in range(2)]
    moved = [Walks.from_nodes(Graph.from_data(renamed), order[each.nodes.long()], 4) for each in walks]
    one = explain(model, data, target=0, walks=walks, num_points=4, double=True)
    other = explain(model, renamed, target=0, walks=moved, num_points=4, double=True)
    assert np.allclose(other.nodes[order.numpy()], one.nodes, atol=1e-9)
    assert np.allclose(other.edges, one.edges[columns.numpy()], atol=1e-9)
    assert np.abs(one.edges).max() > 1e-4
    for mine, yours in zip(one.subgraphs, other.subgraphs, strict=True):
        assert sorted(order[list(mine.nodes)].tolist()) == list(yours.nodes)
        assert mine.score == pytest.approx(yours.score, abs=1e-9)
        assert (mine.kind, mine.rings, mine.seen) == (yours.kind, yours.rings, yours.seen)


# ---- trained models


def graphs(target: Any) -> list[Data]:
    made = []
    for seed in range(8):
        data = house(seed)
        data.y = target(seed)
        made.append(data)
    return made


def test_a_number_is_explained_in_its_unit_with_the_walks_of_predict() -> None:
    scaling = Scaling((10.0,), (4.0,))
    model, dataset = trained(graphs(lambda i: i + 0.5), scaling, task="regression")
    predictions = model.predict(dataset.store.subset([3]))
    found = explain(model, graphs(float)[3], num_points=2)
    assert found.num_repeats == 2
    assert found.prediction == pytest.approx(predictions.mean[0, 0], abs=1e-4)
    assert found.prediction_spread == pytest.approx(predictions.walk_spread[0, 0], abs=1e-4)
    assert found.probability is None
    total = found.nodes.sum() + found.edges.sum() + found.residual
    assert total == pytest.approx(found.prediction - found.baseline, abs=1e-4)


def test_two_classes() -> None:
    model, dataset = trained(graphs(lambda i: i % 2), task="binary")
    probability = model.predict(dataset.store.subset([2])).mean[0, 0]
    second, first = (explain(model, house(2), target=each, num_points=2) for each in (None, 0))
    assert (second.target, first.target) == ("logit of 1", "logit of 0")
    assert second.probability == pytest.approx(probability, abs=1e-5)
    assert first.probability == pytest.approx(1 - probability, abs=1e-5)
    assert np.allclose(first.nodes, -second.nodes, atol=1e-6)


def test_several_classes_and_labels() -> None:
    model, dataset = trained(graphs(lambda i: i % 3), task="multiclass")
    shown = model.predict(dataset.store.subset([1])).mean[0]
    found = explain(model, house(1), num_points=2)
    assert found.output.column == shown.argmax()
    assert found.probability == pytest.approx(shown.max(), abs=1e-5)
    assert explain(model, house(1), target="2", num_points=2).output.column == 2
    with pytest.raises(ValueError, match="target must be one of 0, 1, 2, not 'x'"):
        explain(model, house(1), target="x")
    labels, _ = trained(graphs(lambda i: torch.tensor([[i % 2, 1.0]])), task="multilabel")
    assert explain(labels, house(1), target=1, num_points=2).probability is not None
    with pytest.raises(ValueError, match="say which to explain by target"):
        explain(labels, house(1))


def test_ensembles_and_links_are_refused() -> None:
    model, _ = trained(graphs(float), task="regression")
    model.members = (model, model)
    with pytest.raises(ValueError, match="load one of them, as member-1"):
        explain(model, house())


def test_encodings_are_features_of_nodes() -> None:
    from dataclasses import replace

    from crawl.runs.build import build_model
    from crawl.runs.trained import TrainedModel

    model, _ = trained(graphs(float), task="regression")
    experiment = replace(model.experiment, encodings=Encodings(return_steps=4))
    with_steps = TrainedModel(build_model(experiment, model.features), experiment, model.features, Scaling(), {})
    found = explain(with_steps, house(), num_points=4)
    store = GraphStore.from_graphs([house()])
    assert found.prediction == pytest.approx(with_steps.predict(store).mean[0, 0], abs=1e-4)
    assert found.has_own
    assert found.nodes.shape == (6,)


# ---- nodes


def test_a_node_is_explained() -> None:
    model = network(pool=None)
    found = explain(model, house(), target=1, node=5, **QUICK)
    assert found.node == 5
    assert found.nodes.sum() + found.edges.sum() + found.residual == pytest.approx(
        found.prediction - found.baseline, abs=1e-5
    )
    assert abs(found.own[5]) > 0
    assert np.allclose(np.delete(found.own, 5), 0)  # with silent walks a node knows of itself alone
    with pytest.raises(ValueError, match="answers for nodes: say which to explain, node=0 to 5"):
        explain(model, house(), target=1)
    with pytest.raises(ValueError, match="node must be a whole number from 0 to 5, not 6"):
        explain(model, house(), target=1, node=6)
    with pytest.raises(ValueError, match="answers for graphs, so node=1"):
        explain(network(), house(), target=1, node=1)


# ---- models of one's own


class Own(nn.Module):
    """Takes PyG data and draws its own walks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = crawl.CRaWlConv(3, 8, window_size=4), nn.Linear(8, 1)

    def forward(self, data: Data, seed: int | None = None) -> Tensor:
        walks = sample_walks(Graph.from_data(data), num_steps=12, window_size=4, seed=seed or 0)
        return self.head(global_mean_pool(self.conv(data.x, walks), data.batch))


class OwnBatch(nn.Module):
    """Takes a batch with walks, which it reads by `read`."""

    def __init__(self, by_gather: bool) -> None:
        super().__init__()
        self.walk_plan, self.by_gather = crawl.WalkPlan(num_eval_steps=12, window_size=4), by_gather
        self.node, self.bits, self.head = nn.Linear(3, 4), nn.Parameter(torch.randn(7, 4)), nn.Linear(4, 1)

    def forward(self, batch: crawl.nn.Batch) -> Tensor:
        walks, nodes = batch.walks, self.node(batch.x)
        assert walks is not None
        if self.by_gather:
            rows = walks.gather(nodes, bits=self.bits)
        else:
            rows = nodes[walks.nodes] + walks.bits().to(nodes.dtype) @ self.bits
        return self.head(batch.nodes.mean(walks.mean_at_nodes(rows.tanh())))


@pytest.mark.parametrize("model", [Own(), OwnBatch(by_gather=True)], ids=["conv", "gather"])
def test_models_of_ones_own(model: nn.Module) -> None:
    torch.manual_seed(0)
    found = explain(model, house(), num_repeats=2, num_points=60)
    assert found.has_own
    size = np.abs(found.nodes).sum() + np.abs(found.edges).sum()
    assert size > 1e-3
    assert abs(found.residual) < 0.02 * size
    assert found.subgraphs


def test_categories_of_ones_own_model_stay_in_the_baseline() -> None:
    class Categories(Own):
        def forward(self, data: Data, seed: int | None = None) -> Tensor:
            data = data.clone()
            data.x = nn.functional.one_hot(data.x.view(-1), 3).to(self.head.weight.dtype)
            return super().forward(data, seed)

    data = house()
    data.x = torch.tensor([0, 1, 2, 0, 1, 2])
    found = explain(Categories(), data, num_repeats=1, num_points=40)
    assert not found.has_own
    assert found.baseline == found.silent
    assert not found.own.any()


def test_what_reads_bits_by_itself_is_refused() -> None:
    with pytest.raises(ValueError, match=r"OwnBatch reads walks neither by a CRaWlConv nor by Walks\.gather"):
        explain(OwnBatch(by_gather=False), house())


# ---- what is refused, and odd graphs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"target": None}, "answers with 2 numbers: say which to explain, target=0 to 1"),
        ({"target": 2}, "target must be a whole number from 0 to 1, not 2"),
        ({"target": "logS"}, "target must be a whole number"),
        ({"target": 0, "num_repeats": 0}, "num_repeats must be a whole number"),
        ({"target": 0, "num_points": 0}, "num_points must be a whole number"),
        ({"target": 0, "top": -1}, "top must be a whole number"),
        ({"target": 0, "seed": -1}, "seed must be a whole number"),
        ({"target": 0, "walks": []}, "walks is an empty list"),
        ({"target": 0, "walks": [3]}, "walks must be"),
    ],
)
def test_wrong_arguments(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(network(), house(), **words)


def test_wrong_models_and_graphs() -> None:
    model, walks = network(), network().sample_walks(Graph.from_data(house()), seed=0)
    with pytest.raises(ValueError, match="leave out num_repeats"):
        explain(model, house(), target=0, walks=walks, num_repeats=2)
    with pytest.raises(ValueError, match="draws its own walks: leave out walks"):
        explain(Own(), house(), walks=walks)
    with pytest.raises(ValueError, match="No layer of this Network walks"):
        explain(crawl.Network(3, 1, layer=("gin",), edge_dim=None), house())
    with pytest.raises(ValueError, match="has 2 graphs: explain them one by one"):
        explain(model, Batch.from_data_list([house(), house()]), target=0)
    with pytest.raises(ValueError, match="data must be"):
        explain(model, [house()], target=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not trained on molecules"):
        explain(model, "CCO", target=0)
    with pytest.raises(ValueError, match="has no nodes"):
        explain(model, Data(x=torch.empty(0, 3), edge_index=torch.empty(2, 0, dtype=torch.long)), target=0)
    with pytest.raises(ValueError, match="model must be"):
        explain("model", house())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no weights"):
        explain(nn.Identity(), house())
    strange = house()
    strange.x[0, 0] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        explain(model, strange, target=0)


def test_a_graph_without_edges() -> None:
    data = Data(x=torch.randn(2, 3), edge_index=torch.empty(2, 0, dtype=torch.long), edge_attr=torch.empty(0, 2))
    found = explain(network(pool="sum"), data, target=0, **QUICK)
    assert found.subgraphs == ()
    assert found.prediction == pytest.approx(found.silent)
    assert found.nodes.sum() + found.residual == pytest.approx(found.prediction - found.baseline, abs=1e-5)
    json.dumps(found.to_dict())


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_features_of_the_graph_are_part_of_the_baseline(head: str) -> None:
    model, data = network(pool="sum", head=head, graph_channels=2), house()
    data.u = torch.tensor([[0.5, -2.0]])
    found = explain(model, data, target=0, num_repeats=2, num_points=60, double=True)
    with torch.no_grad():
        batch = model.encode(model.batch_of(data, None, None, 0))
        nothing = model.readout.head(torch.cat([torch.zeros(8), batch.u[0]]))[0]
    assert found.baseline == pytest.approx(float(nothing), abs=1e-5)
    assert abs(found.residual) < 0.02 * (np.abs(found.nodes).sum() + np.abs(found.edges).sum())
    if head == "linear":
        assert found.readout is not None
        assert found.readout_rest == pytest.approx(float(nothing), abs=1e-5)
        assert found.readout.sum() + found.readout_rest == pytest.approx(found.prediction, abs=1e-6)


def test_molecules_of_a_model_with_descriptors(tmp_path: Path) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    path = tmp_path / "a.csv"
    path.write_text("smiles,logS\n" + "".join(f"{'C' * (i + 1)}{'ON'[i % 2]},{i}.5\n" for i in range(12)))
    model = trained_on(from_csv(path, descriptors=True))
    for molecule in ("CCO", chem.MolFromSmiles("CCO")):
        found = explain(model, molecule, **QUICK)
        assert found.prediction == pytest.approx(model.predict("CCO").mean[0, 0], abs=1e-5)
        total = found.nodes.sum() + found.edges.sum() + found.residual
        assert total == pytest.approx(found.prediction - found.baseline, abs=1e-5)


def test_several_molecules_in_a_row_are_not_one(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    path = tmp_path / "a.csv"
    path.write_text("solute,solvent,logS\n" + "".join(f"{'C' * (i + 1)},O,{i}.5\n" for i in range(12)))
    model = trained_on(from_csv(path, smiles_column=["solute", "solvent"]))
    with pytest.raises(ValueError, match="reads 2 molecules side by side: use crawl explain with a table"):
        explain(model, "CCO")
