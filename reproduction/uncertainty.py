"""How often intervals and sets of small networks hold the truth: molecules under random and scaffold splits.

A row is a data set, a split, a kind of model and a seed, with a small JSON file: `{"format", "data", "split", "model",
"seed", "run"}`, where `run` is the `result.json` of the run, or of the ensemble.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from crawl.checks import check_choice, whole_number
from crawl.data.benchmarks.root import data_root
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked, structure
from crawl.runs.ensemble import run_ensemble
from crawl.runs.experiment import Experiment, Model
from crawl.runs.records import check_record
from crawl.runs.run import Stopped, resume_run, run_experiment
from crawl.runs.sources import Csv
from crawl.training.settings import Cosine, Evaluation, Training
from crawl.walks.plan import WalkPlan
from reproduction.reproduce import say

TARGETS = {"esol": "logS", "lipo": "lipo", "bbbp": "p_np"}
TITLES = {"esol": "ESOL", "lipo": "Lipophilicity", "bbbp": "BBBP"}
SPLITS = ("random", "scaffold")
MODELS = {"plain": "one model", "noise": "one model with noise", "ensemble": "three models together"}
NUM_MEMBERS = 3
_FORMAT = "crawl-uncertainty-1"
_NOTE = (
    "Networks are small and trained briefly: what is shown is how far intervals and sets can be trusted, not how good "
    "scores can be. The random split has 60 / 20 / 20 % of the molecules, drawn by the seed; the scaffold split, "
    "80 / 10 / 10 %, is the published one of MUBen, in which the test part has other scaffolds than the training part. "
    "Everything is fitted on the validation part: temperatures, and conformal intervals and sets at a confidence of "
    "90 %. Under the random split, validation and test molecules are drawn alike, and 90 % should be held, up to "
    "chance: with {smallest} test molecules, the fewest there, and as many for validation, the standard "
    "deviation of a coverage is {deviation:.1f} points. Under the scaffold split nothing is promised. `far` is the "
    "share of test molecules that are farther from the training molecules than 99 % of the validation molecules are. "
    "The error of coverage is the mean distance between confidence and coverage over confidences of 10, 20, … 90 %. "
    "NLL is that of a normal distribution, for models that learn noise, or of the classes."
)


@dataclass(frozen=True)
class Row:
    """What is known of one data set, split, model and seed; see the module."""

    data: str
    split: str
    model: str
    seed: int
    run: dict[str, Any]

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.data}-{self.split}-{self.model}-{self.seed}"


def experiment_of(data: str, split: str, model: str, seed: int, epochs: int) -> Experiment:
    """What a row trains; an ensemble trains several of these."""
    random: dict[str, Any] = {"split": "random", "fractions": (0.6, 0.2, 0.2)}
    has_noise = data != "bbbp" and model != "plain"
    return Experiment(
        name=f"{data}-{split}-{model}",
        data=Csv(targets=(TARGETS[data],), **(random if split == "random" else {"split": "split"})),
        walk=WalkPlan(num_steps=12, num_eval_steps=20, window_size=4),
        model=Model(hidden_channels=16, num_layers=2),
        training=Training(
            lr=4e-3,
            max_epochs=epochs,
            schedule=Cosine(),
            normalise_targets=data != "bbbp",
            loss="beta_nll" if has_noise else "auto",
        ),
        evaluation=Evaluation(num_val_repeats=1, num_test_repeats=3),
        seed=seed,
    )


def run_rows(
    folder: Path,
    *,
    data: Sequence[str] = (),
    models: Sequence[str] = (),
    num_seeds: int = 1,
    epochs: int = 15,
    minutes: float | None = None,
    molecules: Path | None = None,
    device: str = "auto",
    quiet: bool | None = None,
) -> None:
    """Run the rows of these data sets, or of all, that a folder does not have; those that were stopped are resumed."""
    for name in data:
        check_choice("data", name, TARGETS)
    for name in models:
        check_choice("models", name, MODELS)
    whole_number("num_seeds", num_seeds, 1, 1000)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    place = data_root() / "molecules" if molecules is None else molecules
    for name in dict.fromkeys(data or TARGETS):
        path = place / f"{name}.csv.gz"
        if not path.is_file():
            raise ValueError(f"There is no {path}: give the folder of the tables of molecules with --molecules.")
        for split in SPLITS:
            for model in dict.fromkeys(models or MODELS):
                if model == "noise" and name == "bbbp":  # classes have none
                    continue
                for seed in range(num_seeds if split == "random" else 1):
                    row = Row(name, split, model, seed, {})
                    if (folder / f"{row.name}.json").is_file():
                        continue
                    try:
                        record = _run(folder, row, epochs, path, device, quiet, lambda: time.monotonic() >= deadline)
                    except Stopped as stopped:
                        say(str(stopped))
                        return
                    _write(folder, replace(row, run=record))
                    say(f"{row.name} is done")


def _run(
    folder: Path, row: Row, epochs: int, path: Path, device: str, quiet: bool | None, stop: Callable[[], bool]
) -> dict[str, Any]:
    experiment = experiment_of(row.data, row.split, row.model, row.seed, epochs)
    place, how = folder / "runs" / row.name, {"device": device, "quiet": quiet, "stop": stop}
    if row.model == "ensemble":
        return run_ensemble(experiment, place, num_members=NUM_MEMBERS, path=path, **how).record  # type: ignore[arg-type]
    if (place / "config.json").is_file():
        return resume_run(place, **how).record  # type: ignore[arg-type]
    return run_experiment(experiment, place, path=path, **how).record  # type: ignore[arg-type]


def _write(folder: Path, row: Row) -> None:
    values = {"format": _FORMAT, **asdict(row), "run": check_record(row.run)}
    write_atomically(folder / f"{row.name}.json", json.dumps(values, indent=1) + "\n")


def read_rows(folder: Path) -> list[Row]:
    """The rows in a folder, in the order of the table."""
    rows = [read_checked(path, _row, "remove it and run it again") for path in sorted(folder.glob("*.json"))]
    orders = (list(TARGETS), list(SPLITS), list(MODELS))
    return sorted(rows, key=lambda row: (*map(list.index, orders, (row.data, row.split, row.model)), row.seed))


def write_uncertainty_report(folder: Path, page: Path) -> None:
    """Write the page about the rows in a folder. Refuses a folder without any."""
    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"There are no rows in {folder}: run python -m reproduction uncertainty --out {folder}.")
    write_atomically(page, uncertainty_page(rows))


def uncertainty_page(rows: Sequence[Row]) -> str:
    """The tables of all rows, with what a reader must know."""
    numbers = [row for row in rows if "spreads" in row.run["calibration"]]
    classes = [row for row in rows if row not in numbers]
    drawn = [row for row in rows if row.split == "random"] or list(rows)
    smallest = min(_test(row)["count"] for row in drawn)
    deviation = 100 * math.sqrt(0.09 * 2 / smallest)  # of the calibration, and of the test
    parts = ["# How often intervals and sets hold the truth", _NOTE.format(smallest=smallest, deviation=deviation)]
    parts.append(_goal([row for row in rows if row.split == "random"]))
    if numbers:
        head = ["data", "split", "seed", "model", "test molecules", "MAE", "coverage at 90 %", "mean width"]
        parts += [
            "## Intervals of numbers",
            _table([*head, "error of coverage", "NLL", "far"], map(_of_numbers, numbers)),
        ]
    if classes:
        head = ["data", "split", "seed", "model", "test molecules", "ROC-AUC", "coverage at 90 %", "mean size of sets"]
        head += ["temperature", "NLL", "scaled", "Brier", "scaled", "ECE", "scaled", "far"]
        parts += [
            "## Sets of classes, and probabilities before and after they are scaled",
            _table(head, map(_of_classes, classes)),
        ]
    commits = ", ".join(sorted({str(row.run["commit"]) for row in rows}))
    seconds = sum(row.run["wall_time_s"] for row in rows)
    parts.append(f"Commit {commits}; {seconds / 60:.0f} minutes in all on {rows[0].run['device']}.")
    return "\n\n".join(parts) + "\n"


def _goal(rows: Sequence[Row]) -> str:
    """Which rows of a random split hold between 85 and 95 % of the truth, and which do not."""
    missed = [row for row in rows if not 0.85 <= _test(row)["coverage"] <= 0.95]
    named = [f"{TITLES[row.data]}, {MODELS[row.model]}, {100 * _test(row)['coverage']:.1f} %" for row in missed]
    found = f"met by {len(rows) - len(missed)} of {len(rows)} rows"
    return f"Goal under the random split, in each row: 85 to 95 %. It is {found}" + (
        f"; missed by {'; '.join(named)}." if missed else "."
    )


def _target(row: Row) -> dict[str, Any]:
    (found,) = row.run["calibration"]["by_target"].values()
    return dict(found)


def _test(row: Row) -> dict[str, Any]:
    return dict(_target(row)["test"])


def _begin(row: Row) -> list[str]:
    test = _test(row)
    score = row.run["scores"]["test"]["of_mean_prediction"]
    names = [TITLES[row.data], row.split, str(row.seed), MODELS[row.model], str(test["count"]), f"{score:.3f}"]
    return [*names, f"{100 * test['coverage']:.1f} %"]


def _far(row: Row) -> str:
    test = row.run.get("domain", {}).get("test")
    return "–" if test is None else f"{100 * test['num_far'] / test['count']:.0f} %"


def _of_numbers(row: Row) -> list[str]:
    test = _test(row)
    nll = f"{test['nll']:.3f}" if "nll" in test else "–"
    error = f"{100 * test['coverage_error']:.1f} points"
    return [*_begin(row), f"{test['mean_width']:.2f}", error, nll, _far(row)]


def _of_classes(row: Row) -> list[str]:
    test = _test(row)
    scores = [f"{test[name + end]:.3f}" for name in ("nll", "brier", "ece") for end in ("", "_scaled")]
    return [*_begin(row), f"{test['mean_size']:.2f}", f"{_target(row)['temperature']:.2f}", *scores, _far(row)]


def _table(head: Sequence[str], rows: Any) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(text: str) -> Row:
    content = parse_json(text)
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError("it is not a row of uncertainty")
    row = structure(Row, content, "it")
    check_choice("data", row.data, TARGETS)
    check_choice("split", row.split, SPLITS)
    check_choice("model", row.model, MODELS)
    check_record(row.run)
    if "by_target" not in row.run.get("calibration", {}):
        raise ValueError("its run has no calibration")
    return row
