"""`crawl predict`: a table of graphs in, the same table with predictions out, a piece at a time."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from crawl.checks import whole_number
from crawl.cli.flags import FilePath, Float, Int, Switch
from crawl.cli.inputs import Row, WithInput, counter, say_outside, say_unknown
from crawl.cli.output import STDOUT, check_apart, open_output, say
from crawl.cli.predict_many import ROWS_AT_A_TIME, predict_many, summary
from crawl.cli.predict_pairs import predict_pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crawl.data import GraphStore, Task
    from crawl.data.features import Columns, Unknown
    from crawl.runs import TrainedModel
    from crawl.runs.domain import Distances
    from crawl.training.evaluation import Predictions, Scaling


@dataclass(frozen=True, kw_only=True)
class Predict(WithInput):
    """Predict with a trained model.

    All rows and columns of the input come out again in the same order, with columns added: for numbers predicted_NAME
    and walk_spread_NAME; for classes predicted_NAME with the class, and for each class probability_CLASS and
    walk_spread_CLASS. The walk spread is the standard deviation over evaluations with different walks. It is not an
    uncertainty of the prediction. An ensemble also has model_spread, the standard deviation over its models, and a
    model trained with the loss beta_nll noise, that of targets around the prediction. The column domain_percentile says
    how many validation graphs in 100 are nearer to the training data, and far is 1 if 99 are, if a category did not
    occur in training, or if a number in a column or a descriptor is outside the range of training and clipped; models
    that were saved to share have no domain_percentile. A row that cannot be read stays, with empty predictions and the
    reason in the column reason. If no row can be read, that is an error.

    For a model of links, INPUT is the folder of the graph and --pairs names the table: pairs of nodes, to which
    probability_link and walk_spread_link are added. The model sees all links in edges.csv or graph.crawl, whichever
    split they belong to: a pair that is linked there is seen to be linked, unless --hide is given.

    Attributes:
        output: A CSV file; - prints.
        interval: Add intervals (lower_NAME, upper_NAME) or sets of classes (set_NAME) of which this share, such as 0.9,
            holds the truth for data like those of the validation part.
        calibrated: Write probabilities at the temperature that suits the validation part best.
        pairs: For a model of links, a CSV file with the columns source and target, ids of nodes of the graph.
        hide: For a model of links, hide the link of a pair, if there is one, while the pair is predicted; takes ten
            times as long.
        jobs: For a table of molecules or a packed store of any length, predict with this many processes, which share
            the GPUs if there are any; after a stop, the same command resumes where it was. Needs -o FILE.
    """

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = STDOUT
    interval: Float = None
    calibrated: Switch = False
    pairs: FilePath = None
    hide: Switch = False
    jobs: Int = None

    def run(self) -> None:
        """Read, predict and write piece by piece."""
        self.check_input(self.output)
        self._check_pairs()
        if self.jobs is not None:
            predict_many(self, whole_number("--jobs", self.jobs, 1, 1024))
            return
        trained = self.load()
        from crawl.data.features import Unknown

        unknown = Unknown()
        if self._is_of_links(trained):
            assert self.pairs is not None
            found, graph = self.links(trained, unknown)
            predict_pairs(trained, found, graph, self.pairs, self.output, self.hide, self.how)
            say_unknown(unknown)
            return
        if self.is_of_one_graph(trained):
            self._refuse_calibration("nodes")
            self._predict_nodes(trained, unknown)
            return
        self.check_calibration(trained)
        columns, rows = self.table(trained, unknown)
        added, outside = self.added(trained, columns), Counter[str]()
        num_rows, num_bad, num_far, first_reason = 0, 0, 0, ""
        is_far = added.index("far") if "far" in added else None
        with open_output(self.output) as file, counter() as count:
            writer = csv.writer(file, lineterminator="\n")
            header = [[*self.names_of(columns), *added]]
            while piece := list(islice(rows, ROWS_AT_A_TIME)):
                answers = self.answers(trained, piece, unknown, outside, len(added))
                self.check_unknown(unknown)
                writer.writerows(header)  # only now, and once: what is refused leaves no header
                header = []
                for (cells, _), answer in zip(piece, answers, strict=True):
                    writer.writerow([*(cells[name] for name in columns), *answer])
                    num_far += is_far is not None and answer[is_far] == "1"
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
        say_outside(outside)
        say(summary(num_rows, num_bad, num_far) + ("" if self.output == STDOUT else f" → {self.output}"))

    def check_calibration(self, trained: TrainedModel) -> None:
        """Refuse flags that the model cannot follow."""
        kind = trained.features.task.kind
        if self.calibrated and kind == "regression":
            raise ValueError("--calibrated is for probabilities, and the model predicts numbers: leave it out.")
        if self.calibrated or self.interval is not None:
            calibration = trained.known_calibration()
            trained.check_num_steps(self.num_steps, "--num-steps")
            if self.interval is not None:
                calibration.check_confidence(self.interval)

    def _check_pairs(self) -> None:
        """Refuse pairs that are not there, or that the output would replace."""
        if self.jobs is not None and (self.pairs is not None or self.hide or self.only is not None):
            raise ValueError("--jobs is for sets of graphs: leave out --pairs, --hide and --only.")
        if self.pairs is None:
            return
        if not self.pairs.is_file():
            raise ValueError(f"There is no file {self.pairs}.")
        check_apart(self.output, [self.pairs])

    def _is_of_links(self, trained: TrainedModel) -> bool:
        """Whether the model answers for pairs of nodes in files. Refuses flags of such models for others."""
        from crawl.runs.sources import Links

        if isinstance(trained.experiment.data, Links):
            if self.pairs is None:
                raise ValueError(f"{self.run_folder} predicts links: say of which pairs, with --pairs FILE.")
            if self.only is not None:
                raise ValueError(f"{self.run_folder} predicts links, those that --pairs names: leave out --only.")
            self._refuse_calibration("links")
            return True
        for flag, value in (("--pairs", self.pairs), ("--hide", self.hide)):
            if value:
                raise ValueError(f"{flag} is for models of links, which {self.run_folder} is not: leave it out.")
        return False

    def _refuse_calibration(self, what: str) -> None:
        """Refuse what there is for sets of graphs only."""
        for flag, is_given in (("--interval", self.interval is not None), ("--calibrated", self.calibrated)):
            if is_given:
                raise ValueError(f"{self.run_folder} predicts {what}, for which there is no {flag}: leave it out.")

    def _predict_nodes(self, trained: TrainedModel, unknown: Unknown) -> None:
        """Write the rows of the nodes with their predictions, many at a time."""
        columns, rows, store = self.nodes(trained, unknown)
        added = self.added(trained, columns)[:-1]  # every node has a prediction, and so no reason
        with open_output(self.output) as file, counter() as count:
            writer = csv.writer(file, lineterminator="\n")
            header = [[*self.names_of(columns), *added]]
            for piece in trained.predictions_in_pieces(store, **self.how):
                writer.writerows(header)
                header = []
                answers = list(added_cells(piece, trained.scaling))
                for cells, answer in zip(islice(rows, len(answers)), answers, strict=True):
                    writer.writerow([*(cells[name] for name in columns), *answer[:-1]])
                count(len(answers))
        say_unknown(unknown)
        say(f"{len(store)} rows" + ("" if self.output == STDOUT else f" → {self.output}"))

    def added(self, trained: TrainedModel, columns: Sequence[str]) -> list[str]:
        """The names of the columns that are added. Refuses an input that has one of them."""
        settings: Any = {"interval": self.interval is not None, "far": trained.knows_far}
        settings |= {"percentile": trained.knows_distances}
        added = added_columns(trained.features.task, trained.spread_names, **settings)
        if self.pairs is None and trained.features.task.level == "pair":
            added = ["bonds", *added]  # the two atoms of each
        taken = [name for name in added if name in columns]
        if taken:
            raise ValueError(f"{self.input} has a column {taken[0]!r} already: rename it.")
        return added

    def _cells(self, trained: TrainedModel, store: GraphStore, outside: Counter[str]) -> Iterator[list[str]]:
        """The added cells of each graph; rows outside the range of training are counted in `outside`."""
        found, of_numbers = self.predictions(trained, store), trained.features.task.kind == "regression"
        ends: Sequence[NDArray[Any]] = ()
        sets = distances = None
        if self.interval is not None and of_numbers:
            ends = trained.interval(found, self.interval)
        elif self.interval is not None:
            sets = trained.sets(found, self.interval)
        if trained.knows_far:
            how: Any = {"num_steps": self.num_steps, "seed": self.seed, "batch_size": self.batch_size}
            distances = trained.distances(store, **how)
            outside.update(_rows_outside(distances, trained.features.columns))
        found = trained.calibrated(found) if self.calibrated else found
        return added_cells(found, trained.scaling, ends, sets, distances)

    def answers(
        self, trained: TrainedModel, rows: Sequence[Row], unknown: Unknown, outside: Counter[str], num_columns: int
    ) -> list[list[str]]:
        """The added cells of each row. Categories that did not occur in training are counted in `unknown`, and rows
        outside its range in `outside`; see `say_outside`."""
        import torch

        from crawl.data import GraphStore
        from crawl.data.molecules import bonds_of

        graphs = [graph for _, graph in rows if not isinstance(graph, str)]
        answers: Iterator[list[str]] = iter(())
        if graphs:
            level = trained.features.task.level
            store = trained.features.encoded(GraphStore.from_graphs(graphs), unknown)
            store = replace(store, **bonds_of(store)) if level == "pair" else store
            answers = self._cells(trained, store, outside)
            if level == "node":
                answers = _lists(answers, store.sizes[0].tolist(), num_columns)
            elif store.pairs is not None:
                sizes = store.targets_per_graph.tolist()
                lists = _lists(answers, sizes, num_columns - 1)
                answers = (
                    [json.dumps(pairs.tolist()), *cells]
                    for pairs, cells in zip(torch.split(store.pairs, sizes), lists, strict=True)
                )
        empty = [""] * (num_columns - 1)
        return [[*empty, graph] if isinstance(graph, str) else next(answers) for _, graph in rows]


def added_columns(
    task: Task,
    spreads: Sequence[str] = ("walk_spread",),
    *,
    interval: bool = False,
    far: bool = False,
    percentile: bool = True,
) -> list[str]:
    """The names of the columns that predictions of a task fill, with these spreads; with intervals or sets, and with
    what is far from the training data, with its percentile, if they are asked for."""
    from crawl.runs.folder import output_names

    outputs = output_names(task)
    has_class, of_numbers = task.kind in ("binary", "multiclass"), task.kind == "regression"
    columns = [f"predicted_{name}" for name in (_targets(task) if has_class else outputs if of_numbers else ())]
    columns += [] if of_numbers else [f"probability_{name}" for name in outputs]
    columns += [f"{spread}_{name}" for spread in spreads for name in outputs]
    if interval and of_numbers:
        columns += [f"{end}_{name}" for end in ("lower", "upper") for name in outputs]
    elif interval:
        columns += [f"set_{name}" for name in (_targets(task) if has_class else outputs)]
    columns += ["domain_percentile"] if far and percentile else []
    return [*columns, *(["far"] if far else []), "reason"]


def _rows_outside(distances: Distances, columns: Columns | None) -> dict[str, int]:
    """How many rows are outside the range of training, in each column, and in all other features together."""
    named = {column.name for column in columns.graphs} if columns else set()
    found = {f"{name} is": int(rows.sum()) for name, rows in distances.outside.items() if name in named}
    others = [rows for name, rows in distances.outside.items() if name not in named]
    what = "Descriptors are" if columns and columns.descriptors else "Features u of graphs are"
    return found | ({what: sum(any(row) for row in zip(*others, strict=True))} if others else {})


def _lists(answers: Iterator[list[str]], sizes: Sequence[int], num_columns: int) -> Iterator[list[str]]:
    """The cells of each molecule: a JSON list of what its atoms, or bonds, have, and no reason."""
    for size in sizes:
        rows = [answer[:-1] for answer in islice(answers, size)]
        columns = zip(*rows, strict=True) if rows else [()] * (num_columns - 1)
        yield [*(_json_list(column) for column in columns), ""]


def _json_list(cells: Sequence[str]) -> str:
    """Numbers as they are written, and words in quotes."""
    try:
        are_numbers = all(math.isfinite(float(cell)) for cell in cells)
    except ValueError:
        are_numbers = False
    return f"[{', '.join(cells)}]" if are_numbers else json.dumps(list(cells), ensure_ascii=False)


def _targets(task: Task) -> list[str]:
    return list(task.target_names[:1]) or ["target"]


def added_cells(
    predictions: Predictions,
    scaling: Scaling,
    ends: Sequence[NDArray[Any]] = (),
    sets: NDArray[np.bool_] | None = None,
    distances: Distances | None = None,
) -> Iterator[list[str]]:
    """What `added_columns` names, for each graph; nothing is the reason."""
    from crawl.runs.folder import output_names

    task, shown = predictions.task, predictions.for_each_class()
    names, has_class = output_names(task), task.kind in ("binary", "multiclass")
    predicted = [[names[i]] for i in predictions.classes] if has_class else [[] for _ in predictions.mean]
    digits = scaling.num_digits or [6] * shown.mean.shape[1]
    classes = names if has_class else ["0", "1"]
    is_far = () if distances is None else distances.is_far
    for i, words in enumerate(predicted):
        cells = [*words, *_numbers(shown.mean[i], digits)]
        for spread in shown.spreads.values():
            cells += [f"{value:.6g}" for value in spread[i]]
        for end in ends:
            cells += _numbers(end[i], digits)
        if sets is not None:
            held = [[name for name, is_in in zip(classes, row, strict=True) if is_in] for row in sets[i]]
            cells += [json.dumps(each, ensure_ascii=False) for each in held]
        if distances is not None:
            cells += [] if distances.percentile is None else [f"{distances.percentile[i]:.4g}"]
            cells.append(str(int(is_far[i])))
        yield [*cells, ""]


def _numbers(values: NDArray[Any], digits: Sequence[int]) -> list[str]:
    return [f"{value:.{number}g}" for value, number in zip(values, digits, strict=True)]
