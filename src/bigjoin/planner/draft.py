"""What travels through the passes: a query, what is known about the data, and what has been decided so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from bigjoin.query.nest import CountPlan, Nest
from bigjoin.query.plan import Plan, Restriction
from bigjoin.query.query import Atom, Comparison, Predicate, Query, QueryFilter
from bigjoin.query.seeds import Seeds
from bigjoin.query.statistics import Statistics

Part = Atom | QueryFilter | Restriction
"""What a binding has to satisfy."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """An atom over a materialised relation that holds exactly where all the atoms that it covers hold."""

    atom: Atom
    covers: frozenset[Atom]


@dataclass(frozen=True, slots=True)
class Given:
    """A relation that only this question has: its seeds, or the rows that the ids in one of their columns name."""

    relation: str
    seeds: Seeds
    rows_of: str | None = None
    column: int = 0


@dataclass(frozen=True, slots=True)
class Seeding:
    """The atoms whose relations change, one of which is the seed of a draft, and the rule by which the others read versions."""

    atoms: tuple[Atom, ...]
    seed: Atom
    """The atom as the query has it: perhaps negated."""
    by_updates: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A query on its way to a plan. Passes replace `atoms` and `filters`; once resolved, `query` stays as it is."""

    query: Query
    statistics: Statistics
    atoms: tuple[Atom, ...]
    filters: tuple[QueryFilter, ...]
    order: tuple[str, ...] = ()
    seed: int = 0
    """How many attributes the seed binds; 0 leaves that open."""
    tails: tuple[str, ...] = ()
    """The last attributes of the order, if nothing joins them to each other and they stay lists."""
    first: Atom | None = None
    """The atom that has to be the seed, if that is not the planner's choice: it reads the delta."""
    seeding: Seeding | None = None
    keys: tuple[str, ...] = ()
    """What matches are grouped by, if they are counted by groups; two keys may be one attribute. Symmetries fix them."""
    restrictions: tuple[Restriction, ...] = ()
    shortcuts: tuple[Shortcut, ...] = ()
    """What steps may read instead of some of the atoms."""
    given: tuple[Given, ...] = ()
    """The relations that only this question has."""
    plan: Plan | Nest | CountPlan | None = None

    @property
    def positive(self) -> tuple[Atom, ...]:
        return tuple(atom for atom in self.atoms if not atom.negated)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that a match has to satisfy: atoms, filters and restrictions."""
        return (*self.atoms, *self.filters, *self.restrictions)

    def with_parts(self, parts: Collection[Part]) -> Draft:
        """Return the draft with other parts."""
        return replace(
            self,
            atoms=tuple(part for part in parts if isinstance(part, Atom)),
            filters=tuple(part for part in parts if isinstance(part, Comparison | Predicate)),
            restrictions=tuple(part for part in parts if isinstance(part, Restriction)),
        )

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.query.attributes

    def domain(self, attribute: str) -> str:
        """Return the domain that an attribute ranges over."""
        for atom in self.positive:
            if attribute in atom.attributes:
                return self.statistics.of(atom).domains[atom.attributes.index(attribute)]
        raise KeyError(attribute)

    def joined(self, more: Iterable[Iterable[str]] = ()) -> dict[str, set[str]]:
        """Return, for each attribute, those that some part joins it to; `more` are further sets of joined attributes."""
        found: dict[str, set[str]] = {a: set() for atom in self.positive for a in atom.attributes}
        for scope in (*(part.attributes for part in self.parts), *more):
            for a in scope:
                found[a] |= set(scope) - {a}
        return found
