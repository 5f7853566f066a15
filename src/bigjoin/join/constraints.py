"""What a new attribute must satisfy beside its atoms: a window of codes, and comparisons of ids.

Restrictions and equalities become windows, which cut a sorted list before it is counted. All other comparisons become filters
over the ranks of ids (over codes, for `!=`), which look at candidates one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary
from bigjoin.index.trie import Codes
from bigjoin.kernels import compare
from bigjoin.query.plan import Restriction
from bigjoin.query.query import Comparison, Constant

OPERATORS = {
    "<": compare.LESS,
    "<=": compare.LESS_EQUAL,
    ">": compare.GREATER,
    ">=": compare.GREATER_EQUAL,
    "!=": compare.NOT_EQUAL,
}


COMPARE: dict[int, Any] = {
    compare.LESS: np.less,
    compare.LESS_EQUAL: np.less_equal,
    compare.GREATER: np.greater,
    compare.GREATER_EQUAL: np.greater_equal,
    compare.NOT_EQUAL: np.not_equal,
}


@dataclass(frozen=True, slots=True)
class Window:
    """Bounds on the codes of a new attribute: from restrictions, and from equalities with attributes and constants."""

    below: tuple[int, ...] = ()
    above: tuple[int, ...] = ()
    equal: tuple[int, ...] = ()
    codes: tuple[int, ...] = ()
    empty: bool = False

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
    """A comparison of a new attribute with a constant, or with the attribute at `position`; empty ranks compare codes."""

    operator: int
    ranks: NDArray[Any]
    position: int | None
    constant: int

    def others(self, prefixes: Codes) -> NDArray[Any]:
        """Return the other side for each prefix."""
        if self.position is None:
            return np.full(prefixes.shape[1], self.constant, np.int64)
        return self._ranked(prefixes[self.position])

    def allows(self, codes: Codes, prefixes: Codes) -> NDArray[np.bool_]:
        """Tell for each code whether the comparison holds in the prefix beside it."""
        return np.asarray(COMPARE[self.operator](self._ranked(codes), self.others(prefixes)))

    def _ranked(self, codes: Codes) -> NDArray[np.int64]:
        return (self.ranks[codes] if len(self.ranks) else codes).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Condition:
    """Everything that an attribute must satisfy beside its atoms."""

    window: Window
    filters: tuple[Filter, ...]


def constrain(
    attribute: str,
    restrictions: Sequence[Restriction],
    comparisons: Sequence[Comparison],
    order: tuple[str, ...],
    dictionary: Dictionary,
) -> Condition:
    """Bind restrictions and comparisons, which have the attribute on their left; raise QueryError for a constant of no use."""
    filters = [_filter(f, order, dictionary) for f in comparisons if f.op != "="]
    window = _window(attribute, restrictions, [f for f in comparisons if f.op == "="], order, dictionary)
    if any(f is False for f in filters):
        window = Window(empty=True)
    return Condition(window, tuple(f for f in filters if isinstance(f, Filter)))


def _window(
    attribute: str,
    restrictions: Sequence[Restriction],
    comparisons: Sequence[Comparison],
    order: tuple[str, ...],
    dictionary: Dictionary,
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


def _filter(comparison: Comparison, order: tuple[str, ...], dictionary: Dictionary) -> Filter | bool:
    """Return the filter, or what it comes to for every id: True or False."""
    by_code = np.empty(0, dictionary.ranks.dtype)
    if isinstance(comparison.right, str):
        if comparison.right == comparison.left:
            return comparison.op in ("<=", ">=")
        ranks = by_code if comparison.op == "!=" else dictionary.ranks
        return Filter(OPERATORS[comparison.op], ranks, order.index(comparison.right), 0)
    value = _constant(comparison, dictionary)
    if comparison.op == "!=":
        code = dictionary.code(value)
        return True if code is None else Filter(compare.NOT_EQUAL, by_code, None, code)
    smaller = dictionary.smaller(value, or_equal=comparison.op in ("<=", ">"))
    operator = compare.LESS if comparison.op in ("<", "<=") else compare.GREATER_EQUAL
    return Filter(operator, dictionary.ranks, None, smaller)


def _constant(comparison: Comparison, dictionary: Dictionary) -> Any:
    assert isinstance(comparison.right, Constant)
    value = comparison.right.value
    if not dictionary.comparable(value):
        kind = "text" if isinstance(value, str) else "a number"
        hint = f"write {comparison.left} {comparison.op} " + ("5" if isinstance(value, str) else f'"{value}"')
        message = f"{comparison.right} is {kind}, but the ids of {comparison.left!r} are {dictionary.ids.type}"
        raise QueryError(message, comparison.span, hint)
    return value


def _fold(combine: Any, bounds: list[Codes], kind: Any) -> Codes:
    if not bounds:
        return np.empty(0, kind)
    result = bounds[0]
    for bound in bounds[1:]:
        result = combine(result, bound)
    return result
