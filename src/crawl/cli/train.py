"""`crawl train`: a recipe, with any of its settings changed, becomes a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union

import tyro

from crawl.cli.describe import print_table
from crawl.cli.output import say

if TYPE_CHECKING:
    from crawl.experiments import Experiment, Result

RecipeT = TypeVar("RecipeT")
_Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]


@dataclass(frozen=True)
class Train(Generic[RecipeT]):
    """Train a model by a recipe and score it.

    Every setting of a recipe is a flag: see `crawl train RECIPE --help`. A run that was stopped goes on with
    `crawl train --resume RUN`, which needs no recipe, to the result it would have had.

    Attributes:
        recipe: What to train.
        out: The folder of the run, which must be new; the first free runs/NAME-NUMBER when not given.
        protocol: One run, or one for each fold of the data set.
        baseline: Train a message-passing network beside it, to compare with.
        device: Shorthand for --training.device.
        quiet: Show no progress.
    """

    recipe: Annotated[RecipeT, tyro.conf.arg(name="")]
    out: _Folder = None
    protocol: Literal["single", "folds"] = "single"
    baseline: Literal["none", "gin"] = "none"
    device: Annotated[Literal["auto", "cpu", "cuda"] | None, tyro.conf.arg(metavar="{auto,cpu,cuda}")] = None
    quiet: bool = False

    def run(self) -> None:
        """Train, and print what came of it."""
        experiment = self._experiment()
        raise NotImplementedError(experiment)

    def _experiment(self) -> Experiment:
        """The recipe with its shorthands resolved; paths absolute, so that a run can be resumed from anywhere."""
        experiment: Any = self.recipe
        if self.device is not None:
            experiment = replace(experiment, training=replace(experiment.training, device=self.device))
        if experiment.data.path is not None:
            path = str(Path(experiment.data.path).resolve())
            experiment = replace(experiment, data=replace(experiment.data, path=path))
        return experiment


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, to the result it would have had.

    Attributes:
        settings: None: recipe and settings are those of the run.
        resume: The folder of the run.
        quiet: Show no progress.
    """

    settings: tyro.conf.Positional[tuple[str, ...]]
    resume: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    quiet: bool = False

    def run(self) -> None:
        """Train the rest, and print what came of it."""
        from crawl.experiments import resume_run

        if self.settings:
            raise ValueError(
                f"A resumed run takes its recipe and settings from {self.resume / 'config.json'}: "
                f"leave out {' '.join(self.settings)}."
            )
        with resumable(self.resume):
            report(resume_run(self.resume, quiet=self.quiet or None))


def train_type(arguments: Sequence[str]) -> Any:
    """The type of the command `train`: with a subcommand for every recipe, or for resuming without any."""
    if any(word.split("=")[0] == "--resume" for word in arguments):
        return Resume
    from crawl.experiments.recipes import RECIPES

    recipes = [
        Annotated[type(recipe()), tyro.conf.subcommand(name, default=recipe(), description=recipe.__doc__)]
        for name, recipe in RECIPES.items()
    ]
    return Train[Union[tuple(recipes)]]  # type: ignore[misc]  # noqa: UP007


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say after Ctrl-C how to go on, if there is something to go on with; leave no empty folder behind."""
    try:
        yield
    except KeyboardInterrupt:
        if (folder / "config.json").is_file():
            raise KeyboardInterrupt(f"resume with: crawl train --resume {folder}") from None
        raise
    finally:
        with suppress(OSError):  # only an empty folder can be removed so
            folder.rmdir()
