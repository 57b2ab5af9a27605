"""An example of graphs for all tests of encodings."""

from __future__ import annotations

import networkx as nx
import pytest
from small_graphs import batch_of
from torch import Tensor

from crawl import Graph


@pytest.fixture(scope="module")
def example() -> tuple[Graph, Tensor]:
    lonely = nx.path_graph(4)
    lonely.add_node("alone")
    return batch_of(nx.petersen_graph(), lonely, nx.gnp_random_graph(12, 0.3, seed=1), nx.barbell_graph(4, 2))
