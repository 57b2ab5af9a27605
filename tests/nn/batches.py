"""Batches for tests of blocks: exact, padded, graph by graph, relabelled; and how results on two of them compare."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

from crawl import Graph, Walks, sample_walks
from crawl.nn import BLOCKS, Batch, Block, BlockSettings, Rows, Segments, State
from crawl.ops.precision import precision
from crawl.ops.segments import places_of

WIDTH, WINDOW = 8, 4


def pyg_graphs(edge_dim: int = 3) -> list[Data]:
    """A ring with a tail and parallel edges, a star with an isolated node, a path with self-loops, one node."""
    torch.manual_seed(0)
    ring = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (0, 1)]
    star = [(0, 1), (0, 2), (0, 3)]
    graphs = [(5, ring + [(v, u) for u, v in ring]), (5, star + [(v, u) for u, v in star])]
    graphs += [(3, [(0, 1), (1, 2), (2, 2), (1, 1), (2, 2)]), (1, [])]
    return [
        Data(
            x=torch.randn(size, WIDTH),
            edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(),
            edge_attr=torch.randn(len(edges), edge_dim),
        )
        for size, edges in graphs
    ]


def make_batch(edge_dim: int = WIDTH, num_steps: int = 7) -> Batch:
    """These graphs side by side, with walks, whose features are the first states of nodes and edges."""
    data = PyGBatch.from_data_list(pyg_graphs(edge_dim))
    graph = Graph.from_data(data)
    return Batch.from_data(data, graph, sample_walks(graph, num_steps, window_size=WINDOW, seed=1), data.x.device)


def make_block(name: str, edge_channels: int = WIDTH) -> Block:
    """A block by its name, whose batch norms do not have the weights they begin with."""
    torch.manual_seed(1)
    settings = BlockSettings(WIDTH, WIDTH, edge_channels, window_size=WINDOW, num_heads=2, mean_log_degree=0.8)
    return with_uneven_norms(BLOCKS[name].build(settings))


def with_uneven_norms(module: Any) -> Any:
    """The module, whose batch norms have weights and running statistics of their own."""
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm1d):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, 0.2, 0.2)
            nn.init.normal_(norm.running_mean, 0, 0.2)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
        if hasattr(norm, "precision"):
            norm.precision = "float32"
    return module


def pad(batch: Batch, num_nodes: int = 3, num_edges: int = 4, num_graphs: int = 2, num_walks: int = 2) -> Batch:
    """The batch with this many more rows, which are not real: their ids point at the first that is not real."""
    node, edge, graph = batch.num_nodes, batch.num_edges, batch.num_graphs
    nodes = Rows(node + num_nodes, _count(node))
    edges = Rows(edge + num_edges, _count(edge))
    graphs = Rows(graph + num_graphs, _count(graph))
    edge_index = torch.cat([batch.edge_index, torch.full((2, num_edges), node)], dim=1)
    longest = int(batch.nodes.count.max()) + 1  # no node may be beyond; it need not be exact
    return replace(
        batch,
        edge_index=edge_index,
        nodes=_segments(torch.cat([batch.nodes.owner, torch.full((num_nodes,), graph)]), nodes, graphs, node, longest),
        edges=_segments(edge_index[1], edges, nodes, edge),
        sources=_segments(edge_index[0], edges, nodes, edge),
        x=_with_noise(batch.x, num_nodes),
        edge_attr=_with_noise(batch.edge_attr, num_edges),
        walks=None if batch.walks is None else _padded_walks(batch.walks, nodes.size, edges.size, num_walks),
    )


def _padded_walks(walks: Walks, num_nodes: int, num_edges: int, num_walks: int) -> Walks:
    spare_node, spare_edge = walks.num_nodes, walks.num_edges
    padded = Walks(
        torch.cat([walks.nodes, torch.full((num_walks, walks.num_steps + 1), spare_node, dtype=torch.int32)]),
        torch.cat([walks.edges, torch.full((num_walks, walks.num_steps), spare_edge, dtype=torch.int32)]),
        torch.cat([walks.code, walks.code.new_zeros(num_walks, walks.num_steps + 1)]),
        walks.window_size,
        num_nodes,
        num_edges,
        _count(len(walks)),
    )
    return with_places(padded, len(walks))


def with_places(walks: Walks, num_real: int) -> Walks:
    """The walks, whose segments know the order of rows, as on a GPU, without those of padding."""
    visits, steps = walks.nodes.flatten(), walks.edges.flatten()
    real_visits, real_steps = num_real * (walks.num_steps + 1), num_real * walks.num_steps
    nodes, edges = Rows(walks.num_nodes), Rows(walks.num_edges)
    vars(walks)["visits"] = _segments(visits, Rows(len(visits), _count(real_visits)), nodes, real_visits)
    vars(walks)["steps"] = _segments(steps, Rows(len(steps), _count(real_steps)), edges, real_steps)
    return walks


def _segments(owner: Tensor, rows: Rows, owners: Rows, num_real: int, longest: int | None = None) -> Segments:
    ptr, order = places_of(owner[:num_real], owners.size)
    return Segments(owner, rows, owners, ptr, torch.cat([order, torch.arange(num_real, rows.size)]), longest)


def _count(number: int) -> Tensor:
    return torch.tensor([number], dtype=torch.int32)


def _with_noise(rows: Tensor | None, num_rows: int) -> Tensor | None:
    return None if rows is None else torch.cat([rows, 10 * rows.new_empty(num_rows, *rows.shape[1:]).normal_()])


def one_by_one(batch: Batch) -> list[tuple[Batch, list[Tensor]]]:
    """Each graph as a batch of its own, with the rows of nodes, edges and graphs that it had."""
    parts = []
    for graph in range(batch.num_graphs):
        nodes = (batch.nodes.owner == graph).nonzero().flatten()
        edges = (batch.nodes.owner[batch.edge_index[1]] == graph).nonzero().flatten()
        walks = batch.walks
        own = batch.nodes.owner[walks.nodes[:, 0].long()] == graph
        edge_index = batch.edge_index[:, edges] - nodes[0]
        first_edge = int(edges[0]) if len(edges) else 0
        part = Batch(
            edge_index,
            Segments.of(torch.zeros_like(nodes), 1),
            Segments.of(edge_index[1], len(nodes)),
            Segments.of(edge_index[0], len(nodes)),
            batch.x[nodes],
            batch.edge_attr[edges],
            walks=Walks(
                walks.nodes[own] - int(nodes[0]),
                walks.edges[own] - first_edge,
                walks.code[own],
                walks.window_size,
                len(nodes),
                len(edges),
            ),
        )
        parts.append((part, [nodes, edges, torch.tensor([graph])]))
    return parts


def relabelled(batch: Batch) -> tuple[Batch, list[Tensor]]:
    """The batch with nodes in another order within their graphs and edges in any; where old nodes and edges are now."""
    torch.manual_seed(2)
    key = batch.nodes.owner + torch.rand(batch.num_nodes)
    old_node, old_edge = key.argsort(), torch.randperm(batch.num_edges)
    new_node, new_edge = old_node.argsort(), old_edge.argsort()
    edge_index = new_node[batch.edge_index[:, old_edge]]
    walks = batch.walks
    moved = replace(
        batch,
        edge_index=edge_index,
        edges=Segments.of(edge_index[1], batch.num_nodes),
        sources=Segments.of(edge_index[0], batch.num_nodes),
        x=batch.x[old_node],
        edge_attr=batch.edge_attr[old_edge],
        walks=replace(walks, nodes=new_node[walks.nodes.long()].int(), edges=new_edge[walks.edges.long()].int()),
    )
    return moved, [new_node, new_edge, torch.arange(batch.num_graphs)]


def first_state(batch: Batch, dtype: torch.dtype) -> State:
    """The features of a batch as the state, and one for each graph that is a function of its real nodes."""
    nodes, edges = (rows.detach().clone().to(dtype).requires_grad_() for rows in (batch.x, batch.edge_attr))
    real = nodes.detach()[: int(batch.nodes.rows.real)] if batch.nodes.rows.real is not None else nodes.detach()
    graphs = nodes.new_zeros(batch.num_graphs, nodes.shape[1])
    graphs = graphs.index_add(0, batch.nodes.owner[: len(real)], real.sin())
    return State(nodes, edges, graphs.requires_grad_())


def results(
    block: Block, batch: Batch, rows: list[Tensor] | None = None, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """What a block makes of a batch: the state and all gradients, of inputs and of parameters.

    Args:
        block: The block, which is copied.
        batch: The batch.
        rows: Which rows of nodes, edges and graphs to take, in this order; those that are real when None.
        dtype: The type of numbers.
    """
    block = copy.deepcopy(block).to(dtype)
    before = first_state(batch, dtype)
    with precision("float32"):
        after = block(before, batch)
    counted = (batch.nodes.rows, batch.edges.rows, batch.nodes.owners)
    rows = (
        [torch.arange(each.size if each.real is None else int(each.real)) for each in counted] if rows is None else rows
    )
    found: dict[str, Tensor] = {}
    loss = torch.zeros((), dtype=dtype)
    for field, kept in zip(fields(State), rows, strict=True):
        value = getattr(after, field.name)
        assert value.isfinite().all(), field.name  # padding included
        found[field.name] = value[kept]
        weights = torch.linspace(-1, 2, value[kept].numel(), dtype=dtype).reshape(value[kept].shape)
        loss = loss + (value[kept].sin() * weights).sum()
    loss.backward()
    for field, kept in zip(fields(State), rows, strict=True):
        found[f"gradient of {field.name}"] = getattr(before, field.name).grad[kept]
    for name, parameter in block.named_parameters():
        if parameter.grad is not None:
            found[f"gradient of {name}"] = parameter.grad
    return {name: value.detach() for name, value in found.items()}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    """All of the same names and, relative to their norms, the same values."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        error = float((found[name].double() - value.double()).norm() / value.double().norm().clamp_min(1e-2))
        assert error <= tolerance, f"{name}: {error:.2e}"


def assert_equals_pyg(
    block: Block,
    layer: nn.Module,
    weights: dict[str, str],
    conv: Callable[[State, Batch], Tensor],
    *,
    edge_dim: int = 0,
) -> None:
    """A block's convolution and a layer of PyG with the same weights: outputs and gradients in float64 to 1e-10.

    Args:
        block: The block; it gets the weights of the layer.
        layer: The layer.
        weights: The names of the block's weights, and what they are called in the layer.
        conv: What of the block is compared.
        edge_dim: The width of edge features; 0 if the layer gets none.
    """
    batch = make_batch(edge_dim or 1)
    block.double(), layer.double()
    ours, theirs = dict(block.named_parameters()), dict(layer.named_parameters())
    with torch.no_grad():
        for name, other in weights.items():
            ours[name].copy_(theirs[other].view_as(ours[name]))
    state, inputs = first_state(batch, torch.float64), first_state(batch, torch.float64)
    found = conv(state, batch)
    expected = layer(inputs.nodes, batch.edge_index, *([inputs.edges] if edge_dim else []))
    grad = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found.backward(grad)
    expected.backward(grad)
    pairs = {"out": (found, expected), "nodes": (state.nodes.grad, inputs.nodes.grad)}
    if edge_dim:
        pairs["edges"] = (state.edges.grad, inputs.edges.grad)
    pairs |= {name: (ours[name].grad, theirs[other].grad) for name, other in weights.items()}
    for name, (value, reference) in pairs.items():
        torch.testing.assert_close(
            value, reference.view_as(value), rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
        )
