"""How the benchmarks measure: interleaved timing, peak memory of a fresh process, and the machine it ran on."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Spread:
    """The median of repeated measurements, with the 20th and 80th percentile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """The spread of the given values."""
        low, median, high = np.percentile(values, [20, 50, 80])
        return cls(float(median), float(low), float(high))


def spread_cell(spread: Mapping[str, float], scale: float = 1.0) -> str:
    """A spread as it stands in a table, with three digits."""
    median, low, high = (_three_digits(spread[key] * scale) for key in ("median", "low", "high"))
    return f"{median} ({low} to {high})"


def _three_digits(value: float) -> str:
    decimals = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{decimals}f}"


def interleaved(calls: Mapping[str, Callable[[int], Any]], num_rounds: int) -> dict[str, list[float] | str]:
    """Seconds of every call, round by round, or the last line of the error it raised.

    Each call is warmed up once. Then all of them run once in every round, and each round begins with the next one, so
    that no call always has the same predecessor and a busy moment of the machine hits all alike. A call gets the number
    of the round as its seed.
    """
    seconds: dict[str, list[float] | str] = {}
    for name, call in calls.items():
        progress(f"  warm-up: {name}")
        try:
            call(num_rounds)
            seconds[name] = []
        except Exception as error:
            seconds[name] = error_line(error)
    running = [name for name in calls if not isinstance(seconds[name], str)]
    for number in range(num_rounds):
        progress(f"  round {number + 1} of {num_rounds}")
        for name in running[number % len(running) :] + running[: number % len(running)]:
            begin = time.perf_counter()
            calls[name](number)
            seconds[name].append(time.perf_counter() - begin)  # type: ignore[union-attr]
    return seconds


def in_fresh_process(call: str) -> dict[str, Any]:
    """What `module.function(argument)` of this folder returns when a new Python process calls it."""
    progress(f"  fresh process: {call}")
    code = f"import json, {call.split('.')[0]}; print(json.dumps({call}))"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=HERE, env=_environ(), capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{call} failed:\n{run.stderr}")
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def _environ() -> dict[str, str]:
    """The variables of this process for one that works in another folder: PYTHONPATH names the same places there."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.environ | {"PYTHONPATH": os.pathsep.join(os.path.abspath(place) for place in places if place)}


def watched(command: list[str], log: Path) -> dict[str, Any]:
    """Seconds and memory of a command, which is a process of its own; what it says is in the log.

    Memory is that of all processes that the command starts, together, and a page that several of them have mapped
    counts for each. The peak is the sum of those that the kernel keeps for the processes there at once, so that it is
    rather too large. It has two parts, of which the kernel keeps no peak, so that they are looked at 50 times a second:
    anonymous memory, which belongs to a process alone, and pages of mapped files, which the system takes back whenever
    others need memory. Where there are several processes, the memory in which a page that they share counts once (Pss)
    is looked at every two seconds, since the kernel counts it then.
    """
    begin, peaks, most = time.perf_counter(), dict.fromkeys(("VmHWM", "RssAnon", "RssFile"), 0.0), 1
    shared, next_look = 0.0, begin
    with open(log, "w") as file:
        process = subprocess.Popen(command, cwd=HERE, env=_environ(), stdout=file, stderr=subprocess.STDOUT)
        while True:
            processes = _with_children(process.pid)
            found = [_memory(number, "status", list(peaks)) for number in processes]
            peaks = {name: max(peak, sum(each[name] for each in found)) for name, peak in peaks.items()}
            most = max(most, len(processes))
            if len(processes) > 1 and time.perf_counter() > next_look:
                next_look = time.perf_counter() + 2
                shared = max(shared, sum(_memory(number, "smaps_rollup", ["Pss"])["Pss"] for number in processes))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{log.read_text()[-3000:]}")
    return {
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "processes": most,
        "peak_mb": peaks["VmHWM"],
        "peak_anonymous_mb": peaks["RssAnon"],
        "peak_mapped_mb": peaks["RssFile"],
        **({"peak_shared_once_mb": shared} if shared else {}),
    }


def _with_children(number: int) -> list[int]:
    """A process, those that it started, those that these started, and so on."""
    found = [number]
    for each in found:
        for file in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, file.read_text().split())
    return found


def _memory(number: int, file: str, names: list[str]) -> dict[str, float]:
    """What the kernel says of the memory of a process, in MB; zero if it is gone."""
    memory = dict.fromkeys(names, 0.0)
    with suppress(OSError):
        for line in Path(f"/proc/{number}/{file}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in memory:
                memory[name] = int(value.split()[0]) * 1024 / 1e6
    return memory


def peak_memory_mb() -> float:
    """The largest resident memory this process has had, in MB.

    Linux hands `ru_maxrss` down from the parent, so that a small child of a large process looks large; `VmHWM` begins
    anew with the program.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def environment(packages: list[str]) -> dict[str, str]:
    """The machine, the versions and the commit, without names of hosts or folders."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "CPU": f"{_cpu_model()}, {os.cpu_count()} logical cores, {memory_gb:.0f} GB memory",
        "Threads": str(torch.get_num_threads()),
        "Load before the run": f"{os.getloadavg()[0]:.2f} (a busy machine makes the figures worthless)",
        "Versions": ", ".join([f"Python {platform.python_version()}", *(f"{p} {_version(p)}" for p in packages)]),
        "Date": time.strftime("%Y-%m-%d", time.gmtime()),
        "Commit": _commit(),
    }


def error_line(error: Exception) -> str:
    """The error in one line: its type and the last line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"


def progress(text: str) -> None:
    """Say on stderr what is going on."""
    print(text, file=sys.stderr, flush=True)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _commit() -> str:
    """What CRAWL_COMMIT says, since a copy may lie in the repository of another commit; else the commit by git."""
    if commit := os.environ.get("CRAWL_COMMIT"):
        return commit
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
