"""Bind a plan to an index: names become arrays, attributes become positions in a prefix, constants become codes and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary
from bigjoin.index.trie import Codes, Trie
from bigjoin.kernels import compare
from bigjoin.query.plan import Extender, Plan, Restriction, Version
from bigjoin.query.query import Comparison, Constant
from bigjoin.query.statistics import Statistics

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


class Relations(Protocol):
    """What binding needs of an index; a whole one, a worker's shard and a versioned one all offer it."""

    @property
    def statistics(self) -> Statistics: ...
    @property
    def dictionaries(self) -> dict[str, Dictionary]: ...
    def extensions(self, relation: str, columns: tuple[int, ...], version: Version = ...) -> Trie: ...


@dataclass(frozen=True, slots=True)
class BoundExtender:
    """The lists of an extender, and where in a prefix its key stands."""

    trie: Trie
    key: tuple[int, ...]
    value: int

    def nodes(self, prefixes: Codes) -> NDArray[Any]:
        """Return the node of each prefix's list."""
        return self.trie.nodes([prefixes[k] for k in self.key], prefixes.shape[1])

    def holds(self, prefixes: Codes) -> NDArray[np.bool_]:
        """Tell for each prefix, which binds the whole atom, whether the relation holds it."""
        return self.trie.contains([prefixes[k] for k in (*self.key, self.value)])


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


@dataclass(frozen=True)
class BoundStep:
    """A Step over arrays. `marks` is scratch space, a zero for every code of the attribute's domain."""

    attribute: str
    extenders: tuple[BoundExtender, ...]
    excluders: tuple[BoundExtender, ...]
    checks: tuple[tuple[BoundExtender, bool], ...]
    window: Window
    filters: tuple[Filter, ...]
    marks: NDArray[np.uint8]

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """The positions of a prefix that decide its extension set, before late filters."""
        keys = {p for extender in (*self.extenders, *self.excluders) for p in extender.key}
        return tuple(sorted(keys.union(self.window.below, self.window.above, self.window.equal)))

    @cached_property
    def late_filters(self) -> tuple[Filter, ...]:
        """The filters that read more of a prefix than the rest of the step does."""
        return tuple(f for f in self.filters if f.position is not None and f.position not in self.reads)

    @cached_property
    def early_filters(self) -> tuple[Filter, ...]:
        return tuple(f for f in self.filters if f not in self.late_filters)

    @property
    def counts_suffice(self) -> bool:
        """Whether the length of one list is the number of extensions, with nothing to intersect or filter."""
        return len(self.extenders) == 1 and not (self.excluders or self.checks or self.filters)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a seed's attribute must satisfy by itself."""

    window: Window
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class BoundSeed:
    """The seed's tuples, what else its attributes must satisfy (attribute by attribute), and the positions worth reading."""

    extender: BoundExtender
    columns: tuple[int, ...]
    repeats: tuple[tuple[int, int], ...]
    checks: tuple[tuple[BoundExtender, bool], ...]
    conditions: tuple[Condition, ...]
    positions: tuple[int, int]


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan ready to run against the arrays of one index."""

    plan: Plan
    seed: BoundSeed
    steps: tuple[BoundStep, ...]
    head: tuple[int, ...]
    dictionaries: tuple[Dictionary, ...]
    """The dictionary of each attribute of the head."""


def bind(plan: Plan, index: Relations) -> BoundPlan:
    """Bind a plan; raise QueryError where a constant cannot be compared with the ids."""
    order = plan.attributes
    domains = _domains(plan, index.statistics)
    dictionaries = {a: index.dictionaries[domains[a]] for a in order}
    marks = {name: np.zeros(size, np.uint8) for name, size in index.statistics.domains.items()}

    def extender(e: Extender) -> BoundExtender:
        trie = index.extensions(e.atom.relation, e.columns, e.version)
        return BoundExtender(trie, tuple(order.index(a) for a in e.key), order.index(e.attribute))

    def checks(extenders: Sequence[Extender]) -> tuple[tuple[BoundExtender, bool], ...]:
        return tuple((extender(e), not e.atom.negated) for e in extenders)

    def constraints(
        attribute: str, restrictions: Sequence[Restriction], comparisons: Sequence[Comparison]
    ) -> tuple[Window, tuple[Filter, ...]]:
        filters = [_filter(f, order, dictionaries[attribute]) for f in comparisons if f.op != "="]
        window = _window(attribute, restrictions, comparisons, order, dictionaries[attribute])
        never = any(f is False for f in filters)
        kept = tuple(f for f in filters if isinstance(f, Filter))
        return (Window(empty=True) if never else window), kept

    steps = []
    for step in plan.steps:
        window, filters = constraints(step.attribute, step.restrictions, step.filters)
        steps.append(
            BoundStep(
                step.attribute,
                tuple(extender(e) for e in step.extenders),
                tuple(extender(e) for e in step.excluders),
                checks(step.checks),
                window,
                filters,
                marks[domains[step.attribute]],
            )
        )

    seed = plan.seed
    conditions = []
    for i, attribute in enumerate(seed.attributes):
        bound = seed.attributes[: i + 1]
        mine = [f if f.left == attribute else f.flipped() for f in seed.filters if _last(f.attributes, bound) == attribute]
        limits = [r for r in seed.restrictions if _last((r.smaller, r.larger), bound) == attribute]
        window, filters = constraints(attribute, limits, mine)
        conditions.append(Condition(window, filters))
    names = [seed.extender.atom.attributes[c] for c in seed.extender.columns]
    trie = index.extensions(seed.extender.atom.relation, seed.extender.columns, seed.extender.version)
    bound_seed = BoundSeed(
        BoundExtender(trie, (), 0),
        columns=tuple(names.index(a) for a in seed.attributes),
        repeats=tuple((names.index(a), c) for c, a in enumerate(names) if names.index(a) != c),
        checks=checks(seed.checks),
        conditions=tuple(conditions),
        positions=_seed_positions(trie, conditions[0].window),
    )
    head = tuple(order.index(a) for a in plan.query.head)
    return BoundPlan(plan, bound_seed, tuple(steps), head, tuple(dictionaries[a] for a in plan.query.head))


def _domains(plan: Plan, statistics: Statistics) -> dict[str, str]:
    return {
        a: domain
        for atom in plan.query.positive
        for a, domain in zip(atom.attributes, statistics.relations[atom.relation].domains, strict=True)
    }


def _last(attributes: Sequence[str], bound: Sequence[str]) -> str | None:
    """Return the attribute that is bound last, or None while some are not bound."""
    return max(attributes, key=bound.index) if set(attributes) <= set(bound) else None


def _seed_positions(trie: Trie, window: Window) -> tuple[int, int]:
    """Return the range of seed tuples; a constant for the first attribute leaves only its own list."""
    if window.empty:
        return 0, 0
    if not window.codes:
        return 0, len(trie)
    if len(set(window.codes)) > 1:
        return 0, 0
    code = window.codes[0]
    if not trie.keyed:
        return int(np.searchsorted(trie.values, code)), int(np.searchsorted(trie.values, code, side="right"))
    first, last = code, code + 1
    for level in trie.levels:
        first, last = int(level.offsets[first]), int(level.offsets[last])
    return first, last


def _window(
    attribute: str,
    restrictions: Sequence[Restriction],
    comparisons: Sequence[Comparison],
    order: tuple[str, ...],
    dictionary: Dictionary,
) -> Window:
    equal, codes, empty = [], [], False
    for comparison in comparisons:
        if comparison.op != "=":
            continue
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
