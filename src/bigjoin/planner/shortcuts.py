"""Shortcuts: materialised relations that hold wherever a query's atoms do, so that one list stands for several.

tri(a, b, c) is stored, and holds exactly where its definition does. So every place where the definition fits into a query is a
further atom that cannot fail, and at a step its list may replace those of the atoms it covers: they need not be intersected.
The query keeps its own atoms, which decide what it means and which symmetries it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from bigjoin.planner.column_orders import extender, typical_length
from bigjoin.planner.draft import Draft, Shortcut
from bigjoin.planner.isomorphism import Shape, places, shape_of
from bigjoin.planner.simplify import canonical_atom, ranks_of
from bigjoin.query.plan import Extender
from bigjoin.query.query import Atom, Query

MAX_PLACES = 1000
"""Places of one definition that are considered."""

MIN_LENGTH_SAVED = 64.0
"""By how many values lists must be shorter for a further shortcut to pay off in counts, whose loops share intersections."""


def add_shortcuts(draft: Draft) -> Draft:
    """Find where definitions of materialised relations fit into the atoms."""
    found: dict[tuple[str, frozenset[Atom]], Shortcut] = {}
    if not any(relation.definition for relation in draft.statistics.relations.values()):
        return draft if not draft.shortcuts else replace(draft, shortcuts=())
    asked, ranks = Shape(draft), ranks_of(draft)
    for name, relation in draft.statistics.relations.items():
        if relation.definition is not None:
            defined = shape_of(Query(name, relation.definition.head, relation.definition.atoms), draft.statistics)
            for names in islice(places(defined, asked), MAX_PLACES):
                atom = Atom(name, tuple(names[a] for a in relation.definition.head))
                covered = frozenset(canonical_atom(part.renamed(names), draft, ranks) for part in relation.definition.atoms)
                found.setdefault((name, covered), Shortcut(atom, covered))  # a symmetry of the definition finds it again
    return replace(draft, shortcuts=tuple(found.values()))


def by_shortcuts(
    attribute: str, bound: Sequence[str], extenders: Sequence[Extender], draft: Draft, saved: float
) -> tuple[Extender, ...]:
    """Return the extenders of a step with shortcuts in the place of those that they cover, where their lists are shorter.

    Shortcuts whose keys are bound first come first, as deeper loops share what they lead to. The first that covers several
    atoms is always taken: its list is an intersection found beforehand. The lists of a further one have to save so many values.
    """
    if not draft.shortcuts:
        return tuple(extenders)
    now, ranks = {*bound, attribute}, ranks_of(draft)
    left = {canonical_atom(e.atom, draft, ranks): e for e in extenders if set(e.atom.attributes) <= now and not e.atom.negated}
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
    kept = [e for e in extenders if not (set(e.atom.attributes) <= now) or canonical_atom(e.atom, draft, ranks) in left]
    return (*taken, *kept)
