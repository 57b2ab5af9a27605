"""CRaWl: graph learning with random walks and 1D CNNs."""

from crawl.graph import Graph
from crawl.walks import Walks, sample_walks

__version__ = "0.1.0"
__all__ = ["Graph", "Walks", "sample_walks"]
