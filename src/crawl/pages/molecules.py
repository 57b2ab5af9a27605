"""Pictures of molecules, drawn by rdkit, in the colours of the page."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from markupsafe import Markup

from crawl.pages.svg import clean_svg

_MOST_ATOMS = 120  # of a molecule that can be recognised in a small picture


def has_rdkit() -> bool:
    """Whether molecules can be drawn."""
    return find_spec("rdkit") is not None


def draw_molecule(smiles: str, name: str, *, width: int = 170, height: int = 120) -> Markup | None:
    """A molecule as an element of a page; None if it cannot be read or is too large to be recognised.

    Args:
        smiles: The molecule.
        name: A word that no other picture of the page has.
        width: Of the picture, in pixels.
        height: The same.

    Raises:
        ImportError: If rdkit is not installed.
    """
    from rdkit import Chem, rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is None or not 0 < molecule.GetNumAtoms() <= _MOST_ATOMS:
            return None
        drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
        options: Any = drawer.drawOptions()
        options.clearBackground, options.bondLineWidth, options.padding = False, 1.3, 0.06
        options.fixedBondLength = 22  # small molecules are not drawn larger than others
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
        drawer.FinishDrawing()
    return clean_svg(drawer.GetDrawingText(), name, f"Molecule {smiles}", ink="black")
