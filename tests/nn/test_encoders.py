"""Encoders: what they make of features, missing ones included, and what they refuse."""

import math

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures

from crawl import Dense, Embedding, OneHot
from crawl.nn.encoders import UNKNOWN, WithEncodings

LIKE = torch.zeros(1)
LIKE_DOUBLE = LIKE.double()


@pytest.mark.parametrize(
    "features",
    [
        torch.tensor([[1.0], [0.0], [2.0]]),
        torch.tensor([1.0, 0.0, 2.0]),
        torch.tensor([1, 0, 2]),
        torch.tensor([[1], [0], [2]], dtype=torch.uint8),
        torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64),
    ],
)
@pytest.mark.parametrize("like", [LIKE, LIKE_DOUBLE])
def test_dense_takes_any_numbers(features: Tensor, like: Tensor) -> None:
    out = Dense(1)(features, 3, like)
    assert out.dtype == like.dtype
    assert out.tolist() == [[1.0], [0.0], [2.0]]


def test_dense_keeps_nan_and_bools() -> None:
    assert Dense(2)(torch.tensor([[math.nan, 1.0]]), 1, LIKE).isnan().tolist() == [[True, False]]
    assert Dense(1)(torch.tensor([True, False]), 2, LIKE).tolist() == [[1.0], [0.0]]


def test_rows_that_add_up_to_1_are_those_of_pyg() -> None:
    counts = torch.tensor([[1.0, 0.0, 3.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    expected = NormalizeFeatures()(Data(x=counts.clone())).x
    torch.testing.assert_close(Dense(3, normalised=True)(counts, 3, LIKE), expected)
    assert Dense(2, normalised=True)(torch.tensor([[-1.0, 3.0]]), 1, LIKE).tolist() == [[-0.25, 0.75]]
    with pytest.raises(ValueError, match="normalised"):
        Dense(2, normalised="yes")


def test_dense_lets_gradients_through() -> None:
    features = torch.ones(3, 2, requires_grad=True)
    Dense(2)(features, 3, LIKE_DOUBLE).sum().backward()
    assert features.grad.tolist() == [[1.0, 1.0]] * 3


def test_dense_without_features_is_a_constant() -> None:
    out = Dense(1)(None, 3, LIKE_DOUBLE)
    assert out.dtype == torch.float64
    assert out.tolist() == [[1.0]] * 3


def test_one_hot() -> None:
    encoder = OneHot([3, 2])
    assert encoder.out_channels == 5
    out = encoder(torch.tensor([[0, 1], [2, 0]]), 2, LIKE_DOUBLE)
    assert out.dtype == torch.float64
    assert out.tolist() == [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]]


@pytest.mark.parametrize("features", [torch.tensor([0, 2]), torch.tensor([[0.0], [2.0]]), torch.tensor([0, 2]).byte()])
def test_one_hot_of_one_column(features: Tensor) -> None:
    assert OneHot(3)(features, 2, LIKE).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_one_hot_has_nothing_to_learn() -> None:
    assert not OneHot([3, 2]).state_dict()


def test_embedding_sums_its_columns() -> None:
    encoder = Embedding([3, 2], 4)
    assert encoder.out_channels == 4
    first, second = (table.weight for table in encoder.tables)
    out = encoder(torch.tensor([[0, 1], [2, 0]]), 2, LIKE)
    assert torch.equal(out, torch.stack([first[0] + second[1], first[2] + second[0]]))
    out.sum().backward()
    assert first.grad.tolist() == [[1.0] * 4, [0.0] * 4, [1.0] * 4]


def test_embedding_follows_the_model_to_float64() -> None:
    assert Embedding(3, 4).double()(torch.tensor([1]), 1, LIKE_DOUBLE).dtype == torch.float64


@pytest.mark.parametrize("encoder", [Dense(3), OneHot([2, 1]), Embedding([2, 2], 3)], ids=repr)
@pytest.mark.parametrize("features", [None, torch.empty(0), torch.empty(0, 3), torch.empty(0, 2).long()])
def test_no_rows(encoder: Dense | OneHot | Embedding, features: Tensor | None) -> None:
    """A graph without edges need not have edge features of the right shape."""
    out = encoder(features, 0, LIKE_DOUBLE.new_zeros(1))
    assert (out.shape, out.dtype) == ((0, 3), torch.float64)


@pytest.mark.parametrize("num_categories", [0, [], [3, 0], -1])
def test_bad_categories_are_refused(num_categories: int | list[int]) -> None:
    with pytest.raises(ValueError, match="num_categories must"):
        OneHot(num_categories)
    with pytest.raises(ValueError, match="num_categories must"):
        Embedding(num_categories, 3)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "The data has no features, but 2 channels are expected"),
        (torch.zeros(3), r"Expected features of shape \[3, 2\], not \[3, 1\]"),
        (torch.zeros(2, 2), r"Expected features of shape \[3, 2\], not \[2, 2\]"),
        (torch.zeros(3, 2, 1), r"not \[3, 2, 1\]"),
        (torch.zeros(0, 2), r"not \[0, 2\]"),
        (torch.tensor(1.0), r"not \[\]"),
    ],
)
def test_bad_numbers_are_refused(features: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dense(2)(features, 3, LIKE)


@pytest.mark.parametrize("encoder", [OneHot([3, 2]), Embedding([3, 2], 4)], ids=repr)
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "The data has no features, but categories are expected"),
        (torch.zeros(2), r"Expected features of shape \[2, 2\], not \[2, 1\]"),
        (torch.zeros(3, 2), r"not \[3, 2\]"),
        (torch.tensor([[0, 0.5], [0, 0]]), "whole numbers.*use Dense"),
        (torch.tensor([[0, math.nan], [0, 0]]), "whole numbers"),
        (torch.tensor([[0, math.inf], [0, 0]]), "whole numbers"),
        (torch.tensor([[0, -math.inf], [0, 0]]), "whole numbers"),
        (torch.tensor([[0, 1], [0, 2]]), "Row 1 has category 2 in column 1, but only 0 to 1 are known"),
        (torch.tensor([[-1, 1], [0, 0]]), "Row 0 has category -1 in column 0, but only 0 to 2 are known"),
    ],
)
def test_unknown_categories_are_refused(encoder: OneHot | Embedding, features: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoder(features, 2, LIKE)


def test_the_unknown_category_is_zeros_in_a_one_hot() -> None:
    out = OneHot([3, 2])(torch.tensor([[0, UNKNOWN], [UNKNOWN, 1], [UNKNOWN, UNKNOWN], [2, 0]]), 4, LIKE)
    assert out.tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 0]]


def test_the_unknown_category_adds_nothing_to_an_embedding() -> None:
    encoder = Embedding([3, 2], 4)
    first, second = (table.weight for table in encoder.tables)
    out = encoder(torch.tensor([[2, UNKNOWN], [UNKNOWN, 1], [UNKNOWN, UNKNOWN]]), 3, LIKE)
    assert torch.equal(out, torch.stack([first[2], second[1], torch.zeros(4)]))
    out.sum().backward()
    assert first.grad.tolist() == [[0.0] * 4, [0.0] * 4, [1.0] * 4]
    assert second.grad.tolist() == [[0.0] * 4, [1.0] * 4]


def test_unknown_categories_need_no_weights() -> None:
    """Parameters, and so the sizes of the paper and old checkpoints, are what they were."""
    assert not OneHot([3, 2]).state_dict()
    assert [list(weight.shape) for weight in Embedding([3, 2], 4).state_dict().values()] == [[3, 4], [2, 4]]


def test_encodings_come_after_the_features_of_another_encoder() -> None:
    encoder = WithEncodings(OneHot([3, 2]), 2)
    assert encoder.out_channels == 7
    features = torch.tensor([[0, 1, 0.5, 0.25], [UNKNOWN, 0, 2.0, -1.0]])
    out = encoder(features, 2, LIKE_DOUBLE)
    assert out.dtype == torch.float64
    assert out.tolist() == [[1, 0, 0, 0, 1, 0.5, 0.25], [0, 0, 0, 1, 0, 2, -1]]
    assert WithEncodings(Dense(1), 1)(torch.tensor([[3.0, 0.5]]), 1, LIKE).tolist() == [[3.0, 0.5]]


def test_encodings_alone() -> None:
    features = torch.tensor([[0.5, 0.25]])
    assert WithEncodings(Dense(0), 2)(features, 1, LIKE).tolist() == [[0.5, 0.25]]
    assert WithEncodings(Dense(1), 2)(features, 1, LIKE).tolist() == [[1.0, 0.5, 0.25]]
    assert WithEncodings(Embedding(3, 4), 2)(None, 0, LIKE).shape == (0, 6)
    assert WithEncodings(Dense(3), 2)(None, 0, LIKE).shape == (0, 5)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "no features, but 2 columns of encodings"),
        (torch.rand(3), r"2 columns of encodings.*\[3\].*crawl\.encodings"),
        (torch.rand(3, 1), r"2 columns of encodings.*\[3, 1\]"),
        (torch.rand(3, 2), "no features, but categories"),
        (torch.rand(3, 4), r"shape \[3, 1\], not \[3, 2\]"),
        (torch.tensor([[3, 0.5, 0.5]] * 3), "category 3.*0 to 2"),
        (torch.tensor([[1.5, 0.5, 0.5]] * 3), "Expected categories"),
    ],
)
def test_features_without_encodings_or_of_another_encoder_are_refused(features: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WithEncodings(OneHot(3), 2)(features, 3, LIKE)


def test_encodings_need_an_encoder_and_a_width() -> None:
    with pytest.raises(ValueError, match=r"encoder.*OneHot"):
        WithEncodings(5, 2)
    with pytest.raises(ValueError, match=r"width.*not 0"):
        WithEncodings(Dense(1), 0)
