"""Pictures of explanations as SVG: molecules by rdkit, other graphs by networkx and matplotlib.

Blue adds to the prediction, red takes away from it; the stronger, the more. Pictures stand in a page and have its
colours of text.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from crawl.explanations.explained import Explained
from crawl.explanations.subgraphs import Subgraph
from crawl.pages.colours import INK, MUTED, PAPER
from crawl.pages.figures import plot
from crawl.pages.svg import clean_svg

if TYPE_CHECKING:
    from markupsafe import Markup

FOR, AGAINST = (0.16, 0.44, 0.80), (0.86, 0.26, 0.18)  # blue and red, seen on light and dark
_FAINTEST = 0.03  # of the strongest: less is not drawn
_MOST_NODES = 200  # of which a picture can be made out
_STRENGTH = 0.75  # how opaque the strongest is

Pair = tuple[int, int]


def draw_explanation(explanation: Explained, name: str) -> Markup:
    """The graph with nodes and edges coloured by what they add. Refuses a graph of more than 200 nodes."""
    pairs = _by_pair(explanation)
    nodes = {i: float(value) for i, value in enumerate(explanation.nodes)}
    limit = max((abs(value) for value in (*nodes.values(), *pairs.values())), default=0.0) or 1.0
    label = f"What each node and edge adds to {explanation.target}"
    strength = {node: value / limit for node, value in nodes.items()}
    return _drawn(explanation, strength, {pair: value / limit for pair, value in pairs.items()}, name, label)


def draw_subgraph(explanation: Explained, subgraph: Subgraph, name: str) -> Markup:
    """The graph with the nodes and edges of a subgraph coloured by the sign of its score."""
    sign = 0.8 if subgraph.score >= 0 else -0.8
    ends = explanation.edge_index[:, list(subgraph.edges)]
    pairs = {(int(min(pair)), int(max(pair))): sign for pair in ends.T}
    return _drawn(explanation, dict.fromkeys(subgraph.nodes, sign), pairs, name, subgraph.title)


def can_draw(explanation: Explained) -> bool:
    """Whether the graph is small enough for a picture."""
    return len(explanation.nodes) <= _MOST_NODES


def _by_pair(explanation: Explained) -> dict[Pair, float]:
    """What edges add, both directions together; self-loops are not drawn."""
    pairs: dict[Pair, float] = {}
    for (source, target), value in zip(explanation.edge_index.T.tolist(), explanation.edges.tolist(), strict=True):
        if source != target:
            pair = (min(source, target), max(source, target))
            pairs[pair] = pairs.get(pair, 0.0) + value
    return pairs


def _drawn(explanation: Explained, nodes: dict[int, float], pairs: dict[Pair, float], name: str, label: str) -> Markup:
    if not can_draw(explanation):
        raise ValueError(
            f"A graph of {len(explanation.nodes)} nodes is too large for a picture: {_MOST_NODES} at most."
        )
    if explanation.smiles is not None:
        return _molecule(explanation.smiles, nodes, pairs, name, label, explanation.node)
    return _graph(explanation, nodes, pairs, name, label)


def _colour(strength: float) -> tuple[float, float, float, float]:
    """Red, green, blue and how opaque, for a strength from -1 to 1."""
    return (*(FOR if strength >= 0 else AGAINST), _STRENGTH * min(abs(strength), 1.0))


def _molecule(
    smiles: str, nodes: dict[int, float], pairs: dict[Pair, float], name: str, label: str, explained: int | None = None
) -> Markup:
    """The molecule, with a note at the atom whose prediction is explained, if it is one."""
    from rdkit.Chem import Draw

    from crawl.data.smiles import read_smiles

    molecule = read_smiles(smiles)
    if explained is not None:
        molecule.GetAtomWithIdx(explained).SetProp("atomNote", f"atom {explained}")
    atoms = {atom: _colour(value) for atom, value in nodes.items() if abs(value) > _FAINTEST}
    bonds = {
        molecule.GetBondBetweenAtoms(*pair).GetIdx(): _colour(value)
        for pair, value in pairs.items()
        if abs(value) > _FAINTEST
    }
    drawer = Draw.MolDraw2DSVG(340, 240)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.useBWAtomPalette()
    options.highlightRadius = 0.35
    options.fixedBondLength = 45  # at most: one atom does not fill the picture
    drawer.DrawMolecule(
        molecule,
        highlightAtoms=list(atoms),
        highlightAtomColors=atoms,
        highlightBonds=list(bonds),
        highlightBondColors=bonds,
    )
    drawer.FinishDrawing()
    return clean_svg(drawer.GetDrawingText(), name, label, ink="black")


def _graph(explanation: Explained, nodes: dict[int, float], pairs: dict[Pair, float], name: str, label: str) -> Markup:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(explanation.nodes)))
    graph.add_edges_from((u, v) for u, v in explanation.edge_index.T.tolist() if u != v)
    places = _layout(graph)

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.grid(False)
        axes.margins(0.08)
        size = float(np.clip(2400 / max(len(graph), 1), 12, 220))
        nx.draw_networkx_edges(graph, places, ax=axes, edge_color=MUTED, width=0.8)
        strong = {pair: value for pair, value in pairs.items() if abs(value) > _FAINTEST and graph.has_edge(*pair)}
        colours = [_colour(value) for value in strong.values()]
        nx.draw_networkx_edges(graph, places, ax=axes, edgelist=list(strong), edge_color=colours, width=5)
        nx.draw_networkx_nodes(
            graph, places, ax=axes, node_size=size, node_color=PAPER, edgecolors=MUTED, linewidths=0.8
        )
        coloured = [node for node in graph if abs(nodes.get(node, 0.0)) > _FAINTEST]
        colours = [_colour(nodes[node]) for node in coloured]
        nx.draw_networkx_nodes(
            graph, places, ax=axes, nodelist=coloured, node_size=size, node_color=colours, linewidths=0
        )
        if explanation.node is not None:
            marked = {"node_color": "none", "edgecolors": INK, "linewidths": 2}
            nx.draw_networkx_nodes(graph, places, ax=axes, nodelist=[explanation.node], node_size=size * 1.6, **marked)
        if len(graph) <= 60:
            font = {"font_size": 7, "font_color": INK}
            nx.draw_networkx_labels(graph, places, ax=axes, **font)

    return plot(draw, name, label, width=3.6, height=2.7)


def _layout(graph: nx.Graph) -> dict[int, Any]:
    """Places of the nodes; the same for the same graph."""
    return dict(nx.spring_layout(graph, seed=0)) if _is_odd(graph) else dict(nx.kamada_kawai_layout(graph))


def _is_odd(graph: nx.Graph) -> bool:
    """Whether a layout by distances has none: parts that do not hang together, or too many nodes."""
    return len(graph) > 100 or not graph or not nx.is_connected(graph)


def nodes_in_words(nodes: Collection[int], most: int = 12) -> str:
    """A list of nodes, shortened."""
    listed = [str(node) for node in nodes]
    return ", ".join(listed) if len(listed) <= most else f"{', '.join(listed[:most])}, … ({len(listed)})"
