"""The network: its published sizes, its behaviour on every kind of data, and what it can learn."""

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv

from crawl import CRaWl, CRaWlConv, Embedding, Graph, Network, OneHot, VirtualNode, Walks, sample_walks
from crawl.data.csl import csl
from crawl.nn import WalkBlock

each_implementation = pytest.mark.parametrize("implementation", ["fast", "reference"])
each_mode = pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
each_pool = pytest.mark.parametrize("pool", ["sum", "mean", None])


def edge_index(edges: list[tuple[int, int]]) -> Tensor:
    """Both directions of every edge."""
    one_way = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def cycle(num_nodes: int, skip: int = 1, **attributes: Any) -> Data:
    """A cycle; with `skip` above 1, also the chords that leave out skip - 1 nodes (a CSL graph)."""
    edges = [(i, (i + step) % num_nodes) for step in {1, skip} for i in range(num_nodes)]
    return Data(edge_index=edge_index(edges), num_nodes=num_nodes, **attributes)


def random_graph(seed: int, num_nodes: int = 8, channels: int = 3, edge_dim: int = 2) -> Data:
    """A path with some chords, and with features."""
    generator = torch.Generator().manual_seed(seed)
    edges = [(i, i + 1) for i in range(num_nodes - 1)]
    edges += [(i, i + 2 + seed % 3) for i in range(0, num_nodes - 5, 2)]
    return Data(
        edge_index=edge_index(edges),
        x=torch.randn(num_nodes, channels, generator=generator),
        edge_attr=torch.randn(2 * len(edges), edge_dim, generator=generator),
    )


NO_EDGES = torch.empty(2, 0, dtype=torch.long)
LONELY = Data(edge_index=NO_EDGES, num_nodes=1)


def make_model(in_channels: Any = 3, out_channels: int = 2, **options: Any) -> CRaWl:
    torch.manual_seed(0)
    small = {"hidden_channels": 8, "num_layers": 3, "edge_dim": None, "num_steps": 12, "num_eval_steps": 20}
    return CRaWl(in_channels, out_channels, **{**small, **options})


# ---- sizes

LONG_RANGE: dict[str, Any] = {
    "num_layers": 6,
    "hidden_channels": 100,
    "window_size": 16,
    "kernel_size": 9,
    "virtual_node": True,
}
PUBLISHED = {
    "ZINC": (497_743, 21, 1, {"num_layers": 3, "hidden_channels": 147, "edge_dim": 4, "virtual_node": True}),
    "CIFAR10": (109_660, 3, 10, {"num_layers": 3, "hidden_channels": 75, "edge_dim": 1}),
    "MNIST": (109_360, 1, 10, {"num_layers": 3, "hidden_channels": 75, "edge_dim": 1}),
    "CSL": (104_140, 1, 10, {"num_layers": 2, "hidden_channels": 90, "edge_dim": 1}),
    "MOLPCBA": (
        6_115_728,
        78,
        128,
        {"num_layers": 5, "hidden_channels": 400, "edge_dim": 9, "virtual_node": True, "head": "linear"},
    ),
    "PASCALVOC-SP": (495_021, 14, 21, {**LONG_RANGE, "edge_dim": 2, "pool": None}),
    "PEPTIDES-FUNC": (510_910, 78, 10, {**LONG_RANGE, "edge_dim": 9, "pool": "sum"}),
    "PEPTIDES-STRUCT": (511_011, 78, 11, {**LONG_RANGE, "edge_dim": 9, "pool": "sum"}),
}


@each_implementation
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_number_of_parameters(name: str, implementation: str) -> None:
    expected, in_channels, out_channels, options = PUBLISHED[name]
    model = CRaWl(in_channels, out_channels, **options, implementation=implementation)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


# ---- both implementations


@each_mode
@each_pool
def test_fast_equals_reference(pool: str | None, training: bool) -> None:
    data = Batch.from_data_list([random_graph(seed) for seed in range(4)])
    model = make_model(edge_dim=2, pool=pool, virtual_node=True).double().train(training)
    twin = make_model(edge_dim=2, pool=pool, virtual_node=True, implementation="reference").double().train(training)
    assert list(model.state_dict()) == list(twin.state_dict())
    twin.load_state_dict(model.state_dict())
    out, expected = model(data, seed=1), twin(data, seed=1)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    out.square().sum().backward()
    expected.square().sum().backward()
    for (name, found), parameter in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(found.grad, parameter.grad, rtol=1e-8, atol=1e-8, msg=name)
    for (name, found), buffer in zip(model.named_buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(found, buffer, rtol=1e-10, atol=1e-10, msg=name)


# ---- every kind of data


@pytest.mark.parametrize(
    ("in_channels", "attributes"),
    [
        (1, {}),
        (1, {"x": torch.rand(5)}),
        (1, {"x": torch.arange(5)}),
        (1, {"x": torch.rand(5, 1).double()}),
        (2, {"x": torch.rand(5, 2), "pos": torch.rand(5, 3), "y": torch.zeros(1)}),
        (OneHot(5), {"x": torch.arange(5)}),
        (OneHot([5, 2]), {"x": torch.tensor([[0, 1], [1, 1], [2, 0], [3, 1], [4, 0]])}),
        (Embedding(5, 7), {"x": torch.arange(5).unsqueeze(1)}),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_node_features(in_channels: Any, attributes: dict[str, Tensor], dtype: torch.dtype) -> None:
    out = make_model(in_channels).to(dtype)(cycle(5, **attributes))
    assert (out.shape, out.dtype) == ((1, 2), dtype)
    assert out.isfinite().all()


@pytest.mark.parametrize(
    ("edge_dim", "attributes"),
    [
        (1, {}),
        (1, {"edge_attr": torch.rand(10)}),
        (1, {"edge_attr": torch.arange(10)}),
        (3, {"edge_attr": torch.rand(10, 3)}),
        (0, {"edge_attr": torch.rand(10, 0)}),
        (None, {"edge_attr": torch.rand(10, 3)}),
        (OneHot(2), {"edge_attr": torch.arange(10) % 2}),
        (Embedding([2, 2], 4), {"edge_attr": torch.arange(20).reshape(10, 2) % 2}),
    ],
)
def test_edge_features(edge_dim: Any, attributes: dict[str, Tensor]) -> None:
    model = make_model(1, edge_dim=edge_dim)
    assert model(cycle(5, **attributes)).isfinite().all()


@pytest.mark.parametrize(("edge_attr", "width"), [(torch.rand(10, 3), 3), (torch.rand(10), 1)])
def test_edge_features_that_would_not_be_used_are_refused(edge_attr: Tensor, width: int) -> None:
    data = cycle(5, edge_attr=edge_attr)
    with pytest.raises(ValueError, match=f"give it edge_dim={width} to use them, or edge_dim=None to ignore them"):
        make_model(1, edge_dim=0)(data)
    bare = make_model(1, edge_dim=0)(cycle(5), seed=1)
    assert torch.equal(make_model(1, edge_dim=None)(data, seed=1), bare)


def test_edge_features_that_no_block_can_use_are_only_ignored() -> None:
    """Neither message leads to the other."""
    data = cycle(5, edge_attr=torch.rand(10, 3))
    with pytest.raises(ValueError, match="No block of this network sees edge features: give it edge_dim=None"):
        Network(1, 1, layer=("gin",), edge_dim=3)
    with pytest.raises(ValueError, match="the model edge_dim=0: give it edge_dim=None to ignore them"):
        Network(1, 1, layer=("gin",))(data)
    assert Network(1, 1, layer=("gin",), edge_dim=None)(data).isfinite().all()


def test_walks_follow_edge_weights() -> None:
    data = cycle(5, edge_weight=torch.tensor([1e6, 1.0]).repeat_interleave(5))  # almost always one way round
    model = make_model(1, strategy="uniform").eval()
    assert not torch.equal(model(data, seed=1), model(cycle(5), seed=1))
    walks = model.sample_walks(Graph.from_data(data, weighted=True), seed=1)
    assert torch.equal(model(data, seed=1), model(data, walks=walks))
    data.edge_weight = -data.edge_weight
    with pytest.raises(ValueError, match="edge_weight must be positive"):
        model(data)


@pytest.mark.parametrize("useless", [{"seed": 1}, {"num_steps": 12}, {"walks": None}])
def test_arguments_about_walks_that_are_there_already_are_refused(useless: dict[str, Any]) -> None:
    data, model = cycle(5), make_model(1).eval()
    walks = model.sample_walks(Graph.from_data(data), seed=1)
    batch = model.batch_of(data, walks, None, None)
    assert torch.equal(model(batch), model(data, walks=walks))
    useless = {name: walks if value is None else value for name, value in useless.items()}
    with pytest.raises(ValueError, match=f"{next(iter(useless))}.*leave it out"):
        model(batch, **useless)
    if "walks" not in useless:
        with pytest.raises(ValueError, match=f"{next(iter(useless))}.*leave it out"):
            model(data, walks=walks, **useless)


def test_arguments_about_walks_are_refused_by_a_network_that_does_not_walk() -> None:
    data, network = cycle(5), Network(1, 1, layer=("gine",), hidden_channels=4, edge_dim=None)
    network(data, seed=1)  # what any model may be called with
    walks = make_model(1).sample_walks(Graph.from_data(data), seed=1)
    for useless in ({"num_steps": 5}, {"walks": walks}):
        with pytest.raises(ValueError, match=f"{next(iter(useless))}.*leave it out"):
            network(data, **useless)


@pytest.mark.parametrize("settings", [{"layer": ("gine",)}, {"num_layers": 2}])
def test_a_list_of_all_layers_and_a_number_of_them_exclude_each_other(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="leave out layer and num_layers"):
        Network(1, 1, layers=["gine", "gine"], edge_dim=None, **settings)


def test_a_batch_without_walks_is_refused() -> None:
    model = make_model(1)
    batch = replace(model.batch_of(cycle(5), None, None, 1), walks=None)
    with pytest.raises(ValueError, match=r"self.walk_plan = network.walk_plan"):
        model(batch)


@each_implementation
@each_mode
def test_missing_features_are_ones_at_nodes_and_zeros_at_edges(training: bool, implementation: str) -> None:
    model = make_model(1, edge_dim=1, implementation=implementation).train(training)
    whole = cycle(5, x=torch.ones(5, 1), edge_attr=torch.zeros(10, 1))
    gradients = []
    for data in (cycle(5), whole):
        model.zero_grad()
        out = model(data, seed=1)
        out.sum().backward()
        gradients.append([out.detach(), *(parameter.grad for parameter in model.parameters())])
    for found, expected in zip(*gradients, strict=True):
        assert torch.allclose(found, expected, atol=1e-6)


def test_without_bits_regular_graphs_look_the_same() -> None:
    model = make_model(1, edge_dim=1, identity=False, adjacency=False, pool="mean").eval()
    graphs = [csl(0).store.graph(i) for i in (0, 20, 140)]
    answers = [model(Data(edge_index=graph.edge_index, num_nodes=41), seed=1) for graph in graphs]
    assert torch.allclose(answers[0], answers[1], atol=1e-6)
    assert torch.allclose(answers[0], answers[2], atol=1e-6)


SMALL_DATA = {
    "one node": (LONELY, 1, 1),
    "a batch of single nodes": (Batch.from_data_list([LONELY] * 3), 3, 3),
    "no edge_index": (Data(x=torch.ones(4, 1)), 1, 4),
    "no edges": (Data(x=torch.ones(4, 1), edge_index=NO_EDGES), 1, 4),
    "no nodes": (Data(x=torch.empty(0, 1)), 1, 0),
    "no graphs": (Data(x=torch.empty(0, 1), edge_index=NO_EDGES, batch=NO_EDGES[0]), 0, 0),
    "an edge": (cycle(2), 1, 2),
    "a self-loop": (Data(edge_index=torch.tensor([[0], [0]]), num_nodes=1), 1, 1),
    "with and without edges": (Batch.from_data_list([LONELY, cycle(4), LONELY, cycle(3)]), 4, 9),
}


@each_implementation
@each_mode
@each_pool
@pytest.mark.parametrize("virtual_node", [True, False])
@pytest.mark.parametrize("name", SMALL_DATA)
def test_small_data(name: str, virtual_node: bool, pool: str | None, training: bool, implementation: str) -> None:
    data, num_graphs, num_nodes = SMALL_DATA[name]
    model = make_model(1, edge_dim=1, virtual_node=virtual_node, pool=pool, implementation=implementation)
    out = model.train(training)(data)
    assert out.shape == (num_nodes if pool is None else num_graphs, 2)
    assert out.isfinite().all()
    out.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert all(buffer.isfinite().all() for buffer in model.buffers())


def test_without_edges_no_edge_features_are_needed() -> None:
    for edge_dim in (3, OneHot([2, 1]), Embedding(2, 3)):
        assert make_model(1, edge_dim=edge_dim)(LONELY).shape == (1, 2)


@each_implementation
@each_mode
def test_nan_comes_out_where_it_went_in(implementation: str, training: bool) -> None:
    data = Batch.from_data_list([random_graph(0), random_graph(1)])
    data.x[0, 0] = torch.nan
    out = make_model(implementation=implementation).train(training)(data)
    assert out.isnan().all(dim=1).tolist() == [True, training]  # in training, norms see the whole batch


@each_implementation
@pytest.mark.parametrize(("window_size", "kernel_size"), [(0, None), (0, 5), (2, None), (16, 9), (32, 9)])
@pytest.mark.parametrize(("identity", "adjacency"), [(True, True), (True, False), (False, True), (False, False)])
def test_windows(window_size: int, kernel_size: int, identity: bool, adjacency: bool, implementation: str) -> None:
    model = make_model(
        window_size=window_size,
        kernel_size=kernel_size,
        identity=identity,
        adjacency=adjacency,
        implementation=implementation,
    )
    out = model(random_graph(0))
    out.sum().backward()
    assert out.isfinite().all()


def test_a_model_whose_walks_jump_has_a_weight_for_the_flag() -> None:
    plain, jumping = make_model(num_layers=1), make_model(num_layers=1, strategy="restart", restart=0.3)
    assert jumping.walk_plan.restart == 0.3
    assert sum(p.numel() for p in jumping.parameters()) == sum(p.numel() for p in plain.parameters()) + 8
    with pytest.raises(ValueError, match="restart must be a number between 0 and 1, not 1"):
        make_model(strategy="restart", restart=1)


@pytest.mark.parametrize("strategy", ["min_degree", "min_degree_non_backtracking", "depth_first", "restart"])
def test_walks_of_a_model_are_those_of_its_strategy(strategy: str) -> None:
    model, graph = make_model(strategy=strategy), Graph.from_data(random_graph(0))
    walks = model.sample_walks(graph, seed=1)
    assert torch.equal(walks.nodes, sample_walks(graph, walks.num_steps, strategy, seed=1).nodes)
    assert not torch.equal(walks.nodes, make_model().sample_walks(graph, seed=1).nodes)
    model(random_graph(0)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_centred_and_several_walks_of_a_model() -> None:
    model, graph = make_model(centred=True, num_walks=2), Graph.from_data(random_graph(0))
    walks = model.sample_walks(graph, seed=1)
    expected = sample_walks(graph, walks.num_steps, seed=1, centred=True, num_walks=2)
    assert torch.equal(walks.nodes, expected.nodes)
    assert len(walks) == 2 * len(make_model().sample_walks(graph, seed=1))
    more = make_model(centred=True, num_walks=2, num_eval_walks=3)
    assert len(more.eval().sample_walks(graph, seed=1)) == 3 * len(walks) // 2
    assert len(more.train().sample_walks(graph, seed=1)) == len(walks)
    model(random_graph(0)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("strategy", ["uniform", "non_backtracking", "node2vec"])
def test_strategies(strategy: str) -> None:
    model = make_model(strategy=strategy)
    walks = model.sample_walks(Graph.from_data(random_graph(0)), seed=1)
    goes_back = (walks.nodes[:, 2:] == walks.nodes[:, :-2]).float().mean()
    assert (goes_back < 0.2) == (strategy == "non_backtracking")
    assert model(random_graph(0)).isfinite().all()


# ---- the walks of a forward pass


@each_mode
def test_walks_given_or_drawn_give_the_same_result(training: bool) -> None:
    data = Batch.from_data_list([random_graph(seed) for seed in range(3)])
    model = make_model(start_share=0.5).train(training)
    drawn = copy.deepcopy(model)(data, seed=7)
    walks = model.sample_walks(Graph.from_data(data), seed=7)
    assert torch.equal(copy.deepcopy(model)(data, walks), drawn)
    assert not torch.equal(copy.deepcopy(model)(data, seed=8), drawn)


def test_without_a_seed_torch_decides() -> None:
    model, data = make_model().eval(), random_graph(0)
    torch.manual_seed(1)
    first, second = model(data), model(data)
    torch.manual_seed(1)
    assert torch.equal(model(data), first)
    assert not torch.equal(first, second)


def test_a_seed_leaves_torchs_generator_alone() -> None:
    model, data = make_model().eval(), random_graph(0)
    before = torch.get_rng_state()
    model(data, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_default_walks() -> None:
    data = Batch.from_data_list([cycle(20), LONELY, cycle(30)])
    graph = Graph.from_data(data)
    model = make_model(1, start_share=0.2, window_size=2)
    walks = model.sample_walks(graph, seed=1)
    assert (walks.num_steps, walks.window_size) == (12, 2)
    assert 2 <= walks.num_walks < 25
    walks = model.eval().sample_walks(graph, seed=1)
    assert (walks.num_steps, walks.num_walks) == (20, 50)
    for mode in (True, False):
        assert model.train(mode).sample_walks(graph, num_steps=33).num_steps == 33


def test_forward_uses_these_defaults() -> None:
    model, seen = make_model(), []
    model.blocks[0].conv.register_forward_pre_hook(lambda conv, arguments: seen.append(arguments[1].num_steps))
    model(random_graph(0))
    model.eval()(random_graph(0))
    model(random_graph(0), num_steps=15)
    assert seen == [12, 20, 15]


# ---- invariances


@each_implementation
@each_pool
def test_other_graphs_of_the_batch_do_not_matter(pool: str | None, implementation: str) -> None:
    model = make_model(edge_dim=2, virtual_node=True, pool=pool, implementation=implementation)
    graphs = [random_graph(seed, num_nodes=6 + seed) for seed in range(4)]
    batch = Batch.from_data_list([graphs[0], graphs[1], random_graph(9, num_nodes=1), *graphs[2:]])
    model(batch, seed=0)  # so that the running statistics are not trivial
    model.eval()
    walks = [model.sample_walks(Graph.from_data(graph), seed=seed) for seed, graph in enumerate(graphs)]
    alone = torch.cat([model(graph, w) for graph, w in zip(graphs, walks, strict=True)])

    moved, num_edges = [], 0
    for place, graph, w in zip((0, 1, 3, 4), graphs, walks, strict=True):
        num_nodes = int(batch.ptr[place])
        shifted = {"nodes": w.nodes + num_nodes, "edges": w.edges + num_edges}
        moved.append(replace(w, **shifted, num_nodes=batch.num_nodes, num_edges=batch.num_edges))
        num_edges += graph.num_edges
    tensors = {name: torch.cat([getattr(w, name) for w in moved]) for name in ("nodes", "edges", "code")}
    together = model(batch, replace(moved[0], **tensors))
    lonely = int(batch.ptr[2]) if pool is None else 2
    torch.testing.assert_close(torch.cat([together[:lonely], together[lonely + 1 :]]), alone)


def test_graph_keys_make_the_walks_of_a_graph_its_own() -> None:
    model = make_model(edge_dim=2).eval()
    graphs = [random_graph(seed, num_nodes=6 + seed) for seed in range(4)]
    for key, graph in enumerate(graphs):
        graph.graph_keys = torch.tensor([key])
    together = model(Batch.from_data_list(graphs), seed=1)
    apart = torch.cat([model(Batch.from_data_list(part), seed=1) for part in (graphs[:1], graphs[1:3], graphs[3:])])
    torch.testing.assert_close(together, apart)
    for graph in graphs:
        del graph.graph_keys
    assert not torch.allclose(model(Batch.from_data_list(graphs[1:]), seed=1), together[1:])


@each_implementation
@each_pool
def test_relabelling_nodes(pool: str | None, implementation: str) -> None:
    data = random_graph(0, num_nodes=9)
    model = make_model(edge_dim=2, virtual_node=True, pool=pool, implementation=implementation).double().eval()
    walks = model.sample_walks(Graph.from_data(data), seed=1)
    generator = torch.Generator().manual_seed(0)
    node = torch.randperm(9, generator=generator)
    edge = torch.randperm(data.num_edges, generator=generator)
    old = torch.argsort(node)
    relabelled = Data(x=data.x[old], edge_index=node[data.edge_index[:, edge]], edge_attr=data.edge_attr[edge])
    new_walks = Walks.from_nodes(Graph.from_data(relabelled), node[walks.nodes], window_size=8)
    out, expected = model(relabelled, new_walks), model(data, walks)
    torch.testing.assert_close(out, expected[old] if pool is None else expected, rtol=1e-10, atol=1e-10)


# ---- as a module


@each_implementation
@pytest.mark.parametrize(
    "data",
    [Batch.from_data_list([random_graph(0), random_graph(1)]), cycle(5), LONELY, cycle(5, x=torch.arange(5))],
    ids=["features", "none", "lonely", "integers"],
)
def test_data_is_only_read(data: Data, implementation: str) -> None:
    before = copy.deepcopy(data)
    with_features = data.edge_attr is not None
    model = make_model(3 if with_features else 1, edge_dim=2 if with_features else 1, implementation=implementation)
    model(data).sum().backward()
    assert data.keys() == before.keys()
    for key in before.keys():  # noqa: SIM118 - a Data yields its tensors, not its keys
        assert torch.equal(torch.as_tensor(data[key]), torch.as_tensor(before[key])), key
        assert not torch.as_tensor(data[key]).requires_grad


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_compute_the_same(copied: Callable[[CRaWl], CRaWl]) -> None:
    model = make_model(OneHot(5), virtual_node=True)
    data = cycle(5, x=torch.arange(5))
    assert torch.equal(copied(model)(data, seed=1), model(data, seed=1))


def test_state_dict_restores_a_model() -> None:
    model, other = (make_model(Embedding(5, 4), virtual_node=True) for _ in range(2))
    for parameter in other.parameters():
        nn.init.normal_(parameter)
    data = cycle(5, x=torch.arange(5))
    assert not torch.allclose(other(data, seed=1), model(data, seed=1))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval()(data, seed=1), model.eval()(data, seed=1))


def test_to_float64_and_back() -> None:
    model, data = make_model(edge_dim=2, virtual_node=True).eval(), random_graph(0)
    expected = model(data, seed=1)
    torch.testing.assert_close(model.to(torch.float64)(data, seed=1).float(), expected)
    torch.testing.assert_close(model.float()(data, seed=1), expected)


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_autocast(implementation: str) -> None:
    data = Batch.from_data_list([random_graph(seed) for seed in range(4)])
    model = make_model(edge_dim=2, virtual_node=True, implementation=implementation)
    expected = copy.deepcopy(model)(data, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(data, seed=1)
    torch.testing.assert_close(out.float(), expected, atol=0.1, rtol=0.1)
    out.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_gradients_reach_the_features() -> None:
    data = random_graph(0)
    data.x.requires_grad_()
    data.edge_attr.requires_grad_()
    make_model(edge_dim=2)(data).square().sum().backward()
    assert data.x.grad.any(dim=1).all()
    assert data.edge_attr.grad.any()


def test_every_parameter_has_a_gradient() -> None:
    model = make_model(Embedding(8, 4), edge_dim=2, virtual_node=True)
    data = Batch.from_data_list([random_graph(seed) for seed in range(3)])
    data.x = torch.arange(24) % 8
    model(data).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if not parameter.grad.any()] == []


def test_dropout_only_in_training() -> None:
    model, data = make_model(dropout=0.5, virtual_node=True), random_graph(0)
    walks = model.sample_walks(Graph.from_data(data), seed=1)
    assert not torch.equal(model(data, walks), model(data, walks))
    model.eval()
    assert torch.equal(model(data, walks), model(data, walks))


def test_dropout_of_features_only_in_training() -> None:
    """With a rate of almost 1, no feature is seen: the answer is that to zeros."""
    data, nothing = random_graph(0), random_graph(0)
    nothing.x = torch.zeros_like(data.x)
    blind, seeing = (make_model(input_dropout=rate, edge_dim=2) for rate in (1 - 1e-6, 0.0))
    seeing.load_state_dict(blind.state_dict())
    assert torch.equal(blind(data, seed=1), seeing(nothing, seed=1))
    seeing.load_state_dict(blind.state_dict())
    assert torch.equal(blind.eval()(data, seed=1), seeing.eval()(data, seed=1))
    assert not torch.equal(seeing(data, seed=1), seeing(nothing, seed=1))


def num_virtual_nodes(model: CRaWl) -> int:
    return sum(isinstance(module, VirtualNode) for module in model.modules())


@pytest.mark.parametrize("num_layers", [1, 2, 4])
def test_a_virtual_node_after_every_layer_but_the_last(num_layers: int) -> None:
    assert num_virtual_nodes(make_model(num_layers=num_layers, virtual_node=True)) == num_layers - 1
    assert num_virtual_nodes(make_model(num_layers=num_layers)) == 0


def test_a_virtual_node_carries_its_state_along() -> None:
    """The second one adds to what the first one said."""
    model, data = make_model(virtual_node=True).eval(), random_graph(0)
    states = []
    for node in (module for module in model.modules() if isinstance(module, VirtualNode)):
        node.register_forward_hook(lambda module, inputs, outputs: states.append((inputs[1], outputs[1])))
    model(data)
    assert not states[0][0].any()
    assert torch.equal(states[1][0], states[0][1])


class Mixed(nn.Module):
    """CRaWl between two kinds of message passing."""

    def __init__(self) -> None:
        super().__init__()
        self.gin = GINConv(nn.Linear(3, 8))
        self.crawl = CRaWlConv(8, 8, edge_dim=2)
        self.gcn = GCNConv(8, 2)

    def forward(self, data: Data, walks: Walks) -> Tensor:
        x = self.gin(data.x, data.edge_index).relu()
        x = self.crawl(x, walks, data.edge_attr).relu()
        return self.gcn(x, data.edge_index)


def test_mixes_with_message_passing() -> None:
    data = Batch.from_data_list([random_graph(seed) for seed in range(3)])
    model = Mixed()
    walks = make_model().sample_walks(Graph.from_data(data))
    out = model(data, walks)
    out.square().sum().backward()
    assert out.shape == (24, 2)
    assert all(parameter.grad.any() for parameter in model.parameters())


# ---- learning


def train(model: CRaWl, data: Data, loss: Callable[[Tensor], Tensor], num_epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(0)
    for _ in range(num_epochs):
        optimizer.zero_grad()
        loss(model(data)).backward()
        optimizer.step()


def test_overfits_16_graphs() -> None:
    data = Batch.from_data_list([random_graph(seed) for seed in range(16)])
    target = torch.randn(16, 1, generator=torch.Generator().manual_seed(0))
    model = make_model(out_channels=1, edge_dim=2, hidden_channels=32, num_layers=2)
    train(model, data, lambda out: (out - target).square().mean(), num_epochs=120)
    with torch.no_grad():
        assert float((model(data, seed=1) - target).square().mean()) < 0.05  # 1 is chance


PAIRS = {
    "two triangles or a hexagon": (Batch.from_data_list([cycle(3), cycle(3)]), cycle(6)),
    "skip links of 2 or 3": (cycle(11, 2), cycle(11, 3)),
}


def one_graph(data: Data) -> Data:
    return Data(edge_index=data.edge_index, num_nodes=data.num_nodes)


@pytest.mark.parametrize("name", PAIRS)
def test_learns_what_1_wl_cannot_tell_apart(name: str) -> None:
    data = Batch.from_data_list([one_graph(graph) for graph in PAIRS[name]])
    target = torch.tensor([0, 1])
    model = make_model(1, num_layers=2, hidden_channels=16, pool="sum", num_steps=20)
    train(model, data, lambda out: nn.functional.cross_entropy(out, target), num_epochs=150)
    model.eval()
    with torch.no_grad():
        assert all(torch.equal(model(data, seed=seed).argmax(dim=1), target) for seed in range(10))


@pytest.mark.parametrize("name", PAIRS)
def test_without_bits_it_cannot_either(name: str) -> None:
    """The same is true of every walk on a regular graph: not even random weights tell two of them apart."""
    data = Batch.from_data_list([one_graph(graph) for graph in PAIRS[name]])
    for seed in range(5):
        model = make_model(1, hidden_channels=16, identity=False, adjacency=False).double()
        for parameter in model.parameters():
            nn.init.normal_(parameter, generator=torch.Generator().manual_seed(seed))
        first, second = model.eval()(data, num_steps=60, seed=seed)
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)
        assert first.abs().max() > 1e-3


# ---- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_steps": "a"}, "num_steps must be a whole number from 0 to .*, not 'a'"),
        ({"num_eval_steps": -3}, "num_eval_steps must be a whole number"),
        ({"out_channels": 0}, "out_channels must be a whole number from 1 to .*, not 0"),
        ({"out_channels": 1.5}, "out_channels must be a whole number"),
        ({"num_layers": 10**20}, "num_layers must be a whole number"),
        ({"dropout": "a"}, "dropout must be a number from 0 to 1, not 'a'"),
        ({"dropout": float("nan")}, "dropout must be a number from 0 to 1, not nan"),
        ({"virtual_node": "yes"}, "virtual_node must be True or False, not 'yes'"),
        ({"in_channels": torch.nn.ReLU()}, "in_channels must be a number or an encoder"),
        ({"num_layers": 0}, "num_layers must be a whole number from 1 to 1000, not 0"),
        ({"start_share": 0.0}, r"start_share must be a share in \(0, 1\], not 0.0"),
        ({"start_share": 1.5}, "start_share must be"),
        ({"in_channels": 0}, "in_channels must be a whole number from 1 to .*, not 0"),
        ({"hidden_channels": 0}, "hidden_channels must be a whole number from 1 to .*, not 0"),
        ({"edge_dim": -1}, "edge_dim must be a whole number from 0"),
        ({"window_size": 5}, "kernel_size must be odd"),
        ({"window_size": 40}, "window_size must be"),
        ({"pool": "max"}, "pool must be"),
        ({"head": "none"}, "head must be"),
        ({"implementation": "slow"}, "implementation must be"),
    ],
)
def test_bad_models_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(**options)


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"in_channels": 3}, cycle(5), "The data has no features, but 3 channels are expected"),
        ({"in_channels": 3}, cycle(5, x=torch.rand(5, 2)), r"shape \[5, 3\], not \[5, 2\]"),
        ({"in_channels": 1, "edge_dim": 2}, cycle(5), "The data has no features, but 2 channels are expected"),
        ({"in_channels": 1, "edge_dim": 2}, cycle(5, edge_attr=torch.rand(5, 2)), r"shape \[10, 2\], not \[5, 2\]"),
        ({"in_channels": OneHot(4)}, cycle(5), "categories are expected"),
        ({"in_channels": OneHot(4)}, cycle(5, x=torch.arange(5)), "Row 4 has category 4 in column 0"),
        ({"in_channels": 1, "strategy": "lazy"}, cycle(5), "strategy must be"),
        ({"in_channels": 1, "num_steps": 7}, cycle(5), "Walks of 7 steps are shorter than one window of 9 nodes"),
        ({"in_channels": 1, "num_steps": 7}, LONELY, "Walks of 7 steps are shorter than one window of 9 nodes"),
    ],
)
def test_data_that_does_not_fit_is_refused(options: dict[str, Any], data: Data, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(**options)(data)


@each_implementation
def test_walks_of_another_graph_are_refused(implementation: str) -> None:
    model = make_model(1, edge_dim=1, implementation=implementation)
    walks = model.sample_walks(Graph.from_data(cycle(9)))
    with pytest.raises(ValueError, match=r"x has 5 rows, .* 9 nodes: give the features"):
        model(cycle(5), walks)
    with pytest.raises(ValueError, match="edge_attr has 10 rows"):
        model(Data(edge_index=cycle(5).edge_index, edge_attr=torch.ones(10, 1), num_nodes=9), walks)


def test_given_walks_may_run_against_the_edges() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    model = CRaWl(1, 2, hidden_channels=4).eval()
    with pytest.raises(ValueError, match="can be entered but not left"):
        model(data, seed=0)
    walks = model.sample_walks(Graph.from_data(data, undirected=True), seed=0)
    assert model(data, walks=walks).isfinite().all()


@each_implementation
def test_backward_after_the_running_statistics_have_moved(implementation: str) -> None:
    data = random_graph(0)
    model = make_model(implementation=implementation).eval()
    loss = model(data, seed=1).sum()
    model.train()(data, seed=2)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.blocks.parameters())


def test_unknown_strategy_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="strategy must be"):
        CRaWl(1, 1, strategy="backtracking")


def test_node2vec_takes_its_parameters() -> None:
    graph = Graph.from_data(random_graph(0))
    near, far = (CRaWl(1, 1, strategy="node2vec", p=p, q=1.0).sample_walks(graph, seed=0) for p in (0.01, 100.0))
    returns = [float((walks.nodes[:, 2:] == walks.nodes[:, :-2]).float().mean()) for walks in (near, far)]
    assert returns[0] > returns[1] + 0.2


@pytest.mark.filterwarnings("ignore")  # torch's compiler warns about its own doings
def test_compiled_model_gives_the_same() -> None:
    data = random_graph(0)
    model = make_model().eval()
    torch.testing.assert_close(torch.compile(model, backend="eager")(data, seed=1), model(data, seed=1))


@each_implementation
def test_the_default_device_of_torch_changes_nothing(implementation: str) -> None:
    """A user may have set it to a GPU while graphs are on the CPU; here it is one that holds no values."""
    data = random_graph(0)
    model = make_model(implementation=implementation)
    expected = model(data, seed=1)
    with torch.device("meta"):
        found = model(data, seed=1)
        found.sum().backward()
        model(data)
        sample_walks(Graph.from_data(data), num_steps=5, window_size=4, backend="reference")
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "setting",
    [
        *({"window_size": 2}, {"strategy": "uniform"}, {"num_steps": 5}, {"start_share": 0.5}),
        *({"kernel_size": 5}, {"padding": True}, {"identity": False}, {"num_heads": 2}, {"mean_log_degree": 3.0}),
        {"implementation": "reference"},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_settings_that_no_block_uses_are_refused(setting: dict) -> None:
    (name,) = setting
    usual = {name: inspect.signature(Network).parameters[name].default}
    with pytest.raises(ValueError, match=rf"^No block that this network builds uses {name} \(.*, which is for .*leave"):
        Network(1, 1, layer=("gin",), hidden_channels=4, **setting)
    Network(1, 1, layer=("gin",), hidden_channels=4, **usual)
    Network(1, 1, layer=("gin", ("gat", "pna", "walk")), hidden_channels=4, **setting)


@pytest.mark.parametrize("setting", [{"p": 2.0}, {"q": 0.5}, {"restart": 0.2}])
def test_settings_of_other_strategies_are_refused(setting: dict) -> None:
    with pytest.raises(ValueError, match=r"which is for other strategies than uniform: leave it out"):
        make_model(strategy="uniform", **setting)


def test_crawl_has_no_settings_of_other_blocks() -> None:
    with pytest.raises(ValueError, match=r"uses num_heads \(7\), which is for attention, gat: leave it out"):
        make_model(num_heads=7)
    with pytest.raises(ValueError, match="implementation must be one of fast, reference, not 'xx'"):
        Network(1, 1, layer=("gin",), implementation="xx")


def test_walks_of_a_block_of_ones_own_are_a_setting() -> None:
    conv = CRaWlConv(4, 4, window_size=4)
    model = Network(1, 1, layer=(WalkBlock(conv),), hidden_channels=4, window_size=4, num_steps=9)
    assert model.walk_plan.num_steps == 9
    with pytest.raises(ValueError, match="No block that this network builds uses kernel_size"):
        Network(1, 1, layer=(WalkBlock(conv),), hidden_channels=4, kernel_size=5)
