"""How good networks of walks are on four sets of molecules, alone and five together, beside random forests.

A row is a data set and a model, with a small JSON file: `{"format", "data", "model", "run", "members"}`. `run` is the
`result.json` of a run or an ensemble; `members` are the scores and the calibration of each of its models. The row of a
forest has the same names, as far as they apply.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from crawl.checks import check_choice
from crawl.data import from_csv
from crawl.data.benchmarks.root import data_root
from crawl.encodings.settings import Encodings
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked, structure
from crawl.runs.ensemble import member_results, run_ensemble
from crawl.runs.experiment import Experiment, Model
from crawl.runs.records import check_record
from crawl.runs.run import Stopped, resume_run, run_experiment
from crawl.runs.sources import Csv
from crawl.training.settings import CosinePerStep, Evaluation, Training
from crawl.walks.plan import WalkPlan
from reproduction.forests import FORESTS, forest_record
from reproduction.reproduce import say

NUM_MEMBERS = 5
NUM_FOREST_SEEDS = 3
_FORMAT = "crawl-molecules-1"


@dataclass(frozen=True)
class Set:
    """A set of molecules with a published split.

    Attributes:
        title: Its name.
        targets: The columns to predict.
        metric: How predictions are scored.
        epochs: How long a network is trained.
        batch_size: Molecules per batch.
        published: What others reach on this split, one model, and several where that is known.
    """

    title: str
    targets: tuple[str, ...]
    metric: str
    epochs: int
    batch_size: int
    published: str


SETS = {
    "esol": Set(
        "ESOL", ("logS",), "rmse", 60, 32, "GIN 1.551, five together 1.395; Uni-Mol, pre-trained, .853 and .818"
    ),
    "bbbp": Set("BBBP", ("p_np",), "roc_auc", 24, 32, "GIN .628; ChemBERTa, pre-trained, .741"),
    "lipo": Set(
        "Lipophilicity",
        ("lipo",),
        "rmse",
        24,
        64,
        "GIN .929, five together .807; pre-trained: GROVER .632, Uni-Mol .608 and .581",
    ),
    "tox21": Set(
        "Tox21", tuple(f"t{i}" for i in range(12)), "roc_auc", 10, 64, "GIN .671, five together .683; the best .805"
    ),
}

_CRAWL, _HYBRID = ("walk", "virtual_node"), ("walk", "edge_update", "gine", "virtual_node")


def _experiment(data: str, layer: tuple[str, ...] = _CRAWL, *, descriptors: bool = False, **changes: Any) -> Experiment:
    """A training on a set; `changes` are of the model and of the training."""
    given = SETS[data]
    has_numbers = given.metric == "rmse"
    model: dict[str, Any] = {"hidden_channels": 48, "num_layers": 3, "pool": "sum", "dropout": 0.1}
    training: dict[str, Any] = {"lr": 1e-3, "optimiser": "adam", "weight_decay": 0.0}
    model |= {name: value for name, value in changes.items() if name in model}
    training |= {name: value for name, value in changes.items() if name in training}
    assert set(changes) <= {*model, *training}
    return Experiment(
        name=data,
        data=Csv(targets=given.targets, split="split", metric=given.metric, descriptors=descriptors),
        walk=WalkPlan(num_steps=16, num_eval_steps=24, start_share=0.5),
        model=Model(layer, **model),
        training=Training(
            batch_size=given.batch_size,
            max_epochs=given.epochs,
            schedule=CosinePerStep(),
            warmup_epochs=1,
            clip_norm=1.0,
            normalise_targets=has_numbers,
            loss="beta_nll" if has_numbers else "auto",
            **training,
        ),
        evaluation=Evaluation(num_val_repeats=1, val_every=2, num_test_repeats=5),
    )


_DECAY: dict[str, Any] = {"optimiser": "adamw", "lr": 2e-3, "weight_decay": 0.3}


def trials(data: str) -> dict[str, Experiment]:
    """What was tried to choose the networks, one seed each, by the validation scores of ESOL and BBBP."""
    decaying = _experiment(data, _HYBRID, pool="mean", **_DECAY)
    return {
        "trial-crawl": _experiment(data),
        "trial-crawl-mean": _experiment(data, pool="mean"),
        "trial-crawl-dropout": _experiment(data, dropout=0.3),
        "trial-crawl-decay": _experiment(data, **_DECAY),
        "trial-crawl-mean-decay": _experiment(data, pool="mean", **_DECAY),
        "trial-hybrid": _experiment(data, _HYBRID),
        "trial-hybrid-mean": _experiment(data, _HYBRID, pool="mean"),
        "trial-hybrid-mean-decay": decaying,
        "trial-hybrid-encoded": replace(decaying, encodings=Encodings(return_steps=16, longest_cycle=6)),
    }


def networks(data: str) -> dict[str, Experiment]:
    """The networks of the table: those that trials chose, with and without descriptors."""
    chosen: dict[str, dict[str, Any]] = {
        "crawl": {"layer": _CRAWL, "pool": "mean", **_DECAY},
        "hybrid": {"layer": _HYBRID, "pool": "mean"},
    }
    return {
        name + ("-descriptors" if descriptors else ""): _experiment(data, descriptors=descriptors, **settings)
        for name, settings in chosen.items()
        for descriptors in (False, True)
    }


TITLES = {
    "crawl": "CRaWl",
    "crawl-descriptors": "CRaWl and descriptors",
    "hybrid": "hybrid",
    "hybrid-descriptors": "hybrid and descriptors",
    **FORESTS,
}


@dataclass(frozen=True)
class Row:
    """What is known of one data set and model; see the module."""

    data: str
    model: str
    run: dict[str, Any]
    members: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.data}-{self.model}"


def run_rows(
    folder: Path,
    *,
    data: Sequence[str] = (),
    models: Sequence[str] = (),
    minutes: float | None = None,
    molecules: Path | None = None,
    device: str = "auto",
    quiet: bool | None = None,
) -> None:
    """Run the rows of these data sets and models, or of all, that a folder does not have; stopped ones are resumed."""
    for name in data:
        check_choice("data", name, SETS)
    known = (*TITLES, *trials("esol"))
    for name in models:
        check_choice("models", name, known)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    place = data_root() / "molecules" if molecules is None else molecules
    for model in dict.fromkeys(models or TITLES):
        for name in dict.fromkeys(data or SETS):
            path, row = place / f"{name}.csv.gz", Row(name, model, {})
            if not path.is_file():
                raise ValueError(f"There is no {path}: give the folder of the tables of molecules with --molecules.")
            if (folder / f"{row.name}.json").is_file():
                continue
            try:
                row = _run(folder, row, path, device, quiet, lambda: time.monotonic() >= deadline)
            except Stopped as stopped:
                say(str(stopped))
                return
            write_atomically(
                folder / f"{row.name}.json", json.dumps({"format": _FORMAT, **asdict(row)}, indent=1) + "\n"
            )
            say(f"{row.name} is done")


def _run(folder: Path, row: Row, path: Path, device: str, quiet: bool | None, stop: Callable[[], bool]) -> Row:
    place, how = folder / "runs" / row.name, {"device": device, "quiet": quiet, "stop": stop}
    if row.model in FORESTS:
        given = SETS[row.data]
        dataset = from_csv(path, target_columns=given.targets, split="split", metric=given.metric)
        return replace(row, run=forest_record(row.model, dataset, NUM_FOREST_SEEDS))
    if row.model in (tried := trials(row.data)):
        begun = (place / "config.json").is_file()
        do: Any = resume_run if begun else partial(run_experiment, tried[row.model])
        return replace(row, run=check_record(do(place, **(how if begun else how | {"path": path})).record))
    experiment = networks(row.data)[row.model]
    result = run_ensemble(experiment, place, num_members=NUM_MEMBERS, path=path, **how)  # type: ignore[arg-type]
    members = [{name: each.record[name] for name in _OF_MEMBERS} for each in member_results(result.folder)]
    return replace(row, run=check_record(result.record), members=members)


_OF_MEMBERS = ("seed", "scores", "calibration", "num_epochs", "best_epoch", "num_parameters", "wall_time_s", "commit")


def read_rows(folder: Path) -> list[Row]:
    """The rows in a folder, in the order of the tables."""
    rows = [read_checked(path, _row, "remove it and run it again") for path in sorted(folder.glob("*.json"))]
    orders = (list(SETS), [*TITLES, *trials("esol")])
    return sorted(rows, key=lambda row: tuple(map(list.index, orders, (row.data, row.model))))


def write_molecules_report(folder: Path, page: Path) -> None:
    """Write the page about the rows in a folder. Refuses a folder without any."""
    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"There are no rows in {folder}: run python -m reproduction molecules --out {folder}.")
    write_atomically(page, molecules_page(rows))


_NOTE = (
    "Four sets of molecules with the published scaffold splits of MUBen, in which test molecules have other scaffolds "
    "than those of training. A row of networks is an ensemble of five: `one model` is the mean and the standard "
    "deviation over the five seeds, each scored by its mean prediction, and `three seeds` over the first three; "
    "`five together` is the score of the mean of all. Networks are as small as CPU trainings of minutes allow. "
    "NLL is that of a normal distribution with the variance that the networks have learned, or of the classes after "
    "their temperature is scaled. The calibration error is the mean distance between confidence and coverage over "
    "confidences of 10, 20, … 90 %, or of probabilities (ECE), scaled. Coverage is that of intervals and sets that are "
    "to hold 90 % on data like the validation part; under a scaffold split nothing is promised. These three are of the "
    "five together, and for several targets the mean over them. A forest has 100 trees, as scikit-learn chooses, and "
    "three seeds; it has no NLL of numbers, since it says no variance."
)


def molecules_page(rows: Sequence[Row]) -> str:
    """The tables of all rows, with what a reader must know."""
    parts = ["# Molecules: networks, ensembles and forests", _NOTE]
    head = ["model", "validation", "one model", "three seeds", "five together", "NLL", "calibration error", "coverage"]
    head += ["parameters", "time of a model"]
    for name, given in SETS.items():
        if found := [row for row in rows if row.data == name and row.model in TITLES]:
            metric = {"rmse": "RMSE, lower is better", "roc_auc": "ROC-AUC"}[given.metric]
            parts += [f"## {given.title}: test {metric}", f"Published on this split: {given.published}."]
            parts.append(_table(head, [_of_row(row) for row in found]))
    if tried := [row for row in rows if row.model not in TITLES]:
        names = list(dict.fromkeys(row.model for row in tried))
        sets = list(dict.fromkeys(row.data for row in tried))
        scores = {(row.data, row.model): f"{row.run['scores']['val']['of_mean_prediction']:.3f}" for row in tried}
        lines = [[each.removeprefix("trial-"), *(scores.get((data, each), "–") for data in sets)] for each in names]
        parts += [
            f"## {len(tried)} trials, by validation",
            "Their test scores are recorded, but chose nothing.",
            _table(["trial", *(f"{SETS[data].title}, {SETS[data].metric}" for data in sets)], lines),
        ]
    commits = ", ".join(sorted({commit for row in rows for commit in str(row.run["commit"]).split(", ")}))
    hours = sum(row.run["wall_time_s"] for row in rows) / 3600
    parts.append(f"Commit {commits}; {hours:.1f} hours in all on {rows[0].run['device']}, one thread a run.")
    return "\n\n".join(parts) + "\n"


def _of_row(row: Row) -> list[str]:
    members = row.members or row.run["members"]
    scores = [member["scores"]["test"]["of_mean_prediction"] for member in members]
    test = row.run["scores"]["test"]["of_mean_prediction"]
    targets = [target["test"] for target in row.run["calibration"]["by_target"].values()]
    names = ("nll_scaled", "ece_scaled") if "ece" in targets[0] else ("nll", "coverage_error")
    nll, error, coverage = (_mean_of(targets, name) for name in (*names, "coverage"))
    return [
        TITLES[row.model],
        f"{row.run['scores']['val']['of_mean_prediction']:.3f}",
        _with_deviation(scores),
        _with_deviation(scores[:3]),
        f"{test:.3f}",
        "–" if nll is None else f"{nll:.3f}",
        "–" if error is None else f"{error:.3f}",
        "–" if coverage is None else f"{100 * coverage:.1f} %",
        f"{members[0]['num_parameters']:,}" if "num_parameters" in members[0] else "–",
        f"{row.run['wall_time_s'] / len(members) / 60:.1f} min",
    ]


def _with_deviation(scores: Sequence[float]) -> str:
    return f"{statistics.mean(scores):.3f} ± {statistics.pstdev(scores):.3f}"


def _mean_of(targets: Sequence[dict[str, Any]], name: str) -> float | None:
    known = [target[name] for target in targets if name in target]
    return statistics.mean(known) if known else None


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(text: str) -> Row:
    content = parse_json(text)
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError("it is not a row of molecules")
    row = structure(Row, content, "it")
    check_choice("data", row.data, SETS)
    check_choice("model", row.model, (*TITLES, *trials("esol")))
    if row.model not in FORESTS:
        check_record(row.run)
    if row.model in TITLES and not (row.members or row.run.get("members")):
        raise ValueError("it has no members")
    return row
