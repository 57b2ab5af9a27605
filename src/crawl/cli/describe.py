"""`crawl info` and `crawl datasets`: what there is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from crawl.cli.flags import FolderPath
from crawl.cli.output import print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from crawl.runs import Experiment, TrainedModel
    from crawl.runs.features import Features
    from crawl.runs.folder import RunFolder

_MADE = "other such graphs, made in code, and one substructure"
_OWN = (
    ("counting", _MADE, "regression", "in the package", "crawl train counting"),
    ("csv", "molecules: a CSV with SMILES", "any", "your file", "crawl train csv --data.path FILE --data.targets NAME"),
    ("packed", "a store that crawl data pack wrote", "any", "your folder", "crawl train packed --data.path STORE"),
    ("tu", "a folder in the TU format", "any", "your folder", "crawl train tu --data.path FOLDER"),
    ("folder", "GraphML or JSON files with labels.csv", "any", "your folder", "crawl train folder --data.path FOLDER"),
    (
        "nodes",
        "one graph: nodes.csv and edges.csv",
        "any, of nodes",
        "your folder",
        "crawl train nodes --data.path FOLDER",
    ),
    (
        "links",
        "one graph: edges.csv, and perhaps nodes.csv",
        "links of nodes",
        "your folder",
        "crawl train links --data.path FOLDER",
    ),
)


@dataclass(frozen=True)
class ListDatasets:
    """List the data sets that come with CRaWl and the formats it reads.

    Attributes:
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
    """

    data_root: FolderPath = None

    def run(self) -> None:
        """Print the table."""
        from crawl.data.benchmarks import data_root

        print_table(_table(("recipe", "graphs", "targets", "where", "command"), datasets(self.data_root)))
        print(f"The data root is {data_root(self.data_root)}")


@dataclass(frozen=True)
class ImportDataset:
    """Fill the data root from local files.

    Attributes:
        name: The benchmark.
        path: A folder with the files that PyG or OGB would download, or one of them.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
    """

    name: Annotated[str, tyro.conf.Positional]
    path: Annotated[Path, tyro.conf.Positional]
    data_root: FolderPath = None

    def run(self) -> None:
        """Read, check, write."""
        from crawl.data.benchmarks import import_benchmark, load_benchmark

        path = import_benchmark(self.name, self.path, self.data_root)
        dataset = load_benchmark(self.name, self.data_root)
        print(f"{dataset.name}: {len(dataset):,} {dataset.owner}s in {path}")


AnyAction = (
    Annotated[ListDatasets, tyro.conf.subcommand("list")] | Annotated[ImportDataset, tyro.conf.subcommand("import")]
)


@dataclass(frozen=True)
class Datasets:
    """List the data sets that come with CRaWl and the formats it reads, or import one.

    Attributes:
        action: What to do.
    """

    action: Annotated[AnyAction, tyro.conf.arg(name="")] = field(default_factory=ListDatasets)

    def run(self) -> None:
        """Do it."""
        self.action.run()


def datasets(root: Path | None = None) -> list[tuple[str, ...]]:
    """A row for each recipe: its name, its graphs, its targets, where they are, and the command."""
    from crawl.data.benchmarks import BENCHMARKS, is_ready

    rows = []
    for name, benchmark in BENCHMARKS.items():
        task = benchmark.task
        kinds = {"binary": "2 classes", "multiclass": f"{task.num_outputs} classes", "regression": "regression"}
        targets = kinds.get(task.kind, f"{task.num_outputs} labels")
        if task.kind == "regression" and task.num_outputs > 1:
            targets = f"{task.num_outputs} numbers"
        place = "in the package" if benchmark.make else "in the data root"
        where = place if is_ready(name, root) else "to be downloaded" if benchmark.form else "to be imported"
        commands = [f"crawl train {each}" for each in (name, *_other_recipes(name))]
        rows.append((name, benchmark.about, targets, where, "\n".join(commands)))
    return [*rows, *_OWN]


def _other_recipes(name: str) -> list[str]:
    """The recipes for a benchmark that have names of their own."""
    from crawl.data.benchmarks import BENCHMARKS
    from crawl.runs.recipes import RECIPES

    return [recipe for recipe, make in RECIPES.items() if recipe not in BENCHMARKS and make().data.name == name]


@dataclass(frozen=True)
class Info:
    """Say what a run or a checkpoint is: task, expected features, size, scores, versions; how far an unfinished run is.

    Attributes:
        run_or_checkpoint: The folder of a run, of an ensemble, of runs on all folds or with several seeds, or of a
            saved model, a .safetensors file, or the name of a model in the package.
    """

    run_or_checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]

    def run(self) -> None:
        """Load it and print."""
        from crawl.runs import TrainedModel
        from crawl.runs.folder import RunFolder
        from crawl.runs.packaged import local_model
        from crawl.runs.protocol import runs_in
        from crawl.runs.saved import is_saved_model

        path = local_model(self.run_or_checkpoint)
        run = RunFolder(path)
        is_done = run.best.is_file() or run.result.is_file() or is_saved_model(path)
        is_ensemble = run.ensemble.is_file() and run.result.is_file()
        if names := [] if is_ensemble else runs_in(path):
            found = facts_of_runs(path, names)
        elif path.is_dir() and run.config.is_file() and not is_done:
            found = unfinished_facts(path)
        else:
            found = facts(TrainedModel.load(path, "cpu"))
        print_table(_table((), [(name, str(value)) for name, value in found]))


def facts(trained: TrainedModel) -> Iterable[tuple[str, Any]]:
    """Name and value of what there is to say about a model."""
    from crawl.runs.formats import has_best

    experiment, features, record = trained.experiment, trained.features, trained.record
    task = features.task
    together = record.get("ensemble")
    seed = record.get("seed", experiment.seed) if together else experiment.seed  # the experiment is that of a member
    yield "name", f"{experiment.name} (seed {seed})"
    yield "model", f"{experiment.model.title}, {sum(p.numel() for p in trained.model.parameters()):,} parameters"
    if trained.members:
        yield "ensemble", f"{len(trained.members)} models, each with this many parameters"
    yield "task", f"{task.kind} per {task.level}, scored by {task.metric}"
    if task.target_names:
        yield "targets", ", ".join(task.target_names)
    if task.class_names:
        yield "classes", ", ".join(task.class_names)
    yield from _expected(features)
    if encodings := str(experiment.encodings):
        yield "encodings", encodings
    if init := record.get("init"):
        yield "began with", f"weights of {init['run']}: {len(init['taken'])} modules; {len(init['fresh'])} were fresh"
    if losses := [epoch["loss"] for epoch in record.get("pretraining", ())]:
        yield "pre-training", f"{len(losses)} epochs, loss of hidden bits {losses[0]:.4f} to {losses[-1]:.4f}"
    yield "data", f"{record.get('data', experiment.data.name)} {trained.where.path or ''}".strip()
    for part, score in record.get("scores", {}).items():
        if score["mean"] is None:
            yield part, f"no score: {score.get('reason', 'it has no graphs, or they are of one class')}"
            continue
        number = len(score["evaluations"])
        spread = f" ± {score['internal_deviation']:.4f} over {number} evaluations" if number > 1 else ""
        of_mean = score.get("of_mean_prediction") if together else None
        averaged = "" if of_mean is None else f"; {of_mean:.4f} for the mean of all predictions"
        yield part, f"{task.metric} {score['mean']:.4f}{spread}{averaged}"
        if together and (alone := together.get(part, {})).get("mean") is not None:
            between = f"{alone['mean']:.4f} ± {alone['deviation']:.4f} between models"
            yield f"{part}, each model alone", f"{task.metric} {between}"
        if by_target := score.get("by_target"):
            of_each = (f"{name} {_or_dash(one['mean'])}" for name, one in by_target.items())
            yield f"{part}, by target", ", ".join(of_each)
    if coverage := record.get("coverage"):
        shares = f"{coverage['nodes']:.1%} of nodes and {coverage['edges']:.1%} of edges"
        yield "walks", f"{experiment.walk.strategy if experiment.walk else 'given'}, see {shares} of a validation graph"
    if "best_epoch" in record:
        used = f"best {record['best_epoch']}" if has_best(record) else "without a validation score, the last"
        yield "epochs", f"{used} of {record['num_epochs']}, {record['wall_time_s']:.0f} s"
    elif together:
        yield "epochs", f"{record['num_epochs']} of all models, {record['wall_time_s']:.0f} s"
    if "best_epoch" in record or together:
        yield "device", record["device"]
        if not together:
            yield "steps", record.get("steps", "unknown")
        yield "commit", record["commit"] or "unknown"
        yield "versions", ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())


def unfinished_facts(path: Path) -> Iterable[tuple[str, Any]]:
    """Name and value of what there is to say about a run that is not finished."""
    from crawl.runs.folder import RunFolder
    from crawl.runs.protocol import runs_in
    from crawl.runs.records import read_config, read_history
    from crawl.training.checkpoint import load_checkpoint

    run = RunFolder(path)
    experiment, history = read_config(run.config), read_history(run)
    yield from _named(run, experiment)
    values = load_checkpoint(run.last)[1] if run.last.is_file() else {}
    saved = len(values.get("history", ()))
    done = f"{len(history)} epochs of at most {experiment.training.max_epochs}"
    if experiment.pretraining is not None and not history:
        epochs = len(read_history(run, run.pretraining))
        done = f"{epochs} epochs of {experiment.pretraining.epochs} of its pre-training"
    yield "state", f"unfinished: {done}"
    if history:
        yield "last epoch", f"at {_time_of(run.metrics)}, loss {_or_dash(history[-1]['loss'])}"
        yield from _best(history)
    title = "epoch" if experiment.pretraining is None or "pretraining" in values else "pre-training epoch"
    yield "checkpoint", f"after {title} {saved}, at {_time_of(run.last)}" if saved else "none yet: it begins anew"
    whole = path.parent if path.name in runs_in(path.parent) else path
    yield "resume with", experiment.how_to_resume(whole)


def facts_of_runs(path: Path, names: Sequence[str]) -> Iterable[tuple[str, Any]]:
    """Name and value of what there is to say about the runs on all folds, or with several seeds, finished or not, or
    about an ensemble that is not finished."""
    from crawl.runs.ensemble import read_ensemble
    from crawl.runs.folder import RunFolder
    from crawl.runs.records import read_config, read_run

    whole = RunFolder(path)
    is_ensemble = whole.ensemble.is_file()
    first = whole if is_ensemble else RunFolder.open(path / names[0])
    experiment = read_ensemble(path).experiment if is_ensemble else read_config(first.config)
    yield from _named(first, experiment)
    scores = []
    for name in names:
        run, title = read_run(path / name, ""), name.replace("-", " ")
        if run is None:
            yield title, "not begun"
        elif run.record is None:
            yield title, f"unfinished: {run.epochs} epochs of at most {experiment.training.max_epochs}"
        else:
            metric = run.record["metric"]
            scores.append(run.record["scores"]["test"]["mean"])
            yield title, f"test {metric} {_or_dash(scores[-1])}"
    if len(scores) < len(names):
        yield "state", f"unfinished: {len(scores)} of {len(names)} {names[0].partition('-')[0]}s are done"
        yield "resume with", f"crawl train --resume {path}"
    elif is_ensemble:
        yield "state", "unfinished: all models are trained, and not yet evaluated together"
        yield "resume with", f"crawl train --resume {path}"
    elif None not in scores:
        yield "test", f"{metric} {fmean(scores):.4f} ± {pstdev(scores):.4f} over {len(names)} models"


def _named(run: RunFolder, experiment: Experiment) -> Iterable[tuple[str, str]]:
    from crawl.runs.where import Where

    yield "name", f"{experiment.name} (seed {experiment.seed})"
    yield "model", experiment.model.title
    yield "data", f"{experiment.data.name} {Where.read(run).path or ''}".strip()


def _best(history: Sequence[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    """The best validation score, if there is any."""
    from crawl.training.metrics import LOWER_IS_BETTER

    key = next((key for key in history[0] if key.startswith("val_")), "")
    scored = [record for record in history if record.get(key) is not None]
    if scored:
        metric = key.removeprefix("val_")
        best = (min if LOWER_IS_BETTER.get(metric, False) else max)(scored, key=lambda record: record[key])
        yield "best validation", f"{metric} {best[key]:.4f} in epoch {best['epoch']}"


def _time_of(path: Path) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))


def _or_dash(score: float | None) -> str:
    return "–" if score is None else f"{score:.4f}"


def _expected(features: Features) -> Iterable[tuple[str, str]]:
    for kind, categories, width in (
        ("node", features.node_categories, features.num_node_features),
        ("edge", features.edge_categories, features.num_edge_features),
    ):
        described = f"categories of sizes {', '.join(map(str, categories))}" if categories else f"{width} numbers"
        yield f"{kind} features", described if categories or width else "none"
    if features.num_graph_features:
        columns = () if features.columns is None else features.columns.graphs
        names = [column.name for column in columns]
        names += [f"{number} descriptors"] if features.columns and (number := len(features.columns.descriptors)) else []
        yield "graph features", ", ".join(names) or f"{features.num_graph_features} numbers"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    from rich import box
    from rich.table import Table

    columns = list(header)
    table = Table(*columns, box=box.SIMPLE_HEAD if columns else None, show_header=bool(columns))
    for row in rows:
        table.add_row(*row)
    return table
