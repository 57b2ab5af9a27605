"""How far graphs are from the training data of a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crawl.data import GraphStore
from crawl.data.features import Column
from crawl.nn.encoders import UNKNOWN
from crawl.runs.domain import Distances, Domain, has_unknown
from crawl.training.checkpoint import load_checkpoint, save_checkpoint


def rows(seed: int, size: int) -> np.ndarray:
    scale = np.array([1.0, 100.0, 0.0])  # a column a hundred times as wide, and one that says nothing
    return (np.random.default_rng(seed).normal(size=(size, 3)) * scale).astype(np.float32)


@pytest.fixture
def domain() -> Domain:
    return Domain.of(rows(0, 300), rows(1, 100))


def test_rows_like_those_of_validation_are_seldom_far(domain):
    percentile = domain.percentile(rows(2, 1000))
    assert 0 <= percentile.min() < percentile.max() <= 100
    assert 40 < percentile.mean() < 60
    assert domain.is_far(rows(2, 1000)).mean() < 0.03
    assert domain.is_far(np.array([[0, 0, 0], [9, 0, 0], [0, 900, 0], [0, 0, 9]], np.float32)).tolist() == [
        *(False, True, True, True)
    ]


def test_the_distance_is_the_mean_to_the_five_nearest(domain):
    row = rows(3, 1)
    scale = rows(0, 300).std(axis=0)
    scale[2] = 1
    distances = np.linalg.norm((rows(0, 300) - row) / scale, axis=1)
    assert domain.distance(row) == pytest.approx(np.sort(distances)[:5].mean(), rel=1e-4)
    assert len(domain.distance(row[:0])) == 0


def test_a_file_gives_the_same_back(domain, tmp_path):
    domain.save(tmp_path / "domain.safetensors")
    found = Domain.load(tmp_path / "domain.safetensors", 3)
    for name, value in vars(domain).items():
        assert np.array_equal(getattr(found, name), value)


def test_of_many_training_graphs_some_are_kept():
    assert Domain.of(rows(0, 3000), rows(1, 100)).embeddings.shape == (2000, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"scale": torch.zeros(3)},
        {"scale": torch.ones(2)},
        {"distances": torch.tensor([2.0, 1.0])},
        {"distances": torch.empty(0)},
        {"distances": torch.tensor([torch.nan])},
        {"embeddings": torch.ones(3, 3)},
        {"embeddings": torch.ones(300, 3).double()},
        {"other": torch.ones(1)},
    ],
)
def test_a_file_that_holds_something_else_is_refused(domain, tmp_path, change):
    path = tmp_path / "domain.safetensors"
    domain.save(path)
    tensors, description = load_checkpoint(path)
    save_checkpoint(path, tensors | change, description)
    with pytest.raises(ValueError, match=r"domain\.safetensors does not (hold|fit)"):
        Domain.load(path)


def test_files_of_others_are_refused(domain, tmp_path):
    path = tmp_path / "domain.safetensors"
    domain.save(path)
    with pytest.raises(ValueError, match="does not fit the model"):
        Domain.load(path, 5)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="cannot be read"):
        Domain.load(path)
    with pytest.raises(ValueError, match="the validation part has 5 graphs, and at least 20 are needed"):
        Domain.of(rows(0, 30), rows(1, 5))


def test_unknown_categories_count_as_far():
    ptr = torch.tensor([0, 1, 2, 4])
    x = torch.tensor([[0, 1], [UNKNOWN, 0], [0, 0], [0, 0]])
    edge_attr = torch.tensor([[0], [UNKNOWN]])
    edges = GraphStore(ptr, torch.tensor([0, 0, 0, 2]), torch.tensor([[0, 1], [1, 0]]), x, edge_attr)
    assert has_unknown(edges).tolist() == [False, True, True]
    columns = (Column("temperature"), Column("phase", ("gas", "solid")))
    u = torch.tensor([[0.0, 0, 0, 0], [0.0, 0, 1, 0], [3.0, 1, 0, 0]])  # the last number is a descriptor
    words = GraphStore(ptr, torch.zeros(4, dtype=torch.long), torch.empty(2, 0, dtype=torch.long), u=u)
    assert has_unknown(words, columns).tolist() == [True, False, False]
    assert Distances(np.array([10.0, 20.0, 99.5]), np.array([False, True, False])).is_far.tolist() == [
        *(False, True, True)
    ]
