"""GraphSAGE against PyG."""

from batches import WIDTH, assert_equals_pyg
from torch_geometric.nn import SAGEConv

from crawl.nn import SAGE


def test_equals_pyg() -> None:
    block, layer = SAGE(WIDTH), SAGEConv(WIDTH, WIDTH, bias=False)
    weights = {"neighbours.weight": "lin_l.weight", "own.weight": "lin_r.weight"}
    assert_equals_pyg(block, layer, weights, block.conv)
