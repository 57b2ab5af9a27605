"""Molecules as graphs: atoms and bonds with the same categories as in the Open Graph Benchmark. Needs rdkit.

Each category has a fixed list of values, the last of them for all others: a model trained on one file reads any other.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import torch
from torch_geometric.data import Batch, Data

from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES

try:
    from rdkit import Chem, rdBase
except ImportError:
    raise ImportError("Molecules need rdkit; install it with: pip install rdkit") from None

_Chiral, _Hybrid = Chem.ChiralType, Chem.HybridizationType
_Type, _Stereo = Chem.BondType, Chem.BondStereo


def _numbered(*values: Any) -> Mapping[Any, int]:
    return {value: i for i, value in enumerate(values)}


_CHIRALITY = _numbered(
    _Chiral.CHI_UNSPECIFIED, _Chiral.CHI_TETRAHEDRAL_CW, _Chiral.CHI_TETRAHEDRAL_CCW, _Chiral.CHI_OTHER
)
_HYBRIDISATION = _numbered(_Hybrid.SP, _Hybrid.SP2, _Hybrid.SP3, _Hybrid.SP3D, _Hybrid.SP3D2)
_TYPE = _numbered(_Type.SINGLE, _Type.DOUBLE, _Type.TRIPLE, _Type.AROMATIC)
_STEREO = _numbered(_Stereo.STEREONONE, _Stereo.STEREOZ, _Stereo.STEREOE, _Stereo.STEREOCIS, _Stereo.STEREOTRANS)
_MOST_ATOMS = 500  # of which rdkit finds a scaffold quickly: its time grows with their third power


def read_smiles(smiles: str) -> Chem.Mol:
    """The molecule. Refuses text that is not one, with the reason."""
    if not smiles.strip():
        raise ValueError("there is no SMILES")
    with rdBase.BlockLogs():
        molecule: Chem.Mol | None = Chem.MolFromSmiles(smiles)
        if molecule is None:
            raise ValueError(f"{smiles!r} is not a molecule: {_why_not(smiles)}")
    if molecule.GetNumAtoms() == 0:
        raise ValueError(f"{smiles!r} has no atoms")
    return molecule


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
    atoms = [_atom_categories(atom) for atom in molecule.GetAtoms()]
    edges: list[tuple[int, int]] = []
    bonds: list[list[int]] = []
    for bond in molecule.GetBonds():
        source, target = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges += (source, target), (target, source)
        bonds += 2 * [_bond_categories(bond)]
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


def scaffold(molecule: Chem.Mol) -> str:
    """The SMILES of the Bemis–Murcko scaffold: the rings and what links them. Empty if there are no rings.

    In a molecule of more than 500 atoms no hydrogens take the place of side chains.
    """
    if molecule.GetNumAtoms() <= _MOST_ATOMS:
        return Chem.MolToSmiles(Chem.MurckoDecompose(molecule), isomericSmiles=False)
    bonds = nx.Graph((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds())
    kept = set(nx.k_core(bonds, 2))  # what is left when ends of chains are taken away until there are none
    for i in list(kept):
        kept |= {b.GetOtherAtomIdx(i) for b in molecule.GetAtomWithIdx(i).GetBonds() if b.GetBondType() != _Type.SINGLE}
    return Chem.MolFragmentToSmiles(molecule, sorted(kept), isomericSmiles=False) if kept else ""


def _atom_categories(atom: Chem.Atom) -> list[int]:
    return [
        _within(atom.GetAtomicNum() - 1, 118),
        _CHIRALITY.get(atom.GetChiralTag(), 4),
        _within(atom.GetTotalDegree(), 11),
        _within(atom.GetFormalCharge() + 5, 11),
        _within(atom.GetTotalNumHs(), 9),
        _within(atom.GetNumRadicalElectrons(), 5),
        _HYBRIDISATION.get(atom.GetHybridization(), 5),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    ]


def _bond_categories(bond: Chem.Bond) -> list[int]:
    return [_TYPE.get(bond.GetBondType(), 4), _STEREO.get(bond.GetStereo(), 5), int(bond.GetIsConjugated())]


def _within(value: int, num_values: int) -> int:
    """The value if it is one of 0 to num_values - 1, or else the number after them."""
    return value if 0 <= value < num_values else num_values


def _why_not(smiles: str) -> str:
    molecule = Chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None:
        return "the SMILES is not well formed"
    problems = Chem.DetectChemistryProblems(molecule)
    return str(problems[0].Message()).strip() if problems else "it cannot be read"
