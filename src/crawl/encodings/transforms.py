"""The encodings as transforms of PyG: each adds rows of numbers to the nodes or edges of a `Data` or `Batch`.

By default they are appended to `x` or `edge_attr`, as `crawl.nn.WithEncodings` takes them. Categories there, which are
integers, become floating-point numbers of the same value. Steps are taken in proportion to `edge_weight`, if there is
one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from crawl.checks import MAX_WIDTH, shown, whole_number
from crawl.encodings.cycles import cycle_counts
from crawl.encodings.probabilities import return_probabilities, walk_probabilities
from crawl.encodings.settings import LONGEST_CYCLE, MAX_STEPS
from crawl.encodings.spectrum import laplacian_eigenvectors
from crawl.graph import Graph
from crawl.tensor_checks import plain_tensor


class AddReturnProbabilities(BaseTransform):  # type: ignore[misc]
    """Adds `return_probabilities` to the nodes (RWSE).

    Args:
        num_steps: The number of columns.
        attr_name: The attribute that gets them; None appends them to `x`.
    """

    def __init__(self, num_steps: int = 20, attr_name: str | None = None) -> None:
        self.num_steps, self.attr_name = whole_number("num_steps", num_steps, 1, MAX_STEPS), _name(attr_name)

    def forward(self, data: Data) -> Data:
        """The data with the encodings."""
        _add(data, "x", return_probabilities(_graph(data), self.num_steps), self.attr_name)
        return data


class AddWalkProbabilities(BaseTransform):  # type: ignore[misc]
    """Adds `walk_probabilities` to the edges (RRWP, together with `AddReturnProbabilities`).

    Args:
        num_steps: The number of columns.
        attr_name: The attribute that gets them; None appends them to `edge_attr`.
    """

    def __init__(self, num_steps: int = 20, attr_name: str | None = None) -> None:
        self.num_steps, self.attr_name = whole_number("num_steps", num_steps, 1, MAX_STEPS), _name(attr_name)

    def forward(self, data: Data) -> Data:
        """The data with the encodings."""
        _add(data, "edge_attr", walk_probabilities(_graph(data), self.num_steps), self.attr_name)
        return data


class AddLaplacianEigenvectors(BaseTransform):  # type: ignore[misc]
    """Adds `laplacian_eigenvectors` to the nodes, with signs drawn anew each time by torch's generator.

    As the `transform` of a data set it draws the signs whenever a graph is read, so in each epoch of a `DataLoader`.

    Args:
        number: The number of columns.
        attr_name: The attribute that gets them; None appends them to `x`.
    """

    def __init__(self, number: int = 8, attr_name: str | None = None) -> None:
        self.number, self.attr_name = whole_number("number", number, 1, MAX_WIDTH), _name(attr_name)

    def forward(self, data: Data) -> Data:
        """The data with the encodings."""
        seed = int(torch.randint(2**62, (), device="cpu"))
        _add(data, "x", laplacian_eigenvectors(_graph(data, undirected=True), self.number, seed=seed), self.attr_name)
        return data


class AddCycleCounts(BaseTransform):  # type: ignore[misc]
    """Adds `cycle_counts` to the nodes and to the edges, as floating-point numbers.

    Args:
        longest: The length of the longest cycles.
        attr_name: The attribute that gets those of the nodes; None appends them to `x`.
        edge_attr_name: The attribute that gets those of the edges; None appends them to `edge_attr`.
    """

    def __init__(self, longest: int = 8, attr_name: str | None = None, edge_attr_name: str | None = None) -> None:
        self.longest = whole_number("longest", longest, 3, LONGEST_CYCLE)
        self.attr_name, self.edge_attr_name = _name(attr_name), _name(edge_attr_name)

    def forward(self, data: Data) -> Data:
        """The data with the encodings."""
        counts = cycle_counts(Graph.from_data(data, weighted=False, undirected=True), self.longest)
        _add(data, "x", counts.nodes.float(), self.attr_name)
        _add(data, "edge_attr", counts.edges.float(), self.edge_attr_name)
        return data


def appended(name: str, features: Tensor | None, encodings: Tensor) -> Tensor:
    """`[rows, C + width]` floating-point numbers: the features, if there are any, then the encodings.

    Raises:
        ValueError: If the features are not rows of numbers, or integers that floating-point numbers cannot hold.
    """
    if features is None:
        return encodings
    features = plain_tensor(name, features)
    rows = features.unsqueeze(1) if features.dim() == 1 else features
    if rows.dim() != 2 or len(rows) != len(encodings):
        raise ValueError(f"{name} must have {len(encodings)} rows of numbers, not shape {list(features.shape)}.")
    kind = torch.promote_types(rows.dtype, encodings.dtype)  # half precision has no room for counts
    numbers = rows.to(encodings.device, kind)
    if not rows.is_floating_point() and not torch.equal(numbers.to(rows.device, rows.dtype), rows):
        raise ValueError(f"{name} holds integers that {kind} cannot tell apart: number its categories from 0.")
    return torch.cat([numbers, encodings.to(kind)], dim=1)


def _name(given: str | None) -> str | None:
    if given is not None and (not isinstance(given, str) or not given.isidentifier()):
        raise ValueError(f"An attribute needs a name, such as 'pe', not {shown(given)}; None appends to the features.")
    return given


def _add(data: Data, name: str, encodings: Tensor, attr_name: str | None) -> None:
    if attr_name is None:
        data[name] = appended(name, getattr(data, name, None), encodings)
    else:
        data[attr_name] = encodings


def _graph(data: Data, undirected: bool = False) -> Graph:
    return Graph.from_data(data, weighted=getattr(data, "edge_weight", None) is not None, undirected=undirected)
