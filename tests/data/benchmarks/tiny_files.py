"""A tiny graph, and ways to damage the files of benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])  # a path of three nodes


def change(path: Path, **functions: Callable[[np.ndarray], np.ndarray]) -> Path:
    """The file with some of its arrays changed."""
    with np.load(path) as file:
        arrays = {name: functions[name](file[name]) if name in functions else file[name] for name in file.files}
    np.savez(path, **arrays)
    return path


def put(place, value):
    """A function from an array to one with another value in this place."""

    def function(array: np.ndarray) -> np.ndarray:
        array = array.astype(np.int64) if array.dtype.kind == "u" else array.copy()
        array[place] = value
        return array

    return function
