"""`crawl train`: a recipe, with any of its settings changed, becomes a run."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union, get_args

import tyro

from crawl.checks import whole_number
from crawl.choices import BY_FILE
from crawl.cli import signals
from crawl.cli.flags import NO_RAY, AnyPath, Device, FilePath, FolderPath, Int, RayFlags, Switch, compute_with
from crawl.cli.output import check_folder
from crawl.cli.remarks import report, report_skipped, say_data
from crawl.cli.settings import given, refuse_unused, settings_type, with_chosen_kinds
from crawl.files import write_atomically
from crawl.runs.experiment import Experiment, suited
from crawl.runs.recipes import RECIPES
from crawl.runs.sources import (
    TU,
    WAYS_TO_SPLIT,
    Data,
    Folder,
    Links,
    Nodes,
    OwnFiles,
    OwnGraphs,
    Packed,
    WithFolds,
    existing_path,
)
from crawl.runs.where import Where
from crawl.training.launched import tasks_apart
from crawl.walks.plan import WalkPlan

if TYPE_CHECKING:
    from crawl.data import Dataset
    from crawl.runs import Result
    from crawl.runs.cluster.connection import Cluster

_GONE = {
    "--data.name": "a recipe is for its own data, so choose another recipe for others",
    "--model.name": "use --model.layer, with --model.layer gin for gin",
    "--model.virtual-node": "use --model.layer walk virtual_node",
    "--model.no-virtual-node": "use --model.layer walk",
    "--training.device": "use --device",
}
RecipeT = TypeVar("RecipeT")
Baseline = Literal["none", "gcn", "gin", "gine", "gat", "sage", "gated_gcn", "pna"]
OnRay = Annotated[RayFlags, tyro.conf.arg(name="")]
_BASELINES = ".baselines"  # a hidden file, since a new run wants a folder without content


@dataclass(frozen=True)
class Train(Generic[RecipeT]):
    """Train a model by a recipe and score it.

    Every setting of a recipe is a flag: see `crawl train RECIPE --help`. A run that was stopped is resumed
    with `crawl train --resume RUN`, which needs no recipe, to the result it would have had.

    Attributes:
        recipe: What to train.
        out: The folder of the run, which must be new; the first free runs/NAME-NUMBER when not given.
        init: Begin with the weights of this finished run, saved model, or model in the package, as far as they fit.
        protocol: One run, or one for each fold of the data set, or for each of several seeds.
        folds: The number of folds of data of one's own; 5 when not given.
        seeds: The number of seeds, from --seed on; 3 when not given.
        ensemble: Train this many models on the same split, which predict together, and keep apart how far they differ.
        baseline: Train a message-passing network on the same data, to compare with.
        device: Where to compute; auto takes a GPU if there is one.
        threads: How many threads compute; as many as the machine has cores when not given.
        quiet: Show no progress.
        on_ray: Where to share several runs out.
    """

    recipe: Annotated[RecipeT, tyro.conf.arg(name="")]
    out: FolderPath = None
    init: Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="")] = None
    protocol: Literal["single", "folds", "seeds"] = "single"
    folds: Int = None
    seeds: Int = None
    ensemble: Int = None
    baseline: Baseline = "none"
    device: Device = "auto"
    threads: Int = None
    quiet: Switch = False
    on_ray: OnRay = NO_RAY

    def run(self) -> None:
        """Train, and print what came of it."""
        _warn_of_tasks_apart()
        if self.out is not None:
            check_folder(self.out)
        settings: Any = self.recipe
        experiment: Experiment = settings.experiment()  # before torch is there, so at once
        where = Where().moved(self.device, **settings.where)
        if isinstance(experiment.data, OwnFiles):
            existing_path(experiment.data, where.path)
        experiment, seeds = self._with_protocol(experiment)
        _refuse_own_baseline(experiment, self.baseline)
        if self.on_ray.ray is not None and self.protocol == "single" and self.ensemble is None:
            raise ValueError("--ray shares out several runs: give --protocol seeds, --protocol folds or --ensemble.")
        compute_with(self.threads)
        with self.on_ray.connected(self.device, self.threads) as cluster:
            self._train(experiment, seeds, where, cluster)

    def _train(self, experiment: Experiment, seeds: list[int], where: Where, cluster: Cluster | None) -> None:
        from crawl.runs.folder import RunFolder
        from crawl.runs.protocol import SEEDS, note_seeds
        from crawl.runs.run import read_dataset
        from crawl.runs.together import scratch
        from crawl.training.ranks import Ranks
        from crawl.training.trainer import choose_device

        ranks = Ranks.of_this_process()
        if ranks.size > 1 and (self.protocol != "single" or self.baseline != "none" or self.ensemble is not None):
            others = "--protocol, --baseline and --ensemble"
            raise ValueError(f"{ranks.size} processes share one training: leave out {others}.")
        kind = cluster.device if cluster else choose_device(where.device).type  # refused before there is a folder
        experiment = replace(experiment, data=with_absolute_split(experiment.data, where.path))
        dataset = read_dataset(experiment, where, self.quiet or not ranks.is_first)
        settings: Any = self.recipe
        recipe = RECIPES[settings.base.name]()
        experiment = suited(experiment, dataset, kind, recipe)
        if ranks.is_first:
            report_skipped(dataset)
        if self.ensemble is not None:
            say_data(dataset, experiment.data, where.path, experiment.walk)
            folder = RunFolder.create(self.out, f"{experiment.name}-ensemble").path
            _train_ensemble(folder, self.quiet, where, cluster, experiment, self.ensemble, dataset)
            return
        name = experiment.name if self.protocol == "single" else f"{experiment.name}-{self.protocol}"
        folder = RunFolder.create(self.out, name).path if ranks.is_first else scratch()
        if ranks.is_first:
            say_data(dataset, experiment.data, where.path, experiment.walk)
        with _removed_if_empty(folder), _resumable(Path(ranks.from_first(str(folder)))):
            for note in (_BASELINES, SEEDS):
                (folder / note).unlink(missing_ok=True)  # of a process that was killed before there was a run
            if seeds:
                note_seeds(folder, seeds)
            runs = _Runs(folder, where, self.protocol == "folds", seeds, self.quiet, cluster, dataset, self.init)
            results = runs.train(experiment, self.baseline)
        if ranks.is_first:
            report(results, folder)

    def _with_protocol(self, experiment: Experiment) -> tuple[Experiment, list[int]]:
        """The experiment with the folds that flags ask for, and the seeds. Refuses flags that do not go together."""
        if self.ensemble is not None:
            whole_number("--ensemble", self.ensemble, 2, 1000)
            others = {"protocol": "single", "baseline": "none", "init": None}
            if chosen := [name for name, usual in others.items() if getattr(self, name) != usual]:
                raise ValueError(f"--ensemble trains models of its own: leave out --{chosen[0]}.")
        for name in ("folds", "seeds"):
            if getattr(self, name) is not None and self.protocol != name:
                raise ValueError(f"--{name} {getattr(self, name)} needs --protocol {name}.")
        if self.protocol != "single" and self.init is not None:
            raise ValueError(f"--protocol {self.protocol} begins anew in every run: leave out --init.")
        if self.protocol == "seeds":
            number = 3 if self.seeds is None else whole_number("--seeds", self.seeds, 2, 1000)
            return experiment, list(range(experiment.seed, experiment.seed + number))
        if self.protocol == "folds":
            data = experiment.data
            if isinstance(data, WithFolds) and data.fold:
                raise ValueError("--protocol folds trains on every fold: leave out --data.fold.")
            if isinstance(data, OwnGraphs):
                number = 5 if self.folds is None else whole_number("--folds", self.folds, 3)
                return replace(experiment, data=replace(data, num_folds=number)), []
            if self.folds is not None:
                raise ValueError(f"The folds of {data.name} are given: leave out --folds.")
        return experiment, []


@dataclass(frozen=True)
class _TrainWithoutFolds(Train[RecipeT]):
    __doc__ = Train.__doc__
    protocol: Literal["single", "seeds"] = "single"
    folds: tyro.conf.Suppress[None] = None


def _warn_of_tasks_apart() -> None:
    """Say, in the first of them, that tasks of `srun` train a model each, which may not be what was meant."""
    if (number := tasks_apart()) > 1 and os.environ["SLURM_PROCID"] == "0":
        warnings.warn(
            f"srun has started {number} tasks, and without MASTER_ADDR and MASTER_PORT each of them trains a model of "
            "its own: set both to train one model together.",
            UserWarning,
            stacklevel=2,
        )


def _refuse_own_baseline(experiment: Experiment, baseline: Baseline) -> None:
    if baseline == experiment.model.title:
        raise ValueError(f"The model is a {baseline} itself: leave out --baseline, or choose another one.")
    if baseline != "none" and getattr(experiment.data, "batches", None) == "closed":
        raise ValueError(f"Closed batches are walks, and {baseline} does not walk: leave out --baseline.")


def with_absolute_split(data: Data, path: str | None) -> Data:
    """The same data with an absolute path of the split, if that is a file; a column of this name comes first."""
    from crawl.data.table import Table

    if not isinstance(data, OwnFiles) or isinstance(data, Packed):
        return data
    tables = {Folder: "labels.csv", Nodes: "nodes.csv", Links: "edges.csv"}
    table = Path(path or "", tables.get(type(data), ""))
    is_column = not isinstance(data, TU) and table.is_file() and data.split in Table(table).columns
    if data.split in (*WAYS_TO_SPLIT, BY_FILE) or is_column or not Path(data.split).is_file():
        return data
    return replace(data, split=str(Path(data.split).resolve()))


@dataclass(frozen=True)
class Moved:
    """Where the data are now, if they have moved since; other data are refused.

    Attributes:
        path: The file or folder.
        val_path: The file for validation.
        test_path: The file for the test.
        root: Where the benchmarks are.
    """

    path: AnyPath = None
    val_path: FilePath = None
    test_path: FilePath = None
    root: FolderPath = None


@dataclass(frozen=True)
class Resume:
    """Resume a run that was stopped, to the result it would have had. Settings are those of the run.

    Attributes:
        settings: Not allowed here.
        resume: The folder of the run.
        data: Where the data are now, if they have moved since.
        baseline: Train a message-passing network on the same data, to compare with.
        device: Where to compute; as before when not given.
        threads: How many threads compute; as many as the machine has cores when not given.
        quiet: Show no progress.
        on_ray: Where to share several runs out.
    """

    settings: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(help_behavior_hint="")]
    resume: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    data: Moved = Moved()
    baseline: Baseline = "none"
    device: Annotated[Device | None, tyro.conf.arg(metavar="{auto,cpu,cuda}", help_behavior_hint="")] = None
    threads: Int = None
    quiet: Switch = False
    on_ray: OnRay = NO_RAY

    def run(self) -> None:
        """Train the rest, and print what came of it."""
        _refuse_settings(self.settings)
        compute_with(self.threads)
        with self.on_ray.connected(self.device or "auto", self.threads) as cluster:
            self._resume(cluster)

    def _resume(self, cluster: Cluster | None) -> None:
        from crawl.runs.folder import RunFolder

        if RunFolder(self.resume).ensemble.is_file():
            if self.baseline != "none":
                raise ValueError("An ensemble has no baseline: leave out --baseline.")
            where = Where.read(RunFolder(self.resume)).moved(self.device, **vars(self.data))
            _train_ensemble(self.resume, self.quiet, where, cluster)
            return
        from crawl.runs.protocol import noted_seeds, runs_in
        from crawl.runs.records import read_config
        from crawl.runs.run import resume_run
        from crawl.training.ranks import Ranks

        ranks = Ranks.of_this_process()
        if not ranks.is_first:  # which is told what to do, and need not have the folder
            with _resumable(self.resume):
                resume_run(self.resume, device=self.device, **vars(self.data))
            return
        names = runs_in(self.resume)
        seeds = noted_seeds(self.resume) if names else []
        if cluster is not None and not names:
            raise ValueError(f"--ray shares out several runs, and {self.resume} has one: leave it out.")
        begun = [name for name in names if RunFolder(self.resume / name).config.is_file()] or names
        run = RunFolder.open(self.resume / begun[0] if names else self.resume)
        experiment, where = read_config(run.config), Where.read(run).moved(self.device, **vars(self.data))
        _refuse_own_baseline(experiment, self.baseline)
        if ranks.size > 1 and (names or self.baseline != "none" or (self.resume / _BASELINES).is_file()):
            raise ValueError(
                f"{ranks.size} processes share one training, and {self.resume} has several: use one process."
            )
        with _resumable(self.resume):
            runs = _Runs(self.resume, where, bool(names and not seeds), seeds, self.quiet, cluster)
            report(runs.train(experiment, self.baseline), self.resume)


def _train_ensemble(
    folder: Path,
    quiet: bool,
    where: Where,
    cluster: Cluster | None,
    experiment: Experiment | None = None,
    num_members: int = 0,
    dataset: Dataset | None = None,
) -> None:
    """Train an ensemble, or the rest of one, and print what came of it."""
    from crawl.runs.ensemble import member_results, resume_ensemble, run_ensemble
    from crawl.runs.formats import format_score

    how: dict[str, Any] = {"quiet": quiet or None, "dataset": dataset, "cluster": cluster, **vars(where)}
    with _removed_if_empty(folder), _resumable(folder):
        if experiment is None:
            result = resume_ensemble(folder, **how)
        else:
            result = run_ensemble(experiment, folder, num_members=num_members, **how)
    members = member_results(folder)
    score = format_score(result.record["metric"], result.record["scores"]["test"]["of_mean_prediction"])
    together = f"The mean of the predictions of all {len(members)} models: {score}"
    report(members, folder, together, together=result)


def train_type(arguments: Sequence[str]) -> Any:
    """The type of the command `train`: with a subcommand for every recipe, or for resuming without any.

    Refuses other settings for a run that is resumed, and flags of older versions.
    """
    flags = [word.split("=")[0] for word in arguments if word.startswith("--")]
    if "--resume" in flags:
        own = [f"--{field.name.replace('_', '-')}" for field in (*fields(Resume)[1:], *fields(RayFlags))]
        own += [f"--data.{field.name.replace('_', '-')}" for field in fields(Moved)]
        _refuse_settings([flag for flag in flags if flag.replace("_", "-") not in (*own, "--help")])
        return Resume
    any_recipe, chosen = recipe_type(arguments)
    if not chosen or isinstance(RECIPES[chosen]().data, WithFolds | OwnGraphs):
        return Train[any_recipe]  # type: ignore[valid-type]
    if given(arguments, "--protocol") == ["folds"] or "--folds" in flags:
        raise ValueError(f"{chosen} has no folds: leave out --protocol folds.")
    return _TrainWithoutFolds[any_recipe]  # type: ignore[valid-type]


def recipe_type(arguments: Sequence[str]) -> tuple[Any, str]:
    """The type of all recipes, each a subcommand whose fields are its flags, and the name of the one that is chosen, or
    "". Refuses flags of older versions, and those that change nothing in the recipe."""
    flags = [word.split("=")[0] for word in arguments if word.startswith("--")]
    for flag in flags:
        if remedy := _GONE.get(flag.replace("_", "-")):
            raise ValueError(f"There is no {flag}: {remedy}.")
    names = list(RECIPES)
    if chosen := [name for name in arguments[1:2] if name in RECIPES]:  # tyro is slow to look through all of them
        names = [*chosen, "csl" if chosen != ["csl"] else "csl_lap"]  # with a single one there would be no word for it
    recipes = []
    for name in names:
        about = inspect.getdoc(RECIPES[name]) or ""
        words = arguments if chosen == [name] else ()
        (strategy,) = given(words, "--walk.strategy")[:1] or [WalkPlan.strategy]
        type_: Any = settings_type(with_chosen_kinds(RECIPES[name](), words), about, strategy)
        if words:
            refuse_unused(type_, flags)
        recipes.append(Annotated[type_, tyro.conf.subcommand(name, default=type_(), description=about)])
    any_recipe: Any = Union[tuple(recipes)]  # noqa: UP007
    return any_recipe, chosen[0] if chosen else ""


def _refuse_settings(given: Sequence[str]) -> None:
    if given:
        raise ValueError(f"A run is resumed with the settings in its config.json: leave out {' '.join(given)}.")


@dataclass(frozen=True)
class _Runs:
    """The runs of a command in one folder: begun, resumed or only read. `dataset` spares reading the data again."""

    folder: Path
    where: Where
    has_folds: bool
    seeds: Sequence[int]  # if there are several
    quiet: bool
    cluster: Cluster | None = None
    dataset: Dataset | None = None
    init: Path | None = None

    def train(self, experiment: Experiment, baseline: Baseline = "none") -> list[Result]:
        """The runs of an experiment, and in folders within those of the baselines that were ever asked for here."""
        from crawl.runs.protocol import as_baseline

        names = _noted_baselines(self.folder, baseline)
        results = self._run(experiment, self.folder)
        for name in get_args(Baseline)[1:]:
            if name in names or (self.folder / name).is_dir():
                results += self._run(as_baseline(experiment, name), self.folder / name)
        return results

    def _run(self, experiment: Experiment, place: Path) -> list[Result]:
        from crawl.runs import resume_run, run_experiment
        from crawl.runs.protocol import run_folds, run_seeds

        how: dict[str, Any] = {**vars(self.where), "quiet": self.quiet or None}
        if self.has_folds:
            return run_folds(experiment, place, cluster=self.cluster, **how)
        if self.seeds:
            return run_seeds(experiment, place, self.seeds, cluster=self.cluster, **how)
        if (place / "config.json").is_file():
            return [resume_run(place, dataset=self.dataset, **how)]
        init = self.init if place == self.folder else None  # not for baselines
        return [run_experiment(experiment, place, dataset=self.dataset, init=init, **how)]


def _noted_baselines(folder: Path, baseline: Baseline) -> set[str]:
    """The baselines that were asked for in a folder, with this one, which is noted there for a run that is resumed."""
    note = folder / _BASELINES
    noted = set(note.read_text().split()) if note.is_file() else set()
    names = {*noted, baseline} - {"none"}
    if names != noted:
        write_atomically(note, "\n".join(sorted(names)) + "\n")
    return names


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Say after Ctrl-C, a signal or the loss of a rank how to resume, if there is something to resume."""
    from crawl.training.ranks import RankLost

    try:
        yield
    except (KeyboardInterrupt, RankLost) as reason:
        signals.ignore()  # torchrun stops processes that have just lost one, and then nobody would say how to resume
        if (folder / "config.json").is_file() or any(folder.glob("*/config.json")):
            remedy = f"resume with: crawl train --resume {folder}"
            if isinstance(reason, RankLost):
                raise RankLost(f"{reason}; {remedy}", reason.is_told_here) from None
            raise KeyboardInterrupt(remedy) from None
        raise


@contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    from crawl.runs.protocol import SEEDS

    try:
        yield
    finally:
        notes = {folder / _BASELINES, folder / SEEDS}
        if notes.issuperset(folder.iterdir()):
            for note in notes:
                note.unlink(missing_ok=True)
        with suppress(OSError):  # a folder with files in it cannot be removed like this
            folder.rmdir()
