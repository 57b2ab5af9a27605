"""`crawl data`: data sets of any size packed into files, from which a model is trained without reading all of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from crawl.cli.flags import Int, Word, Words
from crawl.cli.output import say

if TYPE_CHECKING:
    from crawl.data import Dataset


@dataclass(frozen=True)
class Pack:
    """Pack the molecules of a CSV file of any length into a folder, for `crawl train packed`.

    The folder holds the graphs, targets and the split that `crawl train csv` would have. Rows that cannot be used are
    listed in skipped.txt there, with their lines and reasons. Memory is a few numbers for each row.

    Attributes:
        input: A CSV file with SMILES (.gz is fine), or a folder with train.csv, valid.csv and test.csv.
        output: The folder to write, which must be new.
        smiles: The SMILES column, or several for molecules side by side; found by its name when not given.
        targets: The target columns; may be left out if there is only one besides.
        task: The kind of targets; auto finds it from their values.
        metric: The score; the usual one of the task when not given.
        split: random, stratified, scaffold, the name of a column, or a JSON file; random when not given.
        fractions: The shares of training, validation and test, if these are drawn; 0.8 0.1 0.1 when not given.
        seed: Of a split that is drawn.
        bad_rows: Skip and list rows that cannot be read, or refuse the file.
        weight: The column that says how much each row counts in training; all count alike when not given.
        shards: Write nodes and edges into this many files.
        shard_size: Instead, into files of at most this many graphs.
        jobs: How many processes read molecules.
    """

    input: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="INPUT")]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")]
    smiles: Words = ()
    targets: Words = ()
    task: Literal["auto", "regression", "binary", "multiclass", "multilabel"] = "auto"
    metric: Word = None
    split: Word = None
    fractions: Annotated[
        tuple[float, float, float] | None, tyro.conf.arg(metavar="FLOAT FLOAT FLOAT", help_behavior_hint="")
    ] = None
    seed: int = 0
    bad_rows: Literal["skip", "refuse"] = "skip"
    weight: Word = None
    shards: Int = None
    shard_size: Int = None
    jobs: int = 1

    def run(self) -> None:
        """Read, parse and write, a piece at a time."""
        from crawl.data.pack import pack_csv
        from crawl.runs.progress import lines

        if not self.input.exists():
            raise ValueError(f"There is no file or folder {self.input}.")
        began, doing = time.monotonic(), [f"reading {self.input}"]
        with lines(lambda: f"{doing[0]} after {time.monotonic() - began:.0f} s"):
            dataset = pack_csv(
                self.input,
                self.output,
                self.smiles or None,
                self.targets,
                split=self.split,
                fractions=self.fractions,
                seed=self.seed,
                bad_rows=self.bad_rows,
                task=self.task,
                metric=self.metric,
                weight_column=self.weight,
                shards=self.shards,
                shard_size=self.shard_size,
                jobs=self.jobs,
                on_progress=lambda text: doing.__setitem__(0, text),
            )
        seconds = max(time.monotonic() - began, 1e-3)
        if dataset.skipped:
            say(f"{len(dataset.skipped)} rows are skipped; {self.output / 'skipped.txt'} says which, and why")
        say(f"{_sizes(dataset)}, {len(dataset) / seconds:,.0f} molecules per second → {self.output}")


@dataclass(frozen=True)
class Check:
    """Compare the files of a packed store with their checksums, and print its sizes.

    Attributes:
        path: A folder of `crawl data pack`.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]

    def run(self) -> None:
        """Read, compare, print."""
        from crawl.data.packed import open_packed
        from crawl.runs.progress import lines

        with lines(f"reading {self.path}"):
            dataset = open_packed(self.path)
        print(f"{self.path}: {_sizes(dataset)}")


DataAction = Annotated[Pack, tyro.conf.subcommand("pack")] | Annotated[Check, tyro.conf.subcommand("check")]


@dataclass(frozen=True)
class DataCommand:
    """Pack data that need not fit into memory, or check a packed store.

    Attributes:
        action: What to do.
    """

    action: Annotated[DataAction, tyro.conf.arg(name="")]

    def run(self) -> None:
        """Do it."""
        self.action.run()


def _sizes(dataset: Dataset) -> str:
    split, store = dataset.split, dataset.store
    parts = f"{len(split.train)} for training, {len(split.val)} for validation, {len(split.test)} for the test"
    return f"{len(dataset)} graphs ({parts}), {store.num_nodes} nodes, {store.num_edges} edges"
