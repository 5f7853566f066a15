"""Query -> Plan, through the visible tuples of passes in `passes.py`.

Any attribute order gives the right answer, and with the right extenders any order is worst-case optimal (section 2.2 of the
paper): what the planner decides is only how far below the worst case a query stays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from bigjoin.planner.count_groups import plan_groups
from bigjoin.planner.draft import Draft
from bigjoin.planner.follow_properties import follow_properties, reads_properties
from bigjoin.planner.foresee_updates import foreseen
from bigjoin.planner.passes import (
    COUNT,
    DELTA,
    FACTORIZED,
    MEANING,
    ROOTED,
    SEEDED,
    STATIC,
    WHOLE,
    WHOLE_REPLACED,
    Pass,
    through,
)
from bigjoin.planner.seed_with_deltas import plan_delta
from bigjoin.planner.share_prefixes import cost_apart, share_prefixes
from bigjoin.planner.without_collection import without_collection
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.groups import GroupPlan
from bigjoin.query.nest import CountPlan, Nest, PlanTree
from bigjoin.query.optional import branches
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.spelled_out import spelled_out
from bigjoin.query.statistics import Statistics

_Kind = TypeVar("_Kind", Plan, Nest, CountPlan)


@without_collection()
def meaning(query: Query, statistics: Statistics) -> tuple[Draft, ...]:
    """Return what a query means for a source, as drafts from which every kind of plan can start.

    There is one for each reading of what a pattern leaves open, and for each choice of which optional atoms hold. Their matches
    are disjoint, and together they are the query's. A draft's `query` is such a branch with its relations resolved.
    """
    return tuple(_after(MEANING, branch, statistics) for branch in all_branches(query, statistics))


def all_branches(query: Query, statistics: Statistics) -> tuple[Query, ...]:
    """Return the queries without patterns and optional atoms that a query is the sum of."""
    return tuple(branch for read in spelled_out(query, statistics) for branch in branches(read))


def drops_duplicates(query: Query, parts: tuple[Draft, ...], statistics: Statistics) -> bool:
    """Tell whether equal rows of a query count once, and there may be some; `parts` are its meaning."""
    return query.deduplicate and (
        query.projects or len(spelled_out(query, statistics)) > 1 or any(part.query.projects for part in parts)
    )


def delta_branches(query: Query, statistics: Statistics) -> tuple[Query, ...]:
    """Do the same as `all_branches` for relations that change: what they lack today, such as loops, may come."""
    return all_branches(query, foreseen(statistics))


@without_collection()
def plan(query: Query | Draft, statistics: Statistics | None = None, *, order: tuple[str, ...] | None = None) -> Plan:
    """Return the plan that finds a query's matches; `order` overrules the planner's attribute order."""
    names = query.attributes
    if order is not None and sorted(order) != sorted(names):
        raise ValueError(f"the order {order} is not one of the attributes {names}")
    return _planned(Plan, _after(STATIC, query, statistics, order=order or ()))


@without_collection()
def count_plan(query: Query | Draft, statistics: Statistics | None = None) -> CountPlan:
    """Return the plan that counts a query's matches, without listing them all."""
    return _planned(CountPlan, _after(COUNT, query, statistics))


@without_collection()
def group_plan(query: Draft, keys: tuple[str, ...]) -> GroupPlan | None:
    """Return the plan that counts a query's matches by groups, or None if the index leads to no such loops."""
    return plan_groups(replace(query, keys=keys))


@without_collection()
def plan_tree(drafts: Sequence[Draft], *, counting: bool) -> PlanTree | None:
    """Return the plans of queries that are added up as a tree, if that costs less than to find or count each by itself."""
    tree = share_prefixes(drafts, lambda draft, order: plan(draft, order=order or None))
    if tree is None:
        return None
    apart = sum(count_plan(draft).cost if counting else cost_apart(draft, plan(draft)) for draft in drafts)
    return tree if tree.cost < apart else None


@without_collection()
def factorized_plan(query: Query | Draft, statistics: Statistics | None = None) -> Nest:
    """Return the nest that finds prefixes of matches, each with lists of the attributes that are then independent."""
    return _planned(Nest, _after(FACTORIZED, query, statistics))


@without_collection()
def numbered_plan(query: Draft) -> tuple[CountPlan, Plan]:
    """Return a count and a plan that have the same number of matches for each value of the attribute that both begin with."""
    counted = _after(ROOTED, query, None)
    return _planned(CountPlan, counted), plan(query, order=counted.order)


@without_collection()
def delta_plan(
    query: Query | Draft,
    statistics: Statistics | None = None,
    *,
    changing: Collection[str] | None = None,
    listing: bool = True,
    replaced: bool = False,
) -> DeltaPlan:
    """Return the delta queries of a query for relations that change, to list matches or only to count them.

    `replaced` is about epochs that replace properties of vertices.
    """
    draft = _after(DELTA, query, None if statistics is None else foreseen(statistics))
    draft = follow_properties(draft, listing=listing) if replaced else draft
    relations = changing_relations(draft.statistics) if changing is None else changing
    return plan_delta(draft, lambda seeded: through(SEEDED, seeded), relations, listing=listing)


@without_collection()
def whole_count_plan(query: Query, statistics: Statistics, *, replaced: bool = False) -> CountPlan:
    """Return the plan that counts all matches of a query in a phase of an epoch: after deletions, or after insertions."""
    return _planned(CountPlan, _after(WHOLE_REPLACED if replaced else WHOLE, query, foreseen(statistics)))


@without_collection()
def is_replaced(query: Query, names: Collection[str], statistics: Statistics, *, listing: bool) -> bool:
    """Tell whether a query reads any of some properties of vertices."""
    return reads_properties(_after(DELTA, query, foreseen(statistics)), names, listing=listing)


def changing_relations(statistics: Statistics) -> list[str]:
    """Return the relations that updates can change: all but seeds."""
    return [name for name, relation in statistics.relations.items() if not relation.given]


def _after(
    passes: tuple[Pass, ...], query: Query | Draft, statistics: Statistics | None, *, order: tuple[str, ...] = ()
) -> Draft:
    """Return a query after some passes; a draft has its meaning already, so it goes through those that follow."""
    if isinstance(query, Draft):
        return through(passes[passes.index(MEANING[-1]) + 1 :], replace(query, order=order))
    assert statistics is not None
    return through(passes, Draft(query, statistics, query.atoms, query.filters, order=order))


def _planned(kind: type[_Kind], draft: Draft) -> _Kind:
    assert isinstance(draft.plan, kind)
    return draft.plan
