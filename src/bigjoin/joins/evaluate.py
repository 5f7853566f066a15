"""Evaluate expressions over columns of values: arrays in, an array out, never row by row.

NULL is unknown throughout, as in SQL: functions of it are NULL, and `and`, `or` and `not` follow the logic of three values. In
the dialect of SQL, what Spark reports as an error in ANSI mode is an error here (overflow, division by zero, text that is no
number), and NaN equals itself and is larger than any number; in Cypher's, NaN equals nothing. What `and`, `or`, `case` and
`coalesce` decide before they look at an argument keeps that argument from being an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.joins.functions_of_values import FUNCTIONS_OF_VALUES
from bigjoin.joins.number_functions import as_number
from bigjoin.joins.time_functions import as_times
from bigjoin.joins.value_columns import Values, is_text
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.operators import OPERATORS
from bigjoin.query.query import Dialect
from bigjoin.query.terms import Constant, Interval, Property

ValuesOfTerm: TypeAlias = Callable[[str | Property], Values]


@dataclass(frozen=True)
class Evaluation:
    """Rows over which expressions are evaluated: how many, and the values of attributes and properties in them."""

    values: ValuesOfTerm
    rows: int
    dialect: Dialect = "sql"

    def where(self, expression: Expression) -> NDArray[np.bool_]:
        """Tell for each row whether a condition is true."""
        return as_mask(self.of(expression))

    def of(self, expression: Expression) -> Values:
        """Return the value of an expression in each row; raise QueryError for what is an error in Spark SQL."""
        if isinstance(expression, str | Property):
            return _one_array(self.values(expression))
        if isinstance(expression, Constant):
            return repeated(expression, self.rows)
        assert isinstance(expression, Call)
        try:
            return self._call(expression)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
            raise _failed(expression, error) from None

    def _call(self, call: Call) -> Values:
        match call.function:
            case "and" | "or":
                return self._decided(call)
            case "case":
                return self._case(call)
            case "coalesce":
                return self._coalesce(call)
            case "is null" | "is not null":
                found = self.of(call.arguments[0])
                return pc.is_null(found) if call.function == "is null" else pc.is_valid(found)
            case "in":
                return self._in(call)
            case function if function in OPERATORS:
                return compare(function, *map(self.of, call.arguments), dialect=self.dialect)
            case "nullif":
                one, other = map(self.of, call.arguments)
                equal = compare("=", one, other, dialect=self.dialect)
                return pc.if_else(pc.fill_null(equal, False), pa.scalar(None, one.type), one)
            case "greatest" | "least":
                return self._extreme(call)
            case "array" | "empty array":
                return _lists(_alike([self.of(a) for a in call.arguments]), self.rows, is_empty=call.function != "array")
        return FUNCTIONS_OF_VALUES[call.function](call, [self.of(a) for a in call.arguments], self.dialect)

    def _some(self, chosen: NDArray[np.bool_]) -> Evaluation:
        """Return some of the rows."""
        places = pa.array(np.flatnonzero(chosen))
        return Evaluation(lambda term: _one_array(self.values(term)).take(places), len(places), self.dialect)

    def _decided(self, call: Call) -> Values:
        """Evaluate `and` or `or`; where an argument is an error, only for rows that those before it leave undecided."""
        stops = call.function == "or"
        combine = pc.or_kleene if stops else pc.and_kleene
        found = pa.array(np.full(self.rows, not stops))
        for argument in call.arguments:
            try:
                more = self.of(argument)
            except QueryError:
                open_ = ~as_mask(found if stops else pc.invert(found))
                if open_.all():
                    raise
                more = _scattered(self._some(open_).of(argument), open_, pa.scalar(stops))
            found = combine(found, _boolean(more))
        return found

    def _case(self, call: Call) -> Values:
        pairs = list(zip(call.arguments[:-1:2], call.arguments[1::2], strict=True))
        pairs += [(Constant(True), call.arguments[-1])] if len(call.arguments) % 2 else []
        left = np.ones(self.rows, np.bool_)
        parts: list[tuple[NDArray[np.bool_], Values]] = []
        for condition, value in pairs:
            some = self._some(left)
            holds = some.where(condition)
            chosen = np.zeros(self.rows, np.bool_)
            chosen[np.flatnonzero(left)[holds]] = True
            parts.append((chosen, some._some(holds).of(value)))
            left &= ~chosen
        return _merged(parts, self.rows)

    def _coalesce(self, call: Call) -> Values:
        left, parts = np.ones(self.rows, np.bool_), []
        for argument in call.arguments:
            found = self._some(left).of(argument)
            is_there = np.asarray(pc.is_valid(found))
            chosen = np.zeros(self.rows, np.bool_)
            chosen[np.flatnonzero(left)[is_there]] = True
            parts.append((chosen, found.drop_null()))
            left &= ~chosen
        return _merged(parts, self.rows)

    def _in(self, call: Call) -> Values:
        first, *others = call.arguments
        found = pa.array(np.zeros(self.rows, np.bool_))
        value = self.of(first)
        plain = [other for other in others if isinstance(other, Constant) and other.value is not None]
        if plain and len(plain) == len(others) and all(other.value == other.value for other in plain):
            return _is_member(value, _alike([repeated(other, 1) for other in plain]))
        for other in others:
            found = pc.or_kleene(found, compare("=", value, self.of(other), dialect=self.dialect))
        return found

    def _extreme(self, call: Call) -> Values:
        operator = "<" if call.function == "greatest" else ">"
        arrays = _alike([self.of(a) for a in call.arguments])
        found = arrays[0]
        for other in arrays[1:]:
            better = pc.fill_null(compare(operator, found, other, dialect=self.dialect), False)
            taken = pc.and_(pc.is_valid(other), pc.or_(pc.is_null(found), better))
            found = pc.if_else(taken, other, found)
        return found


def compare(op: str, left: Values, right: Values, *, dialect: Dialect) -> Values:
    """Tell where an operator holds between values, NULL where either is NULL."""
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(left), pa.bool_())
    left, right = _alike([left, right])
    held = getattr(pc, OPERATORS[op].function)(left, right)
    if not pa.types.is_floating(left.type) or dialect == "cypher":
        return held
    nan, other = pc.is_nan(left), pc.is_nan(right)
    if not (pc.any(nan).as_py() or pc.any(other).as_py()):
        return held
    both, either = pc.and_(nan, other), pc.or_(nan, other)
    by_nan = {"=": both, "!=": pc.invert(both), "<": pc.and_(pc.invert(nan), other), ">": pc.and_(nan, pc.invert(other))}
    by_nan |= {"<=": other, ">=": nan}
    return pc.if_else(either, by_nan[op], held)


def _is_member(value: Values, members: Sequence[Values]) -> Values:
    """Tell which values are in a list of constants, NULL where a value is NULL: equality is that of `compare`."""
    value, known = _alike([value, pa.concat_arrays(members)])
    if pa.types.is_floating(value.type):  # a hash table would tell -0.0 from 0.0
        value, known = pc.add(value, 0.0), pc.add(known, 0.0)
    return pc.if_else(pc.is_valid(value), pc.is_in(value, value_set=known), pa.scalar(None, pa.bool_()))


def repeated(constant: Constant, rows: int) -> Values:
    """Return a constant as a column."""
    value: Any = constant.value
    if value is None:
        return pa.nulls(rows)
    if isinstance(value, Interval):
        return pa.repeat(pa.scalar(value.microseconds, pa.duration("us")), rows)
    kinds: dict[type, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    if isinstance(value, datetime):
        arrow: pa.DataType = pa.timestamp("us", "UTC" if value.tzinfo is not None else None)
    elif isinstance(value, date):
        arrow = pa.date32()
    elif isinstance(value, Decimal):
        digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
        scale = max(0, -exponent)
        arrow = pa.decimal128(max(len(digits), scale) + max(0, exponent), scale)
    else:
        arrow = kinds[type(value)]
    return pa.repeat(pa.scalar(value, arrow), rows)


def as_mask(condition: Values) -> NDArray[np.bool_]:
    """Return where a condition is true."""
    return np.asarray(pc.fill_null(_boolean(condition), False).to_numpy(zero_copy_only=False), np.bool_)


def _boolean(found: Values) -> Values:
    return found.cast(pa.bool_()) if not pa.types.is_boolean(found.type) else found


def _one_array(values: pa.Array | pa.ChunkedArray) -> Values:
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
        values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    return values


def _alike(arrays: Sequence[Values]) -> list[Values]:
    """Return arrays of values of one kind with one type."""
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) <= 1:
        return [array.cast(next(iter(kinds))) if kinds else array for array in arrays]
    if any(pa.types.is_temporal(kind) and not pa.types.is_duration(kind) for kind in kinds):
        return as_times(arrays)
    if any(pa.types.is_duration(kind) for kind in kinds):
        return [array.cast(pa.duration("us")) for array in arrays]
    if any(map(is_text, kinds)):
        return [array.cast(pa.large_string()) for array in arrays]
    if any(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) for kind in kinds):
        return [array.cast(pa.large_binary()) for array in arrays]
    return as_number(arrays)


def _lists(arrays: Sequence[Values], rows: int, *, is_empty: bool) -> Values:
    """Return a list of the values of each row; if they are empty, only their type follows from the arrays."""
    length = 0 if is_empty else len(arrays)
    places = np.arange(rows)[:, None] + np.arange(length) * rows
    values = pa.concat_arrays(arrays).take(pa.array(places.ravel()))
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * length, pa.int32()), values)


def _scattered(some: Values, chosen: NDArray[np.bool_], otherwise: pa.Scalar) -> Values:
    return _merged([(chosen, some), (~chosen, pa.repeat(otherwise, int((~chosen).sum())))], len(chosen))


def _merged(parts: Sequence[tuple[NDArray[np.bool_], Values]], rows: int) -> Values:
    """Return one column of parts, each with the rows that it is for; other rows are NULL."""
    arrays = _alike([values for _, values in parts])
    place = np.full(rows, -1, np.int64)
    start = 0
    for (chosen, _), values in zip(parts, arrays, strict=True):
        place[chosen] = np.arange(start, start + len(values))
        start += len(values)
    return pa.concat_arrays(arrays).take(pa.array(place, mask=place < 0))


_SAID: Mapping[str, tuple[str, str]] = {
    "divide by zero": ("divides by zero", "use nullif(x, 0) where zero means that there is no answer"),
    "overflow": ("overflows", "cast one side to double or decimal first"),
    "negative": ("has a negative place or length", "places are counted from 0"),
    "Failed to parse": ("is about text that is no such value", "filter it with rlike first, in a case"),
}


def _failed(call: Call, error: Exception) -> QueryError:
    """Return the error for an expression that has no value in some row."""
    said = str(error)
    what, hint = next((answer for word, answer in _SAID.items() if word.casefold() in said.casefold()), (f"fails: {said}", ""))
    return QueryError(f"'{call}' {what} in some row", call.span, hint or None)
