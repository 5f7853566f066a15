"""Spell out `distinct`: a filter `a != b` for every two attributes that nothing else keeps apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from bigjoin.planner.draft import Draft
from bigjoin.query.plan import ordered_pairs
from bigjoin.query.query import Comparison


def keep_distinct(draft: Draft) -> Draft:
    """Add a filter for each pair that needs one."""
    added = tuple(Comparison(a, "!=", b) for a, b in apart(draft))
    return replace(draft, filters=draft.filters + added)


def apart(draft: Draft) -> list[tuple[str, str]]:
    """Return the attributes that are to differ, but for those that a loopless relation or a restriction keeps apart."""
    if not draft.query.injective:
        return []
    known = {frozenset(pair) for pair in ordered_pairs(draft.restrictions)}
    known |= apart_by_atoms(draft)
    compared = [f for f in draft.filters if f.op in ("<", ">") and not f.properties]
    known |= {frozenset(f.attributes) for f in compared if len(f.attributes) == 2}
    order = draft.order or draft.attributes
    pairs = combinations(order, 2)
    return [(a, b) for a, b in pairs if frozenset((a, b)) not in known and draft.domain(a) == draft.domain(b)]


def apart_by_atoms(draft: Draft) -> frozenset[frozenset[str]]:
    """Return the pairs of attributes that differ because an atom joins them in a relation without loops."""
    return frozenset(
        frozenset(atom.attributes)
        for atom in draft.positive
        if len(set(atom.attributes)) == 2 == len(atom.attributes) and draft.statistics.of(atom).loops == 0
    )
