"""Makes the tables and plots of `expressiveness.md`, between its markers. Run: `make docs`.

With `--train`, first trains the networks (a quarter of an hour on one core) and writes `results/expressiveness.json`,
from which the table of trained networks is made. Everything else takes two minutes.
"""

from __future__ import annotations

import inspect
import json
import math
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

import crawl
from crawl.data.csl import SKIPS
from crawl.theory import (
    TooLarge,
    WalkStrategy,
    cycles,
    first_difference,
    first_visits,
    isomorphism,
    named_graph,
    separating_round,
    three_paths,
    total_variation,
    visit_probability,
)
from crawl.theory.networks import train_to_tell_apart
from crawl.theory.report import Walked, draw, walked

DOCS = Path(__file__).parent
PAGE = DOCS / "expressiveness.md"
IMAGES = DOCS / "images"
RECORD = DOCS.parent / "results" / "expressiveness.json"

DEEP = ["cycle:12", "cycles:6,6"]  # with a window of 4, which shows nothing of them
PAIRS = (
    ("cycle:12", "cycles:6,6"),
    ("paths:5", "paths:5:uneven"),
    ("csl:41,2", "csl:41,3"),
    ("rook", "shrikhande"),
    ("cfi:K4", "cfi:K4:twisted"),
    ("cfi:wagner:compact", "cfi:wagner:compact:twisted"),
    ("cfi:wagner", "cfi:wagner:twisted"),
)


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    lines = [list(map(str, header)), *(list(map(str, row)) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def first_window(graph: nx.Graph, other: nx.Graph, strategy: WalkStrategy) -> tuple[str, str]:
    """The smallest window with which the laws differ at some length, and the least such length."""
    for window_size in range(1, 33):
        try:
            num_steps = first_difference(graph, other, window_size=window_size, strategy=strategy)
        except TooLarge:
            return f"> {window_size - 1}", "?"
        if num_steps is not None:
            return str(window_size), str(num_steps)
    return "> 32", "?"


def overview() -> str:
    """All pairs: what separates them."""

    def row(name: str, twin: str) -> Iterable[object]:
        graph, other = named_graph(name), named_graph(twin)
        yield f"`{name}`, `{twin}`"
        yield len(graph)
        for k in (1, 2, 3):
            found = separating_round(graph, other, k)
            yield "–" if found is None else f"round {found}"
        for strategy in ("non_backtracking", "uniform"):
            window_size, num_steps = first_window(graph, other, strategy)
            yield f"s {window_size}" if num_steps == "?" else f"s = {window_size}, ℓ = {num_steps}"

    header = ("pair", "nodes", "1-WL", "2-WL", "3-WL", "non-backtracking walks", "uniform walks")
    return table(header, (row(*pair) for pair in PAIRS))


def cycle_windows() -> str:
    """Where the separation of cycles starts, next to the paper's bound."""
    rows = []
    for n in (6, 8, 10, 12, 16):
        pair = cycles(n), cycles(n // 2, n // 2)
        starts = [first_window(*pair, strategy)[0] for strategy in ("non_backtracking", "uniform")]
        last = int(starts[0]) - 1
        zero = total_variation(*pair, num_steps=2 * n, window_size=last) if last else Fraction(0)
        one = total_variation(*pair, num_steps=2 * n, window_size=last + 1)
        rows.append((n, n // 2, *starts, f"s < {n // 2}", zero, one))
    header = ("n", "short cycle", "first s, non-backtracking", "first s, uniform", "paper: alike for")
    return table((*header, "distance one s before", "distance there"), rows)


def path_windows() -> str:
    """Where the separation of three paths starts."""
    rows = []
    for n in range(2, 8):
        pair = three_paths(n), three_paths(n, uneven=True)
        cells = [separating_round(*pair, 1), 2 * n - 3]
        for strategy in ("non_backtracking", "uniform"):
            cells += first_window(*pair, strategy)
        rows.append((n, *cells))
    header = (
        "n",
        "1-WL: round",
        "paper: alike up to s",
        "non-backtracking: first s",
        "steps",
        "uniform: first s",
        "steps",
    )
    return table(header, rows)


def path_distances(largest: int = 12) -> str:
    """The distance of uniform walks on three paths by n, at n and 2n steps, with a fit; and the plot."""
    sizes = list(range(3, largest + 1))
    far = list(range(3, 61, 3))
    exact = {
        c: [
            total_variation(three_paths(n), three_paths(n, uneven=True), num_steps=c * n, strategy="uniform")
            for n in sizes
        ]
        for c in (1, 2)
    }
    bound = {c: [visit_probability(three_paths(n), c * n, [0, 1]) for n in far] for c in (1, 2)}
    tail = slice(len(sizes) // 2, None)
    fits = {c: np.polyfit(sizes[tail], [math.log(d) for d in exact[c][tail]], 1) for c in (1, 2)}
    draw_path_distances(sizes, exact, fits, far, bound)
    rows = []
    for c in (1, 2):
        slope = fits[c][0]
        far_slope = np.polyfit(far[-10:], [math.log(p) for p in bound[c][-10:]], 1)[0]
        shown = (f"{float(exact[c][sizes.index(n)]):.2e}" for n in (3, 6, 9, 12) if n in sizes)
        rows.append((f"{c}n" if c > 1 else "n", *shown, f"{math.exp(slope):.2f}ⁿ", f"{math.exp(far_slope):.2f}ⁿ"))
    fitted = f"fit, n = {sizes[len(sizes) // 2]} … {sizes[-1]}"
    header = ("steps", *(f"n = {n}" for n in (3, 6, 9, 12) if n in sizes), fitted)
    return table((*header, f"fit of the chance to visit both ends, n = {far[-10]} … {far[-1]}"), rows)


def draw_path_distances(
    sizes: list[int],
    exact: dict[int, list[Fraction]],
    fits: dict[int, NDArray[np.float64]],
    far: list[int],
    bound: dict[int, list[Fraction]],
) -> None:
    """The plot of `path_distances`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for c, color in ((1, "tab:orange"), (2, "tab:blue")):
        steps = f"{c}n steps" if c > 1 else "n steps"
        axes.plot(
            sizes, list(map(float, exact[c])), "o-", color=color, markersize=4, label=f"distance, {steps} (exact)"
        )
        ahead = np.array([sizes[len(sizes) // 2], 30])
        axes.plot(
            ahead, np.exp(np.polyval(fits[c], ahead)), "--", color=color, linewidth=0.8, label=f"its fit, {steps}"
        )
        axes.plot(far, list(map(float, bound[c])), ":", color=color, label=f"chance to visit both ends, {steps}")
    axes.set(yscale="log", xlabel="n", ylabel="probability", ylim=(1e-12, 1.5))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    save(figure, "three_paths.svg")


def covering_walks(num_walks: int = 200, num_judged: int = 10) -> str:
    """Walks of 12n² steps on CFI pairs: how many cover, and whether those name their graph rightly."""
    rows = []
    for name in ("cfi:K4", "cfi:wagner:compact", "cfi:wagner"):
        pair = named_graph(name), named_graph(f"{name}:twisted")
        n = len(pair[0])
        unseparated = max(k for k in (1, 2, 3) if separating_round(*pair, k) is None)
        covered, right = [], []
        for seed, graph in enumerate(pair):
            start = torch.from_numpy(np.random.default_rng(seed).integers(n, size=num_walks))
            walks = crawl.sample_walks(
                crawl.Graph.from_networkx(graph), 12 * n * n, "uniform", start, window_size=0, seed=seed
            ).nodes.numpy()
            covered += [len(np.unique(nodes)) == n for nodes in walks]
            for nodes in walks[:num_judged]:
                seen = first_visits(graph, nodes).graph
                if len(seen) == n:
                    right.append((isomorphism(seen, pair[0]) is not None) == (graph is pair[0]))
        rows.append((f"`{name}`", n, f"{unseparated}-WL", 12 * n * n, f"{sum(covered)} of {len(covered)}",
                     f"{sum(right)} of {len(right)}"))  # fmt: skip
    return table(("pair", "nodes n", "not separated by", "steps 12n²", "walks that cover", "right verdicts"), rows)


def example_picture() -> str:
    """The picture of `crawl distinguish rook shrikhande`."""
    graph, other = named_graph("rook"), named_graph("shrikhande")
    rows: list[Walked] = list(walked(graph, other, (1, 2, 3, 4), num_steps=10))
    save(draw(graph, other, ("rook", "shrikhande"), rows), "rook_shrikhande.png")
    return "![rook's graph, Shrikhande graph, and the distance of their walks by window](images/rook_shrikhande.png)"


def trained() -> str:
    """The table of trained networks, from the record."""
    return table_of_runs(lambda run: run["graphs"] != DEEP)


def deep() -> str:
    """The table of networks whose single walks show nothing, from the record."""
    return table_of_runs(lambda run: run["graphs"] == DEEP)


def table_of_runs(belongs: Callable[[dict[str, Any]], bool]) -> str:
    """The runs of the record that belong to a table."""
    rows = []
    for run in filter(belongs, json.loads(RECORD.read_text())["runs"]):
        scores = [result["accuracy"] for result in run["results"]]
        spread = f" ({min(scores):.1%} – {max(scores):.1%})" if len(scores) > 1 else ""
        settings = run["settings"]
        layers = f", layers: {settings['num_layers']}, {settings['strategy'].replace('_', '-')}"
        network = f"CRaWl, s = {settings['window_size']}{layers if run['graphs'] == DEEP else ''}"
        network = "GIN" if run["network"] == "gin" else network
        updates = ", ".join(str(result["num_updates"]) for result in run["results"])
        result = run["results"][0]
        cells = (run["name"], network, f"{np.mean(scores):.1%}{spread}", f"{result['chance']:.0%}", updates)
        rows.append((*cells, result["num_parameters"], f"{np.mean([r['time_s'] for r in run['results']]):.0f} s"))
    return table(("graphs", "network", "accuracy", "chance", "updates", "parameters", "time"), rows)


def train() -> None:
    """Train all networks and write the record."""
    torch.set_num_threads(1)
    csl = [f"csl:41,{skip}" for skip in SKIPS]
    small: dict[str, Any] = {"window_size": 8}
    large: dict[str, Any] = {"hidden_channels": 64, "copies": 8, "max_updates": 400}
    twins = {name: [name, f"{name}:twisted"] for name in ("cfi:C3:compact", "cfi:wagner:compact", "cfi:K4")}
    plan = [
        ("the ten CSL classes", csl, {"copies": 2, "max_updates": 600} | small, range(3)),
        ("rook, shrikhande (cfi:K4:compact)", ["rook", "shrikhande"], small, range(3)),
        ("cfi:C3:compact and twin", twins["cfi:C3:compact"], small, range(3)),
        ("cfi:wagner:compact and twin", twins["cfi:wagner:compact"], large | small, range(1)),
        ("cfi:K4 and twin", twins["cfi:K4"], large | small, range(1)),
        ("cfi:K4 and twin", twins["cfi:K4"], large | {"window_size": 16}, range(1)),
    ]
    many: dict[str, Any] = {"window_size": 4, "num_steps": 30, "copies": 16, "max_updates": 1000}
    for num_layers, strategy in ((1, "uniform"), (2, "uniform"), (4, "uniform"), (4, "non_backtracking")):
        plan.append((" and ".join(DEEP), DEEP, many | {"num_layers": num_layers, "strategy": strategy}, range(3)))
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(train_to_tell_apart).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != "seed"
    }
    runs = []
    for name, graphs, changed, seeds in plan:
        settings = defaults | changed
        for network in ("crawl", "gin"):
            if network == "gin" and settings["window_size"] != 8:  # it has no window: once is enough
                continue
            results = [
                {"seed": seed}
                | asdict(train_to_tell_apart(list(map(named_graph, graphs)), network, seed=seed, **settings))
                for seed in seeds
            ]
            runs.append({"name": name, "graphs": graphs, "network": network, "settings": settings, "results": results})
            print(name, network, changed, [result["accuracy"] for result in results], flush=True)
    packages = ("torch", "torch_geometric", "numba", "numpy", "networkx")
    versions = {"python": platform.python_version(), "crawl": crawl.__version__} | {p: version(p) for p in packages}
    record = {"device": "cpu (1 thread)", "versions": versions, "runs": runs}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def save(figure: Any, name: str) -> None:
    """Write a picture that is the same for the same content."""
    import matplotlib

    IMAGES.mkdir(exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "crawl"
    metadata = {"Date": None} if name.endswith(".svg") else {"Software": None}
    figure.savefig(IMAGES / name, dpi=110, metadata=metadata)


PARTS: dict[str, Callable[[], str]] = {
    "overview": overview,
    "picture": example_picture,
    "cycles": cycle_windows,
    "paths": path_windows,
    "distances": path_distances,
    "cover": covering_walks,
    "trained": trained,
    "deep": deep,
}


def fill(text: str, parts: dict[str, Callable[[], str]]) -> str:
    """The text with these parts made anew, each between its markers."""
    for name, make in parts.items():
        before, begin, rest = text.partition(f"<!-- made: {name} -->\n")
        _, end, after = rest.partition("\n<!-- end -->")
        assert begin, f"the page has no place for {name}"
        assert end, f"the place for {name} has no end"
        text = before + begin + make() + end + after
    return text


if __name__ == "__main__":
    if "--train" in sys.argv:
        train()
    PAGE.write_text(fill(PAGE.read_text(), PARTS))
