"""The pictures of `explain.md`, from the runs that `python -m reproduction explain` left in a folder.

python docs/make_explain.py runs/explain
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from crawl.explanations import explain
from crawl.explanations.drawing import draw_explanation, draw_subgraph
from crawl.pages.colours import VARIABLES
from crawl.runs import TrainedModel
from reproduction.explain import motif_graphs

IMAGES = Path(__file__).parent / "images"
MOLECULES = {"alcohol": "OCCc1ccccc1", "chlorine": "Clc1ccc(cc1)C(c1ccc(Cl)cc1)C(Cl)(Cl)Cl"}
COLOURS = {"--ink": "#1b1f24", "--muted": "#8a9199", "--line": "#d5d9dd", "--card": "#ffffff"}


def alone(picture: str) -> str:
    """A picture of a page as a file of its own, with the colours of a light page."""
    for variable in VARIABLES.values():
        picture = picture.replace(f"var({variable})", COLOURS.get(variable, "#000000"))
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)[0]
    return picture.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" ', 1)


def main(folder: Path) -> None:
    """Draw them."""
    solubility = TrainedModel.load(folder / "esol", "cpu")
    for name, smiles in MOLECULES.items():
        found = explain(solubility, smiles, num_repeats=3, num_points=16)
        (IMAGES / f"explain_{name}.svg").write_text(alone(str(draw_explanation(found, name))))
        print(smiles, [(each.title, each.nodes, round(each.score, 2)) for each in found.subgraphs[:2]])
    graphs, motifs = motif_graphs(600)
    found = explain(TrainedModel.load(folder / "motifs", "cpu"), graphs[5], num_repeats=3, num_points=16)
    (IMAGES / "explain_house.svg").write_text(alone(str(draw_subgraph(found, found.subgraphs[0], "house"))))
    print("house", motifs[5], [(each.title, each.nodes) for each in found.subgraphs[:1]])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
