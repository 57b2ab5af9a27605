"""The batch norm in Triton against torch's: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import copy

import pytest
import torch

from crawl.nn.norm import BatchNorm

pytest.importorskip("triton")
from crawl.ops.triton.norm import batch_norm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("num_rows", "num_real"), [(1, 1), (3, 3), (70, 65), (130, 1), (65, 0), (9000, 8190)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(num_rows: int, num_real: int, relu: bool, training: bool) -> None:
    torch.manual_seed(0)
    plain = BatchNorm(37 if num_rows < 1000 else 3).train(training)
    with torch.no_grad():
        plain.weight.uniform_(0.5, 1.5)
        plain.bias.uniform_(-0.5, 0.5)
        plain.running_mean.uniform_(-1, 1)
    fast = copy.deepcopy(plain).to(DEVICE)
    plain.double()
    x, grad = (torch.randn(num_rows, plain.num_features) for _ in range(2))
    x += 3
    a = x.double().requires_grad_()
    b = x.to(DEVICE).requires_grad_()
    expected = plain(a[:num_real], relu=relu)
    expected.backward(grad[:num_real].double())
    found = batch_norm(b, fast.tensors(), torch.tensor([num_real], dtype=torch.int32, device=DEVICE), relu)
    found.backward(grad.to(DEVICE))
    assert torch.equal(found[num_real:], torch.zeros_like(found[num_real:]))
    expected_grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in (a, plain.weight, plain.bias)]
    values = [*expected_grads, plain.running_mean, plain.running_var]
    found_values = [b.grad, fast.weight.grad, fast.bias.grad, fast.running_mean, fast.running_var]
    for v, w in zip([expected, *values], [found[:num_real], *found_values], strict=True):
        assert torch.allclose(v, w.double().cpu(), atol=2e-5, rtol=2e-5)
    assert plain.num_batches_tracked == fast.num_batches_tracked.cpu()
