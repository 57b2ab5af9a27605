"""`crawl embed`: graphs, or the nodes of a graph, in, an array with a row of numbers for each out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from crawl.cli.inputs import WithInput, counter, say_unknown
from crawl.cli.output import STDOUT, is_stream, open_output, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crawl.data.features import Unknown
    from crawl.runs import TrainedModel

_ROWS_AT_A_TIME = 1000


@dataclass(frozen=True, kw_only=True)
class Embed(WithInput):
    """Write what a trained model knows of each graph, or of each node, as numbers.

    The array has a row for each row of the input, in the same order: for a model of graphs the pooled states of a
    graph's nodes, for a model of nodes or links the states of the nodes in nodes.csv, or of nodes 0, 1, … of
    graph.crawl, as the head of the network sees them, as means over evaluations with different walks. Without
    nodes.csv, nodes come in the order in which edges.csv names them. A graph that cannot be read has a row of NaN.

    Attributes:
        output: A .npy file, as numpy.load reads it.
    """

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")]

    def run(self) -> None:
        """Read, embed and write."""
        if not is_stream(self.output) and self.output.suffix != ".npy":
            raise ValueError(
                f"Embeddings are written as an array of numpy: give a name that ends in .npy, not {self.output}."
            )
        self.check_input(self.output)
        trained = self.load()
        from crawl.data.features import Unknown
        from crawl.runs.sources import Csv

        level = trained.features.task.level
        if isinstance(trained.experiment.data, Csv) and level != "graph":
            what = "atoms" if level == "node" else "bonds"
            remedy = "use TrainedModel.embed in Python" if level == "node" else "bonds have no embeddings"
            raise ValueError(f"{self.run_folder} predicts {what}, not molecules: {remedy}.")

        unknown = Unknown()
        pieces, num_rows = (self._of_nodes if self.is_of_one_graph(trained) else self._of_graphs)(trained, unknown)
        with open_output(self.output, binary=True) as file, counter() as count:
            is_begun = False
            for piece in pieces:
                if not is_begun:
                    file.write(_header(num_rows, piece.shape[1]))
                    is_begun = True
                file.write(piece.tobytes())
                count(len(piece))
        say_unknown(unknown)
        say(f"{num_rows} rows" + ("" if self.output == STDOUT else f" → {self.output}"))

    def _of_nodes(self, trained: TrainedModel, unknown: Unknown) -> tuple[Iterator[NDArray[np.float32]], int]:
        """The embeddings of all nodes, many at a time, and how many there are."""
        _, _, store = self.nodes(trained, unknown)
        return trained.embeddings_in_pieces(store, **self.how), len(store)

    def _of_graphs(self, trained: TrainedModel, unknown: Unknown) -> tuple[Iterator[NDArray[np.float32]], int]:
        """The embeddings of all graphs, and how many there are; all are read first."""
        import numpy as np

        from crawl.data import GraphStore

        _, rows = self.table(trained, unknown)
        reasons: list[str | None] = []  # why a row cannot be read
        found = []
        while piece := [graph for _, graph in islice(rows, _ROWS_AT_A_TIME)]:
            reasons += [graph if isinstance(graph, str) else None for graph in piece]
            readable = [graph for graph in piece if not isinstance(graph, str)]
            if readable:
                store = trained.features.encoded(GraphStore.from_graphs(readable), unknown)
                self.check_unknown(unknown)
                found.append(trained.embed(store, **self.how))
        if not found:
            why = f" The first of {len(reasons)} has none because: {reasons[0]}." if reasons else ""
            raise ValueError(f"No row of {self.input} has an embedding.{why}")
        is_read = np.array([reason is None for reason in reasons])
        embeddings = np.full((len(reasons), found[0].shape[1]), np.nan, np.float32)
        embeddings[is_read] = np.concatenate(found)
        if not is_read.all():
            say(f"{(~is_read).sum()} rows cannot be read, and are NaN; crawl predict says why.")
        return iter([embeddings]), len(embeddings)


def _header(num_rows: int, width: int) -> bytes:
    """How a .npy file of float32 begins."""
    import io

    import numpy as np

    text = io.BytesIO()
    shape = {"descr": np.dtype("<f4").str, "fortran_order": False, "shape": (num_rows, width)}
    np.lib.format.write_array_header_1_0(text, shape)
    return text.getvalue()
