"""`crawl tune`: a search for the settings of a recipe, chosen by validation."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic

import tyro

from crawl.cli.flags import NO_RAY, Device, Float, FolderPath, Int, Switch, compute_with
from crawl.cli.output import check_folder, printable
from crawl.cli.remarks import say_data
from crawl.cli.train import OnRay, RecipeT, recipe_type, with_absolute_split
from crawl.runs.experiment import Experiment
from crawl.runs.recipes import RECIPES
from crawl.runs.sources import OwnFiles, existing_path
from crawl.runs.where import Where

if TYPE_CHECKING:
    from crawl.runs.tuning.study import Tuned


@dataclass(frozen=True)
class Tune(Generic[RecipeT]):
    """Search the settings of a recipe, and train with the best.

    Learning rate, weight decay, width, depth, dropout, blocks, and the length and window of walks are searched with
    Optuna; those that you give as flags are not. Every trial is validated after each epoch and stopped if most others
    were better at that point. Validation alone chooses; the test part is scored once, for the best settings. The same
    command with the --out of a search resumes it, also with more --trials.

    Attributes:
        recipe: What to train.
        trials: Trials in all, those of a search that is resumed included.
        minutes: Stop the search after this time; training with the best settings comes after it.
        max_parameters: Let no trial have more parameters: layers are narrowed.
        out: The folder of the search; the first free runs/NAME-tune-NUMBER when not given.
        device: Where to compute; auto takes a GPU if there is one.
        threads: How many threads compute; as many as the machine has cores when not given.
        quiet: Show no progress.
        on_ray: Where to share the trials out.
    """

    recipe: Annotated[RecipeT, tyro.conf.arg(name="")]
    trials: int = 50
    minutes: Float = None
    max_parameters: Int = None
    out: FolderPath = None
    device: Device = "auto"
    threads: Int = None
    quiet: Switch = False
    on_ray: OnRay = NO_RAY

    def run(self) -> None:
        """Search, train, and print the command for the best settings."""
        if self.out is not None:
            check_folder(self.out)
        settings: Any = self.recipe
        experiment: Experiment = settings.experiment()
        where = Where().moved(self.device, **settings.where)
        if isinstance(experiment.data, OwnFiles):
            existing_path(experiment.data, where.path)
        self.on_ray.settings(self.threads)  # refused before data are read
        compute_with(self.threads)
        from crawl.runs.folder import RunFolder
        from crawl.runs.run import read_dataset
        from crawl.runs.tuning.page import write_tuning_page
        from crawl.runs.tuning.study import tune

        experiment = replace(experiment, data=with_absolute_split(experiment.data, where.path))
        dataset = read_dataset(experiment, where, self.quiet)
        say_data(dataset, experiment.data, where.path, experiment.walk)
        recipe = settings.base.name
        folder = self.out or RunFolder.create(None, f"{recipe}-tune").path
        with _resumable(folder), self.on_ray.connected(self.device, self.threads) as cluster:
            tuned = tune(
                experiment,
                recipe,
                RECIPES[recipe](),
                folder,
                dataset,
                num_trials=self.trials,
                minutes=self.minutes,
                max_parameters=self.max_parameters,
                where=where,
                quiet=self.quiet or None,
                cluster=cluster,
            )
        page = write_tuning_page(tuned)
        _print(tuned, page)


def tune_type(arguments: Sequence[str]) -> Any:
    """The type of the command `tune`, with a subcommand for every recipe."""
    any_recipe, _ = recipe_type(arguments)
    return Tune[any_recipe]  # type: ignore[valid-type]


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Say after Ctrl-C or a signal how to resume; a folder in which nothing was begun is removed."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"resume with the same command and: --out {shlex.quote(str(folder))}") from None
    finally:
        if folder.is_dir() and all(entry.name == ".lock" for entry in folder.iterdir()):
            (folder / ".lock").unlink(missing_ok=True)
            folder.rmdir()


def _print(tuned: Tuned, page: Path) -> None:
    from crawl.runs.formats import format_score

    best, test = tuned.best, tuned.result.record["scores"]["test"]["mean"]
    metric = best["metric"]
    scores = f"validation {format_score(metric, best['validation'])}, test {format_score(metric, test)}"
    print(f"Best of {best['num_trials']} trials, by validation {metric}: trial {best['trial']}, {scores}")
    print(printable(best["command"]))
    print(f"Everything about it is in {tuned.folder}; to look at: {page}")
