"""PyG's layers as blocks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from crawl.checks import check_type, shown
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.norm import BatchNorm

# Layers and aggregations of PyG whose shapes depend on the data, or that ask the device for a number.
_DYNAMIC = {
    *("ChebConv", "GPSConv", "MFConv", "GraphMultisetTransformer", "GRUAggregation", "LCMAggregation"),
    *("LSTMAggregation", "MLPAggregation", "PatchTransformerAggregation", "SetTransformerAggregation"),
    "SortAggregation",
}
# Layers of PyG whose `forward` names what blocks have, but means something else.
_OTHERS = {
    "DNAConv": "takes what several layers returned",
    "LINKX": "has a weight for each node of one graph",
    "MeshCNNConv": "takes the edges of a mesh for its nodes",
    "PANConv": "returns a matrix besides the nodes",
    "WLConv": "takes and returns categories",
}
_HAND_ON = {"AntiSymmetricConv": "phi", "BasicGNN": "convs", "GPSConv": "conv"}  # edge features, to a layer within
_EDGE_WIDTHS = {"CGConv": "dim", "GeneralConv": "in_edge_channels", "GMMConv": "dim", "SplineConv": "dim"}
_NEED_EDGES = ("GINEConv", "NNConv")  # those that do not keep the width of edge features
_GIVEN = {"x", "edge_index", "edge_attr", "batch"}
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class PyGBlock(Block):
    """What `from_pyg` returns: see there."""

    uses_walks = passes_messages = False

    def __init__(self, layer: nn.Module, activation: Callable[[Tensor], Tensor] | None, norm: BatchNorm | None) -> None:
        super().__init__()
        remedy = "give a layer of PyG, such as GINEConv(...), or use crawl.data.from_pyg for graphs"
        check_type("layer", layer, nn.Module, remedy)
        if norm is not None:
            check_type("norm", norm, BatchNorm, "give crawl.nn.BatchNorm(width)")
        for module in layer.modules():
            _refuse_if_graphs_mix(module)
        self.accepts, inner = _accepted(layer), _inner(layer)
        self.width_name = "in_channels" if hasattr(layer, "in_channels") else "channels"
        width = getattr(layer, self.width_name, None)
        self.in_channels = width if isinstance(width, int) and width > 0 else None
        self.edge_width_name = _EDGE_WIDTHS.get(type(inner).__name__, "edge_dim")
        edge_width = getattr(inner, self.edge_width_name, getattr(_edge_linear(inner), "in_channels", None))
        has_no_width = hasattr(inner, self.edge_width_name) and not edge_width  # then edge_attr is of no use to it
        self.edge_channels = edge_width or None
        supports_edges = getattr(layer, "supports_edge_attr", True)  # models take edge_attr in any case
        self.sees_edges = inner is not None and "edge_attr" in _accepted(inner) and supports_edges and not has_no_width
        self.needs_edges = self.edge_channels is not None or type(inner).__name__ in _NEED_EDGES
        self.layer, self.activation, self.norm = layer, activation, norm
        self.why_not_captured = _why_not_captured(layer)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        x = state.nodes
        inputs = {"x": x, "edge_index": batch.edge_index}
        _check_width(self.layer, self.width_name, self.in_channels, x)
        if self.sees_edges and self.needs_edges and state.edges is None:
            raise ValueError(
                f"{type(self.layer).__name__} needs edge features, but there are none: give the network edge_dim, or "
                "make the layer without them."
            )
        if self.sees_edges and state.edges is not None:
            _check_width(self.layer, self.edge_width_name, self.edge_channels, state.edges)
            inputs["edge_attr"] = state.edges
        if "batch" in self.accepts:
            inputs["batch"] = batch.nodes.owner
        try:
            out = self.layer(**inputs)
        except AssertionError as error:  # by which PyG refuses inputs without a word
            shapes = ", ".join(f"{name} {list(rows.shape)}" for name, rows in inputs.items())
            raise ValueError(
                f"{type(self.layer).__name__} does not take these shapes: {shapes}; make it with other widths."
            ) from error
        if not isinstance(out, Tensor) or out.dim() != 2 or out.shape[0] != x.shape[0]:
            raise ValueError(
                f"{type(self.layer).__name__} must return a row for each of {len(x)} nodes, not {shown(out)}."
            )
        out = out if self.norm is None else self.norm(out, batch.nodes.rows)
        out = out if self.activation is None else self.activation(out)
        return replace(state, nodes=x + out if out.shape == x.shape else out)


def from_pyg(
    layer: nn.Module, *, activation: Callable[[Tensor], Tensor] | None = torch.relu, norm: BatchNorm | None = None
) -> Block:
    """A block that calls a layer of PyG.

        h ← h + activation(norm(layer(h)))

    The residual is left out where the layer changes the width. The layer gets the nodes' state, `edge_index`, the
    edges' state if it takes `edge_attr`, and the graph of each node if it takes `batch`. PyG's sums use atomics on a
    GPU, so their bits do not repeat there; a dropout of the layer draws from torch's own generator.

    Args:
        layer: A layer whose `forward` takes `x` and `edge_index` and needs nothing but what is named above. It does
            not get an `edge_weight`. For `GPSConv`, the edges' state goes to the layer in it.
        activation: A function of each value, after the layer; None for none.
        norm: A batch norm before the activation, as wide as what the layer returns; None for none.

    Raises:
        ValueError: If the layer needs something else, or answers for a graph by what else is in the batch.
    """
    return PyGBlock(layer, activation, norm)


def _accepted(layer: nn.Module) -> frozenset[str]:
    """The names of what the layer's `forward` takes. Not the method itself: a copy of the block has another layer."""
    parameters, name = inspect.signature(layer.forward).parameters, type(layer).__name__
    named = {key: value for key, value in parameters.items() if value.kind not in _ANY_NUMBER}
    needed = {key for key, value in named.items() if value.default is value.empty}
    needed |= named.keys() & {"edge_type"} if getattr(layer, "num_relations", 1) > 1 else set()
    reason = _OTHERS.get(name) or f"takes {', '.join(parameters)}"
    if type(layer).__module__.startswith("torch_geometric.nn.pool"):
        reason = "returns other nodes than it takes"
    elif {"x", "edge_index"} <= named.keys() and needed <= _GIVEN and name not in _OTHERS:
        return frozenset(named)
    raise ValueError(
        f"from_pyg gives a layer x, edge_index, edge_attr and batch and wants a row for each node, but {name} "
        f"{reason}: write a Block that calls it."
    )


def _inner(layer: nn.Module) -> nn.Module | None:
    """The layer that edge features go to: one within, if the layer hands on what it gets, as `GPSConv` does."""
    for kind in type(layer).__mro__:
        if kind.__name__ in _HAND_ON:
            inner = getattr(layer, _HAND_ON[kind.__name__])
            return inner[0] if isinstance(inner, nn.ModuleList) else inner
    return layer


def _edge_linear(layer: nn.Module | None) -> Any:
    """The linear map of edge features in a layer that does not keep their width itself."""
    return getattr(layer, {"GENConv": "lin_edge", "GINEConv": "lin"}.get(type(layer).__name__, ""), None)


def _refuse_if_graphs_mix(module: nn.Module) -> None:
    """Refuses a part of a layer by which a graph's answer would depend on other graphs."""
    name = type(module).__name__
    if getattr(module, "cached", False):
        raise ValueError(f"{name} would use the degrees of its first batch for all others: give it cached=False.")
    if name == "ChebConv" and module.normalization is None:
        raise ValueError("ChebConv would scale all graphs by the largest of a batch: give it normalization='sym'.")
    if name == "PerformerAttention":
        raise ValueError(f"{name} counts padding between the graphs of a batch: give GPSConv attn_type='multihead'.")
    is_mlp = type(module).__module__ == "torch_geometric.nn.models.mlp"
    holder = module.get_submodule("norms") if is_mlp else module if isinstance(module, nn.Sequential) else nn.Module()
    for norm in holder.children():
        if _is_of_graphs(norm):
            raise ValueError(
                f"{type(norm).__name__} inside {name} would normalise all graphs of a batch as one, since layers give "
                "it the nodes alone: give the layer no norm there, or a batch norm."
            )


def _is_of_graphs(norm: nn.Module) -> bool:
    """Whether a norm of PyG needs the graph of each node."""
    is_of_pyg = type(norm).__module__.startswith("torch_geometric.nn.norm")
    takes_batch = "batch" in inspect.signature(norm.forward).parameters
    return is_of_pyg and takes_batch and getattr(norm, "mode", "graph") == "graph"


def _why_not_captured(layer: nn.Module) -> str | None:
    for module in layer.modules():
        name = type(module).__name__
        if getattr(module, "add_self_loops", False) is True:
            return f"{name} looks for self-loops with a boolean mask: add_self_loops=False avoids it"
        if name in _DYNAMIC:
            return f"shapes in {name} depend on the data"
        if isinstance(module, _BatchNorm) or type(module).__module__.startswith("torch_geometric.nn.norm"):
            return f"{name} in {type(layer).__name__} counts padding: give from_pyg a norm instead"
    return None


def _check_width(layer: nn.Module, name: str, width: int | None, rows: Tensor) -> None:
    if width is not None and rows.shape[1] != width:
        raise ValueError(
            f"{type(layer).__name__} has {name}={width}, but gets rows of width {rows.shape[1]}: make it with "
            f"{name}={rows.shape[1]}."
        )
