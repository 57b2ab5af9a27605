"""Is an explanation true to its model? Remove a subgraph and see how much the prediction changes.

The top subgraph is removed, its nodes with all of their edges, and so are random connected ones of the same number of
nodes, each of which a walk of the model went through, as it did through the candidates. If the explanation says
something about the model, the former changes the prediction more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch_geometric.data import Data

from crawl.checks import check_type, whole_number
from crawl.explanations.explained import Explained
from crawl.explanations.subject import Subject
from crawl.explanations.windows import Floats

_MOST_TRIES = 1000


@dataclass(frozen=True)
class Deletion:
    """How a prediction changes when subgraphs of a graph are removed: before - after, in the unit of the target.

    Attributes:
        num_nodes: The nodes of the graph.
        size: The nodes of each subgraph.
        score: The score of the top subgraph.
        top: The change when it is removed.
        random: The changes for random connected subgraphs of this size.
    """

    num_nodes: int
    size: int
    score: float
    top: float
    random: tuple[float, ...]

    @property
    def advantage(self) -> float:
        """How much larger the change by the top subgraph is than by random ones, in the mean; signs do not count."""
        return abs(self.top) - float(np.mean(np.abs(self.random)))

    @property
    def lead(self) -> float:
        """How much further the top subgraph moves the prediction than random ones, in the direction of its score.

        Removing any nodes may move a prediction, as one that grows with the size of a graph; this is on both sides.
        """
        return float(np.sign(self.score)) * (self.top - float(np.mean(self.random)))


@dataclass(frozen=True)
class Comparison:
    """Top subgraphs against random ones over many graphs, paired graph by graph.

    Attributes:
        num_graphs: The graphs.
        top: The mean size of the change when the top subgraph is removed.
        random: The same for random connected subgraphs of the same size.
        top_wins: The share of graphs in which the top subgraph changes more than the mean random one.
        advantage: The mean difference.
        advantage_error: Its standard error.
        p_value: Of Wilcoxon's signed-rank test of the differences, one-sided: the chance of such an advantage if there
            were none.
        lead: The mean lead of top subgraphs: how much further they move the prediction in the direction of their score.
        lead_error: Its standard error.
        lead_wins: The share of graphs with a positive lead.
        lead_p_value: As `p_value`, for leads.
        agreement: Spearman's correlation of the score of the top subgraph with the change; None if there is none.
    """

    num_graphs: int
    top: float
    random: float
    top_wins: float
    advantage: float
    advantage_error: float
    p_value: float
    lead: float
    lead_error: float
    lead_wins: float
    lead_p_value: float
    agreement: float | None


def delete_subgraphs(
    subject: Subject,
    data: Data,
    explanation: Explained,
    *,
    num_random: int = 10,
    num_repeats: int = 5,
    seed: int = 0,
) -> Deletion | None:
    """The changes for one graph; None if it has no subgraph that can be removed, or no random one of its size.

    Args:
        subject: The model and the target of the explanation.
        data: The graph.
        explanation: Of its prediction.
        num_random: Random subgraphs.
        num_repeats: Evaluations of each graph, whose mean is compared.
        seed: Of the random subgraphs.
    """
    check_type("explanation", explanation, Explained, "call crawl.explain(model, data)")
    num_random = whole_number("num_random", num_random)
    num_repeats = whole_number("num_repeats", num_repeats)
    removable = [set(each.nodes) - {explanation.node} for each in explanation.subgraphs[:1]]
    if not removable or len(removable[0]) in (0, data.num_nodes):
        return None
    top, drawn = removable[0], np.random.default_rng(seed)
    others = list(random_subgraphs(explanation, len(top), num_random, drawn))
    if not others:
        return None
    before = _answer(subject, data, explanation, num_repeats, ())
    changes = [before - _answer(subject, data, explanation, num_repeats, nodes) for nodes in (top, *others)]
    return Deletion(int(data.num_nodes), len(top), explanation.subgraphs[0].score, changes[0], tuple(changes[1:]))


def compare(deletions: Sequence[Deletion]) -> Comparison:
    """What many deletions say together. Refuses an empty list."""
    if not deletions:
        raise ValueError("There are no deletions to compare: no graph has a subgraph that can be removed.")
    advantages = np.array([each.advantage for each in deletions])
    leads = np.array([each.lead for each in deletions])
    agreement, pairs = None, np.array([(each.score, each.top) for each in deletions])
    if len(pairs) > 2 and bool((pairs.std(axis=0) > 0).all()):
        agreement = float(stats.spearmanr(*pairs.T).statistic)
    return Comparison(
        num_graphs=len(deletions),
        top=float(np.mean([abs(each.top) for each in deletions])),
        random=float(np.mean([np.mean(np.abs(each.random)) for each in deletions])),
        top_wins=float((advantages > 0).mean()),
        advantage=float(advantages.mean()),
        advantage_error=_error(advantages),
        p_value=_p_value(advantages),
        lead=float(leads.mean()),
        lead_error=_error(leads),
        lead_wins=float((leads > 0).mean()),
        lead_p_value=_p_value(leads),
        agreement=agreement,
    )


def _error(values: Floats) -> float:
    """The standard error of a mean; NaN of a single value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def _p_value(differences: Floats) -> float:
    """Of Wilcoxon's signed-rank test, one-sided; 1 if there are no differences."""
    return float(stats.wilcoxon(differences, alternative="greater").pvalue) if differences.any() else 1.0


def random_subgraphs(
    explanation: Explained, size: int, number: int, drawn: np.random.Generator
) -> Iterator[frozenset[int]]:
    """Sets of this many nodes that a walk of the explanation went through one after the other, from a random place on.

    The node that is explained is left out of them. Fewer are found if walks see no set of this size.
    """
    walks = [nodes for part in explanation.walks for nodes in part.nodes]
    found = 0
    for _ in range(_MOST_TRIES if walks else 0):
        if found == number:
            return
        walk = walks[drawn.integers(len(walks))]
        nodes: set[int] = set()
        for node in walk[drawn.integers(len(walk)) :].tolist():
            if node != explanation.node:
                nodes.add(node)
            if len(nodes) == size:
                found += 1
                yield frozenset(nodes)
                break


def without(data: Data, nodes: Collection[int]) -> Data:
    """The graph without these nodes and their edges; `x`, `edge_attr` and `edge_weight` of the others stay, and `u`."""
    num_nodes = int(data.num_nodes)
    kept = torch.ones(num_nodes, dtype=torch.bool)
    kept[sorted(nodes)] = False
    rank = kept.cumsum(0) - 1
    edge_index = torch.empty(2, 0, dtype=torch.long) if data.edge_index is None else data.edge_index.cpu().long()
    is_kept = kept[edge_index].all(dim=0)
    parts: dict[str, Any] = {"x": kept, "edge_attr": is_kept, "edge_weight": is_kept}
    parts = {name: data[name][mask] for name, mask in parts.items() if name in data and data[name] is not None}
    parts |= {"u": data.u} if "u" in data else {}
    return Data(**parts, edge_index=rank[edge_index[:, is_kept]], num_nodes=int(kept.sum()))


def _answer(subject: Subject, data: Data, explanation: Explained, num_repeats: int, removed: Collection[int]) -> float:
    """The mean answer, without some nodes."""
    node, target = explanation.node, explanation.output
    prepared = subject.prepared(without(data, removed))
    node = None if node is None else node - sum(each < node for each in removed)
    answers, _ = subject.answers([subject.inputs(prepared, i) for i in range(num_repeats)], node)
    return float(answers[:, target.column].double().mean()) * target.factor + target.offset
