"""Which of several processes this one is, as `torchrun` or SLURM say. Nothing here needs torch."""

from __future__ import annotations

import os
from collections.abc import Mapping

from crawl.checks import shown

_TORCHRUN, _SLURM = ("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")


def launched(environment: Mapping[str, str] = os.environ) -> tuple[int, int, int]:
    """The rank of this process, how many there are, and its rank on this machine: 0, 1, 0 for one alone.

    SLURM's variables are also there in a job of one process after the other, so that they count only where
    `MASTER_ADDR` says that the processes are to meet.

    Raises:
        ValueError: If the variables are not numbers, or contradict each other, or if nothing has started the others.
    """
    for names in (_TORCHRUN, _SLURM):
        values = [environment.get(name) for name in names]
        if values[1] is None or (names is _SLURM and "MASTER_ADDR" not in environment):
            continue
        try:
            rank, size, local = (int(value or "0") for value in values)
        except ValueError:
            raise ValueError(
                f"{', '.join(names)} must be whole numbers, not {', '.join(map(shown, values))}."
            ) from None
        if values[0] is None and size > 1:
            raise ValueError(
                f"{names[1]}={size} says that there are {size} processes, but {names[0]} does not say which of them "
                f"this is: start them with torchrun or srun, or unset {names[1]}."
            )
        if not 0 <= rank < size or local < 0:
            raise ValueError(f"{names[0]}={rank} must be from 0 to {names[1]} - 1, which is {size - 1}.")
        return rank, size, local
    if "MASTER_ADDR" in environment and environment.get("SLURM_NTASKS", "1") != "1":
        raise ValueError(
            f"This SLURM job has {environment['SLURM_NTASKS']} tasks, and MASTER_ADDR says where they meet, but "
            "srun has not started this process: start it with srun, or unset MASTER_ADDR to train in one process."
        )
    return 0, 1, 0


def started_together(environment: Mapping[str, str] = os.environ) -> int:
    """How many processes `torchrun` or `srun` have started with this one, itself included; 1 if they have not."""
    try:
        return launched(environment)[1]
    except ValueError:  # which a training will say
        return 1


def has_one_command(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `srun` has started this process and others, all with one command line."""
    return "WORLD_SIZE" not in environment and "SLURM_STEP_NUM_TASKS" in environment


def tasks_apart(environment: Mapping[str, str] = os.environ) -> int:
    """How many tasks `srun` has started that nothing tells to meet, so that each works alone; 1 if it has not."""
    if "WORLD_SIZE" in environment or "MASTER_ADDR" in environment or "SLURM_PROCID" not in environment:
        return 1
    text = environment.get("SLURM_STEP_NUM_TASKS", "1")
    return int(text) if text.isdecimal() else 1
