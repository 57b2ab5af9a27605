"""Experiments: recipes, runs and their results."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.experiments.experiment import Data, Experiment, Model, Walk
    from crawl.experiments.run import Result, resume_run, run_experiment
    from crawl.experiments.trained import TrainedModel

__all__ = ["Data", "Experiment", "Model", "Result", "TrainedModel", "Walk", "resume_run", "run_experiment"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.experiments.experiment": ("Data", "Experiment", "Model", "Walk"),
        "crawl.experiments.run": ("Result", "resume_run", "run_experiment"),
        "crawl.experiments.trained": ("TrainedModel",),
    },
)
