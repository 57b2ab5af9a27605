"""`crawl train`: a recipe, with any of its settings changed, becomes a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union, get_args

import tyro

from crawl.cli.flags import compute_with
from crawl.cli.output import check_folder, print_table, say
from crawl.files import write_atomically

if TYPE_CHECKING:
    from crawl.data import Dataset, Task
    from crawl.runs import Experiment, Result
    from crawl.runs.experiment import Data

RecipeT = TypeVar("RecipeT")
Baseline = Literal["none", "gcn", "gin", "gine", "gat", "sage", "gated_gcn", "pna"]
_BASELINES = ".baselines"  # a hidden file, since a new run wants a folder without content


@dataclass(frozen=True)
class Train(Generic[RecipeT]):
    """Train a model by a recipe and score it.

    Every setting of a recipe is a flag: see `crawl train RECIPE --help`. A run that was stopped is resumed
    with `crawl train --resume RUN`, which needs no recipe, to the result it would have had.

    Attributes:
        recipe: What to train.
        out: The folder of the run, which must be new; the first free runs/NAME-NUMBER when not given.
        protocol: One run, or one for each fold of the data set.
        baseline: Train a message-passing network on the same data, to compare with.
        device: Where to compute; short for --training.device.
        threads: How many threads compute; as many as the machine has cores when not given.
        quiet: Show no progress.
    """

    recipe: Annotated[RecipeT, tyro.conf.arg(name="")]
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    protocol: Literal["single", "folds"] = "single"
    baseline: Baseline = "none"
    device: Annotated[Literal["auto", "cpu", "cuda"] | None, tyro.conf.arg(metavar="{auto,cpu,cuda}")] = None
    threads: int | None = None
    quiet: bool = False

    def run(self) -> None:
        """Train, and print what came of it."""
        from crawl.runs.effect import OWN_FILES, existing_path, settle

        if self.out is not None:
            check_folder(self.out)
        experiment = settle(self._experiment(), is_from_recipe=True)  # before torch is there, so at once
        if experiment.data.name in OWN_FILES:
            existing_path(experiment.data)
        if self.protocol == "folds" and experiment.data.fold:
            raise ValueError("--protocol folds trains on every fold: leave out --data.fold.")
        _refuse_own_baseline(experiment, self.baseline)
        compute_with(self.threads)
        from crawl.runs.build import load_dataset
        from crawl.runs.folder import RunFolder
        from crawl.runs.progress import reading
        from crawl.training.trainer import choose_device

        experiment = replace(experiment, data=_with_absolute_split(experiment.data))
        device = choose_device(experiment.training.device)  # what is wrong is found before there is a folder
        with reading(experiment.data, self.quiet):
            dataset = load_dataset(experiment.data, experiment.seed)
        experiment = settle(experiment, dataset.task, device=device.type, is_from_recipe=True)
        _report_skipped(dataset)
        has_folds = self.protocol == "folds"
        folder = RunFolder.create(self.out, f"{experiment.name}-folds" if has_folds else experiment.name).path
        say(described_task(dataset.task))
        with _removed_if_empty(folder), _resumable(folder):
            (folder / _BASELINES).unlink(missing_ok=True)  # of a process that was killed before there was a run
            results = train(experiment, folder, dataset, has_folds=has_folds, baseline=self.baseline, quiet=self.quiet)
            report(results, folder)

    def _experiment(self) -> Experiment:
        """The recipe with its shorthands resolved; paths absolute, so that a run can be resumed from anywhere."""
        experiment: Any = self.recipe
        if self.device is not None:
            experiment = replace(experiment, training=replace(experiment.training, device=self.device))
        if experiment.data.path is not None:
            try:
                path = str(Path(experiment.data.path).resolve())
            except RuntimeError:  # what pathlib raises here
                raise ValueError(f"{experiment.data.path} is a link that leads to itself.") from None
            experiment = replace(experiment, data=replace(experiment.data, path=path))
        return experiment  # type: ignore[no-any-return]


def _refuse_own_baseline(experiment: Experiment, baseline: Baseline) -> None:
    if baseline == experiment.model.name:
        raise ValueError(f"The model is a {baseline} itself: leave out --baseline, or choose another one.")


def _with_absolute_split(data: Data) -> Data:
    """The same data with an absolute path of the split, if that is a file; a column of this name comes first."""
    from crawl.data.table import Table
    from crawl.runs.effect import WAYS_TO_SPLIT

    table = Path(data.path or "", "labels.csv" if data.name == "folder" else "")
    is_column = data.name in ("csv", "folder") and table.is_file() and data.split in Table(table).columns
    if data.split in WAYS_TO_SPLIT or is_column or not Path(data.split).is_file():
        return data
    return replace(data, split=str(Path(data.split).resolve()))


@dataclass(frozen=True)
class Resume:
    """Resume a run that was stopped, to the result it would have had. Settings are those of the run.

    Attributes:
        settings: Not allowed here.
        resume: The folder of the run.
        baseline: Train a message-passing network on the same data, to compare with.
        threads: How many threads compute; as many as the machine has cores when not given.
        quiet: Show no progress.
    """

    settings: tyro.conf.Positional[tuple[str, ...]]
    resume: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    baseline: Baseline = "none"
    threads: int | None = None
    quiet: bool = False

    def run(self) -> None:
        """Train the rest, and print what came of it."""
        _refuse_settings(self.settings)
        compute_with(self.threads)
        from crawl.runs.folder import RunFolder
        from crawl.runs.records import read_config

        first_fold = self.resume / "fold-1"
        has_folds = first_fold.is_dir()
        config = RunFolder.open(first_fold if has_folds else self.resume).config
        experiment = read_config(config)
        _refuse_own_baseline(experiment, self.baseline)
        with _resumable(self.resume):
            results = train(experiment, self.resume, has_folds=has_folds, baseline=self.baseline, quiet=self.quiet)
            report(results, self.resume)


def train_type(arguments: Sequence[str]) -> Any:
    """The type of the command `train`: with a subcommand for every recipe, or for resuming without any.

    Raises:
        ValueError: If a run is to be resumed with other settings, or a recipe is to be used for other data: what it
            says was not chosen for them.
    """
    flags = [word.split("=")[0] for word in arguments if word.startswith("--")]
    if "--resume" in flags:
        own = [f"--{field.name}" for field in fields(Resume)[1:]]
        _refuse_settings([flag for flag in flags if flag not in (*own, "--help")])
        return Resume
    if "--data.name" in flags:
        raise ValueError("A recipe is for its own data: leave out --data.name, and choose another recipe for others.")
    from crawl.runs.experiment import Experiment
    from crawl.runs.recipes import RECIPES

    names = list(RECIPES)
    if chosen := [name for name in arguments[1:2] if name in RECIPES]:  # tyro is slow to look through all of them
        names = [*chosen, "csl" if chosen != ["csl"] else "csl_lap"]  # with a single one there would be no word for it
    recipes = [
        Annotated[Experiment, tyro.conf.subcommand(name, default=RECIPES[name](), description=RECIPES[name].__doc__)]
        for name in names
    ]
    return Train[Union[tuple(recipes)]]  # type: ignore[misc]  # noqa: UP007


def _refuse_settings(given: Sequence[str]) -> None:
    if given:
        raise ValueError(f"A run is resumed with the settings in its config.json: leave out {' '.join(given)}.")


def train(
    experiment: Experiment,
    folder: Path,
    dataset: Dataset | None = None,
    *,
    has_folds: bool,
    baseline: Baseline = "none",
    quiet: bool = False,
) -> list[Result]:
    """The runs of an experiment in a folder, and those of its baseline in one within: begun, resumed or only read.

    Baselines that were asked for in this folder before count, too. `dataset` spares reading the data again where there
    are no folds.
    """
    from crawl.runs import resume_run, run_experiment
    from crawl.runs.protocol import as_baseline, run_folds

    def runs(variant: Experiment, place: Path) -> list[Result]:
        if has_folds:
            return run_folds(variant, place, quiet=quiet or None)
        if (place / "config.json").is_file():
            return [resume_run(place, dataset=dataset, quiet=quiet or None)]
        return [run_experiment(variant, place, dataset=dataset, quiet=quiet or None)]

    names = _noted_baselines(folder, baseline)
    results = runs(experiment, folder)
    for name in get_args(Baseline)[1:]:
        if name in names or (folder / name).is_dir():
            results += runs(as_baseline(experiment, name), folder / name)
    return results


def _noted_baselines(folder: Path, baseline: Baseline) -> set[str]:
    """The baselines that were asked for in a folder, with this one, which is noted there for a run that is resumed."""
    note = folder / _BASELINES
    noted = set(note.read_text().split()) if note.is_file() else set()
    names = {*noted, baseline} - {"none"}
    if names != noted:
        write_atomically(note, "\n".join(sorted(names)) + "\n")
    return names


def report(results: Sequence[Result], folder: Path) -> None:
    """Print the scores of runs, with both spreads where a model was trained several times."""
    from crawl.runs.protocol import Summary, format_score, results_table

    print_table(results_table(results))
    metric = results[0].record["metric"]
    for model in dict.fromkeys(result.record["config"]["model"]["name"] for result in results):
        own = [result for result in results if result.record["config"]["model"]["name"] == model]
        if len(own) > 1:
            summary = Summary.of(own)
            mean, internal, cross = (format_score(metric, value) for value in vars(summary).values())
            print(f"{model}: {mean} over {len(own)} models ± {cross} between models, ± {internal} between evaluations")
    print(f"Everything about it is in {folder}")


def described_task(task: Task) -> str:
    """What is predicted, in one line, so that a column that was read in another way than it was meant is seen."""
    from crawl.data.features import listed

    targets = listed(task.target_names) or "the target"
    verb = "are" if len(task.target_names) > 1 else "is"
    classes = listed(task.class_names, at_most=10) or f"{max(task.num_outputs, 2)} classes"
    values = {"regression": "numbers" if verb == "are" else "a number", "multilabel": "yes or no"}
    what = values.get(task.kind, f"one of {classes}")
    return f"Task: {task.kind} per {task.level}, scored by {task.metric}; {targets} {verb} {what}."


def _report_skipped(dataset: Dataset, at_most: int = 5) -> None:
    for line in dataset.skipped[:at_most]:
        say(f"skipped {line}")
    if len(dataset.skipped) > at_most:
        say(f"… and {len(dataset.skipped) - at_most} more: {len(dataset.skipped)} rows are skipped")


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Say after Ctrl-C or a signal how to resume, if there is something to resume."""
    try:
        yield
    except KeyboardInterrupt:
        if any((place / "config.json").is_file() for place in (folder, folder / "fold-1")):
            raise KeyboardInterrupt(f"resume with: crawl train --resume {folder}") from None
        raise


@contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        note = folder / _BASELINES
        if list(folder.iterdir()) == [note]:
            note.unlink()
        with suppress(OSError):  # a folder with files in it cannot be removed like this
            folder.rmdir()
