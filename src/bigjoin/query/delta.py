"""Delta queries: how the matches that an epoch's updates create and destroy are found, starting from the updates.

The result of a query changes by the sum, over its atoms, of the query in which that atom reads the delta. A match may
contain several updates and must be found once, so there are two rules. By atoms: those before the seeded one read the new
version, those after it the old one. By updates: every other atom reads the tuples of either version, except those of the
delta that come after the seed's tuple. Only under the second rule can atoms that a symmetry exchanges share a query: it is
then the same query up to the names of attributes.

An epoch has two phases. Half way through it, positive atoms read the old version without what is deleted, and negated atoms
read it together with what is inserted. So the first phase only takes away what matches need, and the second only gives:
what holds half way is exactly what held before the epoch and holds after it, and no match is found both destroyed and
created.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan, Restriction
from bigjoin.query.query import Atom, Query


@dataclass(frozen=True, slots=True)
class Image:
    """How a match found for one atom of an orbit becomes one for another: attribute `names[a]` gets the value of a."""

    atom: Atom
    names: tuple[tuple[str, str], ...]
    earlier: tuple[Atom, ...] = ()
    """Earlier atoms over the same relation: an image in which one of them is the seed's tuple belongs to that atom."""
    symmetric: bool = False
    """Whether a tuple of that relation is the same with its first two columns exchanged."""


@dataclass(frozen=True, slots=True)
class DeltaQuery:
    """One dQ_i: a plan whose seed is the delta of an atom's relation."""

    atom: Atom
    plan: Plan
    images: tuple[Image, ...] = ()
    """How to read the matches for each atom of the orbit; empty if they are read as they are found."""
    nests: CountPlan | None = None
    """How its matches are counted, if they need not be listed. Only the sum over all queries is divided."""


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """All delta queries of a query."""

    query: Query
    queries: tuple[DeltaQuery, ...]
    by_updates: bool = False
    """Whether the second rule holds: updates are told apart, not atoms."""
    automorphisms: tuple[tuple[tuple[str, str], ...], ...] = ()
    """For `unique` by updates: the renamings, one of which turns a match into the form that is reported."""
    restrictions: tuple[Restriction, ...] = ()
    """What the reported form satisfies."""

    def __str__(self) -> str:
        rules = []
        for number, dq in enumerate(self.queries, start=1):
            others = [image.atom for image in dq.images if image.atom != dq.atom]
            shared = f", and for {', '.join(map(str, others))} by renaming" if others else ""
            how = str(dq.plan) if dq.nests is None else str(dq.nests)
            rules += [f"dQ{number}, seeded with the delta of {dq.atom}{shared}", indent(how, "  ")]
        return "\n".join(rules)
