"""Molecules as graphs: atoms and bonds with the same categories as in the Open Graph Benchmark. Needs rdkit.

Each category has a fixed list of values, the last of them for all others: a model trained on one file reads any other.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch_geometric.data import Batch, Data

from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES
from crawl.molecule_arrays import categories_of, read_smiles, scaffold

from rdkit import Chem, rdBase  # isort: skip  (the module above says what to install where it is missing)

__all__ = ["canonical_smiles", "graph_of", "molecule_graph", "read_smiles", "scaffold", "side_by_side"]


def molecule_graph(smiles: str) -> Data:
    """The molecule with `x` `[N, 9]`, `edge_index` and `edge_attr` `[E, 3]`; each bond is listed both ways.

    Refuses text that is not a molecule, with the reason. The columns are those of `features.ATOM_COLUMNS` and
    `features.BOND_COLUMNS`.
    """
    return _graph(read_smiles(smiles))


def graph_of(molecule: Chem.Mol) -> Data:
    """The same for a molecule of rdkit: the graph that its SMILES has, with its atoms in their order.

    Hydrogens that are atoms of their own are taken for implicit ones, as rdkit does when it reads SMILES. Refuses a
    molecule without atoms, and one that makes no sense, with the reason.
    """
    with rdBase.BlockLogs():
        try:
            found = Chem.RemoveHs(molecule)
            Chem.AssignStereochemistry(found, cleanIt=True, force=True)
        except (ValueError, RuntimeError) as error:  # which rdkit raises of atoms with too many bonds, say
            reason = str(error).strip().splitlines() or ["it cannot be read"]
            raise ValueError(f"it is not a molecule: {reason[0]}") from None
    if found.GetNumAtoms() == 0:
        raise ValueError("it has no atoms")
    return _graph(found)


def _graph(molecule: Chem.Mol) -> Data:
    atoms, edges, bonds = categories_of(molecule)
    return Data(
        x=torch.tensor(atoms).reshape(-1, len(ATOM_CATEGORIES)),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t().contiguous(),
        edge_attr=torch.tensor(bonds, dtype=torch.long).reshape(-1, len(BOND_CATEGORIES)),
    )


def side_by_side(graphs: Sequence[Data]) -> Data:
    """Several molecules as one graph, without an edge between them; one alone as it is.

    The last column of `x` says which molecule an atom is of, from 0.
    """
    if len(graphs) == 1:
        return graphs[0]
    graphs = [copy.copy(graph) for graph in graphs]
    for part, graph in enumerate(graphs):
        graph.x = torch.cat([graph.x, torch.full((len(graph.x), 1), part)], dim=1)
    joined = Batch.from_data_list(graphs)
    return Data(x=joined.x, edge_index=joined.edge_index, edge_attr=joined.edge_attr)


def canonical_smiles(smiles: str) -> str:
    """The one SMILES of a molecule, whichever of its SMILES is given. Refuses text that is not a molecule."""
    return Chem.MolToSmiles(read_smiles(smiles))
