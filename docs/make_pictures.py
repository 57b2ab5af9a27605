"""The pictures of walks and windows, from walks that the library draws: `python docs/make_pictures.py`.

`walk.svg` shows a walk step by step, with the bits of each position; `window.svg` shows one of its windows, and the
subgraph that its bits describe.
"""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx
import torch

import crawl

IMAGES = Path(__file__).parent / "images"
WINDOW, STEPS, SEED = 6, 11, 0
SECONDS = 1.1  # each step is shown for this long
INK, PALE, NOW, PAST, RING = "#37474f", "#b0bec5", "#d84315", "#00897b", "#f9a825"
STYLE = (
    "text{font:13px sans-serif;fill:#37474f} .small{font-size:11px} .bold{font-weight:bold}"
    ".card{fill:#ffffff;stroke:#cfd8dc} .node{stroke:#37474f;stroke-width:1.5}"
)


def example() -> tuple[nx.Graph, dict[int, tuple[float, float]]]:
    """Two rings of six and five that share an edge, with a tail: as in a molecule."""
    graph = nx.cycle_graph(6)
    nx.add_path(graph, [0, 6, 7, 8, 1])
    nx.add_path(graph, [3, 9, 10])
    place = {
        i: (115 + 62 * math.cos(math.pi * (i - 0.5) / 3), 130 + 62 * math.sin(math.pi * (i - 0.5) / 3))
        for i in range(6)
    }
    place |= {6: (225, 82), 7: (262, 130), 8: (225, 178), 9: (28, 205), 10: (28, 262)}
    return graph, place


def drawn_graph(
    graph: nx.Graph, place: dict[int, tuple[float, float]], fills: dict[int, str], bold: set[frozenset[int]]
) -> list[str]:
    """Edges, then nodes with their numbers; some filled, some edges bold."""
    parts = []
    for u, v in graph.edges:
        colour, width = (PAST, 4) if frozenset((u, v)) in bold else (PALE, 2)
        (x, y), (z, w) = place[u], place[v]
        parts.append(
            f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{z:.0f}" y2="{w:.0f}" stroke="{colour}" stroke-width="{width}"/>'
        )
    for node, (x, y) in place.items():
        fill = fills.get(node, "#ffffff")
        text = "#ffffff" if fill in (NOW, PAST) else INK
        parts.append(f'<circle class="node" cx="{x:.0f}" cy="{y:.0f}" r="13" fill="{fill}"/>')
        parts.append(f'<text x="{x:.0f}" y="{y + 4.5:.0f}" text-anchor="middle" style="fill:{text}">{node}</text>')
    return parts


def drawn_bits(nodes: list[int], bits: torch.Tensor, shown: int) -> list[str]:
    """The rows of the feature matrix up to a position: its node, its identity bits, its adjacency bits."""
    left, top, size = 345, 52, 19
    columns = [f"I{j}" for j in range(1, WINDOW + 1)] + [f"A{j}" for j in range(2, WINDOW + 1)]
    parts = [f'<text class="bold" x="{left}" y="22">what the window writes down</text>']
    parts.append(f'<text class="small" x="{left - 4}" y="{top - 8}">node</text>')
    for i, name in enumerate(columns):
        parts.append(f'<text class="small" x="{left + 40 + i * size + 2}" y="{top - 8}">{name}</text>')
    for row in range(shown + 1):
        y = top + row * size
        colour = NOW if row == shown else INK
        parts.append(f'<text x="{left + 4}" y="{y + 14}" style="fill:{colour}">{nodes[row]}</text>')
        for i in range(len(columns)):
            is_set = bool(bits[row, i])
            fill = (RING if i < WINDOW else PAST) if is_set else "#eceff1"
            parts.append(
                f'<rect x="{left + 40 + i * size}" y="{y}" width="{size - 2}" height="{size - 2}" fill="{fill}"/>'
            )
    return parts


def animation(graph: nx.Graph, place: dict[int, tuple[float, float]], nodes: list[int], bits: torch.Tensor) -> str:
    """All steps of a walk, one after the other, for ever; the last one where nothing may move."""
    frames, total = [], len(nodes) * SECONDS
    for i, node in enumerate(nodes):
        window = nodes[max(i - WINDOW, 0) : i]
        bold = {
            frozenset(pair)
            for pair in zip(nodes[max(i - WINDOW, 0) : i], nodes[max(i - WINDOW, 0) + 1 : i + 1], strict=False)
        }
        fills = dict.fromkeys(window, "#b2dfdb") | {node: NOW}
        parts = drawn_graph(graph, place, fills, bold) + drawn_bits(nodes, bits, i)
        parts.append(f'<text class="bold" x="20" y="22">step {i}: node {node}</text>')
        frames.append(f'<g class="frame" style="animation-delay:{i * SECONDS:.1f}s">{"".join(parts)}</g>')
    share = 100 / len(nodes)
    moving = (
        f".frame{{opacity:0;animation:show {total:.1f}s infinite}}"
        f"@keyframes show{{0%{{opacity:1}}{share:.2f}%{{opacity:1}}{share + 0.01:.2f}%{{opacity:0}}100%{{opacity:0}}}}"
        "@media (prefers-reduced-motion: reduce){.frame{animation:none}.frame:last-of-type{opacity:1}}"
    )
    return whole(620, 300, moving, frames)


def window(graph: nx.Graph, place: dict[int, tuple[float, float]], nodes: list[int], last: int) -> str:
    """The nodes of one window, and all edges among them, which its bits describe."""
    seen = nodes[last - WINDOW : last + 1]
    inside = {frozenset(edge) for edge in graph.subgraph(seen).edges}
    fills = dict.fromkeys(seen, "#b2dfdb") | {seen[-1]: NOW}
    parts = drawn_graph(graph, place, fills, inside)
    words = [
        f"window {', '.join(map(str, seen))}",
        "All edges among these nodes are in the bits:",
        "the window holds the whole induced subgraph.",
    ]
    for i, line in enumerate(words):
        weight = "small" if i else "bold"
        parts.append(f'<text class="{weight}" x="310" y="{110 + 24 * i}">{line}</text>')
    return whole(620, 290, "", parts)


def whole(width: int, height: int, style: str, parts: list[str]) -> str:
    """The picture as a file."""
    card = f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<style>{STYLE}{style}</style>{card}{''.join(parts)}</svg>\n"
    )


def main() -> None:
    """Draw both."""
    graph, place = example()
    start = torch.tensor([10])
    walks = crawl.sample_walks(crawl.Graph.from_networkx(graph), STEPS, start=start, window_size=WINDOW, seed=SEED)
    nodes, bits = walks.nodes[0].tolist(), walks.bits()[0]
    (IMAGES / "walk.svg").write_text(animation(graph, place, nodes, bits))
    returns = [i for i in range(WINDOW, len(nodes)) if bool(bits[i].any())]
    (IMAGES / "window.svg").write_text(window(graph, place, nodes, returns[-1] if returns else len(nodes) - 1))
    print("walk:", nodes)


if __name__ == "__main__":
    main()
