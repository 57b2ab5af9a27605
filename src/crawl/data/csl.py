"""The CSL benchmark (circular skip links), made in code: 150 graphs that message passing cannot tell apart.

Murphy et al., Relational Pooling for Graph Representations, ICML 2019; the folds are those of Dwivedi et al.,
Benchmarking Graph Neural Networks, JMLR 2023.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from crawl.checks import whole_number
from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.encodings.spectrum import laplacian_eigenvectors

SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
NUM_NODES = 41
NUM_COPIES = 15
NUM_FOLDS = 5
NUM_LAPLACIAN = 20  # eigenvectors of CSL+Lap
TASK = Task(
    kind="multiclass", num_outputs=10, metric="accuracy", target_names=("skip",), class_names=tuple(map(str, SKIPS))
)

# One line for each class, one word for each fold, one character for each graph: training, validation or test.
_FOLDS = """
v..v.....tt..vt .t..tt.v.....vv v.v..v.t...tt.. t.t.v......v.tv ..vtv.t.t...v..
.vv.v...t..tt.. .t..v.t..t.vv.. ..t..t....tv.vv t.v.t..tv....v. ...tv..v....vtt
..vv.t..vtt.... ..ttv...t.vv... .v..t....v.v.tt .t....t.v.vtv.. tv.....t.v..tv.
..t..t.vv..vt.. .tvt...t.v..v.. t...v..vvt....t .....v.vv.tt.t. ....tvt.tv....v
v...vvt...tt... ..t.v...v..vtt. ....tt.vvt.v... .t.vv..tt..v... t..t.v...v.v..t
t.v.vv.tt...... ..v.tt....tv.v. .tt....v..vt.v. v..t..t....v.tv v.....v..t.vt.t
.t.tt.v.v...v.. v......tv..tt.v v....t...ttv.v. ..tv..t..v.v..t t...v.v.t....tv
vvt..tv.....t.. .v.ttvt.v...... t.....v.v..tvt. vt......t.t.v.v .......t.tv.vvt
.......v.vtvtt. .v.t..vt.t...v. .vv.t.t.t.v.... .tv..t...v.tv.. tvt...v.....v.t
vt...t.tv...v.. .v......tv.vt.t ...ttv.v.t..v.. ..tv..v...ttv.. t.v..vt....v.t.
"""


def csl(fold: int = 0, laplacian: int = 0) -> Dataset:
    """CSL with one of its five published splits: 90 graphs for training, 30 for validation, 30 for the test.

    A graph of class c is a cycle of 41 nodes with a second cycle of links between nodes at distance `SKIPS[c]`, under
    new names of the nodes that are always the same. Its class is to be predicted. Nodes and edges have no features.

    Args:
        fold: The split, 0 to 4.
        laplacian: Give every node its entries in this many eigenvectors of the normalised Laplacian; see
            `laplacian_eigenvectors`. The signs stay the same; Dwivedi et al. draw them anew for each batch of training.
            Eigenvalues come in pairs here, so the vectors of a pair may differ between machines by a rotation.

    Raises:
        ValueError: For a fold that does not exist or more eigenvectors than there are.
    """
    fold = whole_number("fold", fold, 0, NUM_FOLDS - 1)
    laplacian = whole_number("laplacian", laplacian, 0, NUM_NODES - 1)
    num_graphs = len(SKIPS) * NUM_COPIES
    skip = np.repeat(SKIPS, NUM_COPIES)[:, None]
    node = np.arange(NUM_NODES)
    other = np.concatenate([node + np.ones_like(skip), node + skip], axis=1) % NUM_NODES  # [G, 2 · 41]
    edges = np.stack([np.broadcast_to(np.tile(node, 2), other.shape), other], axis=1)
    names = np.random.default_rng(0).permuted(np.tile(node, (num_graphs, 1)), axis=1)
    edges = names[np.arange(num_graphs)[:, None, None], edges]
    edges = np.concatenate([edges, edges[:, ::-1]], axis=2)  # [G, 2, 164], both directions

    store = GraphStore(
        node_ptr=torch.arange(num_graphs + 1) * NUM_NODES,
        edge_ptr=torch.arange(num_graphs + 1) * edges.shape[2],
        edge_index=torch.from_numpy(edges).transpose(0, 1).reshape(2, -1),
        y=torch.arange(len(SKIPS)).repeat_interleave(NUM_COPIES),
    )
    if laplacian:
        store = replace(store, x=laplacian_eigenvectors(store.joined(), laplacian))
    return Dataset(name="csl", store=store, task=TASK, split=_split(fold))


def _split(fold: int) -> Split:
    parts = "".join(line.split()[fold] for line in _FOLDS.strip().splitlines())
    train, val, test = (torch.tensor([i for i, part in enumerate(parts) if part == name]) for name in ".vt")
    return Split(train, val, test)
