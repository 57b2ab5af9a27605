"""The way to Ray: started on this machine, or a cluster that is there, found out in time if it is not."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawl.checks import check_choice, positive_number, shown, truth, whole_number

LOCAL, AUTO = "local", "auto"
_SECONDS_TO_ANSWER = 10.0
_CURRENT = Path("/tmp/ray/ray_current_cluster")  # where `ray start` leaves the address of the cluster
_OBJECT_STORE = 2**28  # bytes for what runs send on this machine, which is little; Ray would take a third of the memory


@dataclass(frozen=True)
class OnRay:
    """Where Ray is, and what each run gets there.

    Attributes:
        address: `local` starts Ray on this machine, for as long as it is used; `auto` is the cluster that this machine
            belongs to; `HOST:PORT` and `ray://HOST:PORT` are others.
        gpus: GPUs of each run, also a part of one, such as 0.25. When None, 1 if the cluster has GPUs, 0 if not.
        cpus: Cores of each run, which compute in as many threads.
        at_a_time: At most this many runs at a time; as many as there are cores and GPUs for when None.
        collect: Whether the machines share no disk: runs are then in a temporary folder of their machine, and their
            files are sent to this one, checkpoints included.
    """

    address: str = LOCAL
    gpus: float | None = None
    cpus: int = 1
    at_a_time: int | None = None
    collect: bool = False

    def __post_init__(self) -> None:
        if self.address not in (LOCAL, AUTO) and _host_and_port(self.address) is None:
            raise ValueError(
                f"The address of Ray (--ray) must be local, auto, HOST:PORT or ray://HOST:PORT, not "
                f"{shown(self.address)}."
            )
        whole_number("cpus", self.cpus, 1, 1024)
        truth("collect", self.collect)
        if self.at_a_time is not None:
            whole_number("at_a_time (--ray-jobs)", self.at_a_time)
        if self.gpus is not None and not (isinstance(self.gpus, int | float) and self.gpus == 0):
            gpus = positive_number("gpus (--ray-gpus)", self.gpus)
            if gpus > 1 and gpus != int(gpus):
                raise ValueError(f"gpus (--ray-gpus) must be a part of one GPU or a whole number, not {gpus:g}.")

    def room_on(self, resources: dict[str, float], gpus: float) -> int:
        """How many runs with this many GPUs each fit on a machine at a time."""
        room = int(resources.get("CPU", 0)) // self.cpus
        if gpus:
            there = int(resources.get("GPU", 0))
            room = min(room, there * int(1 / gpus + 1e-9) if gpus < 1 else there // int(gpus))
        return room


@dataclass(frozen=True)
class Cluster:
    """Ray, connected.

    Attributes:
        how: What was asked for.
        device: Where runs compute: `cpu` or `cuda`.
        gpus: GPUs of each run.
    """

    how: OnRay
    device: str
    gpus: float

    def room(self) -> int:
        """How many runs fit on all machines at a time, if nobody else uses them."""
        return sum(self.how.room_on(machine, self.gpus) for machine in _machines())

    def runs_at_a_time(self, num_runs: int) -> int:
        """How many of these runs may share a machine, or a GPU where there are GPUs; their times depend on it."""
        if self.gpus:
            return min(num_runs, max(1, int(1 / self.gpus + 1e-9)))
        rooms = [self.how.room_on(machine, 0) for machine in _machines()]
        return max(1, min(num_runs, max(rooms, default=1), self.how.at_a_time or num_runs))


@contextmanager
def connect(how: OnRay, device: str = "auto") -> Iterator[Cluster]:
    """Within, Ray is there. A Ray that this process has already is used.

    Args:
        how: Which Ray, and what runs get.
        device: Where runs compute; `auto` takes GPUs if the cluster has some, or `how` asks for them.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no Ray at the address, or it does not answer.
        ValueError: If its version or Python is another one, or no machine has what a run needs.
    """
    check_choice("device", device, ("auto", "cpu", "cuda"))
    if device != "auto" and how.gpus is not None and (device == "cuda") != (how.gpus > 0):
        raise ValueError(f"gpus={how.gpus:g} (--ray-gpus) contradicts the device {device}: leave out one of them.")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # we say ourselves where to compute
    try:
        import ray
    except ImportError as error:
        raise ImportError("Runs on a cluster need Ray: pip install ray") from error
    is_ours = not ray.is_initialized()
    if is_ours:
        _start(ray, how)
    try:
        yield _placed(how, device)
    finally:
        if is_ours:
            ray.shutdown()


def _start(ray: Any, how: OnRay) -> None:
    """Start Ray, or connect to it; what a SIGTERM does stays as it was."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = how.address
    if address == LOCAL:
        cpus = max(how.cpus, os.cpu_count() or 1) if how.at_a_time is None else how.at_a_time * how.cpus
        options |= {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
    else:
        address = _answering(address)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, **options)
    except (Exception, SystemExit) as error:
        ray.shutdown()
        text = " ".join(str(error).split())
        if any(sign in text for sign in ("ersion mismatch", "incompatible", "versions differ")):
            remedy = "install the same versions of Python and Ray here and there"
            raise ValueError(f"Ray at {address} does not fit this process: {remedy}. {text}") from None
        hint = "" if "RAY_AUTH_MODE" in os.environ else " If it wants a token, set RAY_AUTH_MODE=token here, too."
        raise ConnectionError(f"Ray at {address} cannot be used: {text or type(error).__name__}.{hint}") from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _answering(address: str) -> str:
    """The address, of this machine's cluster for `auto`. Refuses one where nobody answers: Ray may wait for minutes."""
    asked = address
    if address == AUTO:
        address = os.environ.get("RAY_ADDRESS", "") or (_CURRENT.read_text().strip() if _CURRENT.is_file() else "")
        if not address:
            remedy = "start it with ray start --head, or give its address: --ray ray://HOST:10001"
            raise ConnectionError(f"No Ray is running on this machine: {remedy}.")
        asked = f"auto, which is {address},"
    place = _host_and_port(address)
    if place is None:
        raise ValueError(f"RAY_ADDRESS must be HOST:PORT or ray://HOST:PORT, not {shown(address)}.")
    try:
        socket.create_connection(place, timeout=_SECONDS_TO_ANSWER).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise ConnectionError(f"Ray at {asked} does not answer: {why}. Is it started, and the port right?") from None
    return address


def _host_and_port(address: object) -> tuple[str, int] | None:
    found = (
        re.fullmatch(r"(?:ray://)?([\w.-]+|\[[\da-fA-F:]+\]):(\d{1,5})", address) if isinstance(address, str) else None
    )
    return None if found is None or int(found[2]) > 65535 else (found[1].strip("[]"), int(found[2]))


def _machines() -> list[dict[str, float]]:
    """What each machine of the cluster has."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _placed(how: OnRay, device: str) -> Cluster:
    """Where runs compute, and with how many GPUs. Refuses what no machine has: Ray would wait for it for ever."""
    machines = _machines()
    has_gpus = any(machine.get("GPU") for machine in machines)
    gpus = how.gpus if how.gpus is not None else float(device == "cuda" or (device == "auto" and has_gpus))
    if how.collect and how.address == LOCAL:
        raise ValueError("Runs on this machine need not be collected (--ray-collect): leave it out.")
    if not any(how.room_on(machine, gpus) for machine in machines):
        largest = max(machines, key=lambda machine: (machine.get("GPU", 0), machine.get("CPU", 0)), default={})
        raise ValueError(
            f"No machine has {how.cpus} cores (--threads) and {gpus:g} GPUs (--ray-gpus) for a run: the largest of "
            f"{len(machines)} has {largest.get('CPU', 0):g} and {largest.get('GPU', 0):g}."
        )
    return Cluster(how, "cuda" if gpus else "cpu", gpus)
