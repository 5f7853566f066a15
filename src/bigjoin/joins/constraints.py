"""What a new attribute must satisfy beside its atoms: a window of codes, and comparisons of ids and properties.

Restrictions and equalities of ids become windows, which cut a sorted list before it is counted. All other comparisons become
filters over arrays by code, which look at candidates one by one: the ranks of ids (codes, for `!=`), a one for each code that
satisfies a constant, or integers in the order of a property's values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.trie import Codes
from bigjoin.index.values import BOOLEAN, BYTES, NUMBER, TEXT, TIME, Column, constant, kind
from bigjoin.joins.properties import COMPARE, joint_keys, presence, satisfying
from bigjoin.kernels import compare
from bigjoin.query.plan import Restriction
from bigjoin.query.query import Comparison
from bigjoin.query.terms import Constant, Operand, Term, attribute_of

OPERATORS = {
    "<": compare.LESS,
    "<=": compare.LESS_EQUAL,
    ">": compare.GREATER,
    ">=": compare.GREATER_EQUAL,
    "!=": compare.NOT_EQUAL,
    "=": compare.EQUAL,
}
_COMPARE = {OPERATORS[op]: function for op, function in COMPARE.items()}

Columns: TypeAlias = Callable[[Term], Column]
"""The values of a term by code: the ids of an attribute, or a property of them."""


@dataclass(frozen=True, slots=True)
class Window:
    """Bounds on the codes of a new attribute: from restrictions, and from equalities with attributes and constants."""

    below: tuple[int, ...] = ()
    above: tuple[int, ...] = ()
    equal: tuple[int, ...] = ()
    codes: tuple[int, ...] = ()
    empty: bool = False

    @property
    def bounded(self) -> tuple[bool, bool]:
        """Whether there are lower bounds, and upper ones."""
        both = bool(self.equal or self.codes)
        return not self.empty and (both or bool(self.above)), self.empty or both or bool(self.below)

    def bounds(self, prefixes: Codes) -> tuple[Codes, Codes]:
        """Return (lower, upper) for each prefix, lower included and upper not; an empty array is no bound."""
        kind, count = prefixes.dtype.type, prefixes.shape[1]
        if self.empty:
            return np.empty(0, kind), np.zeros(count, kind)
        lowers = [prefixes[p] + kind(1) for p in self.above] + [prefixes[p] for p in self.equal]
        uppers = [prefixes[p] for p in self.below] + [prefixes[p] + kind(1) for p in self.equal]
        lowers += [np.full(count, code, kind) for code in self.codes]
        uppers += [np.full(count, code + 1, kind) for code in self.codes]
        return _fold(np.maximum, lowers, kind), _fold(np.minimum, uppers, kind)


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A comparison of a new attribute with a constant, or with the attribute at `position`, through arrays by code.

    Empty ranks compare codes. The other attribute is looked up in the same ranks, unless it has some of its own.
    """

    operator: int
    ranks: NDArray[Any]
    position: int | None
    constant: int = 0
    ranks_of_other: NDArray[Any] | None = None

    @property
    def by_code(self) -> bool:
        return len(self.ranks) == 0

    @property
    def drops_one(self) -> bool:
        """Whether it refuses at most one candidate of each prefix: `!=` between two attributes."""
        return self.by_code and self.operator == compare.NOT_EQUAL and self.position is not None

    def others(self, prefixes: Codes) -> NDArray[Any]:
        """Return the other side for each prefix."""
        if self.position is None:
            return np.full(prefixes.shape[1], self.constant, np.int64)
        return _ranked(self.ranks if self.ranks_of_other is None else self.ranks_of_other, prefixes[self.position])

    def allows(self, codes: Codes, prefixes: Codes) -> NDArray[np.bool_]:
        """Tell for each code whether the comparison holds in the prefix beside it."""
        return np.asarray(_COMPARE[self.operator](_ranked(self.ranks, codes), self.others(prefixes)))


@dataclass(frozen=True, slots=True)
class Condition:
    """Everything that an attribute must satisfy beside its atoms."""

    window: Window
    filters: tuple[Filter, ...]


def constrain(
    attribute: str,
    restrictions: Sequence[Restriction],
    comparisons: Sequence[Comparison],
    *,
    order: tuple[str, ...],
    dictionary: Dictionary | RowNumbers,
    columns: Columns,
) -> Condition:
    """Bind restrictions and comparisons, which have the attribute on their left; raise QueryError for a constant of no use."""
    of_ids = [f for f in comparisons if not f.properties]
    window = _window(attribute, restrictions, [f for f in of_ids if f.op == "="], order, dictionary)
    filters = [_filter(f, order, dictionary) for f in of_ids if f.op != "="]
    filters += [part for f in comparisons if f.properties for part in _property_filters(f, order, columns)]
    if any(f is False for f in filters):
        window = Window(empty=True)
    return Condition(window, tuple(f for f in filters if isinstance(f, Filter)))


def _window(
    attribute: str,
    restrictions: Sequence[Restriction],
    comparisons: Sequence[Comparison],
    order: tuple[str, ...],
    dictionary: Dictionary | RowNumbers,
) -> Window:
    equal, codes, empty = [], [], False
    for comparison in comparisons:
        if isinstance(comparison.right, str):
            equal.append(order.index(comparison.right))
            continue
        code = dictionary.code(_constant(comparison, dictionary))
        empty |= code is None
        codes += [] if code is None else [code]
    return Window(
        below=tuple(order.index(r.larger) for r in restrictions if r.smaller == attribute),
        above=tuple(order.index(r.smaller) for r in restrictions if r.larger == attribute),
        equal=tuple(equal),
        codes=tuple(codes),
        empty=empty,
    )


def _filter(comparison: Comparison, order: tuple[str, ...], dictionary: Dictionary | RowNumbers) -> Filter | bool:
    """Return the filter of a comparison of ids, or what it comes to for every id: True or False."""
    by_code = np.empty(0, np.uint32)
    if isinstance(comparison.right, str):
        if comparison.right == comparison.left:
            return comparison.op in ("<=", ">=")
        ranks = by_code if comparison.op == "!=" else dictionary.ranks
        return Filter(OPERATORS[comparison.op], ranks, order.index(comparison.right))
    value = _constant(comparison, dictionary)
    if comparison.op == "!=":
        code = dictionary.code(value)
        return True if code is None else Filter(compare.NOT_EQUAL, by_code, None, code)
    smaller = dictionary.smaller(value, or_equal=comparison.op in ("<=", ">"))
    operator = compare.LESS if comparison.op in ("<", "<=") else compare.GREATER_EQUAL
    return Filter(operator, dictionary.ranks, None, smaller)


def _property_filters(comparison: Comparison, order: tuple[str, ...], columns: Columns) -> list[Filter | bool]:
    """Return the filters that a comparison of properties is, or what it comes to for every code."""
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
        found = COMPARE[comparison.op](keys, others)
        return [_mask(found & (True if present is None else present) & (True if other_present is None else other_present))]
    position = order.index(attribute_of(comparison.right))
    filters: list[Filter | bool] = [Filter(OPERATORS[comparison.op], keys, position, ranks_of_other=others)]
    if present is not None or other_present is not None:
        # Both are there where one's presence is at least 1, raised to 2 by the other's absence.
        mine = np.ones(len(left), np.uint8) if present is None else present.view(np.uint8)
        needed = np.ones(len(right), np.uint8) if other_present is None else 2 - other_present.view(np.uint8)
        filters.append(Filter(compare.GREATER_EQUAL, mine, position, ranks_of_other=needed))
    return filters


def _mask(flags: NDArray[np.bool_]) -> Filter | bool:
    if flags.all() or not flags.any():
        return bool(len(flags)) and bool(flags[0])
    return Filter(compare.NOT_EQUAL, flags.view(np.uint8), None, 0)


def _constant(comparison: Comparison, dictionary: Dictionary | RowNumbers) -> Any:
    assert isinstance(comparison.right, Constant)
    if not dictionary.comparable(comparison.right.value):
        raise _misfit(comparison, f"the ids of {comparison.left!r} are {dictionary.type}", dictionary)
    return comparison.right.value


def _misfit(comparison: Comparison, but: str, values: Column | Dictionary | RowNumbers) -> QueryError:
    """Return the error of a constant that cannot be compared with the values on its left."""
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


def _fold(combine: Any, bounds: list[Codes], kind: Any) -> Codes:
    if not bounds:
        return np.empty(0, kind)
    result = bounds[0]
    for bound in bounds[1:]:
        result = combine(result, bound)
    return result
