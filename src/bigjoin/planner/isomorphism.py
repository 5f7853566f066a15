"""Renamings of attributes that turn one draft's atoms, filters and restrictions into another's (or into its own).

A renaming is not searched among all permutations. Attributes get colours, and are told apart by the colours of those that parts
join them to, until nothing changes (`pairing.py`); only where that leaves several attributes alike is one of them chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from functools import cached_property

from bigjoin.planner.draft import Draft, Part
from bigjoin.query.expressions import canonical as canonical_expression
from bigjoin.query.expressions import renamed
from bigjoin.query.query import Atom, Comparison, Predicate, Query
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Constant, Operand, Property, attribute_of

MAX_TRIED_IMAGES = 20_000
"""Attributes that are tried as images while places for one draft within another are searched."""

Unequal = frozenset[str]
"""Two attributes that have to differ."""

Seen = tuple[Hashable, tuple[tuple[int, str], ...]]
"""How a part looks from one of its attributes: what it says, and its other attributes, each with the role that it has there.

Attributes that the part does not tell apart have the same role.
"""


class Shape:
    """What a draft asks for, in a form in which equal parts are equal; `unequal` are pairs that have to differ besides."""

    def __init__(self, draft: Draft, unequal: Collection[Unequal] = ()) -> None:
        self.draft = draft
        self.unequal = frozenset(unequal)
        self.attributes = tuple(dict.fromkeys(a for part in (*draft.positive, *draft.parts) for a in part.attributes))
        self._exchanges = {atom.read: _exchanges(atom, draft) for atom in draft.atoms}
        identity = {a: a for a in self.attributes}
        self.all = {self.said(part, identity): part for part in draft.parts}
        """Everything that it asks for, once."""
        self.parts = tuple(self.all.values())

    @cached_property
    def seen(self) -> dict[str, list[Seen]]:
        """By attribute: its parts, as they look from it. A renaming keeps what attributes see."""
        found: dict[str, list[Seen]] = {a: [] for a in self.attributes}
        for part in self.parts:
            for attribute in dict.fromkeys(part.attributes):
                found[attribute].append(self._seen_from(attribute, part))
        for a, b in self.unequal:
            found[a].append(("differs", ((0, b),)))
            found[b].append(("differs", ((0, a),)))
        for place, key in enumerate(self.draft.keys):
            if key in found:
                found[key].append((("key", place), ()))  # a key has no like
        return found

    @cached_property
    def invariant(self) -> Hashable:
        """What drafts that can be renamed into each other have in common."""
        colours = Counter(frozenset(Counter(said for said, _ in seen).items()) for seen in self.seen.values())
        return len(self.parts), len(self.unequal), frozenset(colours.items())

    def said(self, part: Part, names: Mapping[str, str]) -> Hashable:
        """Return what a part says under other names, in the form that equal parts share."""
        if not isinstance(part, Atom):
            return part.renamed({a: names[a] for a in part.attributes}).canonical()
        attributes = tuple(names[a] for a in part.attributes)
        exchanges = self._exchanges.get(part.read, ())
        if exchanges:
            attributes = min(attributes, *(tuple(attributes[c] for c in columns) for columns in exchanges))
        return part.relation, part.view, part.version, part.negated, attributes

    def _seen_from(self, attribute: str, part: Part) -> Seen:
        if not isinstance(part, Atom):
            return _text(attribute, part), tuple((0, a) for a in dict.fromkeys(part.attributes) if a != attribute)
        exchanges = self._exchanges[part.read]
        roles = [min([place, *(columns[place] for columns in exchanges)]) for place in range(len(part.attributes))]
        mine = tuple(sorted(role for role, a in zip(roles, part.attributes, strict=True) if a == attribute))
        others = tuple((role, a) for role, a in zip(roles, part.attributes, strict=True) if a != attribute)
        return (part.relation, part.view, part.version, part.negated, mine), others


def _exchanges(atom: Atom, draft: Draft) -> tuple[tuple[int, ...], ...]:
    """Return the exchanges of an atom's columns that leave what it reads unchanged."""
    relation = draft.statistics.relation(atom)
    if relation.symmetric:
        return ((1, 0, *range(2, len(atom.attributes))),)
    return relation.symmetries


def _text(attribute: str, part: Part) -> str:
    """Return a filter or a restriction as text with the attribute called `this`, and any other `that`."""

    def side(operand: Operand) -> str:
        if isinstance(operand, Constant):
            return str(operand)
        name = "this" if attribute_of(operand) == attribute else "that"
        return f"{name}.{operand.name}" if isinstance(operand, Property) else name

    if isinstance(part, Comparison):
        form = part.canonical()
        pairs = [[side(left), side(right)] for left, right in form.pairs]
        return " or ".join(sorted(f" {form.op} ".join(sorted(pair) if form.operator.symmetric else pair) for pair in pairs))
    if isinstance(part, Predicate):
        names = {a: "this" if a == attribute else "that" for a in part.attributes}
        return str(canonical_expression(renamed(part.expression, names)))
    return " ".join(map(side, part.attributes))


def shape_of(query: Query, statistics: Statistics) -> Shape:
    """Return the shape of a query."""
    return Shape(Draft(query, statistics, query.atoms, query.filters))


def places(source: Shape, target: Shape) -> Iterator[dict[str, str]]:
    """Give the renamings that turn the source's parts into some of the target's, as many as a bounded search finds.

    No two attributes become one.
    """
    tried = 0

    def holds(names: dict[str, str]) -> bool:
        newest = next(reversed(names))
        mapped = (p for p in source.parts if newest in p.attributes and names.keys() >= set(p.attributes))
        return all(target.said(part, names) in target.all for part in mapped)

    def search(names: dict[str, str], rest: tuple[str, ...]) -> Iterator[dict[str, str]]:
        nonlocal tried
        if not rest:
            yield names
            return
        for a in target.attributes:
            tried += 1
            if tried > MAX_TRIED_IMAGES:
                return
            if a not in names.values() and holds(grown := {**names, rest[0]: a}):
                yield from search(grown, rest[1:])

    yield from search({}, source.attributes)
