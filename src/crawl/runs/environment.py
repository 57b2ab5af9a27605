"""How a run came about, for its record: time, memory, device, commit, versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy
import torch
import torch_geometric

from crawl import __version__

try:
    import resource
except ImportError:  # as on Windows
    resource = None  # type: ignore[assignment]


def reset_peak_memory() -> None:
    """Let `environment_record` leave out the GPU memory of earlier runs in this process."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def environment_record(device: torch.device, seconds: float, runs_at_a_time: int = 1) -> dict[str, Any]:
    """What a record says about its making: time, memory, device, commit, versions."""
    on_gpu = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else _peak_memory_mb()
    return {
        "wall_time_s": round(seconds, 3),
        "runs_at_a_time": runs_at_a_time,
        "peak_memory_mb": None if peak is None or runs_at_a_time > 1 else round(peak, 1),  # it is that of all together
        "device": torch.cuda.get_device_name() if on_gpu else f"cpu ({torch.get_num_threads()} threads)",
        "commit": commit_of_code(),
        "versions": {
            **{"python": platform.python_version(), "crawl": __version__, "torch": str(torch.__version__)},
            **{package.__name__: package.__version__ for package in (torch_geometric, numba, numpy)},
        },
    }


def _peak_memory_mb() -> float | None:
    """The most memory that this process has had, where the system tells."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def commit_of_code() -> str | None:
    """What CRAWL_COMMIT says, since a copy may be in the repository of another commit; else the commit by git."""
    if commit := os.environ.get("CRAWL_COMMIT"):
        return commit
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def both_commits(before: str | None, now: str | None) -> str | None:
    """The commit of a run that was resumed: all that it was trained with, in their order."""
    known = (before or "unknown").split(", ")
    return before if (now or "unknown") in known else ", ".join([*known, now or "unknown"])
