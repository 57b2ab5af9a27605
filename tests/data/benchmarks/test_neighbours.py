import numpy as np
import torch

from crawl.data.benchmarks.neighbours import nearest_neighbours


def by_hand(x, pos):
    """The weights and edges of one graph, by the formula."""

    def scaled(values):
        distance = np.linalg.norm(values[:, None] - values[None], axis=2)
        scale = np.sort(distance, axis=1)[:, :9].sum(axis=1, keepdims=True) / 8
        return (distance / (scale + 1e-8)) ** 2

    weight = np.exp(-scaled(pos) - scaled(x))
    weight = (weight + weight.T) / 2
    np.fill_diagonal(weight, -1)
    nearest = np.argsort(-weight, axis=1)[:, :8]
    edges = {(i, int(j)) for i, row in enumerate(nearest) for j in row if i != j}
    return weight, edges | {(j, i) for i, j in edges}


def test_nearest_neighbours():
    generator = torch.Generator().manual_seed(1)
    sizes = [12, 3, 12, 20, 1]
    x, pos = torch.rand(48, 1, generator=generator), torch.rand(48, 2, generator=generator)
    node_ptr = torch.tensor([0, *np.cumsum(sizes)])
    num_edges, edge_index, weights = nearest_neighbours(node_ptr, x, pos)
    start = 0
    for graph, number in enumerate(num_edges.tolist()):
        nodes = slice(int(node_ptr[graph]), int(node_ptr[graph + 1]))
        weight, expected = by_hand(x[nodes].double().numpy(), pos[nodes].double().numpy())
        edges = edge_index[:, start : start + number]
        assert set(map(tuple, edges.t().tolist())) == expected
        found = weights[start : start + number, 0].double().numpy()
        assert np.allclose(found, weight[edges[0], edges[1]], atol=1e-6)
        start += number
    assert num_edges.tolist()[1] == 6
    assert num_edges.tolist()[4] == 0
