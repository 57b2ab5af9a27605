"""The folder of a run: who may write there, and what is written."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crawl.data.dataset import Dataset
from crawl.data.one_graph import OneGraph
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.files import named_if_full, write_atomically
from crawl.training.evaluation import Predictions, Scaling
from crawl.training.metrics import Array

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]


class InUse(ValueError):
    """A folder belongs to another run, or another process is training in it."""


class RunFolder:
    """The files of one run.

    `config.json` (the experiment), `where.json` (device and paths), `data.json` (the fingerprint of the data),
    `split.json`, `metrics.jsonl` (a line per epoch), `pretraining.jsonl` (the same, of a pre-training), `events`
    (TensorBoard), `best.safetensors`, `last.safetensors`,
    `initial.safetensors` (weights of another run to begin with), and at the end `result.json`, `predictions.csv`,
    `curves.png` and `report.html`, and for targets of graphs in data of one's own `calibration.json` and
    `domain.safetensors`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.data, self.split = path / "config.json", path / "data.json", path / "split.json"
        self.where = path / "where.json"
        self.best, self.last = path / "best.safetensors", path / "last.safetensors"
        self.metrics, self.result = path / "metrics.jsonl", path / "result.json"
        self.pretraining, self.initial = path / "pretraining.jsonl", path / "initial.safetensors"
        self.calibration, self.domain = path / "calibration.json", path / "domain.safetensors"
        self.report = path / "report.html"
        self.ensemble = path / "ensemble.json"  # in the folder of several models
        self.predictions, self.curves, self.events = path / "predictions.csv", path / "curves.png", path / "events"

    @classmethod
    def create(cls, path: Path | None, name: str) -> RunFolder:
        """A new folder: the given one, which must be empty if it is there, or the first free `runs/NAME-K`.

        Hidden files and `where.json` do not count as content: a process that was killed early may leave some.
        """
        if path is not None:
            names = (entry.name for entry in path.iterdir()) if path.is_dir() else ["a file"] if path.exists() else ()
            if any(not name.startswith(".") and name != "where.json" for name in names):
                is_run = any((path / name).exists() for name in ("config.json", "fold-0", ".seeds", "ensemble.json"))
                how = f"resume it with --resume {path}, or " if is_run else ""
                raise InUse(f"{path} exists already: {how}choose another folder.")
            path.mkdir(parents=True, exist_ok=True)
            return cls(path)
        if not name or set(name) & set("/\\\0"):
            raise ValueError(f"The run's name {name!r} cannot be that of a folder in runs/: leave out slashes.")
        number = 0
        while True:
            number += 1
            path = Path("runs") / f"{name}-{number}"
            with suppress(FileExistsError):  # mkdir decides: two processes never get the same folder
                path.mkdir(parents=True)
                return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of a run that was started before."""
        folder = cls(path)
        if not folder.config.is_file():
            raise ValueError(f"{path} is not the folder of a run: it has no config.json.")
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training here; raises `InUse` if one does."""
        with _locked_by_system(self.path) if fcntl is not None else _locked_by_file(self.path):
            for part in self.path.glob(".*.part*"):  # of a process that was killed while it wrote
                part.unlink(missing_ok=True)
            yield

    def write_metrics(self, history: Iterable[dict[str, Any]], file: Path | None = None) -> None:
        """Write the records of all epochs so far; into `metrics.jsonl` when no file is given."""
        write_atomically(file or self.metrics, "".join(map(_as_line, history)))

    def append_metrics(self, record: dict[str, Any], file: Path | None = None) -> None:
        """Add the record of one epoch."""
        file = file or self.metrics
        with named_if_full(str(file)), open(file, "a") as lines:
            lines.write(_as_line(record))

    def write_predictions(self, dataset: Dataset, predictions: Predictions, targets: Array) -> None:
        """Write a line per test graph, node or pair: its name, its targets, mean and spreads of its predictions.

        A class is written by the name that the column of its probability has.
        """
        ids, given = dataset.split.test.tolist(), dataset.graph_names
        names = list(map(str, ids)) if given is None else [given[i] for i in ids]
        if given is None and isinstance(dataset.store, OneGraph):
            owners = dataset.store.owners[dataset.split.test].view(len(ids), -1).tolist()
            names = [":".join(map(str, owner)) for owner in owners]
        elif isinstance(dataset.store, GraphStore) and dataset.task.level == "node":
            sizes = dataset.store.sizes[0, dataset.split.test].tolist()
            names = [f"{graph}:{node}" for graph, size in zip(names, sizes, strict=True) for node in range(size)]
        elif isinstance(dataset.store, GraphStore) and dataset.task.level == "pair":
            part = dataset.store.subset(dataset.split.test)
            assert part.pairs is not None
            graphs = [
                name for name, size in zip(names, part.targets_per_graph.tolist(), strict=True) for _ in range(size)
            ]
            names = [f"{graph}:{u}-{v}" for graph, (u, v) in zip(graphs, part.pairs.tolist(), strict=True)]
        targets = targets[:, None] if targets.ndim == 1 else targets
        outputs, shown = output_names(dataset.task), predictions.for_each_class()
        target_names = ["target"] if targets.shape[1] == 1 else [f"target_{name}" for name in outputs]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        spreads = shown.spreads
        answers = [f"{what}_{name}" for what in ("mean", *spreads) for name in outputs]
        writer.writerow(["id", *target_names, *answers])
        rows = np.concatenate([targets, shown.mean, *spreads.values()], axis=1)
        digits = [6] * rows.shape[1]
        if dataset.task.kind == "regression":
            of_targets = Scaling.of(torch.from_numpy(targets)).num_digits
            digits[: 2 * len(of_targets)] = of_targets * 2
        for name, row in zip(names, rows, strict=True):
            cells = ["" if np.isnan(value) else f"{value:.{num}g}" for value, num in zip(row, digits, strict=True)]
            if dataset.task.kind in ("binary", "multiclass"):
                cells[0] = outputs[int(row[0])]
            writer.writerow([name, *cells])
        write_atomically(self.predictions, text.getvalue())


@contextmanager
def _locked_by_system(folder: Path) -> Iterator[None]:
    """A lock that ends with the process, however it ends."""
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"Another process is training in {folder}.") from None
        yield


@contextmanager
def _locked_by_file(folder: Path) -> Iterator[None]:
    """A lock for systems without `fcntl`: whoever makes the file has it. It stays if the process is killed."""
    file = folder / ".in-use"
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        raise InUse(
            f"Another process is training in {folder}, or one was killed there: in that case, remove {file}."
        ) from None
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _as_line(record: dict[str, Any]) -> str:
    """A record as a line of JSON, which has neither NaN nor infinity."""
    known = {key: value for key, value in record.items() if value is not None and math.isfinite(value)}
    return json.dumps(dict.fromkeys(record) | known) + "\n"


def output_names(task: Task) -> list[str]:
    """A name for each column of `Predictions.for_each_class`: its target, or the class it is the probability of."""
    if task.kind == "binary":
        return list(task.class_names) or ["0", "1"]
    names = task.class_names if task.kind == "multiclass" else task.target_names
    if len(names) == task.num_outputs:
        return list(names)
    return [str(i) for i in range(task.num_outputs)]
