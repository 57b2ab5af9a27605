from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch

from crawl.data.benchmarks import BENCHMARKS, Statistics, import_benchmark
from crawl.data.csl import NUM_LAPLACIAN
from crawl.encodings import Encodings
from crawl.runs import Experiment, Superpixels, TrainedModel, run_experiment
from crawl.runs.build import Features, build_model, count_parameters
from crawl.runs.recipes import RECIPES, with_closed_batches
from crawl.runs.sources import KINDS, OF_NODES, WITHOUT_NUMBERS, WithFolds
from crawl.training import Interval, Plateau, Step

PUBLISHED = {
    "zinc": 497_743,
    "cifar10": 109_660,
    "mnist": 109_360,
    "csl": 104_140,
    "molpcba": 6_115_728,
    "pascalvoc_sp": 495_021,
    "peptides_func": 510_910,
    "peptides_struct": 511_011,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_models_have_the_published_number_of_parameters(name):
    assert count_parameters(RECIPES[name](), Features.of_benchmark(name)) == PUBLISHED[name]


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if not benchmark.num_targets])
def test_every_benchmark_of_the_paper_has_a_recipe(name):
    experiment = RECIPES[name]()
    assert experiment.training.lr == 1e-3
    num_steps = 150 if name.startswith("counting") else 50  # the paper has 50 for all
    assert (experiment.walk.strategy, experiment.walk.num_steps) == ("non_backtracking", num_steps)
    assert build_model(experiment, Features.of_benchmark(name)).walk_plan.num_eval_steps in (100, 150)


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if benchmark.num_targets])
def test_benchmarks_of_nodes_have_recipes_for_the_full_graph_and_for_closed_batches(name):
    experiment = RECIPES[name]()
    assert build_model(experiment, Features.of_benchmark(name)).readout.pool is None
    assert experiment.data.batches == "full"
    closed = with_closed_batches(experiment)
    assert (closed.data.batches, closed.walk.centred, closed.walk.num_walks) == ("closed", True, 2)
    assert Experiment.from_json(closed.to_json()) == closed


def test_what_is_known_of_benchmarks_without_their_data():
    tasks = {name: benchmark.task for name, benchmark in BENCHMARKS.items() if name in KINDS}
    assert {name for name, task in tasks.items() if task.kind != "regression"} == set(WITHOUT_NUMBERS) - {"links"}
    assert {name for name, task in tasks.items() if task.level == "node"} == set(OF_NODES) - {"nodes"}
    with_folds = {name for name in tasks if BENCHMARKS[name].num_folds}
    assert with_folds == {name for name in tasks if KINDS[name] in get_args(WithFolds)}
    assert RECIPES["csl_lap"]().data.laplacian == NUM_LAPLACIAN


# Steps in evaluation, p*, r_val, r_test, dropout, batch, virtual node, schedule and epochs: the table of the paper.
SETTINGS = {
    "zinc": (150, 1.0, 2, 10, 0.0, 50, True, "plateau", None),
    "cifar10": (150, 1.0, 2, 10, 0.0, 50, False, "plateau", None),
    "mnist": (150, 1.0, 2, 10, 0.0, 50, False, "plateau", None),
    "csl": (150, 1.0, 5, 10, 0.0, 50, False, "plateau", None),
    "molpcba": (100, 0.2, 2, 10, 0.25, 100, True, "step", 60),
    "pascalvoc_sp": (150, 0.2, 2, 5, 0.1, 50, True, "cosine", 300),
    "peptides_func": (150, 0.2, 2, 5, 0.1, 50, True, "cosine", 500),
    "peptides_struct": (150, 0.2, 2, 5, 0.2, 50, True, "cosine", 500),
    "collab": (150, 1.0, 2, 10, 0.5, 100, False, "interval", 200),
    "imdb_multi": (150, 1.0, 2, 10, 0.5, 100, False, "interval", 500),
    "reddit_binary": (150, 1.0, 2, 10, 0.5, 100, False, "interval", 200),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_those_of_the_paper(name):
    experiment = RECIPES[name]()
    training, evaluation, model = experiment.training, experiment.evaluation, experiment.model
    schedule = training.schedule
    epochs = None if isinstance(schedule, Plateau) else training.max_epochs
    found = (
        *(experiment.walk.num_eval_steps, experiment.walk.start_share),
        *(evaluation.num_val_repeats, evaluation.num_test_repeats),
        *(model.dropout, training.batch_size, "virtual_node" in model.layer, schedule.name, epochs),
    )
    assert found == SETTINGS[name]
    if isinstance(schedule, Plateau):
        assert schedule == Plateau(patience=20 if name == "csl" else 10, factor=0.5, min_lr=1e-6)
    if name == "molpcba":
        assert schedule == Step(50, 0.1)
    if isinstance(schedule, Interval):
        assert schedule == Interval(50 if name == "imdb_multi" else 20, 0.5)
        assert evaluation.track_test


def test_a_recipe_with_positions_and_encodings_is_trained(tmp_path, monkeypatch, tiny):
    """Coordinates of superpixels come after their intensities, encodings after both."""
    mnist = BENCHMARKS["mnist"]
    monkeypatch.setitem(BENCHMARKS, "mnist", replace(mnist, statistics=Statistics((10, 10, 10), 3, 4)))
    edges = {"edge_index": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), "edge_attr": torch.tensor([0.1, 0.1, 0.2, 0.2])}
    graph = {"x": torch.rand(3, 1), "pos": torch.rand(3, 2), **edges}
    part = [graph | {"y": torch.tensor([i])} for i in range(10)]
    torch.save([part, part, part], tmp_path / "MNIST_v2.pt")
    import_benchmark("mnist", tmp_path, tmp_path / "root")
    data = Superpixels("mnist", has_positions=True)
    parts = {name: getattr(tiny, name) for name in ("walk", "training", "evaluation")}
    experiment = replace(RECIPES["mnist"](), **parts, data=data, encodings=Encodings(return_steps=5))
    result = run_experiment(experiment, tmp_path / "run", root=tmp_path / "root", device="cpu")
    assert result.record["config"]["data"] == {"name": "mnist", "has_positions": True}
    model = TrainedModel.load(result.folder, device="cpu")
    assert model.features.num_node_features == 3
    assert (model.model.node_encoder.out_channels, model.model.node_encoder.width) == (8, 5)


@pytest.mark.parametrize(
    ("name", "most"),
    [("zinc_hybrid", 500_000), ("peptides_hybrid", 500_000), ("mnist_hybrid", 100_000), ("cifar10_hybrid", 100_000)],
)
def test_hybrids_keep_to_the_budgets_of_their_benchmarks(name, most):
    experiment = RECIPES[name]()
    features = Features.of_benchmark(experiment.data.name)
    if getattr(experiment.data, "has_positions", False):
        features = replace(features, num_node_features=features.num_node_features + 2)
    assert 0.8 * most < count_parameters(experiment, features) <= most


def test_no_hybrid_is_told_the_counts_that_it_is_to_find():
    encodings = RECIPES["counting_hybrid"]().encodings
    assert encodings == Encodings()
