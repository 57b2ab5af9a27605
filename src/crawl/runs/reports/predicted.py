"""The test predictions in the folder of a run, read back and checked."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crawl.data.fingerprint import Fingerprint
from crawl.data.task import Task
from crawl.files import parse_json
from crawl.plain import read_checked
from crawl.runs.folder import RunFolder, output_names
from crawl.training.metrics import Array

_MOST_BYTES = 200_000_000  # of a file that a page is made from


class NotThere(ValueError):
    """There are no predictions to show; the message says why."""


@dataclass(frozen=True)
class Predicted:
    """What a run predicted for its test part.

    Attributes:
        task: What it predicts.
        ids: A name for each row: its graph, node or pair.
        targets: `[n, k]` numbers or labels, NaN where missing; `[n]` classes.
        mean: `[n, k]` means over evaluations: numbers, or probabilities; two columns for a binary task.
        spread: `[n, k]` how much they depend on the walks.
    """

    task: Task
    ids: list[str]
    targets: Array
    mean: Array
    spread: Array

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def for_scores(self) -> Array:
        """`[n, k]` the predictions as `crawl.training.metrics.score` takes them: one column for a binary task."""
        return self.mean[:, 1:] if self.task.kind == "binary" else self.mean

    @property
    def errors(self) -> Array:
        """`[n]` how far each prediction is from its target: the mean distance, or the probability of other classes;
        NaN without a target."""
        if self.targets.ndim == 1:
            found: Array = 1 - self.mean[np.arange(len(self)), self.targets.astype(int)]
            return found
        distances = abs(self.mean - self.targets)
        known = ~np.isnan(distances)
        total = np.where(known, distances, 0).sum(axis=1)
        count = known.sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def read_task(run: RunFolder) -> Task | None:
    """What a run predicts, or the models of an ensemble; None for a run of an older version, which does not say."""
    if run.ensemble.is_file():
        run = RunFolder(run.path / "member-1")
    if not run.data.is_file():
        return None
    return read_checked(run.data, lambda text: Fingerprint.from_dict(parse_json(text)), "train it again").task


def read_predictions(run: RunFolder) -> Predicted:
    """The test predictions of a run.

    Raises:
        NotThere: If there are none, or too many for a page.
        ValueError: If a file is damaged.
    """
    if not run.predictions.is_file():
        raise NotThere("The folder has no predictions.csv: the run is not finished, or the file was removed.")
    if run.predictions.stat().st_size > _MOST_BYTES:
        raise NotThere(f"predictions.csv has more than {_MOST_BYTES // 10**6} MB, too much for a page.")
    task = read_task(run)
    if task is None:
        raise NotThere("The folder has no data.json, as runs of older versions, so its task is not known.")
    try:
        return _read(run.predictions, task)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{run.predictions} is damaged: {error}") from None


def _read(path: Path, task: Task) -> Predicted:
    outputs = output_names(task)
    has_classes = task.kind in ("binary", "multiclass")
    num_targets = 1 if has_classes else len(outputs)
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        answers = [f"{what}_{name}" for what in ("mean", "walk_spread") for name in outputs]
        names = ["target"] if num_targets == 1 else [f"target_{name}" for name in outputs]
        if header[: 1 + num_targets] != ["id", *names] or not set(answers) <= set(header):
            raise ValueError("its header is not of this task.")
        columns = [*range(1, 1 + num_targets), *(header.index(name, 1 + num_targets) for name in answers)]
        ids: list[str] = []
        values: list[list[float]] = []
        for row in rows:
            if len(row) != len(header):
                raise ValueError(f"line {rows.line_num} has {len(row)} cells, not {len(header)}.")
            cells = [row[column] for column in columns]
            if has_classes:
                if cells[0] not in outputs:
                    raise ValueError(f"line {rows.line_num} names an unknown class.")
                cells[0] = str(outputs.index(cells[0]))
            ids.append(row[0])
            values.append([float(cell) if cell else math.nan for cell in cells])
    table = np.array(values).reshape(len(ids), len(columns))
    targets, mean, spread = np.split(table, [num_targets, num_targets + len(outputs)], axis=1)
    return Predicted(task, ids, targets[:, 0] if has_classes else targets, mean, spread)
