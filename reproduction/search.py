"""Beyond the paper: searches that lead to recipes, what the recipes reach, and what each part of them is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crawl.encodings.settings import Encodings
from crawl.runs.experiment import Experiment, Model
from crawl.runs.recipes import RECIPES
from crawl.training.settings import OneCycle
from crawl.walks.plan import WalkPlan
from reproduction.plan import Row, Table

_FEW_EPOCHS = 300

Change = Callable[[Experiment], Experiment]


def _trained(**changes: Any) -> Change:
    return lambda experiment: replace(experiment, training=replace(experiment.training, **changes))


def _modelled(**changes: Any) -> Change:
    def changed(experiment: Experiment) -> Experiment:
        assert isinstance(experiment.model, Model)
        return replace(experiment, model=replace(experiment.model, **changes))

    return changed


def _encoded(**changes: int) -> Change:
    return lambda experiment: replace(experiment, encodings=replace(experiment.encodings, **changes))


def _walking(num_steps: int) -> Change:
    return lambda experiment: replace(experiment, walk=WalkPlan(num_steps=num_steps))


def _without_walks(experiment: Experiment) -> Experiment:
    assert isinstance(experiment.model, Model)
    layer = tuple(part for part in experiment.model.layer if part != "walk")
    return experiment.without_walks(replace(experiment.model, layer=layer))


_ZINC_TRIALS: dict[str, Change] = {
    "base": lambda experiment: experiment,
    "no-cycles": _encoded(longest_cycle=0),
    "no-walk-steps": _encoded(walk_steps=0),
    "walks-50": _walking(50),
    "walks-16": _walking(16),
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


def _short(experiment: Experiment) -> Experiment:
    return _trained(max_epochs=_FEW_EPOCHS)(experiment)


def search_zinc() -> Table:
    """Trials for the recipe zinc_hybrid: each changes one thing of it."""
    base = _short(RECIPES["zinc_hybrid"]())
    rows = tuple(
        Row(name, f"search_zinc/{name}", replace(change(base), name=f"zinc_hybrid-{name}"), part="val")
        for name, change in _ZINC_TRIALS.items()
    )
    note = (
        f"{len(rows)} trials of one seed and {_FEW_EPOCHS} epochs each; their test scores are recorded, but choose "
        "nothing."
    )
    return Table("search_zinc", "ZINC, hybrids: validation mae", rows, note=note)


def zinc_hybrid() -> Table:
    """ZINC with the recipe zinc_hybrid."""
    row = Row("hybrid", "zinc_hybrid/hybrid", RECIPES["zinc_hybrid"](), 5)
    return Table("zinc_hybrid", "ZINC, hybrid: test mae", (row,))


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
