"""What kernels are compiled with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("triton")

import torch
import triton.language as tl

import crawl
from crawl.ops.triton.kernel import kernel


@kernel("number")
def _add(values: tl.tensor, number: tl.int32, BLOCK: tl.constexpr) -> None:
    place = tl.arange(0, BLOCK)
    tl.store(values + place, tl.load(values + place) + number)


def test_every_launch_says_whether_products_and_sums_are_fused(monkeypatch, kernels) -> None:
    said = []
    run = type(_add).run
    monkeypatch.setattr(type(_add), "run", lambda *args, **how: (said.append(how), run(*args, **how)))
    values = torch.arange(4.0)
    _add[(1,)](values, 3, BLOCK=4, num_warps=1)
    assert values.tolist() == [3, 4, 5, 6]
    assert [how["enable_fp_fusion"] for how in said] == [True]


def test_all_that_is_launched_is_a_kernel() -> None:
    """`triton.jit` is for functions that kernels call."""
    found = []
    for path in Path(crawl.__file__).parent.rglob("*.py"):
        text = path.read_text()
        found += [f"{path.name}: {name}" for name in re.findall(r"@triton\.jit\ndef (\w+)", text) if f"{name}[" in text]
        assert "triton.jit(" not in text or path.name == "kernel.py"
    assert found == []
