"""The blocks that a network can name."""

from __future__ import annotations

from crawl.nn.attention import Attention
from crawl.nn.block import Block
from crawl.nn.edge_update import EdgeUpdate
from crawl.nn.feed_forward import FeedForward
from crawl.nn.gat import GAT
from crawl.nn.gated_gcn import GatedGCN
from crawl.nn.gcn import GCN
from crawl.nn.gine import GIN, GINE
from crawl.nn.pna import PNA
from crawl.nn.sage import SAGE
from crawl.nn.virtual_node import VirtualNodeBlock
from crawl.nn.walk_block import WalkBlock
from crawl.nn.walk_gru import WalkGRU

BLOCKS: dict[str, type[Block]] = {
    "walk": WalkBlock,
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
