"""`crawl info` and `crawl datasets`: what there is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from crawl.cli.output import print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from crawl.experiments import TrainedModel
    from crawl.experiments.build import Features

_DATASETS = (
    ("csl", "150 cyclic skip link graphs, 5 fixed folds", "10 classes", "in the package", "crawl train csl"),
    ("csl_lap", "the same, with Laplacian eigenvectors", "10 classes", "in the package", "crawl train csl_lap"),
    ("counting", "random graphs and their substructures", "regression", "in the package", "crawl train counting"),
    ("csv", "molecules: a CSV with SMILES", "any", "your file", "crawl train csv --data.path FILE --data.targets NAME"),
    ("tu", "a folder in the TU format", "any", "your folder", "crawl train tu --data.path FOLDER"),
    ("folder", "GraphML or JSON files with labels.csv", "any", "your folder", "crawl train folder --data.path FOLDER"),
)


@dataclass(frozen=True)
class Datasets:
    """List the data sets that come with CRaWl and the formats it reads."""

    def run(self) -> None:
        """Print the table."""
        print_table(_table(("recipe", "graphs", "targets", "where", "command"), _DATASETS))


@dataclass(frozen=True)
class Info:
    """Say what a run or a checkpoint is: task, expected features, size, scores, versions.

    Attributes:
        run_or_checkpoint: The folder of a run, or a .safetensors file.
    """

    run_or_checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]

    def run(self) -> None:
        """Load it and print."""
        from crawl.experiments import TrainedModel

        trained = TrainedModel.load(self.run_or_checkpoint, "cpu")
        print_table(_table((), [(name, str(value)) for name, value in facts(trained)]))


def facts(trained: TrainedModel) -> Iterable[tuple[str, Any]]:
    """Name and value of what there is to say about a model."""
    experiment, features, record = trained.experiment, trained.features, trained.record
    task = features.task
    yield "name", f"{experiment.name} (seed {experiment.seed})"
    yield "model", f"{experiment.model.name}, {sum(p.numel() for p in trained.model.parameters()):,} parameters"
    yield "task", f"{task.kind} per {task.level}, scored by {task.metric}"
    if task.target_names:
        yield "targets", ", ".join(task.target_names)
    if task.class_names:
        yield "classes", ", ".join(task.class_names)
    yield from _expected(features)
    yield "data", f"{record.get('data', experiment.data.name)} {experiment.data.path or ''}".strip()
    for part, score in record.get("scores", {}).items():
        number = len(score["evaluations"])
        spread = f" ± {score['internal_deviation']:.4f} over {number} evaluations" if number > 1 else ""
        yield part, f"{task.metric} {score['mean']:.4f}{spread}"
    if "best_epoch" in record:
        yield "epochs", f"best {record['best_epoch']} of {record['num_epochs']}, {record['wall_time_s']:.0f} s"
        yield "device", record["device"]
        yield "commit", record["commit"] or "unknown"
        yield "versions", ", ".join(f"{name} {version}" for name, version in record["versions"].items())


def _expected(features: Features) -> Iterable[tuple[str, str]]:
    for kind, categories, width in (
        ("node", features.node_categories, features.num_node_features),
        ("edge", features.edge_categories, features.num_edge_features),
    ):
        described = f"categories of sizes {', '.join(map(str, categories))}" if categories else f"{width} numbers"
        yield f"{kind} features", described if categories or width else "none"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    from rich import box
    from rich.table import Table

    columns = list(header)
    table = Table(*columns, box=box.SIMPLE_HEAD if columns else None, show_header=bool(columns))
    for row in rows:
        table.add_row(*row)
    return table
