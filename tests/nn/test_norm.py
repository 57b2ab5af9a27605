"""Batch normalisation: torch's own, save for batches that have no variance. Norms of rows, and none."""

import copy

import pytest
import torch
from torch import nn

from crawl.nn.norm import Affine, BatchNorm, LayerNorm, make_norm
from crawl.ops.norm import batch_norm
from crawl.ops.segments import Rows


def make_norms() -> tuple[BatchNorm, nn.BatchNorm1d]:
    norm, twin = BatchNorm(3), nn.BatchNorm1d(3)
    torch.manual_seed(0)
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(tensor)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    twin.load_state_dict(norm.state_dict())
    return norm, twin


def assert_same_state(one: nn.Module, other: nn.Module) -> None:
    assert list(one.state_dict()) == list(other.state_dict())
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(2, 3), (7, 3), (1, 3, 2), (4, 3, 5)], ids=str)
def test_is_torchs_own(shape: tuple[int, ...], training: bool) -> None:
    norm, twin = make_norms()
    x = torch.randn(shape)
    assert torch.equal(norm.train(training)(x), twin.train(training)(x))
    assert_same_state(norm, twin)


@pytest.mark.parametrize("shape", [(1, 3), (0, 3), (1, 3, 1), (0, 3, 4), (4, 3, 0)], ids=str)
def test_batches_without_a_variance_use_the_running_statistics(shape: tuple[int, ...]) -> None:
    norm, twin = make_norms()
    before = copy.deepcopy(norm)
    x = torch.randn(shape, requires_grad=True)
    out = norm(x)
    assert torch.equal(out, twin.eval()(x))
    assert_same_state(norm, before)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(norm.bias.grad, torch.full((3,), float(x.numel() // 3)))


@pytest.mark.parametrize(("training", "num_values", "expected"), [(True, 2, True), (True, 1, False), (False, 9, False)])
def test_which_batches_have_statistics(training: bool, num_values: int, expected: bool) -> None:
    assert BatchNorm(3).train(training).tensors().uses_batch_statistics(num_values) is expected


def test_tracks_statistics_like_torch() -> None:
    norm, twin = make_norms()
    x = torch.randn(7, 3)
    twin(x)
    norm.tensors().track(x.mean(0), x.var(0, correction=0), 7)
    assert norm.num_batches_tracked == twin.num_batches_tracked == 1
    torch.testing.assert_close(norm.running_mean, twin.running_mean)
    torch.testing.assert_close(norm.running_var, twin.running_var)


@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_norm_is_torchs_own_and_does_not_look_at_other_rows(relu: bool) -> None:
    x, norm, twin = torch.randn(5, 3), LayerNorm(3), nn.LayerNorm(3)
    with torch.no_grad():
        for ours, theirs in zip(norm.parameters(), twin.parameters(), strict=True):
            nn.init.normal_(ours)
            theirs.copy_(ours)
    expected = twin(x).relu() if relu else twin(x)
    assert torch.equal(norm(x, Rows(5, torch.tensor([2], dtype=torch.int32)), relu=relu), expected)


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_no_norm_scales_and_shifts(shape: tuple[int, ...], relu: bool) -> None:
    """Also where the operations take it for a batch norm; and training changes no statistics."""
    torch.manual_seed(0)
    x, none = torch.randn(shape), Affine(3)
    assert torch.equal(none(x), x)
    with torch.no_grad():
        none.weight.copy_(torch.tensor([1.0, -2.0, 0.5]))
        none.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
    expected = x * none.weight.view(3, *[1] * (len(shape) - 2)) + none.bias.view(3, *[1] * (len(shape) - 2))
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(none(x, relu=relu), expected)
    torch.testing.assert_close(batch_norm(x, none.train().tensors(), relu=relu), expected)
    assert list(none.state_dict()) == ["weight", "bias"]
    assert none.mean.tolist() == [0.0, 0.0, 0.0]
    assert none.var.tolist() == [1.0, 1.0, 1.0]


def test_norms_by_name() -> None:
    assert [type(make_norm(name, 3)) for name in ("batch", "layer", "none")] == [BatchNorm, LayerNorm, Affine]
    with pytest.raises(ValueError, match=r"batch, layer.*not 'lyer'"):
        make_norm("lyer", 3)
