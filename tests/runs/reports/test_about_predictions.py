from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crawl.data.task import Task
from crawl.pages import Gallery, Note, Section, Table, page
from crawl.runs.reports.about_predictions import calibration_of, figures_of, worst_errors
from crawl.runs.reports.predicted import Predicted
from crawl.training.metrics import score

EVIL = "<script>alert(1)</script>"
RNG = np.random.default_rng(0)


def predicted(task: Task, targets: Any, mean: Any) -> Predicted:
    mean = np.array(mean, dtype=float)
    ids = [f"{EVIL} {i}" for i in range(len(mean))]
    return Predicted(task, ids, np.array(targets, dtype=float), mean, np.zeros_like(mean))


NUMBERS = predicted(
    Task(kind="regression", num_outputs=2, target_names=(EVIL, "b")),
    [[1, 2], [2, np.nan], [3, 4], [np.nan, np.nan]],
    RNG.random((4, 2)),
)
BINARY = predicted(
    Task(kind="binary", num_outputs=1, class_names=("no", EVIL)),
    [0, 1, 0, 1],
    [[1 - p, p] for p in (0.1, 0.4, 0.3, 0.8)],
)
CLASSES = predicted(
    Task(kind="multiclass", num_outputs=3, class_names=("a", "b", EVIL)), [0, 1, 2], np.eye(3)[[0, 2, 2]]
)
LABELS = predicted(
    Task(kind="multilabel", num_outputs=2, target_names=("a", EVIL)), [[1, 0], [0, np.nan], [1, 1]], RNG.random((3, 2))
)
KINDS = {"numbers": NUMBERS, "binary": BINARY, "classes": CLASSES, "labels": LABELS}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_task_has_figures_scores_and_errors(kind: str) -> None:
    pytest.importorskip("matplotlib")
    of = KINDS[kind]
    figures = list(figures_of(of))
    (gallery,) = [part for part in figures if isinstance(part, Gallery)]
    assert len(gallery.figures) == {"numbers": 2, "binary": 3, "classes": 1, "labels": 2}[kind]
    table = figures[-1]
    assert isinstance(table, Table)
    known = score(of.task.metric, of.for_scores, of.targets)
    shown = f"{100 * known:.2f} %" if of.task.metric == "accuracy" else f"{known:.4f}"
    assert table.rows[0][1] == shown
    assert bool(list(calibration_of(of))) == (kind != "numbers")
    (errors,) = worst_errors(of, are_molecules=False)
    assert isinstance(errors, Table)
    distances = [float(row[-1]) for row in errors.rows]
    assert distances == sorted(distances, reverse=True)
    assert len(distances) == (3 if kind in ("numbers", "classes", "labels") else 4)
    text = page("x", [Section("y", [*figures, errors, *calibration_of(of)])])
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_test_part_of_one_class_or_without_graphs() -> None:
    pytest.importorskip("matplotlib")
    one = predicted(BINARY.task, [1, 1], [[0.5, 0.5]] * 2)
    assert any(isinstance(part, Note) and "one class only" in part.text for part in figures_of(one))
    empty = predicted(BINARY.task, [], np.zeros((0, 2)))
    assert [type(part) for part in figures_of(empty)] == [Note]
    assert list(worst_errors(empty, are_molecules=True)) == []
    assert list(calibration_of(empty)) == []


def test_molecules_are_drawn_where_they_can_be_read() -> None:
    pytest.importorskip("rdkit")
    task = Task(kind="regression", num_outputs=1)
    of = Predicted(task, ["CCO", "nonsense", "<script>"], np.zeros((3, 1)), np.ones((3, 1)), np.zeros((3, 1)))
    gallery, table = worst_errors(of, are_molecules=True)
    assert isinstance(gallery, Gallery)
    assert len(gallery.figures) == 1
    assert "var(--series-2)" in gallery.figures[0].picture  # oxygen, in a colour of the page
    assert isinstance(table, Table)
    assert len(table.rows) == 3


def test_without_matplotlib_and_rdkit_there_are_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl.runs.reports.about_predictions.has_matplotlib", lambda: False)
    monkeypatch.setattr("crawl.runs.reports.about_predictions.has_rdkit", lambda: False)
    note, table = figures_of(NUMBERS)
    assert isinstance(note, Note)
    assert "matplotlib" in note.text
    assert isinstance(table, Table)
    note, table = worst_errors(NUMBERS, are_molecules=True)
    assert "rdkit" in note.text  # type: ignore[union-attr]
