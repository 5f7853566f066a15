"""Draw a sample of matches where every task has the whole index: count the matches of stretches, choose numbers, pick.

Matches are numbered (`compiled/picking.py`). A first job counts those of many stretches of codes. The driver then chooses
numbers among all of them, without replacement, and a second job picks the matches with these numbers, from the stretches that
have some. So a sample costs about as much as a count, and every set of as many matches is equally likely.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from random import Random

import numpy as np
import pyarrow as pa

from bigjoin.compiled.picking import PickProgram, picked
from bigjoin.index.overlay import AskedIndex
from bigjoin.joins.bind import result_columns
from bigjoin.local.matches import in_microseconds, schema_of
from bigjoin.local.strategy import Ask
from bigjoin.planner import numbered_plan
from bigjoin.quota import quota

STRETCHES_PER_TASK = 256
"""Stretches of codes that each task counts: picking goes on within those that have a wanted match."""

SAMPLED_BYTES = 100
"""Bytes of memory that the driver takes for each match of a sample, roughly: its number, and its ids."""


@dataclass(frozen=True)
class PickJob:
    """A plan with numbered matches over an index, in stretches of units. It is all that travels to tasks."""

    program: PickProgram
    index: AskedIndex
    cuts: tuple[int, ...]
    """The ends of stretches."""
    tasks: int
    chosen: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Stretches, and the sorted numbers of the matches that are picked from each."""

    @classmethod
    def of(cls, ask: Ask, tasks: int) -> PickJob:
        """Plan how the matches of a question are numbered, and cut them into stretches of about equal work."""
        program = PickProgram.choose(*numbered_plan(ask.meaning), ask.index)
        return cls(program, ask.index, tuple(program.bind(ask.index).cuts(tasks * STRETCHES_PER_TASK)), tasks)

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """The units of each stretch."""
        return list(pairwise(self.cuts))

    @property
    def counting_tasks(self) -> int:
        """How many tasks count stretches."""
        return min(self.tasks, max(1, len(self.stretches)))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the matches, with Spark's types."""
        columns = result_columns(self.program.plan.query, self.program.plan.attributes, self.index)
        return in_microseconds(schema_of(columns, len(self.program.plan.attributes)))


def draw(
    asks: Sequence[Ask],
    tasks: int,
    size: int,
    random_state: int,
    count: Callable[[PickJob], Iterable[Mapping[int, int]]],
    picked_by: Callable[[PickJob], pa.Table],
) -> list[pa.Table]:
    """Return matches of several questions, chosen uniformly from all of them together: a table for each question.

    `count` has the tasks of a job count its stretches, and `picked_by` has them pick matches.
    """
    jobs = [PickJob.of(ask, tasks) for ask in asks]
    counts = [_counts(job, count(job)) for job in jobs]
    drawn = min(size, sum(map(sum, counts)))
    quota().require(drawn * SAMPLED_BYTES, f"a sample of {drawn:,} matches")
    ranks = choose(sum(map(sum, counts)), size, Random(random_state))
    tables = []
    for job, mine in zip(jobs, counts, strict=True):
        chosen = dealt(ranks, mine)
        ranks = [rank - sum(mine) for rank in ranks[sum(len(some) for _, some in chosen) :]]
        picking = replace(job, chosen=tuple(chosen), tasks=min(job.tasks, len(chosen)))
        rows = picked_by(picking) if chosen else job.schema.empty_table()
        tables.append(rows.rename_columns(job.schema.names).cast(job.schema))
    return tables


def _counts(job: PickJob, found: Iterable[Mapping[int, int]]) -> list[int]:
    """Return how many matches each stretch has, given what tasks have counted."""
    known = {stretch: count for some in found for stretch, count in some.items()}
    return [known[stretch] for stretch in range(len(job.stretches))]


def choose(total: int, size: int, random: Random) -> list[int]:
    """Return `size` numbers below a total, sorted, all different and chosen uniformly; all numbers if there are no more."""
    if total <= size:
        return list(range(total))
    if total < 1 << 63:
        return sorted(random.sample(range(total), size))
    found: set[int] = set()
    while len(found) < size:
        found.add(random.randrange(total))
    return sorted(found)


def dealt(ranks: Sequence[int], counts: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the stretches that numbers fall into, given how many matches each has, and the numbers counted from there."""
    found = []
    for stretch, after in enumerate(accumulate(counts)):
        before = after - counts[stretch]
        if mine := ranks[bisect_left(ranks, before) : bisect_left(ranks, after)]:
            found.append((stretch, tuple(rank - before for rank in mine)))
    return found


def count_stretches(job: PickJob, number: int) -> dict[int, int]:
    """Count the matches of the stretches of one task."""
    matches = job.program.bind(job.index)
    mine = range(number, len(job.stretches), job.counting_tasks)
    return {stretch: matches.count(*job.stretches[stretch]) for stretch in mine}


def pick(job: PickJob, number: int) -> Iterator[pa.RecordBatch]:
    """Pick matches of the stretches of one task, as ids in the order of the head."""
    matches, query = job.program.bind(job.index), job.program.plan.query
    columns = result_columns(query, job.program.plan.attributes, job.index)
    for stretch, ranks in job.chosen[number :: job.tasks]:
        found = np.concatenate(list(picked(matches, *job.stretches[stretch], ranks)), axis=1)
        batch = pa.RecordBatch.from_arrays([column.decode(found) for column in columns], names=job.schema.names)
        yield batch.cast(job.schema, safe=False)
