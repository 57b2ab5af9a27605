"""How far a graph is from those that a model was trained on, as the model sees them: by its embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from crawl.data.features import Column, Columns
from crawl.data.store import GraphStore
from crawl.nn.encoders import UNKNOWN
from crawl.nn.graph_features import LIMIT
from crawl.runs.features import Features
from crawl.training.checkpoint import load_checkpoint, save_checkpoint

FAR = 99.0  # the percentile from which on a graph is far
LEAST_GRAPHS = 20  # of the training and of the validation part
MOST_EMBEDDINGS = 2000  # that are kept of the training part
_NUM_NEIGHBOURS = 5
_FORMAT = "crawl-domain-1"

Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Domain:
    """Embeddings of training graphs, and how far validation graphs are from them.

    Attributes:
        embeddings: `[m, d]` of training graphs, or of some that were drawn, each column divided by `scale`.
        scale: `[d]` the standard deviation of each column over the training graphs.
        distances: `[v]` of the validation graphs, in ascending order.
    """

    embeddings: Rows
    scale: Rows
    distances: Rows

    @classmethod
    def of(cls, training: Rows, validation: Rows) -> Domain:
        """The domain of a model, by the embeddings of its training and validation graphs.

        Raises:
            ValueError: If there are too few.
        """
        for part, rows in (("training", training), ("validation", validation)):
            if len(rows) < LEAST_GRAPHS:
                raise ValueError(f"the {part} part has {len(rows)} graphs, and at least {LEAST_GRAPHS} are needed")
        deviation = training.std(axis=0)
        scale = np.where(deviation > 0, deviation, 1).astype(np.float32)
        if len(training) > MOST_EMBEDDINGS:
            training = np.random.default_rng(0).choice(training, MOST_EMBEDDINGS, replace=False)
        found = cls(training / scale, scale, np.empty(0, np.float32))
        return cls(found.embeddings, scale, np.sort(found.distance(validation)))

    def distance(self, embeddings: Rows) -> Rows:
        """`[n]` the mean distance to the five nearest of the training embeddings that are kept."""
        if not len(embeddings):
            return np.empty(0, np.float32)
        from sklearn.neighbors import NearestNeighbors  # which takes long to import

        nearest = NearestNeighbors(n_neighbors=_NUM_NEIGHBOURS).fit(self.embeddings)
        distances: Rows = nearest.kneighbors(embeddings / self.scale)[0].mean(axis=1).astype(np.float32)
        return distances

    def percentile(self, embeddings: Rows) -> NDArray[np.float64]:
        """`[n]` which share of the validation graphs, in percent, is nearer to the training graphs than each graph."""
        nearer = np.searchsorted(self.distances, self.distance(embeddings), side="left")
        return 100 * nearer / len(self.distances)

    def is_far(self, embeddings: Rows) -> NDArray[np.bool_]:
        """`[n]` whether each graph is farther away than 99 % of the validation graphs."""
        far: NDArray[np.bool_] = self.percentile(embeddings) >= FAR
        return far

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        tensors = {name: torch.from_numpy(rows) for name, rows in vars(self).items()}
        save_checkpoint(path, tensors, {"format": _FORMAT})

    @classmethod
    def load(cls, path: Path, width: int | None = None) -> Domain:
        """The domain in a file. Refuses what is damaged, or of a model whose embeddings have another width."""
        tensors, description = load_checkpoint(path)
        names = ("embeddings", "scale", "distances")
        is_whole = description.get("format") == _FORMAT and tensors.keys() == set(names)
        if not is_whole or not all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in tensors.values()):
            raise ValueError(f"{path} does not hold the embeddings of training graphs: remove it, or train again.")
        embeddings, scale, distances = (tensors[name].numpy() for name in names)
        fits = embeddings.ndim == 2 and len(embeddings) >= _NUM_NEIGHBOURS and scale.shape == embeddings.shape[1:]
        fits = fits and distances.ndim == 1 and len(distances) > 0 and bool((np.diff(distances) >= 0).all())
        if not fits or not bool((scale > 0).all()) or width not in (None, len(scale)):
            raise ValueError(f"{path} does not fit the model: remove it, or train again.")
        return cls(embeddings, scale, distances)


@dataclass(frozen=True)
class Distances:
    """How far graphs are from the training data of a model.

    Attributes:
        percentile: `[n]` which share of the validation graphs, in percent, is nearer; None if the model has no
            embeddings of training graphs, as models that were saved to share.
        has_unknown: `[n]` whether a graph has a category, such as an element or a word in a column, that did not occur
            in training.
        outside: `[n]` for each feature of graphs, such as a column of numbers or a descriptor, that is so far outside
            the range of training somewhere that the model clips it: where it is.
    """

    percentile: NDArray[np.float64] | None
    has_unknown: NDArray[np.bool_]
    outside: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def is_far(self) -> NDArray[np.bool_]:
        """`[n]` whether a graph is farther away than 99 % of the validation graphs, has an unknown category, or is
        outside the range of training."""
        found = [self.has_unknown, *self.outside.values()]
        found += [] if self.percentile is None else [self.percentile >= FAR]
        far: NDArray[np.bool_] = np.logical_or.reduce(found)
        return far


def has_unknown(store: GraphStore, columns: Sequence[Column] = ()) -> NDArray[np.bool_]:
    """`[G]` which graphs of a prepared store (`Features.prepared`) have categories that did not occur in training.

    The columns are those that `u` begins with: words are one-hot there, and an unknown one is 0 everywhere.
    """
    found = torch.zeros(len(store), dtype=torch.bool)
    for rows, ptr in ((store.x, store.node_ptr), (store.edge_attr, store.edge_ptr)):
        if rows is None or rows.is_floating_point():
            continue
        wrong = (rows.reshape(len(rows), -1) == UNKNOWN).any(dim=1).cpu()
        owner = torch.repeat_interleave(ptr.diff().cpu())
        found[owner[wrong]] = True
    first = 0
    for column in columns if store.u is not None else ():
        width = 1 if column.values is None else len(column.values)
        if column.values is not None:
            assert store.u is not None
            found |= (store.u[:, first : first + width] == 0).all(dim=1).cpu()
        first += width
    array: NDArray[np.bool_] = found.numpy()
    return array


def outside(store: GraphStore, features: Features) -> dict[str, NDArray[np.bool_]]:
    """`[G]` for each feature `u` of graphs that the model clips and training did not have like that: which graphs have.

    Nothing is found where all are like in training. In training a value is clipped at times, too, as counts that are 0
    for nearly all molecules: within the range of training, it is not outside. Models of older versions do not know the
    range: of these, numbers in columns are outside if they are clipped, and descriptors never.
    """
    if store.u is None:
        return {}
    columns = features.columns or Columns()
    names = [column.name for column in columns.graphs for _ in column.values or (None,)]
    num_columns = len(names)
    names += columns.descriptors
    names += [f"u[:, {k}]" for k in range(len(names), features.num_graph_features)]
    u = store.u.double().cpu()
    means, deviations = (u.new_tensor(values) for values in features.graph_scaling)
    is_outside = ((u - means) / deviations).abs() > LIMIT
    if features.graph_range[0]:
        least, most = (u.new_tensor(values) for values in features.graph_range)
        is_outside &= (u < least) | (u > most)
    else:
        is_outside[:, num_columns:] = False
    found: dict[str, NDArray[np.bool_]] = {}
    for k in is_outside.any(dim=0).nonzero().flatten().tolist():
        found[names[k]] = is_outside[:, k].numpy() | found.get(names[k], np.False_)
    return found
