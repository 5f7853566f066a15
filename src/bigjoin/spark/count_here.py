"""Count in threads of this process, where that is faster than starting Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bigjoin.index.directory import Index
from bigjoin.index.run import in_threads
from bigjoin.joins.compiled import Range
from bigjoin.joins.work_limit import as_loops, check_work
from bigjoin.planner import count_plan, plan
from bigjoin.query.optional import branches
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.spark import shared

MAX_TUPLES_COUNTED_HERE = 6_000_000
"""The size of an index up to which Spark is not started for a count."""
COUNT_THREADS = 2


def is_small(index: Index) -> bool:
    """Tell whether an index is so small that counting needs no Spark."""
    return sum(relation.tuples for relation in index.statistics.relations.values()) <= MAX_TUPLES_COUNTED_HERE


def count_here(index: Index, query: Query) -> int:
    """Return the number of matches in an index without runs."""
    return sum(_count(index, branch) for branch in branches(query))


def _count(index: Index, query: Query) -> int:
    known = index.statistics
    job = shared.prepare_count(count_plan(query, known), index, tasks=COUNT_THREADS, plan=partial(plan, query, known))
    check_work(query, [(as_loops(job.plan) if isinstance(job.plan, Plan) else job.plan, index)])

    def count(ranges: Sequence[Sequence[Range]]) -> int:
        return sum(times * counting.count(mine) for (times, counting), mine in zip(job.terms(), ranges, strict=True))

    return int(sum(in_threads(count, job.ranges)) // job.divisor)
