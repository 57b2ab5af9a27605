"""Training on a packed store gives the weights, bit for bit, that the same data in memory give."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crawl.data import GraphStore, from_csv, open_packed, pack_csv
from crawl.data.packed import PackedStore
from crawl.encodings.settings import Encodings
from crawl.runs import Csv, Experiment, Model, Packed, TrainedModel, resume_run, run_experiment
from crawl.runs.features import Features
from crawl.runs.run import Stopped
from crawl.training import Evaluation, Training
from crawl.training.runner import Runner
from crawl.walks.plan import WalkPlan

pytest.importorskip("rdkit")

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "C1CC1", "CCN(CC)CC", "Oc1ccccc1", "C1CCCCC1C", "CC#N", "CCCl", "CCBr", "C"]
EXPERIMENT = Experiment(
    data=Csv(targets=("y",), weight="w"),
    walk=WalkPlan(num_steps=8, num_eval_steps=8, window_size=4, start_share=0.7),
    model=Model(("walk", "pna", "virtual_node"), hidden_channels=8, num_layers=2, dropout=0.2),
    training=Training(lr=0.01, batch_size=5, max_epochs=2, normalise_targets=True),
    evaluation=Evaluation(num_val_repeats=1, num_test_repeats=2, batch_size=7),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rows = [f"{smiles},{i * 0.3 + len(smiles):.2f},{1 + i % 3}" for i, smiles in enumerate(4 * SMILES)]
    (folder / "molecules.csv").write_text("\n".join(["SMILES,y,w", *rows, "nonsense,1,1"]) + "\n")
    pack_csv(folder / "molecules.csv", folder / "store", target_columns="y", weight_column="w", shards=3)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return TrainedModel.load(folder, "cpu").model.state_dict()


def curve(folder: Path) -> list[dict[str, Any]]:
    return [{**json.loads(line), "seconds": 0} for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_weights_are_equal_bit_for_bit(table, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("crawl.training.runner.MOST_OF_FILES", 2 * 10**5)  # of 7 molecules or a few more at a time
    monkeypatch.setattr("crawl.runs.run.write_run_page", lambda _: None)  # which take a while, and are not about this
    monkeypatch.setattr("crawl.runs.run.draw_curves", lambda *_, **__: None)
    experiment = replace(EXPERIMENT, encodings=Encodings(return_steps=3, walk_steps=2))
    how: Any = {"device": "cpu", "quiet": True}
    expected = run_experiment(experiment, tmp_path / "csv", path=table / "molecules.csv", **how)
    packed = replace(experiment, data=Packed())
    found = run_experiment(packed, tmp_path / "packed", path=table / "store", **how)
    assert curve(tmp_path / "packed") == curve(tmp_path / "csv")
    assert found.record["scores"] == expected.record["scores"]
    assert found.record["coverage"] == expected.record["coverage"]
    kept = [json.loads((tmp_path / name / "data.json").read_text()) for name in ("packed", "csv")]
    assert kept[0] == kept[1]
    assert (tmp_path / "packed" / "predictions.csv").read_text() == (tmp_path / "csv" / "predictions.csv").read_text()
    other = weights(tmp_path / "csv")
    assert all(torch.equal(tensor, other[name]) for name, tensor in weights(tmp_path / "packed").items())
    asked = iter((True,))
    with pytest.raises(Stopped):
        run_experiment(packed, tmp_path / "stopped", path=table / "store", stop=lambda: next(asked), **how)
    resume_run(tmp_path / "stopped", quiet=True)
    assert all(torch.equal(tensor, other[name]) for name, tensor in weights(tmp_path / "stopped").items())


def test_features_and_predictions_are_those_in_memory(table) -> None:
    memory, packed = (
        from_csv(table / "molecules.csv", target_columns="y", weight_column="w"),
        open_packed(table / "store"),
    )
    assert Features.of(packed) == Features.of(memory)
    assert Features.of(packed).mean_log_degree == Features.of(memory).mean_log_degree
    from crawl.runs.build import build_model

    features = Features.of(memory)
    trained = TrainedModel(build_model(EXPERIMENT, features), EXPERIMENT, features, *_scaling_and_record())
    whole = trained.predict(memory.store, seed=1).repeats
    assert (trained.predict(packed.store, seed=1).repeats == whole).all()
    assert (trained.embed(packed.store, seed=1) == trained.embed(memory.store, seed=1)).all()


def _scaling_and_record() -> tuple[Any, dict[str, Any]]:
    from crawl.training.evaluation import Scaling

    return Scaling(), {}


def test_a_model_that_takes_data_of_pyg(table) -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(9, 1)

        def forward(self, data: Data) -> torch.Tensor:
            assert data.x is not None
            pooled = torch.zeros(len(data.ptr) - 1, 9).index_add(0, data.batch, data.x.float())
            return self.linear(pooled) + 1e-9 * data.graph_keys.unsqueeze(1)

    packed = open_packed(table / "store")
    assert isinstance(packed.store, PackedStore)
    model, ids = Own(), torch.tensor([20, 3, 11])
    how: Any = {"largest_batch": 2}
    runners = [
        Runner(model, packed.task, store, torch.device("cpu"), **how)
        for store in (packed.store, packed.store.subset(torch.arange(len(packed))))
    ]
    answers = [runner.predict(ids, 2, seed=0) for runner in runners]
    assert torch.equal(*answers)
    assert isinstance(runners[1].store, GraphStore)
