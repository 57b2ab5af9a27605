"""A graph some of whose links are to be predicted: what is predicted in an epoch is not to be seen in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from crawl.data.encoding_rows import encoding_rows
from crawl.data.one_graph import OneGraph
from crawl.data.pairs import draw_other_pairs
from crawl.encodings.settings import Encodings
from crawl.graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class LinkGraph(OneGraph):
    """The training links of a graph, and pairs of nodes that are linked (1) or not (0).

    The first targets are drawn anew for each epoch by `drawn`: `num_hidden` of the training links, and `num_negatives`
    times as many pairs that are not linked. The others stay. The graph has the training links only, both ways: what is
    in the first half of `edge_index` one way is in the second half the other way.

    Attributes:
        known: `[K]` the numbers of all pairs that are known to be linked, in any split, ascending; see `pair_numbers`.
        num_hidden: How many training links an epoch hides and predicts.
        num_negatives: How many pairs that are not linked it predicts for each of them.
        encodings: What the last columns of `x` and `edge_attr` are; they would know the hidden links, so `drawn`
            computes them anew. See `with_encodings`.
    """

    known: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long, device="cpu"))
    num_hidden: int = 0
    num_negatives: int = 1
    encodings: Encodings = field(default_factory=Encodings)
    _stay: ClassVar[tuple[str, ...]] = ("owners", "known")

    @property
    def num_drawn(self) -> int:
        """How many of the first targets belong to an epoch."""
        return self.num_hidden * (1 + self.num_negatives)

    def drawn(self, seed: int) -> LinkGraph:
        """The graph of an epoch, without the links that are its first targets: no walk, bit or message sees them."""
        assert self.edge_index is not None
        generator, num_links = np.random.default_rng(seed), self.num_edges // 2
        hidden = torch.from_numpy(generator.choice(num_links, self.num_hidden, replace=False))
        links = self.edge_index[:, hidden.to(self.device)].t().cpu().long()
        num_others = self.num_drawn - self.num_hidden
        others = draw_other_pairs(num_others, self.num_nodes, self.known, generator)
        is_seen = torch.ones(2, num_links, dtype=torch.bool, device="cpu")
        is_seen[:, hidden] = False
        is_seen = is_seen.flatten().to(self.device)
        graph = without_edges(self.graph, is_seen)
        of_nodes, of_edges = encoding_rows(graph, self.encodings)
        return replace(
            self,
            graph=graph,
            owners=torch.cat([links, others, self.owners[self.num_drawn :]]),
            x=_with_last(self.x, of_nodes),
            edge_attr=_with_last(None if self.edge_attr is None else self.edge_attr[is_seen], of_edges),
            edge_index=self.edge_index[:, is_seen],
        )

    def subset(self, ids: Tensor) -> OneGraph:
        """The graph with all training links, and the targets `ids` only, in this order."""
        ids = self.checked_ids(ids)
        return replace(self.with_owners(self.owners[ids]), **self._rows_of(ids))


def _with_last(features: Tensor | None, columns: Tensor | None) -> Tensor | None:
    """The features, of which the last columns are replaced by these, if there are any."""
    if features is None or columns is None:
        return features
    return torch.cat([features[:, : -columns.shape[1]], columns.to(features.device, features.dtype)], dim=1)


def without_edges(graph: Graph, is_kept: Tensor) -> Graph:
    """The graph with the edges for which `[E]` booleans say so, numbered anew in their order."""
    assert graph.cum_weight is None
    if graph.rowptr.dtype == torch.int64:
        raise ValueError(f"Links cannot be hidden in a graph of {graph.num_arcs} arcs: fewer than 2³¹ can be numbered.")
    arc_is_kept = is_kept[graph.edge_id]
    before = torch.cat([arc_is_kept.new_zeros(1, dtype=torch.long), arc_is_kept.cumsum(0)])
    edge_id = (is_kept.cumsum(0) - 1)[graph.edge_id[arc_is_kept]]
    return replace(
        graph,
        rowptr=before[graph.rowptr].int(),
        col=graph.col[arc_is_kept],
        edge_id=edge_id.int(),
        num_edges=int(is_kept.sum()),
    )
