"""Graphs of any size that are made piece by piece, with classes that a walk network can learn.

Every node is in a group of five. Half of the groups are cliques; the members of the others have as many edges to
anywhere. All other edges lead from any node to nodes of which some are far likelier. So degrees tell nothing, and a
walk notices a clique because there are edges back. The class of a node says whether it is in a clique and whether its
first feature is positive: an accuracy of 50 % takes one of the two, more takes both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

GROUP = 5
NUM_CHANNELS = 8
MEAN_DEGREE = 10
CLASSES = ("alone_low", "alone_high", "clique_low", "clique_high")
_NODES_AT_ONCE = 10**5


def edge_blocks(num_nodes: int, seed: int = 0) -> Iterator[Array]:
    """`[m, 2]` source and target of directed edges in no order, ten times as many in all as there are nodes."""
    groups = _groups(num_nodes, seed)
    rng = np.random.default_rng([seed, 1])
    pairs = np.array([(i, j) for i in range(GROUP) for j in range(GROUP) if i != j])
    for begin in range(0, num_nodes, _NODES_AT_ONCE):
        size = min(_NODES_AT_ONCE, num_nodes - begin)
        members = groups[begin // GROUP : (begin + size) // GROUP]
        inside = members[:, pairs].reshape(-1, 2)
        is_clique = np.arange(begin // GROUP, (begin + size) // GROUP) < len(groups) // 2
        elsewhere = ~np.repeat(is_clique, len(pairs))
        inside[elsewhere, 1] = _ends(rng, num_nodes, int(elsewhere.sum()))
        num_others = size * (MEAN_DEGREE - GROUP + 1)
        others = np.stack([rng.integers(num_nodes, size=num_others), _ends(rng, num_nodes, num_others)], axis=1)
        block = np.concatenate([inside, others])
        rng.shuffle(block)
        yield block


def features(num_nodes: int, seed: int = 0) -> Iterator[Array]:
    """`[n, 8]` random numbers in float32, for some nodes at a time."""
    rng = np.random.default_rng([seed, 2])
    for begin in range(0, num_nodes, _NODES_AT_ONCE):
        yield rng.standard_normal((min(_NODES_AT_ONCE, num_nodes - begin), NUM_CHANNELS), np.float32)


def classes(nodes: Array, x: Array, num_nodes: int, seed: int = 0) -> Array:
    """`[n]` the class of each of these nodes, whose features are `x`."""
    groups = _groups(num_nodes, seed)
    is_in_clique = np.zeros(num_nodes, bool)
    is_in_clique[groups[: len(groups) // 2]] = True
    return 2 * is_in_clique[nodes] + (x[:, 0] > 0)


def labelled_nodes(num_nodes: int, sizes: dict[str, int], seed: int = 0) -> dict[str, Array]:
    """Some nodes, drawn without repetition, for each split."""
    drawn = np.random.default_rng([seed, 3]).choice(num_nodes, sum(sizes.values()), replace=False)
    return dict(zip(sizes, np.split(drawn, np.cumsum([*sizes.values()])[:-1]), strict=True))


def prepare(folder: Path, num_nodes: int, sizes: dict[str, int]) -> None:
    """Write `edges.csv`, `features.npy` and `graph/labels.csv` into a folder, if they are not there."""
    (folder / "graph").mkdir(parents=True, exist_ok=True)
    edges, x, labels = folder / "edges.csv", folder / "features.npy", folder / "graph" / "labels.csv"
    if not labels.is_file():
        write_features(x, num_nodes)
        write_edges(edges, num_nodes)
        write_labels(labels, x, num_nodes, sizes)


def write_edges(path: Path, num_nodes: int) -> None:
    """An edge list as text, two numbers a line."""
    with open(path, "w") as file:
        for block in edge_blocks(num_nodes):
            file.write("\n".join(f"{u},{v}" for u, v in block.tolist()) + "\n")


def write_features(path: Path, num_nodes: int) -> None:
    """All features as a .npy file."""
    x = np.lib.format.open_memmap(path, "w+", np.float32, (num_nodes, NUM_CHANNELS))
    begin = 0
    for rows in features(num_nodes):
        x[begin : begin + len(rows)] = rows
        begin += len(rows)
    x.flush()


def write_labels(path: Path, x: Path, num_nodes: int, sizes: dict[str, int]) -> None:
    """A table of id, label and split, for some nodes in no order; `x` is the file of `write_features`."""
    rows, mapped = [], np.load(x, mmap_mode="r")
    for part, nodes in labelled_nodes(num_nodes, sizes).items():
        labels = classes(nodes, mapped[nodes], num_nodes)
        rows += [f"{node},{CLASSES[label]},{part}" for node, label in zip(nodes.tolist(), labels.tolist(), strict=True)]
    order = np.random.default_rng(4).permutation(len(rows))
    path.write_text("\n".join(["id,label,split", *(rows[i] for i in order)]) + "\n")


def _groups(num_nodes: int, seed: int) -> Array:
    assert num_nodes % (2 * GROUP) == 0, f"give a multiple of {2 * GROUP} nodes"
    return np.random.default_rng([seed, 0]).permutation(num_nodes).reshape(-1, GROUP)


def _ends(rng: np.random.Generator, num_nodes: int, size: int) -> Array:
    return (num_nodes * rng.random(size) ** 2).astype(np.int64)
