"""What the tests of benchmarks share: tiny ones in place of the published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_files import EDGES

from crawl.data.benchmarks import BENCHMARKS, Statistics


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`shrink("zinc", (2, 1, 1), 3, 4)`: from now on ZINC shall have so many graphs, nodes and edges."""

    def set_statistics(name: str, num_graphs: tuple[int, ...], nodes: float, edges: float) -> None:
        statistics = Statistics(num_graphs=num_graphs, mean_nodes=nodes, mean_edges=edges)
        monkeypatch.setitem(BENCHMARKS, name, replace(BENCHMARKS[name], statistics=statistics))

    return set_statistics


@pytest.fixture
def zinc_file(tmp_path: Path, shrink: Callable[..., None]) -> Path:
    """A file in the layout of zinc12k.npz with four molecules, all of them paths."""
    shrink("zinc", (2, 1, 1), 3, 4)
    arrays = {}
    for part, number in {"train": 2, "val": 1, "test": 1}.items():
        arrays |= {
            f"{part}_x": np.tile([0, 5, 20], number).astype(np.uint8),
            f"{part}_edge_index": np.tile(EDGES, number).astype(np.uint8),
            f"{part}_edge_attr": np.tile([1, 1, 3, 3], number).astype(np.uint8),
            f"{part}_node_ptr": 3 * np.arange(number + 1, dtype=np.int32),
            f"{part}_edge_ptr": 4 * np.arange(number + 1, dtype=np.int32),
            f"{part}_y": np.arange(number, dtype=np.float32),
        }
    path = tmp_path / "files" / "zinc12k.npz"
    path.parent.mkdir()
    np.savez(path, **arrays)
    return path
