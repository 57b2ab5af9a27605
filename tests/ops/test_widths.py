"""Widths that do not fit are refused before a kernel, which goes by addresses, reads or writes beside a tensor."""

from __future__ import annotations

import pytest
import torch

from crawl.nn import BatchNorm, Linear, Segments
from crawl.ops.messages import add_messages

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(params=["plain_torch", "triton_everywhere"], autouse=True)
def _backend(request: pytest.FixtureRequest) -> None:
    if request.param == "triton_everywhere":
        pytest.importorskip("triton")
    request.getfixturevalue(request.param)


@pytest.mark.parametrize("width", [1, 4, 9])
def test_rows_of_another_width(width: int) -> None:
    rows = torch.ones(3, width, device=DEVICE)
    with pytest.raises(ValueError, match=f"{width}.* 8.*make it for {width}"):
        Linear(8, 5).to(DEVICE)(rows)
    with pytest.raises(ValueError, match=rf"8 channels.*\[3, {width}\]"):
        BatchNorm(8).to(DEVICE)(rows)


@pytest.mark.parametrize("shape", [(3, 1), (5,), (2, 5), (3, 6)])
def test_what_is_added_to_a_product_has_its_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"\[3, 5\].*\[{', '.join(map(str, shape))}\]"):
        Linear(8, 5).to(DEVICE)(torch.ones(3, 8, device=DEVICE), add=torch.ones(shape, device=DEVICE))


@pytest.mark.parametrize("shape", [(4, 1), (4, 9), (3, 8)])
def test_edges_of_another_shape_than_messages(shape: tuple[int, ...]) -> None:
    ends = Segments.of(torch.tensor([0, 1, 1, 2], device=DEVICE), 3)
    with pytest.raises(ValueError, match=r"\[4, 8\].*edge_channels"):
        add_messages(torch.ones(3, 8, device=DEVICE), torch.ones(shape, device=DEVICE), ends, ends)
