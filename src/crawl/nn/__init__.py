"""The parts of networks: what a block reads, the blocks, encoders and readout."""

from crawl.nn.appnp import APPNP
from crawl.nn.attention import Attention
from crawl.nn.batch import Batch
from crawl.nn.block import Block, State
from crawl.nn.blocks import BLOCKS
from crawl.nn.conv import CRaWlConv
from crawl.nn.dropout import Dropout
from crawl.nn.edge_update import EdgeUpdate
from crawl.nn.encoders import Dense, Embedding, OneHot, WithEncodings
from crawl.nn.feed_forward import FeedForward
from crawl.nn.from_pyg import from_pyg
from crawl.nn.gat import GAT
from crawl.nn.gated_gcn import GatedGCN
from crawl.nn.gcn import GCN
from crawl.nn.gcn2 import GCN2
from crawl.nn.gine import GIN, GINE
from crawl.nn.graph_features import GraphFeatures
from crawl.nn.linear import Linear
from crawl.nn.message_passing import MessagePassing
from crawl.nn.norm import Affine, BatchNorm, LayerNorm
from crawl.nn.pair_readout import PairReadout
from crawl.nn.parallel import Parallel
from crawl.nn.pna import PNA
from crawl.nn.readout import Readout
from crawl.nn.sage import SAGE
from crawl.nn.settings import BlockSettings
from crawl.nn.virtual_node import VirtualNode, VirtualNodeBlock
from crawl.nn.walk_block import WalkBlock, WalkEdgeBlock
from crawl.nn.walk_gru import WalkGRU
from crawl.ops.segments import Rows, Segments

__all__ = [
    "APPNP",
    "BLOCKS",
    "GAT",
    "GCN",
    "GCN2",
    "GIN",
    "GINE",
    "PNA",
    "SAGE",
    "Affine",
    "Attention",
    "Batch",
    "BatchNorm",
    "Block",
    "BlockSettings",
    "CRaWlConv",
    "Dense",
    "Dropout",
    "EdgeUpdate",
    "Embedding",
    "FeedForward",
    "GatedGCN",
    "GraphFeatures",
    "LayerNorm",
    "Linear",
    "MessagePassing",
    "OneHot",
    "PairReadout",
    "Parallel",
    "Readout",
    "Rows",
    "Segments",
    "State",
    "VirtualNode",
    "VirtualNodeBlock",
    "WalkBlock",
    "WalkEdgeBlock",
    "WalkGRU",
    "WithEncodings",
    "from_pyg",
]
