"""How many matches a query has before it is watched: counted here, while that is faster than to ask Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_threads
from bigjoin.planner import count_plan, plan
from bigjoin.query.optional import branches
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.spark import shared
from bigjoin.streaming.work import check_work, term_of

ALONE = 6_000_000
"""Tuples up to which an index is counted over here."""
TASKS = 2


def is_small(index: Index) -> bool:
    """Tell whether an index is so small that Spark need not be started for it."""
    return sum(relation.tuples for relation in index.statistics.relations.values()) <= ALONE


def count_here(index: Index, query: Query) -> int:
    """Return the number of matches in an index without runs, found in threads of this process."""
    return sum(_count(index, branch) for branch in branches(query))


def _count(index: Index, query: Query) -> int:
    known = index.statistics
    job = shared.prepare_count(count_plan(query, known), index, tasks=TASKS, plan=partial(plan, query, known))
    if isinstance(job.plan, Plan):
        check_work(query, [(term_of(job.plan), job.plan.query, index)])
    else:
        check_work(query, [(term, job.plan.query, index) for term in job.plan.terms])
    return int(sum(in_threads(_Count(job), range(len(job.ranges)))) // job.divisor)


@dataclass(frozen=True)
class _Count:
    """One task of a count."""

    job: shared.CountJob

    def __call__(self, task: int) -> int:
        terms = zip(self.job.terms(), self.job.ranges[task], strict=True)
        return sum(times * counting.count(ranges) for (times, counting), ranges in terms)
