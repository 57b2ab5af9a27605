"""Flags that several commands share: refused at once where they are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import tyro

from crawl.checks import whole_number

if TYPE_CHECKING:
    from crawl.runs import Experiment

Threads = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]


def check_positive(**flags: int | None) -> None:
    """Refuse numbers that are given and below 1, or too large to be meant.

    Raises:
        ValueError: With the name of the flag.
    """
    for name, value in flags.items():
        if value is not None:
            whole_number(f"--{name.replace('_', '-')}", value)


def check_seed(seed: int) -> None:
    """Refuse seeds that walks cannot have.

    Raises:
        ValueError: With the seed.
    """
    whole_number("--seed", seed, 0, 2**64 - 1)


def check_walks(experiment: Experiment, *, num_repeats: int | None, num_steps: int | None, seed: int) -> None:
    """Refuse flags about walks for a network without any.

    Raises:
        ValueError: With the name of the flag.
    """
    if experiment.walk is not None:
        return
    for flag, value in {"--num-repeats": num_repeats, "--num-steps": num_steps, "--seed": seed or None}.items():
        if value is not None:
            raise ValueError(f"{experiment.model.title} does not walk, so {flag} cannot change anything: leave it out.")


def compute_with(threads: int | None) -> None:
    """Compute with this many threads from now on, if a number is given.

    Raises:
        ValueError: If it is not a number of threads.
    """
    if threads is None:
        return
    whole_number("--threads", threads, 1, 1024)
    import torch

    torch.set_num_threads(threads)
