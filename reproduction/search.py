"""Beyond the paper: searches that lead to recipes, what the recipes reach, and what each part of them is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from crawl.data.benchmarks import BENCHMARKS
from crawl.encodings.settings import Encodings
from crawl.runs.experiment import Experiment, Model
from crawl.runs.recipes import RECIPES
from crawl.runs.sources import SocialName
from crawl.training.settings import OneCycle
from crawl.walks.plan import WalkPlan
from reproduction.plan import Published, Row, Table
from reproduction.variants import COUNTED, without_validation

_FEW_EPOCHS = 300

Change = Callable[[Experiment], Experiment]


def _trained(**changes: Any) -> Change:
    return lambda experiment: replace(experiment, training=replace(experiment.training, **changes))


def _modelled(**changes: Any) -> Change:
    def changed(experiment: Experiment) -> Experiment:
        assert isinstance(experiment.model, Model)
        return replace(experiment, model=replace(experiment.model, **changes))

    return changed


def _encoded(**changes: Any) -> Change:
    return lambda experiment: replace(experiment, encodings=replace(experiment.encodings, **changes))


def _walking(**changes: Any) -> Change:
    return lambda experiment: replace(experiment, walk=replace(experiment.walk or WalkPlan(), **changes))


def _without_walks(experiment: Experiment) -> Experiment:
    assert isinstance(experiment.model, Model)
    layer = tuple(part for part in experiment.model.layer if part != "walk")
    return experiment.without_walks(replace(experiment.model, layer=layer))


_Trials = dict[str, Change]
_ZINC: _Trials = {
    "base": lambda experiment: experiment,
    "no-cycles": _encoded(longest_cycle=0),
    "no-walk-steps": _encoded(walk_steps=0),
    "walks-50": _walking(num_steps=50),
    "walks-16": _walking(num_steps=16),
    "batch-200": _trained(batch_size=200, lr=3e-3),
    "batch-50": _trained(batch_size=50, weight_decay=0.1),
    "decay-0.1": _trained(weight_decay=0.1),
    "decay-0.4": _trained(weight_decay=0.4),
    "lr-0.004": _trained(lr=4e-3, weight_decay=0.1),
    "lion": _trained(optimiser="lion", lr=5e-4, weight_decay=0.5, schedule=OneCycle(), warmup_epochs=0.0),
    "average": _trained(average_decay=0.999),
    "padding": _modelled(padding=True),
    "walk-edges": _modelled(layer=("walk_edges", "edge_update", "gine", "virtual_node"), hidden_channels=72),
    "eight-of-64": _modelled(hidden_channels=64, num_layers=8),
    "three-of-100": _modelled(hidden_channels=100, num_layers=3),
    "gated": _modelled(layer=("walk", "gated_gcn", "virtual_node"), hidden_channels=76),
}
_PEPTIDES: _Trials = {
    "base": lambda experiment: experiment,
    "sum": _modelled(pool="sum"),
    "edge-states": _modelled(layer=("walk", "edge_update", "gine", "virtual_node"), hidden_channels=80),
    "gated": _modelled(layer=("walk", "gated_gcn", "virtual_node"), hidden_channels=80),
    "no-virtual-node": _modelled(layer=("walk", "gine")),
    "dropout-0.2": _modelled(dropout=0.2),
    "no-encodings": lambda experiment: replace(experiment, encodings=Encodings()),
    "cycles": _encoded(longest_cycle=8),
    "walks-25": _walking(num_steps=25),
    "all-starts": _walking(start_share=0.5),
    "decay-0.3": _trained(weight_decay=0.3),
    "average": _trained(average_decay=0.999),
}
_COUNTING: _Trials = {
    "base": lambda experiment: experiment,
    "walks-alone": _modelled(layer=("walk",), hidden_channels=160),
    "virtual-node": _modelled(layer=("walk", "gine", "virtual_node")),
    "edge-states": _modelled(layer=("walk_edges", "edge_update", "gine"), hidden_channels=100),
    "two-walks": _walking(num_walks=2, num_steps=75),
    "walks-300": _walking(num_steps=300, num_eval_steps=300),
    "padding": _modelled(padding=True),
    "batch-50": _trained(batch_size=50),
    "lr-0.003": _trained(lr=3e-3),
    "decay-0.2": _trained(weight_decay=0.2),
    "no-average": _trained(average_decay=None),
    "squared": _trained(loss="mse"),
}
_SOCIAL: _Trials = {
    "base": lambda experiment: experiment,
    "walks-alone": _modelled(layer=("walk",)),
    "virtual-node": _modelled(layer=("walk", "gine", "virtual_node")),
    "sum": _modelled(pool="sum"),
    "no-encodings": lambda experiment: replace(experiment, encodings=Encodings()),
    "degrees-alone": _encoded(return_steps=0),
    "two-layers": _modelled(num_layers=2),
    "width-32": _modelled(hidden_channels=32),
    "decay-0.5": _trained(weight_decay=0.5),
    "min-degree": _walking(strategy="min_degree_non_backtracking"),
    "average": _trained(average_decay=0.99),
}
_SUPERPIXELS: _Trials = {
    "base": lambda experiment: experiment,
    "gated": _modelled(layer=("walk", "gated_gcn", "virtual_node"), hidden_channels=40),
    "no-virtual-node": _modelled(layer=("walk", "edge_update", "gine")),
    "no-encodings": lambda experiment: replace(experiment, encodings=Encodings()),
    "six-of-32": _modelled(hidden_channels=32, num_layers=6),
    "no-dropout": _modelled(dropout=0.0),
    "all-starts": _walking(start_share=1.0),
    "walks-50": _walking(num_steps=50),
    "decay-0.3": _trained(weight_decay=0.3),
}


def _short(experiment: Experiment, epochs: int = _FEW_EPOCHS) -> Experiment:
    warmup = min(experiment.training.warmup_epochs, epochs / 10)
    return _trained(max_epochs=epochs, warmup_epochs=warmup)(experiment)


def _search(recipe: str, trials: _Trials, epochs: int) -> Callable[[], Table]:
    """Trials for a hybrid: each changes one thing of the recipe, and trains for fewer epochs."""
    name = f"search_{recipe.removesuffix('_hybrid')}"

    def make() -> Table:
        base = _short(RECIPES[recipe](), epochs)
        rows = tuple(
            Row(trial, f"{name}/{trial}", replace(change(base), name=f"{recipe}-{trial}"), part="val")
            for trial, change in trials.items()
        )
        task = BENCHMARKS[base.data.name]
        note = (
            f"{len(rows)} trials of one seed and {epochs} epochs each; their test scores are recorded, but choose "
            "nothing."
        )
        return Table(name, f"{task.title}, hybrids: validation {task.task.metric}", rows, note=note)

    make.__name__, make.__doc__ = name, f"Trials for the recipe {recipe}: each changes one thing of it."
    return make


SEARCHES = (
    _search("zinc_hybrid", _ZINC, _FEW_EPOCHS),
    _search("peptides_hybrid", _PEPTIDES, 100),
    _search("counting_hybrid", _COUNTING, 300),
    _search("imdb_multi_hybrid", _SOCIAL, 100),
    _search("collab_hybrid", _SOCIAL, 40),
    _search("reddit_binary_hybrid", _SOCIAL, 40),
    _search("mnist_hybrid", _SUPERPIXELS, 20),
    _search("cifar10_hybrid", _SUPERPIXELS, 20),
)


_MARKS = "[G]: from a machine-made list of published results; [M]: from memory, not read again in the paper."
_EFFORT = "Time is that of one run beside the others. The mean prediction is that of all evaluations of a model."


def _hybrid(
    name: str, recipe: str, num_seeds: int, published: Published | None = None, others: str = ""
) -> Callable[[], Table]:
    """A table of one row: what a recipe reaches, beside another network of walks and message passing."""

    def make() -> Table:
        experiment = RECIPES[recipe]()
        benchmark = BENCHMARKS[experiment.data.name]
        row = Row("hybrid", f"{name}/hybrid", experiment, num_seeds, published=published)
        note = f"{others} {_MARKS} {_EFFORT}" if others else _EFFORT
        title = f"{benchmark.title}, hybrid: test {benchmark.task.metric}"
        return Table(name, title, (row,), note=note, has_effort=True, has_mean_prediction=True)

    make.__name__, make.__doc__ = name, f"The recipe {recipe}."
    return make


def counting_hybrid() -> Table:
    """The recipe counting_hybrid, whose models count all four substructures."""
    place, experiment = "counting_hybrid/all", RECIPES["counting_hybrid"]()
    rows = tuple(
        Row(target.replace("_", " "), place, experiment, 4, own_name=target, target=target) for target in COUNTED
    )
    return Table("counting_hybrid", "Counting substructures, hybrid: test mae", rows, note="The rows share their runs.")


def social_hybrid() -> Table:
    """The recipes of hybrids for social graphs in ten folds, nine to train on, as in the paper."""
    rows = []
    for name in get_args(SocialName):
        experiment = without_validation(RECIPES[f"{name}_hybrid"]())
        benchmark = BENCHMARKS[name]
        rows.append(Row(benchmark.title, f"social_hybrid/{name}", experiment, 1, benchmark.num_folds))
    note = (
        "Trained on nine folds, without validation. The epoch with the best mean test accuracy over the folds is "
        "chosen with the test data, as in the paper; the last epoch stands beside it."
    )
    return Table("social_hybrid", "Social graphs, hybrids: test accuracy, 10 folds", tuple(rows), note=note)


HYBRID_TABLES = (
    _hybrid(
        *("zinc_hybrid", "zinc_hybrid", 5, Published(0.065, mark="[G]")),
        "Published beside it: NeuralWalker. Leaders: GRASS 0.047 [G], GRIT+MoSE 0.056 [M], PPGT 0.057 [M].",
    ),
    _hybrid(
        *("peptides_hybrid", "peptides_hybrid", 4, Published(0.7096, mark="[G]")),
        "Published beside it: NeuralWalker. Leaders: S²GCN 0.7311 [G], GCN+ 0.7261 [G]; of walks RWNN, 0.7123 [G].",
    ),
    counting_hybrid,
    social_hybrid,
    _hybrid("mnist_hybrid", "mnist_hybrid", 4),
    _hybrid("cifar10_hybrid", "cifar10_hybrid", 4),
)

_ZINC_PARTS: dict[str, tuple[str, Change]] = {
    "all": ("all parts", lambda experiment: experiment),
    "walks": ("without walks", _without_walks),
    "messages": ("without message passing", _modelled(layer=("walk", "edge_update", "virtual_node"))),
    "edge-states": ("without edge states", _modelled(layer=("walk", "gine", "virtual_node"))),
    "virtual-node": ("without a virtual node", _modelled(layer=("walk", "edge_update", "gine"))),
    "return-steps": ("without return probabilities", _encoded(return_steps=0)),
    "walk-steps": ("without walk probabilities", _encoded(walk_steps=0)),
    "cycles": ("without cycle counts", _encoded(longest_cycle=0)),
    "encodings": ("without encodings", lambda experiment: replace(experiment, encodings=Encodings())),
    "decay": ("without weight decay", _trained(optimiser="adam", weight_decay=0.0)),
    "epochs": ("with 100 epochs", _trained(max_epochs=100)),
}


def ablation_hybrid() -> Table:
    """What each part of the recipe zinc_hybrid is worth, in short trainings."""
    base = _short(RECIPES["zinc_hybrid"]())
    rows = tuple(
        Row(label, f"ablation_hybrid/{name}", replace(change(base), name=f"zinc_hybrid-{name}"), 3)
        for name, (label, change) in _ZINC_PARTS.items()
    )
    return Table(
        "ablation_hybrid",
        "ZINC, hybrid: test mae without some of its parts",
        rows,
        note=f"All with {_FEW_EPOCHS} epochs, unless the row says otherwise; the recipe has more.",
    )
