"""Eigenvectors of the Laplacian: coordinates of the nodes in which neighbours are near each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import linalg
from threadpoolctl import threadpool_limits
from torch import Tensor

from crawl.checks import MAX_SEED, MAX_WIDTH, whole_number
from crawl.graph import Graph
from crawl.walks.checks import check_graph

_MOST_DENSE = 1000  # nodes of a graph whose eigenvectors are all computed

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def laplacian_eigenvectors(graph: Graph, number: int = 8, *, seed: int | None = None) -> Tensor:
    """`[N, number]` float32: the entry of each node in the eigenvectors of its graph's normalised Laplacian.

    Those with the smallest eigenvalues, except the first one, which says nothing; zeros where a graph has fewer. If v
    is an eigenvector then -v is one, too: without a seed it is always the one whose entry of largest size is positive,
    with a seed a sign is drawn for each. Within an eigenspace of several dimensions the choice is arbitrary.

    Args:
        graph: Edges count in both directions, with their weights if there are any. On any device.
        number: The number of columns.
        seed: Of the signs.
    """
    check_graph(graph)
    number = whole_number("number", number, 1, MAX_WIDTH)
    generator = None if seed is None else np.random.default_rng(whole_number("seed", seed, 0, MAX_SEED))
    device, graph = graph.device, graph.to("cpu")
    out = np.zeros((graph.num_nodes, number), np.float32)
    adjacency = _adjacency(graph)
    ptr = graph.graph_ptr.tolist()
    with threadpool_limits(1):  # small matrices; and the result shall not depend on the threads
        for begin, end in pairwise(ptr):
            if end - begin < 2:
                continue
            vectors = _eigenvectors(adjacency[begin:end, begin:end], number + 1)[:, 1:]
            largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
            signs = np.where(largest < 0, -1.0, 1.0)
            if generator is not None:
                signs = generator.choice([-1.0, 1.0], size=signs.shape)
            out[begin:end, : vectors.shape[1]] = vectors * signs
    return torch.from_numpy(out).to(device)


def _adjacency(graph: Graph) -> sparse.csr_array:
    weight = np.ones(graph.num_arcs)
    if graph.cum_weight is not None:
        sums = graph.cum_weight.numpy().astype(np.float64)
        weight = np.diff(sums, prepend=0.0)
        first = graph.rowptr.numpy()[:-1][graph.degree.numpy() > 0]
        weight[first] = sums[first]
    size = (graph.num_nodes, graph.num_nodes)
    one_way = sparse.csr_array((weight, graph.col.numpy(), graph.rowptr.numpy()), shape=size)
    return (one_way + one_way.T) / 2


def _eigenvectors(adjacency: sparse.csr_array, number: int) -> Matrix:
    """`[n, at most number]` the eigenvectors with the smallest eigenvalues, ascending."""
    size = adjacency.shape[0]
    degree = adjacency.sum(axis=1)
    root = sparse.diags_array(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    similar = root @ adjacency @ root  # I minus this is the Laplacian
    if size <= max(_MOST_DENSE, 2 * number):
        laplacian = np.diag((degree > 0).astype(float)) - similar.toarray()
        vectors: Matrix = np.linalg.eigh(laplacian).eigenvectors[:, :number]
        return vectors
    shifted = sparse.diags_array((degree == 0) * -1.0) + similar
    values, vectors = linalg.eigsh(shifted, k=number, which="LA", v0=np.ones(size))
    return vectors[:, np.argsort(-values)]
