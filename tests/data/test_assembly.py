"""Batches that are assembled on a device, exact and padded, against those of the store."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch_geometric.data import Data

from crawl import Graph, WalkPlan, sample_walks
from crawl.data import GraphStore
from crawl.data.assembly import Assembler, Bucket
from crawl.data.identity import graph_keys
from crawl.nn import Batch, Segments

pytest.importorskip("triton")

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
PLAN = WalkPlan(num_steps=6, window_size=4)


def some_graphs(num_graphs: int = 16, is_symmetric: bool = False) -> GraphStore:
    """Random graphs of 1 to 7 nodes with features and edges that go one way, unless symmetric, both ways, or twice."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for i in range(num_graphs):
        num_nodes = 1 + i % 7
        node = torch.arange(num_nodes)
        edges = torch.stack([node, (node + 1) % num_nodes])[:, : None if num_nodes > 1 else 0]
        more = torch.randint(num_nodes, (2, i % 4), generator=generator)[:, : None if num_nodes > 1 else 0]
        edge_index = torch.cat([edges, edges.flip(0), more, more.flip(0)[:, : None if is_symmetric else 0]], dim=1)
        graphs.append(
            Data(
                x=torch.rand(num_nodes, 3, generator=generator),
                edge_index=edge_index[:, torch.randperm(edge_index.shape[1], generator=generator)],
                edge_attr=torch.rand(edge_index.shape[1], 2, generator=generator),
                y=torch.rand(1, 1, generator=generator),
                u=torch.rand(1, 2, generator=generator),
            )
        )
    return GraphStore.from_graphs(graphs)


def padded(graphs: Assembler, ids: torch.Tensor, seed: int = 5, plan: WalkPlan = PLAN) -> tuple[Batch, Bucket]:
    (bucket,) = graphs.buckets([ids], 4)
    (row,) = graphs.padded_ids([ids], 4)
    seeds = torch.tensor([seed], device=DEVICE)
    return graphs.padded_batch(row, bucket, plan, 6, seeds, is_training=True), bucket


def rows_of(segments: Segments) -> list[list[int]]:
    """The rows of each owner that is real."""
    ptr, order = segments.places
    order = torch.arange(segments.rows.size) if order is None else order
    ends = ptr.tolist()
    num_owners = segments.owners.size if segments.owners.real is None else int(segments.owners.real)
    return [order[first:last].tolist() for first, last in pairwise(ends[: num_owners + 1])]


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.parametrize("ids", [[3], [0, 5, 2], [7, 1, 4, 6]])
@pytest.mark.usefixtures("triton_everywhere")
def test_batches_are_those_of_the_store(ids: list[int], share: float | None) -> None:
    store, chosen = some_graphs(), torch.tensor(ids)
    keys = graph_keys(store)
    graphs = Assembler(store, keys, DEVICE)
    graphs.draw_starts(share, 5)
    plain = store.batch(ids)
    graph = Graph.from_data(plain)
    walks = sample_walks(graph, 6, window_size=4, seed=5, start=share, keys=graph.node_keys(keys[ids]))
    exact = graphs.batch(chosen, PLAN, 6, 5)
    found, bucket = padded(graphs, chosen)
    assert exact.nodes.rows.real is None
    assert (exact.num_nodes, exact.num_edges, exact.num_graphs) == (graph.num_nodes, graph.num_edges, len(ids))
    assert (found.num_nodes, found.num_edges) == (bucket.num_nodes, bucket.num_edges)
    assert found.num_graphs == bucket.num_graphs == 5
    real = [int(rows.real) for rows in (found.nodes.rows, found.edges.rows, found.nodes.owners)]
    assert real == [graph.num_nodes, graph.num_edges, len(ids)]
    assert int(found.walks.num_real) == len(walks)
    for batch in (exact, found):
        assert torch.equal(batch.x[: real[0]].cpu(), plain.x)
        assert torch.equal(batch.edge_attr[: real[1]].cpu(), plain.edge_attr)
        assert torch.equal(batch.edge_index[:, : real[1]].cpu(), plain.edge_index)
        assert torch.equal(batch.nodes.owner[: real[0]].cpu(), graph.batch)
        assert torch.equal(batch.y[: len(ids)].cpu(), plain.y)
        assert torch.equal(batch.u[: len(ids)].cpu(), plain.u)
        for name in ("nodes", "edges", "code"):
            assert torch.equal(getattr(batch.walks, name)[: len(walks)].cpu(), getattr(walks, name)), name
        for end, segments in enumerate((batch.sources, batch.edges)):
            expected = [(plain.edge_index[end] == v).nonzero().flatten().tolist() for v in range(graph.num_nodes)]
            assert rows_of(segments)[: graph.num_nodes] == expected
    assert found.y[len(ids) :].isnan().all()
    assert found.u.shape == (5, 2)
    assert not found.u[len(ids) :].any()
    for segments, ids_on_walks in ((found.walks.visits, walks.nodes), (found.walks.steps, walks.edges)):
        flat = ids_on_walks.flatten()
        expected = [(flat == k).nonzero().flatten().tolist() for k in range(segments.owners.size)]
        assert rows_of(segments) == expected


@pytest.mark.usefixtures("triton_everywhere")
def test_padding_points_inside_the_tensors_and_at_nothing_real() -> None:
    found, _ = padded(Assembler(some_graphs(), graph_keys(some_graphs()), DEVICE), torch.tensor([3, 6]))
    num_nodes, num_edges, num_graphs, num_walks = (
        int(real)
        for real in (found.nodes.rows.real, found.edges.rows.real, found.nodes.owners.real, found.walks.num_real)
    )
    assert num_nodes < found.num_nodes
    assert num_edges < found.num_edges
    assert num_graphs < found.num_graphs
    for ids, low, high in (
        (found.edge_index[:, num_edges:], num_nodes, found.num_nodes),
        (found.nodes.owner[num_nodes:], num_graphs, found.num_graphs),
        (found.walks.nodes[num_walks:], num_nodes, found.num_nodes),
        (found.walks.edges[num_walks:], num_edges, found.num_edges),
    ):
        assert ids.numel() > 0
        assert low <= int(ids.min()) <= int(ids.max()) < high


PLANS = [
    *(WalkPlan(name, restart=0.4) for name in ("min_degree", "min_degree_non_backtracking", "depth_first", "restart")),
    *(WalkPlan(centred=True), WalkPlan(num_walks=3), WalkPlan("min_degree", centred=True, num_walks=2)),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.strategy}-{'centred-' * plan.centred}{plan.num_walks}")
@pytest.mark.usefixtures("triton_everywhere")
def test_walks_of_every_plan_are_those_of_the_graph(plan: WalkPlan) -> None:
    """Also when other graphs were loaded."""
    store, plan = some_graphs(is_symmetric=plan.centred), replace(plan, window_size=4)
    keys, first, second = graph_keys(store), torch.arange(6), torch.arange(6, 14)
    graphs = Assembler(store.subset(first), keys[first], DEVICE, most=(8, 60, 120), all_sizes=store.sizes)
    for loaded in (first, second):
        graphs.load(store.subset(loaded), keys[loaded])
        ids = torch.tensor([5, 2, 3])
        graph = Graph.from_data(store.batch(loaded[ids]))
        wanted = plan.sample(graph, num_steps=6, seed=5, graph_keys=keys[loaded[ids]])
        found, _ = padded(graphs, ids, plan=plan)
        for walks in (graphs.batch(ids, plan, 6, 5).walks, found.walks.without_padding()):
            for name in ("nodes", "edges", "code"):
                found_ids, wanted_ids = getattr(walks, name).cpu(), getattr(wanted, name)
                if name == "edges":  # a jump has the number of edges of its batch
                    wanted_ids = torch.where(wanted_ids == graph.num_edges, walks.num_edges, wanted_ids)
                assert torch.equal(found_ids, wanted_ids), name


@pytest.mark.usefixtures("triton_everywhere")
def test_centred_walks_need_edges_in_both_directions() -> None:
    graphs, plan = Assembler(some_graphs(), graph_keys(some_graphs()), DEVICE), WalkPlan(centred=True)
    with pytest.raises(ValueError, match=r"Centred walks take edges in both directions.*ToUndirected"):
        graphs.batch(torch.arange(3), plan, 6, 5)


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.usefixtures("triton_everywhere")
def test_several_walks_from_each_start_are_sorted_by_node(share: float | None) -> None:
    graphs, plan = Assembler(some_graphs(), graph_keys(some_graphs()), DEVICE), replace(PLAN, num_walks=3)
    graphs.draw_starts(share, 5)
    once, found = (padded(graphs, torch.tensor([3, 6]), plan=each)[0].walks for each in (PLAN, plan))
    assert int(found.num_real) == 3 * int(once.num_real)
    assert torch.equal(found.without_padding().nodes[::3], once.without_padding().nodes)
    for segments, ids in ((found.visits, found.nodes), (found.steps, found.edges)):
        flat = ids[: int(found.num_real)].flatten().tolist()
        expected = [[i for i, owner in enumerate(flat) if owner == k] for k in range(segments.owners.size)]
        assert rows_of(segments) == expected


@pytest.mark.usefixtures("triton_everywhere")
def test_targets_keep_their_digits() -> None:
    store = some_graphs()
    store = replace(store, y=1e9 + store.y.double())
    ids = torch.tensor([3, 0, 5])
    found, _ = padded(Assembler(store, graph_keys(store), DEVICE), ids)
    assert torch.equal(found.y[:3].cpu(), store.y[ids])
    assert found.y[3:].isnan().all()


def test_bucket_sizes_are_few_and_large_enough() -> None:
    store = some_graphs(112).subset([i for i in range(112) if i % 7 > 2])  # of 4 to 7 nodes
    graphs = Assembler(store, graph_keys(store), DEVICE)
    buckets = set()
    for seed in range(200):
        ids = torch.randperm(64, generator=torch.Generator().manual_seed(seed))[:8]
        (bucket,) = graphs.buckets([ids], 8)
        num_nodes, num_edges = store.sizes[:, ids].sum(1).tolist()
        assert num_nodes < bucket.num_nodes
        assert num_edges < bucket.num_edges
        buckets.add(bucket)
    assert len(buckets) <= 6


@pytest.mark.parametrize("share", [None, 0.3])
@pytest.mark.parametrize(("smallest", "most_padding"), [(40, 1.02), (30, 1.06), (1, 1.125)])
def test_where_graphs_are_alike_little_is_padded_and_sizes_are_few(smallest, most_padding, share) -> None:
    sizes = torch.randint(smallest, 41, (2000,), generator=torch.Generator().manual_seed(0))
    rings = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in sizes.tolist()]
    store = GraphStore.from_graphs([Data(edge_index=ring, num_nodes=ring.shape[1]) for ring in rings])
    graphs = Assembler(store, graph_keys(store), DEVICE)
    graphs.draw_starts(share, 0)
    batches = list(torch.randperm(2000, generator=torch.Generator().manual_seed(1)).split(50))
    buckets = graphs.buckets(batches, 50)
    assert len(set(buckets)) <= 8
    if share is None:
        padding = [(bucket.num_nodes - 16) / sizes[batch].sum() for bucket, batch in zip(buckets, batches, strict=True)]
        assert max(padding) <= most_padding


def test_bucket_sizes_depend_on_the_data_set_alone() -> None:
    """Not on the seed that comes first, nor on the part of the data that does: a resumed run has the same ones."""
    store, ids = some_graphs(), torch.arange(6)
    keys = graph_keys(store)
    first = Assembler(store, keys, DEVICE)
    second = Assembler(store.subset(ids), keys[ids], DEVICE, most=(16, 200, 400), all_sizes=store.sizes)
    for graphs in (first, second):
        graphs.draw_starts(0.4, 3 if graphs is first else 4)
        graphs.draw_starts(0.4, 5)
    assert first.buckets([ids], 8) == second.buckets([ids], 8)


@pytest.mark.usefixtures("triton_everywhere")
def test_graphs_that_are_loaded_later_are_at_the_same_addresses() -> None:
    store = some_graphs()
    keys, first, second = graph_keys(store), torch.arange(6), torch.arange(9, 14)
    graphs = Assembler(store.subset(first), keys[first], DEVICE, most=(8, 60, 120), all_sizes=store.sizes)
    addresses = {name: tensor.data_ptr() for name, tensor in graphs._tensors.items()}
    graphs.load(store.subset(second), keys[second])
    assert {name: tensor.data_ptr() for name, tensor in graphs._tensors.items()} == addresses
    batch = graphs.batch(torch.tensor([2, 0]), PLAN, 6, 5)
    assert torch.equal(batch.x.cpu(), store.batch([11, 9]).x)
    assert torch.equal(batch.edge_index.cpu(), store.batch([11, 9]).edge_index)


def test_pairs_of_nodes_are_the_targets_of_a_batch() -> None:
    store, generator = some_graphs(), torch.Generator().manual_seed(1)
    per_graph = torch.randint(3, (len(store),), generator=generator)
    sizes = store.sizes[0].repeat_interleave(per_graph).unsqueeze(1)
    pairs = (torch.rand(len(sizes), 2, generator=generator) * sizes).long()
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), per_graph.cumsum(0)])
    y = torch.arange(len(pairs)).unsqueeze(1).float()
    store = replace(store, y=y, sample_weight=y[:, 0], pairs=pairs, pair_ptr=ptr).checked()
    ids = torch.tensor([5, 2, 11, 5, 0])
    batch = Assembler(store, graph_keys(store), DEVICE).batch(ids, None, 6, 0)
    expected = store.batch(ids)
    assert batch.targets is not None
    assert torch.equal(torch.stack([end.owner for end in batch.targets]).cpu(), expected.edge_label_index)
    assert torch.equal(batch.y.cpu(), expected.y)
    assert torch.equal(batch.sample_weight.cpu(), expected.sample_weight)
    assert batch.num_answers(per_node=False) == len(expected.y) == int(per_graph[ids].sum())
