"""The parts of networks: what a block reads, the blocks, encoders and readout."""

from crawl.nn.batch import Batch
from crawl.nn.block import Block, BlockSettings, Parallel, State
from crawl.nn.blocks import BLOCKS
from crawl.nn.conv import CRaWlConv
from crawl.nn.dropout import Dropout
from crawl.nn.edge_update import EdgeUpdate
from crawl.nn.encoders import Dense, Embedding, OneHot
from crawl.nn.gine import GINE
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm
from crawl.nn.readout import Readout
from crawl.nn.virtual_node import VirtualNode, VirtualNodeBlock
from crawl.nn.walk_block import WalkBlock
from crawl.ops.segments import Rows, Segments

__all__ = [
    "BLOCKS",
    "GINE",
    "Batch",
    "BatchNorm",
    "Block",
    "BlockSettings",
    "CRaWlConv",
    "Dense",
    "Dropout",
    "EdgeUpdate",
    "Embedding",
    "Linear",
    "OneHot",
    "Parallel",
    "Readout",
    "Rows",
    "Segments",
    "State",
    "VirtualNode",
    "VirtualNodeBlock",
    "WalkBlock",
]
