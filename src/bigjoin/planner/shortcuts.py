"""Shortcuts: materialised relations that hold wherever a query's atoms do, so that one list stands for several.

tri(a, b, c) is stored, and holds exactly where its definition does. So every place where the definition fits into a query is a
further atom that cannot fail, and at a step its list may replace those of the atoms it covers: they need not be intersected.
The query keeps its own atoms, which decide what it means and which symmetries it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from bigjoin.planner.column_orders import extender, typical_length
from bigjoin.planner.draft import Draft, Shortcut
from bigjoin.planner.simplify import canonical_atom
from bigjoin.query.plan import Extender
from bigjoin.query.query import Atom
from bigjoin.query.statistics import Definition

MAX_PLACES = 1000
"""Places of one definition that are considered."""

MIN_LENGTH_SAVED = 64.0
"""By how many values lists must be shorter for a further shortcut to pay off in counts, whose loops share intersections."""

_Place = tuple[dict[str, str], frozenset[Atom]]
"""What each attribute of a definition is called in a query, and which of the query's atoms the definition's atoms are."""


def add_shortcuts(draft: Draft) -> Draft:
    """Find where definitions of materialised relations fit into the atoms."""
    found: dict[tuple[str, frozenset[Atom]], Shortcut] = {}
    for name, relation in draft.statistics.relations.items():
        if relation.definition is not None:
            for names, covered in islice(_places(relation.definition, draft), MAX_PLACES):
                atom = Atom(name, tuple(names[a] for a in relation.definition.head))
                found.setdefault((name, covered), Shortcut(atom, covered))  # a symmetry of the definition finds it again
    return replace(draft, shortcuts=tuple(found.values()))


def _places(definition: Definition, draft: Draft) -> Iterator[_Place]:
    """Give the ways to name a definition's attributes so that its atoms are atoms of the draft, and which these are."""

    def fit(left: Sequence[Atom], names: dict[str, str], used: frozenset[Atom]) -> Iterator[_Place]:
        if not left:
            yield names, used
            return
        wanted, *others = left
        for atom in draft.positive:
            if atom.read == wanted.read:
                for attributes in _orders(atom, draft):
                    grown = {**names, **dict(zip(wanted.attributes, attributes, strict=True))}
                    agrees = all(grown[a] == b for a, b in (*names.items(), *zip(wanted.attributes, attributes, strict=True)))
                    if agrees and len(set(grown.values())) == len(grown):  # no two attributes become one
                        yield from fit(others, grown, used | {atom})

    yield from fit(definition.atoms, {}, frozenset())


def _orders(atom: Atom, draft: Draft) -> Iterator[tuple[str, ...]]:
    yield atom.attributes
    if draft.statistics.relation(atom).symmetric and atom.attributes[0] != atom.attributes[1]:
        yield (atom.attributes[1], atom.attributes[0], *atom.attributes[2:])


def by_shortcuts(
    attribute: str, bound: Sequence[str], extenders: Sequence[Extender], draft: Draft, saved: float
) -> tuple[Extender, ...]:
    """Return the extenders of a step with shortcuts in the place of those that they cover, where their lists are shorter.

    Shortcuts whose keys are bound first come first, as deeper loops share what they lead to. The first that covers several
    atoms is always taken: its list is an intersection found beforehand. The lists of a further one have to save so many values.
    """
    now = {*bound, attribute}
    left = {canonical_atom(e.atom, draft): e for e in extenders if set(e.atom.attributes) <= now and not e.atom.negated}
    usable = [
        (shortcut, found)
        for shortcut in draft.shortcuts
        if attribute in shortcut.atom.attributes and set(shortcut.atom.attributes) <= now
        if (found := extender(shortcut.atom, attribute, bound, draft)) is not None
    ]
    taken: list[Extender] = []
    for shortcut, found in sorted(usable, key=lambda entry: sorted(map(bound.index, entry[1].key), reverse=True)):
        mine = [atom for atom in left if atom in shortcut.covers]
        shorter = typical_length(found, draft) + saved < sum(typical_length(left[atom], draft) for atom in mine)
        if (len(mine) > 1 and not taken) or (mine and shorter):
            taken.append(found)
            for atom in mine:
                del left[atom]
    if not taken:
        return tuple(extenders)
    kept = [e for e in extenders if not (set(e.atom.attributes) <= now) or canonical_atom(e.atom, draft) in left]
    return (*taken, *kept)
