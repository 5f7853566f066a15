"""Renamings of attributes that turn one draft's atoms, filters and restrictions into another's (or into its own)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from bigjoin.planner.draft import Draft
from bigjoin.planner.simplify import canonical_atom
from bigjoin.query.plan import Restriction
from bigjoin.query.query import Atom, Comparison
from bigjoin.query.terms import Constant, Operand, Property, attribute_of

Part = Atom | Comparison | Restriction | frozenset[str]


class Shape:
    """What a draft asks for, in a form in which equal parts are equal; `apart` are pairs that are to differ."""

    def __init__(self, draft: Draft, apart: frozenset[frozenset[str]] = frozenset()) -> None:
        self.draft = draft
        self.attributes = tuple(dict.fromkeys(a for atom in draft.positive for a in atom.attributes))
        self.parts: list[tuple[Part, tuple[str, ...]]] = [(p, p.attributes) for p in draft.parts]
        self.parts += [(r, (r.smaller, r.larger)) for r in draft.restrictions]
        self.parts += [(pair, tuple(pair)) for pair in apart]
        self.all = {self.canonical(part) for part, _ in self.parts}
        self.colours = {a: self._colour(a) for a in self.attributes}
        self.invariant: Hashable = (len(self.all), tuple(sorted(Counter(self.colours.values()).items())))

    def canonical(self, part: Part, names: dict[str, str] | None = None) -> Part:
        """Return a part, renamed, in the form that equal parts share."""
        if isinstance(part, Restriction):
            return Restriction(names[part.smaller], names[part.larger]) if names else part
        if isinstance(part, frozenset):
            return frozenset(names[a] for a in part) if names else part
        if isinstance(part, Atom):
            return canonical_atom(part.renamed(names) if names else part, self.draft)
        return (part.renamed(names) if names else part).canonical()

    def _colour(self, attribute: str) -> str:
        """Return what an attribute's parts look like from it: attributes that can be exchanged look alike."""
        seen = []
        for part, names in self.parts:
            if attribute in names:
                kind = str(part.read) if isinstance(part, Atom) else type(part).__name__
                relation = self.draft.statistics.relation(part) if isinstance(part, Atom) else None
                symmetric = relation is not None and (relation.symmetric or relation.symmetries)
                places = "" if symmetric or isinstance(part, frozenset) else str([n == attribute for n in names])
                if isinstance(part, Comparison):
                    places = _seen_from(attribute, part.canonical())
                seen.append(f"{kind} {getattr(part, 'negated', '')} {places}")
        return " ".join(sorted(seen))


def _seen_from(attribute: str, comparison: Comparison) -> str:
    """Return a comparison with the attribute called `this`, and any other `that`."""

    def side(operand: Operand) -> str:
        if isinstance(operand, Constant):
            return str(operand)
        name = "this" if attribute_of(operand) == attribute else "that"
        return f"{name}.{operand.name}" if isinstance(operand, Property) else name

    sides = [side(comparison.left), side(comparison.right)]
    return f" {comparison.op} ".join(sorted(sides) if comparison.op in ("=", "!=") else sides)


def renaming(
    source: Shape, target: Shape, fixed: tuple[str, ...] = (), image: tuple[str, str] | None = None
) -> dict[str, str] | None:
    """Return a renaming that turns the source's parts into the target's, fixing some attributes and mapping one as told."""
    return next(renamings(source, target, fixed, image), None)


def renamings(
    source: Shape, target: Shape, fixed: tuple[str, ...] = (), image: tuple[str, str] | None = None
) -> Iterator[dict[str, str]]:
    """Give all renamings that turn the source's parts into the target's, fixing some attributes and mapping one as told."""
    if source.invariant != target.invariant:
        return

    def holds(names: dict[str, str]) -> bool:
        newest = next(reversed(names))
        mapped = (p for p, attributes in source.parts if newest in attributes and names.keys() >= set(attributes))
        return all(target.canonical(part, names) in target.all for part in mapped)

    def search(names: dict[str, str], rest: list[str]) -> Iterator[dict[str, str]]:
        if not rest:
            yield names
            return
        attribute, *later = rest
        taken = set(names.values())
        for a in target.attributes:
            if a not in taken and source.colours[attribute] == target.colours[a]:
                grown = {**names, attribute: a}
                if holds(grown):
                    yield from search(grown, later)

    names: dict[str, str] = {}
    for attribute, to in (*((a, a) for a in fixed), *((image,) if image else ())):
        names[attribute] = to
        if source.colours[attribute] != target.colours[to] or not holds(names):
            return
    yield from search(names, [a for a in source.attributes if a not in names])
