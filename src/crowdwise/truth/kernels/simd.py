"""Vector operations on short rows of float64, for kernels that numba would otherwise leave scalar.

A row of class probabilities is 2, 4 or a multiple of 8 numbers (see `padded`): one cache line for 8 classes. As a
plain loop, numba reloads and stores each number because it cannot rule out that rows overlap; these move a whole
block of `lanes` numbers at once. That made the EM pass three times faster. `lanes` is a constant known to the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_F64, _I32 = ir.DoubleType(), ir.IntType(32)


def padded(n: int) -> int:
    """Row length for n classes: 2, 4, or the next multiple of 8."""
    return 2 if n <= 2 else 4 if n <= 4 else -(-n // 8) * 8


def lanes_of(width: int) -> int:
    """How many numbers of such a row move at once."""
    return min(width, 8)


def aligned(rows: int, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Zeros of shape (rows, width) that begin on a cache line, so that no row of 8 straddles two."""
    buffer = np.zeros(rows * width + 8)
    skip = (-buffer.ctypes.data // 8) % 8
    return buffer[skip : skip + rows * width].reshape(rows, width)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, lanes: int) -> Any:
    """Address of `lanes` numbers that begin at a flat index of a C-contiguous array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(_F64, lanes).as_pointer())


def _spread(builder: Any, scalar: Any, lanes: int) -> Any:
    vector = ir.VectorType(_F64, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, _I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _row_op(combine: Any) -> Any:
    """Intrinsic `op(dst, i, src, j, lanes)`: dst[i:i+lanes] = combine(dst[i:i+lanes], src[j:j+lanes])."""

    def typing(context: Any, dst: Any, i: Any, src: Any, j: Any, lanes: Any) -> Any:
        if not isinstance(lanes, types.IntegerLiteral):
            return None
        n = lanes.literal_value

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to = _pointer(context, builder, signature.args[0], args[0], args[1], n)
            source = builder.load(_pointer(context, builder, signature.args[2], args[2], args[3], n), align=8)
            builder.store(combine(builder, to, source), to, align=8)
            return context.get_dummy_value()

        return types.void(dst, types.intp, src, types.intp, lanes), codegen

    return intrinsic(prefer_literal=True)(typing)


row_copy = _row_op(lambda builder, to, source: source)
row_multiply = _row_op(lambda builder, to, source: builder.fmul(builder.load(to, align=8), source))
row_add = _row_op(lambda builder, to, source: builder.fadd(builder.load(to, align=8), source))


@intrinsic(prefer_literal=True)
def row_add_scaled(context: Any, dst: Any, i: Any, src: Any, j: Any, factor: Any, lanes: Any) -> Any:
    """dst[i:i+lanes] += factor * src[j:j+lanes]."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    n = lanes.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = _pointer(context, builder, signature.args[0], args[0], args[1], n)
        source = builder.load(_pointer(context, builder, signature.args[2], args[2], args[3], n), align=8)
        added = builder.fmul(source, _spread(builder, args[4], n))
        builder.store(builder.fadd(builder.load(to, align=8), added), to, align=8)
        return context.get_dummy_value()

    return types.void(dst, types.intp, src, types.intp, types.float64, lanes), codegen


@intrinsic(prefer_literal=True)
def row_scale(context: Any, dst: Any, i: Any, factor: Any, lanes: Any) -> Any:
    """dst[i:i+lanes] *= factor."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    n = lanes.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = _pointer(context, builder, signature.args[0], args[0], args[1], n)
        builder.store(builder.fmul(builder.load(to, align=8), _spread(builder, args[2], n)), to, align=8)
        return context.get_dummy_value()

    return types.void(dst, types.intp, types.float64, lanes), codegen


@intrinsic(prefer_literal=True)
def row_sum(context: Any, src: Any, i: Any, lanes: Any) -> Any:
    """Sum of src[i:i+lanes], halving as a tree."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    n = lanes.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(context, builder, signature.args[0], args[0], args[1], n), align=8)
        width = n
        while width > 1:
            half = width // 2
            mask = ir.VectorType(_I32, half)
            undefined = ir.Constant(value.type, ir.Undefined)
            low = builder.shuffle_vector(value, undefined, ir.Constant(mask, list(range(half))))
            high = builder.shuffle_vector(value, undefined, ir.Constant(mask, list(range(half, width))))
            value, width = builder.fadd(low, high), half
        return builder.extract_element(value, _I32(0))

    return types.float64(src, types.intp, lanes), codegen


@intrinsic
def prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask the processor for the cache line at a flat index, some answers before it is needed."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(call, [address, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen
