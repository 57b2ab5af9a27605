"""Sixteen numbers at a time, for numba: vector operations that its compiler does not find by itself.

Each works on flat arrays, from an index on. No bounds are checked: arrays must reach sixteen elements beyond the index.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 16


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = make_array(array_type)(context, builder, array).data
    vector = ir.VectorType(data.type.pointee, LANES)
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _load(builder: Any, pointer: Any, element: Any) -> Any:
    return builder.load(pointer, align=element.bitwidth // 8)  # rows of a matrix need not be aligned to more


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, allowed to become one instruction."""
    return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))


@intrinsic
def sum_of(typing_context, target, i, a, j, b, k):
    """target[i:i + 16] = a[j:j + 16] + b[k:k + 16]."""

    def generate(context, builder, signature, arguments):
        element = signature.args[0].dtype
        to, *others = (_pointer(context, builder, signature.args[n], arguments[n], arguments[n + 1]) for n in (0, 2, 4))
        a, b = (_load(builder, other, element) for other in others)
        builder.store(builder.fadd(a, b), to, align=element.bitwidth // 8)
        return context.get_dummy_value()

    index = types.int64
    return types.void(target, index, a, index, b, index), generate


@njit(inline="always")
def add(target, i, source, j):
    """target[i:i + 16] += source[j:j + 16]."""
    sum_of(target, i, target, i, source, j)


@intrinsic
def combine(typing_context, target, i, weights, w, w_step, a, j, b, k):
    """target[i:i + 16] = weights[w:] * a[j:] + weights[w + w_step:] * b[k:] + weights[w + 2 * w_step:]."""

    def generate(context, builder, signature, arguments):
        _, i, _, w, w_step, _, j, _, k = arguments
        element = signature.args[0].dtype

        def load(n, index):
            return _load(builder, _pointer(context, builder, signature.args[n], arguments[n], index), element)

        first, second, third = (load(2, builder.add(w, builder.mul(w_step, w_step.type(n)))) for n in range(3))
        total = _fused(builder, first, load(5, j), _fused(builder, second, load(7, k), third))
        to = _pointer(context, builder, signature.args[0], arguments[0], i)
        builder.store(total, to, align=element.bitwidth // 8)
        return context.get_dummy_value()

    index = types.int64
    return types.void(target, index, weights, index, index, a, index, b, index), generate


@intrinsic
def dot(typing_context, target, i, a, j, a_step, b, k, b_step, count):
    """target[i:i + 16] = sum over m < count of a[j + m * a_step:][:16] * b[k + m * b_step:][:16].

    Four sums take turns, so that an addition need not wait for the one before.
    """

    def generate(context, builder, signature, arguments):
        _, i, _, j, a_step, _, k, b_step, count = arguments
        element = signature.args[0].dtype
        to = _pointer(context, builder, signature.args[0], arguments[0], i)
        totals = [cgutils.alloca_once(builder, to.type.pointee) for _ in range(4)]  # registers, after optimisation
        for total in totals:
            builder.store(ir.Constant(to.type.pointee, [0.0] * LANES), total)

        def add_term(total, m):
            factors = []
            for n, first, step in ((2, j, a_step), (5, k, b_step)):
                index = builder.add(first, builder.mul(m, step))
                factors.append(
                    _load(builder, _pointer(context, builder, signature.args[n], arguments[n], index), element)
                )
            builder.store(_fused(builder, factors[0], factors[1], builder.load(total)), total)

        four = ir.Constant(count.type, 4)
        num_turns = builder.sdiv(count, four)
        with cgutils.for_range(builder, num_turns) as loop:
            first_term = builder.mul(loop.index, four)
            for n, total in enumerate(totals):
                add_term(total, builder.add(first_term, ir.Constant(count.type, n)))
        with cgutils.for_range(builder, builder.srem(count, four)) as loop:
            add_term(totals[0], builder.add(builder.mul(num_turns, four), loop.index))
        sums = [builder.load(total) for total in totals]
        builder.store(
            builder.fadd(builder.fadd(sums[0], sums[1]), builder.fadd(sums[2], sums[3])),
            to,
            align=element.bitwidth // 8,
        )
        return context.get_dummy_value()

    index = types.int64
    return types.void(target, index, a, index, index, b, index, index, index), generate


def compare(operator: str) -> Any:
    """A function of (int32 array, index, value): bit k of what it returns is `array[index + k] operator value`.

    One vector comparison. Left to itself the compiler makes sixteen of it, which are ten times slower.
    """

    @intrinsic
    def compare_lanes(typing_context, array, index, value):
        def generate(context, builder, signature, arguments):
            pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
            vector = pointer.type.pointee
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], ir.IntType(32)(0))
            values = builder.shuffle_vector(
                first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            )
            mask = builder.icmp_signed(operator, _load(builder, pointer, types.int32), values)
            return builder.zext(builder.bitcast(mask, ir.IntType(LANES)), ir.IntType(32))

        return types.uint32(array, types.int64, types.int32), generate

    return compare_lanes
