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
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.trie import Codes
from bigjoin.index.values import BOOLEAN, BYTES, NUMBER, TEXT, TIME, Column, constant, kind
from bigjoin.joins.properties import Mask, compared, joint_keys, presence, satisfying
from bigjoin.query.operators import BY_CODE, EQUAL, GREATER_EQUAL, LESS, NOT_EQUAL
from bigjoin.query.plan import Restriction
from bigjoin.query.query import Comparison
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


@dataclass(frozen=True, slots=True)
class Condition:
    """Everything that an attribute has to satisfy besides its atoms."""

    bounds: Bounds
    filters: tuple[Filter, ...]


def constrain(
    attribute: str,
    restrictions: Sequence[Restriction],
    comparisons: Sequence[Comparison],
    *,
    order: tuple[str, ...],
    dictionary: Dictionary | RowNumbers,
    columns: ValuesOf,
) -> Condition:
    """Bind restrictions and comparisons that have the attribute on their left.

    Raise QueryError for a constant that cannot be compared with the attribute's values.
    """
    of_ids = [f for f in comparisons if not f.properties]
    equalities = [f for f in of_ids if f.op == EQUAL.text]
    codes = [dictionary.code(_constant(f, dictionary)) for f in equalities if f.is_constant]
    filters = [_filter(f, order, dictionary) for f in of_ids if f.op != EQUAL.text]
    filters += [part for f in comparisons if f.properties for part in _property_filters(f, order, columns)]
    bounds = Bounds(
        below=tuple(order.index(r.larger) for r in restrictions if r.smaller == attribute),
        above=tuple(order.index(r.smaller) for r in restrictions if r.larger == attribute),
        equal=tuple(order.index(f.right) for f in equalities if isinstance(f.right, str)),
        codes=tuple(code for code in codes if code is not None),
        empty=None in codes,
    )
    never = any(f is False for f in filters)
    return Condition(Bounds(empty=True) if never else bounds, tuple(f for f in filters if isinstance(f, Filter)))


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


def _property_filters(comparison: Comparison, order: tuple[str, ...], columns: ValuesOf) -> list[Filter | bool]:
    """Return the filters of a comparison of properties, or its truth value if that is the same for every code."""
    assert not isinstance(comparison.left, Constant)
    left = columns(comparison.left)
    if kind(left.type) is None:
        raise _incomparable(comparison.left, left, comparison)
    if isinstance(comparison.right, Constant):
        bound = constant(comparison.right.value, left.type)
        if bound is None:
            raise _misfit(comparison, f"{comparison.left} is {left.type}", left)
        return [_mask(satisfying(left, comparison.op, bound))]
    right = columns(comparison.right)
    if kind(right.type) is None:
        raise _incomparable(comparison.right, right, comparison)
    if kind(left.type) != kind(right.type):
        message = f"'{comparison}' compares {kind(left.type)} ({left.type}) with {kind(right.type)} ({right.type})"
        raise QueryError(message, comparison.span, "compare numbers with numbers, text with text, times with times")
    keys, others = joint_keys(left, right)
    present, other_present = presence(left), presence(right)
    if attribute_of(comparison.left) == attribute_of(comparison.right):
        return [_mask(compared(comparison.operator, keys, others) & present & other_present)]
    position = order.index(attribute_of(comparison.right))
    filters: list[Filter | bool] = [Filter(comparison.operator.code, keys, position, ranks_of_other=others)]
    if not (present.all() and other_present.all()):
        # Both have a value if presence >= needed: 1 >= 1. Without the other value, needed is 2, which no presence reaches.
        needed = 2 - other_present.view(np.uint8)
        filters.append(Filter(GREATER_EQUAL.code, present.view(np.uint8), position, ranks_of_other=needed))
    return filters


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
    if wanted == TIME and given == TEXT:
        given = "no ISO date or time"
    if wanted == BYTES:
        hint = "bytes compare with bytes only: cast them to text in the source"
    return QueryError(f"{comparison.right} is {given}, but {but}", comparison.span, hint)


def _incomparable(term: Operand, column: Column, comparison: Comparison) -> QueryError:
    return QueryError(f"{term} is {column.type}, which has no order: it cannot be compared", comparison.span)


def _ranked(ranks: NDArray[Any], codes: Codes) -> NDArray[np.int64]:
    return (ranks[codes] if len(ranks) else codes).astype(np.int64)
