"""Pages for people: one self-contained HTML file each, from sections of text, tables and figures."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.pages.document import Code, Facts, Figure, Fold, Gallery, Highlight, Note, Section, Table, Text, page
    from crawl.pages.figures import NO_MATPLOTLIB, has_matplotlib, plot
    from crawl.pages.svg import clean_svg

__all__ = [
    "NO_MATPLOTLIB",
    "Code",
    "Facts",
    "Figure",
    "Fold",
    "Gallery",
    "Highlight",
    "Note",
    "Section",
    "Table",
    "Text",
    "clean_svg",
    "has_matplotlib",
    "page",
    "plot",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.pages.figures": ("NO_MATPLOTLIB", "has_matplotlib", "plot"),
        "crawl.pages.document": (
            *("Code", "Facts", "Figure", "Fold", "Gallery", "Highlight", "Note", "Section", "Table", "Text", "page"),
        ),
        "crawl.pages.svg": ("clean_svg",),
    },
)
