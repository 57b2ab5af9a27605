"""Runs: an experiment in, a folder out; recipes, resuming, records and prediction."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.runs.ensemble import resume_ensemble, run_ensemble
    from crawl.runs.experiment import Experiment, GivenModel, Model
    from crawl.runs.run import Result, resume_run, run_experiment
    from crawl.runs.sources import (
        TU,
        Benchmark,
        Counting,
        Csl,
        Csv,
        Folder,
        GivenData,
        Heterophilous,
        Links,
        Nodes,
        Packed,
        Planetoid,
        Social,
        Superpixels,
    )
    from crawl.runs.trained import TrainedModel

_SOURCES = (
    *("Benchmark", "Counting", "Csl", "Csv", "Folder", "GivenData", "Heterophilous", "Links", "Nodes", "Planetoid"),
    *("Packed", "Social", "Superpixels", "TU"),
)

__all__ = [
    "TU",
    "Benchmark",
    "Counting",
    "Csl",
    "Csv",
    "Experiment",
    "Folder",
    "GivenData",
    "GivenModel",
    "Heterophilous",
    "Links",
    "Model",
    "Nodes",
    "Packed",
    "Planetoid",
    "Result",
    "Social",
    "Superpixels",
    "TrainedModel",
    "resume_ensemble",
    "resume_run",
    "run_ensemble",
    "run_experiment",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.runs.ensemble": ("resume_ensemble", "run_ensemble"),
        "crawl.runs.experiment": ("Experiment", "GivenModel", "Model"),
        "crawl.runs.run": ("Result", "resume_run", "run_experiment"),
        "crawl.runs.sources": _SOURCES,
        "crawl.runs.trained": ("TrainedModel",),
    },
)
