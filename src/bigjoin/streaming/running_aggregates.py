"""Aggregates that follow the rows of a group as they come and go, and are exact at any time.

Sums are integers of any size: those of floating numbers count in the smallest step that these have, so that what was added can
be taken away again without a trace. The smallest and the largest value are at the top of a heap, in which values that have gone
stay until they get there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Context, Decimal
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

import pyarrow as pa

from bigjoin.errors import QueryError
from bigjoin.query.grouping import Aggregate
from bigjoin.query.query import Dialect

SMALLEST_STEP_BITS = 1074
"""Every floating number of 64 bits is a multiple of two to the power of minus this."""

_EXACTLY = Context(prec=100)
MAX_INT64 = (1 << 63) - 1
"""The largest sum of integers."""

PythonValue: TypeAlias = Any
"""A value as Python has it: a number, text, bytes, or None; times are integers."""


class RunningAggregate(ABC):
    """What is made of one column of the rows of a group."""

    __slots__ = ()

    @abstractmethod
    def add(self, value: PythonValue, times: int) -> int:
        """Add a value that is not NULL, so many times; return how many more values are kept by themselves."""

    @property
    @abstractmethod
    def value(self) -> PythonValue:
        """The aggregate."""


class RunningCount(RunningAggregate):
    """How many values there are; these say whether a value is there."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = 0

    def add(self, value: PythonValue, times: int) -> int:
        self._values += times if value else 0
        return 0

    @property
    def value(self) -> int:
        return self._values


class RunningSum(RunningAggregate):
    """A sum of integers, or of decimals as multiples of their last digit."""

    __slots__ = ("_digits", "_none", "_said", "_total", "_values")

    def __init__(self, said: Aggregate, none: int | None, digits: int | None) -> None:
        self._said, self._none, self._digits = said, none, digits
        self._values = self._total = 0

    def add(self, value: PythonValue, times: int) -> int:
        self._values += times
        self._total += times * (value if self._digits is None else int(value.scaleb(self._digits, _EXACTLY)))
        return 0

    @property
    def value(self) -> int | Decimal | None:
        if not self._values:
            return self._none
        if self._digits is not None:
            return Decimal(self._total).scaleb(-self._digits, _EXACTLY)
        if not -MAX_INT64 <= self._total <= MAX_INT64:
            hint = "cast what it adds up to decimal(28, 0)"
            raise QueryError(f"'{self._said}' of some group does not fit into 64 bits", hint=hint)
        return self._total


class FloatingSum(RunningAggregate):
    """A sum of floating numbers, or their mean: rounded once, when it is asked for."""

    __slots__ = ("_infinities", "_is_mean", "_nans", "_none", "_total", "_values")

    def __init__(self, none: float | None, *, is_mean: bool) -> None:
        self._none, self._is_mean = none, is_mean
        self._values = self._total = self._nans = 0
        self._infinities = [0, 0]

    def add(self, value: PythonValue, times: int) -> int:
        self._values += times
        if isinstance(value, int):
            self._total += times * value << SMALLEST_STEP_BITS
        elif math.isfinite(value):
            above, below = value.as_integer_ratio()
            self._total += times * above << (SMALLEST_STEP_BITS + 1 - below.bit_length())
        elif math.isnan(value):
            self._nans += times
        else:
            self._infinities[value > 0] += times
        return 0

    @property
    def value(self) -> float | None:
        if not self._values:
            return self._none
        if self._nans or all(self._infinities):
            return math.nan
        if any(self._infinities):
            return math.inf if self._infinities[1] else -math.inf
        try:
            return self._total / ((self._values if self._is_mean else 1) << SMALLEST_STEP_BITS)
        except OverflowError:
            return math.inf if self._total > 0 else -math.inf


class KeptValues(RunningAggregate):
    """Which values there are, and how often: for their number, without repetitions."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[PythonValue, int] = {}

    def add(self, value: PythonValue, times: int) -> int:
        before = self._times.get(value, 0)
        if after := before + times:
            self._times[value] = after
        else:
            del self._times[value]
        return (after != 0) - (before != 0)

    @property
    def value(self) -> PythonValue:
        return len(self._times)


class Extreme(KeptValues):
    """The smallest or the largest of the values; NaN is larger than any number."""

    __slots__ = ("_heap", "_is_largest")

    def __init__(self, *, is_largest: bool) -> None:
        super().__init__()
        self._is_largest = is_largest
        self._heap: list[PythonValue] = []
        """All values that are there, and some that were; of the largest, each is turned round."""

    def add(self, value: PythonValue, times: int) -> int:
        more = super().add(value, times)
        if more > 0 and value == value:
            heappush(self._heap, _Falling(value) if self._is_largest else value)
            if len(self._heap) > 2 * len(self._times) + 16:
                values = [value for value in self._times if value == value]
                self._heap = [_Falling(value) for value in values] if self._is_largest else values
                heapify(self._heap)
        return more

    @property
    def value(self) -> PythonValue:
        if not self._times:
            return None
        if self._is_largest and math.nan in self._times:
            return math.nan
        heap, times = self._heap, self._times
        while heap:
            top = heap[0].value if self._is_largest else heap[0]
            if top in times:
                return top
            heappop(heap)
        return math.nan


class _Falling:
    """A value that is smaller if it is larger."""

    __slots__ = ("value",)

    def __init__(self, value: PythonValue) -> None:
        self.value = value

    def __lt__(self, other: _Falling) -> bool:
        return bool(other.value < self.value)


def running(aggregate: Aggregate, kind: pa.DataType, dialect: Dialect) -> Callable[[], RunningAggregate] | None:
    """Return what makes a running aggregate of values of some type; None for the number of rows, which groups know."""
    none = 0 if dialect == "cypher" else None
    match aggregate.function:
        case "count":
            return None if aggregate.argument is None else RunningCount
        case "count distinct":
            return KeptValues
        case "sum" if pa.types.is_decimal(kind):
            zero = None if none is None else Decimal(0)
            return lambda: RunningSum(aggregate, zero, kind.scale)  # type: ignore[arg-type]
        case "sum" if pa.types.is_integer(kind):
            return lambda: RunningSum(aggregate, none, None)
        case "sum" | "avg" as function:
            nothing = None if none is None or function == "avg" else 0.0
            return lambda: FloatingSum(nothing, is_mean=function == "avg")
        case function:
            return lambda: Extreme(is_largest=function == "max")
