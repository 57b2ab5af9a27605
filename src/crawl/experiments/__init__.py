"""Experiments: recipes, runs and their results."""

from crawl.experiments.experiment import Data, Experiment, Model, Walk
from crawl.experiments.run import Result, resume_run, run_experiment
from crawl.experiments.trained import TrainedModel

__all__ = ["Data", "Experiment", "Model", "Result", "TrainedModel", "Walk", "resume_run", "run_experiment"]
