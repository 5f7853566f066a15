"""Delta queries: how the matches that an epoch's updates create and destroy are found, from the updates alone.

The result of a query changes by the sum, over its atoms, of the query in which that atom reads the delta. So that a match
with several updates in it is found once, either the atoms are told apart (those before the seeded one read the new version,
those after it the old one), or the updates are: every other atom reads the tuples of either version, but for those of the
delta that come after the seed's. Atoms that a symmetry of the query exchanges can be seeded together by the second rule
only: their queries then differ by names.
"""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan, Restriction
from bigjoin.query.query import Atom, Query


@dataclass(frozen=True, slots=True)
class Image:
    """What a match found for one atom of an orbit is for another: attribute `names[a]` gets the value of attribute a."""

    atom: Atom
    names: tuple[tuple[str, str], ...]
    earlier: tuple[Atom, ...] = ()
    """Atoms that come before and read the same relation: an image in which one of them is the seed's tuple is theirs."""
    symmetric: bool = False
    """Whether a tuple of that relation is the same with its first two columns exchanged."""


@dataclass(frozen=True, slots=True)
class DeltaQuery:
    """One dQ_i: a plan that is seeded with the delta of an atom's relation."""

    atom: Atom
    plan: Plan
    sign: int = 1
    """-1 for a negated atom: its tuples destroy matches."""
    images: tuple[Image, ...] = ()
    """For each atom of its orbit how to read the matches; none at all if they are meant as they are found."""
    nests: CountPlan | None = None
    """How its matches are counted, where they need not be found. What all queries come to together is what can be divided."""


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """All delta queries of a query."""

    query: Query
    queries: tuple[DeltaQuery, ...]
    by_updates: bool = False
    """Whether updates are told apart, and not atoms."""
    consolidates: bool = False
    """Whether a match may be found both as created and as destroyed within an epoch: such rows cancel out."""
    automorphisms: tuple[tuple[tuple[str, str], ...], ...] = ()
    """For `unique`, if updates are told apart: the renamings, of which one gives each match the form that is reported."""
    restrictions: tuple[Restriction, ...] = ()
    """What that form satisfies."""

    def __str__(self) -> str:
        rules = []
        for number, dq in enumerate(self.queries, start=1):
            sign = "-" if dq.sign < 0 else ""
            others = [image.atom for image in dq.images if image.atom != dq.atom]
            shared = f", and for {', '.join(map(str, others))} by renaming" if others else ""
            how = str(dq.plan) if dq.nests is None else str(dq.nests)
            rules += [f"{sign}dQ{number}, seeded with the delta of {dq.atom}{shared}", _indented(how)]
        return "\n".join(rules)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
