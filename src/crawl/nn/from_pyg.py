"""PyG's layers as blocks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from crawl.checks import check_type, shown
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.norm import BatchNorm

# Layers and aggregations of PyG whose shapes depend on the data, or that ask the device for a number.
_DYNAMIC = {
    *("ChebConv", "GPSConv", "MFConv", "PANConv", "GraphMultisetTransformer", "GRUAggregation", "LCMAggregation"),
    *("LSTMAggregation", "MLPAggregation", "PatchTransformerAggregation", "SetTransformerAggregation"),
    "SortAggregation",
}


class PyGBlock(Block):
    """What `from_pyg` returns: see there."""

    uses_walks = passes_messages = False

    def __init__(self, layer: nn.Module, activation: Callable[[Tensor], Tensor] | None, norm: BatchNorm | None) -> None:
        super().__init__()
        check_type("layer", layer, nn.Module, "give a layer of PyG, such as GINEConv(...)")
        if norm is not None:
            check_type("norm", norm, BatchNorm, "give crawl.nn.BatchNorm(width)")
        name, self.accepts = type(layer).__name__, _accepted(layer)
        if getattr(layer, "cached", False):
            raise ValueError(f"{name} would use the degrees of its first batch for all others: give it cached=False.")
        width = getattr(layer, "in_channels", None)
        self.in_channels = width if isinstance(width, int) and width > 0 else None
        self.edge_channels = getattr(layer, "edge_dim", 0) or None
        has_no_width = hasattr(layer, "edge_dim") and not layer.edge_dim  # then edge_attr is taken and not used
        supports_edges = getattr(layer, "supports_edge_attr", True)  # models take edge_attr in any case
        self.sees_edges = "edge_attr" in self.accepts and supports_edges and not has_no_width
        self.layer, self.activation, self.norm = layer, activation, norm
        self.why_not_captured = _why_not_captured(layer)

    def forward(self, state: State, batch: Batch) -> State:
        """The state with new nodes."""
        x = state.nodes
        inputs = {"x": x, "edge_index": batch.edge_index}
        _check_width(self.layer, "in_channels", self.in_channels, x)
        if self.sees_edges and state.edges is None and self.edge_channels is not None:
            raise ValueError(
                f"{type(self.layer).__name__} has edge_dim={self.edge_channels}, but there are no edge features: give "
                "the network edge_dim, or the layer edge_dim=None."
            )
        if self.sees_edges and state.edges is not None:
            _check_width(self.layer, "edge_dim", self.edge_channels, state.edges)
            inputs["edge_attr"] = state.edges
        if "batch" in self.accepts:
            inputs["batch"] = batch.nodes.owner
        out = self.layer(**inputs)
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
            not get an `edge_weight`.
        activation: A function of each value, after the layer; None for none.
        norm: A batch norm before the activation, as wide as what the layer returns; None for none.

    Raises:
        ValueError: If the layer needs something else, or keeps what it has found in its first batch.
    """
    return PyGBlock(layer, activation, norm)


def _accepted(layer: nn.Module) -> frozenset[str]:
    """The names of what the layer's `forward` takes. Not the method itself: a copy of the block has another layer."""
    parameters = inspect.signature(layer.forward).parameters
    named = {
        key: value for key, value in parameters.items() if value.kind not in (value.VAR_POSITIONAL, value.VAR_KEYWORD)
    }
    needed = {key for key, value in named.items() if value.default is value.empty}
    if not {"x", "edge_index"} <= named.keys() or not needed <= {"x", "edge_index", "edge_attr", "batch"}:
        raise ValueError(
            f"from_pyg gives a layer x, edge_index, edge_attr and batch, but {type(layer).__name__} takes "
            f"{', '.join(named)}: write a Block that calls it."
        )
    return frozenset(named)


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
