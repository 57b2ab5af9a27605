import pytest
import torch

from crawl.data.benchmarks import BENCHMARKS
from crawl.runs.build import Features, build_model, count_parameters
from crawl.runs.recipes import RECIPES
from reproduction.synthetic import synthetic


@pytest.mark.parametrize("name", BENCHMARKS)
def test_recipes_run_on_random_graphs_of_the_right_size(name):
    benchmark = BENCHMARKS[name]
    mean = benchmark.statistics.mean_nodes
    dataset = synthetic(benchmark, 300 if mean < 100 else 60 if mean < 1000 else 6)
    store = dataset.store
    assert store.num_nodes / len(store) == pytest.approx(mean, rel=0.15)
    if benchmark.statistics.mean_edges is not None and name not in ("collab", "imdb_multi"):  # these are dense
        assert store.num_edges / len(store) == pytest.approx(benchmark.statistics.mean_edges, rel=0.35)
    features, experiment = Features.of(dataset), RECIPES[name]()
    assert count_parameters(experiment, features) == count_parameters(experiment, Features.of_benchmark(name))
    smallest = store.node_ptr.diff().argsort()[:2]
    with torch.no_grad():
        steps = {"num_steps": 20} if experiment.model.has_walks else {}
        out = build_model(experiment, features).eval()(store.batch(smallest), **steps, seed=0)
    rows = int(store.node_ptr.diff()[smallest].sum()) if dataset.task.level == "node" else 2
    assert out.shape == (rows, dataset.task.num_outputs)


def test_graphs_are_connected_and_always_the_same():
    dataset, again = (synthetic(BENCHMARKS["zinc"], 30) for _ in range(2))
    assert torch.equal(dataset.store.edge_index, again.store.edge_index)
    for i in range(30):
        graph = dataset.store.graph(i)
        edges = set(map(tuple, graph.edge_index.t().tolist()))
        assert len(edges) == graph.num_edges
        assert all((v, u) in edges and u != v for u, v in edges)
        reached, new = {0}, {0}
        while new:
            new = {v for u, v in edges if u in new} - reached
            reached |= new
        assert len(reached) == graph.num_nodes
    assert [len(part) for part in (dataset.split.train, dataset.split.val, dataset.split.test)] == [26, 2, 2]
