"""What a person gives to a run in Python, a model or a data set, and what the record says of it."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from crawl.checks import check_type
from crawl.data.dataset import Dataset
from crawl.runs.build import class_of
from crawl.runs.experiment import Experiment, GivenModel, Model
from crawl.runs.sources import Csl, GivenData
from crawl.training.calling import Caller
from crawl.walks.plan import WalkPlan, parameters_of_others


def with_given(experiment: Experiment, model: nn.Module | None, dataset: Dataset) -> Experiment:
    """What a record says: the settings that the data were read by and the model is built by, or that they were given.

    Refuses an experiment that names others.
    """
    data = experiment.data
    if dataset.source != data:
        if data not in (Csl(), GivenData()):
            raise ValueError(
                f"experiment.data names {data.name!r}, but another data set, {dataset.name!r}, was given: leave out "
                "dataset, or say experiment.data=GivenData()."
            )
        experiment = replace(experiment, data=GivenData())
    if model is None:
        return experiment
    check_type("model", model, nn.Module)
    Caller(model)  # refuses a forward that asks for what nobody gives
    given, plan = GivenModel(class_of(model)), plan_of(model)
    usual = (None, plan, WalkPlan()) if experiment.model == Model() else (None, plan)
    if experiment.model not in (Model(), GivenModel(), given) or experiment.walk not in usual:
        raise ValueError(
            f"experiment.model and experiment.walk describe a {experiment.model.title or 'model'} that is not the "
            f"{type(model).__name__} that was given: leave out both settings, or the model if they say how to build it."
        )
    return replace(experiment, model=given, walk=plan)


def plan_of(model: nn.Module) -> WalkPlan | None:
    """The walks of a model that was given, as far as it tells, without parameters that its strategy does not have."""
    plan = getattr(model, "walk_plan", None)
    if not isinstance(plan, WalkPlan):
        return None
    return replace(plan, **{name: getattr(WalkPlan, name) for name in parameters_of_others(plan.strategy)})
