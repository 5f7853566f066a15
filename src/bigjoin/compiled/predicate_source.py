"""Write predicates about several attributes as the source of a condition, so that they are tested inside of compiled loops.

What is about one attribute alone is evaluated for all its codes beforehand, by `joins/evaluate.py`: a truth value is then a
lookup, and so is a number. What is left between them is logic, comparisons, sums and products, which become Python. A truth
value is written as two conditions, that it is true and that it is false; where neither holds, it is unknown.

Whatever could be an error or depend on NaN is not written here: such a plan is executed on batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.index.values import Column, kind
from bigjoin.joins.bounds_and_filters import RowFilter
from bigjoin.joins.evaluate import Evaluation
from bigjoin.joins.properties import joint_keys, presence
from bigjoin.query.expressions import Call, Expression, attributes_of
from bigjoin.query.operators import OPERATORS
from bigjoin.query.terms import Property, Term, attribute_of

MAX_WHOLE_NUMBER = 1 << 62
"""Sums and products of integers are only written if they cannot exceed this."""

MAX_DOUBLE = 1e300

TRUE, FALSE, UNKNOWN = 1, 0, 2
"""The truth values of codes."""

NameOfArray = Callable[[NDArray[np.generic]], str]
"""Makes an array an argument of the function, and returns its name."""


class UnwrittenError(Exception):
    """A predicate has a part that is not written as source."""


@dataclass(frozen=True, slots=True)
class TruthSource:
    """A truth value: the conditions under which it is true, and under which it is false."""

    true: str
    false: str


@dataclass(frozen=True, slots=True)
class NumberSource:
    """A number, or a time as one; `there` is the condition under which it is not NULL, and `largest` what it cannot exceed."""

    text: str
    there: str
    largest: float
    unit: str
    """What it counts: only numbers of one unit can be compared."""


class PredicateSource:
    """Writes the predicates of one filter."""

    def __init__(self, row_filter: RowFilter, name_of: NameOfArray) -> None:
        self.name_of, self.dialect = name_of, row_filter.dialect
        self.columns: dict[Term, Column] = {term: column for term, _, column in row_filter.values}
        self.positions = {attribute_of(term): position for term, position, _ in row_filter.values}

    def condition(self, expression: Expression) -> str:
        """Return the condition under which an expression is true; raise UnwrittenError if it cannot be written."""
        try:
            return self.truth(expression).true
        except QueryError:  # it has no value for some code, which may never be asked for
            raise UnwrittenError from None

    def truth(self, expression: Expression) -> TruthSource:
        """Return a condition."""
        attributes = attributes_of(expression)
        if len(attributes) == 1:
            return self._looked_up(expression, attributes[0])
        if not isinstance(expression, Call) or not attributes:
            raise UnwrittenError
        match expression.function, expression.arguments:
            case ("and" | "or") as function, parts:
                found = [self.truth(part) for part in parts]
                one, other = (" and ", " or ") if function == "and" else (" or ", " and ")
                return TruthSource(_joined(one, [p.true for p in found]), _joined(other, [p.false for p in found]))
            case "not", (part,):
                inner = self.truth(part)
                return TruthSource(inner.false, inner.true)
            case function, (left, right) if function in OPERATORS:
                return self._comparison(function, left, right)
        raise UnwrittenError

    def _looked_up(self, expression: Expression, attribute: str) -> TruthSource:
        found = self._by_code(expression)
        if not pa.types.is_boolean(found.type):
            raise UnwrittenError
        values = np.where(np.asarray(found.is_null()), UNKNOWN, np.asarray(found.fill_null(False)).astype(np.uint8))
        value = f"{self.name_of(values.astype(np.uint8))}[x{self.positions[attribute]}]"
        return TruthSource(f"{value} == {TRUE}", f"{value} == {FALSE}")

    def _by_code(self, expression: Expression) -> pa.Array:
        def values(term: str | Property) -> pa.Array:
            column = self.columns[term]
            return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

        rows = next((len(self.columns[term]) for term in self.columns if attribute_of(term) in attributes_of(expression)), 1)
        return Evaluation(values, rows, self.dialect).of(expression)

    def _comparison(self, op: str, left: Expression, right: Expression) -> TruthSource:
        sides = attributes_of(left), attributes_of(right)
        if len(sides[0]) == len(sides[1]) == 1:
            return self._by_keys(op, left, right)
        one, other = self.number(left), self.number(right)
        if one.unit != other.unit:
            raise UnwrittenError
        held = f"{one.text} {OPERATORS[op].source} {other.text}"
        there = _joined(" and ", [text for text in (one.there, other.there) if text])
        return _known(held, there)

    def _by_keys(self, op: str, left: Expression, right: Expression) -> TruthSource:
        """Compare values of any kind by integers in their order."""
        columns = [pa.chunked_array([self._by_code(side)]) for side in (left, right)]
        if kind(columns[0].type) is None or kind(columns[0].type) != kind(columns[1].type):
            raise UnwrittenError
        places = [f"x{self.positions[attributes_of(side)[0]]}" for side in (left, right)]
        keys = [f"{self.name_of(each)}[{x}]" for each, x in zip(joint_keys(*columns), places, strict=True)]
        present = [presence(column, with_nan=True) for column in columns]
        if self.dialect == "cypher" and any((presence(c) != there).any() for c, there in zip(columns, present, strict=True)):
            raise UnwrittenError  # comparisons with NaN are false there, except for !=
        there = [
            f"{self.name_of(each.view(np.uint8))}[{x}] == 1" for each, x in zip(present, places, strict=True) if not each.all()
        ]
        return _known(f"{keys[0]} {OPERATORS[op].source} {keys[1]}", _joined(" and ", there))

    def number(self, expression: Expression) -> NumberSource:
        """Return a number or a time."""
        attributes = attributes_of(expression)
        if len(attributes) <= 1:
            return self._number_by_code(expression, attributes)
        if not isinstance(expression, Call) or expression.function not in ("+", "-", "*"):
            raise UnwrittenError
        one, other = map(self.number, expression.arguments)
        unit = _units(expression.function, one.unit, other.unit)
        largest = one.largest * other.largest if expression.function == "*" else one.largest + other.largest
        if largest >= (MAX_DOUBLE if unit == "double" else MAX_WHOLE_NUMBER):
            raise UnwrittenError
        there = _joined(" and ", [text for text in (one.there, other.there) if text])
        return NumberSource(f"({one.text} {expression.function} {other.text})", there, largest, unit)

    def _number_by_code(self, expression: Expression, attributes: tuple[str, ...]) -> NumberSource:
        found = self._by_code(expression)
        unit, array = _as_numbers(found)
        present = np.asarray(found.is_valid())
        values = np.ascontiguousarray(array)
        shown = values[present]
        if not np.isfinite(shown).all():
            raise UnwrittenError
        largest = float(np.abs(shown.astype(np.float64)).max()) if len(shown) else 0.0
        at = f"x{self.positions[attributes[0]]}" if attributes else "0"
        there = "" if present.all() else f"{self.name_of(present.view(np.uint8))}[{at}] == 1"
        return NumberSource(f"{self.name_of(values)}[{at}]", there, largest, unit)


def _as_numbers(found: pa.Array) -> tuple[str, NDArray[np.generic]]:
    """Return values as numbers, and what they count."""
    if pa.types.is_integer(found.type) and found.type != pa.uint64():
        return "integer", found.cast(pa.int64()).fill_null(0).to_numpy()
    if pa.types.is_floating(found.type):
        return "double", found.cast(pa.float64()).fill_null(0.0).to_numpy()
    if pa.types.is_timestamp(found.type):
        zone = found.type.tz is not None
        micros = found.cast(pa.timestamp("us", found.type.tz), safe=False).cast(pa.int64())
        return "time with a zone" if zone else "time", micros.fill_null(0).to_numpy()
    if pa.types.is_duration(found.type):
        return "span", found.cast(pa.duration("us")).cast(pa.int64()).fill_null(0).to_numpy()
    raise UnwrittenError


def _units(function: str, one: str, other: str) -> str:
    """Return what a sum, a difference or a product counts."""
    times = ("time", "time with a zone")
    if one == other and one in ("integer", "double"):
        return one
    if function == "-" and one == other and one in times:
        return "span"
    if function in "+-" and one in (*times, "span") and other == "span":
        return one
    if function == "+" and one == "span" and other in times:
        return other
    raise UnwrittenError


def _known(held: str, there: str) -> TruthSource:
    """Return a comparison that is unknown where a side is NULL."""
    if not there:
        return TruthSource(f"({held})", f"(not ({held}))")
    return TruthSource(f"({there} and {held})", f"({there} and not ({held}))")


def _joined(word: str, texts: list[str]) -> str:
    return f"({word.join(texts)})" if len(texts) > 1 else "".join(texts)
