from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Batch

from crawl.data import Task
from crawl.data.given_graphs import store_of
from crawl.runs import Csv, GivenData, Model, TrainedModel, run_experiment
from crawl.runs.build import build_model
from crawl.training import Predictions
from crawl.training.checkpoint import load_checkpoint, save_checkpoint


@pytest.fixture
def model(finished) -> TrainedModel:
    return TrainedModel.load(finished.folder, device="cpu")


def test_it_knows_what_it_is(model, finished, tiny, paths):
    assert model.experiment == replace(tiny, data=GivenData())
    assert model.features.task == paths.task
    assert (model.features.num_node_features, model.features.num_edge_features) == (2, 0)
    assert model.record["scores"] == finished.record["scores"]
    assert not model.model.training


def test_a_folder_and_its_checkpoint_are_the_same(model, finished, paths):
    other = TrainedModel.load(str(finished.folder / "best.safetensors"), device="cpu")
    assert np.array_equal(other.predict(paths.store).repeats, model.predict(paths.store).repeats)


def test_tables_that_checkpoints_do_not_keep(tiny, paths, tmp_path):
    x = torch.arange(len(paths.store.x)).remainder(3)[:, None]
    data = replace(paths, store=replace(paths.store, x=x), node_categories=(3,))
    run = run_experiment(replace(tiny, model=Model(("walk", "gru"), 8, 1)), tmp_path / "run", dataset=data)
    found = TrainedModel.load(run.folder, device="cpu")
    built = build_model(found.experiment, found.features)
    tables = dict(built.named_buffers()).keys() - built.state_dict().keys()
    assert len(tables) == 2  # of the one-hot encoder and of the bits along walks
    assert all(torch.equal(found.model.get_buffer(name), built.get_buffer(name)) for name in tables)
    assert np.isfinite(found.predict(data.store).mean).all()


def test_predictions(model, paths):
    found = model.predict(paths.store)
    assert found.repeats.shape == (2, 10, 2)
    assert model.predict(paths.store, num_repeats=3, num_steps=4).repeats.shape == (3, 10, 2)
    assert np.abs(model.predict(paths.store, seed=1).mean - found.mean).max() > 0
    np.testing.assert_allclose(model.predict(paths.store, batch_size=1).mean, found.mean, rtol=1e-5, atol=1e-5)
    alone = model.predict(paths.store.subset([6]))
    np.testing.assert_allclose(alone.mean[0], found.mean[6], rtol=1e-5, atol=1e-5)


def test_many_batches_are_predicted_with_padded_ones(model, paths, monkeypatch, request):
    pytest.importorskip("triton")
    request.getfixturevalue("wide_tiles")
    store = paths.store.subset(range(7))  # with three repeats 21 batches, one more than are not worth capturing
    expected = model.predict(store, num_repeats=3, batch_size=1)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})  # Triton's interpreter stands in for a GPU
    batches = []
    found = model.predict(store, num_repeats=3, batch_size=1, on_batch=lambda: batches.append(1))
    assert len(batches) == 21
    np.testing.assert_allclose(found.repeats, expected.repeats, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="batch_size must be a whole number from 1 to 2147483647, not 0"):
        model.predict(paths.store, batch_size=0)


def test_targets_are_given_back_in_their_unit(tiny, paths, tmp_path):
    store = replace(paths.store, y=paths.store.y + 1e6)
    experiment = replace(tiny, training=replace(tiny.training, normalise_targets=True))
    run = run_experiment(experiment, tmp_path / "run", dataset=replace(paths, store=store))
    model = TrainedModel.load(run.folder, device="cpu")
    assert np.abs(model.predict(store).mean - 1e6).max() < 100


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_features_that_are_not_finite_are_refused(model, paths, wrong):
    x = paths.store.x.clone()
    x[4, 1] = wrong
    with pytest.raises(ValueError, match=f"Graph 1 has {wrong} in x: give finite numbers"):
        model.predict(replace(paths.store, x=x))


def test_graphs_with_other_features(model, paths):
    store, num_edges = paths.store, paths.store.num_edges
    with pytest.raises(ValueError, match="x has 1 columns here, but had 2 in training"):
        model.predict(replace(store, x=store.x[:, :1]))
    with pytest.raises(ValueError, match="x has 0 columns here, but had 2 in training: give graphs the features"):
        model.predict(replace(store, x=None))
    with pytest.raises(ValueError, match="edge_attr has 3 columns here, but had 0 in training: leave it out"):
        model.predict(replace(store, edge_attr=torch.ones(num_edges, 3)))
    for value in (torch.nan, torch.inf):
        x = store.x.clone()
        x[7, 1] = value
        with pytest.raises(ValueError, match=f"Graph 2 has {value} in x"):
            model.predict(replace(store, x=x))


def test_graphs_with_features_where_there_were_none(tiny, paths, tmp_path):
    bare = replace(paths, store=replace(paths.store, x=None))
    model = TrainedModel.load(run_experiment(tiny, tmp_path / "run", dataset=bare).folder, device="cpu")
    assert np.isfinite(model.predict(bare.store).mean).all()
    with pytest.raises(ValueError, match="x has 2 columns here, but had 0 in training: leave it out"):
        model.predict(paths.store)
    with pytest.raises(ValueError, match="x has 1 columns here, but had 0 in training"):
        model.predict(replace(paths.store, x=torch.ones(paths.store.num_nodes)))


def test_data_it_was_not_trained_on(model, paths, finished, tmp_path):
    model.check_data(paths)
    with pytest.raises(ValueError, match=r"since the model was trained: the targets have changed\. Give those it was"):
        model.check_data(replace(paths, store=replace(paths.store, y=paths.store.y + 1)))
    other = replace(paths, task=replace(paths.task, target_names=("b", "a")))
    with pytest.raises(ValueError, match="the targets were 'a', 'b' and are 'b', 'a'"):
        model.check_data(other)
    tensors, description = load_checkpoint(finished.folder / "best.safetensors")
    del description["data"]  # as older versions wrote it
    save_checkpoint(tmp_path / "best", tensors, description)
    older = TrainedModel.load(tmp_path / "best", device="cpu")
    assert np.array_equal(older.predict(paths.store).repeats, model.predict(paths.store).repeats)
    with pytest.warns(UserWarning, match="cannot be compared"):
        older.check_data(paths)
    with pytest.warns(UserWarning, match="cannot be compared"), pytest.raises(ValueError, match="and are 'b', 'a'"):
        older.check_data(other)


class TestErrors:
    def error(self, path) -> str:
        with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
            TrainedModel.load(path)
        return str(caught.value)

    def test_nothing_there(self, tmp_path):
        assert "no checkpoint at" in self.error(tmp_path / "run")

    def test_not_a_run(self, tmp_path):
        assert "not the folder of a run" in self.error(tmp_path)

    def test_an_unfinished_run(self, tmp_path, tiny):
        (tmp_path / "config.json").write_text(tiny.to_json())
        assert self.error(tmp_path).endswith(f"resume it with crawl train --resume {tmp_path}.")

    def test_a_finished_run_without_weights(self, finished, tmp_path):
        for name in ("config.json", "result.json"):
            (tmp_path / name).write_text((finished.folder / name).read_text())
        assert self.error(tmp_path) == (
            f"The weights of the run {tmp_path} were removed: remove its folder and train it again."
        )

    def test_the_checkpoint_of_a_training(self, finished):
        assert "load best.safetensors, which is there when it is finished" in self.error(
            finished.folder / "last.safetensors"
        )

    def test_a_damaged_checkpoint(self, finished, tmp_path):
        content = bytearray((finished.folder / "best.safetensors").read_bytes())
        content[-1] ^= 1
        (tmp_path / "best").write_bytes(content)
        assert "checksum" in self.error(tmp_path / "best")

    def test_another_architecture(self, finished, tmp_path):
        tensors, description = load_checkpoint(finished.folder / "best.safetensors")
        description["experiment"]["model"]["hidden_channels"] = 16
        save_checkpoint(tmp_path / "best", tensors, description)
        assert "another architecture" in self.error(tmp_path / "best")
        description["experiment"]["model"]["layer"] = ["walk", "gin"]
        save_checkpoint(tmp_path / "best", tensors, description)
        assert "another architecture" in self.error(tmp_path / "best")

    def test_a_device_that_is_not_there(self, finished):
        if torch.cuda.is_available():
            pytest.skip("there is one")
        with pytest.raises(ValueError, match="needs an NVIDIA GPU"):
            TrainedModel.load(finished.folder, device="cuda")


# ---- graphs of all kinds


@pytest.fixture(scope="module")
def of_molecules(tiny, tmp_path_factory) -> TrainedModel:
    """A model of molecules, trained on ten alcohols and amines."""
    pytest.importorskip("rdkit")
    folder = tmp_path_factory.mktemp("molecules")
    smiles = [f"{'C' * n}{end}" for n in range(1, 6) for end in ("O", "N")]
    rows = [f"{text},{len(text) / 2}" for text in smiles]
    (folder / "data.csv").write_text("\n".join(["smiles,size", *rows]))
    experiment = replace(tiny, data=Csv(targets=("size",), task="regression"))
    run = run_experiment(experiment, folder / "run", path=folder / "data.csv", device="cpu")
    return TrainedModel.load(run.folder, device="cpu")


def test_molecules_in_all_forms_have_the_same_answers(of_molecules):
    chem = pytest.importorskip("rdkit.Chem")
    smiles = ["CCO", "CCCN", "CO"]
    expected = of_molecules.predict(store_of(smiles))
    assert expected.repeats.shape == (2, 3, 1)
    molecules = [chem.MolFromSmiles(text) for text in smiles]
    for given in (smiles, tuple(smiles), np.array(smiles), pd.Series(smiles), molecules, [smiles[0], *molecules[1:]]):
        assert np.array_equal(of_molecules.predict(given).repeats, expected.repeats)
    graphs = [store_of([text]).graph(0) for text in smiles]
    for given in (graphs, Batch.from_data_list(graphs)):
        assert np.array_equal(of_molecules.predict(given).repeats, expected.repeats)
    for one in (smiles[1], molecules[1], graphs[1]):
        np.testing.assert_allclose(of_molecules.predict(one).mean, expected.mean[1:2], rtol=1e-5)
    assert np.array_equal(of_molecules.embed(molecules), of_molecules.embed(store_of(smiles)))
    assert of_molecules.embed("CCO", num_repeats=1).shape == (1, 8)


def test_networkx_graphs_and_pyg_data(model, paths):
    expected = model.predict(paths.store)
    data = [paths.store.graph(i) for i in range(len(paths.store))]
    assert np.array_equal(model.predict(data).repeats, expected.repeats)
    graphs = []
    for one in data:
        graph = nx.Graph(one.edge_index.t().tolist())
        graph.add_nodes_from(range(one.num_nodes))
        nx.set_node_attributes(graph, dict(enumerate(one.x.tolist())), "x")
        graphs.append(graph)
    found = model.predict(graphs)  # whose edges, and so whose walks, come in another order
    assert found.repeats.shape == expected.repeats.shape
    assert np.array_equal(model.embed(graphs[3]), model.embed([graphs[3]]))


def test_molecules_that_cannot_be_read(of_molecules):
    given = ["CCO", "C1CC", "CO", None]
    with pytest.raises(ValueError, match=r"^Graph 1: 'C1CC' is not a molecule: [^\n]*$"):
        of_molecules.predict(given)
    found, expected = of_molecules.predict(given, unreadable="nan"), of_molecules.predict(["CCO", "CO"])
    assert np.array_equal(found.repeats[:, [0, 2]], expected.repeats)
    assert np.isnan(found.mean[[1, 3]]).all()
    embedded = of_molecules.embed(given, unreadable="nan")
    assert embedded.dtype == np.float32
    assert np.isnan(embedded).all(axis=1).tolist() == [False, True, False, True]
    for wrong, message in (
        ({"graphs": ["x1"], "unreadable": "nan"}, "None of the molecules can be read"),
        ({"graphs": given, "unreadable": "skip"}, "unreadable must be one of error, nan, not 'skip'"),
        ({"graphs": store_of(["C"]), "unreadable": "nan"}, "All graphs of a store are read already"),
        ({"graphs": 7}, "graphs must be a list of graphs, not 7"),
    ):
        with pytest.raises(ValueError, match=message):
            of_molecules.predict(**wrong)


def test_classes_of_what_could_not_be_read_are_refused():
    found = Predictions(np.array([[[0.2], [np.nan]]]), Task(kind="binary", num_outputs=1))
    with pytest.raises(ValueError, match="Graph 1 could not be read, so it has no class"):
        _ = found.classes


def test_molecules_for_a_model_of_something_else(model):
    pytest.importorskip("rdkit")
    with pytest.raises(ValueError, match="The model was not trained on molecules"):
        model.predict(["CCO"])


def test_settings_that_do_not_exist(model, paths):
    with pytest.raises(TypeError, match=r"A trained model has no setting 'num_repeat'\. Did you mean 'num_repeats'"):
        model.predict(paths.store, num_repeat=2)
