"""Runs hostile calls and command lines in processes of their own, and says what broke.

    python -m tests.fuzz.run --calls 10000 --commands 2000      everything, with a record in results/fuzz.json
    python -m tests.fuzz.run --case api:1234                    one case again, with its traceback

A case is a number: with the same seed it is the same call or command, whatever came before it. Workers send the
outcome of each case. If one dies or hangs, the case it was at has failed, and another goes on after it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from tests.forks import processes

ROOT = Path(__file__).parents[2]
_GIGABYTE = 2**30
_SECONDS_TO_HANG = 90.0  # a case is stopped from within after less; after this its process is ended
_CASES_BEFORE_NEW_WORKER = 1500
_PACKAGES = ("torch", "torch_geometric", "numpy", "networkx", "scikit-learn", "tyro", "numba")


class Outcome(NamedTuple):
    """What came of a case: `result`, `refused` or `failed`, what it did, and how it ended."""

    case: str
    kind: str
    did: str
    how: str


def run_cases(kind: str, first: int, last: int, seed: int) -> Iterator[Outcome]:
    """The outcomes of the cases of a kind (`api` or `cli`) from `first` to before `last`."""
    while first < last:
        until = min(last, first + _CASES_BEFORE_NEW_WORKER)
        with tempfile.NamedTemporaryFile("w+") as said:
            receiver, sender = processes.Pipe(duplex=False)
            process = processes.Process(target=work, args=(kind, first, until, seed, sender, said.name))
            process.start()
            sender.close()
            for outcome in _received(receiver):
                yield Outcome(*outcome)
                first += 1
            why = _ended(process)
            if first < until:  # it died or hangs
                last_line = (said.read().strip().splitlines() or ["no word"])[-1][:200]
                yield Outcome(f"{kind}:{first}", "failed", "?", f"the process {why}: {last_line}")
                first += 1


def _ended(process: BaseProcess) -> str:
    """How a process ended, which is made to if it does not."""
    process.join(10)
    if process.exitcode is not None:
        return f"died (exit code {process.exitcode})"
    process.kill()
    process.join()
    return "hung"


def _received(receiver: Connection) -> Iterator[list[str]]:
    """What a worker sends until it ends, or sends nothing for too long."""
    with receiver, contextlib.suppress(EOFError):
        while receiver.poll(_SECONDS_TO_HANG):
            yield receiver.recv()


def work(kind: str, first: int, last: int, seed: int, sender: Connection, said: str) -> None:
    """Judge the cases and send the outcome of each; errors that nobody catches go to a file."""
    import torch

    from tests.fuzz.oracle import forbid_network, limit_memory
    from tests.fuzz.world import World

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what cases print goes nowhere
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 2)
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2"))
    torch.set_num_threads(2)  # two, so that work is shared out
    judge = _judge(kind)
    with tempfile.TemporaryDirectory(prefix="crawl-fuzz-") as folder:
        os.chdir(folder)
        os.environ["CRAWL_DATA"] = str(Path(folder) / "data-root")
        forbid_network()
        world = World(Path(folder))
        world.csl_run, world.csv_run, world.run  # noqa: B018  (made before memory is short)
        limit_memory(4 * _GIGABYTE)
        for index in range(first, last):
            sender.send([f"{kind}:{index}", *judge(index, seed, world)])
        os.chdir(ROOT)


def _judge(kind: str) -> Any:
    if kind == "api":
        from tests.fuzz import api

        return api.judge
    from tests.fuzz import commands

    return commands.judge


def repeat(case: str, seed: int) -> int:
    """Run one case again and show its traceback; 1 if it fails."""
    from tests.fuzz import api, commands
    from tests.fuzz.oracle import forbid_network, limit_memory
    from tests.fuzz.world import World

    kind, _, index = case.partition(":")
    with tempfile.TemporaryDirectory(prefix="crawl-fuzz-") as folder:
        os.chdir(folder)
        os.environ["CRAWL_DATA"] = str(Path(folder) / "data-root")
        forbid_network()
        world = World(Path(folder))
        outcome = _judge(kind)(int(index), seed, world)
        print(*outcome, sep="\n")
        if outcome[0] == "failed":
            limit_memory(4 * _GIGABYTE)
            try:
                if kind == "api":
                    api.make_call(int(index), seed, world)()
                else:
                    commands.make_command(int(index), seed, world).run(debug=True)
            except BaseException:
                import traceback

                traceback.print_exc()
        os.chdir(ROOT)
    return int(outcome[0] == "failed")


def run(calls: int, commands: int, seed: int, record: Path | None) -> int:
    """All cases and the named ones; the number of failures."""
    began = time.time()
    failures: dict[tuple[str, str], list[Outcome]] = {}
    counts: dict[str, Counter[str]] = {"api": Counter(), "cli": Counter()}
    for kind, number in (("api", calls), ("cli", commands)):
        for done, outcome in enumerate(run_cases(kind, 0, number, seed), start=1):
            counts[kind][outcome.kind] += 1
            if outcome.kind == "failed":
                where = (outcome.did.partition("(")[0] if kind == "api" else kind, outcome.how[:60])
                failures.setdefault(where, []).append(outcome)
            if done % 500 == 0 or done == number:
                print(f"{kind}: {done:,} of {number:,}, {dict(counts[kind])}, {time.time() - began:.0f} s", flush=True)
    for found in sorted(failures.values(), key=len, reverse=True):
        first = found[0]
        print(f"\n{len(found)} × {first.did}\n    {first.how}\n    repeat: --seed {seed} --case {first.case}")
    named = _run_named()
    accepted = [name for name, problem in named.items() if problem]
    for name in accepted:
        print(f"\nnamed case {name}\n    {named[name]}")
    num_failed = sum(count["failed"] for count in counts.values())
    print(f"\n{calls:,} calls, {commands:,} commands, {len(named)} named cases: {num_failed + len(accepted)} failures")
    if record is not None:
        content = {
            "seed": seed,
            "calls": dict(sorted(counts["api"].items())),
            "commands": dict(sorted(counts["cli"].items())),
            "named": {"passed": len(named) - len(accepted), "failed": accepted},
            "failures": [
                {"case": found[0].case, "number": len(found), "did": found[0].did, "how": found[0].how}
                for found in failures.values()
            ],
            "seconds": round(time.time() - began),
            "commit": _commit(),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in _PACKAGES},
        }
        record.write_text(json.dumps(content, indent=2) + "\n")
        print(f"The record is {record}")
    return num_failed + len(accepted)


def _run_named() -> dict[str, str]:
    """For each named case, why it fails, or nothing: the tests of `test_named.py`, one by one."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/fuzz/test_named.py",
        "-q",
        "--tb=line",
        "-rA",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        state, _, rest = line.partition(" ")
        if state in ("PASSED", "FAILED", "ERROR") and "::" in rest:
            name, _, why = rest.partition(" - ")
            found[name.partition("::")[2]] = "" if state == "PASSED" else why or state.lower()
    if not found:
        raise RuntimeError(f"The named cases could not be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def _commit() -> str:
    """The commit, with a star if something is not committed."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True, check=False).stdout
    return commit + ("*" if changed.strip() else "")


def main() -> int:
    """Read the flags and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--commands", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="run only this one again, such as api:1234")
    parser.add_argument("--record", type=Path, help="where to write the record")
    given = parser.parse_args()
    if given.case:
        return repeat(given.case, given.seed)
    return int(run(given.calls, given.commands, given.seed, given.record) > 0)


if __name__ == "__main__":
    sys.exit(main())
