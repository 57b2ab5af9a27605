"""Processes that train one model together: what each takes of a batch, and how they add up.

`torchrun` and SLURM tell a process its rank and how many there are. Every process has the whole model and the same
data. It takes its share of each batch; gradients are summed over all processes, so that every process makes the step
that one process would make with the whole batch.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import re
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from crawl.checks import shown
from crawl.training.connections import check_address, choose_interface, give_up_silent, open_connections
from crawl.training.launched import launched
from crawl.training.said import has_first_failed

_SECONDS_TO_ANSWER = 10.0
_SECONDS_TO_MEET = 30.0  # before a process says that it waits
_PATIENCE = timedelta(minutes=30)  # one may evaluate or read data while the others wait


class RankLost(RuntimeError):
    """A process that trains with this one is gone.

    Attributes:
        is_told_here: Whether this process is the one to say so, if all that are left would say the same.
    """

    def __init__(self, message: str, is_told_here: bool) -> None:
        super().__init__(message)
        self.is_told_here = is_told_here


@dataclass(frozen=True)
class Process:
    """Where one of the processes is, as all of them are told in the beginning.

    Attributes:
        machine: The machine or container within which its number means something.
        number: What the system calls it.
        gpu: The name of its GPU, which no other GPU has; None without one, or if NCCL is missing.
        job: The job of SLURM whose `srun` has started it; empty if something else has.
    """

    machine: str
    number: int
    gpu: str | None = None
    job: str = ""

    @classmethod
    def this(cls) -> Self:
        """The process that asks."""
        machine, gpu = platform.node(), None
        with suppress(OSError):  # it is there on Linux alone
            machine += f" {os.readlink('/proc/self/ns/pid')}"
        if torch.cuda.is_available() and distributed.is_nccl_available():
            properties = torch.cuda.get_device_properties(torch.cuda.current_device())
            gpu = str(getattr(properties, "uuid", None) or "") or None
        names = () if "WORLD_SIZE" in os.environ else ("SLURM_HET_JOB_ID", "SLURM_JOB_ID")
        return cls(machine, os.getpid(), gpu, next(filter(None, map(os.environ.get, names)), ""))

    @property
    def is_running(self) -> bool:
        """Whether it is there, on this machine; a process that ended and that nobody has asked about is not."""
        try:
            os.kill(self.number, 0)
        except PermissionError:
            return True
        except OSError:
            return False
        with suppress(OSError):
            return Path(f"/proc/{self.number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return True


def backend_for_gpus(processes: Sequence[Process]) -> Literal["gloo", "nccl"]:
    """What adds up tensors on GPUs: NCCL if each process has a GPU of its own, gloo if some share one or have none."""
    gpus = {process.gpu for process in processes}
    return "nccl" if None not in gpus and len(gpus) == len(processes) else "gloo"


_processes: list[Process] = []  # by rank, if this module has set up torch.distributed
_on_gpus: Any = None  # the group for tensors on GPUs; None where gloo does everything


@dataclass
class Ranks:
    """The processes of a training. With one, which is usual, nothing here communicates.

    Attributes:
        rank: The number of this process, from 0.
        size: How many there are.
        local_rank: Its number among those on this machine, which says which GPU it takes.
        is_idle: Whether this process has nothing of the current batch: it takes part, and counts for nothing.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    is_idle: bool = False

    @classmethod
    def of_this_process(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """What torch.distributed says if it has been set up, or else what `torchrun` or SLURM say.

        In the latter case it is set up here: with gloo, which works on every machine, and with NCCL for tensors on GPUs
        where `backend_for_gpus` says so.

        Raises:
            ValueError: If the variables contradict each other, or there is nobody at their address.
        """
        if distributed.is_available() and distributed.is_initialized():
            local = int(environment.get("LOCAL_RANK", "0"))
            return cls(distributed.get_rank(), distributed.get_world_size(), local)
        rank, size, local_rank = launched(environment)
        if size == 1:
            return cls()
        if "MASTER_ADDR" not in environment or "MASTER_PORT" not in environment:
            raise ValueError(
                f"There are {size} processes, but MASTER_ADDR and MASTER_PORT do not say where the first one is: start "
                "them with torchrun, or set both."
            )
        before = open_connections()
        check_address(environment["MASTER_ADDR"])
        choose_interface(environment["MASTER_ADDR"])
        _find_each_other(rank, size, f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}")
        atexit.register(_leave, rank)
        if torch.cuda.is_available():
            torch.cuda.set_device(local_rank % torch.cuda.device_count())
        ranks = cls(rank, size, local_rank)
        ranks._meet()
        give_up_silent(since=before)
        return ranks

    def _meet(self) -> None:
        """Tell each other where the processes are, and agree on how they add up tensors on GPUs."""
        global _on_gpus
        _processes[:] = [Process(**told) for told in self.each(asdict(Process.this()))]
        jobs = {process.job for process in _processes}
        if len(jobs) > 1:
            raise ValueError(
                f"Processes of the SLURM jobs {', '.join(sorted(jobs))} have met at one address: give each job another "
                "MASTER_PORT, such as $((20000 + SLURM_JOB_ID % 10000))."
            )
        if backend_for_gpus(_processes) == "nccl":
            _on_gpus = distributed.new_group(backend="nccl", timeout=_PATIENCE)
            self.sum_(torch.zeros(1, device="cuda"))  # connects them, which a step that is captured could not

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    @property
    def sum_in_captured_steps(self) -> bool:
        """Whether tensors on GPUs are summed there, so that a captured step can do it; gloo needs the host."""
        return self.size > 1 and _on_gpus is not None

    def share(self, ids: Tensor) -> Tensor:
        """What this process takes of a batch, or of all graphs to evaluate: a piece in the same order."""
        return torch.tensor_split(ids, self.size)[self.rank]

    def sum_(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; zeros count for a process that is idle.

        Raises:
            RankLost: If one of them is gone.
        """
        if self.size == 1:
            return tensor
        if self.is_idle:
            tensor.zero_()
        with self._naming_the_lost():
            distributed.all_reduce(tensor, group=_group_of(tensor))
        return tensor

    def across(self, tensor: Tensor) -> Tensor:
        """The sum over all processes; for `BatchNorm.across`."""
        return self.sum_(tensor.clone())

    def gathered(self, rows: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
        """The arrays of all processes, which differ in size along one axis only, one after the other along it."""
        if self.size == 1:
            return rows
        moved = np.ascontiguousarray(np.moveaxis(rows, axis, 0))
        parts = [np.frombuffer(part, moved.dtype) for part in self._all(moved.tobytes())]
        return np.moveaxis(np.concatenate(parts).reshape(-1, *moved.shape[1:]), 0, axis)

    def from_first(self, value: Any) -> Any:
        """What the first process gives, which must survive JSON; others get it, whatever they give."""
        return value if self.size == 1 else self.each(value if self.is_first else None)[0]

    def each(self, value: Any) -> list[Any]:
        """What each process gives, by rank, which must survive JSON."""
        return [value] if self.size == 1 else [json.loads(given) for given in self._all(json.dumps(value).encode())]

    def copy_from_first(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the first process; all processes must have such of the same names and shapes."""
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        for name in sorted(copies) if self.size > 1 else ():
            with self._naming_the_lost():
                distributed.broadcast(copies[name], src=0, group=_group_of(copies[name]))
        return copies

    def any(self, value: bool) -> bool:
        """Whether one of the processes says so."""
        return any(self.each(value))

    def check_equal(self, what: str, value: Any) -> None:
        """Refuse, on all processes, a value that is not the same on all of them."""
        if self.size > 1 and len(set(self._all(repr(value).encode()))) > 1:
            raise ValueError(f"{what} differs between the {self.size} processes: {shown(value)} on rank {self.rank}.")

    def _all(self, content: bytes) -> list[bytes]:
        """The bytes that each process gives. Not objects: torch would pickle these."""
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(content)
        with self._naming_the_lost():
            distributed.all_reduce(lengths)
            padded = torch.zeros(max(int(lengths.max()), 1), dtype=torch.uint8)
            padded[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else padded[:0]
            found = [torch.empty_like(padded) for _ in range(self.size)]
            distributed.all_gather(found, padded)
        return [part[:length].numpy().tobytes() for part, length in zip(found, lengths.tolist(), strict=True)]

    @contextmanager
    def _naming_the_lost(self) -> Iterator[None]:
        """Where processes wait for each other: says which of them is gone."""
        try:
            yield
        except RuntimeError as error:
            lost = self._lost()
            who = f"rank {', '.join(map(str, lost))}" if lost else "one of them"
            left = [rank for rank in range(self.size) if rank not in lost]
            is_explained = lost == [0] and has_first_failed()  # as when it alone finds that a folder is taken
            raise RankLost(
                f"{self.size} processes train together, and {who} is gone, as rank {self.rank} sees: "
                f"{_first_sentence(error)}",
                is_told_here=self.rank == min(left, default=self.rank) and not is_explained,
            ) from None

    def _lost(self) -> list[int]:
        """The ranks that do not answer any more: those that do leave a word where all can read it."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        try:
            store = distributed.distributed_c10d._get_default_store()
            store.set(f"crawl/here/{self.rank}", "1")
            lost = _missing(store, "here", others, len(others) - 1)
            store.set(f"crawl/done/{self.rank}", "1")
            if self.is_first:  # the words may be with this process, so it stays until the others have read them
                left = [rank for rank in others if rank not in lost]
                _missing(store, "done", left, len(left))
            return lost
        except (RuntimeError, ValueError):  # they were with the first
            return [0]


def _find_each_other(rank: int, size: int, where: str) -> None:
    """Set up torch.distributed; says where it waits if that takes long.

    A thread does it, since a signal such as Ctrl-C does not end what waits within torch.
    """
    errors: list[Exception] = []

    def connect() -> None:
        try:
            distributed.init_process_group("gloo", rank=rank, world_size=size, timeout=_PATIENCE)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=connect, name="connect", daemon=True)
    thread.start()
    thread.join(_SECONDS_TO_MEET)
    if thread.is_alive():
        warnings.warn(f"rank {rank} waits for the others of {size} processes at {where}", stacklevel=2)
        thread.join()
    for error in errors:
        if "EADDRINUSE" in str(error):
            raise ValueError(
                f"The port of MASTER_ADDR and MASTER_PORT, {where}, is in use, perhaps by another training: choose "
                "another MASTER_PORT."
            ) from None
        hint = " Set GLOO_SOCKET_IFNAME to the network that they share." if "connectFullMesh" in str(error) else ""
        raise ValueError(f"Process {rank} of {size} did not find the others at {where}: {error}{hint}") from None


def death() -> RankLost | None:
    """What to say if a process on this machine ended without a word, as after `kill -9`; None if none did.

    For a process that was told to stop, perhaps for that reason: `torchrun` stops those that are left.
    """
    if not _processes:  # torch.distributed was not set up here
        return None
    own = distributed.get_rank()
    here = [rank for rank, each in enumerate(_processes) if each.machine == _processes[own].machine]
    gone = [rank for rank in here if not _processes[rank].is_running]
    try:
        store = distributed.distributed_c10d._get_default_store()
        store.set(f"crawl/left/{own}", "1")
        gone = [rank for rank in gone if not store.check([f"crawl/left/{rank}"])]
    except (RuntimeError, ValueError):  # the words were with the first
        gone = [rank for rank in gone if rank == 0]
    if not gone:
        return None
    died = " and ".join(f"rank {rank} (process {_processes[rank].number})" for rank in gone)
    message = f"{len(_processes)} processes trained together, and {died} died, so all were stopped"
    return RankLost(message, is_told_here=own == min(rank for rank in here if rank not in gone))


def _leave(rank: int) -> None:
    """End the communication, with a word that others can read: this process did not die."""
    with suppress(RuntimeError, ValueError):
        distributed.distributed_c10d._get_default_store().set(f"crawl/left/{rank}", "1")
    distributed.destroy_process_group()


def _group_of(tensor: Tensor) -> Any:
    """The processes as a group that can add up such a tensor; None is the one for all."""
    return _on_gpus if tensor.is_cuda else None


def _first_sentence(error: RuntimeError) -> str:
    """What went wrong, without gloo's place in its source and its advice."""
    return re.sub(r"^\[[^\]]*\] ", "", str(error).partition("\n")[0]).split(". ")[0]


def _missing(store: Any, word: str, ranks: list[int], expected: int) -> list[int]:
    """The ranks that have not left this word, once `expected` of them have, or after some seconds."""
    until = time.monotonic() + _SECONDS_TO_ANSWER
    while True:
        missing = [rank for rank in ranks if not store.check([f"crawl/{word}/{rank}"])]
        if len(missing) <= len(ranks) - expected or time.monotonic() > until:
            return missing
        time.sleep(0.05)
