"""Matrix products of the small matrices of a batch.

Rows whose length is not a multiple of four, such as the 147 channels of the model for ZINC, slow cuBLAS down, and so do
products of few rows. Those are done by the kernel here; long sums are split into parts, which are added in a fixed
order.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crawl.choices import Precision
from crawl.ops.precision import products
from crawl.ops.triton.kernel import kernel
from crawl.ops.triton.segments import sum_parts

_LARGE_TILE = (64, 64)
_DEPTH = 32  # of a tile
_FEW_TILES = 132  # of which a large GPU takes one on each of its processors
_FEW_ROWS = 64  # of a product that cuBLAS takes longer for, if its sums are short
_HAS_OUT_DTYPE = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)
_LONG_SUM = 512  # shorter ones are not split: to add the parts takes another kernel
_MOST_ROWS = 2**15  # larger matrices are cuBLAS's


def product(a: Tensor, b: Tensor, precision: Precision, *, add: Tensor | None = None, width: int = 0) -> Tensor:
    """`add + a @ b`, float32.

    Args:
        a: `[M, K]`, with any strides.
        b: `[K, N]`, with any strides.
        precision: `float32` is IEEE single; the others round inputs to ten mantissa bits (TF32).
        add: `[M, N]` with contiguous rows, or `[N]` for all rows; nothing when None.
        width: If larger than N, this many columns come back, zeros after the first N.
    """
    (height, depth), num_columns = a.shape, max(b.shape[1], width)
    are_rows = a.stride(1) == 1 and b.stride(1) == 1
    are_aligned = all(stride % 4 == 0 or stride == 1 for stride in (*a.stride(), *b.stride()))
    is_small = height <= _FEW_ROWS and depth <= _LONG_SUM
    suits_cublas = max(height, depth) > _MOST_ROWS or (are_aligned and not is_small)
    if suits_cublas and num_columns == b.shape[1] and a.is_cuda:
        with products(precision):
            return a @ b if add is None else torch.addmm(add, a, b)
    tile, num_parts = _LARGE_TILE, 1
    if triton.cdiv(height, tile[0]) * triton.cdiv(num_columns, tile[1]) < _FEW_TILES:
        if add is None and depth > _LONG_SUM:
            num_parts = min(triton.cdiv(depth, 4 * _DEPTH), 16)
        elif a.is_cuda:  # many small programs take longer in the interpreter
            tile = _small_tile(height, num_columns, are_rows)
    grid = (triton.cdiv(height, tile[0]), triton.cdiv(num_columns, tile[1]))
    parts = a.new_empty(num_parts, height, num_columns)
    if parts.numel() == 0:
        return parts[0]
    with torch.cuda.device(a.get_device()):
        _product[(*grid, num_parts)](
            a,
            b,
            parts if add is None else add,
            parts,
            height,
            num_columns,
            b.shape[1],
            depth,
            *a.stride(),
            *b.stride(),
            add.stride(0) if add is not None and add.dim() == 2 else 0,
            triton.cdiv(triton.cdiv(depth, num_parts), _DEPTH) * _DEPTH,
            IS_LARGE=max(height * max(a.stride(0), num_columns), depth * max(a.stride(1), *b.stride())) >= 2**30,
            HAS_ADDEND=add is not None,
            PRECISION=dot_precision(precision),
            HEIGHT=tile[0],
            WIDTH=tile[1],
            DEPTH=_DEPTH,
            num_warps=4,
            num_stages=3,
        )
    return parts[0] if num_parts == 1 else sum_parts(parts)


def _small_tile(height: int, num_columns: int, are_rows: bool) -> tuple[int, int]:
    """The fastest of some on an H200 for products whose rows are not aligned."""
    if are_rows and height > _FEW_ROWS:
        return 32, 64
    return 16, 64 if num_columns > 256 else 32


# Strides are part of the compiled kernel: it must know along which one the memory is contiguous.
@kernel("height", "num_columns", "width", "depth", "part_depth")
def _product(
    a: tl.tensor,
    b: tl.tensor,
    addend: tl.tensor,
    out: tl.tensor,
    height: tl.int32,
    num_columns: tl.int32,
    width: tl.int32,
    depth: tl.int32,
    a_row: tl.int32,
    a_column: tl.int32,
    b_row: tl.int32,
    b_column: tl.int32,
    addend_row: tl.int32,
    part_depth: tl.int32,
    IS_LARGE: tl.constexpr,
    HAS_ADDEND: tl.constexpr,
    PRECISION: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    if IS_LARGE:  # places in 64 bits
        row = row.to(tl.int64)
    begin = tl.program_id(2) * part_depth
    end = tl.minimum(begin + part_depth, depth)
    total = tl.zeros([HEIGHT, WIDTH], tl.float32)
    for first in range(begin, end, DEPTH):
        k = first + tl.arange(0, DEPTH)
        if IS_LARGE:
            k = k.to(tl.int64)
        left = tl.load(
            a + row[:, None] * a_row + k[None, :] * a_column,
            mask=(row < height)[:, None] & (k < end)[None, :],
            other=0,
        )
        right = tl.load(
            b + k[:, None] * b_row + column[None, :] * b_column,
            mask=(k < end)[:, None] & (column < width)[None, :],
            other=0,
        )
        total = tl.dot(left, right, total, input_precision=PRECISION)
    place = row[:, None] * num_columns + column[None, :]
    mask = (row < height)[:, None] & (column < num_columns)[None, :]
    if HAS_ADDEND:
        total += tl.load(addend + row[:, None] * addend_row + column[None, :], mask=mask, other=0)
    out += tl.program_id(2).to(tl.int64) * height * num_columns
    tl.store(out + place, total, mask=mask)


def multiply(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """`a @ b` by cuBLAS, summed in float32, in the given type."""
    with products("float32"):
        if a.dtype == dtype:
            return a @ b
        if a.is_cuda and _HAS_OUT_DTYPE:
            return torch.mm(a, b, out_dtype=dtype)
        return (a.float() @ b.float()).to(dtype)


def padded(square: Tensor, stride: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A square matrix with zeros around, and the same transposed: products of rows with rows are the fastest."""
    out = square.new_empty(2, stride, stride, dtype=dtype)
    with torch.cuda.device(square.get_device()):
        _pad[(triton.cdiv(stride * stride, 1024),)](square.contiguous(), out, len(square), STRIDE=stride, BLOCK=1024)
    return out[0], out[1]


@kernel("size")
def _pad(square: tl.tensor, out: tl.tensor, size: tl.int32, STRIDE: tl.constexpr, BLOCK: tl.constexpr) -> None:
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = place // STRIDE, place % STRIDE
    mask = (row < size) & (column < size)
    value = tl.load(square + row * size + column, mask=mask, other=0)
    value_t = tl.load(square + column * size + row, mask=mask, other=0)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=place < STRIDE * STRIDE)
    tl.store(out + STRIDE * STRIDE + place, value_t.to(out.dtype.element_ty), mask=place < STRIDE * STRIDE)


def dot_precision(precision: Precision) -> str:
    """What Triton calls the precision of a product of float32."""
    return "ieee" if precision == "float32" else "tf32"
