"""The blocks that a network can name, and how it builds them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from crawl.checks import MAX_LAYERS, as_list, check_choice, whole_number
from crawl.nn.attention import Attention
from crawl.nn.block import Block
from crawl.nn.edge_update import EdgeUpdate
from crawl.nn.feed_forward import FeedForward
from crawl.nn.gat import GAT
from crawl.nn.gated_gcn import GatedGCN
from crawl.nn.gcn import GCN
from crawl.nn.gine import GIN, GINE
from crawl.nn.parallel import Parallel
from crawl.nn.pna import PNA
from crawl.nn.sage import SAGE
from crawl.nn.settings import BlockSettings
from crawl.nn.virtual_node import VirtualNodeBlock
from crawl.nn.walk_block import WalkBlock, WalkEdgeBlock
from crawl.nn.walk_gru import WalkGRU

LayerPart = str | Block | tuple["LayerPart", ...]

BLOCKS: dict[str, type[Block]] = {
    "walk": WalkBlock,
    "walk_edges": WalkEdgeBlock,
    "gru": WalkGRU,
    "virtual_node": VirtualNodeBlock,
    "attention": Attention,
    "feed_forward": FeedForward,
    "edge_update": EdgeUpdate,
    "gcn": GCN,
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
    """The parts of this many layers, each a copy, without the virtual node in the last; or those that `layers` lists.

    Without any of these, they are three layers of the paper.
    """
    if layers is not None:
        if layer is not None or num_layers is not None:
            raise ValueError("layers lists all blocks: leave out layer and num_layers, or give these instead.")
        return as_list("layers", layers, "blocks")
    num_layers = whole_number("num_layers", 3 if num_layers is None else num_layers, 1, MAX_LAYERS)
    layer = as_list("layer", ("walk", "virtual_node") if layer is None else layer, "blocks")
    parts = [copy.deepcopy(part) for _ in range(num_layers) for part in layer]
    last = len(parts) - len(layer)
    return [part for i, part in enumerate(parts) if i < last or part != "virtual_node"]


def built_blocks(parts: Sequence[LayerPart], settings: BlockSettings) -> list[Block]:
    """The blocks of a network. All except the first take nodes of the width of the network."""
    later = replace(settings, in_channels=settings.channels)
    blocks = [_built(part, later if i else settings) for i, part in enumerate(parts)]
    if settings.edge_channels and not any(block.sees_edges for block in blocks):
        raise ValueError("No block of this network sees edge features: give it edge_dim=None, which ignores them.")
    return blocks


def has(part: LayerPart, attribute: str) -> bool:
    """Whether a block has an attribute that is true, or one of the blocks in parallel."""
    if isinstance(part, tuple | list):
        return any(has(inner, attribute) for inner in part)
    return bool(getattr(BLOCKS.get(part) if isinstance(part, str) else part, attribute, False))


def takes(first: Sequence[LayerPart], width: int) -> bool:
    """Whether the first block, if there is one, can take features of this width as they are."""
    return any(part == "walk" or (isinstance(part, Block) and part.in_channels == width) for part in first)


def _built(part: LayerPart, settings: BlockSettings) -> Block:
    if isinstance(part, Block):
        return part
    if isinstance(part, tuple | list):
        return Parallel(*(_built(inner, settings) for inner in part))
    check_choice("A block of layer", part, BLOCKS)
    return BLOCKS[part].build(settings)
