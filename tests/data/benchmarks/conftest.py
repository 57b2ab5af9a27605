"""What the tests of benchmarks share: tiny ones in place of the published."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crawl.data.benchmarks import BENCHMARKS, Statistics


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`shrink("zinc", (2, 1, 1), 3, 4)`: from now on ZINC shall have this many graphs, nodes and edges."""

    def set_statistics(name: str, num_graphs: tuple[int, ...], nodes: float, edges: float) -> None:
        statistics = Statistics(num_graphs=num_graphs, mean_nodes=nodes, mean_edges=edges)
        monkeypatch.setitem(BENCHMARKS, name, replace(BENCHMARKS[name], statistics=statistics))

    return set_statistics


@pytest.fixture
def zinc_folder(tmp_path: Path, shrink: Callable[..., None]) -> Path:
    """The published files of ZINC with four molecules, all of them paths."""
    shrink("zinc", (2, 1, 1), 3, 4)
    folder = tmp_path / "files" / "molecules"
    folder.mkdir(parents=True)
    bonds = torch.zeros(3, 3, dtype=torch.long)
    bonds[0, 1] = bonds[1, 0] = 1
    bonds[1, 2] = bonds[2, 1] = 3
    molecule = {"atom_type": torch.tensor([0, 5, 20]), "bond_type": bonds}
    for part in ("train", "val", "test"):
        molecules = [molecule | {"logP_SA_cycle_normalized": torch.tensor([float(i)])} for i in range(4)]
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
        (folder / f"{part}.index").write_text("1,3\n" if part == "train" else "2\n")
    return folder
