"""Runs: an experiment in, a folder out; recipes, resuming, records and prediction."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.runs.experiment import Data, Experiment, Model, Walk
    from crawl.runs.run import Result, resume_run, run_experiment
    from crawl.runs.trained import TrainedModel

__all__ = ["Data", "Experiment", "Model", "Result", "TrainedModel", "Walk", "resume_run", "run_experiment"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.runs.experiment": ("Data", "Experiment", "Model", "Walk"),
        "crawl.runs.run": ("Result", "resume_run", "run_experiment"),
        "crawl.runs.trained": ("TrainedModel",),
    },
)
