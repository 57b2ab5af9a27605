"""Structural encodings: what a node or an edge of a graph is like, as numbers, before any network sees it.

All take a `Graph`, of one graph or of a whole data set side by side, and return a row for each node or edge.
"""

from crawl.encodings.cycles import CycleCounts, cycle_counts
from crawl.encodings.estimates import estimate_return_probabilities, estimate_walk_probabilities
from crawl.encodings.probabilities import return_probabilities, walk_probabilities
from crawl.encodings.spectrum import laplacian_eigenvectors

__all__ = [
    "CycleCounts",
    "cycle_counts",
    "estimate_return_probabilities",
    "estimate_walk_probabilities",
    "laplacian_eigenvectors",
    "return_probabilities",
    "walk_probabilities",
]
