"""How far graphs are from the training data of a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from crawl.data import GraphStore, Task
from crawl.data.features import Column, Columns
from crawl.nn.encoders import UNKNOWN
from crawl.runs.domain import Distances, Domain, has_unknown, outside
from crawl.runs.features import Features
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


def _with_u(u: torch.Tensor) -> GraphStore:
    number = len(u)
    ptr, nothing = torch.arange(number + 1), torch.empty(2, 0, dtype=torch.long)
    return GraphStore(ptr, torch.zeros(number + 1, dtype=torch.long), nothing, u=u)


def test_numbers_outside_the_range_of_training_count_as_far():
    columns = Columns(graphs=(Column("T"), Column("phase", ("gas", "solid"))), descriptors=("MolWt", "rare"))
    scaling = ((300.0, 0.0, 0.0, 200.0, 0.01), (10.0, 1.0, 1.0, 50.0, 0.1))
    ends = ((280.0, 0.0, 0.0, 100.0, 0.0), (320.0, 1.0, 1.0, 400.0, 1.0))
    features = Features(Task(kind="regression", num_outputs=1), columns=columns, graph_scaling=scaling)
    known = replace(features, graph_range=ends)
    usual = [300.0, 1.0, 0.0, 210.0, 0.0]
    changed = {0: 351.0, 3: float("nan"), 4: 1.0}  # a missing number is not far, nor a rare one that training had
    store = _with_u(torch.tensor([usual, *([*usual[:k], value, *usual[k + 1 :]] for k, value in changed.items())]))
    for each in (features, known):
        assert {name: rows.tolist() for name, rows in outside(store, each).items()} == {
            "T": [False, True, False, False]
        }
    above, cold = [*usual[:3], 451.0, 2.0], [249.0, *usual[1:]]
    store = _with_u(torch.tensor([above, cold, [321.0, *usual[1:]]]))  # the last is not clipped
    found = outside(store, known)
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "T": [False, True, False],
        "MolWt": [True, False, False],
        "rare": [True, False, False],
    }
    assert list(outside(store, features)) == ["T"]
    unknown = np.array([False, False, False])
    assert Distances(None, unknown, found).is_far.tolist() == [True, True, False]
    assert Distances(None, unknown).is_far.tolist() == [False, False, False]
    unnamed = replace(known, columns=None)
    assert list(outside(store, unnamed)) == ["u[:, 0]", "u[:, 3]", "u[:, 4]"]


@pytest.mark.parametrize("ends", [((1.0,), ()), ((1.0, 2.0), (1.0, 2.0))])
def test_a_range_of_other_features_is_refused(ends):
    with pytest.raises(ValueError, match="graph_range must have a least and a largest value for each feature"):
        Features(Task(kind="regression", num_outputs=1), graph_scaling=((0.0,), (1.0,)), graph_range=ends)
