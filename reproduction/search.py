"""Searches that lead to recipes: trials of one seed each, compared by their validation scores alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crawl.encodings.settings import Encodings
from crawl.runs.experiment import Experiment, Model
from crawl.runs.recipes import RECIPES
from crawl.training.settings import CosinePerStep, Evaluation, OneCycle, Training
from crawl.walks.plan import WalkPlan
from reproduction.plan import Row, Table

_HYBRID = Model(("walk", "edge_update", "gine", "virtual_node"), hidden_channels=80, num_layers=5, pool="sum")
_TRAINING = Training(
    lr=2e-3,
    optimiser="adamw",
    weight_decay=0.2,
    batch_size=100,
    max_epochs=300,
    schedule=CosinePerStep(),
    warmup_epochs=10,
)
_EVALUATION = Evaluation(val_every=10)


def _trained(experiment: Experiment, **changes: Any) -> Experiment:
    return replace(experiment, training=replace(experiment.training, **changes))


def _modelled(experiment: Experiment, **changes: Any) -> Experiment:
    return replace(experiment, model=replace(_HYBRID, **changes))


def _encoded(experiment: Experiment, **encodings: int) -> Experiment:
    return replace(experiment, encodings=Encodings(**encodings))


_ZINC_TRIALS: dict[str, Callable[[Experiment], Experiment]] = {
    "base": lambda e: e,
    "cycles": lambda e: _encoded(e, return_steps=20, walk_steps=20, longest_cycle=8),
    "rwse": lambda e: _encoded(e, return_steps=20),
    "rwse-cycles": lambda e: _encoded(e, return_steps=20, longest_cycle=8),
    "plain": lambda e: _encoded(e),
    "walks-25": lambda e: replace(e, walk=WalkPlan(num_steps=25)),
    "average": lambda e: _trained(e, average_decay=0.999),
    "decay-0.1": lambda e: _trained(e, weight_decay=0.1),
    "decay-0.4": lambda e: _trained(e, weight_decay=0.4),
    "padding": lambda e: _modelled(e, padding=True),
    "walk-edges": lambda e: _modelled(e, layer=("walk_edges", "gine", "virtual_node")),
    "lr-0.004": lambda e: _trained(e, lr=4e-3, weight_decay=0.1),
    "lion": lambda e: _trained(e, optimiser="lion", lr=5e-4, weight_decay=0.5, schedule=OneCycle(), warmup_epochs=0.0),
    "six-of-72": lambda e: _modelled(e, hidden_channels=72, num_layers=6),
    "four-of-88": lambda e: _modelled(e, hidden_channels=88, num_layers=4),
    "gated": lambda e: _modelled(e, layer=("walk", "gated_gcn", "virtual_node"), hidden_channels=76),
    "no-walks": lambda e: e.without_walks(replace(_HYBRID, layer=("edge_update", "gine", "virtual_node"))),
}


def search_zinc() -> Table:
    """Trials for the recipe zinc_hybrid: each changes one thing of the base."""
    base = replace(
        RECIPES["zinc"](),
        name="zinc_hybrid",
        model=_HYBRID,
        training=_TRAINING,
        evaluation=_EVALUATION,
        encodings=Encodings(return_steps=20, walk_steps=20),
    )
    rows = tuple(
        Row(name, f"search_zinc/{name}", replace(change(base), name=f"zinc_hybrid-{name}"), part="val")
        for name, change in _ZINC_TRIALS.items()
    )
    note = f"{len(rows)} trials of one seed and 300 epochs each; their test scores are recorded, but choose nothing."
    return Table("search_zinc", "ZINC, hybrids: validation mae", rows, note=note)
