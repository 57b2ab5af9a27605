"""Losses over known targets: the kernel against plain torch, on a GPU where there is one, else in the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from crawl.ops import losses

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def example(kind: str, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    output = 3 * torch.randn(*shape, generator=generator)
    targets = torch.randn(*shape, generator=generator)
    targets = (targets > 0).float() if kind == "bce" else targets
    targets[torch.rand(*shape, generator=generator) < 0.3] = torch.nan
    if kind == "l1":
        targets[0, 0] = output[0, 0]  # where the slope is 0
    return output, targets


def found(
    kind: str, output: torch.Tensor, targets: torch.Tensor, is_mean: bool
) -> tuple[torch.Tensor, int, torch.Tensor]:
    output = output.clone().requires_grad_()
    loss, count = losses.known_loss(kind, output, targets, is_mean=is_mean)
    (2 * loss).backward()
    return loss.detach(), int(count), output.grad


@pytest.mark.parametrize("is_mean", [True, False])
@pytest.mark.parametrize("kind", losses.LOSSES)
@pytest.mark.parametrize("shape", [(51, 1), (700, 3)])
def test_kernel_equals_torch(monkeypatch, kind, shape, is_mean):
    pytest.importorskip("triton")
    output, targets = (tensor.to(DEVICE) for tensor in example(kind, *shape))
    expected = found(kind, output.double(), targets.double(), is_mean)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})
    loss, count, grad = found(kind, output, targets, is_mean)
    assert count == expected[1] == int((~targets.isnan()).sum())
    assert torch.allclose(loss.double(), expected[0], rtol=1e-5)
    assert torch.allclose(grad.double(), expected[2], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", losses.LOSSES)
def test_is_that_of_the_known_targets(kind):
    output, targets = example(kind, 20, 2)
    known = ~targets.isnan()
    of_torch = {"l1": F.l1_loss, "mse": F.mse_loss, "bce": F.binary_cross_entropy_with_logits}[kind]
    assert torch.allclose(found(kind, output, targets, True)[0], of_torch(output[known], targets[known]))
    assert torch.allclose(
        found(kind, output, targets, False)[0], of_torch(output[known], targets[known], reduction="sum")
    )


@pytest.mark.parametrize("kind", losses.LOSSES)
def test_without_targets_is_0_also_in_its_gradient(monkeypatch, kind):
    pytest.importorskip("triton")
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})
    loss, count, grad = found(kind, torch.ones(4, 2, device=DEVICE), torch.full((4, 2), torch.nan, device=DEVICE), True)
    assert (float(loss), count) == (0, 0)
    assert torch.equal(grad, torch.zeros_like(grad))


@pytest.mark.parametrize("is_mean", [True, False])
def test_beta_nll_and_its_gradient_are_those_of_torch(is_mean):
    output, targets = example("mse", 40, 3)
    raw = torch.randn(40, 3, generator=torch.Generator().manual_seed(2))
    weights = torch.rand(40, generator=torch.Generator().manual_seed(3))
    given, expected = (torch.cat([output, raw], dim=1).double().requires_grad_() for _ in range(2))
    loss, count = losses.beta_nll(given, targets.double(), is_mean=is_mean, weights=weights)
    loss.backward()
    mean, variance, known = expected[:, :3], losses.variance_of(expected[:, 3:]), ~targets.isnan()
    nll = F.gaussian_nll_loss(mean, targets.nan_to_num().double(), variance, reduction="none")
    total = (nll * variance.detach().sqrt() * weights.unsqueeze(1))[known].sum()
    total = total / known.sum() if is_mean else total
    total.backward()
    assert int(count) == int(known.sum())
    torch.testing.assert_close(loss, total)
    torch.testing.assert_close(given.grad, expected.grad)


def test_variances_are_like_exponentials_near_0_and_grow_slowly():
    raw = torch.tensor([-100.0, -0.02, 0.0, 0.02, 100.0], dtype=torch.float64, requires_grad=True)
    variance = losses.variance_of(raw) - losses.LEAST_VARIANCE
    torch.testing.assert_close(variance[1:4], raw[1:4].exp(), atol=2e-6, rtol=0)
    assert float(variance[4].detach()) == pytest.approx(5101)
    assert float(variance[0].detach()) == pytest.approx(1 / 5101)
    (slope,) = torch.autograd.grad(variance.sum(), raw)
    torch.testing.assert_close(slope[1:4], raw[1:4].exp(), atol=1e-3, rtol=0)
    assert bool((slope > 0).all())


def test_beta_nll_stays_finite_for_any_answer():
    output = torch.tensor([[0.0, -1e4], [1e4, 1e4], [0.0, torch.finfo(torch.float32).max]], requires_grad=True)
    loss, _ = losses.beta_nll(output, torch.tensor([[0.0], [-1e4], [torch.nan]]), is_mean=True)
    loss.backward()
    assert bool(loss.isfinite())
    assert bool(output.grad.isfinite().all())


@pytest.mark.parametrize("kind", losses.LOSSES)
def test_weights_multiply_losses(kind):
    output, targets = example(kind, 20, 2)
    weights = torch.rand(20, generator=torch.Generator().manual_seed(1))
    known = ~targets.isnan()
    of_torch = {"l1": F.l1_loss, "mse": F.mse_loss, "bce": F.binary_cross_entropy_with_logits}[kind]
    expected = (of_torch(output, targets.nan_to_num(), reduction="none") * weights.unsqueeze(1))[known].mean()
    for form in (weights, weights.unsqueeze(1).expand(20, 2)):
        torch.testing.assert_close(losses.known_loss(kind, output, targets, is_mean=True, weights=form)[0], expected)
