"""Spell out `distinct`: a filter `a != b` for every two attributes that nothing else keeps apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from bigjoin.planner.break_symmetry import ordered_pairs
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Comparison


def keep_distinct(draft: Draft) -> Draft:
    """Add the filters; an atom over a relation without loops, or a restriction, already keeps its attributes apart."""
    if not draft.query.injective:
        return draft
    apart = {frozenset(pair) for pair in ordered_pairs(draft.restrictions)}
    apart |= {
        frozenset(atom.attributes)
        for atom in draft.positive
        if len(atom.attributes) == 2 and draft.statistics.of(atom).loops == 0
    }
    compared = [f for f in draft.filters if f.op in ("<", ">") and not f.properties]
    apart |= {frozenset(f.attributes) for f in compared if len(f.attributes) == 2}
    added = tuple(
        Comparison(a, "!=", b)
        for a, b in combinations(draft.order, 2)
        if frozenset((a, b)) not in apart and draft.domain(a) == draft.domain(b)
    )
    return replace(draft, filters=draft.filters + added)
