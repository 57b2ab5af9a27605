"""The blocks that a network can name."""

from __future__ import annotations

from crawl.nn.block import Block
from crawl.nn.edge_update import EdgeUpdate
from crawl.nn.gine import GINE
from crawl.nn.virtual_node import VirtualNodeBlock
from crawl.nn.walk_block import WalkBlock

BLOCKS: dict[str, type[Block]] = {
    "walk": WalkBlock,
    "virtual_node": VirtualNodeBlock,
    "edge_update": EdgeUpdate,
    "gine": GINE,
}
