"""Count in threads of this process, if that is faster than starting Spark."""

from __future__ import annotations

from collections.abc import Sequence

from bigjoin.compiled.work_limit import check_work
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_threads
from bigjoin.joins.executable import Range
from bigjoin.planner import meaning
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Query
from bigjoin.spark.shared import count_job
from bigjoin.spark.strategy import Ask

MAX_TUPLES_COUNTED_HERE = 6_000_000
"""The size of an index up to which Spark is not started for a count."""
COUNT_THREADS = 2


def is_small(index: Index) -> bool:
    """Tell whether an index is small enough to count without Spark."""
    return sum(relation.tuples for relation in index.statistics.relations.values()) <= MAX_TUPLES_COUNTED_HERE


def count_here(index: Index, query: Query) -> int:
    """Return the number of matches in an index that has no runs."""
    return sum(_count(index, part) for part in meaning(query, index.statistics))


def _count(index: Index, part: Draft) -> int:
    job = count_job(Ask(part, index), COUNT_THREADS)
    check_work(part.query, [(job.program.plan, index)])

    def count(ranges: Sequence[Sequence[Range]]) -> int:
        found = zip(job.program.bind(index), ranges, strict=True)
        return sum(times * counting.count(mine) for (times, counting), mine in found)

    return int(sum(in_threads(count, job.ranges)) // job.program.divisor)
