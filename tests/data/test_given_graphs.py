"""Graphs in all forms that people have them in become the same store."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from crawl.data.given_graphs import are_molecules, is_one_graph, list_of, store_of, store_of_readable

SMILES = ["CCO", "c1ccccc1O", "C[C@H](N)C(=O)O", "F/C=C/F", "[NH4+].[Cl-]", "[H][H]", "[2H]C", "CC(=O)Oc1ccccc1C(=O)O"]


def test_one_graph_or_many():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    for one in ("CCO", nx.path_graph(2), data):
        assert is_one_graph(one)
        with pytest.raises(ValueError, match="a list of graphs, not a single one"):
            list_of(one)
    batch = Batch.from_data_list([data, data])
    assert not is_one_graph(batch)
    assert len(list_of(batch)) == 2
    with pytest.raises(ValueError, match=r"Graph 1 is a batch of 2 graphs: give batch\.to_data_list"):
        store_of([data, batch])


def test_molecules_of_rdkit_are_what_their_smiles_are():
    chem = pytest.importorskip("rdkit.Chem")
    molecules = [chem.MolFromSmiles(text) for text in SMILES]
    assert is_one_graph(molecules[0])
    assert are_molecules(molecules)
    expected = store_of(SMILES)
    with_hydrogens = [chem.AddHs(molecule) for molecule in molecules]
    mixed = [text if i % 2 else molecule for i, (text, molecule) in enumerate(zip(SMILES, molecules, strict=True))]
    for given in (molecules, with_hydrogens, mixed):
        found = store_of(given)
        assert all(torch.equal(getattr(found, name), getattr(expected, name)) for name in ("x", "edge_attr"))
        assert torch.equal(found.joined_edge_index, expected.joined_edge_index)
    assert with_hydrogens[0].GetNumAtoms() == 9  # which stay as they were given


def test_molecules_that_make_no_sense():
    chem = pytest.importorskip("rdkit.Chem")
    five_bonds = chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)
    with pytest.raises(ValueError, match=r"^Graph 1: it is not a molecule: Explicit valence for atom # 0 C[^\n]*$"):
        store_of(["C", five_bonds])
    with pytest.raises(ValueError, match="Graph 0: it has no atoms"):
        store_of([chem.Mol()])
    with pytest.raises(
        ValueError, match="Graph 1 must be a SMILES string or a molecule of rdkit, like the others, not NoneType"
    ):
        store_of([chem.MolFromSmiles("C"), None])


def test_what_can_be_read():
    pytest.importorskip("rdkit")
    store, is_read = store_of_readable(["CCO", "C1CC", None, float("nan"), "C", ""])
    assert is_read.tolist() == [True, False, False, False, True, False]
    assert store is not None
    assert store.node_ptr.tolist() == [0, 3, 4]
    store, is_read = store_of_readable([None, "nonsense"])
    assert store is None
    assert not is_read.any()
    with pytest.raises(
        ValueError, match="Graph 1 must be a SMILES string or a molecule of rdkit, like the others, not Graph"
    ):
        store_of_readable(["CCO", nx.path_graph(2)])
    with pytest.raises(
        ValueError,
        match="Graph 1 must be a networkx graph, PyG Data, a SMILES string or a molecule of rdkit, not NoneType",
    ):
        store_of_readable([nx.path_graph(2), None])


def test_all_kinds_of_lists():
    pytest.importorskip("rdkit")
    for given in (("C", "CC"), np.array(["C", "CC"]), (text for text in ("C", "CC"))):
        assert len(store_of(list_of(given))) == 2
