"""The BREC table in Markdown, and the plot of counts over the number of evaluations, from the files of rows alone."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from itertools import groupby
from pathlib import Path

from crawl.files import write_atomically
from crawl.runs.curves import save_figure
from reproduction.brec import CATEGORIES, NETWORKS, NUM_PAIRS, NUM_RELABELLINGS, THRESHOLD
from reproduction.brec_runs import Row, read_rows

_ALL = {**CATEGORIES, "all": range(NUM_PAIRS)}
_TITLES = {"cfi": "CFI", "4_vertex": "4-vertex condition"}
_EXPLANATION = (  # the published counts are those of the benchmark's repository
    f"A pair is distinguished if T² of {NUM_RELABELLINGS} differences is above {THRESHOLD} and that of its control is "
    "below it. T² is computed from the mean answers of several evaluations, each with walks of its own from each node: "
    "at most as many as the last column says, and no more than decide the pair, which 8 may do. A cell has the pairs "
    "distinguished and those tested; a line of means is over the pairs that all seeds have tested, "
    f"with the standard deviation over seeds. Published, of {NUM_PAIRS}: I²-GNN 281, KP-GNN 275, 3-WL 270, GSN 254."
)


def write_brec_report(folder: Path) -> list[Path]:
    """Write `brec.md` and `brec.png` beside the rows in a folder; the files written.

    The plot needs matplotlib and is left out without it.

    Raises:
        ValueError: If there are no rows, or as `read_rows` does.
    """
    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"There are no rows of BREC in {folder}: python -m reproduction brec --out {folder}.")
    page = folder / "brec.md"
    write_atomically(page, brec_page(rows))
    return [page, *_draw(rows, folder / "brec.png")]


def brec_page(rows: Sequence[Row]) -> str:
    """The tables of all rows, with what a reader must know."""
    by_network = _by_network(rows)
    lines = [line for of_one in by_network.values() for line in _lines(of_one)]
    head = ["network", *map(_title, _ALL), "controls failed", "evaluations at most"]
    counts = sorted({count for row in rows for count in row.settings.counts})
    by_count = [
        [title, str(len(_tested_by_all(of_one))), *(_cell_at(of_one, count) for count in counts)]
        for title, of_one in by_network.items()
    ]
    return "\n".join(
        [
            "# BREC: pairs distinguished",
            "",
            _markdown([head, *lines]),
            "",
            _EXPLANATION,
            "",
            "## By the number of evaluations that are averaged",
            "",
            _markdown([["network", "pairs", *map(str, counts)], *by_count]),
            "",
            "Mean over seeds of the pairs that all seeds have tested; in brackets the controls that failed in all "
            "seeds together. A pair that was decided by fewer evaluations counts as it was decided.",
            "",
            *(f"- {_about(row)}" for row in rows),
            "",
        ]
    )


def _by_network(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {_network_title(network): list(of_one) for network, of_one in groupby(rows, lambda row: row.network)}


def _tested_by_all(rows: Sequence[Row]) -> set[int]:
    return set.intersection(*(set(row.pairs) for row in rows))


def _counts(rows: Sequence[Row], index: int, pairs: Collection[int]) -> list[int]:
    """The pairs that each row distinguishes, of those that all have tested."""
    common = _tested_by_all(rows).intersection(pairs)
    return [len(row.distinguished(index, common)) for row in rows]


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each seed, and one of means if there are several."""
    title, num_evaluations = _network_title(rows[0].network), str(rows[0].settings.num_evaluations)
    lines = []
    for row in rows:
        cells = [_share(len(row.distinguished(-1, pairs)), row.pairs.keys() & set(pairs)) for pairs in _ALL.values()]
        failed = len(row.failed_controls(-1, row.pairs))
        lines.append([f"{title}, seed {row.seed}", *cells, str(failed), num_evaluations])
    if len(rows) > 1:
        means = []
        for pairs in _ALL.values():
            found = _counts(rows, -1, pairs)
            mean = f"{statistics.mean(found):.1f} ± {statistics.pstdev(found):.1f}"
            means.append(_share(mean, _tested_by_all(rows).intersection(pairs)))
        failed = sum(len(row.failed_controls(-1, _tested_by_all(rows))) for row in rows)
        lines.append([f"{title}, mean of {len(rows)} seeds", *means, f"{failed} in all", num_evaluations])
    return lines


def _share(found: int | str, tested: Collection[int]) -> str:
    return f"{found} / {len(tested)}" if tested else "–"


def _cell_at(rows: Sequence[Row], count: int) -> str:
    """The mean number of pairs distinguished with the mean of this many evaluations, and how many controls failed."""
    counts = rows[0].settings.counts
    if count not in counts:
        return "–"
    index = counts.index(count)
    failed = sum(len(row.failed_controls(index, _tested_by_all(rows))) for row in rows)
    return f"{statistics.mean(_counts(rows, index, _ALL['all'])):.1f} ({failed})"


def _about(row: Row) -> str:
    settings = row.settings
    evaluated = statistics.mean(settings.counts[len(record["t2"]) - 1] for record in row.pairs.values())
    trained = statistics.mean(record["epochs"] for record in row.pairs.values())
    parts = (
        f"L={settings.num_layers}, d={settings.hidden_channels}",
        f"walks of {settings.num_steps} steps in training and {settings.num_eval_steps} in evaluation",
        f"{row.num_parameters:,} parameters",
        f"{trained:.1f} epochs and {evaluated:.1f} evaluations a pair",
        f"{row.made['wall_time_s'] / 60:.1f} minutes on {row.made['device']}, {row.made['runs_at_a_time']} at a time",
        f"commit {row.made['commit']}",
    )
    return f"{row.name}: {'; '.join(parts)}"


def _title(category: str) -> str:
    return _TITLES.get(category, category.replace("_", " "))


def _network_title(network: str) -> str:
    window = NETWORKS[network]["window_size"]
    return f"CRaWl, s={window}" if network.startswith("crawl") else f"hybrid, s={window}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])


def _draw(rows: Sequence[Row], path: Path) -> list[Path]:
    """A panel for each category and one for all: pairs distinguished over the number of evaluations averaged."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    figure = Figure(figsize=(12, 6), layout="constrained")
    by_network = _by_network(rows)
    for axes, (category, pairs) in zip(figure.subplots(2, 4).flat, _ALL.items(), strict=True):
        for number, (title, of_one) in enumerate(by_network.items()):
            counts = of_one[0].settings.counts
            found = [_counts(of_one, index, pairs) for index in range(len(counts))]
            means, spreads = ([f(of_seeds) for of_seeds in found] for f in (statistics.mean, statistics.pstdev))
            label = f"{title}, {len(_tested_by_all(of_one))} pairs tested" if category == "all" else None  # once
            axes.errorbar(counts, means, spreads, color=f"C{number}", marker=".", capsize=2, label=label)
        axes.set(title=f"{_title(category)} ({len(pairs)} pairs)")
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
        axes.grid(alpha=0.3)
    figure.supxlabel("evaluations averaged, with one walk from each node in each")
    figure.supylabel("pairs distinguished, ± over seeds")
    figure.legend(loc="outside upper center", ncols=len(by_network), frameon=False)
    save_figure(figure, path)
    return [path]
