"""Bind a plan to an index: names become arrays, attributes become positions in a prefix, constants become codes and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.dictionary import Dictionary, RowNumbers, code_type
from bigjoin.index.trie import Codes, Trie
from bigjoin.index.values import Column, take
from bigjoin.joins.after import After
from bigjoin.joins.bounds_and_filters import Bounds, Condition, Filter, constrain
from bigjoin.joins.evaluate import Evaluation
from bigjoin.joins.extender import BoundExtender, CodeBounds
from bigjoin.query.expressions import Expression, terms_of
from bigjoin.query.plan import Extender, Plan, Restriction
from bigjoin.query.query import Dialect, Query, QueryFilter
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
        conditions = self.condition.filters or self.condition.row_filters
        return len(self.extenders) == 1 and not (self.excluders or self.checks or conditions)


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

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the matches that it reads."""
        return (self.position,)

    def decode(self, matches: Codes) -> pa.Array:
        """Return the column's values for matches."""
        return self.values_of(matches[self.position])

    def values_of(self, codes: Codes) -> pa.Array:
        """Return the values of codes of the column's attribute."""
        return take(self.values, codes) if isinstance(self.values, pa.ChunkedArray) else self.values.decode(codes)


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column of the result that is computed from others."""

    name: str
    expression: Expression
    inputs: tuple[tuple[Term, ResultColumn], ...]
    dialect: Dialect
    type: pa.DataType

    @classmethod
    def of(cls, name: str, expression: Expression, inputs: Mapping[Term, ResultColumn], dialect: Dialect) -> ComputedColumn:
        """Return the column of an expression; its type is that of no rows."""
        empty = {term: pa.array([], column.type) for term, column in inputs.items()}
        kind = Evaluation(empty.__getitem__, 0, dialect).of(expression).type
        return cls(name, expression, tuple(inputs.items()), dialect, pa.string() if pa.types.is_null(kind) else kind)

    @property
    def position(self) -> int:
        """The last position of the matches that it reads."""
        return max(self.positions, default=0)

    @property
    def positions(self) -> tuple[int, ...]:
        return tuple(position for _, column in self.inputs for position in column.positions)

    def decode(self, matches: Codes) -> pa.Array:
        """Return the column's values for matches."""
        values = {term: column.decode(matches) for term, column in self.inputs}
        return Evaluation(values.__getitem__, matches.shape[1], self.dialect).of(self.expression).cast(self.type)

    def values_of(self, codes: Codes) -> pa.Array:
        """Return the values of codes, if the column is about one attribute."""
        values = {term: column.values_of(codes) for term, column in self.inputs}
        return Evaluation(values.__getitem__, len(codes), self.dialect).of(self.expression).cast(self.type)


OutputColumn: TypeAlias = ResultColumn | ComputedColumn


@dataclass(frozen=True)
class BoundPlan:
    """A plan ready to run against the arrays of one index."""

    plan: Plan
    index: ReadableIndex
    seed: BoundSeed
    steps: tuple[BoundStep, ...]

    @cached_property
    def columns(self) -> tuple[OutputColumn, ...]:
        """A column for each term of the head; to count, nobody needs the dictionaries that these read."""
        return result_columns(self.plan.query, self.plan.attributes, self.index)

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
        self.order, self.index, self.dialect = order, index, query.dialect
        self.domains = _domains(query, index.statistics)
        self.column = cache(self._column)
        self.reads: dict[tuple[Read, tuple[int, ...]], Trie] = {}
        """The lists that extenders read."""

    def size(self, attribute: str) -> int:
        """Return how many codes the domain of an attribute has."""
        return self.index.statistics.domains[self.domains[attribute]]

    def extender(self, e: Extender) -> BoundExtender:
        """Return an extender with its lists."""
        trie = self.reads[e.atom.read, e.columns] = self.index.extensions(e.atom.read, e.columns)
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

    def condition(self, attribute: str, restrictions: Sequence[Restriction], conditions: Sequence[QueryFilter]) -> Condition:
        """Return what an attribute must satisfy besides its atoms; raise QueryError for a constant that cannot be compared."""
        return constrain(
            attribute,
            restrictions,
            conditions,
            order=self.order,
            dictionary=lambda: self.index.dictionaries[self.domains[attribute]],
            columns=self._values,
            dialect=self.dialect,
        )

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
    return BoundPlan(plan, index, bound_seed, steps)


def result_columns(query: Query, order: tuple[str, ...], index: ReadableIndex) -> tuple[OutputColumn, ...]:
    """Return the columns of a query's result: an id, a property or what is computed from these, for each term of the head."""
    domains = _domains(query, index.statistics)

    def looked_up(name: str, term: Term) -> ResultColumn:
        domain = domains[attribute_of(term)]
        values: Dictionary | RowNumbers | Column = index.dictionaries[domain]
        if isinstance(term, Property) and not index.statistics.is_id(domain, term.name):
            values = index.properties(domain)[term.name]
        return ResultColumn(name, order.index(attribute_of(term)), values)

    def output(name: str, term: Expression) -> OutputColumn:
        if isinstance(term, str | Property):
            return looked_up(name, term)
        inputs = {part: looked_up(name, part) for part in terms_of(term)}
        return ComputedColumn.of(name, term, inputs, query.dialect)

    return tuple(output(name, term) for name, term in zip(query.columns, query.head, strict=True))


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
