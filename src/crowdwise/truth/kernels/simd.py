"""SIMD operations on short rows of float64, for loops that numba does not vectorise.

A row of class probabilities is padded to 2, 4 or a multiple of 8 numbers (see `padded`); 8 of them fill a cache line.
In a plain loop, numba loads and stores the numbers one by one because rows might overlap. The functions here handle
`lanes` numbers (the SIMD vector width: 2, 4 or 8) in one operation, which made the EM pass three times faster. `lanes`
must be a compile-time constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_F64, _I32 = ir.DoubleType(), ir.IntType(32)


def padded(n: int) -> int:
    """Return the row length for n classes: 2, 4, or the next multiple of 8."""
    return 2 if n <= 2 else 4 if n <= 4 else -(-n // 8) * 8


def vector_width(width: int) -> int:
    """Return how many numbers of a row of this length one vector operation handles."""
    return min(width, 8)


def aligned(rows: int, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return zeros of shape (rows, width) aligned to a cache line, so that a row of 8 never straddles two lines."""
    buffer = np.zeros(rows * width + 8)
    skip = (-buffer.ctypes.data // 8) % 8
    return buffer[skip : skip + rows * width].reshape(rows, width)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, lanes: int) -> Any:
    """Return the address of `lanes` numbers that start at a flat index of a C-contiguous array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(_F64, lanes).as_pointer())


def _broadcast(builder: Any, scalar: Any, lanes: int) -> Any:
    """Return a vector with the scalar in every element."""
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
        added = builder.fmul(source, _broadcast(builder, args[4], n))
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
        builder.store(builder.fmul(builder.load(to, align=8), _broadcast(builder, args[2], n)), to, align=8)
        return context.get_dummy_value()

    return types.void(dst, types.intp, types.float64, lanes), codegen


@intrinsic(prefer_literal=True)
def row_sum(context: Any, src: Any, i: Any, lanes: Any) -> Any:
    """Return the sum of src[i:i+lanes], added pairwise as a tree."""
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
    """Prefetch the cache line at a flat index, some answers before it is needed."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(call, [address, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen
