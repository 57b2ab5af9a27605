"""Colours of figures, as numbers that a picture is drawn with and as the variables of `page.css` that replace them.

A picture in the page thus follows the colours of the page, light, dark or printed. Nothing else may be drawn in these
numbers, which nobody would choose.
"""

INK, MUTED, GRID, PAPER = "#010201", "#010202", "#010203", "#010204"
SERIES = tuple(f"#0103{i:02x}" for i in range(1, 9))  # for lines, points and bars, in this order

VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", PAPER: "--card"}
VARIABLES |= {colour: f"--series-{i}" for i, colour in enumerate(SERIES, 1)}
ATOMS = {  # those of rdkit, some of which nobody sees on a dark page
    "#000000": INK,
    "#0000FF": SERIES[2],
    "#FF0000": SERIES[1],
    "#33CCCC": SERIES[0],
    "#00CC00": SERIES[6],
    "#CCCC00": SERIES[4],
    "#7F4C19": SERIES[3],
    "#A01EEF": SERIES[5],
    "#FF7F00": SERIES[4],
}
FIXED = "#3d7fc1"  # of points that are drawn as pixels, which know no variables: seen on light and dark
