"""The page of explanations: one file, with a section for each graph."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from crawl.explanations.drawing import can_draw, draw_explanation, draw_subgraph, nodes_in_words
from crawl.explanations.explained import Explained
from crawl.explanations.subgraphs import Subgraph
from crawl.pages.document import Facts, Figure, Gallery, Note, Part, Section, Table, Text, page
from crawl.pages.figures import NO_MATPLOTLIB, has_matplotlib

_COLOURS = "Blue adds to the prediction, red takes away from it."
_HOW_TO_READ = (
    "All numbers are in the unit of the target; for classes they are logits. The prediction is the baseline, plus what "
    "nodes and edges add, plus a residual that the integrals miss. The baseline is what the model answers for a graph "
    "without nodes if it sums over nodes, else what it answers without features and with walks that it does not hear."
)
_ABOUT_SUBGRAPHS = (
    "A subgraph is a set of nodes that a walk went through within one window, so it is connected. Its score is what is "
    "read within it adds: of its nodes, of the edges between them, and of the bits by which walks notice that they "
    "come back to a node or see an edge to one. After ± is the standard deviation over evaluations with different "
    "walks. Subgraphs are ranked by how far they stand out from as many average nodes."
)


def explanation_page(
    explained: Sequence[tuple[str, Explained | str]], *, title: str = "Explanations", subtitle: str = ""
) -> str:
    """A page with a section for each graph: its name, and its explanation or the reason why there is none."""
    sections = []
    for number, (name, found) in enumerate(explained):
        parts = [Note(f"Not explained: {found}", "warning")] if isinstance(found, str) else _parts(found, f"g{number}")
        sections.append(Section(name, parts))
    sections.append(Section("How to read this page", [Text(_HOW_TO_READ), Text(_ABOUT_SUBGRAPHS)]))
    return page(title, sections, subtitle=" · ".join(filter(None, (subtitle, _COLOURS))))


def _parts(explanation: Explained, name: str) -> list[Part]:
    parts: list[Part] = [Facts(_facts(explanation))]
    problem = why_no_pictures(explanation)
    if problem is not None:
        parts.append(Note(problem))
    if not explanation.subgraphs:
        parts.append(Note("No walk went through two nodes, so there are no subgraphs."))
    if problem is None:
        whole = draw_explanation(explanation, f"{name}-all")
        parts.append(Figure(whole, title="What each node and edge adds"))
    if not explanation.subgraphs:
        return parts
    if problem is None:
        pictures = [
            Figure(draw_subgraph(explanation, each, f"{name}-{i}"), _caption(explanation, each), f"{i}. {each.title}")
            for i, each in enumerate(explanation.subgraphs, 1)
        ]
        parts.append(Gallery(pictures, is_small=True))
    rows = [
        [
            str(i),
            each.title,
            nodes_in_words(each.nodes),
            f"{each.score:+.3g}",
            _spread(explanation, each.spread) or "–",
            _seen(each),
        ]
        for i, each in enumerate(explanation.subgraphs, 1)
    ]
    columns = ["", "subgraph", "nodes", "score", "±", "what walks saw within it"]
    parts.append(Table(columns, rows, align="rllrrl"))
    return parts


def _facts(explanation: Explained) -> list[tuple[str, str]]:
    found = explanation
    predicted = _with_spread(f"{found.prediction:.4g}", _spread(found, found.prediction_spread))
    facts = [(f"prediction: {found.target}", predicted)]
    if found.probability is not None:
        facts.append(("probability", f"{found.probability:.3f}"))
    if found.node is not None:
        facts.append(("node", str(found.node)))
    facts += [("baseline", f"{found.baseline:.4g}")]
    if found.has_own:
        facts.append(("nodes and edges alone add", f"{found.silent - found.baseline:+.4g}"))
    facts.append(("walks add", f"{found.prediction - found.silent:+.4g}"))
    facts.append(("of this, the integrals miss", f"{found.residual:+.2g}"))
    facts.append(("evaluations, points", f"{found.num_repeats}, {found.num_points}"))
    return facts


def _caption(explanation: Explained, subgraph: Subgraph) -> str:
    return _with_spread(f"{subgraph.score:+.3g}", _spread(explanation, subgraph.spread))


def _spread(explanation: Explained, value: float) -> str:
    """A standard deviation over evaluations; nothing if there is one evaluation, which has no spread."""
    return f"{value:.2g}" if explanation.num_repeats > 1 else ""


def _with_spread(value: str, spread: str) -> str:
    return f"{value} ± {spread}" if spread else value


def _seen(subgraph: Subgraph) -> str:
    """What bits said within a subgraph, the most frequent first."""
    words = {"identity": "back after {} steps", "adjacency": "an edge to the node {} steps before"}
    found = [(n, words[kind].format(back)) for kind, backs in subgraph.seen.items() for back, n in backs.items()]
    texts = [f"{text} ({number}×)" for number, text in sorted(found, reverse=True)[:4]]
    return "; ".join(texts) or "steps alone: no node twice, no other edge"


def why_no_pictures(explanation: Explained) -> str | None:
    """Why there is no picture of a graph; None if there is one."""
    if not can_draw(explanation):
        return f"There is no picture, since the graph has {len(explanation.nodes)} nodes."
    if explanation.smiles is not None:
        return None if find_spec("rdkit") else "There are no pictures, since rdkit is not installed."
    return None if has_matplotlib() else NO_MATPLOTLIB
