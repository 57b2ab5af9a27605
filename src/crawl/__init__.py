"""CRaWl: graph learning with random walks and 1D CNNs."""

from typing import TYPE_CHECKING, Any

from crawl.graph import Graph
from crawl.models import CRaWl
from crawl.nn import CRaWlConv, Dense, Embedding, Membership, OneHot, Readout, VirtualNode
from crawl.walks import Walks, sample_walks

if TYPE_CHECKING:
    from crawl.estimators import CRaWlClassifier, CRaWlRegressor

__version__ = "0.1.0"
__all__ = [
    "CRaWl",
    "CRaWlClassifier",
    "CRaWlConv",
    "CRaWlRegressor",
    "Dense",
    "Embedding",
    "Graph",
    "Membership",
    "OneHot",
    "Readout",
    "VirtualNode",
    "Walks",
    "sample_walks",
]


def __getattr__(name: str) -> Any:
    """The estimators, imported when they are first asked for: scikit-learn takes long to import."""
    if name in ("CRaWlClassifier", "CRaWlRegressor"):
        from crawl import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
