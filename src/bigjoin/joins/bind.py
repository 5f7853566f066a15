"""Bind a plan to an index: names become arrays, attributes become positions in a prefix, constants become codes and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.dictionary import Dictionary, RowNumbers, code_type
from bigjoin.index.trie import Codes, Trie
from bigjoin.index.values import Column, take
from bigjoin.joins.after import After
from bigjoin.joins.bounds_and_filters import Bounds, Condition, Filter, constrain
from bigjoin.joins.extender import BoundExtender, CodeBounds
from bigjoin.query.plan import Extender, Plan, Restriction
from bigjoin.query.query import Comparison, Query
from bigjoin.query.read import Read, Version
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Property, Term, attribute_of


class ReadableIndex(Protocol):
    """What binding needs of an index: an opened index provides it, and so does a phase of an epoch."""

    @property
    def statistics(self) -> Statistics: ...
    @property
    def dictionaries(self) -> Mapping[str, Dictionary | RowNumbers]: ...
    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie: ...
    def properties(self, domain: str) -> Mapping[str, Column]: ...


@dataclass(frozen=True)
class BoundStep:
    """A Step over arrays. `marks` is scratch space for kernels: a zero for every code of the attribute's domain."""

    attribute: str
    extenders: tuple[BoundExtender, ...]
    excluders: tuple[BoundExtender, ...]
    checks: tuple[tuple[BoundExtender, bool], ...]
    condition: Condition
    marks: NDArray[np.uint8]

    def bounds_of(self, prefixes: Codes) -> CodeBounds:
        """Return the bounds on the new attribute's code, for each prefix."""
        return self.condition.bounds.bounds_of(prefixes)

    @cached_property
    def late_filters(self) -> tuple[Filter, ...]:
        """The filters that drop at most one candidate of a prefix. Applied last, they do not stop neighbours sharing lists."""
        return tuple(f for f in self.condition.filters if f.drops_one)

    @cached_property
    def early_filters(self) -> tuple[Filter, ...]:
        return tuple(f for f in self.condition.filters if not f.drops_one)

    @property
    def counts_suffice(self) -> bool:
        """Whether the length of a list is the number of extensions, since there is nothing to intersect or filter."""
        return len(self.extenders) == 1 and not (self.excluders or self.checks or self.condition.filters)


@dataclass(frozen=True, slots=True)
class BoundSeed:
    """The tuples that a plan starts from, and what their attributes have to satisfy."""

    extender: BoundExtender
    columns: tuple[int, ...]
    """The column of each attribute."""
    repeats: tuple[tuple[int, int], ...]
    """Pairs of columns that have to be equal, since they bind the same attribute."""
    checks: tuple[tuple[BoundExtender, bool], ...]
    conditions: tuple[Condition, ...]
    """One for each attribute."""
    positions: tuple[int, int]
    """The range of tuples that may satisfy the conditions."""
    code_type: type[np.unsignedinteger[Any]]
    """The type of prefixes: wide enough for every attribute of the plan."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: the values of the codes at one position of the matches."""

    name: str
    position: int
    values: Dictionary | RowNumbers | Column

    @property
    def type(self) -> pa.DataType:
        return self.values.type

    def decode(self, matches: Codes) -> pa.Array:
        """Return the column's values for matches."""
        return self.values_of(matches[self.position])

    def values_of(self, codes: Codes) -> pa.Array:
        """Return the values of codes of the column's attribute."""
        return take(self.values, codes) if isinstance(self.values, pa.ChunkedArray) else self.values.decode(codes)


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan ready to run against the arrays of one index."""

    plan: Plan
    seed: BoundSeed
    steps: tuple[BoundStep, ...]
    columns: tuple[ResultColumn, ...]
    """A column for each term of the head."""

    @property
    def extenders(self) -> list[BoundExtender]:
        """All extenders, excluders and checks: everything whose lists are read for a prefix."""
        found = [extender for extender, _ in self.seed.checks]
        for step in self.steps:
            found += [*step.extenders, *step.excluders, *(extender for extender, _ in step.checks)]
        return found

    @property
    def tries(self) -> list[Trie]:
        """The tries that the plan reads, each once, in the same order in every process."""
        return list({id(extender.trie): extender.trie for extender in (self.seed.extender, *self.extenders)}.values())


class Binder:
    """Binds the parts of a plan to an index, given the attribute order, which says where each attribute is in a prefix."""

    def __init__(self, query: Query, order: tuple[str, ...], index: ReadableIndex) -> None:
        self.order, self.index = order, index
        self.domains = _domains(query, index.statistics)
        self.column = cache(self._column)

    def size(self, attribute: str) -> int:
        """Return how many codes the domain of an attribute has."""
        return self.index.statistics.domains[self.domains[attribute]]

    def extender(self, e: Extender) -> BoundExtender:
        """Return an extender with its lists."""
        trie = self.index.extensions(e.atom.read, e.columns)
        place = self.order.index
        after = None
        if e.atom.version is Version.LATER:
            known = tuple((c, place(e.atom.attributes[c])) for c in e.columns[:-1])
            symmetric = self.index.statistics.of(e.atom).symmetric
            after = After(tuple(place(a) for a in e.after), known, e.columns[-1], symmetric)
        return BoundExtender(trie, tuple(place(a) for a in e.key), place(e.attribute), after)

    def checks(self, extenders: Sequence[Extender]) -> tuple[tuple[BoundExtender, bool], ...]:
        """Return atoms whose attributes are all bound, each with whether it has to hold or must not."""
        return tuple((self.extender(e), not e.atom.negated) for e in extenders)

    def condition(self, attribute: str, restrictions: Sequence[Restriction], comparisons: Sequence[Comparison]) -> Condition:
        """Return what an attribute must satisfy besides its atoms; raise QueryError for a constant that cannot be compared."""
        dictionary = self.index.dictionaries[self.domains[attribute]]
        return constrain(attribute, restrictions, comparisons, order=self.order, dictionary=dictionary, columns=self._values)

    def _values(self, term: Term) -> Column:
        return self.column(self.domains[attribute_of(term)], term.name if isinstance(term, Property) else None)

    def _column(self, domain: str, name: str | None) -> Column:
        if name is None:
            ids = self.index.dictionaries[domain].ids
            return ids if isinstance(ids, pa.ChunkedArray) else pa.chunked_array([ids])
        return self.index.properties(domain)[name]


def bind(plan: Plan, index: ReadableIndex) -> BoundPlan:
    """Bind a plan; raise QueryError if a constant cannot be compared with the ids or properties it is compared with."""
    binder = Binder(plan.query, plan.attributes, index)
    extender, checks, condition = binder.extender, binder.checks, binder.condition
    marks = {domain: np.zeros(index.statistics.domains[domain], np.uint8) for domain in binder.domains.values()}
    steps = tuple(
        BoundStep(
            step.attribute,
            tuple(extender(e) for e in step.extenders),
            tuple(extender(e) for e in step.excluders),
            checks(step.checks),
            condition(step.attribute, step.restrictions, step.filters),
            marks[binder.domains[step.attribute]],
        )
        for step in plan.steps
    )
    seed = plan.seed
    conditions = []
    for i, attribute in enumerate(seed.attributes):
        bound = seed.attributes[: i + 1]
        mine = [f.led_by(attribute) for f in seed.filters if _last(f.attributes, bound) == attribute]
        restrictions = [r for r in seed.restrictions if _last((r.smaller, r.larger), bound) == attribute]
        conditions.append(condition(attribute, restrictions, mine))
    names = [seed.extender.atom.attributes[c] for c in seed.extender.columns]
    trie = binder.extender(seed.extender).trie
    bound_seed = BoundSeed(
        BoundExtender(trie, (), 0),
        columns=tuple(names.index(a) for a in seed.attributes),
        repeats=tuple((names.index(a), c) for c, a in enumerate(names) if names.index(a) != c),
        checks=checks(seed.checks),
        conditions=tuple(conditions),
        positions=(0, 0) if any(c.bounds.empty for c in conditions) else _seed_positions(trie, conditions[0].bounds),
        code_type=code_type(max(binder.size(a) for a in plan.attributes)),
    )
    return BoundPlan(plan, bound_seed, steps, result_columns(plan.query, plan.attributes, index))


def result_columns(query: Query, order: tuple[str, ...], index: ReadableIndex) -> tuple[ResultColumn, ...]:
    """Return the columns of a query's result: an id or a property for each term of the head."""
    domains = _domains(query, index.statistics)
    found = []
    for name, term in zip(query.columns, query.head, strict=True):
        domain = domains[attribute_of(term)]
        values: Dictionary | RowNumbers | Column = index.dictionaries[domain]
        if isinstance(term, Property) and not index.statistics.is_id(domain, term.name):
            values = index.properties(domain)[term.name]
        found.append(ResultColumn(name, order.index(attribute_of(term)), values))
    return tuple(found)


def _domains(query: Query, statistics: Statistics) -> dict[str, str]:
    return {
        a: domain for atom in query.positive for a, domain in zip(atom.attributes, statistics.of(atom).domains, strict=True)
    }


def _last(attributes: Sequence[str], bound: Sequence[str]) -> str | None:
    """Return which of some attributes is bound last; None if one of them is not bound yet."""
    return max(attributes, key=bound.index) if set(attributes) <= set(bound) else None


def _seed_positions(trie: Trie, bounds: Bounds) -> tuple[int, int]:
    """Return the range of seed tuples: the list of one code, if the first attribute equals a constant."""
    if not bounds.codes:
        return 0, len(trie)
    if len(set(bounds.codes)) > 1:
        return 0, 0
    code = bounds.codes[0]
    if not trie.keyed:
        return int(np.searchsorted(trie.values, code)), int(np.searchsorted(trie.values, code, side="right"))
    first = int(trie.nodes([np.array([code])], 1)[0])
    last = first + 1
    for level in trie.levels:
        first, last = int(level.offsets[first]), int(level.offsets[last])
    return first, last
