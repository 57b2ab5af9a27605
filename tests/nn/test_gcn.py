"""GCN against PyG."""

from batches import WIDTH, assert_equals_pyg
from torch_geometric.nn import GCNConv

from crawl.nn import GCN


def test_equals_pyg() -> None:
    """Also where the graph has self-loops, several of them, parallel edges or nodes without edges."""
    block = GCN(WIDTH)
    assert_equals_pyg(block, GCNConv(WIDTH, WIDTH, bias=False), {"linear.weight": "lin.weight"}, block.conv)
