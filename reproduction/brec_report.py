"""The BREC table in Markdown, and the plot of counts over the number of evaluations, from the files of rows alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from crawl.files import write_atomically
from crawl.runs.curves import save_figure
from reproduction.brec import CATEGORIES, NETWORKS, NUM_PAIRS, NUM_RELABELLINGS, THRESHOLD
from reproduction.brec_runs import Row, read_rows

_ALL = {**CATEGORIES, "all": range(NUM_PAIRS)}
_TITLES = {"cfi": "CFI", "4_vertex": "4-vertex condition"}
_EXPLANATION = (  # the published counts are those of the benchmark's repository
    f"A pair is distinguished if T² of {NUM_RELABELLINGS} differences is above {THRESHOLD} and that of its control is "
    "below it. T² is computed from the mean answers of all evaluations, each with walks of its own from every node. A "
    "cell has the pairs distinguished and those tested. A line of means is over seeds that have tested the same pairs, "
    f"with the standard deviation over seeds. Published, of {NUM_PAIRS}: I²-GNN 281, KP-GNN 275, 3-WL 270, GSN 254."
)


def write_brec_report(folder: Path) -> list[Path]:
    """Write `brec.md` and `brec.png` beside the rows in a folder; the files written.

    The plot needs matplotlib and is left out without it.

    Raises:
        ValueError: If there are no rows, or one is damaged.
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
    head = ["network", *map(_title, _ALL), "controls failed", "evaluations"]
    counts = sorted({count for row in rows for count in row.settings.counts})
    by_count = [[title, *(_cell_at(of_one, count) for count in counts)] for title, of_one in by_network.items()]
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
            _markdown([["network", *map(str, counts)], *by_count]),
            "",
            "All categories, mean over seeds; in brackets the controls that failed in all seeds together.",
            "",
            *(f"- {_about(row)}" for row in rows),
            "",
        ]
    )


def _by_network(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(_network_title(row.network), []).append(row)
    return found


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each seed, and one of means if several have tested the same pairs."""
    title = _network_title(rows[0].network)
    lines = []
    for row in rows:
        cells = []
        for pairs in _ALL.values():
            tested = [pair for pair in pairs if pair in row.pairs]
            cells.append(f"{len(row.distinguished(-1, tested))} / {len(tested)}" if tested else "–")
        failed = len(row.failed_controls(-1, row.pairs))
        lines.append([f"{title}, seed {row.seed}", *cells, str(failed), str(row.settings.num_evaluations)])
    is_same = len({frozenset(row.pairs) for row in rows}) == len({row.settings for row in rows}) == 1
    if len(rows) > 1 and is_same:
        counts = [[len(row.distinguished(-1, pairs)) for row in rows] for pairs in _ALL.values()]
        means = [
            f"{statistics.mean(of_seeds):.1f} ± {statistics.pstdev(of_seeds):.1f}"
            if any(pair in rows[0].pairs for pair in pairs)
            else "–"
            for of_seeds, pairs in zip(counts, _ALL.values(), strict=True)
        ]
        failed = sum(len(row.failed_controls(-1, row.pairs)) for row in rows)
        lines.append([f"{title}, mean of {len(rows)}", *means, str(failed), str(rows[0].settings.num_evaluations)])
    return lines


def _cell_at(rows: Sequence[Row], count: int) -> str:
    """The mean number of pairs distinguished with the mean of this many evaluations, and how many controls failed."""
    having = [row for row in rows if count in row.settings.counts]
    if not having:
        return "–"
    found = [len(row.distinguished(row.settings.counts.index(count), row.pairs)) for row in having]
    failed = sum(len(row.failed_controls(row.settings.counts.index(count), row.pairs)) for row in having)
    return f"{statistics.mean(found):.1f} ({failed})"


def _about(row: Row) -> str:
    settings = row.settings
    trained = statistics.mean(record["epochs"] for record in row.pairs.values())
    parts = (
        f"L={settings.num_layers}, d={settings.hidden_channels}",
        f"walks of {settings.num_steps} steps in training and {settings.num_eval_steps} in evaluation",
        f"{row.num_parameters:,} parameters",
        f"{trained:.1f} epochs a pair",
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
    drawn = list(_by_network(rows).items())
    for axes, (category, pairs) in zip(figure.subplots(2, 4).flat, _ALL.items(), strict=True):
        for number, (title, of_one) in enumerate(drawn):
            counts = of_one[0].settings.counts
            of_seeds = [
                [len(row.distinguished(i, pairs)) for i in range(len(counts))]
                for row in of_one
                if row.settings.counts == counts
            ]
            means = [statistics.mean(values) for values in zip(*of_seeds, strict=True)]
            spreads = [statistics.pstdev(values) for values in zip(*of_seeds, strict=True)]
            label = title if category == "all" else None  # once in the legend
            axes.errorbar(counts, means, spreads, color=f"C{number}", marker=".", capsize=2, label=label)
        num_tested = max(len([pair for pair in pairs if pair in row.pairs]) for row in rows)
        axes.set(title=f"{_title(category)} ({num_tested} of {len(pairs)} pairs)", ylim=(-0.5, None))
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    figure.supxlabel("evaluations averaged, one walk from each node in each")
    figure.supylabel("pairs distinguished, ± over seeds")
    figure.legend(loc="outside lower center", ncols=len(drawn), frameon=False)
    save_figure(figure, path)
    return [path]
