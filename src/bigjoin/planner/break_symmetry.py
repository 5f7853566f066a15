"""Find the restrictions that leave one match of each class under the query's automorphisms.

An automorphism is a permutation of the attributes that maps atoms to atoms (with their relation, direction and sign) and
filters to filters. Going through the attribute order, each attribute v must have the largest code in its orbit under the
automorphisms that fix all earlier attributes; what is left at the end is the identity. Codes fall with degree, so the first
attribute of an orbit gets the lowest degree, and every later list is cut to its hubward end: on cliques this is the
degree-ordered orientation, and on any other pattern it is still right.

Each attribute's condition holds for one in so many of a class's matches as its orbit is long, whatever the others'
conditions. So where only a count is asked, any of them may be left out if the count is divided by the length of its orbit:
then attributes that the restriction would have joined can be counted by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from bigjoin.planner.draft import Draft
from bigjoin.planner.isomorphism import Shape, renaming
from bigjoin.query.plan import Restriction, ordered_pairs

FEW = 4
"""Orbits of which every part may be kept."""

MANY = 8
"""Orders of the attributes that are tried where a restriction may be left out."""


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
    """Set the restrictions of a `unique` query, without those that others imply."""
    if not draft.query.unique:
        return draft
    shape = Shape(draft)
    orbits = [_orbit(shape, draft.order[:i], attribute, draft.order) for i, attribute in enumerate(draft.order)]
    return replace(draft, restrictions=_needed(orbits))


def restricted(draft: Draft) -> Iterator[tuple[Draft, int]]:
    """Give ways to break symmetry: drafts with restrictions, and by how much the count is to be divided for those left out."""
    if not draft.query.unique:
        yield draft, 1
        return
    shape, seen = Shape(draft), set()
    for orbits in _chains(shape):
        # All restrictions and none come first: they are the best choices most often.
        some = range(1, len(orbits)) if len(orbits) <= FEW else ()
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
    """Give sequences of orbits that end at the identity, one of each kind: attributes of an orbit are as good as each other."""
    given = 0

    def grow(fixed: tuple[str, ...], chain: tuple[Orbit, ...]) -> Iterator[tuple[Orbit, ...]]:
        nonlocal given
        left = [a for a in shape.attributes if a not in fixed]
        orbits = [orbit for a in left if len(orbit := _orbit(shape, fixed, a, shape.attributes)) > 1]
        if not orbits:
            given += 1
            yield chain
            return
        tried: set[str] = set()
        for orbit in orbits:
            if orbit.attribute not in tried and given < MANY:
                tried |= {orbit.attribute, *orbit.images}
                yield from grow((*fixed, orbit.attribute), (*chain, orbit))

    yield from grow((), ())


def _needed(orbits: Iterable[Orbit]) -> tuple[Restriction, ...]:
    """Return the restrictions of some orbits, without those that others imply."""
    restrictions = [r for orbit in orbits for r in orbit.restrictions]

    def implied(restriction: Restriction) -> bool:
        others = [r for r in restrictions if r != restriction]
        return (restriction.smaller, restriction.larger) in ordered_pairs(others)

    return tuple(r for r in restrictions if not implied(r))
