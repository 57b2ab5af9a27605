"""Eigenvectors of the Laplacian: coordinates of the nodes in which neighbours are near each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import linalg
from threadpoolctl import threadpool_limits
from torch import Tensor

from crawl.checks import MAX_SEED, MAX_WIDTH, whole_number
from crawl.encodings.probabilities import arc_shares
from crawl.graph import Graph
from crawl.tensor_checks import in_memory
from crawl.threads import share_out
from crawl.walks.checks import check_graph

_MOST_DENSE = 1000  # nodes of a graph whose eigenvectors are all computed
_ENTRIES_AT_ONCE = 2**20  # of matrices of equal size

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def laplacian_eigenvectors(graph: Graph, number: int = 8, *, seed: int | None = None) -> Tensor:
    """`[N, number]` float32: the entry of each node in the eigenvectors of its graph's normalised Laplacian.

    They are ordered by their eigenvalues, the smallest first, without the very first one, which says nothing; zeros
    where a graph has fewer. If v is an eigenvector then -v is one, too: without a seed it is always the one whose
    largest entry by absolute value is positive; with a seed, a sign is drawn for each. Within an eigenspace of several
    dimensions the choice is arbitrary.

    Args:
        graph: Edges count in both directions, with their weights if there are any; of unequal weights of the two
            directions, it is a mean. A self-loop adds to the degree of its node, once. On any device; computed on
            the CPU.
        number: The number of columns.
        seed: Of the signs.

    Raises:
        ValueError: If weighted edges lead one way only, or if the eigenvectors of a large graph are not found.
    """
    check_graph(graph)
    number = whole_number("number", number, 1, MAX_WIDTH)
    generator = None if seed is None else np.random.default_rng(whole_number("seed", seed, 0, MAX_SEED))
    device, graph = graph.device, graph.to("cpu")
    with in_memory(f"A table of {number} eigenvectors on {graph}"):
        out = np.zeros((graph.num_nodes, number), np.float32)
    similar = _similar(graph)
    first, sizes = graph.graph_ptr[:-1].numpy(), graph.graph_ptr.diff().numpy()
    signs = None if generator is None else generator.choice([-1.0, 1.0], size=(graph.num_graphs, 1, number))
    pieces: list[tuple[int, Any]] = []  # a size, and some graphs of this size
    for size in np.unique(sizes[sizes > 1]).tolist():
        graphs = np.flatnonzero(sizes == size)
        at_once = max(_ENTRIES_AT_ONCE // size**2, 1)
        pieces += [(size, graphs[i : i + at_once]) for i in range(0, len(graphs), at_once)]

    def work(piece: int) -> None:
        size, graphs = pieces[piece]
        nodes = first[graphs][:, None] + np.arange(size)
        part = similar[nodes.ravel()]
        vectors = _eigenvectors(part, size, nodes[:, 0], number + 1)[:, :, 1:]
        if signs is None:
            largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
            vectors = np.where(largest < 0, -vectors, vectors)
        else:
            vectors = vectors * signs[graphs, :, : vectors.shape[2]]
        out[nodes, : vectors.shape[2]] = vectors

    with threadpool_limits(1):  # matrices are small, and the result must not depend on the threads
        share_out(work, len(pieces))
    return torch.from_numpy(out).to(device)


def _similar(graph: Graph) -> sparse.csr_array:
    """`[N, N]` the adjacency matrix, each entry divided by the roots of both degrees."""
    size = (graph.num_nodes, graph.num_nodes)
    rows = (graph.col.numpy(), graph.rowptr.numpy())
    if graph.is_weighted:
        # Of the weights w, a graph keeps the shares p_uv = w_uv / d_u. If w_uv = w_vu, the root of p_uv p_vu is what we
        # look for.
        steps = sparse.csr_array((arc_shares(graph), *rows), shape=size)
        steps.sum_duplicates()
        both = steps.multiply(steps.T).tocsr()
        if both.nnz < steps.nnz:
            raise ValueError(
                "Some weighted edges lead one way only, so they have no Laplacian: pass undirected=True to the graph, "
                "or leave out the weights."
            )
        return both.sqrt()
    one_way = sparse.csr_array((np.ones(graph.num_arcs), *rows), shape=size)
    adjacency = (one_way + one_way.T) / 2
    degree = adjacency.sum(axis=1)
    root = sparse.diags_array(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    return (root @ adjacency @ root).tocsr()


def _eigenvectors(similar: sparse.csr_array, size: int, first: Any, number: int) -> Matrix:
    """`[g, size, at most number]` the eigenvectors of each of g graphs with the smallest eigenvalues, ascending.

    `similar` holds the rows of these graphs; their nodes begin at `first`.
    """
    rows = similar.tocoo()
    graph, row = np.divmod(rows.row, size)
    column = rows.col - first[graph]
    if size <= max(_MOST_DENSE, 2 * number):
        dense = np.zeros((len(first), size, size))
        dense[graph, row, column] = rows.data
        has_edge = dense.any(axis=2, keepdims=True)
        laplacian = np.eye(size) * has_edge - dense
        smallest: Matrix = np.linalg.eigh(laplacian).eigenvectors[:, :, :number]
        return smallest
    matrix = sparse.coo_array((rows.data, (row, column)), shape=(size, size)).tocsr()
    shifted = matrix + sparse.diags_array((abs(matrix).sum(axis=1) == 0) * 1.0)
    try:
        return _largest(shifted, number)[None]
    except linalg.ArpackError:
        raise ValueError(f"The {number} eigenvectors of a graph of {size} nodes were not found: take fewer.") from None


def _largest(matrix: sparse.csr_array, number: int) -> Matrix:
    """`[size, number]` the eigenvectors with the largest eigenvalues, descending, of a matrix with none below -1.

    One search may find a single vector of an eigenspace of several dimensions, so those found are moved to the other
    end of the spectrum, until nothing that is left is larger than they are.
    """
    size, random = matrix.shape[0], np.random.default_rng(0)
    values, vectors = np.empty(0), np.empty((size, 0))
    while True:
        whole, moved, found = (linalg.aslinearoperator(part) for part in (matrix, vectors * (values + 2), vectors.T))
        start = random.standard_normal(size)  # anew: of each eigenspace, a start leads to one vector
        count = 1 if len(values) else number
        new_values, new_vectors = linalg.eigsh(whole - moved @ found, k=count, which="LA", v0=start)
        if len(values) and new_values.max() <= values.min() + 1e-9:
            return vectors
        values, vectors = np.append(values, new_values), np.hstack([vectors, new_vectors])
        order = np.argsort(-values)[:number]
        values, vectors = values[order], vectors[:, order]
