"""The blocks that a network can name, and how it builds them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

from crawl.checks import MAX_LAYERS, as_list, check_choice, shown, whole_number
from crawl.choices import OF_BLOCKS, WITH_WALKS, Implementation
from crawl.nn.appnp import APPNP
from crawl.nn.attention import Attention
from crawl.nn.block import Block
from crawl.nn.edge_update import EdgeUpdate
from crawl.nn.feed_forward import FeedForward
from crawl.nn.from_pyg import PyGBlock
from crawl.nn.gat import GAT
from crawl.nn.gated_gcn import GatedGCN
from crawl.nn.gcn import GCN
from crawl.nn.gcn2 import GCN2
from crawl.nn.gine import GIN, GINE
from crawl.nn.parallel import Parallel
from crawl.nn.pna import PNA
from crawl.nn.sage import SAGE
from crawl.nn.settings import BlockSettings
from crawl.nn.virtual_node import VirtualNodeBlock
from crawl.nn.walk_block import WalkBlock, WalkEdgeBlock
from crawl.nn.walk_gru import WalkGRU
from crawl.walks.plan import WalkPlan, parameters_of_others

LayerPart = str | Block | tuple["LayerPart", ...]

BLOCKS: dict[str, type[Block]] = {
    "walk": WalkBlock,
    "walk_edges": WalkEdgeBlock,
    "gru": WalkGRU,
    "virtual_node": VirtualNodeBlock,
    "attention": Attention,
    "feed_forward": FeedForward,
    "edge_update": EdgeUpdate,
    "appnp": APPNP,
    "gcn": GCN,
    "gcn2": GCN2,
    "gin": GIN,
    "gine": GINE,
    "gat": GAT,
    "sage": SAGE,
    "gated_gcn": GatedGCN,
    "pna": PNA,
}


def parts_of_layers(
    layer: Sequence[LayerPart] | None, num_layers: int | None, layers: Sequence[LayerPart] | None
) -> list[LayerPart]:
    """The parts of this many layers, each a copy, the last as `last_layer` says; or those that `layers` lists.

    Without any of these, they are three layers of the paper. Refuses a network without blocks.
    """
    if layers is not None:
        if layer is not None or num_layers is not None:
            raise ValueError("layers lists all blocks: leave out layer and num_layers, or give these instead.")
        parts = as_list("layers", layers, "blocks")
    else:
        num_layers = whole_number("num_layers", 3 if num_layers is None else num_layers, 1, MAX_LAYERS)
        layer = as_list("layer", ("walk", "virtual_node") if layer is None else layer, "blocks")
        parts = [copy.deepcopy(part) for part in layer * (num_layers - 1) + last_layer(layer)]
    if not parts:
        raise ValueError(
            "A network needs a block, such as layer=('walk',); a virtual node at the end of the last layer is left out."
        )
    return parts


def last_layer(layer: Sequence[LayerPart]) -> list[LayerPart]:
    """The parts of a layer if it is the last: no virtual node at its end, and no edge update that no later block sees.

    If no block of the layer reads edges, the edge update stays, to be refused.
    """
    is_read = any(not _only_edges(each) and has(each, "sees_edges") for part in layer for each in _flat(part))
    kept: list[LayerPart] = []
    for part in reversed(layer):
        sees_edges = not is_read or any(has(later, "sees_edges") for later in kept)
        kept = [*_heard(part, is_last=not kept, sees_edges=sees_edges), *kept]
    return kept


def _heard(part: LayerPart, is_last: bool, sees_edges: bool) -> list[LayerPart]:
    """A part of the last layer, if something after it hears it; of parts side by side those that are heard."""
    if isinstance(part, tuple | list) and part:
        kept = [heard for each in part for heard in _heard(each, is_last, sees_edges)]
        return kept if len(kept) <= 1 < len(part) else [tuple(kept)] if kept else []
    is_virtual_node = isinstance(part, VirtualNodeBlock) or (isinstance(part, str) and part == "virtual_node")
    return [] if (is_last and is_virtual_node) or (_only_edges(part) and not sees_edges) else [part]


def built_blocks(parts: Sequence[LayerPart], settings: BlockSettings, plan: WalkPlan) -> list[Block]:
    """The blocks of a network. All except the first take nodes of the width of the network.

    Refuses edge features, and changes of edges, that no block sees; and settings that no block uses.
    """
    check_choice("implementation", settings.implementation, get_args(Implementation))
    later = replace(settings, in_channels=settings.channels)
    blocks = [_built(part, later if i else settings) for i, part in enumerate(parts)]
    if settings.edge_channels and not any(block.sees_edges for block in blocks):
        raise ValueError("No block of this network sees edge features: give it edge_dim=None, which ignores them.")
    for i, block in enumerate(blocks):
        unheard = [each for each in _flat(block) if _only_edges(each)]
        if unheard and not any(after.sees_edges for after in blocks[i + 1 :]):
            raise ValueError(
                f"No block after {type(unheard[0]).__name__} sees the edges that it changes: leave it out, or put one "
                "after it that does, such as gine."
            )
    _refuse_unused(parts, settings, plan, is_walking=any(block.uses_walks for block in blocks))
    return blocks


def _refuse_unused(parts: Sequence[LayerPart], settings: BlockSettings, plan: WalkPlan, is_walking: bool) -> None:
    """Refuse settings other than the default that no block of a network uses, or that its walks do not depend on."""
    names = {each for part in parts for each in _flat(part) if isinstance(each, str)}
    unused: list[tuple[Any, str, tuple[str, ...]]]
    unused = [(settings, name, users) for name, users in OF_BLOCKS.items() if not names & set(users)]
    unused += [(plan, field.name, WITH_WALKS) for field in fields(WalkPlan) if not is_walking]
    others = (f"other strategies than {plan.strategy}",)
    unused += [(plan, name, others) for name in parameters_of_others(plan.strategy)]
    for given, name, users in unused:
        value, usual = getattr(given, name), getattr(type(given), name)
        if value is not usual and not (isinstance(value, int | float | str) and value == usual):
            raise ValueError(
                f"No block that this network builds uses {name} ({shown(value)}), which is for {', '.join(users)}: "
                "leave it out."
            )


def has(part: LayerPart, attribute: str) -> bool:
    """Whether a block has an attribute that is true, or one of the blocks in parallel."""
    if isinstance(part, tuple | list):
        return any(has(inner, attribute) for inner in part)
    return bool(getattr(BLOCKS.get(part) if isinstance(part, str) else part, attribute, False))


def takes(first: Sequence[LayerPart], width: int) -> bool:
    """Whether the first block, if there is one, can take features of this width as they are."""
    return any(part == "walk" or (isinstance(part, Block) and part.in_channels == width) for part in first)


def width_taken(block: Block | None, channels: int) -> int | None:
    """The width of nodes that a block, or the readout, takes in a network of this width; None for any."""
    if isinstance(block, Parallel):
        return next((width for inner in block.members if (width := width_taken(inner, channels))), None)
    if block is None or block.in_channels is None:
        return None if isinstance(block, PyGBlock) else channels
    return block.in_channels


def _only_edges(part: LayerPart) -> bool:
    return has(part, "changes_edges") and not has(part, "changes_nodes")


def _flat(part: LayerPart) -> Iterator[LayerPart]:
    """The names and blocks of a part; those side by side one by one."""
    parts: Iterable[LayerPart] | None = part.members if isinstance(part, Parallel) else None
    parts = part if isinstance(part, tuple | list) else parts
    if parts is None:
        yield part
    else:
        yield from (each for inner in parts for each in _flat(inner))


def _built(part: LayerPart, settings: BlockSettings) -> Block:
    if isinstance(part, Block):
        return part
    if isinstance(part, tuple | list):
        return Parallel(*(_built(inner, settings) for inner in part))
    check_choice("A block of layer", part, BLOCKS)
    return BLOCKS[part].build(settings)
