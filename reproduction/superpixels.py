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
