"""The links of one graph as a list: each once, by number, with the features of its edges both ways."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import shown
from crawl.data.pairs import pair_numbers, pairs_of_numbers
from crawl.edge_lists import arguments_of_data, checked_edge_list, refuse_weights
from crawl.tensor_checks import plain_tensor


@dataclass(frozen=True)
class LinkList:
    """The links of a graph, ascending by their number, each with the features of its edges.

    Attributes:
        numbers: `[L]` see `pair_numbers`.
        num_nodes: The number of nodes.
        edge_attr: `[2L, …]` the features of the edges from the smaller to the larger node, then of those back; or None.
        skipped: What does not count.
    """

    numbers: Tensor
    num_nodes: int
    edge_attr: Tensor | None
    skipped: tuple[str, ...]

    @classmethod
    def of(cls, data: Data, undirected: bool) -> LinkList:
        """The links of PyG data. Refuses an edge without a reverse, unless every edge is to be taken for a link."""
        refuse_weights(data)
        arguments = arguments_of_data(data, None)
        edge_index, num_nodes, _, graph_ptr, _ = checked_edge_list(**arguments)
        if len(graph_ptr) != 2:
            raise ValueError(f"data holds {len(graph_ptr) - 1} graphs: links are predicted within one graph.")
        edge_index = edge_index.cpu()
        column = (edge_index[0] != edge_index[1]).nonzero().flatten()
        num_loops = edge_index.shape[1] - len(column)
        way = edge_index[0] * num_nodes + edge_index[1]
        way, order = torch.sort(way[column], stable=True)
        is_first = torch.ones_like(way, dtype=torch.bool)
        is_first[1:] = way[1:] != way[:-1]
        way, column = way[is_first], column[order[is_first]]
        source, target = way // max(num_nodes, 1), way % max(num_nodes, 1)
        _, is_there = _places(way, target * num_nodes + source)
        if not undirected and not bool(is_there.all()):
            u, v = (int(end[~is_there][0]) for end in (source, target))
            raise ValueError(
                f"The edge from {u} to {v} has no reverse, and links have no direction: pass undirected=True to take "
                "every edge for a link. RandomLinkSplit keeps both directions with is_undirected=True."
            )
        numbers = torch.unique(pair_numbers(torch.stack([source, target], dim=1)))
        edge_attr = data.edge_attr
        if edge_attr is not None:
            pairs = pairs_of_numbers(numbers)
            (there, is_there), (back, is_back) = (
                _places(way, pairs[:, a] * num_nodes + pairs[:, b]) for a, b in ((0, 1), (1, 0))
            )
            there, back = torch.where(is_there, there, back), torch.where(is_back, back, there)
            rows = plain_tensor("edge_attr", edge_attr)
            if rows.dim() == 0 or len(rows) != edge_index.shape[1]:
                raise ValueError(f"edge_attr must have a row for each of {edge_index.shape[1]} edges: {shown(rows)}.")
            edge_attr = rows[column[torch.cat([there, back])].to(rows.device)]
        num_parallel = edge_index.shape[1] - num_loops - len(way)
        skipped = [f"self-loops, which are not links: {num_loops}"] if num_loops else []
        skipped += [f"parallel edges, of which the first counts: {num_parallel}"] if num_parallel else []
        return cls(numbers, num_nodes, edge_attr, tuple(skipped))

    @property
    def edge_index(self) -> Tensor:
        """`[2, 2L]` all links one way, then all the other way."""
        pairs = pairs_of_numbers(self.numbers).t()
        return torch.cat([pairs, pairs.flip(0)], dim=1)

    def only(self, ids: Tensor) -> LinkList:
        """Those of the links that the ids, ascending, name."""
        edge_attr = self.edge_attr
        if edge_attr is not None:
            edge_attr = edge_attr[torch.cat([ids, ids + len(self.numbers)]).to(edge_attr.device)]
        return LinkList(self.numbers[ids], self.num_nodes, edge_attr, self.skipped)

    def joined(self, numbers: Tensor) -> LinkList:
        """These links and others, which have no features."""
        joined = torch.unique(torch.cat([self.numbers, numbers]))
        if self.edge_attr is not None and len(joined) > len(self.numbers):
            u, v = pairs_of_numbers(joined[~torch.isin(joined, self.numbers)])[0].tolist()
            raise ValueError(
                f"The link of {u} and {v} in edge_label_index is not in edge_index, so it has no edge_attr."
            )
        return LinkList(joined, self.num_nodes, self.edge_attr, self.skipped)


def _places(ascending: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Where each value stands among ascending ones, and whether it is there."""
    place = torch.searchsorted(ascending, values).clamp_max(max(len(ascending) - 1, 0))
    return place, ascending[place] == values if len(ascending) else torch.zeros_like(values, dtype=torch.bool)
