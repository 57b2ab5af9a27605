"""A page that compares runs: scores with spreads, curves together, settings that differ, paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crawl import __version__
from crawl.checks import shown
from crawl.data.task import Task
from crawl.pages.document import Facts, Fold, Gallery, Highlight, Note, Part, Section, Table, Text, page
from crawl.pages.figures import NO_MATPLOTLIB, has_matplotlib, short
from crawl.runs.experiment import Experiment
from crawl.runs.folder import RunFolder
from crawl.runs.formats import format_score, model_title
from crawl.runs.protocol import runs_in
from crawl.runs.records import RunRecord, read_config, read_run_or_problem
from crawl.runs.reports import plots
from crawl.runs.reports.about_predictions import metric_title
from crawl.runs.reports.paired import is_same_test, paired_difference
from crawl.runs.reports.predicted import Predicted, read_predictions, read_task
from crawl.runs.reports.run_page import duration, guarded
from crawl.runs.reports.settings import differences, flat_settings
from crawl.training.metrics import LOWER_IS_BETTER

_MOST = 8  # models on a page, each with a colour of its own


@dataclass(frozen=True)
class Compared:
    """One run, or all runs in a folder of folds or seeds.

    Attributes:
        name: What it is called on the page.
        folders: Of its runs.
        runs: What is in them.
        experiment: The settings of the first of them.
    """

    name: str
    folders: Sequence[Path]
    runs: Sequence[RunRecord]
    experiment: Experiment

    @property
    def finished(self) -> list[dict[str, Any]]:
        """The records of those that are finished."""
        return [run.record for run in self.runs if run.record is not None]

    def scores(self, part: str) -> list[float]:
        """The score of each finished run that has one."""
        means = (record["scores"].get(part, {}).get("mean") for record in self.finished)
        return [mean for mean in means if mean is not None]


def compare_page(paths: Sequence[Path]) -> str:
    """The page that compares runs.

    Args:
        paths: Folders of runs, or of runs on all folds or with several seeds.

    Raises:
        ValueError: If there are not two to eight of them, a folder is none of a run, or they have different tasks.
    """
    if not 2 <= len(paths) <= _MOST:
        raise ValueError(f"Name two to {_MOST} runs to compare, not {len(paths)}.")
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(paths):
        raise ValueError(f"{next(p for p in paths if resolved.count(p.resolve()) > 1)} is named twice: leave one out.")
    models = [_read(path, name) for path, name in zip(paths, _names(resolved), strict=True)]
    _check_tasks(models)
    finished = [record for model in models for record in model.finished]
    if not finished:
        raise ValueError("None of these runs is finished, so there are no scores to compare.")
    metric = finished[0]["metric"]
    data = ", ".join(dict.fromkeys(short(record["data"]) for record in finished))
    sections = [
        Section("Scores", list(_scores(models, metric))),
        Section("Differences on the same test part", guarded(_paired(models, metric), "Differences")),
        Section("Learning curves", guarded(_curves(models, metric), "Curves")),
        Section("Settings that differ", list(_settings(models))),
    ]
    return page(
        f"{len(models)} models compared",
        sections,
        subtitle=f"{data} · {metric_title(metric)}",
        highlights=list(_highlights(models, metric)),
        footer=f"Made by crawl {__version__} from the folders of the runs.",
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """The last words of paths, as many as tell them apart."""
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def _read(path: Path, name: str) -> Compared:
    folders = [path / each for each in runs_in(path)] or [path]
    found = [read_run_or_problem(folder, folder.name) for folder in folders]
    runs = [run for run in found if run is not None]
    if not runs:
        raise ValueError(f"{path} is not the folder of a run, or of runs on folds or with seeds.")
    if problem := next((run.problem for run in runs if run.problem), ""):
        raise ValueError(problem)
    record = next((run.record for run in runs if run.record is not None), None)
    first = Experiment.from_plain(record["config"]) if record else read_config(RunFolder(folders[0]).config)
    return Compared(name, folders, runs, first)


def _check_tasks(models: Sequence[Compared]) -> None:
    """Refuse models whose scores mean different things."""
    first: tuple[str, Task | str] | None = None
    for model in models:
        for record in model.finished[:1]:
            task = read_task(RunFolder(model.folders[0])) or str(record["metric"])
            if first is None:
                first = (model.name, task)
            elif type(first[1]) is type(task) and first[1] != task:
                raise ValueError(
                    f"{first[0]} and {model.name} have different tasks, so that their scores cannot be compared: "
                    f"{_words(first[1])}, and {_words(task)}. Compare runs of one task."
                )


def _words(task: Task | str) -> str:
    if isinstance(task, str):
        return task
    names = f" of {shown(list(task.target_names))}" if task.target_names else ""
    return f"{task.kind} per {task.level}{names} scored by {task.metric}"


def _highlights(models: Sequence[Compared], metric: str) -> Iterator[Highlight]:
    for model in models[:4]:
        scores = model.scores("test")
        value = format_score(metric, float(np.mean(scores)) if scores else None)
        spread = f" ± {format_score(metric, float(np.std(scores)))} over {len(scores)} runs" if len(scores) > 1 else ""
        yield Highlight(short(model.name), value, f"test {metric_title(metric)}{spread}")


def _scores(models: Sequence[Compared], metric: str) -> Iterator[Part]:
    rows = []
    for model in models:
        records, test, validation = model.finished, model.scores("test"), model.scores("val")
        inner = [record["scores"]["test"]["internal_deviation"] for record in records]
        known = [value for value in inner if value is not None]
        cells = [
            format_score(metric, float(np.mean(validation)) if validation else None),
            format_score(metric, float(np.mean(test)) if test else None),
            format_score(metric, float(np.std(test)) if len(test) > 1 else None),
            format_score(metric, float(np.mean(known)) if known else None),
        ]
        number = f"{len(records)} of {len(model.folders)}" if len(records) < len(model.folders) else str(len(records))
        sizes = " to ".join(dict.fromkeys(f"{record['num_parameters']:,}" for record in records)) or "–"
        time = duration(sum(record["wall_time_s"] for record in records)) if records else "–"
        title = model_title(model.experiment.model)
        rows.append((model.name, title, *cells, number, sizes, time))
    columns = ("run", "model", "validation", "test", "± runs", "± evaluations", "runs", "parameters", "time")
    direction = "Lower is better" if LOWER_IS_BETTER.get(metric, False) else "Higher is better"
    caption = (
        f"{metric_title(metric)}. {direction}. ± runs is the standard deviation between runs, ± evaluations "
        "between evaluations of one model with different walks."
    )
    means = [float(np.mean(model.scores("val"))) if model.scores("val") else np.nan for model in models]
    best = None
    if not all(np.isnan(means)):
        best = int(np.nanargmin(means) if LOWER_IS_BETTER.get(metric, False) else np.nanargmax(means))
        caption += " In colour: the best validation score, by which to choose."
    yield Table(columns, rows, caption, "llrrrrrrr", strong=best)
    for model in models:
        if len(model.finished) < len(model.folders):
            yield Note(f"{model.name} is not finished: it counts with what is.", "warning")


def _paired(models: Sequence[Compared], metric: str) -> Iterator[Part]:
    first, *others = models
    if not first.finished:
        yield Note(f"{first.name} is not finished, so others are not compared with it.")
        return
    ours = _predictions(first)
    rows = []
    for model in others:
        theirs = _predictions(model) if len(model.finished) == len(model.folders) else []
        if len(ours) != len(theirs) or not all(is_same_test(*pair) for pair in zip(ours, theirs, strict=True)):
            yield Note(
                f"{model.name} was not tested on the graphs of {first.name}: a difference of their scores may be one "
                "of their test parts.",
                "warning",
            )
            continue
        found = paired_difference(theirs, ours)
        if found is None:
            rows.append((model.name, "–", "–", "there is no score"))
            continue
        is_better = (found.value < 0) == LOWER_IS_BETTER.get(metric, False)
        verdict = ("better" if is_better else "worse") if found.is_clear else "not told apart"
        interval = f"{_signed(metric, found.low)} to {_signed(metric, found.high)}"
        rows.append((model.name, _signed(metric, found.value), interval, verdict))
    if rows:
        caption = (
            f"Test {metric_title(metric)} of the averaged prediction minus that of {first.name}, with the 95 % "
            "interval of a paired bootstrap over test graphs. It leaves out what another training would change."
        )
        yield Table(("run", f"minus {short(first.name)}", "95 % interval", "on these graphs"), rows, caption, "lrrl")


def _predictions(model: Compared) -> list[Predicted]:
    return [read_predictions(RunFolder(folder)) for folder in model.folders]


def _signed(metric: str, value: float) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{format_score(metric, abs(value))}"


def _curves(models: Sequence[Compared], metric: str) -> Iterator[Part]:
    if not has_matplotlib():
        yield Note(NO_MATPLOTLIB)
        return

    def lines(key: str) -> list[plots.Line]:
        return [plots.mean_line(model.name, model.runs, key) for model in models]

    is_low = LOWER_IS_BETTER.get(metric, False)
    figures = [
        plots.curve(lines("loss"), "loss", "Training loss", may_be_log=True, is_wide=True),
        plots.curve(lines("val"), "val", f"Validation {metric_title(metric)}", may_be_log=is_low, is_wide=True),
    ]
    yield Gallery([figure for figure in figures if figure is not None])
    if any(len(model.runs) > 1 for model in models):
        yield Text("Where there are several runs, the mean of those that reached an epoch is drawn.")


def _settings(models: Sequence[Compared]) -> Iterator[Part]:
    settings = [flat_settings(model.experiment) for model in models]
    rows = [row for row in differences(settings) if row[0] not in ("name", "data.fold")]
    if rows:
        yield Table(("setting", *(model.name for model in models)), rows)
    else:
        yield Text("All settings are equal.")
    equal = [(name, value) for name, value in settings[0].items() if name not in {row[0] for row in rows}]
    yield Fold("Settings that are equal", [Facts(equal)])
