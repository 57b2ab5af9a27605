"""One graph whose links are to be predicted: which pairs of nodes are linked, and which are not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import MAX_COUNT, MAX_SEED, between, check_type, shown, truth, whole_number
from crawl.data.dataset import Dataset
from crawl.data.link_graph import LinkGraph
from crawl.data.link_list import LinkList
from crawl.data.one_graph import Batches
from crawl.data.pairs import draw_other_pairs, pair_numbers, pairs_of_numbers
from crawl.data.pyg import categories_of, warn_of_unused
from crawl.data.splits import Fractions, Split, random_split
from crawl.data.task import Task
from crawl.graph import Graph
from crawl.tensor_checks import holds_integers, plain_tensor

Part = tuple[Tensor, Tensor | None]
FEWEST_LINKS = 4  # links that a graph must have
USED = {"x", "edge_index", "edge_attr", "edge_weight", "num_nodes", "batch", "ptr", "graph_keys"}
USED |= {"edge_label", "edge_label_index"}
USED |= {"y", "train_mask", "val_mask", "test_mask"}  # not used, but of another task on the graph


def from_links(
    data: Data,
    val: Data | None = None,
    test: Data | None = None,
    *,
    fractions: Fractions = (0.85, 0.05, 0.1),
    seed: int = 0,
    num_negatives: int = 1,
    supervised_share: float = 0.3,
    metric: str | None = None,
    batches: Batches = "full",
    undirected: bool = False,
    name: str = "links",
) -> Dataset:
    """One graph whose links are split into training, validation and test: learn on some, predict the others.

    A link is an unordered pair of two different nodes with an edge between them. Self-loops are not links, and parallel
    edges are one; `skipped` of the data set says how many there were. Walks, bits and messages know the training links
    only. What is predicted in an epoch is drawn for it: a share of the training links, which are taken out of the graph
    as long, and pairs that are not linked, drawn uniformly from all pairs that are not known to be linked in any split.
    Those of validation and test are drawn once. A warning names what else the data have, such as `pos` or `u`, which
    is not used, except `y`, masks and strings.

    Args:
        data: The graph, which lists both directions of an edge. With `val` and `test`, the training part.
        val, test: The parts as PyG's `RandomLinkSplit` makes them, with `edge_label_index` and `edge_label`; both or
            neither. Of these only the labelled pairs are read. Pairs that are not linked are drawn if there are none.
        fractions: The shares of training, validation and test among the links, if they are drawn.
        seed: Of the split, and of the pairs of validation and test that are not linked.
        num_negatives: How many pairs that are not linked there are for each that is.
        supervised_share: The share of the training links that an epoch hides and predicts.
        metric: The score: `roc_auc` when None, `ap`, `accuracy`, `macro_f1`, `mrr`, or `hits@k` with a number k.
        batches: Whether a batch is the `full` graph, or `closed` walks around its pairs; see `OneGraph`.
        undirected: Take an edge that is listed one way only for a link, too, as the trained model does in graphs that
            it is asked about.
        name: What to call it in reports.

    Raises:
        ValueError: If the graph is directed or has too few links, and for anything else that is wrong with it.
    """
    check_type("data", data, Data, "give one graph as a PyG Data")
    if (val is None) != (test is None):
        raise ValueError("Give both val and test, or neither.")
    undirected = truth("undirected", undirected)
    links = LinkList.of(data, undirected)
    parts: list[Part]
    if val is None or test is None:
        if len(links.numbers) < FEWEST_LINKS:
            few = f"The graph has {len(links.numbers)} links, too few to be split"
            raise ValueError(f"{few}: {FEWEST_LINKS} are needed.")
        split = random_split(len(links.numbers), fractions, seed)
        training = links.only(split.train)
        parts = [(links.numbers[ids], None) for ids in (split.val, split.test)]
    else:
        loops: list[str] = []
        parts = [_labelled(part, data.num_nodes, title, loops) for part, title in ((val, "val"), (test, "test"))]
        training = links.joined(_labelled(data, data.num_nodes, "data", loops)[0])
        training = replace(training, skipped=(*training.skipped, *loops))
        _check_apart({"train": (training.numbers, None), "val": parts[0], "test": parts[1]})
    warn_of_unused(data, USED)
    dataset = dataset_of_links(
        training,
        None if data.x is None else plain_tensor("x", data.x),
        parts,
        seed=seed,
        num_negatives=num_negatives,
        supervised_share=supervised_share,
        metric=metric,
        batches=batches,
        name=name,
    )
    return replace(dataset, undirected=undirected)


def dataset_of_links(
    training: LinkList,
    x: Tensor | None,
    parts: Sequence[Part],
    *,
    seed: int = 0,
    num_negatives: int = 1,
    supervised_share: float = 0.3,
    metric: str | None = None,
    batches: Batches = "full",
    name: str = "links",
) -> Dataset:
    """The data set of training links, and of the parts for validation and test, in this order; see `from_links`.

    A part is the numbers of its links and of its pairs without one, which are drawn where they are None.
    """
    check_type("name", name, str)
    num_negatives = whole_number("num_negatives", num_negatives, 1, MAX_COUNT)
    supervised_share = between("supervised_share", supervised_share, 0, 1)
    task = Task(kind="binary", level="pair", num_outputs=1, metric="" if metric is None else metric)
    generator = np.random.default_rng(whole_number("seed", seed, 0, MAX_SEED))
    known = torch.unique(torch.cat([training.numbers, *(positive for positive, _ in parts)]))
    num_links, num_nodes = len(training.numbers), training.num_nodes
    num_hidden = max(1, round(supervised_share * num_links))
    if num_hidden >= num_links:
        raise ValueError(f"{num_links} links are too few for training: hiding some of them would leave none.")
    fixed = [
        (positive, _others(num_negatives * len(positive), num_nodes, known, generator) if other is None else other)
        for positive, other in parts
    ]
    hidden = training.numbers[torch.from_numpy(generator.choice(num_links, num_hidden, replace=False))]
    groups = [(hidden, _others(num_negatives * num_hidden, num_nodes, known, generator)), *fixed]
    numbers = torch.cat([group for pair in groups for group in pair])
    y = torch.cat([torch.full((len(group),), 1 - i, device="cpu") for pair in groups for i, group in enumerate(pair)])
    x, node_categories = categories_of("x", x)
    edge_attr, edge_categories = categories_of("edge_attr", training.edge_attr)
    store = LinkGraph(
        Graph.from_edge_index(training.edge_index, num_nodes),
        pairs_of_numbers(numbers),
        x,
        edge_attr,
        y,
        training.edge_index,
        batches,
        known,
        num_hidden,
        num_negatives,
    ).checked()
    ids = torch.split(torch.arange(len(y), device="cpu"), [len(first) + len(second) for first, second in groups])
    return Dataset(name, store, task, Split(*ids), node_categories, edge_categories, skipped=training.skipped)


def _labelled(data: Data, num_nodes: int, part: str, skipped: list[str]) -> Part:
    """The numbers of the pairs that `edge_label_index` says are linked, and of those that are not; None if there are
    none of the latter. Adds to `skipped` how many pairs are self-loops, which are neither."""
    check_type(part, data, Data, "give a part of RandomLinkSplit")
    pairs, labels = getattr(data, "edge_label_index", None), getattr(data, "edge_label", None)
    if pairs is None and part == "data":
        return torch.empty(0, dtype=torch.long, device="cpu"), None
    if not holds_integers(pairs) or pairs.dim() != 2 or pairs.shape[0] != 2:
        raise ValueError(f"{part}.edge_label_index must be pairs of nodes, [2, M] integers, not {shown(pairs)}.")
    pairs = pairs.cpu().long().t()
    wrong = pairs[(pairs < 0) | (pairs >= num_nodes)]
    if wrong.numel():
        raise ValueError(f"There is no node {int(wrong[0])} ({part}): the graph has nodes 0 to {num_nodes - 1}.")
    if labels is None:
        labels = torch.ones(len(pairs), device="cpu")
    labels = plain_tensor(f"{part}.edge_label", labels).cpu()
    if labels.shape != (len(pairs),) or not bool(((labels == 0) | (labels == 1)).all()):
        raise ValueError(f"{part}.edge_label must be 0 or 1 for each of {len(pairs)} pairs, not {shown(labels)}.")
    are_two = pairs[:, 0] != pairs[:, 1]
    if num_loops := int((~are_two).sum()):
        skipped.append(f"self-loops in {part}.edge_label_index, which are not links: {num_loops}")
        pairs, labels = pairs[are_two], labels[are_two]
    linked, others = (torch.unique(pair_numbers(pairs[labels == label])) for label in (1, 0))
    if len(linked) == 0:
        raise ValueError(f"No pair of two nodes is linked in {part}: edge_label must be 1 for some.")
    both = linked[torch.isin(linked, others)]
    if both.numel():
        raise ValueError(f"{part}.edge_label says both of nodes {pairs_of_numbers(both)[0].tolist()}: 0 and 1.")
    return linked, others if len(others) else None


def _check_apart(parts: dict[str, Part]) -> None:
    """Refuses a link in two splits: it would be known where it is to be predicted; and a link of one split that another
    says is none."""
    for first, second in itertools.permutations(parts, 2):
        linked, (as_linked, as_others) = parts[first][0], parts[second]
        both = linked[torch.isin(linked, as_linked)]
        if both.numel():
            u, v = pairs_of_numbers(both[:1])[0].tolist()
            raise ValueError(f"The link of {u} and {v} is in {first} and in {second}: a link belongs to one split.")
        wrong = linked[:0] if as_others is None else linked[torch.isin(linked, as_others)]
        if wrong.numel():
            u, v = pairs_of_numbers(wrong[:1])[0].tolist()
            raise ValueError(
                f"{second}.edge_label says 0 of nodes {u} and {v}, which are linked in {first}: leave that pair out of "
                f"{second}."
            )


def _others(num_pairs: int, num_nodes: int, known: Tensor, generator: np.random.Generator) -> Tensor:
    return pair_numbers(draw_other_pairs(num_pairs, num_nodes, known, generator))
