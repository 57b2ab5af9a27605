from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
import torch
from crawl.runs.effect import effective, settle

from crawl.data import Task, csl
from crawl.data.benchmarks import BENCHMARKS
from crawl.data.csl import NUM_LAPLACIAN
from crawl.runs import Data, Experiment, Model, TrainedModel, Walk, resume_run, run_experiment
from crawl.runs import effect as module
from crawl.runs.build import build_model, load_dataset
from crawl.runs.recipes import RECIPES
from crawl.training import Evaluation, Training

GIN, COSINE = Model(name="gin"), Training(schedule="cosine")
CLASSES = Task(kind="multiclass", num_outputs=3)
NODES = Task(kind="multiclass", num_outputs=3, level="node")

REFUSED = {
    "data.split": Experiment(data=Data(name="zinc", split="nonsense")),
    "data.root": Experiment(data=Data(name="csl", root="/nope")),
    "data.fractions": Experiment(data=Data(name="csv", split="part", fractions=(0.5, 0.3, 0.2))),
    "walk.num-steps": Experiment(model=GIN, walk=Walk(num_steps=7)),
    "walk.num-eval-steps": Experiment(model=GIN, walk=Walk(num_eval_steps=7)),
    "walk.strategy": Experiment(model=GIN, walk=Walk(strategy="uniform")),
    "walk.start-share": Experiment(model=GIN, walk=Walk(start_share=0.5)),
    "walk.window-size": Experiment(model=GIN, walk=Walk(window_size=4)),
    "walk.p": Experiment(walk=Walk(p=2.0)),
    "walk.q": Experiment(walk=Walk(strategy="uniform", q=2.0)),
    "model.virtual-node": Experiment(model=replace(GIN, virtual_node=True)),
    "model.kernel-size": Experiment(model=replace(GIN, kernel_size=3)),
    "model.no-identity": Experiment(model=replace(GIN, identity=False)),
    "model.no-adjacency": Experiment(model=replace(GIN, adjacency=False)),
    "model.precision": Experiment(model=replace(GIN, precision="bf16")),
    "evaluation.num-val-repeats": Experiment(model=GIN, evaluation=Evaluation(num_val_repeats=7)),
    "evaluation.num-test-repeats": Experiment(model=GIN, evaluation=Evaluation(num_test_repeats=7)),
    "training.patience": Experiment(training=replace(COSINE, patience=3)),
    "training.factor": Experiment(training=replace(COSINE, factor=0.1)),
    "training.min-lr": Experiment(training=replace(COSINE, min_lr=1e-5)),
    "training.step-epoch": Experiment(training=Training(step_epoch=3)),
    "training.interval": Experiment(training=Training(interval=3)),
}


@pytest.mark.parametrize("flag", REFUSED)
def test_settings_without_effect_are_refused(flag):
    with pytest.raises(ValueError, match=rf"cannot be changed by --{flag}: leave it out\.$"):
        settle(REFUSED[flag])


@pytest.mark.parametrize(
    ("experiment", "task", "flag"),
    [
        (Experiment(training=Training(loss="l1")), CLASSES, "training.loss"),
        (Experiment(training=Training(normalise_targets=True)), CLASSES, "training.normalise-targets"),
        (Experiment(model=Model(pool="sum")), NODES, "model.pool"),
        (
            Experiment(data=Data(name="collab", has_validation=False), evaluation=Evaluation(num_val_repeats=5)),
            CLASSES,
            "evaluation.num-val-repeats",
        ),
        (Experiment(model=Model(num_layers=1, virtual_node=True)), CLASSES, "model.virtual-node"),
        (
            Experiment(model=Model(identity=False, adjacency=False, kernel_size=9), walk=Walk(window_size=4)),
            CLASSES,
            "walk.window-size",
        ),
    ],
)
def test_settings_without_effect_for_a_task(experiment, task, flag):
    with pytest.raises(ValueError, match=rf"cannot be changed by --{flag}: leave it out\.$"):
        settle(experiment, task)


@pytest.mark.parametrize("schedule", ["cosine_per_step", "one_cycle"])
@pytest.mark.parametrize(
    ("setting", "value"), [("patience", 3), ("factor", 0.1), ("min_lr", 1e-5), ("step_epoch", 3), ("interval", 3)]
)
def test_settings_without_effect_on_rates_per_step(schedule, setting, value):
    training = Training(schedule=schedule, **{setting: value})
    with pytest.raises(ValueError, match=f"schedule {schedule} .*--training.{setting.replace('_', '-')}: leave it out"):
        settle(Experiment(training=training))


def test_a_network_without_walks_is_evaluated_once(tiny, paths, tmp_path):
    gin = effective(replace(tiny, model=replace(tiny.model, name="gin")))
    result = run_experiment(gin, tmp_path / "run", dataset=paths)
    assert [len(score["evaluations"]) for score in result.record["scores"].values()] == [1, 1, 1]


def test_precision_is_for_gpus():
    experiment = Experiment(model=Model(precision="bf16"))
    assert settle(experiment, device="cuda").model.precision == "bf16"
    with pytest.raises(ValueError, match=r"on the CPU cannot be changed by --model\.precision"):
        settle(experiment, device="cpu")


def test_what_a_recipe_says_was_not_chosen():
    changed = replace(RECIPES["zinc"](), model=replace(RECIPES["zinc"]().model, name="gin"))
    assert changed.model.virtual_node
    assert not settle(changed, is_from_recipe=True).model.virtual_node
    csl_recipe = RECIPES["csl"]()
    cosine = replace(csl_recipe, training=replace(csl_recipe.training, schedule="cosine"))
    assert settle(cosine, is_from_recipe=True).training.patience == Training.patience
    with pytest.raises(ValueError, match=r"--training\.patience"):
        settle(replace(cosine, training=replace(cosine.training, patience=3)), is_from_recipe=True)


def test_the_split_of_a_benchmark_is_recorded_as_given():
    assert settle(Experiment(data=Data(name="zinc"))).data.split == "given"
    chosen = replace(RECIPES["zinc"](), data=Data(name="zinc", split="random"))
    with pytest.raises(ValueError, match=r"^zinc cannot be changed by --data\.split: leave it out\.$"):
        settle(chosen, is_from_recipe=True)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_say_nothing_without_effect(name):
    recipe = RECIPES[name]()
    task = BENCHMARKS[recipe.data.name].task if recipe.data.name in BENCHMARKS else None
    assert effective(recipe, task) == recipe == settle(recipe, task, is_from_recipe=True)


def test_names_are_those_of_the_benchmarks():
    with_folds = {name for name, benchmark in BENCHMARKS.items() if benchmark.num_folds}
    assert {*module._USED_BY["fold"], "csl_lap"} == with_folds
    assert set(module._WITH_FOLDS_IN_FILES) == {name for name in with_folds if BENCHMARKS[name].file}
    assert {name for name in module._USED_BY["fold"] if not BENCHMARKS[name].file} == {"csl"}
    assert RECIPES["csl_lap"]().data.laplacian == NUM_LAPLACIAN
    known = set(module._USED_BY) | {"name", "root"}
    assert known == {field.name for field in fields(Data)}


class TestNode2vec:
    def test_needs_p_and_q(self):
        for walk in (Walk(strategy="node2vec"), Walk(strategy="node2vec", p=2.0)):
            with pytest.raises(ValueError, match=r"^node2vec walks need --walk\.p and --walk\.q"):
                settle(Experiment(walk=walk))

    def test_which_reach_the_model_and_the_record(self, tiny, paths, tmp_path):
        walk = replace(tiny.walk, strategy="node2vec", p=0.25, q=4.0)
        result = run_experiment(replace(tiny, walk=walk), tmp_path / "run", dataset=paths)
        recorded = json.loads((result.folder / "config.json").read_text())["walk"]
        assert (recorded["strategy"], recorded["p"], recorded["q"]) == ("node2vec", 0.25, 4.0)
        model = TrainedModel.load(result.folder).model
        assert (model.strategy, model.p, model.q) == ("node2vec", 0.25, 4.0)

    def test_which_change_the_walks(self, tiny):
        from crawl.graph import Graph
        from crawl.runs.build import Features

        graph = Graph.from_edge_index(torch.tensor([[0, 0, 1, 1, 2], [1, 2, 2, 3, 3]]), undirected=True)
        walks = []
        for p in (0.001, 1000.0):
            walk = replace(tiny.walk, strategy="node2vec", p=p, q=1.0, num_steps=50)
            model = build_model(replace(tiny, walk=walk), Features(CLASSES))
            nodes = model.sample_walks(graph, 50, seed=1).nodes
            walks.append((nodes[:, 2:] == nodes[:, :-2]).float().mean())
        assert walks[0] > 0.9
        assert walks[1] < 0.1


class TestGivenData:
    def test_are_recorded_as_given(self, finished):
        assert finished.record["config"]["data"]["name"] == "given"
        assert finished.record["data"] == "paths"
        assert TrainedModel.load(finished.folder).experiment.data.name == "given"

    def test_must_be_given_again(self, tiny, paths, tmp_path):
        result = run_experiment(tiny, tmp_path / "run", dataset=paths)
        (result.folder / "result.json").unlink()
        with pytest.raises(ValueError, match=r"^This run was started in Python .* give the data set again"):
            resume_run(result.folder)
        assert resume_run(result.folder, dataset=paths).record["scores"] == result.record["scores"]

    def test_cannot_be_others_than_those_named(self, tiny, paths, tmp_path):
        named = replace(tiny, data=Data(name="csl", fold=2))
        with pytest.raises(ValueError, match=r"names 'csl', but another data set, 'paths', was given"):
            run_experiment(named, tmp_path / "run", dataset=paths)
        with pytest.raises(ValueError, match=r"names 'csl', but another data set, 'csl', was given"):
            run_experiment(named, tmp_path / "run", dataset=load_dataset(Data(name="csl", fold=1)))
        assert not (tmp_path / "run").exists()

    def test_that_were_read_by_the_same_settings_are_recorded_as_these(self, tiny, tmp_path):
        named = replace(tiny, data=Data(name="csl", fold=2))
        result = run_experiment(named, tmp_path / "run", dataset=load_dataset(named.data))
        assert result.record["config"]["data"] == {**json.loads(named.to_json())["data"], "split": "given"}

    def test_a_changed_copy_is_not_what_was_read(self):
        dataset = load_dataset(Data(name="csl"))
        assert dataset.source is not None
        assert replace(dataset, name="mine").source is None
        assert csl().source is None


def test_a_network_without_walks_takes_no_steps(tiny, paths, tmp_path):
    gin = effective(replace(tiny, model=replace(tiny.model, name="gin")))
    trained = TrainedModel.load(run_experiment(gin, tmp_path / "run", dataset=paths).folder)
    with pytest.raises(ValueError, match="A gin does not walk: leave out num_steps"):
        trained.predict(paths.store, num_steps=9)
