"""Images as graphs of superpixels, by the recipe of Dwivedi et al., Benchmarking Graph Neural Networks, JMLR 2023.

SLIC divides an image into at most 75 (MNIST) or 150 (CIFAR10) superpixels. A node has the mean intensity of its pixels;
its neighbours are the eight nodes with the largest weight, which falls with the distance of places and of intensities.
Superpixels depend on the version of scikit-image, so graphs made today are `rebuilt`, not the published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

NUM_NEIGHBOURS = 8
Image = np.ndarray[Any, np.dtype[np.uint8]]
Nodes = tuple[np.ndarray[Any, np.dtype[np.float32]], np.ndarray[Any, np.dtype[np.float32]]]


def superpixels(image: Image, num_segments: int, compactness: float, num_more: int) -> Nodes:
    """The mean intensity, `[N, C]`, and the place, `[N, 2]`, of each superpixel, from 0 to 1; needs scikit-image.

    Args:
        image: `[height, width]` or `[height, width, 3]`.
        num_segments: The largest number of superpixels; SLIC is asked for fewer until it gives no more than that.
        compactness: How much places count against intensities.
        num_more: How many more than that to ask for at first.
    """
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise ImportError("Superpixels need scikit-image; install it with: pip install scikit-image") from None
    values = (image / 255).astype(np.float64)
    for asked in range(num_segments + num_more, 0, -1):
        segments = slic(values, asked, compactness, channel_axis=2 if image.ndim == 3 else None, start_label=0)
        _, segments = np.unique(segments, return_inverse=True)
        segments = segments.reshape(-1)
        if segments.max() < num_segments:
            break
    sizes = np.bincount(segments)[:, None]
    grid = np.indices(image.shape[:2]).reshape(2, -1).T / np.array(image.shape[:2])
    flat = values.reshape(len(segments), -1)
    mean = np.stack([np.bincount(segments, column) for column in flat.T], axis=1) / sizes
    place = np.stack([np.bincount(segments, column) for column in grid.T], axis=1) / sizes
    return mean.astype(np.float32), place.astype(np.float32)


def mnist_nodes(image: Image) -> Nodes:
    """The superpixels of a digit."""
    return superpixels(image, 75, 0.25, 20)


def cifar10_nodes(image: Image) -> Nodes:
    """The superpixels of a colour image."""
    return superpixels(image, 150, 10.0, 50)


def all_nodes(
    images: Iterable[Image], nodes: Callable[[Image], Nodes], num_processes: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """The number of superpixels of each image, and their `x` and `pos`, one image after the other.

    The numbers have the precision that files keep (half), so that edges come out the same from a file.
    """
    if num_processes > 1:
        with ProcessPoolExecutor(num_processes) as pool:
            found = list(pool.map(nodes, images, chunksize=256))
    else:
        found = [nodes(image) for image in images]
    means, places = zip(*found, strict=True)
    sizes = torch.tensor([len(mean) for mean in means])
    x, pos = (torch.from_numpy(np.concatenate(parts)).half().float() for parts in (means, places))
    return sizes, x, pos


def nearest_neighbours(node_ptr: Tensor, x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The number of edges of each graph, `edge_index` and `edge_attr`, the weights.

    The weight of two nodes is exp(-(d_pos / s_pos)² - (d_x / s_x)²), averaged over the scales s of both nodes; the
    scale of a node is its mean distance from the nearest eight. A node is joined with the eight of the largest weight,
    and with those that have it among theirs.

    Args:
        node_ptr: `[G + 1]` where each graph begins.
        x: `[N, C]` intensities.
        pos: `[N, 2]` places.
    """
    sizes = node_ptr.diff()
    pieces: list[tuple[Tensor, Tensor, Tensor]] = []  # graph, edge_index and weight of edges
    for size in sizes.unique().tolist():  # type: ignore[no-untyped-call]
        same = (sizes == size).nonzero().flatten()
        for graphs in torch.split(same, max(1, 4_000_000 // size**2)):
            rows = node_ptr[graphs][:, None] + torch.arange(size)
            weight = _weights(x[rows], pos[rows])
            nearest = weight.topk(min(NUM_NEIGHBOURS, size - 1), dim=2).indices
            joined = torch.zeros_like(weight, dtype=torch.bool).scatter_(2, nearest, True)
            graph, source, target = (joined | joined.transpose(1, 2)).nonzero(as_tuple=True)
            pieces.append((graphs[graph], torch.stack([source, target]), weight[graph, source, target]))
    graph_of_edge = torch.cat([graph for graph, _, _ in pieces])
    order = graph_of_edge.argsort(stable=True)
    edge_index = torch.cat([edges for _, edges, _ in pieces], dim=1)[:, order]
    weights = torch.cat([weight for _, _, weight in pieces])[order]
    return graph_of_edge.bincount(minlength=len(sizes)), edge_index, weights.unsqueeze(1)


def _weights(x: Tensor, pos: Tensor) -> Tensor:
    """`[B, n, n]` the weight of each pair of nodes, in each of B graphs; -1 for a node and itself."""
    scaled = torch.zeros(len(x), x.shape[1], x.shape[1])
    for values in (pos, x):
        distance = torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = distance.topk(min(NUM_NEIGHBOURS + 1, x.shape[1]), dim=2, largest=False).values  # and the node itself
        scale = nearest.sum(dim=2, keepdim=True) / NUM_NEIGHBOURS
        scaled += (distance / (scale + 1e-8)).square()
    weight = (-scaled).exp()
    weight = (weight + weight.transpose(1, 2)) / 2
    return weight - torch.eye(x.shape[1]) * (1 + weight)
