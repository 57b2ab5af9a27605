"""Where walks start, what their keys mean, where they may go, and which arguments are refused."""

from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from crawl import Graph, Walks, sample_walks
from crawl.choices import Strategy

STRATEGIES = [strategy for strategy in get_args(Strategy) if strategy != "restart"]  # which jumps


def make_graph(*edges: tuple[int, int], num_nodes: int | None = None, **arguments: Any) -> Graph:
    return Graph.from_edge_index(torch.tensor(edges).reshape(-1, 2).t(), num_nodes, undirected=True, **arguments)


def ring(num_nodes: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % num_nodes) for i in range(num_nodes)]


def side_by_side(graphs: list[tuple[list[tuple[int, int]], int]]) -> Graph:
    """One batch of graphs, each given by its edges and its number of nodes."""
    edges, batch = [], []
    for number, (own, num_nodes) in enumerate(graphs):
        edges += [(u + len(batch), v + len(batch)) for u, v in own]
        batch += [number] * num_nodes
    return make_graph(*edges, batch=torch.tensor(batch, dtype=torch.long), num_graphs=len(graphs))


def assert_same(walks: Walks, expected: Walks) -> None:
    assert torch.equal(walks.nodes, expected.nodes)
    assert torch.equal(walks.edges, expected.edges)
    assert torch.equal(walks.code, expected.code)


# Where walks may go


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("undirected", [False, True])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_step_is_an_edge_of_the_list_and_stays_in_its_graph(
    strategy: str, undirected: bool, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    batch = [graph for graph, size in enumerate(sizes) for _ in range(size)]
    inside = [(u, v) for u in range(len(batch)) for v in range(len(batch)) if batch[u] == batch[v]]
    edges = data.draw(st.lists(st.sampled_from(inside), max_size=20)) if inside else []
    if not undirected:
        edges = edges + sorted({(v, v) for _, v in edges})
    edges = data.draw(st.permutations(edges))
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    graph = Graph.from_edge_index(edge_index, batch=torch.tensor(batch, dtype=torch.long), undirected=undirected)
    walks = sample_walks(graph, 12, strategy, window_size=3, seed=data.draw(st.integers(0, 9)), p=0.5, q=2.0)

    touched = {u for u, _ in edges} | ({v for _, v in edges} if undirected else set())
    assert walks.nodes[:, 0].tolist() == sorted(touched)  # no walk starts at an isolated node
    nodes, source, target = walks.nodes.long(), *edge_index[:, walks.edges.long()]
    forwards = (source == nodes[:, :-1]) & (target == nodes[:, 1:])
    backwards = (target == nodes[:, :-1]) & (source == nodes[:, 1:])
    assert bool((forwards | (backwards & undirected)).all())
    assert bool((graph.batch[nodes] == graph.batch[nodes[:, :1]]).all())
    assert_same(Walks.from_nodes(graph, walks.nodes, 3, walks.edges), walks)


def test_non_backtracking_turns_round_only_at_the_end_of_a_path() -> None:
    walks = sample_walks(make_graph((0, 1), (1, 2), (2, 3)), 9, start=torch.tensor([0, 3]))
    assert walks.nodes.tolist() == [[0, 1, 2, 3, 2, 1, 0, 1, 2, 3], [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]]


def test_the_default_is_one_non_backtracking_walk_of_50_steps_from_every_node() -> None:
    graph = make_graph(*ring(5), num_nodes=7)
    walks = sample_walks(graph)
    assert walks.nodes.shape == (5, 51)
    assert walks.window_size == 8
    assert walks.nodes[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert_same(walks, sample_walks(graph, 50, "non_backtracking", None, 8, 0, 1.0, 1.0, "numba"))


@pytest.mark.parametrize("backend", ["reference", "numba"])
@pytest.mark.parametrize("start", [None, 0.5, torch.empty(0, dtype=torch.long)], ids=["all", "share", "none"])
@pytest.mark.parametrize("num_nodes", [0, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_walks_without_edges(strategy: str, num_nodes: int, start: float | Tensor | None, backend: str) -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0), num_nodes)
    walks = sample_walks(graph, 4, strategy, start, window_size=9, backend=backend)
    assert (walks.nodes.shape, walks.edges.shape, walks.code.shape) == ((0, 5), (0, 4), (0, 5))
    assert (walks.nodes.dtype, walks.edges.dtype, walks.code.dtype) == (torch.int32, torch.int32, torch.int32)
    batch_of_none = Graph.from_edge_index(torch.empty(2, 0), batch=torch.empty(0, dtype=torch.long))
    assert len(sample_walks(batch_of_none, 4, strategy, start, backend=backend)) == 0


@pytest.mark.parametrize("backend", ["reference", "numba"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_node_with_a_self_loop(strategy: str, backend: str) -> None:
    walks = sample_walks(make_graph((0, 0)), 5, strategy, window_size=2, backend=backend)
    assert walks.nodes.tolist() == [[0] * 6]
    assert walks.edges.tolist() == [[0] * 5]
    assert walks.bits()[0, -1].tolist() == [True] * 3


# A share of the starts


def starts_per_graph(graph: Graph, walks: Walks) -> Tensor:
    return graph.batch[walks.nodes[:, 0].long()].bincount(minlength=graph.num_graphs)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
def test_number_of_starts_is_binomial_but_at_least_one(share: float) -> None:
    size, num_graphs = 6, 4000
    graph = side_by_side([(ring(size), size + 1)] * num_graphs)  # and an isolated node each
    walks = sample_walks(graph, 0, start=share, seed=5)
    starts = walks.nodes[:, 0]
    assert bool((starts[1:] > starts[:-1]).all())
    law = stats.binom.pmf(np.arange(size + 1), size, share)
    law[1] += law[0]
    found = np.bincount(starts_per_graph(graph, walks).numpy(), minlength=size + 1)
    assert found[0] == 0
    found, expected = found[1:], law[1:] * num_graphs
    rare = expected < 5
    if rare.any():
        found, expected = (np.append(a[~rare], a[rare].sum()) for a in (found, expected))
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-3
    local = np.bincount(starts.numpy() % (size + 1), minlength=size + 1)
    assert local[-1] == 0
    assert stats.chisquare(local[:-1]).pvalue > 1e-3  # no place in a graph is preferred


def test_every_graph_with_an_edge_has_a_walk_however_small_the_share() -> None:
    graph = side_by_side([([], 2), (ring(3), 5), ([], 0), ([(2, 3)], 4), ([(0, 0)], 1), ([], 0)])
    for seed in range(20):
        walks = sample_walks(graph, 1, start=1e-12, seed=seed)
        assert starts_per_graph(graph, walks).tolist() == [0, 1, 0, 1, 1, 0]


def test_share_one_is_all() -> None:
    graph = make_graph(*ring(20), num_nodes=22)
    for share in (1, 1.0):
        assert_same(sample_walks(graph, 3, start=share, seed=9), sample_walks(graph, 3, seed=9))


def test_walks_of_a_share_are_some_of_the_walks_of_all() -> None:
    graph = make_graph(*ring(50))
    some, every = sample_walks(graph, 5, start=0.3, seed=1), sample_walks(graph, 5, seed=1)
    assert 0 < len(some) < 50
    rows = some.nodes[:, 0].long()
    assert_same(some, Walks(every.nodes[rows], every.edges[rows], every.code[rows], 8))


def test_a_larger_share_only_adds_starts() -> None:
    graph = side_by_side([(ring(6), 6)] * 20)
    shares = [set(sample_walks(graph, 0, start=share).nodes[:, 0].tolist()) for share in (0.01, 0.3, 0.7, 1.0)]
    assert shares[0] < shares[1] < shares[2] < shares[3]


@pytest.mark.parametrize("start", [None, 0.4], ids=["all", "share"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_node_keys_a_graph_has_the_same_walks_in_every_batch(strategy: str, start: float | None) -> None:
    graphs = [(ring(5), 5), ([(0, 1), (1, 2), (1, 3)], 5), (ring(3), 3), ([(0, 0), (0, 1)], 2), ([], 1)]

    def walks_by_graph(numbers: list[int]) -> dict[int, list[tuple[list[int], list[int]]]]:
        graph = side_by_side([graphs[number] for number in numbers])
        keys = graph.node_keys(torch.tensor(numbers))
        walks = sample_walks(graph, 10, strategy, start, seed=4, p=0.5, q=2.0, keys=keys)
        found: dict[int, list[tuple[list[int], list[int]]]] = {number: [] for number in numbers}
        for nodes, code in zip(walks.nodes, walks.code, strict=True):
            place = int(graph.batch[nodes[0].long()])
            found[numbers[place]].append(((nodes - graph.graph_ptr[place]).tolist(), code.tolist()))
        return found

    together = walks_by_graph([0, 1, 2, 3, 4])
    for numbers in ([3, 2, 1, 0], [4, 2], [1], [0, 3]):
        for number, walks in walks_by_graph(numbers).items():
            assert walks == together[number]


# Keys


def test_walks_with_the_same_key_and_start_are_the_same_walk() -> None:
    graph = make_graph(*ring(7), (0, 3), (2, 5))
    start = torch.tensor([4, 1, 4, 4])
    walks = sample_walks(graph, 30, start=start, keys=torch.tensor([8, 8, 8, 9]))
    assert torch.equal(walks.nodes[0], walks.nodes[2])
    assert not torch.equal(walks.nodes[0], walks.nodes[3])


def test_the_default_key_of_a_node_is_its_id() -> None:
    graph = make_graph(*ring(7), (0, 3))
    every = sample_walks(graph, 20, seed=3)
    assert_same(sample_walks(graph, 20, seed=3, keys=torch.arange(7)), every)
    assert_same(sample_walks(graph, 20, start=torch.arange(7), seed=3), every)
    assert not torch.equal(sample_walks(graph, 20, seed=3, keys=torch.arange(1, 8)).nodes, every.nodes)


def test_repetitions_of_a_start_have_keys_of_their_own() -> None:
    graph = make_graph(*ring(7), (0, 3))
    start = torch.tensor([2, 5, 2, 2, 5])
    walks = sample_walks(graph, 20, start=start)
    assert len({tuple(walk) for walk in walks.nodes.tolist()}) == 5
    keys = torch.tensor([2, 5, 2 + (1 << 32), 2 + (2 << 32), 5 + (1 << 32)])
    assert_same(sample_walks(graph, 20, start=start, keys=keys), walks)


def test_keys_of_any_layout_and_integer_type() -> None:
    graph = make_graph(*ring(4), (0, 2))
    expected = sample_walks(graph, 20, start=torch.tensor([0, 1]), keys=torch.tensor([3, 3]))
    for keys in (torch.tensor(3).expand(2), torch.tensor([3, 0, 3])[::2], torch.tensor([3, 3], dtype=torch.uint8)):
        assert_same(sample_walks(graph, 20, start=torch.tensor([0, 9, 1])[::2], keys=keys), expected)


@pytest.mark.parametrize("start", [None, 0.5, torch.tensor([4, 1, 4])], ids=["all", "share", "some twice"])
def test_several_walks_from_each_start(start: float | Tensor | None) -> None:
    """They are those of a start that is given several times, and the first one keeps its key."""
    graph = make_graph(*ring(7), (0, 3), (2, 5))
    walks = sample_walks(graph, 20, start=start, seed=3, num_walks=3)
    once = sample_walks(graph, 20, start=start, seed=3)
    starts = once.nodes[:, 0].repeat_interleave(3)
    assert_same(walks, sample_walks(graph, 20, start=starts, seed=3))
    assert torch.equal(walks.nodes[:, 0], starts)
    assert len({tuple(walk) for walk in walks.nodes.tolist()}) == len(starts)
    if not isinstance(start, Tensor):
        assert torch.equal(walks.nodes[::3], once.nodes)


def test_several_walks_with_keys_do_not_depend_on_the_batch() -> None:
    """Walk r from node i of a graph of n nodes has the key of its graph and i + r n."""
    graph = side_by_side([(ring(5), 6), (ring(3), 3), (ring(4), 4)])
    keys = graph.node_keys(torch.tensor([9, 7, 2]))
    walks = sample_walks(graph, 20, seed=3, keys=keys, num_walks=4)
    assert_same(sample_walks(graph, 20, seed=3, keys=keys, num_walks=1), sample_walks(graph, 20, seed=3, keys=keys))
    assert torch.equal(walks.nodes[::4], sample_walks(graph, 20, seed=3, keys=keys).nodes)
    alone = side_by_side([(ring(3), 3)])
    of_second = sample_walks(alone, 20, seed=3, keys=alone.node_keys(torch.tensor([7])), num_walks=4)
    assert torch.equal(walks.nodes[20:32] - 6, of_second.nodes)
    wanted = torch.tensor([(7 << 32) + i + 3 * r for i in range(3) for r in range(4)])
    by_key = sample_walks(alone, 20, seed=3, start=torch.arange(3).repeat_interleave(4), keys=wanted)
    assert_same(of_second, by_key)
    some = sample_walks(alone, 20, seed=3, start=torch.tensor([2, 0]), keys=wanted[[8, 0]], num_walks=4)
    assert torch.equal(some.nodes, of_second.nodes[[8, 9, 10, 11, 0, 1, 2, 3]])


def test_seeds_give_different_walks() -> None:
    graph = make_graph(*ring(9), (0, 3), (2, 5))
    seeds = [0, 1, 2**31, 2**32, 2**63, 2**64 - 1, np.int64(7)]
    walks = {tuple(sample_walks(graph, 40, seed=seed).nodes.flatten().tolist()) for seed in seeds}
    assert len(walks) == len(seeds)


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": -1}, "num_steps must be a whole number from 0 to 2147483646, not -1"),
        ({"num_steps": 2.0}, "num_steps must be a whole number"),
        ({"num_steps": True}, "num_steps must be a whole number"),
        ({"window_size": 33}, "window_size must be a whole number from 0 to 32, not 33"),
        ({"window_size": -1}, "window_size must be a whole number"),
        ({"seed": -1}, "seed must be a whole number from 0 to 18446744073709551615, not -1"),
        ({"seed": 2**64}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"strategy": "random"}, r"strategy must be one of uniform, .*, not 'random'"),
        ({"strategy": "node2vec", "p": 0}, "node2vec needs p"),
        ({"num_walks": 0}, "num_walks must be a whole number from 1 to 2147483647, not 0"),
        ({"num_walks": 2.0}, "num_walks must be a whole number"),
        ({"num_walks": 2**31 - 1}, "num_walks=2147483647 walks from each start are too many for this graph"),
        ({"num_walks": 2**30, "keys": torch.arange(5)}, "walks from each start are too many for this graph"),
        ({"backend": "cuda"}, "backend must be one of auto, reference, numba, triton, not 'cuda'"),
        ({"start": 0.0}, r"start must be None, a share in \(0, 1\], or a tensor of node ids, not 0.0"),
        ({"start": 1.5}, r"start must be None, a share in \(0, 1\]"),
        ({"start": float("nan")}, r"start must be None, a share in \(0, 1\]"),
        ({"start": True}, r"start must be None, a share in \(0, 1\]"),
        ({"start": [0, 1]}, r"start must be None, a share in \(0, 1\]"),
        ({"start": torch.tensor(1)}, "start must be a one-dimensional tensor of node ids"),
        ({"start": torch.tensor([[0, 1]])}, "start must be a one-dimensional tensor of node ids"),
        ({"start": torch.tensor([0.5])}, "start must be a one-dimensional tensor of node ids"),
        ({"start": torch.tensor([True])}, "start must be a one-dimensional tensor of node ids"),
        ({"start": torch.tensor([0, 5])}, "start holds node 5; the nodes are 0 to 4"),
        ({"start": torch.tensor([0, -2])}, "start holds node -2; the nodes are 0 to 4"),
        ({"start": torch.tensor([0, 4])}, "No walk can start at node 4: it has no edge"),
        ({"keys": torch.arange(4)}, r"keys must be a tensor of integers of shape \[5\]"),
        ({"keys": torch.zeros(5)}, r"keys must be a tensor of integers of shape \[5\]"),
        ({"keys": torch.zeros(5, dtype=torch.bool)}, r"keys must be a tensor of integers"),
        ({"keys": [0, 1, 2, 3, 4]}, r"keys must be a tensor of integers"),
        ({"start": torch.tensor([0, 1]), "keys": torch.arange(5)}, r"keys must be a tensor of integers of shape \[2\]"),
        ({"graph": "graph"}, r"graph must be a Graph, not 'graph': call Graph.from_data\(data\)"),
    ],
)
def test_arguments_refused(arguments: dict[str, Any], message: str) -> None:
    arguments = {"graph": make_graph(*ring(4), num_nodes=5), **arguments}
    with pytest.raises(ValueError, match=message):
        sample_walks(**arguments)


def test_numba_refuses_a_graph_elsewhere() -> None:
    graph = make_graph(*ring(4)).to("meta")
    with pytest.raises(ValueError, match="backend='numba' needs a graph on the CPU, not on meta; use backend='auto'"):
        sample_walks(graph, start=torch.empty(0, dtype=torch.long), backend="numba")


def test_triton_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="backend='triton' needs the package triton"):
        sample_walks(make_graph(*ring(4)), backend="triton")
