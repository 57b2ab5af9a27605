"""What happens at a worker: one run, in a process and perhaps on a machine of its own."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from crawl import __version__
from crawl.files import write_atomically
from crawl.runs.cluster.box import News
from crawl.runs.folder import InUse, RunFolder
from crawl.runs.run import Stopped

Tell = Callable[[News], bool]
Do = Callable[[Path, dict[str, Any], Tell], Any]
_SECONDS_TO_SEE = 10.0  # a file of another machine
_SECONDS_OF_A_DEAD_LOCK = 60.0  # a disk may believe for a while that a machine which died has a file locked


@dataclass(frozen=True)
class Order:
    """What a worker needs to know besides its task.

    Attributes:
        name: What the run is called.
        folder: Its folder at the head.
        attempt: How many workers have died of it before.
        cpus: How many threads compute.
        mark: The end of the name of the head's `mark_file`.
        files: The files of the run so far, if they are collected; None if the disk is shared.
        version: The head's version of this library.
    """

    name: str
    folder: str
    attempt: int
    cpus: int
    mark: str
    files: dict[str, bytes] | None
    version: str = __version__


def work(do: Do, task: dict[str, Any], order: Order, box: Any) -> dict[str, Any]:
    """Do a run at this worker: how it ended (`done`, `stopped`, `in use` or `failed`), its value, and collected files.

    Errors of the run come back as words, since other runs do not depend on it.
    """
    import ray

    for variable in ("WORLD_SIZE", "MASTER_ADDR"):
        os.environ.pop(variable, None)  # a run is one process, however this worker was started
    torch.set_num_threads(order.cpus)
    sent: dict[str, Any] = {"time": 0}
    with ExitStack() as stack:
        try:
            folder = _folder(order, stack)

            def tell(news: News) -> bool:
                files = {}
                last = RunFolder(folder).last
                if order.files is not None and last.is_file() and last.stat().st_mtime_ns != sent["time"]:
                    files, sent["time"] = files_of(folder), last.stat().st_mtime_ns
                return bool(ray.get(box.tell.remote(order.name, order.attempt, news, files)))

            tell({"machine": platform.node(), "process": os.getpid()})
            end = {"state": "done", "value": _patient(do, folder, task, tell, order)}
        except (Stopped, InUse) as reason:
            end = {"state": "stopped" if isinstance(reason, Stopped) else "in use", "problem": str(reason)}
        except Exception as error:
            end = {"state": "failed", "problem": " ".join(str(error).split()) or type(error).__name__}
        collected = {} if order.files is None or end["state"] == "failed" else files_of(folder)
        return {**end, "files": collected}


def _folder(order: Order, stack: ExitStack) -> Path:
    """The folder to train in. Refuses another version, and a disk that is not the head's."""
    if order.version != __version__:
        raise ValueError(f"{platform.node()} has crawl {__version__}, not {order.version}: install the same there.")
    place = Path(order.folder)
    if order.files is not None:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="crawl-run-"))
        place = Path(scratch) / place.name
        place.mkdir()
        keep_files(place, order.files)
        return place
    end = time.monotonic() + _SECONDS_TO_SEE
    while not mark_file(place, order.mark).is_file():
        if time.monotonic() > end:
            remedy = "choose a folder on a disk that all machines share, or collect the runs (--ray-collect)"
            raise ValueError(f"{platform.node()} does not see {place}: {remedy}.")
        time.sleep(0.2)
    return place


def mark_file(folder: Path, mark: str) -> Path:
    """A file of the head in a run's folder, by which a worker knows that they share the disk. Each head has its own:
    the same command may have been started twice."""
    return folder / f".shared-{mark}"


def _patient(do: Do, folder: Path, task: dict[str, Any], tell: Tell, order: Order) -> Any:
    """Do it; after the death of another worker, wait until its lock is gone."""
    end = time.monotonic() + (_SECONDS_OF_A_DEAD_LOCK if order.attempt else 0)
    while True:
        try:
            return do(folder, task, tell)
        except InUse:
            if time.monotonic() >= end:
                raise
            time.sleep(1)


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a run by their names, without hidden ones and those of TensorBoard."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(".")
    }


def keep_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a run; that which says that it is finished comes last. Refuses names that lead elsewhere."""
    for name in sorted(files, key=lambda name: name == RunFolder(folder).result.name):
        if Path(name).name != name or name.startswith("."):
            raise ValueError(f"A worker sent the file {name!r}, whose name is not that of a file of a run.")
        write_atomically(folder / name, files[name])
