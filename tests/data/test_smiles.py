import time

import pytest
import torch

pytest.importorskip("rdkit")

from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES
from crawl.data.smiles import molecule_graph, read_smiles, scaffold

MOLECULES = [
    "CCO",
    "[Na+].[Cl-]",
    "C",
    "[CH3]",
    "*C",
    "[U]",
    "Cl[C@H](/C=C/C)Br",
    "c1ccc2ccccc2c1",
    "[Fe](C)(C)(C)(C)(C)C",
]


def test_by_hand():
    # The same molecule and rows as in the comments of the Open Graph Benchmark's features.py.
    data = molecule_graph("Cl[C@H](/C=C/C)Br")
    assert data.x[1].tolist() == [5, 2, 4, 5, 1, 0, 2, 0, 0]
    assert data.edge_index[:, 4:6].tolist() == [[2, 3], [3, 2]]
    assert data.edge_attr[4:6].tolist() == [[1, 2, 0]] * 2


def test_benzene():
    data = molecule_graph("c1ccccc1")
    assert data.x.tolist() == [[5, 0, 3, 5, 1, 0, 1, 1, 1]] * 6
    assert data.edge_attr.tolist() == [[3, 0, 1]] * 12


@pytest.mark.parametrize("smiles", MOLECULES)
def test_shapes_and_ranges(smiles):
    data = molecule_graph(smiles)
    num_atoms = read_smiles(smiles).GetNumAtoms()
    assert data.x.shape == (num_atoms, len(ATOM_CATEGORIES))
    assert data.edge_attr.shape == (data.edge_index.shape[1], len(BOND_CATEGORIES))
    assert data.edge_index.dtype == data.edge_attr.dtype == data.x.dtype == torch.int64
    assert ((data.x >= 0) & (data.x < torch.tensor(ATOM_CATEGORIES))).all()
    assert ((data.edge_attr >= 0) & (data.edge_attr < torch.tensor(BOND_CATEGORIES))).all()
    assert torch.equal(data.edge_index[:, ::2], data.edge_index.flip(0)[:, 1::2])


def test_what_is_not_listed_comes_last():
    assert molecule_graph("*C").x[0, 0] == 118
    assert molecule_graph("[Fe+6]").x[0, 3] == 11


@pytest.mark.parametrize(
    ("smiles", "message"),
    [
        ("", "there is no SMILES"),
        ("  ", "there is no SMILES"),
        ("C1CC", "'C1CC' is not a molecule: the SMILES is not well formed"),
        ("CC(C)(C)(C)C", "Explicit valence for atom # 1 C, 5, is greater than permitted"),
        ("c1cccc1", "kekulize"),
    ],
)
def test_refuses(smiles, message, capfd):
    with pytest.raises(ValueError, match=message):
        read_smiles(smiles)
    assert capfd.readouterr().err == ""


def test_scaffold():
    assert scaffold(read_smiles("OCCc1ccccc1")) == scaffold(read_smiles("c1ccccc1")) == "c1ccccc1"
    assert scaffold(read_smiles("CCO")) == ""


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("C" * 3000, ""),
        ("C" * 3000 + "c1ccccc1", "c1ccccc1"),
        ("C" * 3000 + "C1CCC(=O)CC1", "O=C1CCCCC1"),
        ("O=" + "C" * 3000 + "c1ccccc1" + "CCO" + "c1ccccc1", "c1ccc(CCOc2ccccc2)cc1"),
    ],
)
def test_scaffold_of_a_long_chain_is_found_quickly(smiles, expected):
    began = time.process_time()
    assert scaffold(read_smiles(smiles)) == expected
    assert time.process_time() - began < 5  # seconds; 30 if the time grows with the third power of the length


def test_scaffold_of_a_long_molecule_is_that_of_a_short_one(monkeypatch):
    molecules = [read_smiles(smiles) for smiles in (*MOLECULES, "OCCc1ccccc1", "O=C1CCN(CC2CC2)C1", "C=C1CC1.CC")]
    expected = [scaffold(molecule) for molecule in molecules]
    monkeypatch.setattr("crawl.molecule_arrays._MOST_ATOMS", 0)
    assert [scaffold(molecule) for molecule in molecules] == expected
