"""Matrix products in Triton: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")
from crawl.ops.triton import products

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
TOLERANCE = {"float32": 2e-5, "tf32": 3e-3}  # |found - expected| / |expected|


@pytest.mark.parametrize("precision", ["float32", "tf32"] if ON_GPU else ["float32"])
@pytest.mark.parametrize(("height", "depth", "width"), [(1, 1, 1), (33, 40, 35), (5, 300, 31), (70, 0, 3), (0, 4, 4)])
@pytest.mark.parametrize("form", ["plain", "transposed", "added", "wider"])
def test_products(height: int, depth: int, width: int, form: str, precision: str) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(depth, height).t(), torch.randn(depth, width), torch.randn(height, width)
    if form == "transposed":
        a, b = a.contiguous(), b.t().contiguous().t()
    add = c.to(DEVICE) if form == "added" else None
    wider = width + 5 if form == "wider" else 0
    found = products.product(a.to(DEVICE), b.to(DEVICE), precision, add=add, width=wider).cpu()
    expected = a.double() @ b.double() + (c.double() if form == "added" else 0)
    error = (found[:, :width].double() - expected).norm() / expected.norm().clamp_min(1e-6)
    assert float(error) <= TOLERANCE[precision]
    assert not found[:, width:].any()
