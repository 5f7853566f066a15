"""Query -> Plan, through a visible tuple of passes. Each pass is a pure function of a Draft, in a file of its own.

Any attribute order gives the right answer, and with the right extenders any order is worst-case optimal (section 2.2 of the
paper): what the planner decides is only how far below the worst case a query stays.
"""

from __future__ import annotations

from collections.abc import Collection

from bigjoin.planner.break_symmetry import break_symmetry
from bigjoin.planner.build_steps import build_steps
from bigjoin.planner.delta import plan_delta, refuse_stored
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.expand_induced import expand_induced
from bigjoin.planner.factorize import factorize
from bigjoin.planner.keep_distinct import keep_distinct
from bigjoin.planner.order_attributes import order_attributes, refuse_disconnected
from bigjoin.planner.plan_count import plan_count
from bigjoin.planner.read_pairs import read_pairs
from bigjoin.planner.resolve_relations import check_domains, resolve_relations
from bigjoin.planner.resolve_terms import resolve_terms
from bigjoin.planner.shortcuts import add_shortcuts
from bigjoin.planner.simplify import simplify
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.nest import CountPlan, Term
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.statistics import Statistics

MEANING = (
    check_domains,
    resolve_terms,
    read_pairs,
    expand_induced,
    simplify,
    add_shortcuts,
)
"""What a query means for this source, whether its matches are found or counted."""

PASSES = (
    *MEANING,
    order_attributes,
    break_symmetry,
    drop_implied,
    keep_distinct,
    build_steps,
)


def plan(query: Query, statistics: Statistics, *, order: tuple[str, ...] | None = None) -> Plan:
    """Return the plan for a query; `order` overrules the planner's attribute order."""
    if order is not None and sorted(order) != sorted(query.attributes):
        raise ValueError(f"the order {order} is not one of the attributes {query.attributes}")
    draft = _draft(query, statistics, order or ())
    for transform in PASSES:
        draft = transform(draft)
    assert draft.plan is not None
    return draft.plan


def count_plan(query: Query, statistics: Statistics) -> CountPlan:
    """Return the plan for counting a query's matches, which need not be found for that."""
    return plan_count(_meant(query, statistics))


def delta_plan(
    query: Query, statistics: Statistics, *, changing: Collection[str] | None = None, listing: bool = True
) -> DeltaPlan:
    """Return the delta queries of a query for relations that change, to list matches or only to count them."""
    refuse_stored(query, statistics)
    relations = changing_relations(statistics) if changing is None else changing
    return plan_delta(_meant(query, statistics), relations, listing=listing)


def changing_relations(statistics: Statistics) -> list[str]:
    """Return the relations that updates can change: all but labels, and stored results of queries."""
    return [name for name, relation in statistics.relations.items() if relation.arity > 1 and not relation.materialized]


def factorized_plan(query: Query, statistics: Statistics) -> Term:
    """Return the nest that finds a query's matches as prefixes, and lists of the attributes that are independent then."""
    return factorize(_meant(query, statistics))


def _draft(query: Query, statistics: Statistics, order: tuple[str, ...] = ()) -> Draft:
    resolved = resolve_relations(query, statistics)
    return Draft(resolved, statistics, resolved.atoms, resolved.filters, order=order)


def _meant(query: Query, statistics: Statistics) -> Draft:
    draft = _draft(query, statistics)
    for transform in MEANING:
        draft = transform(draft)
    refuse_disconnected(draft)
    return draft
