"""Pair the attributes of one shape with those of another by colours: partition refinement, and choices where it gives out.

Both shapes are coloured together. Attributes that see different colours get different ones, until nothing changes, so
attributes that a renaming maps to each other have one colour throughout. Where a colour is left with several attributes, one of
them is given a new colour in both shapes, and what follows from that is found in the same way. Most queries need a choice or
two, cliques and stars as many as they have attributes, but then any choice is right. Work is counted, and bounded: there are
shapes for which every choice looks right for long.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from bigjoin.planner.draft import Part
from bigjoin.planner.isomorphism import Shape
from bigjoin.quota import quota

MAX_LOOKS = 400_000
"""Looks at what an attribute sees, after which a search is given up."""

Renaming = dict[str, str]
"""The new name of each attribute."""


class SearchGivenUpError(Exception):
    """A search for a renaming that took too many looks."""


@dataclass(frozen=True, slots=True)
class Colours:
    """A colouring: the colour of each attribute of both shapes, and by colour how many attributes have it."""

    of: list[int]
    sizes: list[int]


class Pairing:
    """Two shapes and the renamings between them. Attributes are numbers: those of the source, then those of the target."""

    def __init__(self, source: Shape, target: Shape) -> None:
        self.source, self.target = source, target
        self.size = len(source.attributes)
        self.number = {a: i for i, a in enumerate(source.attributes)}
        self.target_number = {a: self.size + i for i, a in enumerate(target.attributes)}
        self.looks = 0
        """How often has been looked at what an attribute sees."""
        kinds: dict[Hashable, int] = {}
        self._pairs: list[list[tuple[int, int]]] = []
        """By attribute: its parts with one other attribute, by their kinds, and that attribute."""
        self._wider: list[list[tuple[int, list[tuple[int, int]]]]] = []
        """By attribute: its other parts, and the roles and numbers of their other attributes."""
        self._near: list[list[int]] = []
        everyone = len(source.attributes) + len(target.attributes)
        for shape, number in ((source, self.number), (target, self.target_number)):
            for attribute in shape.attributes:
                pairs, wider = [], []
                for said, others in shape.seen[attribute]:
                    if len(others) == 1:
                        kind = kinds.setdefault((said, others[0][0]), len(kinds))
                        pairs.append((kind * 2 * (everyone + 1), number[others[0][1]]))
                    else:
                        wider.append((kinds.setdefault(said, len(kinds)), [(role, number[a]) for role, a in others]))
                self._pairs.append(pairs)
                self._wider.append(wider)
                self._near.append([*{other for _, other in pairs} | {other for _, them in wider for _, other in them}])

    def renaming(self, given: Mapping[str, str]) -> Renaming | None:
        """Return a renaming that turns the source's parts into the target's and maps some attributes as given."""
        if self.source.invariant != self.target.invariant:
            return None
        colours = self.start()
        for a, b in given.items():
            if colours is None or a not in self.number or b not in self.target_number:
                return None
            colours = self.told_apart(colours, self.number[a], self.target_number[b])
        return None if colours is None else self.completed(colours)

    def start(self) -> Colours | None:
        """Return the coarsest colouring, or None if the shapes do not match."""
        size = 2 * self.size
        return self._refined(Colours([0] * size, [size]), range(size)) if size == len(self._pairs) else None

    def told_apart(self, colours: Colours, a: int, b: int) -> Colours | None:
        """Return the colouring in which two attributes, one of each shape, have a colour of their own, or None if none fits."""
        if colours.of[a] != colours.of[b]:
            return None
        if colours.sizes[colours.of[a]] == 2:
            return colours
        grown = Colours(colours.of.copy(), colours.sizes.copy())
        grown.sizes[grown.of[a]] -= 2
        grown.of[a] = grown.of[b] = len(grown.sizes)
        grown.sizes.append(2)
        return self._refined(grown, [a, b])

    def choices(self, colours: Colours, a: int) -> list[int]:
        """Return the target's attributes that have the colour of one of the source's."""
        return [b for b in range(self.size, 2 * self.size) if colours.of[b] == colours.of[a]]

    def completed(self, colours: Colours) -> Renaming | None:
        """Return a renaming that keeps colours."""
        alike = (a for a in range(self.size) if colours.sizes[colours.of[a]] > 2)
        if (a := next(alike, None)) is None:
            return self._verified(colours)
        quota().check()
        unmoved = a + self.size  # in a shape's own symmetries most attributes may stay where they are
        for b in sorted(self.choices(colours, a), key=lambda b: b != unmoved):
            grown = self.told_apart(colours, a, b)
            if grown is not None and (found := self.completed(grown)) is not None:
                return found
        return None

    def exchanged(self, a: str, b: str) -> Renaming | None:
        """Return the renaming that only exchanges two attributes, if it turns the source's parts into the target's."""
        names = {name: name for name in self.source.attributes} | {a: b, b: a}
        parts = {id(part): part for name in (a, b) for part in self._parts[name]}
        return names if all(self.target.said(part, names) in self.target.all for part in parts.values()) else None

    @cached_property
    def _parts(self) -> dict[str, list[Part]]:
        """By attribute: the source's parts about it."""
        found: dict[str, list[Part]] = {a: [] for a in self.source.attributes}
        for part in self.source.parts:
            for a in dict.fromkeys(part.attributes):
                found[a].append(part)
        return found

    def _verified(self, colours: Colours) -> Renaming | None:
        image = {colours.of[b]: a for a, b in self.target_number.items()}
        names = {a: image[colours.of[i]] for a, i in self.number.items()}
        kept = all(self.target.said(part, names) in self.target.all for part in self.source.parts)
        alike = self.source.unequal or self.target.unequal
        if alike and {frozenset(names[a] for a in pair) for pair in self.source.unequal} != self.target.unequal:
            return None
        return names if kept else None

    def _refined(self, colours: Colours, changed: Iterable[int]) -> Colours | None:
        """Tell attributes apart that see different colours, as long as there are any; some have a new colour to begin with."""
        of, sizes = colours.of, colours.sizes
        affected = {*changed} if len(sizes) == 1 else {b for a in changed for b in self._near[a]}
        while affected:
            self.looks += len(affected)
            if self.looks > MAX_LOOKS:
                raise SearchGivenUpError
            groups: dict[int, dict[Hashable, list[int]]] = {}
            for a in affected:
                groups.setdefault(of[a], {}).setdefault(self._sees(a, of), []).append(a)
            new: list[int] = []
            for colour, by_sight in groups.items():
                members = sum(map(len, by_sight.values()))
                if len(by_sight) == 1 and members == sizes[colour]:
                    continue
                if any(2 * sum(a < self.size for a in group) != len(group) for group in by_sight.values()):
                    return None  # more in one shape than in the other
                # Those that nothing changed for keep their colour, or the largest group: what they are joined to need not look.
                kept = max(by_sight.values(), key=len) if members == sizes[colour] else None
                for group in by_sight.values():
                    if group is not kept:
                        sizes[colour] -= len(group)
                        for a in group:
                            of[a] = len(sizes)
                        sizes.append(len(group))
                        new += group
            affected = {b for a in new for b in self._near[a]}
        return colours

    def _sees(self, a: int, of: list[int]) -> Hashable:
        """Return what an attribute sees of the colours around it."""
        pairs = tuple(sorted([kind + of[other] for kind, other in self._pairs[a]]))
        if not self._wider[a]:
            return pairs
        return pairs, tuple(sorted((kind, tuple(sorted((role, of[b]) for role, b in them))) for kind, them in self._wider[a]))


def renaming(source: Shape, target: Shape, fixed: Iterable[str] = ()) -> Renaming | None:
    """Return a renaming that turns the source's parts into the target's, with some attributes fixed.

    None means that there is none, or that none was found in as many looks as a search may take.
    """
    if source.invariant != target.invariant:
        return None
    try:
        return Pairing(source, target).renaming({a: a for a in fixed})
    except SearchGivenUpError:
        return None
