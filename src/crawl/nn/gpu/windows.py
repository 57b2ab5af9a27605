"""`fast.pooled_windows` on a GPU, forward and backward.

One kernel goes along the walks: it looks rows up, adds them, convolves and takes the moments for the batch norm.
Another does the way back. In between, matrix products are cuBLAS's, and what is done to their factors is one pass each.
What the backward pass needs is computed again, except the windows before the batch norm and which outputs were
positive.

TF32 keeps ten bits of a factor, as float16 does. So factors are written as float16, which is half of the memory, and
multiplied twice as fast: activations behind a batch norm are of its range, and gradients are brought there by a power
of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.nn.bits import chosen_bits, code_bits
from crawl.nn.gpu.activations import activate, bit_weight_backward, mixed_backward, norm_sums
from crawl.nn.gpu.convolve import convolve, convolve_backward
from crawl.nn.gpu.norm import finalise
from crawl.nn.gpu.products import multiply, padded, product
from crawl.nn.gpu.segments import mean_windows, sum_rows
from crawl.nn.gpu.shape import Shape
from crawl.nn.gpu.streams import catch_up, in_parallel, later
from crawl.walks import Walks

if TYPE_CHECKING:
    from crawl.nn.conv import CRaWlConv

_FACTORS = {"tf32": torch.float16, "bf16": torch.bfloat16, "float32": torch.float32}


def pooled_windows(conv: CRaWlConv, x: Tensor, walks: Walks, edge_attr: Tensor | None) -> Tensor:
    """p(v), `[N, out_channels]`; see `reference.pooled_windows`."""
    pooled: Tensor = _PooledWindows.apply(
        x,
        edge_attr,
        conv.project.weight.squeeze(2),
        conv.depthwise.weight.squeeze(1),
        conv.norm.weight,
        conv.norm.bias,
        conv.mix.weight.squeeze(2),
        conv,
        walks,
    )
    return pooled


class _PooledWindows(torch.autograd.Function):
    """Matrices of floats are padded with zero columns to a multiple of 16 channels, so that rows are aligned."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        edge_attr: Tensor | None,
        project: Tensor,
        kernel: Tensor,
        gamma: Tensor,
        beta: Tensor,
        mix: Tensor,
        conv: CRaWlConv,
        walks: Walks,
    ) -> Tensor:
        del gamma, beta  # `finalise` takes them from the batch norm; they are here for their gradients
        num_channels, num_nodes = conv.out_channels, x.shape[0]
        storage = torch.bfloat16 if conv.precision == "bf16" else torch.float32
        factors = _FACTORS[conv.precision]
        shape = Shape(conv, walks, num_nodes)
        weight = project.detach()
        first_bit = conv.in_channels + conv.edge_dim

        def table(rows: Tensor, columns: slice) -> Tensor:
            return product(rows, weight[:, columns].t(), conv.precision, width=shape.stride)

        edge_columns = slice(conv.in_channels, first_bit)
        node_rows, edge_rows, code_rows = in_parallel(
            x.device,
            lambda: table(x, slice(conv.in_channels)),
            lambda: None if edge_attr is None else table(edge_attr, edge_columns),
            lambda: table(code_bits(conv, walks, weight.dtype), slice(first_bit, None)),
        )
        mix, mix_t = padded(mix.detach(), shape.stride, factors)
        windows = x.new_empty(shape.num_windows, shape.stride, dtype=storage)
        inputs = (node_rows, edge_rows, code_rows, kernel.detach().contiguous())
        statistics = finalise(conv.norm, convolve(shape, walks, inputs, windows))
        mixed = multiply(activate(shape, windows, statistics, factors), mix.t(), storage)
        nodes = walks.visits
        pooled, counts, is_active = mean_windows(mixed, nodes, shape.num_positions, shape.kernel_size)
        ctx.conv, ctx.walks, ctx.shape = conv, walks, shape
        ctx.save_for_backward(x, edge_attr, weight, mix_t, *inputs, windows, statistics, is_active, counts)
        return pooled[:, :num_channels]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_pooled: Tensor) -> tuple[Tensor | None, ...]:
        conv, walks, shape = ctx.conv, ctx.walks, ctx.shape
        x, edge_attr, weight, mix_t, *inputs, windows, statistics, is_active, counts = ctx.saved_tensors
        num_channels = conv.out_channels
        catch_up(x.device)  # frees what the layer behind this one kept
        hidden, grad_mixed, unit = mixed_backward(
            shape, walks, windows, statistics, is_active, grad_pooled, counts, mix_t.dtype
        )

        def weight_of_mix() -> Tensor:
            return multiply(grad_mixed.t(), hidden, torch.float32)[:num_channels, :num_channels] * unit

        grad_mix = later(x.device, weight_of_mix, hidden, grad_mixed, unit)
        grad_hidden = multiply(grad_mixed, mix_t.t(), mix_t.dtype)
        sums = norm_sums(shape, windows, statistics, grad_hidden, unit)
        grad_rows, grad_kernel = convolve_backward(shape, walks, inputs, windows, statistics, grad_hidden, sums, unit)
        first_bit = conv.in_channels + conv.edge_dim
        nodes = walks.visits
        grad_nodes = sum_rows(grad_rows, nodes.ptr, nodes.order, longest=nodes.longest)[:, :num_channels]

        def weight_of_project() -> Tensor:
            parts = [product(grad_nodes.t(), x, conv.precision)]
            if edge_attr is not None:
                parts.append(product(_sum_edges(shape, walks, grad_rows, edge_attr).t(), edge_attr, conv.precision))
            elif conv.edge_dim:
                parts.append(weight.new_zeros(num_channels, conv.edge_dim))
            if shape.num_code_bytes:
                by_bit = bit_weight_backward(shape, walks, grad_rows, conv.precision)[:, :num_channels]
                parts.append(product(by_bit.t(), chosen_bits(conv, walks, len(by_bit), by_bit.dtype), "float32"))
            return torch.cat(parts, dim=1)

        grad_x = grad_edge_attr = None
        if ctx.needs_input_grad[0]:
            grad_x = product(grad_nodes, weight[:, : conv.in_channels], conv.precision)
        if ctx.needs_input_grad[1]:
            grad_edges = _sum_edges(shape, walks, grad_rows, edge_attr)
            grad_edge_attr = product(grad_edges, weight[:, conv.in_channels : first_bit], conv.precision)
        return (
            grad_x,
            grad_edge_attr,
            later(x.device, weight_of_project, grad_rows, grad_nodes, x, edge_attr),
            grad_kernel[:, :num_channels].t(),
            sums[1, :num_channels],
            sums[0, :num_channels],
            grad_mix,
            None,
            None,
        )


def _sum_edges(shape: Shape, walks: Walks, grad_rows: Tensor, edge_attr: Tensor) -> Tensor:
    """`[E, C]` the gradients of the rows of edges."""
    edges = walks.steps
    total = sum_rows(grad_rows, edges.ptr, edges.order, longest=edges.longest, steps_of=shape.num_positions)
    return total[:, : shape.num_channels]
