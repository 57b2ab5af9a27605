"""Links of Cora: walk networks beside a GCN autoencoder and scores of common neighbours.

A row is a network and a seed, with a small JSON file: `{"format", "network", "seed", "scores", "run"}`. `scores` has
for `val` and `test` the value of each of `METRICS`: the mean over evaluations, their standard deviation, and the value
of the mean prediction. `run` is the `result.json` of the training; for scores that nothing is trained for, it has time
and device. Beside them may be `trials.json`, with what was tried before: `{"format", "trials"}`, each trial with its
network, what was changed, the seed, some scores on validation and the best epoch.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import check_choice, whole_number
from crawl.data.benchmarks import load_benchmark
from crawl.data.dataset import Dataset
from crawl.data.links import from_links
from crawl.data.one_graph import OneGraph
from crawl.files import parse_json, write_atomically
from crawl.graph import Graph
from crawl.plain import read_checked, structure
from crawl.runs.environment import environment_record
from crawl.runs.experiment import Experiment, Model
from crawl.runs.run import Stopped, resume_run, run_experiment
from crawl.runs.sources import GivenData
from crawl.runs.trained import TrainedModel
from crawl.training.evaluation import Predictions, targets_of
from crawl.training.settings import Cosine, Evaluation, Training
from crawl.walks.plan import WalkPlan
from reproduction.reproduce import say

METRICS = ("hits@100", "roc_auc", "hits@20", "hits@50", "ap", "mrr")
HEURISTICS = ("common_neighbours", "adamic_adar")
FRACTIONS, SPLIT_SEED = (0.85, 0.05, 0.1), 0
_FORMAT, _TRIALS_FORMAT = "crawl-links-1", "crawl-link-trials-1"
_PARTS = ("val", "test")
_NOTE = (
    "Cora: 85 % of its links for training, 5 % for validation, 10 % for the test, in one split, and for each link of "
    "the latter one pair without a link, drawn uniformly. hits@k is the share of links that score higher than the k-th "
    "best pair without a link; mrr ranks each link among all these pairs. The autoencoder scores a pair by the dot "
    "product of its nodes, the other networks by an MLP. The epoch is chosen by the AUC on validation. A score of a "
    "walk network is the mean over {repeats} evaluations with other walks each; after ± is the standard deviation over "
    "seeds."
)


def _networks() -> dict[str, Experiment]:
    training = Training(lr=0.01, max_epochs=150, schedule=Cosine())
    model = Model(layer=("walk",), hidden_channels=64, num_layers=2, dropout=0.3)
    walks = Experiment(
        name="links-walk",
        data=GivenData(),
        walk=WalkPlan(num_steps=12, num_eval_steps=24, window_size=4),
        model=model,
        training=training,
        evaluation=Evaluation(num_val_repeats=1, num_test_repeats=10),
    )
    message_passing = replace(model, layer=("gcn",))
    gcn = replace(walks.without_walks(message_passing), name="links-gcn")
    return {
        "walk": walks,
        "hybrid": replace(walks, name="links-hybrid", model=replace(model, layer=("gcn", "walk"), padding=True)),
        "gcn": gcn,
        "gcn_autoencoder": replace(  # regularised as suits it best
            gcn,
            name="links-gcn-autoencoder",
            model=replace(message_passing, pair="dot", dropout=0.0),
            training=replace(training, optimiser="adamw", weight_decay=0.1),
        ),
    }


NETWORKS = _networks()
TITLES = {
    "walk": "CRaWl",
    "hybrid": "GCN and walks",
    "gcn": "GCN",
    "gcn_autoencoder": "GCN autoencoder",
    "common_neighbours": "common neighbours",
    "adamic_adar": "Adamic–Adar",
}


def cora_graph(root: str | Path | None = None) -> Data:
    """Cora with its words as features, without classes. Refuses a data root that does not have it."""
    store = load_benchmark("cora", root).store
    return Data(x=store.x, edge_index=store.edge_index, num_nodes=store.num_nodes)


def cora_links(root: str | Path | None = None) -> Dataset:
    """The links of Cora, in the split that all rows have."""
    return from_links(cora_graph(root), fractions=FRACTIONS, seed=SPLIT_SEED, metric="roc_auc", name="Cora, links")


def neighbour_scores(graph: Graph, pairs: Tensor) -> dict[str, Tensor]:
    """`[M]` float64 for each pair u, v of different nodes: how many neighbours both have, and Σ 1 / log(degree) over
    these (Adamic–Adar). Exact; for an undirected graph without parallel edges or self-loops.
    """
    degree, size = graph.degree.long(), graph.num_nodes
    arcs = torch.repeat_interleave(degree) * size + graph.col  # ascending
    ends = torch.where((degree[pairs[:, :1]] <= degree[pairs[:, 1:]]), pairs, pairs.flip(1))  # the short row first
    count = degree[ends[:, 0]]
    pair = torch.repeat_interleave(count)
    first = count.cumsum(0) - count
    neighbour = graph.col[graph.rowptr[ends[pair, 0]] + torch.arange(len(pair)) - first[pair]].long()
    key = ends[pair, 1] * size + neighbour
    is_common = arcs[torch.searchsorted(arcs, key).clamp_max(max(len(arcs) - 1, 0))] == key
    pair, weight = pair[is_common], 1 / degree[neighbour[is_common]].double().log()
    nothing = torch.zeros(len(pairs), dtype=torch.double)
    return {
        "common_neighbours": nothing.index_add(0, pair, torch.ones_like(weight)),
        "adamic_adar": nothing.index_add(0, pair, weight),
    }


@dataclass(frozen=True)
class Row:
    """What was found for a network, or for a score of neighbours, with a seed."""

    network: str
    seed: int
    scores: dict[str, dict[str, dict[str, float]]]
    run: dict[str, Any]

    def write(self, folder: Path) -> None:
        """Write its file."""
        content = {"format": _FORMAT, **vars(self)}
        write_atomically(_file(folder, self.network, self.seed), json.dumps(content, indent=2) + "\n")


def read_rows(folder: Path) -> list[Row]:
    """The rows in a folder, in the order of the table."""
    found = []
    for name in TITLES:
        for path in folder.glob(f"{name}-seed-*.json"):
            found.append(read_checked(path, _row, "remove it, and run the row again"))
    return sorted(found, key=lambda row: (list(TITLES).index(row.network), row.seed))


@dataclass(frozen=True)
class Trial:
    """What came of settings that were tried, on validation alone."""

    network: str
    settings: str
    seed: int
    val: dict[str, float]
    best_epoch: int


@dataclass(frozen=True)
class _Trials:
    trials: tuple[Trial, ...]


def read_trials(folder: Path) -> list[Trial]:
    """The trials that `trials.json` in a folder lists; none if there is no such file."""
    path = folder / "trials.json"
    return read_checked(path, _trials, "remove it") if path.is_file() else []


def run_rows(
    folder: Path,
    *,
    networks: Sequence[str] = (),
    num_seeds: int = 3,
    epochs: int | None = None,
    minutes: float | None = None,
    device: str = "auto",
    root: str | Path | None = None,
    quiet: bool | None = None,
) -> None:
    """Train and score what is not there yet; the same call resumes.

    Args:
        folder: Where files and runs are.
        networks: Some of `TITLES`; all without names.
        num_seeds: The seeds of networks are 0, 1, ….
        epochs: Train for this many epochs; as many as the networks say when None.
        minutes: Stop after this many, at a checkpoint; never when None.
        device: `auto`, `cpu` or `cuda`.
        root: The data root.
        quiet: As in `run_experiment`.

    Raises:
        ValueError: If the data are not there, or the folder has a row with other settings.
    """
    for name in networks:
        check_choice("A network", name, TITLES)
    whole_number("num_seeds", num_seeds)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    dataset = cora_links(root)
    folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(networks or TITLES):
        for seed in range(1 if name in HEURISTICS else num_seeds):
            if time.monotonic() >= deadline:
                return
            if name in HEURISTICS:
                _neighbour_row(name, dataset).write(folder)
                continue
            experiment = replace(NETWORKS[name], seed=seed)
            if epochs is not None:
                experiment = replace(experiment, training=replace(experiment.training, max_epochs=epochs))
            try:
                _train(folder, name, experiment, dataset, device, quiet, deadline)
            except Stopped as stopped:
                say(str(stopped))
                return


def _train(
    folder: Path, name: str, experiment: Experiment, dataset: Dataset, device: str, quiet: bool | None, deadline: float
) -> None:
    place = folder / name / f"seed-{experiment.seed}"
    config = place / "config.json"
    if config.is_file():
        before = Experiment.from_json(config.read_text()).training
        if before != experiment.training:
            raise ValueError(f"{place} was trained with other settings: choose another folder with --out.")
        if _file(folder, name, experiment.seed).is_file():
            return
    how: dict[str, Any] = {"dataset": dataset, "device": device, "quiet": quiet}
    how["stop"] = lambda: time.monotonic() >= deadline
    result = resume_run(place, **how) if config.is_file() else run_experiment(experiment, place, **how)
    model = TrainedModel.load(place, device)
    scores = {}
    for part in _PARTS:
        ids = getattr(dataset.split, part)
        predictions = model.predict(dataset.store.subset(ids), seed=experiment.seed)
        scores[part] = _scores(predictions, targets_of(dataset.store, ids))
    Row(name, experiment.seed, scores, result.record).write(folder)
    found = scores["test"]
    values = ", ".join(f"{metric} {found[metric]['mean']:.4f}" for metric in METRICS[:2])
    say(f"{name}, seed {experiment.seed}: test {values}")


def _neighbour_row(name: str, dataset: Dataset) -> Row:
    began, scores = time.perf_counter(), {}
    for part in _PARTS:
        ids = getattr(dataset.split, part)
        store = dataset.store.subset(ids)
        assert isinstance(store, OneGraph)
        values = neighbour_scores(store.graph, store.owners)[name].numpy()
        scores[part] = _scores(Predictions(values[None, :, None], dataset.task), targets_of(dataset.store, ids))
    return Row(name, 0, scores, environment_record(torch.device("cpu"), time.perf_counter() - began))


def _scores(predictions: Predictions, targets: Any) -> dict[str, dict[str, float]]:
    found = {}
    for metric in METRICS:
        scored = Predictions(predictions.repeats, replace(predictions.task, metric=metric))
        values = scored.scores(targets)
        found[metric] = {
            "mean": statistics.fmean(values),
            "deviation": statistics.pstdev(values),
            "of_mean_prediction": scored.score_of_mean(targets),
        }
    return found


def write_links_report(folder: Path) -> list[Path]:
    """Write `links.md` beside the rows in a folder; the files written.

    Raises:
        ValueError: If there are no rows.
    """
    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"There are no rows of links in {folder}: python -m reproduction links --out {folder}.")
    page = folder / "links.md"
    write_atomically(page, links_page(rows, read_trials(folder)))
    return [page]


def links_page(rows: Sequence[Row], trials: Sequence[Trial] = ()) -> str:
    """The table of all rows, with what a reader must know, and what was tried before."""
    head = ["", *(f"test {metric}" for metric in METRICS), "val roc_auc", "parameters", "seeds", "minutes each"]
    lines, about = [head, ["---"] * len(head)], []
    for name, group in groupby(rows, lambda row: row.network):
        of_one = list(group)
        cells = [_mean(row.scores["test"][metric]["mean"] for row in of_one) for metric in METRICS]
        cells.append(_mean(row.scores["val"]["roc_auc"]["mean"] for row in of_one))
        size = of_one[0].run.get("num_parameters")
        minutes = statistics.fmean(row.run["wall_time_s"] for row in of_one) / 60
        cells += ["–" if size is None else f"{size:,}", "–" if size is None else str(len(of_one)), f"{minutes:.1f}"]
        lines.append([TITLES[name], *cells])
        about += [_about(row) for row in of_one if size is not None]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    repeats = NETWORKS["walk"].evaluation.num_test_repeats
    page = ["# Links of Cora", "", table, "", _NOTE.format(repeats=repeats), "", *about, ""]
    return "\n".join([*page, *_about_trials(trials)])


def _about_trials(trials: Sequence[Trial]) -> list[str]:
    if not trials:
        return []
    metrics = list(trials[0].val)
    lines = [["", "settings", *(f"val {metric}" for metric in metrics), "epoch"]]
    lines.append(["---"] * len(lines[0]))
    for trial in trials:
        scores = [f"{trial.val[metric]:.4f}" for metric in metrics]
        lines.append([TITLES[trial.network], trial.settings, *scores, str(trial.best_epoch)])
    table = [f"| {' | '.join(line)} |" for line in lines]
    about = (
        f"Settings were tried with one seed, {len(trials)} trials in all, and compared by the AUC on validation alone."
    )
    return ["## Trials", "", about, "", *table, ""]


def _mean(values: Iterable[float]) -> str:
    values = list(values)
    return f"{statistics.fmean(values):.4f}" + (f" ± {statistics.pstdev(values):.4f}" if len(values) > 1 else "")


def _about(row: Row) -> str:
    run = row.run
    blocks, epochs = " ".join(run["config"]["model"]["layer"]), f"epoch {run['best_epoch']} of {run['num_epochs']}"
    made = f"{run['wall_time_s'] / 60:.1f} minutes on {run['device']}; commit {run['commit']}"
    return f"- {row.network}, seed {row.seed}: {blocks}; {epochs}; {made}"


def _file(folder: Path, network: str, seed: int) -> Path:
    return folder / f"{network}-seed-{seed}.json"


def _trials(text: str) -> list[Trial]:
    content = parse_json(text)
    if not isinstance(content, dict) or content.pop("format", None) != _TRIALS_FORMAT:
        raise ValueError("it is not a list of trials")
    trials = structure(_Trials, content, "it").trials
    for trial in trials:
        check_choice("network", trial.network, NETWORKS)
        if list(trial.val) != list(trials[0].val):
            raise ValueError("its trials have different scores")
    return list(trials)


def _row(text: str) -> Row:
    content = parse_json(text)
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError("it is not a row of links")
    row = structure(Row, content, "it")
    check_choice("network", row.network, TITLES)
    return row
