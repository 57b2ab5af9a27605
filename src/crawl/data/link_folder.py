"""The links of one graph in a folder: edges.csv with ends, features and a split, perhaps nodes.csv; or graph.crawl."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import as_list, as_path, check_type, shown, suggestion
from crawl.choices import Batches
from crawl.data.dataset import Dataset
from crawl.data.features import Columns, Unknown, category_sizes, check_names
from crawl.data.graph_folder import GRAPH, has_graph_file, node_of, read_graph_folder
from crawl.data.link_graph_file import from_link_graph_file, num_linked, with_plain_links
from crawl.data.link_list import LinkList
from crawl.data.links import FEWEST_LINKS, dataset_of_links
from crawl.data.node_folder import NodeFolder, read_tables
from crawl.data.one_graph import OneGraph
from crawl.data.pairs import pair_numbers
from crawl.data.splits import Fractions, random_split, split_from_column
from crawl.data.table import Row, Table

_USUAL_FRACTIONS = (0.85, 0.05, 0.1)


def from_link_folder(
    folder: str | Path,
    *,
    split: str = "auto",
    fractions: Fractions = _USUAL_FRACTIONS,
    seed: int = 0,
    num_negatives: int = 1,
    supervised_share: float = 0.3,
    metric: str | None = None,
    batches: Batches = "full",
) -> Dataset:
    """The graph of `edges.csv` in a folder, whose links are split into training, validation and test; see `from_links`.

    `edges.csv` has the columns `source` and `target`, and perhaps `split` and features. Each link is listed once.
    `nodes.csv` may be there, with a column `id` and features, which are all others except `split`: then all of its rows
    are nodes. Without it, the nodes are the ids in `edges.csv`, in the order in which they occur.

    Instead of both files there may be `graph.crawl`, built with --undirected: then batches are closed, the split is
    drawn, and features stay in the file.

    Args:
        folder: The folder. Both files may be compressed with gzip, their names then end in .gz.
        split: `auto` is the column `split` of `edges.csv`, if there is one, and else `random`; or `random`, or another
            column that says `train`, `val` or `test`.
        fractions, seed: For parts that are drawn.
        num_negatives, supervised_share, metric, batches: As in `from_links`.

    Raises:
        ValueError: For anything wrong with the files or the choices; the message says where and what to do.
    """
    check_type("split", split, str)
    fractions = tuple(as_list("fractions", fractions, "three shares"))
    if has_graph_file(folder):
        how: dict[str, Any] = {"num_negatives": num_negatives, "supervised_share": supervised_share, "metric": metric}
        return from_link_graph_file(folder, split=split, fractions=fractions, seed=seed, batches=batches, **how)
    found = read_tables(folder, are_links=True)
    table = found.edges
    if split == "auto":
        split = "split" if "split" in table.columns else "random"
    is_column = split != "random"
    if is_column and split not in table.columns:
        hint = suggestion(split, ("random", *table.columns))
        raise ValueError(f"split is {shown(split)}, which is neither random nor a column of {table.path}.{hint}")
    if split in ("source", "target"):
        raise ValueError(f"Column {split!r} of {table.path} cannot be the split, too.")
    if is_column and fractions != _USUAL_FRACTIONS:
        raise ValueError(f"fractions={shown(fractions)} cannot change the split in the column {split!r}: leave it out.")
    of_nodes, of_edges = _attributes(found, split)
    columns = Columns(found.columns("node", of_nodes), found.columns("edge", of_edges))
    store = found.store(columns, of_nodes, of_edges, Unknown(), (), batches)
    if is_column:
        places = [f"line {row.line} of {table.path}" for row in found.edge_rows]
        chosen = split_from_column([row.cells[split] for row in found.edge_rows], places)
    else:
        if len(found.edge_rows) < FEWEST_LINKS:
            few = f"{table.path} has {len(found.edge_rows)} link{'s' * (len(found.edge_rows) != 1)}"
            raise ValueError(f"{few}, too few to be split: {FEWEST_LINKS} are needed.")
        chosen = random_split(len(found.edge_rows), fractions, seed)
    numbers = pair_numbers(found.ends.t())
    links = LinkList.of(
        Data(edge_index=store.edge_index, edge_attr=store.edge_attr, num_nodes=store.num_nodes), undirected=False
    )
    training = links.only(torch.searchsorted(links.numbers, numbers[chosen.train].sort().values))
    dataset = dataset_of_links(
        training,
        store.x,
        [(numbers[ids].sort().values, None) for ids in (chosen.val, chosen.test)],
        seed=seed,
        num_negatives=num_negatives,
        supervised_share=supervised_share,
        metric=metric,
        batches=batches,
        name=as_path("folder", folder).resolve().name,
    )
    assert isinstance(dataset.store, OneGraph)
    names = [row.cells["id"] for row in found.rows]
    return replace(
        dataset,
        node_categories=category_sizes(columns.nodes),
        edge_categories=category_sizes(columns.edges),
        skipped=found.skipped,
        graph_names=tuple(f"{names[u]}:{names[v]}" for u, v in dataset.store.owners.tolist()),
        columns=columns,
    )


def read_links(
    folder: str | Path, columns: Columns, unknown: Unknown, *, split: str = "auto", batches: Batches = "full"
) -> tuple[NodeFolder, OneGraph]:
    """What a folder lists, and its graph with all links and with features as these columns say; targets are all nodes,
    without `y`.

    Args:
        folder: A folder as in `from_link_folder`.
        columns: What the features of the training graph were.
        unknown: Values that did not occur there are counted in it.
        split: The column of the split in the training, which is not a feature.
        batches: As in the training.

    Raises:
        ValueError: For anything wrong with the files, and for other features than in training.
    """
    found = read_tables(folder, are_links=True)
    of_nodes, of_edges = _attributes(found, split)
    for owner, names, kinds, number in (
        ("node", of_nodes, columns.nodes, len(found.rows)),
        ("edge", of_edges, columns.edges, len(found.edge_rows)),
    ):
        check_names(owner, names, kinds, number)
    return found, found.store(columns, of_nodes, of_edges, unknown, range(len(found.rows)), batches)


def _attributes(found: NodeFolder, split: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The features of nodes and of edges."""
    # A split of nodes is for a task on nodes: as a feature it would tell the parts of that task.
    return found.attributes("node", {"id", "split"}), found.attributes("edge", {"source", "target", "split", split})


@dataclass(frozen=True)
class KnownLinks:
    """Nodes by their ids, and which of them are linked.

    Attributes:
        path: The file that lists the links.
        place_of: The node with an id; None if there is none.
        num_linked: How many of `[M, 2]` pairs of nodes are linked.
    """

    path: Path
    place_of: Callable[[str], int | None]
    num_linked: Callable[[Tensor], int]


def links_of_tables(found: NodeFolder) -> KnownLinks:
    """The links that a folder lists in tables."""
    places = {row.cells["id"]: place for place, row in enumerate(found.rows)}
    linked = pair_numbers(found.ends.t())
    return KnownLinks(found.edges.path, places.get, lambda pairs: int(torch.isin(pair_numbers(pairs), linked).sum()))


def read_link_graph(folder: str | Path, only: str | Path | None = None) -> tuple[KnownLinks, OneGraph]:
    """The links of a folder with `graph.crawl`, which is mapped, and the graph with all nodes as targets, or with those
    in a table, `only`.

    Raises:
        ValueError: If the graph file is damaged.
    """
    path = as_path("folder", folder) / GRAPH
    store = with_plain_links(read_graph_folder(folder, only), path)
    known = KnownLinks(
        path,
        lambda text: node_of(text, store.num_nodes),
        lambda pairs: num_linked(store.graph, pairs),
    )
    return known, store


@dataclass(frozen=True)
class Pairs:
    """Pairs of nodes in a table, as it lists them.

    Attributes:
        table: The table.
        rows: Its rows.
        owners: `[M, 2]` the pairs of the rows that can be read.
        reasons: Why a row cannot be read, by its place.
    """

    table: Table
    rows: list[Row]
    owners: Tensor
    reasons: dict[int, str]


def read_pairs(path: str | Path, known: KnownLinks) -> Pairs:
    """The pairs in a CSV file with the columns `source` and `target`, ids of nodes of a folder.

    Raises:
        ValueError: If the file is empty or lacks a column.
    """
    table = Table(path)
    for column in ("source", "target"):
        table.check_column(column)
    rows, owners, reasons = list(table), [], {}
    for i, row in enumerate(rows):
        ends = [row.cells["source"], row.cells["target"]]
        places = [known.place_of(end) for end in ends]
        unknown = next((end for end, place in zip(ends, places, strict=True) if place is None), None)
        if row.problem:
            reasons[i] = row.problem
        elif unknown is not None:
            reasons[i] = f"there is no node {unknown!r}" if unknown else "an id is empty"
        elif places[0] == places[1]:
            reasons[i] = "a link is between two different nodes"
        else:
            owners.append(places)
    return Pairs(table, rows, torch.tensor(owners, dtype=torch.long).reshape(-1, 2), reasons)
