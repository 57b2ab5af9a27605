"""`crawl predict` for a model of links: a table of pairs in, the same table with the probability of a link out."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawl.cli.inputs import counter
from crawl.cli.output import STDOUT, open_output, say

if TYPE_CHECKING:
    from crawl.data import OneGraph
    from crawl.data.link_folder import KnownLinks, Pairs
    from crawl.runs import TrainedModel


def predict_pairs(
    trained: TrainedModel, known: KnownLinks, graph: OneGraph, path: Path, output: Path, hide: bool, how: dict[str, Any]
) -> None:
    """Write the rows of a table of pairs with their predictions, many at a time.

    Args:
        trained: The model.
        known: The links of the graph.
        graph: The graph.
        path: The table of pairs.
        output: Where to write.
        hide: Whether the link of a pair is hidden while it is predicted.
        how: How to predict besides; see `TrainedModel.predict`.
    """
    from crawl.data.link_folder import read_pairs

    asked = read_pairs(path, known)
    added = ["probability_link", *(f"{spread}_link" for spread in trained.spread_names), "reason"]
    taken = [name for name in added if name in asked.table.columns]
    if taken:
        raise ValueError(f"{path} has a column {taken[0]!r} already: rename it.")
    if asked.rows and len(asked.reasons) == len(asked.rows):
        reason = f"The first of {len(asked.rows)} has none because: {asked.reasons[0]}."
        raise ValueError(f"No row of {path} has a prediction. {reason}")
    answers = _answers(trained, graph, asked, hide=hide, **how)
    first = next(answers, None)  # what is refused leaves no header
    with open_output(output) as file, counter() as count:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*asked.table.header, *added])
        for i, row in enumerate(asked.rows):
            if i in asked.reasons:
                answer = [*[""] * (len(added) - 1), asked.reasons[i]]
            else:
                assert first is not None
                answer, first = [*first, ""], next(answers, None)
            writer.writerow([*(row.cells[name] for name in asked.table.columns), *answer])
            count(1)
    bad = f", {len(asked.reasons)} without a prediction (see the column reason)" if asked.reasons else ""
    say(f"{len(asked.rows)} rows{bad}" + ("" if output == STDOUT else f" → {output}"))
    num_seen = 0 if hide else known.num_linked(asked.owners)
    if num_seen:
        where = f"Pairs that are linked in {known.path}: {num_seen}"
        say(f"{where}. The model has seen these links; --hide hides them.")


def _answers(trained: TrainedModel, graph: OneGraph, asked: Pairs, **how: Any) -> Iterator[list[str]]:
    """Probability and spreads of each pair that can be read, as text."""
    if not len(asked.owners):
        return
    store = graph.with_owners(asked.owners)
    for piece in trained.predictions_in_pieces(store, **how):
        for values in zip(piece.mean[:, 0], *(spread[:, 0] for spread in piece.spreads.values()), strict=True):
            yield [f"{value:.6g}" for value in values]
