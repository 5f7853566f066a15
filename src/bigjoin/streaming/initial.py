"""How many matches a query has before it is watched: counted here, while that is faster than to ask Spark."""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_threads
from bigjoin.joins.executable import as_nest
from bigjoin.query.optional import branches
from bigjoin.query.query import Query
from bigjoin.spark import shared
from bigjoin.spark.strategy import Ask
from bigjoin.streaming.work import check_work

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
    job = shared.count_job(Ask(query, index), TASKS)
    program = job.program
    nests = program.nests if program.steps is None else (as_nest(program.steps),)
    check_work(query, [(nest, program.query, index) for nest in nests])
    return int(sum(in_threads(_Count(job), range(len(job.ranges)))) // program.divisor)


@dataclass(frozen=True)
class _Count:
    """One task of a count."""

    job: shared.CountJob

    def __call__(self, task: int) -> int:
        terms = zip(self.job.program.bind(self.job.index), self.job.ranges[task], strict=True)
        return sum(times * counting.count(ranges) for (times, counting), ranges in terms)
