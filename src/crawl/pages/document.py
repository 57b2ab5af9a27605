"""A page: what stands on it, and the one file that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Note:
    """A remark that stands out: what is missing and why, or what to mind."""

    text: str
    tone: Literal["note", "warning"] = "note"


@dataclass(frozen=True)
class Code:
    """A command or a piece of a file, as it is."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names and values, side by side."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A table; cells are text, or pictures.

    Attributes:
        columns: The header.
        rows: A cell for each column.
        caption: What it shows.
        align: A letter for each column: `l` for words, `r` for numbers; all `l` when empty.
        strong: The row to point out, if any.
        warned: Rows to mind, whose text has the colour of warnings.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Markup]]
    caption: str = ""
    align: str = ""
    strong: int | None = None
    warned: Sequence[int] = ()

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows} | ({len(self.align)} if self.align else set())
        if widths - {len(self.columns)}:
            raise ValueError(f"A table of {len(self.columns)} columns has rows or an alignment of another width.")


@dataclass(frozen=True)
class Figure:
    """A picture, as `plot` and `clean_svg` return it, with what it shows."""

    picture: Markup
    caption: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.picture, Markup):
            raise ValueError("The picture of a figure must come from crawl.pages.plot or crawl.pages.clean_svg.")


@dataclass(frozen=True)
class Gallery:
    """Figures side by side, as many as fit; small ones, such as molecules, closely."""

    figures: Sequence[Figure]
    is_small: bool = False


@dataclass(frozen=True)
class Fold:
    """Parts that are hidden until a person asks for them."""

    title: str
    parts: Sequence[Text | Note | Code | Facts | Table | Figure | Gallery]


@dataclass(frozen=True)
class Highlight:
    """A number that the page begins with."""

    name: str
    value: str
    remark: str = ""


Part = Text | Note | Code | Facts | Table | Figure | Gallery | Fold


@dataclass(frozen=True)
class Section:
    """A heading and what follows it."""

    title: str
    parts: Sequence[Part]


def page(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: str = "",
    highlights: Sequence[Highlight] = (),
    footer: str = "",
) -> str:
    """A page as one file of HTML, with everything that it needs in it: it asks nobody for anything and runs nothing.

    All text is text: what looks like HTML in it is shown, not obeyed.

    Args:
        title: Of the page.
        sections: Its content; those without parts are left out.
        subtitle: A line below the title.
        highlights: Numbers to begin with.
        footer: A line at the end.
    """
    shown = [section for section in sections if section.parts]
    return _template().render(
        title=title, sections=shown, subtitle=subtitle, highlights=highlights, footer=footer, kind=_kind
    )


def _kind(part: Part) -> str:
    """The name of a part's class, by which the template chooses."""
    if not isinstance(part, Part):
        raise ValueError(f"A part of a page must be one of {', '.join(kind.__name__ for kind in get_args(Part))}.")
    return type(part).__name__


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html")
