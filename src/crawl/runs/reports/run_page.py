"""The page of a run, `report.html`: its scores, curves, predictions, settings and how it came about."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from crawl import __version__
from crawl.checks import shown
from crawl.files import write_atomically
from crawl.pages.document import Code, Facts, Fold, Gallery, Highlight, Note, Part, Section, Table, Text, page
from crawl.pages.figures import NO_MATPLOTLIB, has_matplotlib, short
from crawl.runs.experiment import Experiment
from crawl.runs.folder import RunFolder
from crawl.runs.formats import format_score, has_best, model_title
from crawl.runs.records import RunRecord, read_config, read_run_or_problem
from crawl.runs.reports import plots
from crawl.runs.reports.about_predictions import calibration_of, figures_of, metric_title, worst_errors
from crawl.runs.reports.calibration import recorded_calibration
from crawl.runs.reports.predicted import NotThere, Predicted, read_predictions, read_task
from crawl.runs.reports.settings import differences, flat_settings, recipe_of
from crawl.runs.sources import Csv
from crawl.training.metrics import LOWER_IS_BETTER

_PARTS = {"train": "training", "val": "validation", "test": "test"}


def write_run_page(folder: Path) -> Path | None:
    """Write `report.html` into the folder of a run; the file, or None if it cannot be made, of which a warning tells.

    A training that is over must not fail because of its page.
    """
    run = RunFolder(folder)
    try:
        write_atomically(run.report, run_page(folder))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        warnings.warn(f"The page {run.report} was not written: {reason}", UserWarning, stacklevel=2)
        return None
    return run.report


def run_page(folder: Path) -> str:
    """The page of a run from what is in its folder, finished or not. Refuses a folder without a run."""
    run = RunFolder(folder)
    found = read_run_or_problem(folder, folder.name)
    if found is None:
        raise ValueError(f"{folder} is not the folder of a run: it has no config.json.")
    experiment = _experiment(run, found)
    record = found.record or {}
    name = folder.resolve().name
    data = str(record.get("data", "") or (experiment.data.name if experiment is not None else ""))
    sections = [
        Section("State", list(_state(folder, found, experiment))),
        Section("Scores", list(_scores(record))),
        Section("Models", guarded(_members(record), "Models")),
        Section("Learning curves", list(_curves(found, record))),
        *_about_predictions(run, record, experiment),
        Section("Walks", list(_walks(record, experiment))),
        Section("Settings", list(_settings(run, record, experiment))),
        Section("Data and machine", list(_origin(record, found))),
    ]
    words = [*_task(run), "" if experiment is None else model_title(experiment.model), f"run {name}"]
    return page(
        data or name,
        sections,
        subtitle=" · ".join(filter(None, words)),
        highlights=list(_highlights(record)),
        footer=f"Made by crawl {__version__} from the files in the folder {name}.",
    )


def _task(run: RunFolder) -> Iterator[str]:
    """What is predicted, if that is known."""
    try:
        task = read_task(run)
    except (OSError, ValueError):  # said where it matters
        return
    if task is not None:
        names = [short(name) for name in task.target_names]
        targets = ", ".join(names[:5]) + (f", … ({len(names)} in all)" if len(names) > 5 else "")
        yield f"{task.kind} per {task.level}" + (f": {targets}" if targets else "")


def guarded(parts: Iterable[Part], what: str) -> list[Part]:
    """The parts as far as they can be made; then a note that says what is missing and why."""
    made: list[Part] = []
    try:
        for part in parts:
            made.append(part)
    except NotThere as reason:
        made.append(Note(str(reason)))
    except Exception as error:  # a picture must not cost the page
        reason_ = " ".join(str(error).split()) or type(error).__name__
        made.append(Note(f"{what} cannot be shown: {reason_}", "warning"))
    return made


def _experiment(run: RunFolder, found: RunRecord) -> Experiment | None:
    """The experiment as its record, or else its configuration, has it; None if both are damaged."""
    if found.record is not None:
        return Experiment.from_plain(found.record["config"])
    try:
        return read_config(run.config)
    except (OSError, ValueError):
        return None


def _highlights(record: dict[str, Any]) -> Iterator[Highlight]:
    if not record:
        return
    metric = record["metric"]
    test, validation = record["scores"]["test"], record["scores"].get("val", {})
    yield Highlight(f"Test {metric_title(metric)}", format_score(metric, test["mean"]), _spread(metric, test))
    if validation.get("mean") is not None:
        value = format_score(metric, validation["mean"])
        yield Highlight(f"Validation {metric_title(metric)}", value, _spread(metric, validation))
    if together := record.get("ensemble"):
        alone = together.get("test", {}).get("mean")
        each = "" if alone is None else f"test {format_score(metric, alone)} on average alone"
        yield Highlight("Models", f"{together['num_members']:,}", each)
    else:
        best = f"{record.get('best_epoch', '?')}" if has_best(record) else "last"
        yield Highlight("Best epoch", best, f"of {record['num_epochs']:,}")
    yield Highlight("Parameters", f"{record['num_parameters']:,}")
    yield Highlight("Time", duration(record["wall_time_s"]), record["device"])


def _spread(metric: str, score: dict[str, Any]) -> str:
    number = len(score.get("evaluations", ()))
    if score["mean"] is None:
        return str(score.get("reason", "no score"))
    if score["internal_deviation"] is None or number < 2:
        return ""
    return f"± {format_score(metric, score['internal_deviation'])} over {number} evaluations"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _state(folder: Path, found: RunRecord, experiment: Experiment | None) -> Iterator[Part]:
    """What to know about a run that is not finished, or damaged."""
    if found.problem:
        yield Note(found.problem, "warning")
    elif not found.is_finished and experiment is not None:
        yield Note(f"This run is not finished: {found.epochs:,} epochs are done. To resume it:", "warning")
        yield Code(experiment.how_to_resume(Path(folder.name)))


def _members(record: dict[str, Any]) -> Iterator[Part]:
    """The scores of the members of an ensemble."""
    metric = record.get("metric", "")
    members = record.get("ensemble", {}).get("members", ())
    rows = [
        (member["folder"], *(format_score(metric, member["scores"].get(part)) for part in _PARTS), str(member["seed"]))
        for member in members
    ]
    if rows:
        parts = [f"{title} {metric_title(metric)}" for title in _PARTS.values()]
        yield Table(("model", *parts, "seed"), rows, "Each model alone.", "lrrrr")


def _scores(record: dict[str, Any]) -> Iterator[Part]:
    if not record:
        return
    metric, sizes = record["metric"], record.get("num_graphs", {})
    rows, reasons = [], []
    for part, score in record["scores"].items():
        number = len(score.get("evaluations", ()))
        of_mean = score.get("of_mean_prediction")
        spread = score["internal_deviation"] if number > 1 else None
        cells = [format_score(metric, value) for value in (score["mean"], spread, of_mean)]
        size = sizes.get(part) if isinstance(sizes, dict) else None
        rows.append((_PARTS.get(part, part), *cells, str(number or "–"), f"{size:,}" if isinstance(size, int) else "–"))
        reasons += [f"No {_PARTS.get(part, part)} score: {score['reason']}."] if "reason" in score else []
    direction = "Lower is better." if LOWER_IS_BETTER.get(metric, False) else "Higher is better."
    caption = f"{direction} Each evaluation draws its own walks; ± is the standard deviation over evaluations."
    columns = ("part", metric_title(metric), "± evaluations", "averaged prediction", "evaluations", "size")
    yield Table(columns, rows, caption, "lrrrrr")
    for reason in reasons:
        yield Note(reason)
    by_target = record["scores"]["test"].get("by_target", {})
    if by_target:
        rows_ = [
            (name, format_score(metric, each["mean"]), format_score(metric, each["internal_deviation"]))
            for name, each in by_target.items()
        ]
        yield Fold(
            "Test score of each target", [Table(("target", metric_title(metric), "± evaluations"), rows_, "", "lrr")]
        )


def _curves(found: RunRecord, record: dict[str, Any]) -> list[Part]:
    def parts() -> Iterator[Part]:
        if record.get("ensemble"):
            yield Note("Each model has a page of its own with its curves, in the folders member-1 and so on.")
            return
        if not found.curve:
            yield Note("There are no epochs to draw.")
            return
        if not has_matplotlib():
            yield Note(NO_MATPLOTLIB)
            return
        epochs = [point["epoch"] or 0 for point in found.curve]
        metric, best = str(record.get("metric", "score")), record.get("best_epoch") if record else None
        best = best if record and has_best(record) else None

        def line(key: str, name: str) -> plots.Line:
            return plots.Line(name, epochs, [point.get(key) for point in found.curve])

        scores = [line("val", "validation"), *([line("test", "test")] if "test" in found.curve[0] else [])]
        is_low = LOWER_IS_BETTER.get(metric, False)
        figures = [
            plots.curve([line("loss", "loss")], "loss", "Training loss", best_epoch=best, may_be_log=True),
            plots.curve(scores, "val", f"Validation {metric_title(metric)}", best_epoch=best, may_be_log=is_low),
            plots.curve([line("lr", "lr")], "lr", "Learning rate", may_be_log=True),
        ]
        if before := record.get("pretraining"):
            values = [point.get("loss") for point in before]
            of_bits = plots.Line("loss", [point.get("epoch", 0) for point in before], values)
            figures.append(plots.curve([of_bits], "pretraining", "Pre-training: loss of hidden bits", may_be_log=True))
        yield Gallery([figure for figure in figures if figure is not None])
        if best is not None:
            yield Text(f"Dashed: epoch {best}, whose validation score is the best and whose weights are kept.")

    return guarded(parts(), "Curves")


def _about_predictions(run: RunFolder, record: dict[str, Any], experiment: Experiment | None) -> Iterator[Section]:
    """The sections that are made from the test predictions."""
    if not record:
        return
    try:
        predicted: Predicted | None = read_predictions(run)
        problem: Part | None = None
    except (OSError, ValueError) as error:
        predicted, problem = None, Note(str(error), "note" if isinstance(error, NotThere) else "warning")
    if predicted is None:
        yield Section("Test predictions", [problem] if problem is not None else [])
    else:
        yield Section("Test predictions", guarded(figures_of(predicted), "Predictions"))
    calibration = guarded(recorded_calibration(record.get("calibration")), "What result.json says about calibration")
    if predicted is not None:
        calibration = [*guarded(calibration_of(predicted), "Reliability"), *calibration]
    yield Section("Calibration", calibration)
    if predicted is not None:
        are_molecules = experiment is not None and isinstance(experiment.data, Csv)
        yield Section("Largest errors", guarded(worst_errors(predicted, are_molecules), "Errors"))


def _walks(record: dict[str, Any], experiment: Experiment | None) -> Iterator[Part]:
    if experiment is None or experiment.walk is None:
        return
    walk = experiment.walk
    yield Facts(
        [
            ("strategy", walk.strategy),
            ("steps in training", f"{walk.num_steps:,}"),
            ("steps in evaluation", f"{walk.num_eval_steps:,}"),
            ("window", f"{walk.window_size}"),
            *([("nodes seen", f"{share:.1%}")] if (share := _share(record, "nodes")) is not None else []),
            *([("edges seen", f"{share:.1%}")] if (share := _share(record, "edges")) is not None else []),
        ]
    )
    if _share(record, "nodes") is not None:
        yield Text("Seen are the mean shares of a validation graph that the walks of one evaluation visit.")


def _share(record: dict[str, Any], what: str) -> float | None:
    value = record.get("coverage", {}).get(what)
    return float(value) if isinstance(value, int | float) else None


def _settings(run: RunFolder, record: dict[str, Any], experiment: Experiment | None) -> list[Part]:
    def parts() -> Iterator[Part]:
        if experiment is None:
            return
        recipe, base = recipe_of(experiment, read_task(run), str(record.get("device", "cpu")))
        own, usual = flat_settings(experiment), flat_settings(base)
        rows = [row for row in differences([own, usual]) if row[0] != "name"]
        than = f"the recipe {recipe}" if recipe else "the library's defaults"
        if rows:
            yield Table(("setting", "this run", than), rows, f"What differs from {than}.", "lll")
        else:
            yield Text(f"All settings are those of {than}.")
        yield Fold("All settings", [Facts(list(own.items()))])

    return guarded(parts(), "Settings")


def _origin(record: dict[str, Any], found: RunRecord) -> Iterator[Part]:
    if not record:
        return
    sizes, versions = record.get("num_graphs", {}), record.get("versions", {})
    memory, init = record.get("peak_memory_mb"), record.get("init", {})
    rows = [
        ("data", str(record["data"])),
        *((f"{_PARTS.get(part, part)} part", f"{size:,}") for part, size in sizes.items() if isinstance(size, int)),
        *([("rows skipped", f"{skipped:,}")] if (skipped := record.get("num_skipped")) else []),
        *([("began with weights of", str(init.get("run", "another run")))] if init else []),
        ("seed", str(record["config"].get("seed", 0))),
        ("device", record["device"]),
        ("time", duration(record["wall_time_s"])),
        *([("an epoch", f"{found.seconds_per_epoch:.2g} s")] if found.seconds_per_epoch is not None else []),
        *([("peak memory", f"{memory:,.0f} MB")] if isinstance(memory, int | float) else []),
        *([("runs at a time", str(record["runs_at_a_time"]))] if record.get("runs_at_a_time", 1) > 1 else []),
        *([("steps", shown(record["steps"]).strip("'"))] if "steps" in record else []),
        ("commit", record["commit"] or "unknown"),
        *versions.items(),
    ]
    yield Facts(rows)
