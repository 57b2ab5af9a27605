"""An explanation, which can write its page."""

from __future__ import annotations

from pathlib import Path

from crawl.checks import as_path
from crawl.explanations.explained import Explained
from crawl.explanations.page import explanation_page
from crawl.files import write_atomically


class Explanation(Explained):
    """What a prediction is made of; the attributes are those of `Explained`."""

    def save_html(self, path: str | Path) -> Path:
        """Write a page with pictures, one file that needs nothing else; its path. Needs matplotlib, or rdkit."""
        path = as_path("path", path)
        write_atomically(path, explanation_page([(self.smiles or "Graph", self)]))
        return path
