"""Variants of the recipes that tables compare: other bits and windows, message passing with the same budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from crawl.choices import Strategy
from crawl.data.benchmarks import BENCHMARKS
from crawl.data.task import Task
from crawl.runs.experiment import Experiment, Model
from crawl.runs.sources import Data, Social

Bits = Literal["none", "identity", "adjacency", "both"]
WIDTHS = {  # of four layers, so that there are at most as many parameters as CRaWl has; as they were recorded
    "zinc": {"gcn": 308, "gin": 232, "gine": 232, "gat": 308, "sage": 232, "gated_gcn": 152, "pna": 88},
    "csl": {"gcn": 140, "gin": 104, "gine": 104, "gat": 140, "sage": 104, "gated_gcn": 76, "pna": 36},
    "csl_lap": {"gin": 104},
}


COUNTED = ("triangle", "tailed_triangle", "star", "cycle4")


def without_validation(experiment: Experiment) -> Experiment:
    """The same experiment on social graphs, with nine folds to train on, as in the paper."""
    assert isinstance(experiment.data, Social)
    return replace(experiment, data=replace(experiment.data, has_validation=False))


def with_bits(experiment: Experiment, bits: Bits, strategy: Strategy = "non_backtracking") -> Experiment:
    """The same experiment with only some of the structural bits, and another kind of walk."""
    assert isinstance(experiment.model, Model)
    assert experiment.walk is not None
    model = replace(experiment.model, identity=bits in ("identity", "both"), adjacency=bits in ("adjacency", "both"))
    return replace(experiment, model=model, walk=replace(experiment.walk, strategy=strategy))


def with_window(experiment: Experiment, window_size: int) -> Experiment:
    """The same experiment with another window (s), and the kernel that goes with it.

    A window of 0 is what the paper reports for it: the model without bits, the kernel unchanged.
    """
    assert experiment.walk is not None
    if window_size == 0:
        return with_bits(experiment, "none", experiment.walk.strategy)
    return replace(experiment, walk=replace(experiment.walk, window_size=window_size))


def until_the_end(experiment: Experiment) -> Experiment:
    """Without early stopping, as in the paper."""
    return replace(experiment, training=replace(experiment.training, early_stop=None))


def as_budgeted_baseline(experiment: Experiment, layer: str, benchmark: str) -> Experiment:
    """A message-passing network under the same training, about as wide as CRaWl's number of parameters allows."""
    like = experiment.model
    assert isinstance(like, Model)
    model = Model((layer,), WIDTHS[benchmark][layer], 4, pool=like.pool, head=like.head, dropout=like.dropout)
    return replace(experiment.without_walks(model), name=f"{experiment.name}-{layer}")


def known_task(data: Data) -> Task | None:
    """What is predicted, if the name of the data tells it."""
    return BENCHMARKS[data.name].task if data.name in BENCHMARKS else None
