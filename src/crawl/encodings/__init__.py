"""Structural encodings: what a node or an edge of a graph is like, as numbers, before any network sees it.

The functions take a `Graph`, of one graph or of a whole data set side by side, and return a row for each node or edge.
The classes are transforms of PyG, except `Encodings`, which says what a training uses.
"""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.encodings.cycles import CycleCounts, cycle_counts
    from crawl.encodings.estimates import estimate_return_probabilities, estimate_walk_probabilities
    from crawl.encodings.probabilities import return_probabilities, walk_probabilities
    from crawl.encodings.settings import Encodings
    from crawl.encodings.spectrum import laplacian_eigenvectors
    from crawl.encodings.transforms import (
        AddCycleCounts,
        AddLaplacianEigenvectors,
        AddReturnProbabilities,
        AddWalkProbabilities,
    )

_TRANSFORMS = ("AddCycleCounts", "AddLaplacianEigenvectors", "AddReturnProbabilities", "AddWalkProbabilities")

__all__ = [
    "AddCycleCounts",
    "AddLaplacianEigenvectors",
    "AddReturnProbabilities",
    "AddWalkProbabilities",
    "CycleCounts",
    "Encodings",
    "cycle_counts",
    "estimate_return_probabilities",
    "estimate_walk_probabilities",
    "laplacian_eigenvectors",
    "return_probabilities",
    "walk_probabilities",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.encodings.cycles": ("CycleCounts", "cycle_counts"),
        "crawl.encodings.estimates": ("estimate_return_probabilities", "estimate_walk_probabilities"),
        "crawl.encodings.probabilities": ("return_probabilities", "walk_probabilities"),
        "crawl.encodings.settings": ("Encodings",),
        "crawl.encodings.spectrum": ("laplacian_eigenvectors",),
        "crawl.encodings.transforms": _TRANSFORMS,
    },
)
