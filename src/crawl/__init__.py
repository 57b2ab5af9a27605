"""CRaWl: graph learning with random walks and 1D CNNs."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.estimators import (
        CRaWlClassifier,
        CRaWlLinkPredictor,
        CRaWlNodeClassifier,
        CRaWlNodeRegressor,
        CRaWlRegressor,
    )
    from crawl.explanations.explaining import explain
    from crawl.exporting import export, export_inputs
    from crawl.graph import Graph
    from crawl.graph_files import build_graph_file, open_features
    from crawl.models import CRaWl, Network
    from crawl.nn import CRaWlConv, Dense, Embedding, OneHot, Readout, Segments, VirtualNode
    from crawl.runs.pretrained import from_pretrained
    from crawl.walks import WalkPlan, Walks, sample_walks

__version__ = "0.1.0"
__all__ = [
    "CRaWl",
    "CRaWlClassifier",
    "CRaWlConv",
    "CRaWlLinkPredictor",
    "CRaWlNodeClassifier",
    "CRaWlNodeRegressor",
    "CRaWlRegressor",
    "Dense",
    "Embedding",
    "Graph",
    "Network",
    "OneHot",
    "Readout",
    "Segments",
    "VirtualNode",
    "WalkPlan",
    "Walks",
    "build_graph_file",
    "explain",
    "export",
    "export_inputs",
    "from_pretrained",
    "open_features",
    "sample_walks",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.estimators": (
            *("CRaWlClassifier", "CRaWlLinkPredictor", "CRaWlNodeClassifier", "CRaWlNodeRegressor", "CRaWlRegressor"),
        ),
        "crawl.explanations.explaining": ("explain",),
        "crawl.exporting": ("export", "export_inputs"),
        "crawl.graph": ("Graph",),
        "crawl.graph_files": ("build_graph_file", "open_features"),
        "crawl.models": ("CRaWl", "Network"),
        "crawl.nn": ("CRaWlConv", "Dense", "Embedding", "OneHot", "Readout", "Segments", "VirtualNode"),
        "crawl.runs.pretrained": ("from_pretrained",),
        "crawl.walks": ("WalkPlan", "Walks", "sample_walks"),
    },
)
