"""Count and find the bits of 64-bit words: in kernels by the processor's own instructions, elsewhere by Python."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload


def population(word: Any) -> int:
    """Return how many bits of a word are set."""
    return int(word).bit_count()


def lowest(word: Any) -> int:
    """Return the number of the lowest bit that is set; there must be one."""
    return (int(word) & -int(word)).bit_length() - 1


@intrinsic
def _count_ones(_context, _word):
    def write(_target, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), write


@intrinsic
def _count_trailing_zeros(_context, _word):
    def write(_target, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), write


@overload(population, inline="always")
def _compiled_population(word):  # noqa: ARG001
    return lambda word: _count_ones(word)


@overload(lowest, inline="always")
def _compiled_lowest(word):  # noqa: ARG001
    return lambda word: _count_trailing_zeros(word)
