"""The passes of every kind of plan. Each pass is a function from a Draft to a Draft, in the file that has its name.

All kinds begin with what the query means. A static plan then puts each part of the query where it can be decided first. A count
weighs whole sums of nests against each other, so symmetry, order and nests are chosen together, in one pass. Factorized
matches take symmetry and tails from the query alone, since tails decide the columns of the result. A delta plan has one query
for each atom (or orbit of atoms) whose relation changes: what all of them share comes first, then each goes its own way.
"""

from __future__ import annotations

from collections.abc import Callable

from bigjoin.planner.add_seeds import add_seeds
from bigjoin.planner.break_symmetry import break_symmetry
from bigjoin.planner.build_nest import build_chain
from bigjoin.planner.build_steps import build_steps
from bigjoin.planner.choose_tails import choose_tails
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.expand_induced import expand_induced
from bigjoin.planner.follow_properties import follow_counted_properties
from bigjoin.planner.foresee_updates import foresee_updates, refuse_unchanging
from bigjoin.planner.keep_distinct import keep_distinct
from bigjoin.planner.order_attributes import order_as_written, order_attributes, refuse_disconnected
from bigjoin.planner.read_half_way import read_half_way
from bigjoin.planner.read_pairs import read_pairs
from bigjoin.planner.read_versions import read_versions
from bigjoin.planner.resolve_relations import check_domains, resolve_atoms
from bigjoin.planner.resolve_terms import resolve_terms
from bigjoin.planner.rooted_sum import rooted_sum
from bigjoin.planner.shortcuts import add_shortcuts
from bigjoin.planner.simplify import simplify
from bigjoin.planner.sum_nests import sum_nests
from bigjoin.planner.type_expressions import type_expressions

Pass = Callable[[Draft], Draft]

MEANING: tuple[Pass, ...] = (
    resolve_atoms,
    check_domains,
    resolve_terms,
    type_expressions,
    read_pairs,
    expand_induced,
    add_seeds,
    simplify,
    add_shortcuts,
    refuse_disconnected,
)
"""What a query means for this source, whatever is asked about its matches."""

STATIC = (*MEANING, order_attributes, break_symmetry, drop_implied, keep_distinct, build_steps)

COUNT = (*MEANING, sum_nests)

ROOTED = (*MEANING, rooted_sum)
"""A count that has the right number of matches for each value of the attribute that it begins with."""

FACTORIZED = (*MEANING, order_as_written, break_symmetry, drop_implied, keep_distinct, choose_tails, build_chain)

DELTA = (refuse_unchanging, *MEANING, refuse_unchanging, foresee_updates, order_attributes, break_symmetry)
"""What the delta queries of a query share: the form in which each match is reported.

What does not change is refused before the passes of the meaning, and again for drafts that have their meaning already.
"""

WHOLE = (refuse_unchanging, *MEANING, refuse_unchanging, foresee_updates, read_half_way, sum_nests)
"""A count of all matches half way through an epoch, or after it."""

WHOLE_REPLACED = (*WHOLE[:-2], follow_counted_properties, *WHOLE[-2:])
"""The same for an epoch that replaces properties of vertices."""

SEEDED = (order_attributes, break_symmetry, read_versions, drop_implied, keep_distinct, build_steps)
"""What each delta query then goes through."""


def through(passes: tuple[Pass, ...], draft: Draft) -> Draft:
    """Return a draft after some passes."""
    for transform in passes:
        draft = transform(draft)
    return draft
