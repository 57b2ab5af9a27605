"""Colours of figures, as numbers that a picture is drawn with and as the variables of `page.css` that replace them.

A picture in the page thus follows the colours of the page, light, dark or printed. Nothing else may be drawn in these
numbers, which nobody would choose.
"""

INK, MUTED, GRID, PAPER = "#010201", "#010202", "#010203", "#010204"
SERIES = tuple(f"#0103{i:02x}" for i in range(1, 9))  # for lines, points and bars, in this order

VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", PAPER: "--card"}
VARIABLES |= {colour: f"--series-{i}" for i, colour in enumerate(SERIES, 1)}
FIXED = "#3d7fc1"  # of points that are drawn as pixels, which know no variables: seen on light and dark
