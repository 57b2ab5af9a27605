"""Recipes: functions that return an experiment. A variant is `dataclasses.replace`."""

from __future__ import annotations

from collections.abc import Callable

from crawl.experiments.experiment import Data, Experiment, Model
from crawl.training.settings import Evaluation, Training


def csl() -> Experiment:
    """The ten classes of cyclic skip link graphs, which message passing cannot tell apart (paper, section 4).

    The paper goes on until the learning rate is below 1e-6; here 80 epochs without a better score end it.
    """
    return Experiment(
        name="csl",
        data=Data(name="csl", split="given"),
        model=Model(hidden_channels=90, num_layers=2),
        training=Training(patience=20, early_stop=80),
        evaluation=Evaluation(num_val_repeats=5),
    )


def csl_lap() -> Experiment:
    """The same graphs with Laplacian eigenvectors as node features."""
    plain = csl()
    return Experiment(
        name="csl_lap",
        data=Data(name="csl", split="given", laplacian=20),
        model=plain.model,
        training=plain.training,
        evaluation=plain.evaluation,
    )


def counting() -> Experiment:
    """How often a substructure occurs in a random graph (paper, appendix B.4)."""
    return Experiment(
        name="counting",
        data=Data(name="counting", split="given"),
        model=Model(hidden_channels=256, num_layers=6, pool="sum"),
        training=Training(max_epochs=500, schedule="cosine"),
    )


def csv() -> Experiment:
    """Molecules as SMILES in a CSV file, with one or more target columns."""
    return Experiment(
        name="csv",
        data=Data(name="csv"),
        model=Model(hidden_channels=100, num_layers=3, virtual_node=True, pool="sum", dropout=0.1),
        training=Training(max_epochs=200, early_stop=50, normalise_targets=True),
        evaluation=Evaluation(num_test_repeats=5),
    )


def tu() -> Experiment:
    """A folder in the TU format, with the settings of the paper for social graphs (paper, appendix B.3)."""
    return Experiment(
        name="tu",
        data=Data(name="tu", split="stratified"),
        model=Model(hidden_channels=100, num_layers=3, pool="sum", dropout=0.5),
        training=Training(batch_size=100, max_epochs=200, schedule="interval", interval=20),
    )


def folder() -> Experiment:
    """A folder of GraphML or JSON files with a table of labels."""
    return Experiment(
        name="folder",
        data=Data(name="folder"),
        model=Model(hidden_channels=100, num_layers=3, pool="sum", dropout=0.1),
        training=Training(max_epochs=200, early_stop=50),
    )


RECIPES: dict[str, Callable[[], Experiment]] = {
    recipe.__name__: recipe for recipe in (csl, csl_lap, counting, csv, tu, folder)
}
