"""The page of a search, `report.html`: the best settings, all trials, and which settings mattered."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crawl import __version__
from crawl.files import write_atomically
from crawl.pages.colours import MUTED, SERIES
from crawl.pages.document import Code, Facts, Figure, Gallery, Highlight, Note, Part, Section, Table, Text, page
from crawl.pages.figures import NO_MATPLOTLIB, has_matplotlib, plot, short
from crawl.runs.formats import format_score
from crawl.runs.reports.about_predictions import metric_title
from crawl.runs.reports.run_page import duration, guarded
from crawl.runs.tuning.search import used_values
from crawl.runs.tuning.study import Tuned
from crawl.training.metrics import LOWER_IS_BETTER

if TYPE_CHECKING:
    import optuna

_MOST_ROWS = 10
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


def write_tuning_page(tuned: Tuned) -> Path:
    """Write the page of a search into its folder; the file."""
    path = tuned.folder / "report.html"
    write_atomically(path, tuning_page(tuned))
    return path


def tuning_page(tuned: Tuned) -> str:
    """The page of a search that is over."""
    best, record, metric = tuned.best, tuned.result.record, tuned.best["metric"]
    trials = tuned.study.get_trials(deepcopy=False)
    pruned = sum(trial.state.name == "PRUNED" for trial in trials)
    first = trials[0].value
    test = record["scores"]["test"]["mean"]
    highlights = [
        Highlight(f"Best validation {metric_title(metric)}", format_score(metric, best["validation"]), _of(best)),
        Highlight("Validation before", format_score(metric, first), "trial 1, the settings to begin with"),
        Highlight(f"Test {metric_title(metric)}", format_score(metric, test), "scored once, with the best settings"),
        Highlight("Trials", f"{len(trials):,}", f"{pruned} pruned"),
    ]
    how_chosen = (
        "Validation chose among these trials, so that its best score is better than what to expect of new data. The "
        "test score is not affected by that."
    )
    sections = [
        Section("Best settings", [Code(_in_lines(best["command"])), _values(best), Text(how_chosen)]),
        Section("Trials", guarded(_trials(trials, metric), "Trials")),
        Section("Which settings mattered", guarded(_importance(tuned.study), "Importance")),
        Section("Each setting", guarded(_slices(trials, metric), "Settings")),
    ]
    return page(
        f"Settings for {short(record['data'])}",
        sections,
        subtitle=f"{len(trials)} trials · {metric_title(metric)} · search {tuned.folder.resolve().name}",
        highlights=highlights,
        footer=f"Made by crawl {__version__}. The run with the best settings has a page of its own: best/report.html.",
    )


def _of(best: dict[str, Any]) -> str:
    return f"trial {best['trial']}"


def _in_lines(command: str) -> str:
    """A command with a line for each flag, as a shell takes it."""
    lines: list[str] = []
    for word in shlex.split(command):
        if word.startswith("--") or not lines:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n    ".join(lines)


def _values(best: dict[str, Any]) -> Facts:
    return Facts([(name, _shown(value)) for name, value in best["values"].items()])


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _trials(trials: list[Any], metric: str) -> Iterator[Part]:
    is_low = LOWER_IS_BETTER.get(metric, False)
    known = [(trial.number + 1, value, trial) for trial in trials if (value := _value(trial)) is not None]
    if has_matplotlib():
        complete = [(number, value) for number, value, trial in known if trial.state.name == "COMPLETE"]
        others = [(number, value) for number, value, trial in known if trial.state.name != "COMPLETE"]
        running = np.minimum.accumulate if is_low else np.maximum.accumulate

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            if others:
                axes.scatter(*zip(*others, strict=True), s=12, color=MUTED, alpha=0.5, linewidths=0, label="pruned")
            numbers, values = zip(*complete, strict=True)
            axes.scatter(numbers, values, s=20, color=SERIES[0], linewidths=0, label="complete")
            axes.step(numbers, running(values), where="post", color=SERIES[1], linewidth=1.3, label="best so far")
            low, high = np.quantile(values, [0, 1])
            margin = 0.15 * (high - low) or 0.1 * abs(high) or 1.0
            axes.set(xlabel="trial", ylabel=f"validation {metric_title(metric)}", ylim=(low - margin, high + margin))
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.legend(fontsize="small")

        caption = "Pruned trials are drawn at the best score that they had when they were stopped."
        yield Figure(plot(draw, "history", "Score of each trial", width=9.2, height=3.2), caption)
    else:
        yield Note(NO_MATPLOTLIB)
    order = sorted(
        (each for each in known if each[2].state.name == "COMPLETE"), key=lambda each: each[1] if is_low else -each[1]
    )
    names = list(used_values(trials[0]))
    rows = [
        (
            *(str(number), format_score(metric, value)),
            *(f"{trial.user_attrs.get('num_parameters', 0):,}", _time(trial)),
            *(_shown(used_values(trial).get(name, "–")) for name in names),
        )
        for number, value, trial in order[:_MOST_ROWS]
    ]
    columns = (
        "trial",
        "validation",
        "parameters",
        "time",
        *(name.partition(".")[2].replace("_", " ") for name in names),
    )
    caption = f"The best {len(rows)} of {len(order)} complete trials. Each has a folder with its settings and curve."
    yield Table(columns, rows, caption, "r" * len(columns), strong=0)
    counts = {word: sum(trial.state.name == state for trial in trials) for state, word in _STATES.items()}
    yield Text("Trials: " + ", ".join(f"{number} {word}" for word, number in counts.items() if number) + ".")


def _value(trial: Any) -> float | None:
    """The score of a trial; of a pruned one, the last it had."""
    if trial.value is not None:
        return float(trial.value)
    return float(trial.intermediate_values[max(trial.intermediate_values)]) if trial.intermediate_values else None


def _time(trial: Any) -> str:
    return "–" if trial.duration is None else duration(trial.duration.total_seconds())


def _importance(study: optuna.Study) -> Iterator[Part]:
    import optuna

    complete = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if len(complete) < 4:
        yield Note("There are too few complete trials to tell.")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of experimental parts of Optuna
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        found = optuna.importance.get_param_importances(_as_trained(study, complete), evaluator=evaluator)
    names = sorted(found, key=lambda name: found[name])
    if has_matplotlib():

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            axes.barh(names, [found[name] for name in names], color=SERIES[2], height=0.62)
            axes.set(xlabel="share of the variance of the score")
            axes.grid(axis="y", visible=False)

        yield Figure(plot(draw, "importance", "Importance of settings", width=7, height=0.34 * len(names) + 0.8))
    else:
        yield Table(("setting", "share"), [(name, f"{found[name]:.1%}") for name in reversed(names)], "", "lr")
    few = " With few trials it is rough." if len(complete) < 30 else ""
    yield Text(f"By fANOVA, from {len(complete)} complete trials.{few}")


def _as_trained(study: optuna.Study, complete: list[optuna.trial.FrozenTrial]) -> optuna.Study:
    """A study in memory of these trials, with the settings that they were trained with."""
    import optuna

    found = optuna.create_study(direction=study.direction)
    for trial in complete:
        known: dict[str, Any] = {"value": trial.value, "distributions": trial.distributions}
        found.add_trial(optuna.trial.create_trial(params=used_values(trial), **known))
    return found


def _slices(trials: list[Any], metric: str) -> Iterator[Part]:
    """The score of complete trials over each setting."""
    if not has_matplotlib():
        return
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    if len(complete) < 2:
        return
    scores = [trial.value for trial in complete]
    figures = []
    for i, name in enumerate(used_values(complete[0])):
        values = [used_values(trial)[name] for trial in complete]

        def draw(figure: Any, name: str = name, values: list[Any] = values) -> None:
            axes = figure.subplots()
            axes.scatter(values, scores, s=16, color=SERIES[0], alpha=0.7, linewidths=0)
            if name == "training.lr":
                from matplotlib.ticker import FuncFormatter, NullFormatter

                axes.set_xscale("log")
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axes.xaxis.set_minor_formatter(NullFormatter())
            if isinstance(values[0], str):
                axes.tick_params(axis="x", labelrotation=18, labelsize="x-small")
            axes.set(ylabel=f"validation {metric_title(metric)}")

        figures.append(Figure(plot(draw, f"slice-{i}", f"Score over {name}", width=3.4, height=2.5), title=name))
    yield Gallery(figures)
