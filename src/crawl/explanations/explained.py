"""What nodes, edges, walks, windows and subgraphs add to one number that a model answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crawl.explanations.subgraphs import Subgraph
from crawl.explanations.subject import Target
from crawl.explanations.windows import Floats, Ints

_MOST_LISTED = 20  # windows and walks in `to_dict`


@dataclass(frozen=True)
class Windows:
    """What the windows of a layer add, for one set of walks.

    Attributes:
        values: `[W, n]`; of a layer without windows, such as a GRU, `[W, T]`, what it read at each position.
        first: The position, from 0 or before, where window 0 begins; window k begins k later.
        size: Positions of a window.
    """

    values: Floats
    first: int
    size: int


@dataclass(frozen=True)
class WalkParts:
    """What walks add, in one evaluation.

    Attributes:
        repeat: The evaluation, from 0.
        nodes: `[W, T]` the nodes visited.
        values: `[W]` the sum of what windows of each walk add, in all layers.
        windows: The windows of each layer, in the order of the layers.
    """

    repeat: int
    nodes: Ints
    values: Floats
    windows: tuple[Windows, ...]


@dataclass(frozen=True, eq=False)
class Explained:
    """What a prediction for a graph, or for a node of it, is made of; all numbers are in the unit of the target.

    `nodes.sum() + edges.sum() + residual` is `prediction - baseline`. Numbers are means over evaluations, each with its
    own walks; spreads are standard deviations over these.

    Attributes:
        output: Which number of the model's answer is explained; `target` is its name.
        prediction: What the model answers; a logit where classes are predicted.
        prediction_spread: Its spread.
        probability: The mean probability of the class or label; None for numbers, and for a model without a task.
        baseline: What it answers without features and with silent walks, whose windows read zeros.
        silent: What it answers with features and silent walks.
        residual: What the integrals miss, with its sign.
        nodes: `[N]` what each node adds: its own features, what windows read of its state, and identity bits where a
            walk came back to it.
        node_spread: `[N]` the spread.
        edges: `[E]` what each column of `edge_index` adds: its features, and adjacency bits that saw it.
        edge_spread: `[E]` the spread.
        own: `[N]` the part of `nodes` that needs no walk: features that reach the answer with silent walks.
        readout: `[N]` what the last state of each node adds to the prediction, exactly; None unless the head is linear
            and nodes are pooled by a sum or a mean. With `readout_rest` it adds up to the prediction.
        readout_rest: The rest of that sum; None as `readout`.
        walks: What walks and their windows add, for each evaluation.
        subgraphs: The connected subgraphs with the largest excess, for or against.
        edge_index: `[2, E]` the edges.
        node: The node whose prediction is explained; None for a graph.
        num_points: Points of each integral.
        has_own: Whether features are numbers that were integrated over; else they are part of the baseline.
        smiles: The molecule, if it is one, whose atoms are the nodes.
    """

    output: Target
    prediction: float
    prediction_spread: float
    probability: float | None
    baseline: float
    silent: float
    residual: float
    nodes: Floats
    node_spread: Floats
    edges: Floats
    edge_spread: Floats
    own: Floats
    readout: Floats | None
    readout_rest: float | None
    walks: tuple[WalkParts, ...]
    subgraphs: tuple[Subgraph, ...]
    edge_index: Ints
    node: int | None
    num_points: int
    has_own: bool
    smiles: str | None = None

    @property
    def target(self) -> str:
        """What is explained: the name of a number, or the logit of a class or label."""
        return self.output.name

    @property
    def num_repeats(self) -> int:
        """The number of evaluations."""
        return 1 + max(each.repeat for each in self.walks)

    def to_dict(self) -> dict[str, Any]:
        """Everything for JSON; of windows and walks the twenty that add most, for or against."""
        names = ("target", "prediction", "prediction_spread", "probability", "baseline", "silent", "residual", "node")
        arrays = ("nodes", "node_spread", "edges", "edge_spread", "own", "edge_index")
        return {
            **{name: getattr(self, name) for name in (*names, "num_repeats", "num_points", "has_own", "smiles")},
            **{name: getattr(self, name).tolist() for name in arrays},
            "readout": None if self.readout is None else self.readout.tolist(),
            "readout_rest": self.readout_rest,
            "subgraphs": [subgraph.to_dict() for subgraph in self.subgraphs],
            "walks": self._top_walks(),
            "windows": self._top_windows(),
        }

    def _top_walks(self) -> list[dict[str, Any]]:
        found = [
            {"repeat": part.repeat, "walk": i, "value": float(value), "nodes": part.nodes[i].tolist()}
            for part in self.walks
            for i, value in enumerate(part.values)
        ]
        return sorted(found, key=lambda each: -abs(each["value"]))[:_MOST_LISTED]

    def _top_windows(self) -> list[dict[str, Any]]:
        found = []
        for part in self.walks:
            for layer, windows in enumerate(part.windows):
                flat = windows.values.ravel()
                for place in (-abs(flat)).argsort(kind="stable")[:_MOST_LISTED].tolist():
                    walk, window = divmod(place, windows.values.shape[1])
                    first = window + windows.first
                    nodes = part.nodes[walk, max(first, 0) : first + windows.size].tolist()
                    where = {"repeat": part.repeat, "layer": layer, "walk": walk, "first": first}
                    found.append({**where, "value": float(flat[place]), "nodes": nodes})
        return sorted(found, key=lambda each: -abs(each["value"]))[:_MOST_LISTED]
