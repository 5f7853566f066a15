"""What travels through the passes: the query as it was asked, and what has been decided about it so far."""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.query.plan import Plan, Restriction
from bigjoin.query.query import Atom, Comparison, Query
from bigjoin.query.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Shortcut:
    """An atom over a materialised relation that cannot fail where the atoms that it covers hold, and the other way round."""

    atom: Atom
    covers: frozenset[Atom]


@dataclass(frozen=True, slots=True)
class Draft:
    """A query on its way to a plan. Passes replace `atoms` and `filters`; `query` stays what the user wrote."""

    query: Query
    statistics: Statistics
    atoms: tuple[Atom, ...]
    filters: tuple[Comparison, ...]
    order: tuple[str, ...] = ()
    seed: int = 0
    """How many attributes the seed binds; 0 leaves it open."""
    first: Atom | None = None
    """The atom that is to be the seed, if that is not the planner's choice."""
    restrictions: tuple[Restriction, ...] = ()
    shortcuts: tuple[Shortcut, ...] = ()
    """What steps may read instead of some of the atoms."""
    plan: Plan | None = None

    @property
    def positive(self) -> tuple[Atom, ...]:
        return tuple(atom for atom in self.atoms if not atom.negated)

    @property
    def parts(self) -> tuple[Atom | Comparison, ...]:
        """The atoms and the filters."""
        return (*self.atoms, *self.filters)

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.query.attributes

    def domain(self, attribute: str) -> str:
        """Return the domain that an attribute ranges over."""
        for atom in self.positive:
            if attribute in atom.attributes:
                return self.statistics.of(atom).domains[atom.attributes.index(attribute)]
        raise KeyError(attribute)
