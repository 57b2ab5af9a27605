"""Are explanations right? On planted motifs, which are known, and on ESOL, where subgraphs are removed.

Two parts, each with a training and a small JSON file, `{"format", "part", "settings", "run", "graphs", "summary"}`:

* `motifs`: trees with a hexagon, a house or nothing attached, which a network is to tell apart. The top subgraph of an
  explanation should be the motif: precision and recall of its nodes, beside random connected subgraphs of its size.
* `esol`: solubilities of molecules. When the top subgraph is removed, the prediction should change more than when a
  random connected subgraph of its size is.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from crawl.checks import check_choice, whole_number
from crawl.data.pyg import from_pyg
from crawl.data.store import GraphStore
from crawl.explanations.explaining import explain_subject
from crawl.explanations.explanation import Explanation
from crawl.explanations.faithfulness import Deletion, compare, delete_subgraphs, random_subgraphs
from crawl.explanations.subject import Subject
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked, structure
from crawl.runs.build import load_dataset
from crawl.runs.environment import environment_record
from crawl.runs.experiment import Experiment, Model
from crawl.runs.recipes import csv
from crawl.runs.run import resume_run, run_experiment
from crawl.runs.sources import Csv, GivenData
from crawl.runs.trained import TrainedModel
from crawl.training.settings import Cosine, Evaluation, Training
from crawl.walks.plan import WalkPlan
from reproduction.reproduce import say

_FORMAT = "crawl-explain-1"
PARTS = ("motifs", "esol")
CLASSES = ("nothing", "hexagon", "house")
MOTIFS = CLASSES[1:]
_NUM_RANDOM = 10


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    Attributes:
        num_repeats: Evaluations of each graph, each with its own walks.
        num_points: Points of each integral.
        num_graphs: The most test graphs of each part; all when None.
        epochs: Epochs of each training; those of the part when None.
    """

    num_repeats: int = 3
    num_points: int = 16
    num_graphs: int | None = None
    epochs: int | None = None


@dataclass(frozen=True)
class Part:
    """What was measured.

    Attributes:
        part: Its name.
        settings: How.
        run: The `result.json` of the training.
        made: When and on what explanations were made.
        graphs: A record for each graph.
        summary: What they say together.
    """

    part: str
    settings: dict[str, Any]
    run: dict[str, Any]
    made: dict[str, Any]
    graphs: list[dict[str, Any]]
    summary: dict[str, Any]


# ---- motifs


def motif_graphs(number: int, seed: int = 0) -> tuple[list[Data], list[tuple[int, ...]]]:
    """Random trees with nothing (class 0), a hexagon (1) or a house (2) attached by one edge, in turn, and the nodes of
    these motifs. Graphs have 16 to 26 nodes, in random order, whatever their class.
    """
    drawn = np.random.default_rng(seed)
    graphs, motifs = [], []
    for i in range(number):
        motif = (nx.empty_graph(0), nx.cycle_graph(6), nx.house_graph())[i % 3]
        size = int(drawn.integers(16, 27))
        tree = nx.random_labeled_tree(size - len(motif), seed=int(drawn.integers(2**31)))
        graph = nx.disjoint_union(motif, tree)
        if len(motif):
            graph.add_edge(int(drawn.integers(len(motif))), len(motif) + int(drawn.integers(len(tree))))
        order = drawn.permutation(size).tolist()
        renamed = nx.Graph()
        renamed.add_nodes_from(range(size))
        renamed.add_edges_from((order[u], order[v]) for u, v in graph.edges)
        data = from_networkx(renamed)
        data.y = i % 3
        graphs.append(data)
        motifs.append(tuple(sorted(order[: len(motif)])))
    return graphs, motifs


def _motif_experiment() -> Experiment:
    return Experiment(
        name="explain-motifs",
        data=GivenData(),
        walk=WalkPlan(num_steps=25, num_eval_steps=50),
        model=Model(layer=("walk",), hidden_channels=32, num_layers=2),
        training=Training(lr=3e-3, batch_size=25, max_epochs=12, schedule=Cosine()),
        evaluation=Evaluation(num_val_repeats=1, num_test_repeats=5),
    )


def measure_motifs(folder: Path, settings: Settings, *, num_graphs: int = 600, quiet: bool | None = None) -> Part:
    """Train on motifs, explain the test graphs whose class is found, and compare top subgraphs with the motifs."""
    graphs, motifs = motif_graphs(num_graphs)
    dataset = from_pyg(graphs, split="stratified", fractions=(0.6, 0.1, 0.3), task="multiclass", name="motifs")
    trained, run = _trained(folder / "motifs", _motif_experiment(), settings, quiet, dataset=dataset)
    began, records, drawn = time.perf_counter(), [], np.random.default_rng(0)
    ids = [i for i in dataset.split.test.tolist() if motifs[i]][: settings.num_graphs]
    subject = Subject(trained)
    for place, i in enumerate(ids):
        found = explain_subject(subject, graphs[i], **_how(settings))
        is_right = found.output.column == int(graphs[i].y)
        record = {"graph": i, "class": CLASSES[int(graphs[i].y)], "is_right": is_right, **_about(found)}
        if is_right and found.subgraphs:
            motif = set(motifs[i])
            top = found.subgraphs[0]
            record |= {"kind": top.kind, "rings": list(top.rings), "score": top.score, "size": len(top.nodes)}
            record |= _overlap("top", [set(top.nodes)], motif)
            others = list(random_subgraphs(found, len(top.nodes), _NUM_RANDOM, drawn))
            record |= _overlap("random", others, motif)
            values = np.argsort(-found.nodes, kind="stable")[: len(motif)]
            record |= _overlap("nodes", [set(values.tolist())], motif)
        records.append(record)
        _tell("motifs", place, ids)
    return Part("motifs", asdict(settings), run, _made(began), records, _motif_summary(records))


def _overlap(name: str, sets: Sequence[Any], motif: set[int]) -> dict[str, float]:
    """The mean precision and recall of sets of nodes."""
    if not sets:
        return {}
    common = [len(set(nodes) & motif) for nodes in sets]
    precision = statistics.fmean(number / len(nodes) for number, nodes in zip(common, sets, strict=True))
    return {f"{name}_precision": precision, f"{name}_recall": statistics.fmean(common) / len(motif)}


def _motif_summary(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"num_graphs": len(records), "num_right": sum(each["is_right"] for each in records)}
    summary["residual_share"] = _residual_share(records)
    for motif in (*MOTIFS, "both"):
        chosen = [each for each in records if "top_precision" in each and motif in ("both", each["class"])]
        names = [f"{name}_{what}" for name in ("top", "random", "nodes") for what in ("precision", "recall")]
        found: dict[str, float | None] = {name: _mean(each[name] for each in chosen if name in each) for name in names}
        found["exact"] = _mean(each["top_precision"] == each["top_recall"] == 1 for each in chosen)
        found["num_graphs"] = len(chosen)
        summary[motif] = found
    return summary


# ---- molecules


def measure_esol(folder: Path, settings: Settings, *, path: Path, quiet: bool | None = None) -> Part:
    """Train on a file of molecules with the columns `smiles`, `logS` and `split`, and remove subgraphs of the test
    molecules.
    """
    recipe = csv()
    assert isinstance(recipe.model, Model)
    experiment = replace(
        recipe,
        data=Csv(targets=("logS",), split="split"),
        model=replace(recipe.model, hidden_channels=64),
        training=replace(recipe.training, max_epochs=40),
    )
    dataset = load_dataset(experiment.data, experiment.seed, path=path)
    trained, run = _trained(folder / "esol", experiment, settings, quiet, path=path)
    began, records, deletions = time.perf_counter(), [], []
    ids = dataset.split.test.tolist()[: settings.num_graphs]
    subject, store, smiles = Subject(trained), dataset.store, dataset.graph_names
    assert isinstance(store, GraphStore)
    assert smiles is not None
    for place, i in enumerate(ids):
        graph = store.graph(i)
        found = explain_subject(subject, graph, **_how(settings))
        record = {"smiles": smiles[i], "num_nodes": graph.num_nodes, **_about(found)}
        deletion = delete_subgraphs(
            subject, graph, found, num_random=_NUM_RANDOM, num_repeats=settings.num_repeats, seed=i
        )
        if deletion is not None:
            deletions.append(deletion)
            top = found.subgraphs[0]
            record |= {"top": list(top.nodes), "kind": top.kind, **asdict(deletion)}
        records.append(record)
        _tell("esol", place, ids)
    return Part("esol", asdict(settings), run, _made(began), records, _esol_summary(records, deletions))


def _esol_summary(records: Sequence[dict[str, Any]], deletions: Sequence[Deletion]) -> dict[str, Any]:
    shares = [each.size / each.num_nodes for each in deletions]
    return {
        **asdict(compare(deletions)),
        "num_molecules": len(records),
        "mean_size": _mean(each.size for each in deletions),
        "mean_share": _mean(shares),
        "residual_share": _residual_share(records),
    }


# ---- what both share


def run_parts(
    folder: Path, parts: Sequence[str], settings: Settings, *, esol: Path | None, quiet: bool | None = None
) -> list[Path]:
    """Train and measure what is not there yet, and write `explain.json` and `explain.md`; the files written.

    Raises:
        ValueError: If there is no such part, or ESOL is asked for without its file.
    """
    for name in parts:
        check_choice("A part", name, PARTS)
    for name in ("num_repeats", "num_points"):
        whole_number(name, getattr(settings, name))
    chosen = parts or PARTS
    if "esol" in chosen and esol is None:
        raise ValueError("ESOL is a CSV file with the columns smiles, logS and split: say where it is by --esol.")
    if "esol" not in chosen and esol is not None:
        raise ValueError("The parts that were chosen do not read ESOL: leave out --esol.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        file = folder / f"{name}.json"
        if not file.is_file():
            how: dict[str, Any] = {"quiet": quiet} | ({"path": esol} if name == "esol" else {})
            part = (measure_esol if name == "esol" else measure_motifs)(folder, settings, **how)
            write_atomically(file, json.dumps({"format": _FORMAT, **vars(part)}, indent=1) + "\n")
    return write_explain_report(folder)


def read_parts(folder: Path) -> list[Part]:
    """The parts that were measured, from their files, or from `explain.json`."""
    together, files = folder / "explain.json", [folder / f"{name}.json" for name in PARTS]
    found = [read_checked(file, _part_of_text, "remove it, and measure again") for file in files if file.is_file()]
    return found if found or not together.is_file() else read_checked(together, _parts_of_text, "make it again")


def write_explain_report(folder: Path) -> list[Path]:
    """Write `explain.json`, with everything that was measured, and `explain.md`; the files written.

    The record does not say where files were on the machine.
    """
    parts = read_parts(folder)
    if not parts:
        raise ValueError(f"Nothing was measured in {folder}: python -m reproduction explain --out {folder}.")
    record, page = folder / "explain.json", folder / "explain.md"
    content = {"format": _FORMAT, "parts": [vars(replace(part, run=_without_where(part.run))) for part in parts]}
    write_atomically(record, json.dumps(content, indent=1) + "\n")
    write_atomically(page, explain_page(parts))
    return [page, record]


def _without_where(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "where"}


def explain_page(parts: Sequence[Part]) -> str:
    """The tables of all parts, with what a reader must know."""
    lines = ["# Explanations", ""]
    for part in parts:
        lines += [*(_esol_lines(part) if part.part == "esol" else _motif_lines(part)), ""]
    return "\n".join(lines)


def _motif_lines(part: Part) -> list[str]:
    found, head = part.summary, ["motif", "graphs", "precision", "recall", "exactly the motif"]
    head += ["random: precision", "random: recall"]
    rows = [head, ["---"] * len(head)]
    for motif in (*MOTIFS, "both"):
        each = found[motif]
        names = ("top_precision", "top_recall", "exact", "random_precision", "random_recall")
        numbers = ["–" if each[name] is None else f"{each[name]:.3f}" for name in names]
        rows.append([motif, str(each["num_graphs"]), *numbers])
    return [
        "## A planted motif is found",
        "",
        "Trees to which a hexagon, a house or nothing is attached by one edge, 16 to 26 nodes in all, without features."
        f" A CRaWl network is to say which. Its answer is right for {found['num_right']} of {found['num_graphs']} test "
        "graphs with a motif. For these, the logit of the class is explained, and the nodes of the top subgraph are "
        "compared with those of the motif; beside it, random connected subgraphs of the same size that walks went "
        "through.",
        "",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        _about_part(part),
    ]


def _esol_lines(part: Part) -> list[str]:
    found = part.summary
    rows = [
        ("mean change by the top subgraph", f"{found['top']:.3f}"),
        ("mean change by random connected subgraphs", f"{found['random']:.3f}"),
        ("mean advantage ± standard error", f"{found['advantage']:.3f} ± {found['advantage_error']:.3f}"),
        ("molecules in which the top subgraph changes more", f"{found['top_wins']:.1%}"),
        ("p-value, Wilcoxon, one-sided", f"{found['p_value']:.1e}"),
        ("signed: mean lead in the direction of the score", f"{found['lead']:.3f} ± {found['lead_error']:.3f}"),
        ("signed: molecules in which the top subgraph leads", f"{found['lead_wins']:.1%}"),
        ("signed: p-value", f"{found['lead_p_value']:.1e}"),
        (
            "Spearman correlation of score and change",
            "–" if found["agreement"] is None else f"{found['agreement']:.3f}",
        ),
    ]
    return [
        "## ESOL: removing the top subgraph",
        "",
        f"Solubility of molecules (log mol/l), the recipe `csv` with 64 channels and {part.run['num_epochs']} epochs, "
        f"test MAE {_test_score(part):.3f}. Of {found['num_molecules']} test molecules, {found['num_graphs']} have a "
        f"subgraph that can be removed; it has {found['mean_size']:.1f} atoms on average, {found['mean_share']:.0%} of "
        "the molecule. A change is the prediction before minus after. Random subgraphs, "
        f"{_NUM_RANDOM} for each molecule, have the same number of atoms and are connected, because a walk went "
        "through them.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
        _about_part(part),
    ]


def _about_part(part: Part) -> str:
    made, settings = part.made, part.settings
    return (
        f"Means over {settings['num_repeats']} evaluations with different walks, {settings['num_points']} points for "
        f"each integral; the residual is {part.summary['residual_share']:.1%} of what is attributed, in the median. "
        f"Trained in {part.run['wall_time_s'] / 60:.1f} minutes, measured in {made['wall_time_s'] / 60:.1f} minutes on "
        f"{made['device']}; commit {made['commit']}."
    )


def _trained(
    place: Path, experiment: Experiment, settings: Settings, quiet: bool | None, **data: Any
) -> tuple[TrainedModel, dict[str, Any]]:
    """The model, trained now or before, and its record. Refuses a folder with a run of other settings."""
    if settings.epochs is not None:
        experiment = replace(experiment, training=replace(experiment.training, max_epochs=settings.epochs))
    config = place / "config.json"
    if config.is_file() and Experiment.from_json(config.read_text()) != experiment:
        raise ValueError(f"{place} was trained with other settings: choose another folder with --out.")
    how: dict[str, Any] = {"device": "cpu", "quiet": quiet, **data}
    result = resume_run(place, **how) if config.is_file() else run_experiment(experiment, place, **how)
    return TrainedModel.load(place, "cpu"), result.record


def _how(settings: Settings) -> dict[str, Any]:
    return {"num_repeats": settings.num_repeats, "num_points": settings.num_points, "top": 3}


def _about(found: Explanation) -> dict[str, Any]:
    names = ("prediction", "prediction_spread", "baseline", "silent", "residual")
    attributed = float(np.abs(found.nodes).sum() + np.abs(found.edges).sum())
    return {**{name: getattr(found, name) for name in names}, "attributed": attributed}


def _residual_share(records: Sequence[dict[str, Any]]) -> float:
    """The median size of the residual, as a share of the sizes of all that is attributed to nodes and edges."""
    return float(statistics.median(abs(each["residual"]) / (each["attributed"] or 1) for each in records))


def _test_score(part: Part) -> float:
    return float(part.run["scores"]["test"]["mean"])


def _made(began: float) -> dict[str, Any]:
    return environment_record(torch.device("cpu"), time.perf_counter() - began)


def _mean(values: Iterable[float]) -> float | None:
    """None of nothing, which JSON can say."""
    listed = list(values)
    return statistics.fmean(listed) if listed else None


def _tell(part: str, place: int, ids: Sequence[int]) -> None:
    if (place + 1) % 10 == 0 or place + 1 == len(ids):
        say(f"{part}: {place + 1} of {len(ids)} graphs explained")


def _part_of_text(text: str) -> Part:
    return _part(parse_json(text))


def _parts_of_text(text: str) -> list[Part]:
    content = parse_json(text)
    if not isinstance(content, dict) or not isinstance(content.get("parts"), list):
        raise ValueError("it is not a record of explanations")
    return [_part({"format": content.get("format"), **part}) for part in content["parts"] if isinstance(part, dict)]


def _part(content: Any) -> Part:
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError("it is not a record of explanations")
    part = structure(Part, content, "it")
    check_choice("part", part.part, PARTS)
    return part
