"""CRaWl: graph learning with random walks and 1D CNNs."""

from crawl.graph import Graph
from crawl.models import CRaWl
from crawl.nn import CRaWlConv, Dense, Embedding, OneHot, Readout, VirtualNode
from crawl.walks import Walks, sample_walks

__version__ = "0.1.0"
__all__ = [
    "CRaWl",
    "CRaWlConv",
    "Dense",
    "Embedding",
    "Graph",
    "OneHot",
    "Readout",
    "VirtualNode",
    "Walks",
    "sample_walks",
]
