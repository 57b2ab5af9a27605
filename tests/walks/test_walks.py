"""What is seen along a walk, written out by hand; and walks made from given nodes."""

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crawl import Graph, Walks, sample_walks
from crawl.walks.walks import num_bits

# A triangle 0 1 2 and a 4-cycle 2 3 4 5 that share node 2; every edge is listed once.
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 2)]


def make_graph(*edges: tuple[int, int], undirected: bool = True, num_nodes: int | None = None) -> Graph:
    return Graph.from_edge_index(torch.tensor(edges).reshape(-1, 2).t(), num_nodes, undirected=undirected)


def rows(*lines: str) -> Tensor:
    """The bits as written: one position per line, spaces ignored."""
    return torch.tensor([[digit == "1" for digit in line.replace(" ", "")] for line in lines])


def test_every_bit_of_a_walk() -> None:
    walks = Walks.from_nodes(make_graph(*EDGES), torch.tensor([[0, 1, 2, 3, 4, 5, 2, 0]]), window_size=4)
    assert walks.edges.tolist() == [[0, 1, 3, 4, 5, 6, 2]]
    #   I1..4  A2..4
    expected = rows(
        "0000   000",  # 0
        "0000   000",  # 1
        "0000   100",  # 2: an edge to 0, two back, closes the triangle
        "0000   000",  # 3
        "0000   000",  # 4
        "0000   010",  # 5: an edge to 2, three back, closes the 4-cycle
        "0001   010",  # 2: was here four steps ago; an edge to 3, three back
        "0000   000",  # 0: the 0 at the start lies outside of the window
    )
    assert torch.equal(walks.bits()[0], expected)


def test_every_bit_of_a_walk_that_turns_round() -> None:
    walks = Walks.from_nodes(make_graph(*EDGES), torch.tensor([[1, 2, 1, 2, 5, 2, 0, 1]]), window_size=4)
    assert walks.edges.tolist() == [[1, 1, 1, 6, 6, 2, 0]]
    expected = rows(
        "0000   000",  # 1
        "0000   000",  # 2
        "0100   000",  # 1: back at 1; no node is its own neighbour
        "0100   010",  # 2: back at 2; an edge to the first 1, three back
        "0000   010",  # 5: an edge to the first 2, three back (and to the one before, which has no bit)
        "0101   010",  # 2: was here two and four steps ago; an edge to 1, three back
        "0000   011",  # 0: edges to 2, three back, and 1, four back
        "0000   101",  # 1: edges to 2, two and four back
    )
    assert torch.equal(walks.bits()[0], expected)


def test_every_bit_of_a_walk_along_a_self_loop() -> None:
    walks = Walks.from_nodes(make_graph(*EDGES, (2, 2)), torch.tensor([[1, 2, 2, 2, 0, 1, 2, 3]]), window_size=4)
    assert walks.edges.tolist() == [[1, 7, 7, 2, 0, 1, 3]]
    expected = rows(
        "0000   000",  # 1
        "0000   000",  # 2
        "1000   100",  # 2: has not moved; an edge to 1
        "1100   110",  # 2: now it is its own neighbour, two back; an edge to 1, three back
        "0000   111",  # 0: edges to 2, 2 and 1
        "0000   111",  # 1: edges to 2, 2 and 2
        "0011   111",  # 2: was here three and four steps ago; edges to 0 and, by the loop, to itself
        "0000   001",  # 3: an edge to 2, four back
    )
    assert torch.equal(walks.bits()[0], expected)


def test_adjacency_follows_the_direction_of_an_edge() -> None:
    graph = make_graph((0, 1), (1, 2), (2, 0), (2, 3), (3, 1), undirected=False)
    walks = Walks.from_nodes(graph, torch.tensor([[0, 1, 2, 3, 1]]), window_size=3)
    # 2 leads to 0; 3 leads to 1, but not to 0; 1 leads to 2, which leads two back, and does not lead to itself
    assert torch.equal(walks.bits()[0], rows("000 00", "000 00", "000 10", "000 10", "001 10"))


def slow_bits(graph: Graph, walk: list[int], window_size: int) -> list[list[bool]]:
    """The definition, word for word."""
    source = torch.repeat_interleave(graph.degree.long()).tolist()
    edges = set(zip(source, graph.col.tolist(), strict=True))
    identity = [[i >= j and walk[i] == walk[i - j] for j in range(1, window_size + 1)] for i in range(len(walk))]
    adjacency = [
        [i >= j and (walk[i], walk[i - j]) in edges for j in range(2, window_size + 1)] for i in range(len(walk))
    ]
    return [a + b for a, b in zip(identity, adjacency, strict=True)]


@settings(max_examples=40, deadline=None)
@given(window_size=st.integers(0, 32), seed=st.integers(0, 100), num_steps=st.integers(0, 40))
def test_bits_of_any_window_are_their_definition(window_size: int, seed: int, num_steps: int) -> None:
    graph = make_graph(*EDGES, (2, 2), (0, 1))
    walks = sample_walks(graph, num_steps, "uniform", window_size=window_size, seed=seed, backend="reference")
    again = Walks.from_nodes(graph, walks.nodes, window_size)
    assert walks.bits().shape == (6, num_steps + 1, num_bits(window_size))
    assert walks.bits().dtype == torch.bool
    assert torch.equal(again.code, walks.code)
    for walk, bits in zip(walks.nodes.tolist(), walks.bits().tolist(), strict=True):
        assert bits == slow_bits(graph, walk, window_size)


@pytest.mark.parametrize(
    ("window_size", "dtype", "bits"),
    [
        (0, torch.int16, 0),
        (1, torch.int16, 1),
        (2, torch.int16, 3),
        (8, torch.int16, 15),
        (9, torch.int32, 17),
        (16, torch.int32, 31),
        (17, torch.int64, 33),
        (32, torch.int64, 63),
    ],
)
def test_layout_of_the_code(window_size: int, dtype: torch.dtype, bits: int) -> None:
    assert num_bits(window_size) == bits
    loop = make_graph((0, 0))
    walks = Walks.from_nodes(loop, torch.zeros(1, 40, dtype=torch.long), window_size)
    assert walks.code.dtype == dtype
    assert walks.code[0, -1].item() == 2**bits - 1  # on a loop every bit is set, and the code is not negative
    for i in range(min(window_size, 39) + 1):
        identity, adjacency = 2**i - 1, max(2 ** (i - 1) - 1, 0) if i else 0
        assert walks.code[0, i].item() == identity | (adjacency << window_size)


def test_edges_of_an_unsorted_list_and_the_first_of_parallel_ones() -> None:
    graph = make_graph((2, 1), (1, 0), (1, 2), (0, 1), (1, 0), (2, 1), (0, 1), undirected=False)
    walks = Walks.from_nodes(graph, torch.tensor([[0, 1, 2, 1, 0, 1]]))
    assert walks.edges.tolist() == [[3, 2, 0, 1, 3]]
    assert walks.edges.dtype == walks.nodes.dtype == torch.int32


def test_given_edges_are_kept() -> None:
    graph = make_graph((0, 1), (0, 1), (1, 2), (2, 2))
    nodes = torch.tensor([[0, 1, 0, 1, 2, 2, 1]])
    edges = torch.tensor([[1, 0, 1, 2, 3, 2]])
    walks = Walks.from_nodes(graph, nodes, edges=edges)
    assert torch.equal(walks.edges, edges.int())
    assert torch.equal(walks.code, Walks.from_nodes(graph, nodes).code)


def test_any_memory_layout_and_integer_type() -> None:
    graph = make_graph(*EDGES)
    nodes = torch.tensor([[0, 1, 2, 3], [3, 4, 5, 2]])
    expected = Walks.from_nodes(graph, nodes)
    for given_nodes in (nodes.t().contiguous().t(), nodes.repeat_interleave(2, 1)[:, ::2], nodes.to(torch.uint8)):
        walks = Walks.from_nodes(graph, given_nodes, edges=expected.edges.t().contiguous().t().long())
        assert torch.equal(walks.nodes, nodes)
        assert torch.equal(walks.edges, expected.edges)
        assert torch.equal(walks.code, expected.code)
    given = Walks(*(rows.t().contiguous().t() for rows in (expected.nodes, expected.edges, expected.code)), 8)
    assert all(rows.is_contiguous() for rows in (given.nodes, given.edges, given.code))  # as kernels read them


def test_walks_without_steps_and_no_walks() -> None:
    graph = make_graph((0, 1), num_nodes=3)
    walks = Walks.from_nodes(graph, torch.tensor([[2], [0]]), edges=torch.empty(2, 0, dtype=torch.long))
    assert (walks.num_walks, walks.num_steps, len(walks)) == (2, 0, 2)
    assert walks.edges.shape == (2, 0)
    assert walks.code.tolist() == [[0], [0]]
    none = Walks.from_nodes(Graph.from_edge_index(torch.empty(2, 0)), torch.empty(0, 5, dtype=torch.long))
    assert (none.num_walks, none.num_steps) == (0, 4)
    assert none.bits().shape == (0, 5, 15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": torch.tensor([[0, 1], [1, 3]])}, "Walk 1 steps from node 1 to node 3, which is not an edge"),
        ({"nodes": torch.tensor([[0, 0]])}, "Walk 0 steps from node 0 to node 0, which is not an edge"),
        ({"nodes": torch.tensor([[0, 6]])}, "nodes must be from 0 to 5"),
        ({"nodes": torch.tensor([[-1, 0]])}, "nodes must be from 0 to 5"),
        ({"nodes": torch.tensor([0, 1])}, r"shape \[num_walks, num_steps \+ 1\]"),
        ({"nodes": torch.empty(3, 0, dtype=torch.long)}, r"shape \[num_walks, num_steps \+ 1\]"),
        ({"nodes": torch.tensor([[0.0, 1.0]])}, "nodes must be a tensor of integers"),
        ({"nodes": torch.tensor([[False, True]])}, "nodes must be a tensor of integers"),
        ({"nodes": [[0, 1]]}, "nodes must be a tensor of integers"),
        ({"window_size": -1}, "window_size must be a whole number from 0 to 32, not -1"),
        ({"window_size": 33}, "window_size must be a whole number from 0 to 32, not 33"),
        ({"window_size": 4.0}, "window_size must be a whole number"),
        ({"window_size": True}, "window_size must be a whole number"),
        ({"edges": torch.tensor([[0, 1, 2]])}, r"edges must be a tensor of integers of shape \[1, 2\]"),
        ({"edges": torch.tensor([[0.0, 1.0]])}, r"edges must be a tensor of integers of shape \[1, 2\]"),
        ({"edges": [[0, 1]]}, r"edges must be a tensor of integers of shape \[1, 2\]"),
        ({"edges": torch.tensor([[0, 2]])}, "edges must name, for every step, a column of edge_index"),
        ({"edges": torch.tensor([[0, 7]])}, "edges must name, for every step, a column of edge_index"),
        ({"edges": torch.tensor([[-1, 1]])}, "edges must name, for every step, a column of edge_index"),
        ({"edges": torch.tensor([[0, 2**32 + 1]])}, "edges must name, for every step, a column of edge_index"),
    ],
)
def test_from_nodes_refuses(arguments: dict[str, Any], message: str) -> None:
    arguments = {"nodes": torch.tensor([[0, 1, 2]]), **arguments}
    with pytest.raises(ValueError, match=message):
        Walks.from_nodes(make_graph(*EDGES), **arguments)


def test_from_nodes_refuses_the_wrong_direction() -> None:
    graph = make_graph((0, 1), (1, 2), (2, 0), (0, 1), undirected=False)
    with pytest.raises(ValueError, match="Walk 0 steps from node 1 to node 0, which is not an edge"):
        Walks.from_nodes(graph, torch.tensor([[0, 1, 0]]))


def test_to_moves_every_tensor() -> None:
    walks = Walks.from_nodes(make_graph(*EDGES), torch.tensor([[0, 1, 2]]), window_size=3).to("meta")
    assert {walks.nodes.device.type, walks.edges.device.type, walks.code.device.type} == {"meta"}
    assert walks.device.type == "meta"
    assert walks.window_size == 3


def test_repr() -> None:
    walks = Walks.from_nodes(make_graph(*EDGES), torch.tensor([[0, 1, 2]]), window_size=3)
    assert repr(walks) == "Walks(num_walks=1, num_steps=2, window_size=3, device='cpu')"


def test_parts_that_do_not_belong_together_are_refused() -> None:
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]))
    walks = sample_walks(graph, 10)
    for nodes, edges, code in (
        (walks.nodes, walks.edges[:, 1:], walks.code),
        (walks.nodes, walks.edges[1:], walks.code),
        (walks.nodes, walks.edges, walks.code[:, 1:]),
        (walks.nodes.long(), walks.edges, walks.code),
        (walks.nodes, walks.edges, walks.code.int()),
    ):
        with pytest.raises(ValueError, match="do not belong together"):
            Walks(nodes, edges, code, walks.window_size)


def test_walks_know_the_size_of_their_graph() -> None:
    graph = make_graph(*EDGES)
    for walks in (sample_walks(graph, 5), Walks.from_nodes(graph, torch.tensor([[0, 1, 2]])).to("meta")):
        assert (walks.num_nodes, walks.num_edges) == (graph.num_nodes, graph.num_edges)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_nodes": 2}, "nodes 2, but num_nodes is 2"),
        ({"num_edges": 1}, "edges 1, but num_edges is 1"),
        ({"num_nodes": -1}, "num_nodes must be a whole number from 0"),
        ({"num_edges": 1.5}, "num_edges must be a whole number"),
    ],
)
def test_walks_outside_of_their_graph_are_refused(sizes: dict[str, Any], message: str) -> None:
    walks = Walks.from_nodes(make_graph((0, 1), (1, 2)), torch.tensor([[0, 1, 2]]))
    with pytest.raises(ValueError, match=message):
        Walks(walks.nodes, walks.edges, walks.code, walks.window_size, **sizes)


def test_replaced_walks_keep_no_segments() -> None:
    graph = make_graph(*EDGES)
    walks, others = (sample_walks(graph, 5, seed=seed) for seed in (0, 1))
    assert not torch.equal(walks.nodes, others.nodes)
    assert walks.visits is walks.visits
    replaced = dataclasses.replace(walks, nodes=others.nodes, edges=others.edges, code=others.code)
    assert torch.equal(replaced.visits.owner, others.visits.owner)
    assert torch.equal(replaced.visits.places[1], others.visits.places[1])
    assert walks.with_segments(visits=others.visits).visits is others.visits
    assert walks.visits is not others.visits


def test_walks_without_padding() -> None:
    walks = sample_walks(make_graph(*EDGES), 5, seed=0)
    padded = dataclasses.replace(walks, num_real=torch.tensor([3], dtype=torch.int32))
    assert walks.without_padding() is walks
    assert len(padded.without_padding()) == 3
    assert torch.equal(padded.without_padding().code, walks.code[:3])
    assert padded.without_padding().num_real is None


def test_coverage_counts_nodes_and_pairs_of_neighbours_once() -> None:
    """A triangle with a tail and an isolated node, a graph without edges, an empty graph, a doubled edge."""
    edges = torch.tensor([[0, 1, 2, 0, 2, 3, 6, 6, 7], [1, 2, 0, 2, 3, 2, 7, 7, 6]])
    batch = torch.tensor([0, 0, 0, 0, 0, 1, 3, 3])
    graph = Graph.from_edge_index(edges, 8, batch=batch, undirected=True)
    walks = Walks.from_nodes(graph, torch.tensor([[0, 1, 0], [1, 2, 1], [6, 7, 6]]))
    nodes, shares = walks.coverage(graph)
    assert nodes.tolist() == pytest.approx([3 / 5, 0, 1, 1])
    assert shares.tolist() == pytest.approx([2 / 4, 1, 1, 1])
    none = Walks.from_nodes(graph, torch.empty(0, 3, dtype=torch.long)).coverage(graph)
    assert (none.nodes.tolist(), none.edges.tolist()) == ([0, 0, 1, 0], [0, 1, 1, 0])


def test_coverage_of_one_walk_and_of_padded_walks() -> None:
    graph = make_graph(*EDGES)
    walks = Walks.from_nodes(graph, torch.tensor([[0, 1, 2, 0], [2, 3, 4, 5]]))
    assert [float(share) for share in walks.coverage(graph)] == pytest.approx([1, 6 / 7])
    padded = dataclasses.replace(walks, num_real=torch.tensor([1], dtype=torch.int32))
    assert [float(share) for share in padded.coverage(graph)] == pytest.approx([3 / 6, 3 / 7])


def test_coverage_refuses_another_graph() -> None:
    walks = sample_walks(make_graph(*EDGES), 4)
    with pytest.raises(ValueError, match=r"graph of 6 nodes, not of 4.*give the graph they are on"):
        walks.coverage(make_graph((0, 1), (2, 3)))
    unsized = dataclasses.replace(walks, num_nodes=None, num_edges=None)
    with pytest.raises(ValueError, match=r"nodes 5, but num_nodes is 4"):
        unsized.coverage(make_graph((0, 1), (2, 3)))


def test_rows_of_jumps() -> None:
    """A jump has no edge: no row of one, no part in the mean of one, and it is not covered by it."""
    graph = make_graph(*EDGES)
    walks = sample_walks(graph, 12, "restart", window_size=2, restart=0.4, seed=1)
    jumps = walks.edges == graph.num_edges
    assert 0 < int(jumps.sum()) < jumps.numel()
    assert bool((walks.nodes[:, 1:] == walks.nodes[:, :1])[jumps].all())
    nodes, edges = torch.zeros(6, 2), torch.arange(14.0).view(7, 2) + 1
    found = walks.gather(nodes, edges)[:, 1:]
    assert bool((found[jumps] == 0).all())
    assert torch.equal(found[~jumps], edges[walks.edges[~jumps]])
    jump = torch.tensor([-3.0, -4.0])
    assert torch.equal(walks.gather(nodes, edges, jump=jump)[:, 1:][jumps], jump.expand(int(jumps.sum()), 2))
    assert torch.equal(walks.gather(nodes, jump=jump)[:, 1:] != 0, jumps.unsqueeze(2).expand(-1, -1, 2))
    values = torch.rand(*walks.nodes.shape, 1, generator=torch.Generator().manual_seed(0))
    mean = walks.mean_at_edges(values)
    assert mean.shape == (7, 1)
    for edge in range(7):
        torch.testing.assert_close(mean[edge], values[:, 1:][walks.edges == edge].mean(0))
    one = dataclasses.replace(walks, nodes=walks.nodes[:1], edges=walks.edges[:1], code=walks.code[:1])
    walked = {tuple(sorted(EDGES[edge])) for edge in one.edges[0].tolist() if edge < 7}
    assert float(one.coverage(graph).edges) == pytest.approx(len(walked) / 7)


def test_jumps_that_do_not_fit_are_refused() -> None:
    walks = sample_walks(make_graph(*EDGES), 12, "restart", restart=0.4)
    with pytest.raises(ValueError, match="give Walks the num_edges"):
        dataclasses.replace(walks, num_edges=None)
    with pytest.raises(ValueError, match=r"edges 7, but num_edges is 7"):
        dataclasses.replace(walks, has_jumps=False)
    with pytest.raises(ValueError, match=r"jump must be of shape \[2\] .*, not \[3\]"):
        walks.gather(torch.zeros(6, 2), jump=torch.zeros(3))
    with pytest.raises(ValueError, match=r"edges must be of shape \[7, 2\] .*, not \[8, 2\]"):
        walks.gather(torch.zeros(6, 2), torch.zeros(8, 2))
    with pytest.raises(ValueError, match=r"do not jump: leave out jump"):
        sample_walks(make_graph(*EDGES), 3).gather(torch.zeros(6, 2), jump=torch.zeros(2))
