"""Graphs in files: built from edge lists of any length in bounded memory, and mapped into memory to be walked on."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.graph_files.build import build_graph_file
    from crawl.graph_files.layout import open_features

__all__ = ["build_graph_file", "open_features"]

__getattr__, __dir__ = lazy(
    __name__, {"crawl.graph_files.build": ("build_graph_file",), "crawl.graph_files.layout": ("open_features",)}
)
