"""Spell out `distinct`: a filter `a != b` for every two attributes that nothing else keeps apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from bigjoin.planner.draft import Draft
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.plan import ordered_pairs
from bigjoin.query.query import Comparison


def keep_distinct(draft: Draft) -> Draft:
    """Add a filter for each pair that needs one."""
    return with_different(draft, apart(draft))


def with_different(draft: Draft, pairs: Iterable[tuple[str, str]]) -> Draft:
    """Add filters that say that the attributes of each pair differ."""
    return replace(draft, filters=draft.filters + tuple(Comparison(a, NOT_EQUAL.text, b) for a, b in pairs))


def apart(draft: Draft) -> list[tuple[str, str]]:
    """Return the pairs that have to differ, except those that a loopless relation, a filter or a restriction keeps apart."""
    if not draft.query.injective:
        return []
    known = {frozenset(pair) for pair in ordered_pairs(draft.restrictions)} | apart_by_atoms(draft)
    known |= {frozenset(f.attributes) for f in draft.filters if f.keeps_apart}
    pairs, domains = combinations(draft.order or draft.attributes, 2), draft.statistics.domains_of(draft.positive)
    return [(a, b) for a, b in pairs if domains[a] == domains[b] and frozenset((a, b)) not in known]


def apart_by_atoms(draft: Draft) -> frozenset[frozenset[str]]:
    """Return the pairs of attributes that differ because an atom joins them in a relation without loops."""
    return frozenset(
        frozenset(atom.attributes)
        for atom in draft.positive
        if len(set(atom.attributes)) == 2 == len(atom.attributes) and draft.statistics.of(atom).loops == 0
    )
