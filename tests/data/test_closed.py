"""Closed batches: every target is a small graph of the nodes that its walks visit."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.utils import to_undirected

from crawl import Graph, sample_walks
from crawl.data.closed import Visited, closed_batch, induced_edges, induced_edges_by_search


def graph_with_everything(undirected: bool) -> tuple[torch.Tensor, Graph]:
    """Parallel edges, a self-loop, a hub, an isolated node (20), and a chain."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(20, (2, 40), generator=generator)
    edges = torch.cat([edges, torch.stack([torch.zeros(19, dtype=torch.long), torch.arange(1, 20)]), edges[:, :3]], 1)
    edges = edges if undirected else torch.cat([edges, edges.flip(0)], dim=1)
    return edges, Graph.from_edge_index(edges, 21, undirected=undirected)


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("with_all_edges", [False, True])
@pytest.mark.parametrize("owners", [[3, 7, 3, 20], [[3, 7], [5, 5], [20, 1]]], ids=["nodes", "pairs"])
def test_rows_are_those_of_the_whole_graph(undirected: bool, with_all_edges: bool, owners: list) -> None:
    edge_index, graph = graph_with_everything(undirected)
    owners = torch.tensor(owners)
    ends = owners.view(len(owners), -1)
    target, end = (graph.degree[ends] > 0).nonzero(as_tuple=True)
    target = target.repeat_interleave(2)
    walks = sample_walks(graph, 6, start=ends[target, end.repeat_interleave(2)], window_size=3, seed=1)
    batch, node, edge = closed_batch(graph, owners, walks, target, with_all_edges=with_all_edges)

    local = batch.walks
    assert torch.equal(node[local.nodes.long()], walks.nodes.long())
    assert torch.equal(edge[local.edges.long()], walks.edges.long())
    assert torch.equal(local.code, walks.code)
    assert (local.num_nodes, local.num_edges) == (batch.num_nodes, batch.num_edges)
    steps = torch.stack([local.nodes[:, :-1].flatten(), local.nodes[:, 1:].flatten()]).long()
    assert torch.equal(batch.edge_index[:, local.edges.flatten().long()], steps)
    assert torch.equal(torch.stack([node[each.owner] for each in batch.targets], 1).view(owners.shape), owners)

    # Every target has the nodes that its walks visit, and its own, each once; no edge leaves a target.
    for i in range(len(owners)):
        rows = (batch.nodes.owner == i).nonzero().flatten()
        seen = set(walks.nodes[target == i].flatten().tolist()) | set(ends[i].tolist())
        assert node[rows].tolist() == sorted(seen)
        assert batch.nodes.places[0].tolist()[i] == int(rows[0])
    assert torch.equal(batch.nodes.owner[batch.edge_index[0]], batch.nodes.owner[batch.edge_index[1]])

    ways = [(u, v, e) for e, (u, v) in enumerate(edge_index.t().tolist())]
    if undirected:
        known = {(u, v) for u, v, _ in ways}
        ways += [(v, u, e) for u, v, e in ways if (v, u) not in known]
    found = sorted(
        zip(
            *node[batch.edge_index].tolist(),
            edge.tolist(),
            batch.nodes.owner[batch.edge_index[0]].tolist(),
            strict=True,
        )
    )
    if with_all_edges:
        members = [set(node[batch.nodes.owner == i].tolist()) for i in range(len(owners))]
        wanted = [(u, v, e, i) for i, inside in enumerate(members) for u, v, e in ways if u in inside and v in inside]
    else:
        wanted = {
            (u, v, e, i)
            for walk, edges, i in zip(walks.nodes.tolist(), walks.edges.tolist(), target.tolist(), strict=True)
            for u, v, e in zip(walk[:-1], walk[1:], edges, strict=True)
        }
    assert found == sorted(wanted)


def test_to_undirected_graphs_have_an_edge_for_each_direction() -> None:
    edge_index = to_undirected(torch.tensor([[0, 1, 2], [1, 2, 3]]))
    graph = Graph.from_edge_index(edge_index, 4)
    walks = sample_walks(graph, 3, start=torch.tensor([1]), seed=0)
    batch, node, edge = closed_batch(graph, torch.tensor([1]), walks, torch.tensor([0]), with_all_edges=True)
    assert torch.equal(node[batch.edge_index], edge_index[:, edge])


def test_a_hub_and_parallel_edges_on_the_cpu() -> None:
    """The search among the neighbours of a hub gives what plain torch gives."""
    generator = torch.Generator().manual_seed(1)
    hub = torch.stack([torch.zeros(3000, dtype=torch.long), torch.randint(1, 400, (3000,), generator=generator)])
    others = torch.randint(400, (2, 300), generator=generator)
    edge_index = torch.cat([hub, others], dim=1)
    graph = Graph.from_edge_index(torch.cat([edge_index, edge_index.flip(0)], dim=1), 400)
    key = torch.unique(torch.cat([torch.tensor([0]), torch.randint(1200, (60,), generator=generator)]))
    visited = Visited(key % 400, key // 400, key)
    for found, expected in zip(induced_edges(graph, visited), induced_edges_by_search(graph, visited), strict=True):
        assert torch.equal(found, expected)
        assert found.shape[-1] > 100
