"""`python -m reproduction import`: files for the data root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from crawl.cli.flags import FolderPath


@dataclass(frozen=True)
class Import:
    """Fill the data root from local files: compact or published ones, or images.

    Attributes:
        name: The benchmark.
        path: A folder with its files, or one of them; README.md beside this program describes them.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
    """

    name: Annotated[str, tyro.conf.Positional]
    path: Annotated[Path, tyro.conf.Positional]
    data_root: FolderPath = None

    def run(self) -> None:
        """Read, check, write."""
        from crawl.data.benchmarks import load_benchmark
        from reproduction.brec import NUM_PAIRS, import_pairs
        from reproduction.imports import import_files

        if self.name.lower() == "brec":  # pairs, not graphs with targets
            print(f"BREC: {NUM_PAIRS} pairs in {import_pairs(self.path, self.data_root)}")
            return
        path = import_files(self.name, self.path, self.data_root)
        dataset = load_benchmark(self.name, self.data_root)
        what = "with targets " if dataset.owner != "graph" else ""
        print(f"{dataset.name}: {len(dataset):,} {dataset.owner}s {what}in {path}")
