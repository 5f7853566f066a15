"""What there is to explain about a statement, as values: text (`explain.py`) and pictures (`drawing/`) are made of the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from bigjoin.errors import QueryError
from bigjoin.languages.translate import assumed_for
from bigjoin.planner import count_plan, delta_plan, factorized_plan, meaning, plan, plan_tree
from bigjoin.planner.agm import agm_bound, cover_number, packing_number
from bigjoin.planner.draft import Draft, Given
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.nest import CountPlan, Nest, PlanTree, nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.spelled_out import spelled_out
from bigjoin.query.statement import Statement
from bigjoin.query.statistics import Statistics

RunStats: TypeAlias = Mapping[str, Any]
"""What a run reports (`answers.Count.stats`)."""


@dataclass(frozen=True, slots=True)
class StepRun:
    """What a step, or a loop, has done."""

    prefixes: int
    candidates: int


@dataclass(frozen=True)
class ExplainedPart:
    """One of the queries that a query is the sum of: what it means, how its matches are found, and how they are counted."""

    draft: Draft
    plan: Plan
    counted: CountPlan
    tails: tuple[str, ...] | None = None
    """The attributes that are lists in factorized matches; None if there are no such matches."""
    deltas: tuple[DeltaPlan, ...] = ()
    """The delta queries that list what updates change, and those that count it."""
    steps_run: tuple[StepRun, ...] | None = None
    """What the seed and the steps of the plan have done, if a run took these."""
    loops_run: tuple[tuple[StepRun, ...], ...] | None = None
    """For each nest of the count what its loops have done, if a run took these."""


@dataclass(frozen=True)
class ExplainedQuery:
    """A query, its parts, and what is known about its answer before it runs."""

    query: Query
    read_as: tuple[Query, ...]
    """The queries without patterns and paths that it stands for."""
    parts: tuple[ExplainedPart, ...]
    trees: Mapping[str, PlanTree]
    """What parts have in common, explored once, when matches are `found` and when they are `counted`."""
    bound: float | None
    """The AGM bound, if sizes are known."""
    cover: float
    packing: float
    tree_run: tuple[StepRun, ...] | None = None
    """What the loops of the tree have done by which matches are counted, if a run took these."""

    @property
    def given(self) -> tuple[Given, ...]:
        """Its seeds."""
        return tuple(one for one in self.parts[0].draft.given if one.rows_of is None)


@dataclass(frozen=True)
class Explained:
    """A statement and its queries, planned for a source or for one that is assumed."""

    statement: Statement
    known: Statistics
    """Sizes: those of the source, or assumed ones."""
    is_known: bool
    queries: tuple[ExplainedQuery, ...]
    strategy: str | None = None
    stats: RunStats | None = None
    """What a run has reported."""
    held: Mapping[str, int] = field(default_factory=dict)
    """How many tuples of seeds the source has, by their relation."""


def explained(
    statement: Statement | Query,
    statistics: Statistics | None = None,
    *,
    undirected: bool = False,
    delta: bool = False,
    strategy: str | None = None,
    stats: RunStats | None = None,
    held: Mapping[str, int] | None = None,
) -> Explained:
    """Plan a statement, and perhaps its delta queries; without statistics, for a mid-sized graph."""
    asked = Statement.of(statement) if isinstance(statement, Query) else statement
    if asked.unread is not None:
        hint = "name a SOURCE, or the tables with --relation NAME=PATH"
        raise QueryError("what a SELECT means depends on its tables", hint=hint)
    known = statistics or assumed_for(asked, symmetric=undirected)
    is_known = statistics is not None
    queries = tuple(_explained(block.query, known, delta=delta, is_known=is_known) for block in asked.everything)
    if stats is not None:
        queries = with_runs(queries, stats)
    return Explained(asked, known, is_known, queries, strategy, stats, held or {})


def _explained(query: Query, known: Statistics, *, delta: bool, is_known: bool) -> ExplainedQuery:
    """Plan one query."""
    drafts = meaning(query, known)
    read_as = spelled_out(query, known)
    parts = []
    for draft in drafts:
        chosen, counted = plan(draft), count_plan(draft)
        tails = factorized_plan(draft).tails if len(drafts) == 1 and not (query.projects or query.optional) else None
        parts.append(ExplainedPart(draft, chosen, counted, tails, _deltas(draft) if delta else ()))
    trees = {"found": plan_tree(drafts, counting=False), "counted": plan_tree(drafts, counting=True)}
    bound = None
    if is_known:
        bound = agm_bound(query, known) if query.optional else sum(agm_bound(read, known) for read in read_as)
    largest = max(drafts, key=lambda draft: len(draft.query.positive)).query
    return ExplainedQuery(
        query,
        read_as,
        tuple(parts),
        {what: tree for what, tree in trees.items() if tree is not None},
        bound,
        cover_number(largest),
        packing_number(largest),
    )


def _deltas(draft: Draft) -> tuple[DeltaPlan, ...]:
    return tuple(delta_plan(draft.query, draft.statistics, listing=listing) for listing in (True, False))


def with_runs(queries: Sequence[ExplainedQuery], stats: RunStats) -> tuple[ExplainedQuery, ...]:
    """Return queries with what a run has told of each of their steps; without, from the first that the run did not take."""
    told = list(stats["steps"])
    in_rounds = "exchanges" in stats
    found = []
    for query in queries:
        tree = query.trees.get("counted")
        if tree is not None and (loops := _taken(told, [_walked(tree.nest)])) is not None:
            found.append(replace(query, tree_run=loops[0]))
            continue
        parts = tuple(_with_run(part, told, in_rounds=in_rounds) for part in query.parts)
        found.append(replace(query, parts=parts))
    return tuple(found)


def _with_run(part: ExplainedPart, told: list[RunStats], *, in_rounds: bool) -> ExplainedPart:
    """Return a part with what was told of it first: of its steps, of its loops, or of its plan as loops."""
    seed = part.plan.seed.attributes
    steps = [step.attribute for step in part.plan.steps]
    names = ",".join(seed) if in_rounds else seed[-1]  # batches of one process tell of steps by their attributes alone
    if not in_rounds and (loops := _taken(told, list(map(_walked, part.counted.terms)))) is not None:
        return replace(part, loops_run=loops, steps_run=loops[0][len(seed) - 1 :] if _is_its_plan(part) else None)
    if (found := _taken(told, [[names, *steps]])) is not None:
        return replace(part, steps_run=found[0])
    if not in_rounds and (chain := _taken(told, [_walked(nest_of(part.plan))])) is not None:
        return replace(part, steps_run=chain[0][len(seed) - 1 :])
    told.clear()
    return part


def _is_its_plan(part: ExplainedPart) -> bool:
    """Tell whether the loops of a part's count are the steps of its plan, one within the other."""
    terms, wanted = part.counted.terms, nest_of(part.plan)
    loops = list(terms[0].root.walk())
    is_chain = len(terms) == 1 and not any(loop.counters or loop.cached or loop.discount for loop in loops)
    is_single = all(len(loop.inner) <= 1 for loop in loops) and terms[0].times == part.counted.divisor == 1
    parts = [(loop.attribute, set(loop.step.restrictions), set(loop.step.filters)) for loop in loops]
    same = [(loop.attribute, set(loop.step.restrictions), set(loop.step.filters)) for loop in wanted.root.walk()]
    return is_chain and is_single and parts == same


def _walked(nest: Nest) -> list[str]:
    return [loop.attribute for loop in nest.root.walk()]


def _taken(told: list[RunStats], wanted: list[list[str]]) -> tuple[tuple[StepRun, ...], ...] | None:
    """Take what was told of steps with certain attributes from the front of a list; None if others come first."""
    size = sum(map(len, wanted))
    if [step["attribute"] for step in told[:size]] != [attribute for nest in wanted for attribute in nest]:
        return None
    taken, found = iter(told[:size]), []
    for nest in wanted:
        found.append(tuple(StepRun(step["prefixes"], step["candidates"]) for _, step in zip(nest, taken, strict=False)))
    del told[:size]
    return tuple(found)
