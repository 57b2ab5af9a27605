"""Configurations and checkpoints of older versions mean what they meant."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crawl import WalkPlan
from crawl.runs import TU, Benchmark, Csl, Csv, Experiment, Model, TrainedModel, resume_run, run_experiment
from crawl.runs.former import as_now, former_where, renamed
from crawl.runs.run import Stopped
from crawl.training import Interval, Plateau, Training
from crawl.training.checkpoint import load_checkpoint, save_checkpoint
from crawl.training.schedule import Schedule

RESULTS = Path(__file__).parents[2] / "results"
OLD = {
    "name": "zinc",
    "data": {
        **{
            "name": "zinc",
            "path": None,
            "root": "/data",
            "targets": [],
            "smiles": None,
            "task": "auto",
            "metric": None,
        },
        **{"split": "given", "fractions": [0.8, 0.1, 0.1], "fold": 0, "has_validation": True, "has_positions": False},
        **{"is_synthetic": False, "laplacian": 0, "target": "triangle", "bad_rows": "skip"},
    },
    "walk": {**{"strategy": "uniform", "num_steps": 7, "num_eval_steps": 9, "start_share": 0.5, "window_size": 4}},
    "model": {
        **{"name": "crawl", "hidden_channels": 147, "num_layers": 3, "kernel_size": None, "identity": True},
        **{"adjacency": True, "virtual_node": True, "pool": "sum", "head": "mlp", "dropout": 0.0, "precision": "tf32"},
    },
    "training": {
        **{"lr": 0.001, "batch_size": 50, "max_epochs": 1000, "schedule": "plateau", "patience": 20, "factor": 0.5},
        **{"min_lr": 1e-06, "step_epoch": 50, "interval": 20, "early_stop": None, "device": "cuda"},
    },
    "evaluation": {"num_val_repeats": 5, "num_test_repeats": 10, "batch_size": 100, "track_test": False},
    "seed": 3,
}


def old(**groups) -> dict:
    return {
        name: {**value, **groups.get(name, {})} if isinstance(value, dict) else value for name, value in OLD.items()
    }


def test_an_old_configuration():
    now = Experiment.from_plain(OLD)
    assert now.data == Benchmark("zinc")
    assert now.walk == WalkPlan("uniform", 7, 9, 0.5, window_size=4)
    assert now.model == Model(("walk", "virtual_node"), 147, 3, pool="sum")
    assert now.training == Training(schedule=Plateau(patience=20))
    assert (now.evaluation.num_val_repeats, now.seed, now.name) == (5, 3, "zinc")
    assert former_where(OLD) == {"root": "/data", "device": "cuda"}
    assert as_now(json.loads(now.to_json())) == json.loads(now.to_json())


def test_settings_that_had_no_effect_are_dropped():
    gin = Experiment.from_plain(old(model={"name": "gin", "precision": "bf16", "identity": False}))
    assert (gin.model, gin.walk) == (Model(("gin",), 147, 3, pool="sum"), None)
    assert (gin.evaluation.num_val_repeats, gin.evaluation.num_test_repeats) == (1, 1)
    assert Experiment.from_plain(old(model={"num_layers": 1})).model.layer == ("walk",)
    assert Experiment.from_plain(old(walk={"p": 3.0, "q": None})).walk.p == 1
    assert Experiment.from_plain(old(walk={"strategy": "node2vec", "p": 3.0, "q": 2.0})).walk.p == 3
    bare = Experiment.from_plain(old(model={"identity": False, "adjacency": False, "kernel_size": 9}))
    assert bare.walk.window_size == WalkPlan.window_size
    lowered = Experiment.from_plain(old(training={"schedule": "interval"}))
    assert lowered.training.schedule == Interval(20, 0.5)
    split = {"name": "csv", "path": "/a.csv", "split": "part", "fractions": [0.5, 0.25, 0.25]}
    assert Experiment.from_plain(old(data=split)).data == Csv(split="part")
    assert Experiment.from_plain(old(data={**split, "name": "tu", "split": "random"})).data == TU(
        fractions=(0.5, 0.25, 0.25)
    )


def test_missing_keys_take_their_defaults():
    first = {"name": "csl", "path": None, "split": "given", "fold": 2, "laplacian": 0}  # before there was a data root
    assert Experiment.from_plain({"data": first}).data == Csl(fold=2)
    assert Experiment.from_plain({"seed": 3, "model": {"dropout": 0}}) == Experiment(seed=3)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"data": {"is_synthetic": True}}, "no key data.is_synthetic"),
        ({"data": {"name": "zink"}}, "data.name must be one of"),
        ({"model": {"name": "forest"}}, "A block of model.layer must be one of"),
        ({"model": {"hiden_channels": 3}}, "Did you mean model.hidden_channels?"),
        ({"training": {"lrr": 3}}, "no key training.lrr. Did you mean training.lr?"),
        ({"training": {"schedule": "cosin"}}, "training.schedule must be a dictionary, not 'cosin'"),
    ],
)
def test_what_is_wrong_is_still_refused(groups, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Experiment.from_plain(old(**groups))


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_all_records_can_be_read(path):
    content = json.loads(path.read_text())
    runs = content["runs"] if isinstance(content, dict) and content.get("format") == "crawl-results-1" else []
    for run in runs:
        if run["record"] is not None:
            config = run["record"]["config"]
            now = Experiment.from_plain(config)
            assert (now.data.name, now.seed) == (config["data"]["name"], config["seed"])
            if config["model"]["name"] != "network":  # as today's are called, whatever their blocks
                assert now.model.title == config["model"]["name"]


def test_a_record_from_before_there_were_rates_per_step_means_what_it_meant():
    records = json.loads((RESULTS / "peptides.json").read_text())["runs"]
    training = Experiment.from_plain(records[0]["record"]["config"]).training
    schedule = Schedule(training, True, steps_per_epoch=3)
    assert (training.optimiser, training.accumulate, training.average_decay) == ("adam", 1, None)
    for epoch in range(training.max_epochs):
        rate = 1e-3 * (1 + math.cos(math.pi * epoch / 500)) / 2
        assert schedule.rates() == [rate] * 3
        schedule.update(1.0)
    assert schedule.is_over


def _former_name(name: str) -> str:
    """What a weight of CRaWl with virtual nodes was called."""
    parts = name.split(".")
    if "blocks" not in parts:
        return name
    k = parts.index("blocks")
    number, part = int(parts[k + 1]), parts[k + 2]
    group = {"conv": "convs", "node": "virtual_nodes"}[part]
    return ".".join([*parts[:k], group, str(number // 2), *parts[k + 3 :]])


def _make_old(path: Path, parameters: list[str]) -> None:
    """Rename the weights of a checkpoint as an older version called them, and number them as it did."""
    tensors, values = load_checkpoint(path)
    groups = [("conv", "node").index(name.split(".")[2]) if name.startswith("blocks.") else 2 for name in parameters]
    former = sorted(range(len(parameters)), key=lambda i: groups[i])
    renumbered = {}
    for name, tensor in tensors.items():
        first, _, rest = name.partition(".")
        if first == "optimiser":
            number, _, moment = rest.partition(".")
            name = f"optimiser.{former.index(int(number))}.{moment}"
        renumbered[_former_name(name)] = tensor
    assert any("virtual_nodes.0." in name for name in renumbered)
    save_checkpoint(path, renumbered, values)


def test_a_run_of_an_older_version_resumes_and_predicts(tiny, paths, tmp_path):
    experiment = replace(tiny, model=Model(("walk", "virtual_node"), 8, 3))
    whole = run_experiment(experiment, tmp_path / "whole", dataset=paths)
    folder = tmp_path / "old"
    with pytest.raises(Stopped):
        run_experiment(experiment, folder, dataset=paths, stop=lambda: True)
    parameters = [name for name, _ in TrainedModel.load(whole.folder).model.named_parameters()]
    _make_old(folder / "last.safetensors", parameters)
    assert resume_run(folder, dataset=paths).record["scores"] == whole.record["scores"]
    before = TrainedModel.load(whole.folder).predict(paths.store).mean
    _make_old(whole.folder / "best.safetensors", parameters)
    assert (TrainedModel.load(whole.folder).predict(paths.store).mean == before).all()


def test_weights_of_today_keep_their_names():
    tensors = {"model.blocks.0.conv.mix.weight": torch.ones(1), "optimiser.3.exp_avg": torch.ones(1)}
    assert renamed(tensors, ("a",)) == tensors
    without_nodes = {"convs.1.mix.weight": torch.ones(1), "convs.0.mix.weight": torch.ones(1)}
    assert set(renamed(without_nodes, ())) == {"blocks.1.conv.mix.weight", "blocks.0.conv.mix.weight"}
