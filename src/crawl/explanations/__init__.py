"""Explanations: which nodes, edges, windows of walks and connected subgraphs a prediction is made of."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.explanations.explained import Explained, WalkParts, Windows
    from crawl.explanations.explaining import explain, explain_subject
    from crawl.explanations.explanation import Explanation
    from crawl.explanations.faithfulness import Comparison, Deletion, compare, delete_subgraphs
    from crawl.explanations.subgraphs import Subgraph
    from crawl.explanations.subject import Subject, Target

__all__ = [
    "Comparison",
    "Deletion",
    "Explained",
    "Explanation",
    "Subgraph",
    "Subject",
    "Target",
    "WalkParts",
    "Windows",
    "compare",
    "delete_subgraphs",
    "explain",
    "explain_subject",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.explanations.explaining": ("explain", "explain_subject"),
        "crawl.explanations.explained": ("Explained", "WalkParts", "Windows"),
        "crawl.explanations.explanation": ("Explanation",),
        "crawl.explanations.faithfulness": ("Comparison", "Deletion", "compare", "delete_subgraphs"),
        "crawl.explanations.subgraphs": ("Subgraph",),
        "crawl.explanations.subject": ("Subject", "Target"),
    },
)
