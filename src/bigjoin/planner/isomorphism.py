"""Renamings of attributes that turn one draft's atoms, filters and restrictions into another's (or into its own)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator

from bigjoin.planner.draft import Draft, Part
from bigjoin.planner.simplify import canonical
from bigjoin.query.query import Atom, Comparison, Query
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Constant, Operand, Property, attribute_of


class Shape:
    """What a draft asks for, in a form in which equal parts are equal."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.parts = draft.parts
        self.attributes = tuple(dict.fromkeys(a for part in (*draft.positive, *self.parts) for a in part.attributes))
        self.all = {canonical(part, draft) for part in self.parts}
        self.colours = {a: self._colour(a) for a in self.attributes}
        self.invariant: Hashable = (len(self.all), tuple(sorted(Counter(self.colours.values()).items())))

    def _colour(self, attribute: str) -> str:
        """Return what an attribute's parts look like from it: attributes that can be exchanged look alike."""
        return " ".join(sorted(_seen_from(attribute, part, self.draft) for part in self.parts if attribute in part.attributes))


def _seen_from(attribute: str, part: Part, draft: Draft) -> str:
    """Return a part as text with the attribute called `this`, and any other `that`."""

    def side(operand: Operand) -> str:
        if isinstance(operand, Constant):
            return str(operand)
        name = "this" if attribute_of(operand) == attribute else "that"
        return f"{name}.{operand.name}" if isinstance(operand, Property) else name

    if isinstance(part, Comparison):
        form = part.canonical()
        pairs = [[side(left), side(right)] for left, right in form.pairs]
        return " or ".join(sorted(f" {form.op} ".join(sorted(pair) if form.operator.symmetric else pair) for pair in pairs))
    places = " ".join(map(side, part.attributes))
    if not isinstance(part, Atom):
        return places
    relation = draft.statistics.relation(part)
    return f"{part.read} {part.negated} {'' if relation.symmetric or relation.symmetries else places}"


def shape_of(query: Query, statistics: Statistics) -> Shape:
    """Return the shape of a query."""
    return Shape(Draft(query, statistics, query.atoms, query.filters))


def renaming(
    source: Shape, target: Shape, fixed: Collection[str] = (), image: tuple[str, str] | None = None
) -> dict[str, str] | None:
    """Return a renaming that turns the source's parts into the target's; some attributes stay fixed, one is mapped as given."""
    return next(renamings(source, target, fixed, image), None)


def renamings(
    source: Shape, target: Shape, fixed: Collection[str] = (), image: tuple[str, str] | None = None, *, into: bool = False
) -> Iterator[dict[str, str]]:
    """Give all renamings that turn the source's parts into the target's, or, with `into`, into some of them.

    Some attributes stay fixed, and one is mapped as given. No two attributes become one.
    """
    if not into and source.invariant != target.invariant:
        return
    given = {a: a for a in fixed} | (dict([image]) if image else {})

    def holds(names: dict[str, str]) -> bool:
        newest = next(reversed(names))
        mapped = (p for p in source.parts if newest in p.attributes and names.keys() >= set(p.attributes))
        return all(canonical(part.renamed(names), target.draft) in target.all for part in mapped)

    def search(names: dict[str, str], rest: list[str]) -> Iterator[dict[str, str]]:
        if not rest:
            yield names
            return
        attribute, *later = rest
        choices = (given[attribute],) if attribute in given else target.attributes
        for a in choices:
            if a not in names.values() and (into or source.colours.get(attribute) == target.colours.get(a)):
                grown = {**names, attribute: a}
                if holds(grown):
                    yield from search(grown, later)

    yield from search({}, [*given, *(a for a in source.attributes if a not in given)])
