"""What trained models are applied to: a table of molecules, a folder of graphs, or a folder with one graph."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from crawl.cli.flags import WithModel, Words
from crawl.cli.output import check_apart, say

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from crawl.data import OneGraph
    from crawl.data.features import Columns, Unknown
    from crawl.data.link_folder import KnownLinks
    from crawl.data.node_folder import NodeFolder
    from crawl.data.packed import PackedStore
    from crawl.data.table import Row as TableRow
    from crawl.runs import TrainedModel

# The names of files that are read in a folder of data, and in that of a run or a saved model.
_OF_DATA = re.compile(
    r"(nodes|edges|labels)\.csv(\.gz)?|.*\.(crawl|graphml|json)|skipped\.txt"
    r"|.*_(A|graph_indicator|(graph|node|edge)_(labels|attributes))\.txt"
)
_OF_RUN = re.compile(r"(config|where|data|split|result|ensemble|calibration)\.json|.*\.safetensors")

Row = tuple[dict[str, str], "Data | str"]  # the columns of a line of the input, and its graph or why there is none


@dataclass(frozen=True, kw_only=True)
class WithInput(WithModel):
    """What a command needs to apply a trained model to other data.

    Attributes:
        input: A CSV file with SMILES (.gz is fine), a folder in the TU format, one of GraphML or JSON files with
            labels.csv, or without, one of crawl data pack, or, for a model of nodes, one with nodes.csv and edges.csv,
            or with graph.crawl; for a model of links, one with edges.csv, and perhaps nodes.csv; targets are not looked
            at.
        smiles: The SMILES column, or the columns if there are several; as in training when not given.
        unknown: What to do about categories that did not occur in training: encode them as zeros and say so, or stop.
        only: For a folder with graph.crawl, a table with a column id of the nodes that are wanted; all when not given.
    """

    input: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="INPUT")]
    smiles: Words = ()
    unknown: Literal["warn", "error"] = "warn"
    only: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None

    def check_input(self, output: Path) -> None:
        """Refuse an input that is not there, or that the output would replace."""
        self.check()
        if not self.input.exists():
            raise ValueError(f"There is no file or folder {self.input}.")
        check_apart(output, self._files())
        if self.smiles and self.input.is_dir():
            raise ValueError(f"{self.input} is a folder, which has no SMILES column: leave out --smiles.")
        if self.only is not None and not (self.input / "graph.crawl").is_file():
            raise ValueError(
                f"{self.input} is not a folder with graph.crawl, whose nodes --only chooses: leave it out."
            )

    def _files(self) -> Iterator[Path]:
        """What the command reads: files, and folders with the files in them."""
        yield self.input
        if self.input.is_dir():
            yield from (path for path in self.input.iterdir() if _OF_DATA.fullmatch(path.name))
        if self.only is not None:
            yield self.only
        yield self.run_folder
        if self.run_folder.is_dir():  # an ensemble has its models in folders of their own
            yield from (path for path in self.run_folder.rglob("*") if _OF_RUN.fullmatch(path.name))

    def is_of_one_graph(self, trained: TrainedModel) -> bool:
        """Whether the model answers for nodes, or links, of one graph. Refuses others of nodes, whose input is not
        read."""
        from crawl.runs.sources import Csv, OneGraphData

        if isinstance(trained.experiment.data, OneGraphData):
            return True
        if isinstance(trained.experiment.data, Csv):
            return False
        if trained.features.task.level != "graph":
            level = trained.features.task.level
            raise ValueError(f"{self.run_folder} predicts {level}s; use crawl.runs.TrainedModel in Python.")
        return False

    def nodes(
        self, trained: TrainedModel, unknown: Unknown
    ) -> tuple[Sequence[str], Iterator[dict[str, str]], OneGraph]:
        """The columns and rows of nodes in the folder of one graph, and the graph with these as its targets.

        Values that did not occur in training are counted in `unknown`.
        """
        from crawl.data.graph_folder import has_graph_file
        from crawl.data.node_folder import read_nodes
        from crawl.runs.sources import Links, Nodes

        data, names = trained.experiment.data, trained.features.task.target_names
        if has_graph_file(self.input):
            return self._nodes_of_graph_file(trained, unknown)
        if isinstance(data, Links):
            listed, store = self._link_tables(trained, unknown)
            return ("id",), (row.cells for row in listed.rows), store
        directed, others = False, [*names]
        if isinstance(data, Nodes):
            directed, others = data.directed, [*names, data.split]
        batches: Any = getattr(data, "batches", "full")
        columns = self._columns(trained)
        found, store = read_nodes(self.input, columns, unknown, others=others, directed=directed, batches=batches)
        self.check_unknown(unknown)
        assert found.nodes is not None
        return found.nodes.columns, (row.cells for row in found.rows), store

    def links(self, trained: TrainedModel, unknown: Unknown) -> tuple[KnownLinks, OneGraph]:
        """The links in the folder of a graph for a model of links, and the graph with all nodes as its targets."""
        from crawl.data.graph_folder import has_graph_file
        from crawl.data.link_folder import links_of_tables, read_link_graph

        if has_graph_file(self.input):
            self._check_graph_file(trained)
            known, store = read_link_graph(self.input)
            store = trained.features.encoded(store, unknown)
            self.check_unknown(unknown)
            return known, store
        listed, store = self._link_tables(trained, unknown)
        return links_of_tables(listed), store

    def _link_tables(self, trained: TrainedModel, unknown: Unknown) -> tuple[NodeFolder, OneGraph]:
        """What tables list for a model of links, and the graph with all nodes as its targets."""
        from crawl.data.link_folder import read_links
        from crawl.runs.sources import Links

        data = trained.experiment.data
        assert isinstance(data, Links)
        how: Any = {"split": data.split, "batches": data.batches}
        found = read_links(self.input, self._columns(trained), unknown, **how)
        self.check_unknown(unknown)
        return found

    def _nodes_of_graph_file(
        self, trained: TrainedModel, unknown: Unknown
    ) -> tuple[Sequence[str], Iterator[dict[str, str]], OneGraph]:
        """The same for a folder with graph.crawl, whose features have no names."""
        from crawl.data.graph_folder import read_graph_folder, rows_of
        from crawl.data.link_folder import read_link_graph
        from crawl.runs.sources import Links

        self._check_graph_file(trained)
        is_of_links = isinstance(trained.experiment.data, Links)
        read = read_link_graph(self.input, self.only)[1] if is_of_links else read_graph_folder(self.input, self.only)
        store = trained.features.encoded(read, unknown)
        self.check_unknown(unknown)
        return *rows_of(store, self.only), store

    def _check_graph_file(self, trained: TrainedModel) -> None:
        """Refuse a model that cannot be asked about a graph file."""
        from crawl.data.graph_folder import GRAPH

        if getattr(trained.experiment.data, "batches", None) != "closed":
            raise ValueError(
                f"{self.run_folder} was trained with batches of the full graph, and {self.input / GRAPH} is never in "
                "memory as a whole: train with --data.batches closed."
            )
        columns = trained.features.columns
        if columns is not None and columns.nodes:
            raise ValueError(
                f"{self.run_folder} was trained with features of nodes.csv, and those in {self.input / GRAPH} have no "
                "names: give a folder with nodes.csv and edges.csv, or train on a graph file."
            )

    def check_unknown(self, unknown: Unknown) -> None:
        """Refuse categories that did not occur in training, if flags say so."""
        if unknown and self.unknown == "error":
            raise ValueError(f"Categories in {self.input} were not there in training: {unknown}.")

    def table(self, trained: TrainedModel, unknown: Unknown) -> tuple[Sequence[str], Iterator[Row]]:
        """The columns of the input and its rows, which are read as they are asked for.

        Values in a folder that did not occur in training are counted in `unknown`.
        """
        from crawl.data.packed import is_packed, open_packed

        if is_packed(self.input):
            opened: Any = open_packed(self.input)
            found = packed_graphs(opened.store, opened.graph_names, 0, len(opened))
            return ("graph",), (({"graph": name}, graph) for name, graph in found)
        if self.input.is_dir():
            return ("graph",), (({"graph": name}, graph) for name, graph in self._graphs(trained, unknown))
        from crawl.data.table import Table

        read = self.molecule_reader(trained)
        table = Table(self.input)
        return table.columns, ((row.cells, row.problem or read(row, unknown)) for row in table)

    def names_of(self, columns: Sequence[str]) -> Sequence[str]:
        """What the table of the input itself calls these columns: two may share a name, or have none."""
        from crawl.data.table import Table

        path = self.input / "nodes.csv" if self.input.is_dir() else self.input
        table = Table(path) if path.is_file() else None
        return columns if table is None or table.columns != tuple(columns) else table.header

    def molecule_reader(self, trained: TrainedModel) -> Callable[[TableRow, Unknown], Data | str]:
        """What makes a graph, or the reason why there is none, of a row of the input, which is a table."""
        from crawl.data.molecules import row_reader
        from crawl.runs.sources import Csv, Packed

        data, features = trained.experiment.data, trained.features
        of_molecules = features.are_molecules or features.num_parts > 1
        if not isinstance(data, Csv) and not (isinstance(data, Packed) and of_molecules):
            raise ValueError(f"{self.run_folder} was not trained on molecules: give a folder of graphs, not a file.")
        number = features.num_parts
        if self.smiles and len(self.smiles) != number:
            raise ValueError(f"The model reads {number} SMILES columns, not the {len(self.smiles)} of --smiles.")
        names = self.smiles or (data.smiles if isinstance(data, Csv) else ()) or None
        return row_reader(self.input, names, features.columns)

    def _graphs(self, trained: TrainedModel, unknown: Unknown) -> Iterator[tuple[str, Data | str]]:
        """The names of the graphs in a folder, each with its graph or with the reason why there is none."""
        from crawl.data.folder import read_folder
        from crawl.data.tu import read_tu

        columns = self._columns(trained)
        if not any(self.input.glob("*_A.txt")):
            return read_folder(self.input, columns, unknown)
        store = read_tu(self.input, columns, unknown)
        return ((str(i), store.graph(i)) for i in range(len(store)))

    def _columns(self, trained: TrainedModel) -> Columns:
        """What the features of the training graphs were; an error if that is not known."""
        from crawl.data.features import Columns
        from crawl.runs.build import load_dataset
        from crawl.runs.features import Features
        from crawl.runs.sources import TU, Folder

        features, data = trained.features, trained.experiment.data
        if features.columns is not None:
            return features.columns
        widths = features.num_node_features + features.num_edge_features
        if not (features.node_categories or features.edge_categories or widths):
            return Columns()
        path = trained.where.path
        if isinstance(data, TU | Folder) and path and os.path.realpath(path) == os.path.realpath(self.input):
            # As for a run of an older version.
            found = Features.of(load_dataset(data, trained.experiment.data_seed, path=path))
            if found.columns is not None and replace(found, task=features.task, columns=None) == features:
                return found.columns
        raise ValueError(
            f"It is not known how the features of {self.run_folder} were numbered, so those in {self.input} may mean "
            "something else: predict in Python with crawl.runs.TrainedModel, or train again."
        )


def packed_graphs(
    store: PackedStore, names: Sequence[str], first: int, last: int, at_a_time: int = 1000
) -> Iterator[tuple[str, Data]]:
    """The graphs of a packed store from `first` to before `last`, without targets, and what they are called."""
    for begin in range(first, last, at_a_time):
        part = store.subset(range(begin, min(begin + at_a_time, last)))
        for i in range(len(part)):
            graph = part.graph(i)
            graph.y = graph.sample_weight = None
            yield names[begin + i], graph


def say_unknown(unknown: Unknown) -> None:
    """Say what is done about categories that did not occur in training, if there are any."""
    from crawl.runs.features import unknown_message

    if unknown:
        say(unknown_message(unknown))


def say_outside(outside: Mapping[str, int]) -> None:
    """Say what is outside the range of training: a line for each subject, such as `temp is`, with its rows."""
    for subject, number in outside.items():
        say(f"{subject} outside the range of training in {number} row{'s' * (number > 1)}")


@contextmanager
def counter(*, from_first: bool = False) -> Iterator[Callable[[int], None]]:
    """A function that counts rows for a person to watch; by a line every ten seconds where there is no terminal,
    which begin with the first rows if `from_first`."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from crawl.runs.progress import lines

    console = Console(stderr=True)
    if not console.is_terminal:
        numbers: list[int] = []
        began = time.monotonic()

        def line() -> str:
            done = sum(numbers)
            if from_first and not numbers:  # `lines` shows no empty one
                return ""
            seconds = time.monotonic() - began
            return f"{done} rows, {done / seconds:,.0f} per second" if done else f"no row is finished, {seconds:.0f} s"

        with lines(line):
            yield numbers.append
        return
    columns = (TextColumn("{task.completed:.0f} rows"), TextColumn("{task.fields[speed]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, speed="")

        def add(number: int) -> None:
            progress.advance(task, number)
            speed = progress.tasks[0].speed
            progress.update(task, speed="" if speed is None else f"{speed:,.0f} per second")

        yield add
