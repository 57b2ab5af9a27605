"""`crawl predict`: a table of graphs in, the same table with predictions out, a piece at a time."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from crawl.cli.flags import WithModel, Word
from crawl.cli.output import STDOUT, open_output, say

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from crawl.data import Task
    from crawl.data.features import Columns, Unknown
    from crawl.runs import TrainedModel
    from crawl.training.evaluation import Predictions, Scaling

_ROWS_AT_A_TIME = 1000
Row = tuple[dict[str, str], "Data | str"]  # the columns of a line of the input, and its graph or why there is none


@dataclass(frozen=True, kw_only=True)
class Predict(WithModel):
    """Predict with a trained model.

    All rows and columns of the input come out again in the same order, with columns added: for numbers predicted_NAME
    and walk_spread_NAME; for classes predicted_NAME with the class, and for each class probability_CLASS and
    walk_spread_CLASS. The walk spread is the standard deviation over evaluations with different walks. It is not an
    uncertainty of the prediction. A row that cannot be read stays, with empty predictions and the reason in the column
    reason. If no row can be read, that is an error.

    Attributes:
        input: A CSV file with SMILES (.gz is fine), a folder in the TU format, or one of GraphML or JSON files with
            labels.csv, or without; targets are not looked at.
        output: A CSV file; - prints.
        smiles: The SMILES column; found by its name when not given.
        unknown: What to do about categories that did not occur in training: encode them as zeros and say so, or stop.
    """

    input: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="INPUT")]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = STDOUT
    smiles: Word = None
    unknown: Literal["warn", "error"] = "warn"

    def run(self) -> None:
        """Read, predict and write piece by piece."""
        self.check()
        if not self.input.exists():
            raise ValueError(f"There is no file or folder {self.input}.")
        if self.output.exists() and self.output.samefile(self.input):
            raise ValueError(f"The output would replace the input {self.input}: choose another name.")
        if self.smiles is not None and self.input.is_dir():
            raise ValueError(f"{self.input} is a folder, which has no SMILES column: leave out --smiles.")
        trained = self.load()
        from crawl.data.features import Unknown
        from crawl.runs.features import unknown_message

        if trained.features.task.level != "graph":
            raise ValueError(f"{self.run_folder} predicts nodes; use crawl.runs.TrainedModel in Python.")
        unknown = Unknown()
        columns, rows = self._table(trained, unknown)
        added = added_columns(trained.features.task)
        taken = [name for name in added if name in columns]
        if taken:
            raise ValueError(f"{self.input} has a column {taken[0]!r} already: rename it.")
        num_rows, num_bad, first_reason = 0, 0, ""
        with open_output(self.output) as file, _counter() as count:
            writer = csv.writer(file, lineterminator="\n")
            header = [[*columns, *added]]
            while piece := list(islice(rows, _ROWS_AT_A_TIME)):
                answers = self._answers(trained, piece, unknown)
                if unknown and self.unknown == "error":
                    raise ValueError(f"Categories in {self.input} were not there in training: {unknown}.")
                writer.writerows(header)  # only now, and once: what is refused leaves no header
                header = []
                for (cells, _), answer in zip(piece, answers, strict=True):
                    writer.writerow([*(cells[name] for name in columns), *answer])
                count(len(piece))
                num_rows += len(piece)
                reasons = [graph for _, graph in piece if isinstance(graph, str)]
                num_bad += len(reasons)
                first_reason = first_reason or next(iter(reasons), "")
            if num_rows and num_bad == num_rows:
                reason = f"The first of {num_rows} has none because: {first_reason}."
                raise ValueError(f"No row of {self.input} has a prediction. {reason}")
            writer.writerows(header)  # of a table without rows
        if unknown:
            say(unknown_message(unknown))
        bad = f", {num_bad} without a prediction (see the column reason)" if num_bad else ""
        say(f"{num_rows} rows{bad}" + ("" if self.output == STDOUT else f" → {self.output}"))

    def _table(self, trained: TrainedModel, unknown: Unknown) -> tuple[Sequence[str], Iterator[Row]]:
        """The columns of the input and its rows, which are read as they are asked for.

        Values in a folder that did not occur in training are counted in `unknown`.
        """
        if self.input.is_dir():
            return ("graph",), (({"graph": name}, graph) for name, graph in self._graphs(trained, unknown))
        from crawl.data.molecules import read_molecules
        from crawl.data.table import Table
        from crawl.runs.sources import Csv

        data = trained.experiment.data
        if not isinstance(data, Csv):
            raise ValueError(f"{self.run_folder} was not trained on molecules: give a folder of graphs, not a file.")
        columns = Table(self.input).columns
        molecules = read_molecules(self.input, self.smiles or data.smiles)
        return columns, ((cells, molecule) for _, cells, molecule in molecules)

    def _graphs(self, trained: TrainedModel, unknown: Unknown) -> Iterator[tuple[str, Data | str]]:
        """The names of the graphs in a folder, each with its graph or with the reason why there is none."""
        from crawl.data.folder import read_folder
        from crawl.data.tu import read_tu

        columns = self._columns(trained)
        if not any(self.input.glob("*_A.txt")):
            return read_folder(self.input, columns, unknown)
        store = read_tu(self.input, columns, unknown)
        return ((str(i), store.graph(i)) for i in range(len(store)))

    def _columns(self, trained: TrainedModel) -> Columns:
        """What the features of the training graphs were; an error if that is not known."""
        from crawl.data.features import Columns
        from crawl.runs.build import load_dataset
        from crawl.runs.features import Features
        from crawl.runs.sources import TU, Folder

        features, data = trained.features, trained.experiment.data
        if features.columns is not None:
            return features.columns
        widths = features.num_node_features + features.num_edge_features
        if not (features.node_categories or features.edge_categories or widths):
            return Columns()
        path = trained.where.path
        if isinstance(data, TU | Folder) and path and os.path.realpath(path) == os.path.realpath(self.input):
            found = Features.of(load_dataset(data, trained.experiment.seed, path=path))  # of a run of an older version
            if found.columns is not None and replace(found, task=features.task, columns=None) == features:
                return found.columns
        raise ValueError(
            f"It is not known how the features of {self.run_folder} were numbered, so those in {self.input} may mean "
            "something else: predict in Python with crawl.runs.TrainedModel, or train again."
        )

    def _answers(self, trained: TrainedModel, rows: Sequence[Row], unknown: Unknown) -> list[list[str]]:
        """The added cells of each row. Categories that did not occur in training are counted in `unknown`."""
        from crawl.data import GraphStore

        graphs = [graph for _, graph in rows if not isinstance(graph, str)]
        answers: Iterator[list[str]] = iter(())
        if graphs:
            store = trained.features.encoded(GraphStore.from_graphs(graphs), unknown)
            answers = added_cells(self.predictions(trained, store), trained.scaling)
        empty = [""] * (len(added_columns(trained.features.task)) - 1)
        return [[*empty, graph] if isinstance(graph, str) else next(answers) for _, graph in rows]


@contextmanager
def _counter() -> Iterator[Callable[[int], None]]:
    """A function that counts rows for a person to watch; by a line every ten seconds where there is no terminal."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from crawl.runs.progress import lines

    console = Console(stderr=True)
    if not console.is_terminal:
        numbers: list[int] = []
        with lines(lambda: f"{sum(numbers)} rows"):
            yield numbers.append
        return
    columns = (TextColumn("{task.completed:.0f} rows"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda number: progress.advance(task, number)


def added_columns(task: Task) -> list[str]:
    """The names of the columns that predictions of a task fill."""
    from crawl.runs.folder import output_names

    targets = list(task.target_names) or ["target"]
    outputs = output_names(task)
    spreads = [f"walk_spread_{name}" for name in outputs]
    if task.kind == "regression":
        return [*(f"predicted_{name}" for name in outputs), *spreads, "reason"]
    predicted = [] if task.kind == "multilabel" else [f"predicted_{targets[0]}"]
    return [*predicted, *(f"probability_{name}" for name in outputs), *spreads, "reason"]


def added_cells(predictions: Predictions, scaling: Scaling) -> Iterator[list[str]]:
    """What `added_columns` names, for each graph; nothing is the reason."""
    from crawl.runs.folder import output_names

    task, shown = predictions.task, predictions.for_each_class()
    names, has_class = output_names(task), task.kind in ("binary", "multiclass")
    predicted = [[names[i]] for i in predictions.classes] if has_class else [[] for _ in predictions.mean]
    for words, mean, spread in zip(predicted, shown.mean, shown.walk_spread, strict=True):
        means = [f"{value:.{num}g}" for value, num in zip(mean, scaling.num_digits or [6] * len(mean), strict=True)]
        yield [*words, *means, *(f"{value:.6g}" for value in spread), ""]
