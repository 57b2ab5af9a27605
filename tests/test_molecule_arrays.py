"""Molecules as arrays are those of `crawl.data.smiles`, and reading them does not need torch."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from crawl.data.molecules import _graph
from crawl.data.store import GraphStore

pytest.importorskip("rdkit")

from crawl.molecule_arrays import parse_molecules, read_smiles, scaffold

ROWS = [("CCO", "O"), ("c1ccccc1C(=O)O", "[Na+].[Cl-]"), ("CC(", "O"), ("", "O"), ("C", "C[C@H](N)O"), ("C", "x")]


@pytest.mark.parametrize("columns", [("solute",), ("solute", "solvent")])
def test_arrays_are_the_graphs_of_the_reference(columns: tuple[str, ...]) -> None:
    found = parse_molecules([row[: len(columns)] for row in ROWS], columns)
    cells = [dict(zip(("solute", "solvent"), row, strict=True)) for row in ROWS]
    graphs = [_graph(row, columns) for row in cells]
    assert found.problems == {i: graph for i, graph in enumerate(graphs) if isinstance(graph, str)}
    assert set(found.problems) == ({2, 3} if len(columns) == 1 else {2, 3, 5})
    expected = GraphStore.from_graphs([graph for graph in graphs if not isinstance(graph, str)])
    assert torch.equal(torch.from_numpy(found.sizes[found.sizes[:, 0] > 0]).t().long(), expected.sizes)
    assert expected.x is not None
    assert expected.edge_attr is not None
    assert torch.equal(torch.from_numpy(found.x).long(), expected.x)
    assert torch.equal(torch.from_numpy(found.edges).t().long(), expected.edge_index)
    assert torch.equal(torch.from_numpy(found.bonds).long(), expected.edge_attr)


def test_scaffolds() -> None:
    found = parse_molecules([row[:1] for row in ROWS], with_scaffolds=True)
    assert found.scaffolds == ["", scaffold(read_smiles(ROWS[1][0])), "", "", "", ""]
    assert found.scaffolds[1] == "c1ccccc1"


def test_reading_molecules_does_not_need_torch() -> None:
    code = "import sys, crawl.molecule_arrays, crawl.processes; print(sorted({'torch', 'networkx'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
