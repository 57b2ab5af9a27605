"""Links of one graph: the split, what may be seen of it, and what is drawn for an epoch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import erdos_renyi_graph

from crawl import Graph
from crawl.data import Fingerprint, OneGraph, from_links, with_encodings
from crawl.data.encoding_rows import encoding_rows
from crawl.data.link_graph import LinkGraph
from crawl.data.pairs import pair_numbers
from crawl.encodings.settings import Encodings


def random_graph(num_nodes: int = 60, chance: float = 0.2, **features: Any) -> Data:
    torch.manual_seed(0)
    return Data(edge_index=erdos_renyi_graph(num_nodes, chance), num_nodes=num_nodes, **features)


def numbers_of(edge_index: torch.Tensor) -> set[int]:
    return set(pair_numbers(edge_index.t()).tolist())


def test_split_and_what_is_known() -> None:
    data = random_graph()
    links = numbers_of(data.edge_index)
    dataset = from_links(data, num_negatives=2, supervised_share=0.25, metric="hits@20")
    store, split = dataset.store, dataset.split
    assert isinstance(store, LinkGraph)
    num_val, num_test = round(0.05 * len(links)), round(0.1 * len(links))
    num_train = len(links) - num_val - num_test
    assert store.num_edges == 2 * num_train
    assert store.num_hidden == round(0.25 * num_train)
    assert [len(ids) for ids in (split.train, split.val, split.test)] == [
        3 * store.num_hidden,
        3 * num_val,
        3 * num_test,
    ]
    assert split.train.tolist() == list(range(store.num_drawn))
    assert (dataset.task.kind, dataset.task.level, dataset.task.metric) == ("binary", "pair", "hits@20")
    assert set(store.known.tolist()) == links
    assert dataset.skipped == ()

    seen = numbers_of(store.edge_index)
    parts = {part: pair_numbers(store.owners[getattr(split, part)]) for part in ("train", "val", "test")}
    of = {part: store.y[getattr(split, part)] for part in parts}
    positives = {part: set(numbers[of[part] == 1].tolist()) for part, numbers in parts.items()}
    assert positives["train"] <= seen
    assert seen | positives["val"] | positives["test"] == links
    assert len(seen) + len(positives["val"]) + len(positives["test"]) == len(links)
    for part, numbers in parts.items():
        negatives = numbers[of[part] == 0].tolist()
        assert len(negatives) == len(set(negatives)) == 2 * len(positives[part])
        assert not links & set(negatives)
    assert torch.equal(store.edge_index[:, :num_train], store.edge_index[:, num_train:].flip(0))


def test_an_epoch_hides_what_it_predicts() -> None:
    torch.manual_seed(1)
    data = random_graph(x=torch.randn(60, 3))
    data.edge_attr = torch.stack([data.edge_index[0] * 1000.0 + data.edge_index[1]], dim=1)
    store = from_links(data, num_negatives=3).store
    assert isinstance(store, LinkGraph)
    links, drawn = set(store.known.tolist()), {}
    for seed in (5, 6):
        epoch = drawn[seed] = store.drawn(seed)
        numbers, num_hidden = pair_numbers(epoch.owners[: store.num_drawn]), store.num_hidden
        hidden, others = set(numbers[:num_hidden].tolist()), set(numbers[num_hidden:].tolist())
        seen = numbers_of(epoch.edge_index)
        assert len(hidden) == num_hidden
        assert len(others) == 3 * num_hidden
        assert not others & links
        assert not hidden & seen
        assert hidden | seen == numbers_of(store.edge_index)
        assert epoch.y[:num_hidden].eq(1).all()
        assert epoch.y[num_hidden : store.num_drawn].eq(0).all()
        assert torch.equal(epoch.owners[store.num_drawn :], store.owners[store.num_drawn :])
        expected = Graph.from_edge_index(epoch.edge_index, 60)
        for name in ("rowptr", "col", "edge_id", "num_edges"):
            found, wanted = getattr(epoch.graph, name), getattr(expected, name)
            assert torch.equal(found, wanted) if isinstance(found, torch.Tensor) else found == wanted
        assert torch.equal(epoch.edge_attr[:, 0], epoch.edge_index[0] * 1000.0 + epoch.edge_index[1])
        again = store.drawn(seed)
        assert torch.equal(again.owners, epoch.owners)
        assert torch.equal(again.edge_index, epoch.edge_index)
    assert not torch.equal(drawn[5].owners, drawn[6].owners)
    assert store.num_edges == 2 * len(numbers_of(store.edge_index))  # drawing changes nothing


def test_all_links_have_their_turn() -> None:
    store = from_links(random_graph(20, 0.3)).store
    assert isinstance(store, LinkGraph)
    hidden = [pair_numbers(store.drawn(seed).owners[: store.num_hidden]) for seed in range(400)]
    share = torch.bincount(torch.cat(hidden))[pair_numbers(store.edge_index[:, : store.num_edges // 2].t())] / 400
    assert ((share - store.num_hidden / len(share)).abs() < 0.12).all()  # five standard deviations


def test_self_loops_and_parallel_edges_are_said() -> None:
    data = random_graph(edge_attr=None)
    num_edges = data.edge_index.shape[1]
    loops, twice = torch.tensor([[3, 4], [3, 4]]), data.edge_index[:, [0, 1, 1]]
    both = data.edge_index
    data.edge_attr = torch.arange(num_edges + 5, dtype=torch.float).unsqueeze(1)
    data.edge_index = torch.cat([both, loops, twice], dim=1)
    dataset = from_links(data)
    assert dataset.skipped == ("self-loops, which are not links: 2", "parallel edges, of which the first counts: 3")
    assert set(dataset.store.known.tolist()) == numbers_of(both)
    column = dataset.store.edge_attr[:, 0].long()
    assert torch.equal(data.edge_index[:, column], dataset.store.edge_index)
    assert (column < num_edges).all()


def test_edges_listed_once() -> None:
    both = random_graph()
    one_way = both.edge_index[:, both.edge_index[0] > both.edge_index[1]]
    data = Data(edge_index=one_way, num_nodes=60, edge_attr=torch.arange(one_way.shape[1]).float().unsqueeze(1))
    dataset = from_links(data, undirected=True)
    assert torch.equal(dataset.store.owners, from_links(both).store.owners)
    first, second = dataset.store.edge_attr.chunk(2)
    assert torch.equal(first, second)
    with pytest.raises(ValueError, match="has no reverse, and links have no direction: pass undirected=True"):
        from_links(data)


def test_what_is_not_used_is_told_of() -> None:
    data = Data(edge_index=erdos_renyi_graph(30, 0.3), num_nodes=30, y=torch.zeros(30), train_mask=torch.ones(30) > 0)
    from_links(data)  # what is about nodes is another task
    data.pos, data.name = torch.rand(30, 2), "a graph"
    with pytest.warns(UserWarning, match=r"^Of the graph, pos will not be used: put .* into x or edge_attr\.$"):
        from_links(data)


def test_the_seed_decides() -> None:
    data = random_graph()
    prints = [Fingerprint.of(from_links(data, seed=seed)) for seed in (0, 0, 1)]
    assert prints[0] == prints[1]
    assert prints[0] != prints[2]


def test_parts_of_random_link_split() -> None:
    torch.manual_seed(2)
    parts = RandomLinkSplit(0.1, 0.2, is_undirected=True, add_negative_train_samples=False)(random_graph())
    dataset = from_links(*parts)
    for ids, part in zip((dataset.split.val, dataset.split.test), parts[1:], strict=True):
        found = zip(pair_numbers(dataset.store.owners[ids]).tolist(), dataset.store.y[ids].tolist(), strict=True)
        wanted = zip(pair_numbers(part.edge_label_index.t()).tolist(), part.edge_label.long().tolist(), strict=True)
        assert set(found) == set(wanted)
    assert numbers_of(dataset.store.edge_index) == numbers_of(parts[0].edge_index)
    assert len(dataset.store.known) == numbers_of(random_graph().edge_index).__len__()

    # Labelled training links need not be among the edges; pairs that are not linked are drawn where there are none.
    torch.manual_seed(2)
    split = RandomLinkSplit(0.1, 0.2, is_undirected=True, disjoint_train_ratio=0.5, add_negative_train_samples=False)
    apart = from_links(*split(random_graph()))
    assert numbers_of(apart.store.edge_index) == numbers_of(parts[0].edge_index)
    parts[1].edge_label_index = parts[1].edge_label_index[:, parts[1].edge_label == 1]
    parts[1].edge_label = None
    drawn = from_links(*parts)
    assert len(drawn.split.val) == 2 * parts[1].edge_label_index.shape[1]

    with pytest.raises(ValueError, match="is in train and in val: a link belongs to one split"):
        from_links(random_graph(), *parts[1:])
    with pytest.raises(ValueError, match="Give both val and test"):
        from_links(parts[0], parts[1])


@pytest.mark.parametrize(("where", "other"), [("val", "train"), ("val", "test"), ("test", "train"), ("test", "val")])
def test_a_link_that_another_part_says_is_none(where: str, other: str) -> None:
    torch.manual_seed(2)
    split = RandomLinkSplit(0.1, 0.2, is_undirected=True, add_negative_train_samples=False)(random_graph())
    parts = dict(zip(("train", "val", "test"), split, strict=True))
    pair = parts[other].edge_label_index[:, :1]
    wrong = parts[where]
    wrong.edge_label_index = torch.cat([wrong.edge_label_index, pair.flip(0)], dim=1)
    wrong.edge_label = torch.cat([wrong.edge_label, torch.zeros(1)])
    u, v = sorted(pair.flatten().tolist())
    problem = rf"{where}\.edge_label says 0 of nodes {u} and {v}, which are linked in {other}: leave that pair out"
    with pytest.raises(ValueError, match=problem):
        from_links(*parts.values())


@pytest.mark.parametrize("seed", range(3))
def test_self_loops_in_parts_are_said(seed: int) -> None:
    """`RandomLinkSplit` makes a self-loop a labelled pair of some part, and a test link of it."""
    torch.manual_seed(seed)
    data = random_graph()
    loops = torch.tensor([[3, 4], [3, 4]])
    data.edge_index = torch.cat([data.edge_index, loops], dim=1)
    train, val, test = RandomLinkSplit(0.1, 0.2, is_undirected=True)(data)
    given = test.edge_label_index.clone()
    test.edge_label_index = torch.cat([torch.tensor([[22], [22]]), test.edge_label_index], dim=1)
    test.edge_label = torch.cat([torch.ones(1), test.edge_label])
    num_loops = int((test.edge_label_index[0] == test.edge_label_index[1]).sum())
    dataset = from_links(train, val, test)
    assert f"self-loops in test.edge_label_index, which are not links: {num_loops}" in dataset.skipped
    of_two = pair_numbers(given[:, given[0] != given[1]].t())
    assert len(dataset.split.test) == len(torch.unique(of_two))
    assert bool((dataset.store.owners[:, 0] != dataset.store.owners[:, 1]).all())
    test.edge_label_index, test.edge_label = torch.tensor([[3], [3]]), None
    with pytest.raises(ValueError, match="No pair of two nodes is linked in test: edge_label must be 1 for some"):
        from_links(train, val, test)


def test_refusals() -> None:
    data = random_graph()
    for wanted, change in {
        "num_negatives must be a whole number from 1": {"num_negatives": 0},
        "supervised_share must be a number between 0 and 1": {"supervised_share": 1.0},
        "metric of a binary task must be one of": {"metric": "mae"},
        "batches must be one of full, closed": {"batches": "half"},
        "fractions must be three positive numbers": {"fractions": (0.5, 0.5)},
        "pairs without a link are needed": {"num_negatives": 100},
    }.items():
        with pytest.raises(ValueError, match=wanted):
            from_links(data, **change)
    for num_edges, wanted in ((3, "3 links, too few to be split"), (0, "0 links, too few")):
        path = torch.stack([torch.arange(num_edges), torch.arange(1, num_edges + 1)])
        with pytest.raises(ValueError, match=wanted):
            from_links(Data(edge_index=path, num_nodes=5), undirected=True)
    with pytest.raises(ValueError, match="without a link are needed, but the graph of 5 nodes has 0"):
        from_links(Data(edge_index=torch.combinations(torch.arange(5)).t(), num_nodes=5), undirected=True)
    with pytest.raises(ValueError, match="holds 2 graphs"):
        from_links(Data(edge_index=data.edge_index, batch=torch.arange(60) // 60, num_graphs=2, num_nodes=60))
    with pytest.raises(ValueError, match="must be a Data"):
        from_links([data])  # type: ignore[arg-type]


@pytest.mark.parametrize("has_features", [False, True])
def test_encodings_of_an_epoch_do_not_know_its_hidden_links(has_features: bool) -> None:
    """They are those of the graph that the epoch sees, as if nothing else had ever been there."""
    data = random_graph()
    if not has_features:
        data = Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    raw, encodings = from_links(data).store, Encodings(return_steps=4, walk_steps=3, longest_cycle=4, degree=True)
    whole = with_encodings(raw, encodings)
    seen = raw.drawn(5)
    plain = OneGraph(seen.graph, seen.owners, seen.x, seen.edge_attr, None, seen.edge_index, "full")
    expected, found = with_encodings(plain, encodings), whole.drawn(5)
    assert found.num_edges < whole.num_edges
    for name in ("x", "edge_attr", "owners", "edge_index"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    assert not torch.equal(found.x, whole.x)
    again = found.drawn(6)  # of what is left
    assert torch.equal(again.x[:, -encodings.node_width :], encoding_rows(again.graph, encodings)[0])
    assert type(whole.subset(torch.arange(3))) is OneGraph
    assert torch.equal(whole.subset(torch.arange(3)).x, whole.x)


def test_a_subset_sees_all_training_links() -> None:
    dataset = from_links(random_graph())
    part = dataset.store.subset(dataset.split.test)
    assert type(part) is OneGraph
    assert part.graph is dataset.store.graph
    assert torch.equal(part.owners, dataset.store.owners[dataset.split.test])


def test_edge_weights_are_refused() -> None:
    data = random_graph()
    data.edge_weight = torch.arange(data.num_edges) + 1.0
    with pytest.raises(ValueError, match=r"^data has edge_weight, which is not used: make it a feature \(edge_attr\)"):
        from_links(data)
