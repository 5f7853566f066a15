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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import prod

from bigjoin.planner.draft import Draft
from bigjoin.planner.isomorphism import Shape, renaming
from bigjoin.query.plan import Restriction, ordered_pairs

MAX_CHOSEN_ORBITS = 4
"""Orbits up to which every subset of their conditions is tried; beyond, all or none are kept."""

MAX_CHAINS = 8
"""Sequences of orbits that are tried where conditions may be left out."""


@dataclass(frozen=True, slots=True)
class Orbit:
    """An attribute, and those that automorphisms map it to while they fix the attributes before it."""

    attribute: str
    images: tuple[str, ...]

    @property
    def restrictions(self) -> tuple[Restriction, ...]:
        return tuple(Restriction(smaller=image, larger=self.attribute) for image in self.images)

    def __len__(self) -> int:
        return len(self.images) + 1


def break_symmetry(draft: Draft) -> Draft:
    """Set the restrictions of a `unique` query, unless they are given, without those that others imply."""
    if not draft.query.unique or draft.restrictions:
        return draft
    shape = Shape(draft)
    orbits = [_orbit(shape, draft.order[:i], attribute, draft.order) for i, attribute in enumerate(draft.order)]
    return replace(draft, restrictions=_needed(orbits))


def restricted(draft: Draft) -> Iterator[tuple[Draft, int]]:
    """Give ways to break symmetry: drafts with restrictions, and the number to divide the count by for those left out."""
    if not draft.query.unique:
        yield draft, 1
        return
    shape, seen = Shape(draft), set()
    for orbits in _chains(shape):
        # All restrictions and none come first: one of the two is usually the best choice.
        some = range(1, len(orbits)) if len(orbits) <= MAX_CHOSEN_ORBITS else ()
        for size in (len(orbits), 0, *some):
            for kept in combinations(orbits, size):
                restrictions = _needed(kept)
                if frozenset(restrictions) not in seen:
                    seen.add(frozenset(restrictions))
                    yield replace(draft, restrictions=restrictions), prod(len(o) for o in orbits) // prod(len(o) for o in kept)


def _orbit(shape: Shape, fixed: tuple[str, ...], attribute: str, among: tuple[str, ...]) -> Orbit:
    others = [a for a in among if a not in fixed and a != attribute]
    return Orbit(attribute, tuple(a for a in others if renaming(shape, shape, fixed, (attribute, a)) is not None))


def _chains(shape: Shape) -> Iterator[tuple[Orbit, ...]]:
    """Give sequences of orbits that end at the identity. Attributes of one orbit are interchangeable: one of them is tried."""

    def grow(fixed: tuple[str, ...], chain: tuple[Orbit, ...]) -> Iterator[tuple[Orbit, ...]]:
        left = [a for a in shape.attributes if a not in fixed]
        orbits = [orbit for a in left if len(orbit := _orbit(shape, fixed, a, shape.attributes)) > 1]
        if not orbits:
            yield chain
        tried: set[str] = set()
        for orbit in orbits:
            if orbit.attribute not in tried:
                tried |= {orbit.attribute, *orbit.images}
                yield from grow((*fixed, orbit.attribute), (*chain, orbit))

    yield from islice(grow((), ()), MAX_CHAINS)


def _needed(orbits: Iterable[Orbit]) -> tuple[Restriction, ...]:
    """Return the restrictions of some orbits, without those that others imply."""
    restrictions = [r for orbit in orbits for r in orbit.restrictions]

    def implied(restriction: Restriction) -> bool:
        return restriction.attributes in ordered_pairs(r for r in restrictions if r != restriction)

    return tuple(r for r in restrictions if not implied(r))
