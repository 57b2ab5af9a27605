"""How float32 matrices are multiplied on a GPU, set in one place: `with precision("tf32"):`.

TF32 rounds inputs to ten mantissa bits and adds in float32; float32 is IEEE single. bf16 is TF32, except along the
walks: there it rounds inputs to seven mantissa bits, adds in float32 and stores bfloat16. A CPU computes in the type of
its tensors, whatever is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, get_args

import torch

from crawl.checks import check_choice
from crawl.choices import Precision

_current: ContextVar[Precision] = ContextVar("precision", default="tf32")


@contextmanager
def precision(name: Precision | None) -> Iterator[None]:
    """In here, operations multiply with this precision; None changes nothing. A backward pass keeps its forward's."""
    check_precision(name)
    token = _current.set(_current.get() if name is None else name)
    try:
        yield
    finally:
        _current.reset(token)


def current_precision() -> Precision:
    """The precision that is set around the caller: `tf32` if nothing is."""
    return _current.get()


def check_precision(name: Precision | None) -> None:
    """Refuses what is not a precision, or None."""
    check_choice("precision", name, (*get_args(Precision), None))


@contextmanager
def products(name: Precision) -> Iterator[None]:
    """In here, cuBLAS and cuDNN multiply float32 matrices in TF32, unless the precision is `float32`.

    Sums of products of half-precision numbers stay in float32 to the end. torch has one setting for the whole process:
    threads that multiply at the same time must agree.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    wanted: list[tuple[Any, str, Any]] = [
        (matmul, "allow_fp16_reduced_precision_reduction", False),
        (matmul, "allow_bf16_reduced_precision_reduction", False),
    ]
    if hasattr(matmul, "fp32_precision"):
        kind = "ieee" if name == "float32" else "tf32"
        wanted += [(settings, "fp32_precision", kind) for settings in (matmul, cudnn.rnn)]
    else:  # before torch 2.9
        wanted += [(settings, "allow_tf32", name != "float32") for settings in (matmul, cudnn)]
    before = [(settings, attribute, getattr(settings, attribute)) for settings, attribute, _ in wanted]
    try:
        for settings, attribute, value in wanted:
            setattr(settings, attribute, value)
        yield
    finally:
        for settings, attribute, value in before:
            setattr(settings, attribute, value)


@contextmanager
def recurrence() -> Iterator[None]:
    """In here, recurrent networks use cuDNN, unless the precision is `float32`: cuDNN's rounding is coarser.

    Without cuDNN their steps are products of their own, for which torch's setting for products holds. A backward pass
    is of the same kind as its forward pass.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.enabled
    try:
        cudnn.enabled = before and current_precision() != "float32"
        yield
    finally:
        cudnn.enabled = before
