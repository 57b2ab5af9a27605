"""Checks of what layers are given, node and edge features, walks, sizes, and of what blocks return."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from crawl.checks import MAX_WIDTH, check_type, shown, whole_number
from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.ops.segments import Segments
from crawl.tensor_checks import plain_tensor
from crawl.walks.walks import Walks

_OF_WALKS = {*Walks.__annotations__, *vars(Walks)} - {"device", "to"}  # which tensors have, too


def check_rows(x: Tensor, members: Segments, like: Tensor) -> None:
    """Refuses features that do not have a row for each of these nodes and a channel for each weight in `like`."""
    check_type("members", members, Segments, "call Segments.of(batch, num_graphs)")
    expected = [members.rows.size, like.numel()]
    if not plain_tensor("x", x).is_floating_point() or list(x.shape) != expected:
        raise ValueError(f"x must be floating-point numbers of shape {expected}, not {shown(x)}.")
    _check_dtype("x", x, like.dtype)


def check_graph_features(u: Tensor | None, graph_channels: int) -> None:
    """Refuses features of graphs for a readout that takes another number of them."""
    if (0 if u is None else u.shape[1]) != graph_channels:
        wanted = f"u of {graph_channels} columns" if graph_channels else "no u"
        raise ValueError(f"This readout has graph_channels={graph_channels}: give it {wanted}.")


def check_targets(targets: tuple[Segments, ...] | None, pool: str | None) -> None:
    """Refuses nodes to answer for if the readout pools them, and pairs of nodes."""
    if targets is not None and (pool is not None or len(targets) > 1):
        owners, wanted = ("nodes", "pool=None") if len(targets) == 1 else ("pairs of nodes", "pair, such as pair='mlp'")
        raise ValueError(f"The targets of this batch are {owners}: the network needs {wanted}.")


def check_state(state: Tensor, num_graphs: int, channels: int) -> None:
    """Refuses what is not a row of this many channels for each graph."""
    if plain_tensor("state", state).shape != (num_graphs, channels):
        raise ValueError(f"state must be of shape {[num_graphs, channels]}, not {list(state.shape)}.")


def state_after(block: nn.Module, state: State, batch: Batch, width: int | None = None) -> State:
    """What a block returns. Refuses what is not a state, and nodes that are not of this width, if one is given."""
    name = type(block).__name__
    try:
        new = block(state, batch)
    except AttributeError as error:
        if error.obj is None and batch.walks is None and error.name in _OF_WALKS:
            raise ValueError(f"{name} reads walks, but has uses_walks=False: set it to True.") from error
        raise
    if not isinstance(new, State):
        raise ValueError(f"{name} must return a State, such as replace(state, nodes=…), not {shown(new)}.")
    expected = [state.nodes.shape[0], width]
    if width is not None and list(new.nodes.shape) != expected:
        raise ValueError(
            f"{name} must return nodes of shape {expected}, as what follows takes, not {shown(new.nodes)}."
        )
    return new


def checked_kernel_size(kernel_size: Any, window_size: int) -> int:
    """The width of a convolution along walks, window_size + 1 when None; refuses an even one."""
    size = whole_number("kernel_size", window_size + 1 if kernel_size is None else kernel_size, 1, MAX_WIDTH)
    if size % 2 == 0:
        raise ValueError(
            f"kernel_size must be odd, so that a window has a centre, not {size}. "
            "It is window_size + 1 by default: choose an even window_size or give an odd kernel_size."
        )
    return size


def channels_per_head(channels: int, num_heads: int) -> int:
    """The width of one head."""
    num_heads = whole_number("num_heads", num_heads, 1, MAX_WIDTH)
    if channels % num_heads:
        raise ValueError(
            f"Heads share the channels evenly, so hidden_channels must be a multiple of num_heads={num_heads}, not "
            f"{channels}: take hidden_channels={num_heads * -(-channels // num_heads)}, or another num_heads."
        )
    return channels // num_heads


def check_walks(walks: Walks, window_size: int, num_positions: int) -> None:
    """Refuses walks whose bits do not look back this far, or that visit fewer nodes."""
    check_type("walks", walks, Walks, "call sample_walks(graph)")
    if walks.window_size < window_size:
        raise ValueError(
            f"The walks see {walks.window_size} nodes back, the layer needs {window_size}: set window_size."
        )
    if walks.num_steps + 1 < num_positions:
        raise ValueError(
            f"Walks of {walks.num_steps} steps are shorter than one window of {num_positions} nodes: "
            f"sample at least {num_positions - 1} steps, or give the layer padding=True."
        )


def check_walk_features(
    x: Tensor, edge_attr: Tensor | None, walks: Walks, in_channels: int, edge_dim: int, dtype: torch.dtype
) -> None:
    """Refuses features that are not of the graph of the walks, or do not fit a layer of these widths."""
    if plain_tensor("x", x).device != walks.device:
        raise ValueError(f"x is on {x.device}, the walks are on {walks.device}: move one with .to(device).")
    _check_features("x", x, in_channels)
    _check_num_rows("x", x, "nodes", walks)
    _check_dtype("x", x, dtype)
    if edge_attr is not None and edge_dim == 0:
        raise ValueError("The layer has edge_dim=0 and would not use edge_attr: set edge_dim, or leave it out.")
    if edge_attr is not None:
        _check_features("edge_attr", edge_attr, edge_dim)
        _check_num_rows("edge_attr", edge_attr, "edges", walks)
        _check_dtype("edge_attr", edge_attr, dtype)
    elif edge_dim > 1:
        raise ValueError(f"The layer needs edge_attr with {edge_dim} channels.")


def checked_num_edges(walks: Walks, edge_attr: Tensor | None) -> int:
    """The number of edges; refuses walks that do not know it, without edge features."""
    if edge_attr is not None:
        return edge_attr.shape[0]
    if walks.num_edges is None:
        raise ValueError(
            "To pool into edges, or to jump, walks must know how many edges there are: give Walks num_edges."
        )
    return walks.num_edges


def _check_dtype(name: str, features: Tensor, dtype: torch.dtype) -> None:
    if features.device.type == "cpu" and features.dtype != dtype and not torch.is_autocast_enabled("cpu"):
        raise ValueError(f"{name} is of {features.dtype}, but the layer of {dtype}: move one with .to(dtype).")


def _check_features(name: str, features: Tensor, num_channels: int) -> None:
    features = plain_tensor(name, features)
    if features.dim() != 2 or features.shape[1] != num_channels or not features.is_floating_point():
        raise ValueError(
            f"{name} must be floating-point numbers of shape [rows, {num_channels}], "
            f"not {features.dtype} of shape {list(features.shape)}."
        )


def _check_num_rows(name: str, features: Tensor, of: Literal["nodes", "edges"], walks: Walks) -> None:
    """Refuses features of another graph; walks that do not know the size of theirs are checked by `Walks.sized`."""
    number: int | None = getattr(walks, f"num_{of}")
    if number is not None and features.shape[0] != number:
        raise ValueError(
            f"{name} has {features.shape[0]} rows, but the walks are on a graph of {number} {of}: "
            "give the features of that graph."
        )
