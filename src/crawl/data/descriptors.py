"""RDKit's 2D descriptors of molecules: mass, logP, counts of groups and some 200 more. Needs rdkit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crawl.checks import suggestion
from crawl.data.smiles import read_smiles  # which says how to install rdkit

from rdkit import Chem, rdBase  # isort: skip
from rdkit.Chem import Descriptors  # isort: skip

_FUNCTIONS = dict(Descriptors.descList)
DESCRIPTORS: tuple[str, ...] = tuple(_FUNCTIONS)


def names_of_descriptors(num_parts: int = 1) -> list[str]:
    """The names of all descriptors; of several molecules in a row, the second one's mass is `1:MolWt`."""
    return (
        list(DESCRIPTORS) if num_parts == 1 else [f"{part}:{name}" for part in range(num_parts) for name in DESCRIPTORS]
    )


def descriptors_of(
    molecules: Sequence[str | Chem.Mol | Sequence[str]], names: Sequence[str] = DESCRIPTORS
) -> NDArray[np.float64]:
    """`[molecules, len(names)]` the descriptors, NaN where one cannot be computed or is not finite.

    Each may also be a list of molecules, for names such as `1:MolWt`. Refuses names that this version of rdkit does not
    have, and SMILES that are not molecules.
    """
    wanted = [(int(part or 0), name) for part, _, name in (each.rpartition(":") for each in names)]
    for _, name in wanted:
        if name not in _FUNCTIONS:
            raise ValueError(f"This version of rdkit has no descriptor {name!r}.{suggestion(name, DESCRIPTORS)}")
    rows = []
    with rdBase.BlockLogs():
        for given in molecules:
            parts = [_molecule(each) for each in ([given] if isinstance(given, str | Chem.Mol) else given)]
            rows.append([_value(name, parts[part]) for part, name in wanted])
    return np.array(rows, dtype=np.float64).reshape(len(molecules), len(names))


def _molecule(given: str | Chem.Mol) -> Chem.Mol:
    return read_smiles(given) if isinstance(given, str) else given


def _value(name: str, molecule: Chem.Mol) -> float:
    try:
        value = float(_FUNCTIONS[name](molecule))
    except Exception:  # rdkit raises whatever it likes, for a partial charge of a metal for example
        return math.nan
    return value if math.isfinite(value) else math.nan
