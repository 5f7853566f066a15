"""The automorphisms of a shape, as generators of the groups that fix more and more attributes: a stabiliser chain.

A group is never enumerated. To find the automorphisms that fix some attributes, take one that they do not fix, u. Those that
fix u as well are found first, in the same way. Then, for each attribute that looks like u, one automorphism that maps u to it
is searched, unless those that are known already lead there; with these the group is complete (Schreier and Sims). So few
generators stand for all automorphisms, and the order of the group is the product of the lengths of the orbits of each u. The
12-clique has 479,001,600 automorphisms and eleven generators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from bigjoin.errors import QueryError
from bigjoin.planner.isomorphism import Shape
from bigjoin.planner.pairing import Colours, Pairing, Renaming, SearchGivenUpError

_Item = TypeVar("_Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Group:
    """The automorphisms that fix some attributes."""

    generators: tuple[Renaming, ...]
    """Automorphisms of which all others are products."""
    orbit_of: dict[str, int]
    """By attribute: the number of its orbit. Attributes of one orbit can be mapped to each other."""
    first: str = ""
    """The attribute that the next group of the chain fixes as well."""
    inner: Group | None = None
    """The next group of the chain; None if this one has the identity alone."""

    @property
    def order(self) -> int:
        """How many automorphisms there are."""
        return 1 if self.inner is None else (1 + len(self.images(self.first))) * self.inner.order

    def images(self, attribute: str) -> tuple[str, ...]:
        """Return the attributes that an attribute can be mapped to, without itself."""
        mine = self.orbit_of[attribute]
        return tuple(a for a, orbit in self.orbit_of.items() if orbit == mine and a != attribute)

    def elements(self) -> Iterator[Renaming]:
        """Give all automorphisms, each once, the identity first: there may be very many."""
        if self.inner is None:
            yield {a: a for a in self.orbit_of}
            return
        for last in images_of(self.first, self.generators, lambda names, a: names[a], self.orbit_of).values():
            for names in self.inner.elements():
                yield {a: last[b] for a, b in names.items()}


def images_of(
    start: _Item, generators: Sequence[Renaming], image: Callable[[Renaming, _Item], _Item], attributes: Iterable[str]
) -> dict[_Item, Renaming]:
    """Return everything that products of some generators map an item to, each with such a product."""
    found = {start: {a: a for a in attributes}}
    waiting = [start]
    for item in waiting:
        for names in generators:
            if (other := image(names, item)) not in found:
                found[other] = {a: names[b] for a, b in found[item].items()}
                waiting.append(other)
    return found


class Symmetries:
    """The automorphisms of a shape; stabiliser chains fix attributes in the order of `base`."""

    def __init__(self, shape: Shape, base: Sequence[str] = ()) -> None:
        self.shape = shape
        self._pairing = Pairing(shape, shape)
        self._base = [self._pairing.number[a] for a in base or shape.attributes]
        self._names = shape.attributes
        self._known: dict[frozenset[int], Group] = {}
        start = self._pairing.start()
        assert start is not None
        self._start: Colours = start
        self._coloured: dict[tuple[str, ...], Colours] = {}

    @property
    def looks(self) -> int:
        """How often has been looked at what an attribute sees."""
        return self._pairing.looks

    @property
    def all(self) -> Group:
        """The group of all automorphisms."""
        return self.fixing(())

    def fixing(self, fixed: Collection[str]) -> Group:
        """Return the group of the automorphisms that fix some attributes."""
        return self._group(self._colours(tuple(fixed)))

    def _colours(self, fixed: tuple[str, ...]) -> Colours:
        """Return the colours once some attributes are fixed, which those of all but the last lead to."""
        if not fixed:
            return self._start
        if fixed not in self._coloured:
            self._coloured[fixed] = self._fixed(self._colours(fixed[:-1]), self._pairing.number[fixed[-1]])
        return self._coloured[fixed]

    def along(self, order: Sequence[str]) -> Iterator[Group]:
        """Give for each attribute of an order the automorphisms that fix those before it."""
        colours = self._start
        for attribute in order:
            yield self._group(colours)
            colours = self._fixed(colours, self._pairing.number[attribute])

    def are_exchanged(self, a: str, b: str) -> bool:
        """Tell whether an automorphism maps two attributes to each other."""
        with _refusing():
            return self._pairing.renaming({a: b, b: a}) is not None

    def _fixed(self, colours: Colours, attribute: int) -> Colours:
        with _refusing():
            found = self._pairing.told_apart(colours, attribute, self._pairing.size + attribute)
        assert found is not None
        return found

    def _group(self, colours: Colours) -> Group:
        """Return the group of the automorphisms that keep colours, of which each attribute has the same in both shapes."""
        free = [a for a in self._base if colours.sizes[colours.of[a]] > 2]
        key = frozenset(free)
        if key not in self._known:
            self._known[key] = self._extended(colours, free) if free else Group((), {a: i for i, a in enumerate(self._names)})
        return self._known[key]

    def _extended(self, colours: Colours, free: list[int]) -> Group:
        """Return the group of the automorphisms that keep colours, made of those that fix the first of the free attributes."""
        first = free[0]
        inner = self._group(self._fixed(colours, first))
        generators, orbit_of = list(inner.generators), inner.orbit_of
        name, excluded = self._names[first], list[str]()
        for other in (self._names[a] for a in free if colours.of[a] == colours.of[first]):
            if orbit_of[other] in (orbit_of[name], *(orbit_of[a] for a in excluded)):
                continue  # known automorphisms map the attribute there, or map this one to one that it cannot be mapped to
            if (found := self._mapping(colours, name, other)) is None:
                excluded.append(other)
            else:
                generators.append(found)
                orbit_of = _merged(orbit_of, found)
        return Group(tuple(generators), orbit_of, name, inner)

    def _mapping(self, colours: Colours, a: str, b: str) -> Renaming | None:
        """Return an automorphism that keeps colours and maps one attribute to another, if there is one."""
        pairing = self._pairing
        if (exchanged := pairing.exchanged(a, b)) is not None:
            return exchanged
        with _refusing():
            grown = pairing.told_apart(colours, pairing.number[a], pairing.target_number[b])
            return None if grown is None else pairing.completed(grown)


def _merged(orbit_of: dict[str, int], names: Renaming) -> dict[str, int]:
    """Return orbits that a further automorphism joins."""
    into = list(range(len(orbit_of)))

    def root(orbit: int) -> int:
        while into[orbit] != orbit:
            orbit = into[orbit]
        return orbit

    for a, b in names.items():
        one, other = root(orbit_of[a]), root(orbit_of[b])
        into[max(one, other)] = min(one, other)
    return {a: root(orbit) for a, orbit in orbit_of.items()}


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a query whose symmetries are too hard to find: without all of them, `unique` would not be what it says."""
    try:
        yield
    except SearchGivenUpError:
        message = "the symmetries of this query were not found in reasonable time: too many of its attributes look alike"
        raise QueryError(message, hint="ask for distinct matches (distinct=True) instead of unique ones") from None
