"""Flags that several commands share: refused at once where they are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from crawl.checks import whole_number
from crawl.runs.cluster.connection import LOCAL, Cluster, OnRay, connect

if TYPE_CHECKING:
    from crawl.data.one_graph import Store
    from crawl.runs import TrainedModel
    from crawl.training.evaluation import Predictions

Device = Literal["auto", "cpu", "cuda"]
# What is not given when it is left out, which help need not say.
Int = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
Float = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
Word = Annotated[str | None, tyro.conf.arg(metavar="STR", help_behavior_hint="")]
Words = Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="")]
FilePath = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
FolderPath = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="")]
AnyPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
Switch = Annotated[bool, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagCreatePairsOff]


def check_positive(**flags: int | None) -> None:
    """Refuse numbers that are given and below 1, or too large to be meant."""
    for name, value in flags.items():
        if value is not None:
            whole_number(f"--{name.replace('_', '-')}", value)


def check_seed(seed: int) -> None:
    """Refuse seeds that walks cannot have."""
    whole_number("--seed", seed, 0, 2**64 - 1)


def compute_with(threads: int | None) -> None:
    """Compute with this many threads from now on, if a number is given; refuse one that cannot be."""
    if threads is None:
        return
    whole_number("--threads", threads, 1, 1024)
    import torch

    torch.set_num_threads(threads)


@dataclass(frozen=True)
class RayFlags:
    """Several runs on several GPUs or machines, shared out with Ray.

    Attributes:
        ray: Share the runs out with Ray. ADDRESS is auto for the cluster of this machine, ray://HOST:10001 or
            HOST:6379; without one, Ray starts on this machine.
        ray_gpus: GPUs of each run, also a part of one, such as 0.25; 1 when not given, 0 where there is no GPU.
        ray_jobs: At most this many runs at a time; as many as there are cores and GPUs for when not given.
        ray_collect: The machines share no disk: send the files of runs to this one.
    """

    ray: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="[ADDRESS]", help_behavior_hint="")] = None
    ray_gpus: Float = None
    ray_jobs: Int = None
    ray_collect: Switch = False

    def settings(self, threads: int | None) -> OnRay | None:
        """Where Ray is, and what runs get there; None without --ray. Refuses flags that need it."""
        if self.ray is None:
            given = {
                "--ray-gpus": self.ray_gpus,
                "--ray-jobs": self.ray_jobs,
                "--ray-collect": self.ray_collect or None,
            }
            for flag, value in given.items():
                if value is not None:
                    raise ValueError(f"{flag} is for runs that Ray shares out: give --ray, too.")
            return None
        if len(self.ray) > 1:
            raise ValueError(f"--ray takes one address, not {' '.join(self.ray)}: put other words before it.")
        (address,) = self.ray or (LOCAL,)
        cpus = 1 if threads is None else whole_number("--threads", threads, 1, 1024)
        return OnRay(address, self.ray_gpus, cpus, self.ray_jobs, self.ray_collect)

    @contextmanager
    def connected(self, device: str, threads: int | None) -> Iterator[Cluster | None]:
        """Within, Ray is there, as the flags say; None without --ray."""
        settings = self.settings(threads)
        if settings is None:
            yield None
            return
        with connect(settings, device) as cluster:
            yield cluster


NO_RAY = RayFlags()


@dataclass(frozen=True, kw_only=True)
class WithModel:
    """What a command needs to predict with a trained model.

    Attributes:
        run_folder: The folder of a finished run or of a saved model, a checkpoint, or the name of a model in the
            package.
        num_repeats: Evaluations, each with its own walks; as many as in the test of the run when not given.
        num_steps: Steps of a walk; as many as in evaluations of the run when not given.
        batch_size: Graphs, or nodes, at a time; changes no result.
        memory: For nodes in closed batches, the memory that a batch may take, in GB, instead of a batch size.
        seed: Of the walks.
        device: Where to compute.
        threads: How many threads compute; as many as the machine has cores when not given.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    num_repeats: Int = None
    num_steps: Int = None
    batch_size: Int = None
    memory: Float = None
    seed: int = 0
    device: Device = "auto"
    threads: Int = None

    def check(self) -> None:
        """Refuse numbers that no model can take."""
        check_positive(num_repeats=self.num_repeats, num_steps=self.num_steps, batch_size=self.batch_size)
        if self.memory is not None and not self.memory > 0:
            raise ValueError(f"--memory must be more than 0, not {self.memory:g}.")
        check_seed(self.seed)

    def load(self) -> TrainedModel:
        """The model; refuses flags about walks if it does not walk."""
        compute_with(self.threads)
        from crawl.runs import TrainedModel
        from crawl.runs.packaged import local_model

        trained = TrainedModel.load(local_model(self.run_folder), self.device)
        about_walks = {"--num-repeats": self.num_repeats, "--num-steps": self.num_steps, "--seed": self.seed or None}
        for flag, value in about_walks.items():
            if value is not None and trained.experiment.walk is None:
                title = trained.experiment.model.title
                raise ValueError(f"{title} does not walk, so {flag} cannot change anything: leave it out.")
        return trained

    def predictions(
        self, trained: TrainedModel, store: Store, on_batch: Callable[[], None] | None = None
    ) -> Predictions:
        """The model's predictions for all graphs of a store, as the flags say."""
        return trained.predict(store, **self.how, on_batch=on_batch)

    @property
    def how(self) -> dict[str, Any]:
        """How to predict or to embed, as the flags say."""
        how = {name: getattr(self, name) for name in ("num_repeats", "num_steps", "seed", "batch_size")}
        return {**how, "memory_gb": self.memory}
