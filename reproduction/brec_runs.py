"""Rows of the BREC table: a network and a seed, with a small JSON file each, and what is left to run of them.

The file is `{"format", "network", "seed", "settings", "num_parameters", …, "pairs": [{"pair", "epochs", "loss", "t2",
"control"}]}`, a line for each pair. `t2` and `control` have a number for each of `Settings.counts`, as far as they were
computed: until the pair was decided.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch

from crawl.checks import check_choice, whole_number
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked, structure
from crawl.runs.environment import both_commits, environment_record, reset_peak_memory
from crawl.runs.folder import RunFolder
from crawl.training.trainer import choose_device
from reproduction.brec import NETWORKS, THRESHOLD, Contest, Pair, PairRecord, Settings, load_pairs
from reproduction.reproduce import say

FOLDER = Path("runs/brec")
_FORMAT = "crawl-brec-1"
_SAVE_EVERY_S = 10.0
_KEYS = ("format", "network", "seed", "settings", "num_parameters", "pairs")  # the others say how a row was made


class _File(TypedDict):
    format: str
    network: str
    seed: int
    settings: dict[str, Any]
    num_parameters: int
    wall_time_s: float
    runs_at_a_time: int
    device: str
    commit: str | None
    pairs: list[PairRecord]


@dataclass
class Row:
    """A network and a seed, and what was found so far.

    Attributes:
        network: One of `NETWORKS`.
        seed: Of relabellings, weights and walks.
        settings: What the protocol leaves open.
        num_parameters: The number of weights; 0 before it was run.
        made: Time, device, commit and versions of all runs together.
        pairs: The pairs tested, by their number.
    """

    network: str
    seed: int
    settings: Settings
    num_parameters: int = 0
    made: dict[str, Any] = field(default_factory=dict)
    pairs: dict[int, PairRecord] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its file is called, without the ending."""
        return f"{self.network}-seed-{self.seed}"

    def failed_controls(self, index: int, pairs: Iterable[int]) -> list[int]:
        """Those of the pairs whose control is not below the threshold with the mean of `counts[index]` evaluations; of
        fewer, if these have decided.
        """
        return [pair for pair in pairs if pair in self.pairs and not self._at("control", index, pair) < THRESHOLD]

    def distinguished(self, index: int, pairs: Iterable[int]) -> list[int]:
        """Those of the pairs whose T² is above the threshold with the mean of `counts[index]` evaluations, and whose
        control is below it.
        """
        above = [pair for pair in pairs if pair in self.pairs and self._at("t2", index, pair) > THRESHOLD]
        return sorted(set(above) - set(self.failed_controls(index, above)))

    def _at(self, name: Literal["t2", "control"], index: int, pair: int) -> float:
        values = self.pairs[pair][name]
        return values[min(index, len(values) - 1)]

    def write(self, folder: Path) -> None:
        """Write its file."""
        head = {"format": _FORMAT, "network": self.network, "seed": self.seed, "settings": asdict(self.settings)}
        head |= {"num_parameters": self.num_parameters, **self.made}
        lines = ",\n".join(json.dumps(self.pairs[pair]) for pair in sorted(self.pairs))
        write_atomically(folder / f"{self.name}.json", f'{json.dumps(head)[:-1]}, "pairs": [\n{lines}\n]}}\n')


def read_row(path: Path) -> Row:
    """The row in a file.

    Raises:
        ValueError: If it is another file, or damaged.
    """
    return read_checked(path, _row, "remove it, and run the row again")


def _row(text: str) -> Row:
    content = parse_json(text)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("it is not a row of BREC")
    file = structure(_File, content, "it")
    check_choice("network", file["network"], NETWORKS)
    settings = structure(Settings, file["settings"], "settings")
    num_counts = len(settings.counts)
    for record in file["pairs"]:
        if not 1 <= len(record["t2"]) == len(record["control"]) <= num_counts:
            raise ValueError(f"pair {record['pair']} does not have 1 to {num_counts} values of T² and of its control")
    made = {key: value for key, value in content.items() if key not in _KEYS}
    pairs = {record["pair"]: record for record in file["pairs"]}
    return Row(file["network"], file["seed"], settings, file["num_parameters"], made, pairs)


def read_rows(folder: Path) -> list[Row]:
    """The rows in a folder, by network and seed.

    Raises:
        ValueError: If a file is damaged, or seeds of a network have different settings.
    """
    names = [f"{network}-seed-*.json" for network in NETWORKS]
    rows = [read_row(path) for name in names for path in folder.glob(name)]
    rows.sort(key=lambda row: (list(NETWORKS).index(row.network), row.seed))
    for before, row in pairwise(rows):
        if row.network == before.network and row.settings != before.settings:
            raise ValueError(f"{before.name} and {row.name} in {folder} have different settings: move one of them.")
    return rows


def run_rows(
    folder: Path,
    pairs: Sequence[int],
    settings: Settings,
    *,
    networks: Sequence[str] = (),
    num_seeds: int = 3,
    jobs: int = 1,
    minutes: float | None = None,
    device: str = "auto",
    root: str | Path | None = None,
    threads: int | None = None,
) -> None:
    """Test the pairs that are not tested yet, and keep what was found in the folder.

    Args:
        folder: Where the files of the rows are.
        pairs: The numbers of the pairs.
        settings: What the protocol leaves open.
        networks: Some of `NETWORKS`; all without names.
        num_seeds: The seeds are 0, 1, ….
        jobs: Rows at a time, in threads of this process.
        minutes: Stop after this many, when the pairs under way are tested; never when None.
        device: `auto`, `cpu` or `cuda`.
        root: The data root; the variable CRAWL_DATA or ~/.cache/crawl when None.
        threads: How many CPU threads compute in each row; the processor is shared evenly when None.

    Raises:
        InUse: If another process works in the folder.
        ValueError: As `Settings.check_walks` does, if the data are not there, or if the folder has rows with other
            settings.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    for name in networks or NETWORKS:
        settings.check_walks(name)
    whole_number("num_seeds", num_seeds)
    graphs = load_pairs(root)
    folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(folder).locked():
        rows = [
            _begun(folder, Row(network, seed, settings))
            for seed in range(num_seeds)
            for network in dict.fromkeys(networks or NETWORKS)
        ]
        rows = [row for row in rows if not row.pairs.keys() >= set(pairs)]
        # The largest first: a captured step can work in the memory of a larger one, not of a smaller.
        by_size = sorted(pairs, key=lambda pair: graphs[pair][0].number_of_edges(), reverse=True)
        chosen, jobs = [(pair, graphs[pair]) for pair in by_size], max(1, min(jobs, len(rows)))
        threads = threads or max(1, torch.get_num_threads() // jobs)
        _Work(folder, chosen, choose_device(device), jobs, threads).run(rows, deadline)


def _begun(folder: Path, row: Row) -> Row:
    """The row as it was left in the folder."""
    path = folder / f"{row.name}.json"
    if not path.is_file():
        return row
    found = read_row(path)
    if found.settings != row.settings:
        given, there = asdict(row.settings), asdict(found.settings)
        name = next(key for key in given if given[key] != there[key])
        raise ValueError(
            f"{path} holds a row with {name}={there[name]}, not {given[name]}: choose another folder with --out."
        )
    return found


@dataclass(frozen=True)
class _Work:
    """How rows are run.

    Attributes:
        folder: Where their files are.
        pairs: The numbers of the pairs, and the pairs.
        device: Where to compute.
        jobs: Rows at a time.
        threads: How many CPU threads compute in each.
        is_stopped: Set when no other pair shall be begun.
    """

    folder: Path
    pairs: Sequence[tuple[int, Pair]]
    device: torch.device
    jobs: int
    threads: int
    is_stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, rows: Sequence[Row], deadline: float | None) -> None:
        """Run the rows; if some fail, raise the first error after the others are done."""
        with ThreadPoolExecutor(self.jobs, initializer=self._prepare_thread) as pool:
            futures = [pool.submit(self._run_row, row, deadline) for row in rows]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                self.is_stopped.set()
                say("stopping after the pairs under way")
                raise

    def _prepare_thread(self) -> None:
        torch.set_num_threads(self.threads)
        if self.device.type == "cuda":
            torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]  # so that threads overlap

    def _run_row(self, row: Row, deadline: float | None) -> None:
        began, before = time.monotonic(), dict(row.made)
        reset_peak_memory()
        contest: Contest | None = None
        saved, is_saved = began, True
        try:
            for pair, _ in self.pairs:
                is_over = self.is_stopped.is_set() or (deadline is not None and time.monotonic() >= deadline)
                if is_over:
                    break
                if pair in row.pairs:
                    continue
                if contest is None:  # of all pairs asked for, so that what comes out does not depend on those left
                    contest = Contest(row.network, self.pairs, row.settings, row.seed, self.device)
                    row.num_parameters = contest.num_parameters
                row.pairs[pair], is_saved = contest.test(pair), False
                if time.monotonic() > saved + _SAVE_EVERY_S:
                    self._save(row, began, before)
                    saved, is_saved = time.monotonic(), True
        finally:
            if not is_saved:
                self._save(row, began, before)

    def _save(self, row: Row, began: float, before: dict[str, Any]) -> None:
        seconds = before.get("wall_time_s", 0.0) + time.monotonic() - began
        made = environment_record(self.device, seconds, self.jobs)
        if before:
            made["commit"] = both_commits(before["commit"], made["commit"])
        row.made = made
        row.write(self.folder)
        asked = [pair for pair, _ in self.pairs]
        tested = [pair for pair in asked if pair in row.pairs]
        found = row.distinguished(-1, tested)
        say(f"{row.name}: {len(tested)} of {len(asked)} pairs tested, {len(found)} distinguished")
