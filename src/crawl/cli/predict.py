"""`crawl predict`: a table of graphs in, the same table with predictions out, a piece at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from crawl.cli.inputs import Row, WithInput, counter, say_unknown
from crawl.cli.output import STDOUT, open_output, say

if TYPE_CHECKING:
    from crawl.data import Task
    from crawl.data.features import Unknown
    from crawl.runs import TrainedModel
    from crawl.training.evaluation import Predictions, Scaling

_ROWS_AT_A_TIME = 1000


@dataclass(frozen=True, kw_only=True)
class Predict(WithInput):
    """Predict with a trained model.

    All rows and columns of the input come out again in the same order, with columns added: for numbers predicted_NAME
    and walk_spread_NAME; for classes predicted_NAME with the class, and for each class probability_CLASS and
    walk_spread_CLASS. The walk spread is the standard deviation over evaluations with different walks. It is not an
    uncertainty of the prediction. A row that cannot be read stays, with empty predictions and the reason in the column
    reason. If no row can be read, that is an error.

    Attributes:
        output: A CSV file; - prints.
    """

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = STDOUT

    def run(self) -> None:
        """Read, predict and write piece by piece."""
        self.check_input(self.output)
        trained = self.load()
        from crawl.data.features import Unknown

        unknown = Unknown()
        if self.is_of_one_graph(trained):
            self._predict_nodes(trained, unknown)
            return
        columns, rows = self.table(trained, unknown)
        added = self._added(trained, columns)
        num_rows, num_bad, first_reason = 0, 0, ""
        with open_output(self.output) as file, counter() as count:
            writer = csv.writer(file, lineterminator="\n")
            header = [[*columns, *added]]
            while piece := list(islice(rows, _ROWS_AT_A_TIME)):
                answers = self._answers(trained, piece, unknown)
                self.check_unknown(unknown)
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
        say_unknown(unknown)
        bad = f", {num_bad} without a prediction (see the column reason)" if num_bad else ""
        say(f"{num_rows} rows{bad}" + ("" if self.output == STDOUT else f" → {self.output}"))

    def _predict_nodes(self, trained: TrainedModel, unknown: Unknown) -> None:
        """Write the rows of the nodes with their predictions, many at a time."""
        columns, rows, store = self.nodes(trained, unknown)
        added = self._added(trained, columns)[:-1]  # every node has a prediction, and so no reason
        with open_output(self.output) as file, counter() as count:
            writer = csv.writer(file, lineterminator="\n")
            header = [[*columns, *added]]
            for piece in trained.predictions_in_pieces(store, **self.how):
                writer.writerows(header)
                header = []
                answers = list(added_cells(piece, trained.scaling))
                for cells, answer in zip(islice(rows, len(answers)), answers, strict=True):
                    writer.writerow([*(cells[name] for name in columns), *answer[:-1]])
                count(len(answers))
        say_unknown(unknown)
        say(f"{len(store)} rows" + ("" if self.output == STDOUT else f" → {self.output}"))

    def _added(self, trained: TrainedModel, columns: Sequence[str]) -> list[str]:
        """The names of the columns that are added. Refuses an input that has one of them."""
        added = added_columns(trained.features.task)
        taken = [name for name in added if name in columns]
        if taken:
            raise ValueError(f"{self.input} has a column {taken[0]!r} already: rename it.")
        return added

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
