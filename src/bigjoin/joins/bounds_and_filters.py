"""What a new attribute has to satisfy besides its atoms: bounds on its codes, and comparisons of ids and properties.

Restrictions and equalities of ids become bounds, which cut a sorted list before it is counted. All other comparisons become
filters, which test candidates one by one through an array indexed by code: the ranks of ids (for `!=`, the codes themselves),
a one for each code that satisfies a constant, or integers in the order of a property's values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.trie import Codes
from bigjoin.index.values import BOOLEAN, BYTES, NUMBER, TEXT, TIME, Column, constant, kind, take
from bigjoin.joins.evaluate import Evaluation
from bigjoin.joins.properties import Mask, compared, joint_keys, presence, satisfying
from bigjoin.joins.time_functions import as_times
from bigjoin.query.expressions import Call, Expression, attributes_of, terms_of
from bigjoin.query.operators import BY_CODE, EQUAL, GREATER_EQUAL, LESS, NOT_EQUAL, OPERATORS
from bigjoin.query.plan import Restriction
from bigjoin.query.query import Comparison, Dialect, Predicate, QueryFilter
from bigjoin.query.terms import Constant, Operand, Term, attribute_of

ValuesOf: TypeAlias = Callable[[Term], Column]
"""Returns the values of a term by code: the ids of an attribute, or a property of them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the codes of a new attribute: from restrictions, and from equalities with attributes and constants."""

    below: tuple[int, ...] = ()
    """Positions in the prefix whose codes are upper bounds."""
    above: tuple[int, ...] = ()
    """Positions whose codes are lower bounds."""
    equal: tuple[int, ...] = ()
    """Positions whose codes it has to equal."""
    codes: tuple[int, ...] = ()
    """The codes of constants that it has to equal."""
    empty: bool = False
    """Whether no code can satisfy the conditions."""

    @property
    def bounded(self) -> tuple[bool, bool]:
        """Whether there are lower bounds, and whether there are upper bounds."""
        both = bool(self.equal or self.codes)
        return not self.empty and (both or bool(self.above)), self.empty or both or bool(self.below)

    def bounds_of(self, prefixes: Codes) -> tuple[Codes, Codes]:
        """Return (lower, upper) for each prefix, lower included and upper excluded; an empty array means no bound."""
        kind, count = prefixes.dtype.type, prefixes.shape[1]
        if self.empty:
            return np.empty(0, kind), np.zeros(count, kind)
        lowers = [prefixes[p] + kind(1) for p in self.above] + [prefixes[p] for p in self.equal]
        uppers = [prefixes[p] for p in self.below] + [prefixes[p] + kind(1) for p in self.equal]
        lowers += [np.full(count, code, kind) for code in self.codes]
        uppers += [np.full(count, code + 1, kind) for code in self.codes]
        none = np.empty(0, kind)
        return reduce(np.maximum, lowers) if lowers else none, reduce(np.minimum, uppers) if uppers else none


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A comparison of a new attribute with a constant, or with the attribute at `position`, through arrays indexed by code.

    Empty ranks mean that codes are compared. The other attribute uses the same ranks unless it has its own.
    """

    operator: int
    """The code of an entry of OPERATORS: kernels take numbers."""
    ranks: NDArray[Any]
    position: int | None
    constant: int = 0
    ranks_of_other: NDArray[Any] | None = None
    unless: tuple[tuple[int, int], ...] = ()
    """Pairs of positions: it holds anyway where the codes of a pair differ."""

    @property
    def by_code(self) -> bool:
        return len(self.ranks) == 0

    @property
    def drops_one(self) -> bool:
        """Whether it drops at most one candidate of each prefix: `!=` between two attributes."""
        return self.by_code and self.operator == NOT_EQUAL.code and self.position is not None and not self.unless

    @property
    def reads(self) -> tuple[int, ...]:
        """The positions of a prefix that it looks at."""
        return (*(() if self.position is None else (self.position,)), *(p for pair in self.unless for p in pair))

    def others(self, prefixes: Codes) -> NDArray[Any]:
        """Return the right-hand side for each prefix."""
        if self.position is None:
            return np.full(prefixes.shape[1], self.constant, np.int64)
        others = _ranked(self.ranks if self.ranks_of_other is None else self.ranks_of_other, prefixes[self.position])
        for one, other in self.unless:
            others = np.where(prefixes[one] == prefixes[other], others, -1)  # which no code equals
        return others

    def allows(self, codes: Codes, prefixes: Codes) -> NDArray[np.bool_]:
        """Tell for each code whether the comparison holds in its prefix."""
        return compared(BY_CODE[self.operator], _ranked(self.ranks, codes), self.others(prefixes))


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """A predicate that is evaluated for the prefixes that reach it, since no arrays by code say whether it holds."""

    predicate: Predicate
    values: tuple[tuple[Term, int, Column], ...]
    """The terms that it reads: the position of each in a prefix, and its values by code."""
    dialect: Dialect

    def allows(self, prefixes: Codes) -> Mask:
        """Tell for each prefix whether the predicate is true; raise QueryError where evaluating it is an error."""
        found = {term: take(column, prefixes[position]) for term, position, column in self.values}
        return Evaluation(found.__getitem__, prefixes.shape[1], self.dialect).where(self.predicate.expression)


@dataclass(frozen=True, slots=True)
class Condition:
    """Everything that an attribute has to satisfy besides its atoms."""

    bounds: Bounds
    filters: tuple[Filter, ...]
    row_filters: tuple[RowFilter, ...] = ()
    """Applied last, to whole prefixes."""


def constrain(
    attribute: str,
    restrictions: Sequence[Restriction],
    conditions: Sequence[QueryFilter],
    *,
    order: tuple[str, ...],
    dictionary: Callable[[], Dictionary | RowNumbers],
    columns: ValuesOf,
    dialect: Dialect,
) -> Condition:
    """Bind restrictions, comparisons that have the attribute on their left, and predicates that it decides.

    `dictionary` opens the dictionary of the attribute's domain, which takes a while, and only happens where ids are compared.
    Raise QueryError for a constant that cannot be compared with the attribute's values.
    """
    comparisons = [f for f in conditions if isinstance(f, Comparison)]
    bound = [_predicate(f, attribute, order, columns, dialect) for f in conditions if isinstance(f, Predicate)]
    of_ids = [f for f in comparisons if not f.properties]
    equalities = [f for f in of_ids if f.op == EQUAL.text]
    ids = dictionary() if of_ids else RowNumbers(0)
    codes = [ids.code(_constant(f, ids)) for f in equalities if f.is_constant]
    filters = [_filter(f, order, ids) for f in of_ids if f.op != EQUAL.text]
    filters += [part for f in comparisons if f.properties for part in _property_filters(f, order, columns, dialect)]
    filters += [part for parts in bound for part in parts if not isinstance(part, RowFilter)]
    bounds = Bounds(
        below=tuple(order.index(r.larger) for r in restrictions if r.smaller == attribute),
        above=tuple(order.index(r.smaller) for r in restrictions if r.larger == attribute),
        equal=tuple(order.index(f.right) for f in equalities if isinstance(f.right, str)),
        codes=tuple(code for code in codes if code is not None),
        empty=None in codes,
    )
    never = any(f is False for f in filters)
    rows = tuple(part for parts in bound for part in parts if isinstance(part, RowFilter))
    return Condition(Bounds(empty=True) if never else bounds, tuple(f for f in filters if isinstance(f, Filter)), rows)


def _predicate(
    predicate: Predicate, attribute: str, order: tuple[str, ...], columns: ValuesOf, dialect: Dialect
) -> list[Filter | bool] | list[RowFilter]:
    """Return a predicate as filters over arrays by code if these can decide it, otherwise as one over prefixes.

    They can if it is about one attribute, or if it compares what is computed from the new attribute with what is computed from
    one other. What would be an error for some code is decided for prefixes: nobody may ever ask for that code.
    """
    call, others = predicate.expression, [a for a in predicate.attributes if a != attribute]

    def by_code(expression: Expression) -> pa.Array:
        terms = terms_of(expression)
        return Evaluation(columns, len(columns(terms[0])), dialect).of(expression)

    try:
        if not others:
            return [_mask(Evaluation(columns, len(columns(terms_of(call)[0])), dialect).where(call))]
        sides = [attributes_of(side) for side in call.arguments]
        if call.function in OPERATORS and sorted(sides) == sorted([(attribute,), (others[0],)]) and len(others) == 1:
            led = call if sides[0] == (attribute,) else Call(OPERATORS[call.function].flipped, call.arguments[::-1], call.span)
            sides_by_code = [by_code(side) for side in led.arguments]
            if len({getattr(side.type, "tz", None) for side in sides_by_code}) > 1:  # times of clocks are meant in that zone
                sides_by_code = as_times(sides_by_code)
            left, right = (pa.chunked_array([side]) for side in sides_by_code)
            if kind(left.type) is not None and kind(left.type) == kind(right.type):
                return _joint_filters(led.function, left, right, order.index(others[0]), dialect)
    except QueryError:
        pass
    values = tuple((term, order.index(attribute_of(term)), columns(term)) for term in terms_of(call))
    return [RowFilter(predicate, values, dialect)]


def _filter(comparison: Comparison, order: tuple[str, ...], dictionary: Dictionary | RowNumbers) -> Filter | bool:
    """Return the filter of a comparison of ids other than `=`, or its truth value if that is the same for every id."""
    operator, by_code = comparison.operator, np.empty(0, np.uint32)
    if isinstance(comparison.right, str):
        if comparison.right == comparison.left and not comparison.also:
            return operator.reflexive
        unless = tuple((order.index(a), order.index(b)) for a, b in comparison.also)
        ranks = by_code if operator.symmetric else dictionary.ranks
        return Filter(operator.code, ranks, order.index(comparison.right), unless=unless)
    value = _constant(comparison, dictionary)
    if operator.symmetric:
        code = dictionary.code(value)
        return True if code is None else Filter(operator.code, by_code, None, code)
    # The ids below the constant (or up to it) are those whose rank is below the number of such ids.
    smaller = dictionary.smaller(value, or_equal=operator.reflexive == operator.is_less)
    return Filter((LESS if operator.is_less else GREATER_EQUAL).code, dictionary.ranks, None, smaller)


def _property_filters(
    comparison: Comparison, order: tuple[str, ...], columns: ValuesOf, dialect: Dialect
) -> list[Filter | bool]:
    """Return the filters of a comparison of properties, or its truth value if that is the same for every code."""
    assert not isinstance(comparison.left, Constant)
    left = columns(comparison.left)
    if kind(left.type) is None:
        raise _incomparable(comparison.left, left, comparison)
    if isinstance(comparison.right, Constant):
        bound = constant(comparison.right.value, left.type)
        if bound is None:
            raise _misfit(comparison, f"{comparison.left} is {left.type}", left)
        return [_mask(satisfying(left, comparison.op, bound, with_nan=with_nan(comparison.op, dialect)))]
    right = columns(comparison.right)
    if kind(right.type) is None:
        raise _incomparable(comparison.right, right, comparison)
    if kind(left.type) != kind(right.type):
        message = f"'{comparison}' compares {kind(left.type)} ({left.type}) with {kind(right.type)} ({right.type})"
        raise QueryError(message, comparison.span, "compare numbers with numbers, text with text, times with times")
    if attribute_of(comparison.left) == attribute_of(comparison.right):
        keys, others = joint_keys(left, right, nan_differs=dialect == "cypher")
        there, other_there = (presence(side, with_nan=with_nan(comparison.op, dialect)) for side in (left, right))
        return [_mask(compared(comparison.operator, keys, others) & there & other_there)]
    return _joint_filters(comparison.op, left, right, order.index(attribute_of(comparison.right)), dialect)


def _joint_filters(op: str, left: Column, right: Column, position: int, dialect: Dialect) -> list[Filter | bool]:
    """Return the filters that compare values of the new attribute with those of the attribute at a position."""
    keys, others = joint_keys(left, right, nan_differs=dialect == "cypher")
    present, other_present = (presence(side, with_nan=with_nan(op, dialect)) for side in (left, right))
    filters: list[Filter | bool] = [Filter(OPERATORS[op].code, keys, position, ranks_of_other=others)]
    if not (present.all() and other_present.all()):
        # Both have a value if presence >= needed: 1 >= 1. Without the other value, needed is 2, which no presence reaches.
        needed = 2 - other_present.view(np.uint8)
        filters.append(Filter(GREATER_EQUAL.code, present.view(np.uint8), position, ranks_of_other=needed))
    return filters


def with_nan(op: str, dialect: Dialect) -> bool:
    """Tell whether a comparison can be true of NaN: in Cypher, NaN only differs from everything, itself included."""
    return dialect == "sql" or op == NOT_EQUAL.text


def _mask(holds: Mask) -> Filter | bool:
    if holds.all() or not holds.any():
        return bool(len(holds)) and bool(holds[0])
    return Filter(NOT_EQUAL.code, holds.view(np.uint8), None, 0)


def _constant(comparison: Comparison, dictionary: Dictionary | RowNumbers) -> Any:
    assert isinstance(comparison.right, Constant)
    if not dictionary.comparable(comparison.right.value):
        raise _misfit(comparison, f"the ids of {comparison.left!r} are {dictionary.type}", dictionary)
    return comparison.right.value


def _misfit(comparison: Comparison, but: str, values: Column | Dictionary | RowNumbers) -> QueryError:
    """Return the error for a constant that cannot be compared with the values on its left."""
    assert isinstance(comparison.right, Constant)
    value, wanted = comparison.right.value, kind(values.type)
    given = BOOLEAN if isinstance(value, bool) else TEXT if isinstance(value, str) else NUMBER
    examples = {NUMBER: "5", TEXT: f'"{value}"', TIME: '"2024-05-31" or "2024-05-31 12:30:00"', BOOLEAN: "true"}
    hint = f"write {comparison.left} {comparison.op} {examples[wanted]}" if wanted in examples else None
    if (wanted, given) == (TEXT, NUMBER) and comparison.properties and not comparison.operator.symmetric:  # "44,48" is text
        as_number = f"cast({comparison.left} as double) {comparison.op} {value}"
        hint = f"to compare numbers, write {as_number}; to compare text, {comparison.left} {comparison.op} {examples[TEXT]}"
    if wanted == TIME and given == TEXT:
        given = "no ISO date or time"
    if wanted == BYTES:
        hint = "bytes compare with bytes only: cast them to text in the source"
    return QueryError(f"{comparison.right} is {given}, but {but}", comparison.span, hint)


def _incomparable(term: Operand, column: Column, comparison: Comparison) -> QueryError:
    return QueryError(f"{term} is {column.type}, which has no order: it cannot be compared", comparison.span)


def _ranked(ranks: NDArray[Any], codes: Codes) -> NDArray[np.int64]:
    return (ranks[codes] if len(ranks) else codes).astype(np.int64)
