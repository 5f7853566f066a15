"""The local strategy: the tasks are threads of this process, which has the whole index. There is no Spark.

A question from a shell is answered before Spark would have started. Kernels and Arrow release Python's lock, so threads keep
all cores busy while they count and find; only what becomes Python objects (JSON) is done by one of them at a time.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from bigjoin.compiled.work_limit import check_work
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import cores, in_threads
from bigjoin.kernels.jit import compilations
from bigjoin.local.count_job import RANGES_PER_TASK, added_up_count, count_job, count_ranges
from bigjoin.local.group_job import added_up, count_groups, group_job, put_together
from bigjoin.local.list_job import ListJob, bounded_in, limited_to_one_task, list_job, match_batches, write_file, write_pieces
from bigjoin.local.matches import PartFile, arrow_batches, in_microseconds
from bigjoin.local.pick_job import PickJob, count_stretches, draw, pick
from bigjoin.local.progress import watching
from bigjoin.local.strategy import Ask, Outcome, Progress, Strategy
from bigjoin.local.tree_ask import asked_as_tree
from bigjoin.planner import meaning
from bigjoin.query.query import Query
from bigjoin.quota import quota
from bigjoin.storage.scratch import scratch_directory

MAX_TUPLES_COUNTED_HERE = 6_000_000
"""The size of an index up to which Spark is not started to count what a watch begins with."""


class Local(Strategy):
    """Threads of this process have the whole index."""

    def __init__(self, *, refuses_long: bool = False) -> None:
        self.refuses_long = refuses_long
        """Whether counts are refused that would take hours."""

    def together(self, asks: Sequence[Ask], *, counting: bool) -> Sequence[Ask]:
        """Return the questions of a sum, as one if their plans share prefixes that are worth exploring once."""
        tree = asked_as_tree(asks, counting=counting)
        return asks if tree is None else (tree,)

    def count(self, ask: Ask, progress: Progress | None = None) -> Outcome:
        """Count the matches of a query."""
        started, compiled, threads = time.perf_counter(), compilations(), _threads(ask)
        job = count_job(ask, threads)
        if self.refuses_long:
            check_work(ask.query, [(job.program.plan, ask.index)])
        planned = time.perf_counter() - started
        quota().check()
        with watching(job.pieces, progress) as meter:
            receipts = in_threads(partial(count_ranges, job, meter), range(len(job.ranges)), threads=threads)
        ran = added_up_count(job, receipts, planned)
        return replace(ran, stats={**ran.stats, "kernels_compiled": compilations() - compiled})  # threads see each other's

    def table(self, ask: Ask) -> pa.Table:
        """Return the matches with the original ids, and times in microseconds, as DataFrames have them."""
        job, folder = limited_to_one_task(list_job(ask, _threads(ask))), None
        if ask.max_rows is not None:
            job = bounded_in(job, ask.max_rows, folder := scratch_directory("rows"))
        try:
            found = in_threads(partial(_listed, job), range(len(job.ranges)), threads=_threads(ask))
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        rows = pa.Table.from_batches([batch for batches in found for batch in batches], job.schema)
        return rows.cast(in_microseconds(job.schema), safe=False)

    def count_by(self, ask: Ask, progress: Progress | None = None) -> tuple[pa.Table, int] | None:
        """Return a row for each combination of values that the head lists, with its count, and the sum of all counts.

        The keys of the question's meaning are the attributes that the head reads. Return None if loops are too large.
        """
        folder, threads = scratch_directory("counted"), _threads(ask)
        try:
            job = group_job(ask, folder, threads, threads * RANGES_PER_TASK)
            if job is None:
                return None
            if self.refuses_long:
                check_work(ask.query, [(job.program.plan.nests, ask.index)])
            with watching(job.ranges, progress) as meter:
                receipts = in_threads(partial(count_groups, job, meter), range(len(job.pieces)), threads=threads)
            found = put_together(job, receipts, folder)
            batches = [batch.cast(found.schema) for file in found.files for batch in arrow_batches(file.read_bytes())]
            table = pa.Table.from_batches(batches, found.schema)
            return (added_up(table) if job.adds_up else table), found.matches
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sample(self, asks: Sequence[Ask], size: int, random_state: int) -> list[pa.Table]:
        """Return matches that are chosen uniformly, at the cost of a count and not of a listing."""
        threads = _threads(asks[0])

        def count(job: PickJob) -> list[dict[int, int]]:
            return in_threads(partial(count_stretches, job), range(job.counting_tasks), threads=threads)

        def picked(job: PickJob) -> pa.Table:
            found = in_threads(lambda number: list(pick(job, number)), range(job.tasks), threads=threads)
            return pa.Table.from_batches([batch for batches in found for batch in batches], job.schema)

        return draw(asks, threads, size, random_state, count, picked)

    def write(
        self, ask: Ask, folder: Path, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches as Parquet, CSV (without a header), JSON lines or Arrow files in a folder, from the threads."""
        job = bounded_in(limited_to_one_task(list_job(ask, _threads(ask))), ask.max_rows, folder)
        quota().check()
        with watching(sum(map(len, job.ranges)), progress) as meter:
            task = partial(write_pieces if in_pieces else write_file, job, folder.absolute(), suffix, meter)
            found = in_threads(task, range(len(job.ranges)), threads=_threads(ask))
        return [part for part in found if part is not None], job.schema


def is_small(index: Index) -> bool:
    """Tell whether an index is small enough to count without Spark."""
    return sum(relation.tuples for relation in index.statistics.relations.values()) <= MAX_TUPLES_COUNTED_HERE


def count_here(index: Index, query: Query) -> int:
    """Return the number of matches in an index that has no runs; refuse a count that would take hours."""
    local = Local(refuses_long=True)
    return sum(local.count(Ask(part, index)).matches for part in meaning(query, index.statistics))


def _threads(ask: Ask) -> int:
    return ask.workers or cores()


def _listed(job: ListJob, number: int) -> list[pa.RecordBatch]:
    return list(match_batches(job, number, None))
