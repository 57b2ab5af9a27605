"""Variants of the recipes that tables compare: other bits and windows, message passing with the same budget."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

from crawl.choices import Strategy
from crawl.data.benchmarks import BENCHMARKS
from crawl.data.task import Task
from crawl.runs.build import WIDTH_STEP, count_parameters
from crawl.runs.effect import effective
from crawl.runs.experiment import Data, Experiment, ModelName
from crawl.runs.features import Features

Bits = Literal["none", "identity", "adjacency", "both"]


def with_bits(experiment: Experiment, bits: Bits, strategy: Strategy = "non_backtracking") -> Experiment:
    """The same experiment with only some of the structural bits, and another kind of walk."""
    model = replace(experiment.model, identity=bits in ("identity", "both"), adjacency=bits in ("adjacency", "both"))
    return replace(experiment, model=model, walk=replace(experiment.walk, strategy=strategy))


def with_window(experiment: Experiment, window_size: int) -> Experiment:
    """The same experiment with another window (s), and the kernel that goes with it.

    A window of 0 is what the paper reports for it: the model without bits, the kernel unchanged.
    """
    if window_size == 0:
        return with_bits(experiment, "none", experiment.walk.strategy)
    return replace(experiment, walk=replace(experiment.walk, window_size=window_size))


def until_the_end(experiment: Experiment) -> Experiment:
    """Without early stopping, as in the paper."""
    return replace(experiment, training=replace(experiment.training, early_stop=None))


@cache
def as_budgeted_baseline(experiment: Experiment, layer: ModelName, benchmark: str) -> Experiment:
    """A message-passing network under the same training, as wide as CRaWl's number of parameters allows."""
    features = Features.of_benchmark(benchmark)
    budget = count_parameters(experiment, features)
    model = replace(experiment.model, name=layer, num_layers=4)
    baseline = replace(experiment, name=f"{experiment.name}-{layer}", model=model)
    return effective(fit_width(baseline, features, budget), features.task)


def fit_width(experiment: Experiment, features: Features, budget: int) -> Experiment:
    """The same experiment with the widest layers that the budget of parameters allows.

    Raises:
        ValueError: If the budget does not allow any.
    """

    def with_width(steps: int) -> Experiment:
        return replace(experiment, model=replace(experiment.model, hidden_channels=WIDTH_STEP * steps))

    if count_parameters(with_width(1), features) > budget:
        raise ValueError(f"A {experiment.model.name} of width {WIDTH_STEP} has more than {budget:,} parameters.")
    low, high = 1, 2
    while count_parameters(with_width(high), features) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if count_parameters(with_width(middle), features) <= budget:
            low = middle
        else:
            high = middle
    return with_width(low)


def known_task(data: Data) -> Task | None:
    """What is predicted, if the name of the data tells it."""
    return BENCHMARKS[data.name].task if data.name in BENCHMARKS else None
