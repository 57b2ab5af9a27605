from dataclasses import replace

import pytest
import torch

from crawl.data import Split, Task, csl


def test_widths():
    plain, features = csl(), csl(laplacian=3)
    assert len(plain) == 150
    assert (plain.num_node_features, plain.num_edge_features) == (0, 0)
    assert features.num_node_features == 3
    assert replace(features, node_categories=(4, 4, 4)).num_node_features == 0


def test_refuses_what_does_not_fit():
    dataset, nothing = csl(), torch.tensor([])
    with pytest.raises(ValueError, match="names graph 150, but csl has 150 graphs"):
        replace(dataset, split=Split(torch.tensor([150]), nothing, nothing))
    with pytest.raises(ValueError, match="150 graphs but 1 names"):
        replace(dataset, graph_names=("a",))
    with pytest.raises(ValueError, match="about nodes"):
        replace(dataset, task=Task(kind="multiclass", num_outputs=10, level="node"))
