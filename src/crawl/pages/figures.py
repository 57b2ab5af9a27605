"""Figures drawn by matplotlib, as SVG that stands in a page and follows its colours."""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from markupsafe import Markup

from crawl.pages.colours import GRID, INK, MUTED, SERIES
from crawl.pages.svg import clean_svg

NO_MATPLOTLIB = "There are no figures, since matplotlib is not installed. To have them: pip install matplotlib"
_SETTINGS = threading.Lock()  # matplotlib's are for the whole process
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "text.parse_math": False,  # a name with dollars is a name
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "patch.linewidth": 0,
}


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    return find_spec("matplotlib") is not None


def plot(
    draw: Callable[[Any], None], name: str, label: str, *, width: float = 6.4, height: float = 3.4, **settings: Any
) -> Markup:
    """What `draw` draws into a figure of matplotlib, as an element of a page. The same drawing gives the same text.

    Args:
        draw: Called with a `Figure`, whose style is set. Colours are those of `crawl.pages.colours`.
        name: A word that no other picture of the page has.
        label: What the figure shows, for those who do not see it.
        width: Of the figure, in inches.
        height: The same.
        settings: Of matplotlib's `rc_context`, in addition.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    file = io.BytesIO()
    style: Any = {**_STYLE, "axes.prop_cycle": cycler(color=SERIES), "svg.hashsalt": name, **settings}
    with _SETTINGS, matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # the font of the page may have it
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return clean_svg(file.getvalue(), name, label)


def short(text: object, most: int = 40) -> str:
    """A name for a figure: in one line, without control characters, shortened in the middle."""
    line = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", " ", str(text)).split())
    half = (most - 1) // 2
    return line if len(line) <= most else f"{line[: most - 1 - half]}…{line[-half:]}"
