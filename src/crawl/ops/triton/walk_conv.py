"""`walk_conv` on a GPU, forward and backward.

One kernel runs along the walks: it looks rows up, adds them, convolves and takes the moments for the batch norm.
Another computes the gradients of these rows, and a third, beside it, those of the depthwise kernel. In between, one
kernel does the rest for each window, and one takes its gradients back. Where that is too wide for one kernel, matrix
products are cuBLAS's, and what is done to their factors is one pass each. What the backward pass needs is computed
again, except the windows before the batch norm and which outputs were positive.

TF32 keeps ten mantissa bits of a factor, as float16 does. So factors are stored as float16, which is half of the
memory, and multiplied twice as fast: batch-normalised activations fit its range, and gradients are scaled into it by a
power of two. Outputs, which are only averaged, are float16, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crawl.ops.precision import current_precision
from crawl.ops.triton.activations import activate, bit_weight_backward, mixed_backward, norm_sums
from crawl.ops.triton.convolve import convolve, rows_backward, taps_backward
from crawl.ops.triton.mix import mix_backward, mix_windows
from crawl.ops.triton.norm import finalise
from crawl.ops.triton.products import multiply, padded, product
from crawl.ops.triton.segments import mean_windows, sum_rows
from crawl.ops.triton.shape import Shape
from crawl.ops.triton.streams import in_parallel, mark_inputs, release_inputs, weight_gradient
from crawl.ops.walk_conv import Weights
from crawl.ops.walks import WalkTensors

_FACTORS = {"tf32": torch.float16, "bf16": torch.bfloat16, "float32": torch.float32}
# The most channels that the kernels of `mix` are for, at most 240; wider products are cuBLAS's. 176 fit into the shared
# memory of every GPU, 99 KB. With more than 96, the way back is slower than cuBLAS's products on an H200. Products of
# float32 do not use tensor cores: cuBLAS's are far faster.
_MOST_FUSED = {torch.float16: 176, torch.bfloat16: 176, torch.float32: 0}
_MOST_FUSED_BACKWARD = {torch.float16: 96, torch.bfloat16: 96, torch.float32: 0}


def walk_conv(
    x: Tensor, edge_attr: Tensor | None, walks: WalkTensors, weights: Weights, num_edges: int | None
) -> tuple[Tensor, Tensor | None]:
    """See `crawl.ops.walk_conv.walk_conv`."""
    with torch.autocast(x.device.type, enabled=False):  # the kernels have a precision of their own
        edge_attr = None if edge_attr is None else edge_attr.float()
        differentiable = (weights.project, weights.depthwise, weights.norm.weight, weights.norm.bias, weights.mix)
        pooled: tuple[Tensor, Tensor | None] = _WalkConv.apply(
            x.float(), edge_attr, *differentiable, weights, walks, num_edges
        )
        return pooled


class _WalkConv(torch.autograd.Function):
    """Matrices of floats are padded with zero columns to a multiple of 16 channels, so that rows are aligned."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        edge_attr: Tensor | None,
        project: Tensor,
        depthwise: Tensor,
        gamma: Tensor,
        beta: Tensor,
        mix: Tensor,
        weights: Weights,
        walks: WalkTensors,
        num_edges: int | None,
    ) -> tuple[Tensor, Tensor | None]:
        del gamma, beta  # they are here for their gradients; `weights` holds them, too
        precision = current_precision()
        storage = torch.bfloat16 if precision == "bf16" else torch.float32
        factors = _FACTORS[precision]
        shape = Shape(weights, walks, len(x))
        matrix = project.detach().squeeze(2)
        of_nodes, of_edges, of_bits = weights.columns(x.shape[1])

        def table(rows: Tensor, columns: slice) -> Tensor:
            return product(rows, matrix[:, columns].t(), precision, width=shape.stride)

        node_rows, edge_rows, code_rows, (mix_padded, mix_t) = in_parallel(
            x.device,
            lambda: table(x, of_nodes),
            lambda: None if edge_attr is None else table(edge_attr, of_edges),
            lambda: table(weights.bits.in_bytes(walks, matrix.dtype), of_bits),
            lambda: padded(mix.detach().squeeze(2), shape.stride, factors),
        )
        windows = x.new_empty(shape.num_windows, shape.stride, dtype=storage)
        inputs = (node_rows, edge_rows, code_rows, depthwise.detach().squeeze(1).contiguous())
        statistics = finalise(weights.norm, convolve(shape, walks, inputs, windows))
        at = (shape.num_positions, shape.centred_size)
        is_fused = shape.stride <= _MOST_FUSED_BACKWARD[factors]
        if shape.stride <= _MOST_FUSED[factors]:
            mixed, is_active = mix_windows(shape, windows, statistics, mix_t, factors)
            pooled, counts = mean_windows(mixed, walks.visits, *at)
        else:
            mixed = multiply(activate(shape, windows, statistics, factors), mix_padded.t(), storage)
            is_active = torch.empty_like(mixed, dtype=torch.int8)
            pooled, counts = mean_windows(mixed, walks.visits, *at, is_active=is_active)
        pooled_edges = edge_counts = None
        if num_edges is not None:
            pooled_edges, edge_counts = mean_windows(mixed, walks.steps, *at, are_steps=True)
            pooled_edges = pooled_edges[:, : shape.num_channels]
        ctx.precision, ctx.weights, ctx.walks, ctx.shape, ctx.is_fused = precision, weights, walks, shape, is_fused
        mix_rows = mix_padded if is_fused else mix_t
        ctx.save_for_backward(
            *(x, edge_attr, project, mix_rows, *inputs, windows, statistics, is_active, counts, edge_counts)
        )
        return pooled[:, : shape.num_channels], pooled_edges

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_pooled: Tensor, grad_edges: Tensor | None) -> tuple[Tensor | None, ...]:
        precision, weights, walks, shape = ctx.precision, ctx.weights, ctx.walks, ctx.shape
        saved = ctx.saved_tensors
        x, edge_attr, project, mix_rows, *inputs = saved[:8]
        windows, statistics, is_active, counts, edge_counts = saved[8:]
        needs_x, needs_edge_attr, needs_project, needs_depthwise, _, _, needs_mix, *_ = ctx.needs_input_grad
        num_channels, matrix = shape.num_channels, project.squeeze(2)
        of_nodes, of_edges, _ = weights.columns(x.shape[1])
        release_inputs()  # of the layer after this one
        pooled = [(grad_pooled, counts)]
        if grad_edges is not None:
            pooled.append((grad_edges, edge_counts))
        if ctx.is_fused:
            hidden, grad_mixed, grad_hidden, sums, unit = mix_backward(
                shape, walks, windows, statistics, mix_rows, is_active, pooled
            )
        else:
            hidden, grad_mixed, unit = mixed_backward(
                shape, walks, windows, statistics, is_active, pooled, mix_rows.dtype
            )

        def weight_of_mix() -> Tensor:
            return multiply(grad_mixed.t(), hidden, torch.float32)[:num_channels, :num_channels] * unit

        grad_mix = weight_gradient(weights.mix, weight_of_mix, hidden, grad_mixed, unit) if needs_mix else None
        if not ctx.is_fused:
            grad_hidden = multiply(grad_mixed, mix_rows.t(), mix_rows.dtype)
            sums = norm_sums(shape, windows, statistics, grad_hidden, unit)
        through = (windows, statistics, grad_hidden, sums, unit)

        grad_rows = rows_backward(shape, inputs[3], *through)
        grad_nodes = sum_rows(grad_rows, *walks.visits.places, longest=walks.visits.longest)[:, :num_channels]

        grad_edge_rows = _sum_edges(shape, walks, grad_rows) if needs_edge_attr else None

        def weight_of_depthwise() -> Tensor:
            return taps_backward(shape, walks, inputs, *through).unsqueeze(1)

        def weight_of_edges() -> Tensor:
            if edge_attr is None:
                none: Tensor = matrix.new_zeros(num_channels, of_edges.stop - of_edges.start)
                return none
            rows = _sum_edges(shape, walks, grad_rows) if grad_edge_rows is None else grad_edge_rows
            return product(rows.t(), edge_attr, precision)

        def weight_of_bits() -> Tensor:
            by_bit = bit_weight_backward(shape, walks, grad_rows, precision)[:, :num_channels]
            return product(by_bit.t(), weights.bits.in_code(walks, by_bit.dtype), "float32")

        def weight_of_project() -> Tensor:
            parts = [lambda: product(grad_nodes.t(), x, precision), weight_of_edges]
            if shape.num_code_bytes:
                parts.append(weight_of_bits)
            return torch.cat(in_parallel(x.device, *parts, of="weights"), dim=1)

        grad_x = grad_edge_attr = grad_project = grad_depthwise = None
        if needs_depthwise:
            grad_depthwise = weight_gradient(weights.depthwise, weight_of_depthwise, *inputs, *through)
        if needs_x:
            grad_x = product(grad_nodes, matrix[:, of_nodes], precision)
        if grad_edge_rows is not None:
            grad_edge_attr = product(grad_edge_rows, matrix[:, of_edges], precision)
        if needs_project:
            read = (grad_rows, grad_nodes, grad_edge_rows, x, edge_attr)
            grad_project = weight_gradient(weights.project, weight_of_project, *read)
        mark_inputs()
        return (
            grad_x,
            grad_edge_attr,
            grad_project,
            grad_depthwise,
            sums[1, :num_channels],
            sums[0, :num_channels],
            grad_mix,
            *[None] * 3,
        )


def _sum_edges(shape: Shape, walks: WalkTensors, grad_rows: Tensor) -> Tensor:
    """`[E, C]` the gradients of the rows of edges."""
    steps = walks.steps
    total = sum_rows(grad_rows, *steps.places, longest=steps.longest, steps_of=shape.num_positions)
    return total[:, : shape.num_channels]
