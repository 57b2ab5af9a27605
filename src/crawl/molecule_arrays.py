"""Molecules as arrays: atoms and bonds with the categories of the Open Graph Benchmark. Needs rdkit, and no torch.

Processes that only read molecules start in a moment and take little memory. `crawl.data.smiles` makes graphs of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from rdkit import Chem, rdBase
except ImportError:
    raise ImportError("Molecules need rdkit; install it with: pip install rdkit") from None

_Chiral, _Hybrid = Chem.ChiralType, Chem.HybridizationType
_Type, _Stereo = Chem.BondType, Chem.BondStereo
_ATOM_WIDTH, _BOND_WIDTH = 9, 3
_MOST_ATOMS = 500  # of which rdkit finds a scaffold quickly: its time grows with their third power


def _numbered(*values: Any) -> Mapping[Any, int]:
    return {value: i for i, value in enumerate(values)}


_CHIRALITY = _numbered(
    _Chiral.CHI_UNSPECIFIED, _Chiral.CHI_TETRAHEDRAL_CW, _Chiral.CHI_TETRAHEDRAL_CCW, _Chiral.CHI_OTHER
)
_HYBRIDISATION = _numbered(_Hybrid.SP, _Hybrid.SP2, _Hybrid.SP3, _Hybrid.SP3D, _Hybrid.SP3D2)
_TYPE = _numbered(_Type.SINGLE, _Type.DOUBLE, _Type.TRIPLE, _Type.AROMATIC)
_STEREO = _numbered(_Stereo.STEREONONE, _Stereo.STEREOZ, _Stereo.STEREOE, _Stereo.STEREOCIS, _Stereo.STEREOTRANS)


@dataclass(frozen=True)
class Molecules:
    """Several molecules, one after the other.

    Attributes:
        sizes: `[n, 2]` atoms and directed bonds of each; 0 where one cannot be read.
        x: `[N, 9]` uint8 categories of atoms; one more column where there are several molecules side by side.
        edges: `[E, 2]` int32 the two atoms of each bond, counted from 0 within a molecule; each is listed both ways.
        bonds: `[E, 3]` uint8 categories of bonds.
        problems: Why molecules cannot be read, by their place.
        scaffolds: The Bemis–Murcko scaffold of each, of the first where several are side by side, if it was asked for.
    """

    sizes: NDArray[np.int32]
    x: NDArray[np.uint8]
    edges: NDArray[np.int32]
    bonds: NDArray[np.uint8]
    problems: dict[int, str]
    scaffolds: list[str] | None = None


def parse_molecules(
    rows: Sequence[Sequence[str]], columns: Sequence[str] = ("smiles",), with_scaffolds: bool = False
) -> Molecules:
    """The molecules in rows of a table, whose cells are SMILES; several cells become one graph, side by side."""
    sizes = np.zeros((len(rows), 2), np.int32)
    problems: dict[int, str] = {}
    scaffolds: list[str] = []
    atoms: list[list[int]] = []
    edges: list[tuple[int, int]] = []
    bonds: list[list[int]] = []
    for i, cells in enumerate(rows):
        try:
            parts = [_read_named(cell, column, len(columns)) for cell, column in zip(cells, columns, strict=True)]
        except ValueError as error:
            problems[i] = str(error)
            scaffolds.append("")
            continue
        begin, first = len(atoms), len(edges)
        for part, molecule in enumerate(parts):
            offset = len(atoms) - begin
            own_atoms, own_edges, own_bonds = categories_of(molecule)
            atoms += own_atoms if len(parts) == 1 else [[*atom, part] for atom in own_atoms]
            edges += own_edges if not offset else [(source + offset, target + offset) for source, target in own_edges]
            bonds += own_bonds
        sizes[i] = len(atoms) - begin, len(edges) - first
        if with_scaffolds:
            scaffolds.append(scaffold(parts[0]))
    width = _ATOM_WIDTH + (len(columns) > 1)
    return Molecules(
        sizes,
        np.array(atoms, np.uint8).reshape(-1, width),
        np.array(edges, np.int32).reshape(-1, 2),
        np.array(bonds, np.uint8).reshape(-1, _BOND_WIDTH),
        problems,
        scaffolds if with_scaffolds else None,
    )


def _read_named(smiles: str, column: str, num_columns: int) -> Chem.Mol:
    try:
        return read_smiles(smiles)
    except ValueError as error:
        raise ValueError(str(error) if num_columns == 1 else f"{column}: {error}") from None


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


def categories_of(molecule: Chem.Mol) -> tuple[list[list[int]], list[tuple[int, int]], list[list[int]]]:
    """The categories of the atoms, the bonds as pairs of atoms, each both ways, and the categories of these."""
    atoms = [_atom_categories(atom) for atom in molecule.GetAtoms()]
    edges: list[tuple[int, int]] = []
    bonds: list[list[int]] = []
    for bond in molecule.GetBonds():
        source, target = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges += (source, target), (target, source)
        bonds += 2 * [_bond_categories(bond)]
    return atoms, edges, bonds


def scaffold(molecule: Chem.Mol) -> str:
    """The SMILES of the Bemis–Murcko scaffold: the rings and what links them. Empty if there are no rings.

    In a molecule of more than 500 atoms no hydrogens take the place of side chains.
    """
    if molecule.GetNumAtoms() <= _MOST_ATOMS:
        return Chem.MolToSmiles(Chem.MurckoDecompose(molecule), isomericSmiles=False)
    import networkx as nx

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
