"""Find the restrictions that leave one match of each class under the query's automorphisms.

An automorphism is a permutation of the attributes that maps atoms to atoms (with their relation, direction and sign) and
filters to filters. Going through the attribute order, each attribute v must have the largest code in its orbit under the
automorphisms that fix all earlier attributes; what is left at the end is the identity. Codes fall with degree, so the first
attribute of an orbit gets the lowest degree, and every later list is cut to its hubward end: on cliques this is the
degree-ordered orientation, and on any other pattern it is still right.

Of the matches of a class, each attribute's condition keeps one in as many as its orbit is long, whatever the other conditions.
So where only a count is asked, any of them may be left out if the count is divided by the length of its orbit: attributes that
the restriction would have joined can then be counted by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import prod

from bigjoin.planner.draft import Draft
from bigjoin.planner.isomorphism import Shape
from bigjoin.planner.symmetries import Group, Symmetries
from bigjoin.query.plan import Restriction, ordered_pairs

MAX_CHOSEN_ORBITS = 4
"""Orbits up to which every subset of their conditions is tried; beyond, all or none are kept."""

MAX_CHAINS = 8
"""Sequences of orbits that are tried where conditions may be left out."""

MAX_CHAINED_ATTRIBUTES = 12
"""Attributes up to which several sequences of orbits are tried; beyond, only the first."""


@dataclass(frozen=True, slots=True)
class Orbit:
    """An attribute, and those that automorphisms map it to while they fix the attributes before it."""

    attribute: str
    images: tuple[str, ...]
    hub_first: bool = False
    """Whether the attribute has the smallest code instead."""

    @property
    def restrictions(self) -> tuple[Restriction, ...]:
        ends = ((self.attribute, image) if self.hub_first else (image, self.attribute) for image in self.images)
        return tuple(Restriction(smaller=smaller, larger=larger) for smaller, larger in ends)

    def __len__(self) -> int:
        return len(self.images) + 1


def break_symmetry(draft: Draft) -> Draft:
    """Set the restrictions of a `unique` query, unless they are given, without those that others imply."""
    if not draft.query.unique or draft.restrictions:
        return draft
    groups = Symmetries(Shape(draft), draft.order).along(draft.order)
    orbits = [_orbit(group, attribute, draft.order, draft) for attribute, group in zip(draft.order, groups, strict=True)]
    return replace(draft, restrictions=_needed(orbits))


def restricted(draft: Draft) -> Iterator[tuple[Draft, int]]:
    """Give ways to break symmetry: drafts with restrictions, and the number to divide the count by for those left out."""
    if not draft.query.unique:
        yield draft, 1
        return
    seen = set()
    for orbits in _chains(draft):
        # All restrictions and none come first: one of the two is usually the best choice.
        some = range(1, len(orbits)) if len(orbits) <= MAX_CHOSEN_ORBITS else ()
        for size in (len(orbits), 0, *some):
            for kept in combinations(orbits, size):
                restrictions = _needed(kept)
                if frozenset(restrictions) not in seen:
                    seen.add(frozenset(restrictions))
                    divisor = prod(len(o) for o in orbits) // prod(len(o) for o in kept)
                    yield replace(draft, restrictions=(*draft.restrictions, *restrictions)), divisor


def are_exchanged(draft: Draft, a: str, b: str) -> bool:
    """Tell whether an automorphism maps two attributes to each other."""
    return Symmetries(Shape(draft)).are_exchanged(a, b)


def images(draft: Draft, attribute: str) -> tuple[str, ...]:
    """Return the attributes that automorphisms map an attribute to, itself included."""
    shape = Shape(draft)
    return (attribute, *_orbit(Symmetries(shape).all, attribute, shape.attributes, draft).images)


def _orbit(group: Group, attribute: str, among: Sequence[str], draft: Draft) -> Orbit:
    """Return an orbit; that of a delta's own attributes has its hubs first, whose many tuples then share a list."""
    images = group.images(attribute)
    seeded = () if draft.first is None else draft.first.attributes
    return Orbit(attribute, tuple(a for a in among if a in images), {attribute, *images} <= {*seeded})


def _chains(draft: Draft) -> Iterator[tuple[Orbit, ...]]:
    """Give sequences of orbits that end at the identity. Attributes of one orbit are interchangeable: one of them is tried."""
    symmetries = Symmetries(Shape(draft))

    def grow(fixed: tuple[str, ...], chain: tuple[Orbit, ...]) -> Iterator[tuple[Orbit, ...]]:
        group, attributes = symmetries.fixing(fixed), symmetries.shape.attributes
        if group.inner is None:
            yield chain
            return
        tried: set[str] = set()
        for attribute in attributes:
            orbit = _orbit(group, attribute, attributes, draft)
            if len(orbit) > 1 and attribute not in tried:
                tried |= {attribute, *orbit.images}
                yield from grow((*fixed, attribute), (*chain, orbit))

    few = len(symmetries.shape.attributes) <= MAX_CHAINED_ATTRIBUTES
    yield from islice(grow((), ()), MAX_CHAINS if few else 1)


def _needed(orbits: Iterable[Orbit]) -> tuple[Restriction, ...]:
    """Return the restrictions of some orbits, without those that others imply."""
    return without_implied([r for orbit in orbits for r in orbit.restrictions])


def without_implied(restrictions: Sequence[Restriction]) -> tuple[Restriction, ...]:
    """Return restrictions without those that others imply: a < c, if a < b and, by whatever others, b < c."""
    above: dict[str, set[str]] = {}
    for r in restrictions:
        above.setdefault(r.smaller, set()).add(r.larger)
    known = ordered_pairs(restrictions)

    def implied(r: Restriction) -> bool:
        return any((between, r.larger) in known for between in above[r.smaller] if between != r.larger)

    return tuple(r for r in restrictions if not implied(r))
