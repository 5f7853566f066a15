"""The shared strategy: every task maps the whole index, and the seeds are dealt out. Nothing is exchanged.

This is the paper's static implementation. The seeds are cut into ranges of equal estimated work and dealt to a few fat tasks,
one a core: a Python task costs a tenth of a second, so there are never hundreds.
"""

from __future__ import annotations

import json
import resource
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bigjoin.index.directory import Index
from bigjoin.joins.batched import Batched
from bigjoin.joins.bind import Output, outputs
from bigjoin.joins.compiled import Counting, Listing, Range, Rows
from bigjoin.kernels.jit import compilations
from bigjoin.query.nest import CountPlan, Term
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.spark.matches import file_writer, in_microseconds, schema_of
from bigjoin.spark.progress import Meter, watching
from bigjoin.spark.stream import PIECE, make_room
from bigjoin.spark.tasks import freeze_modules

RANGES_PER_TASK = 32
"""Ranges dealt to each task: the estimate looks one step ahead, and many small ranges even out what it does not see."""

ROW_GROUP = 1 << 20
"""Rows of a group in a file, which are found and written at once."""

STREAMED = 1 << 16
"""Rows of a piece, where rows are read as they are found."""

LIMITED_BATCH = 4096
"""Matches that a task holds at once while a limit asks for few."""

# Types, not their names: Spark would ask the JVM to parse those, for every query.
_COUNT = StructType([StructField("count", StringType()), StructField("stats", StringType())])
_PART = StructType([StructField("task", LongType()), StructField("file", StringType()), StructField("rows", LongType())])

Task = Callable[[int], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Job:
    """A nest over an index that finds matches, cut for tasks: what each task needs to know, and all that travels to it."""

    nest: Term | Plan
    """Loops to compile, or the plan if they are too large for that."""
    query: Query
    index: Index
    """The version that the plan was made for, whatever has been written since."""
    ranges: tuple[tuple[Range, ...], ...]
    batch_size: int
    limit: int | None = None
    factorized: bool = False
    tails: int = 0
    """Of a plan: how many of its last attributes are given as lists all the same."""

    def listing(self) -> Listing | Batched:
        """Bind the nest to the index, here in the task, and compile it."""
        if isinstance(self.nest, Plan):
            return Batched(self.nest, self.index, tails=self.tails)
        return Listing(self.nest, self.query, self.index, factorized=self.factorized)


@dataclass(frozen=True)
class CountJob:
    """A plan of a count over an index: for each task the ranges of each term."""

    plan: CountPlan | Plan
    """Loops to compile, or the plan that finds the matches if they are too large for that."""
    index: Index
    ranges: tuple[tuple[tuple[Range, ...], ...], ...]

    @property
    def divisor(self) -> int:
        return self.plan.divisor if isinstance(self.plan, CountPlan) else 1

    @property
    def loops(self) -> list[list[str]]:
        """The attributes that the loops of each term bind, or the seed and the steps of the plan."""
        if isinstance(self.plan, Plan):
            return [[self.plan.seed.attributes[-1], *(step.attribute for step in self.plan.steps)]]
        return [[loop.attribute for loop in term.root.walk()] for term in self.plan.terms]

    def terms(self) -> list[tuple[int, Counting | Batched]]:
        """Bind the terms to the index, each with how often its count is added."""
        if isinstance(self.plan, Plan):
            return [(1, Batched(self.plan, self.index))]
        return [(term.times, Counting(term, self.plan.query, self.index)) for term in self.plan.terms]


def prepare(
    nest: Term,
    query: Query,
    index: Index,
    *,
    tasks: int,
    batch_size: int,
    limit: int | None = None,
    factorized: bool = False,
    plan: Callable[[tuple[str, ...] | None], Plan],
) -> Job:
    """Cut the seeds of a nest into ranges of equal estimated work, dealt to tasks in turn.

    `plan` is for nests too large, which bind the attributes in the same order if some are to be lists.
    """
    job = Job(nest, query, index, (), batch_size, limit, factorized)
    listing = job.listing()
    if isinstance(listing, Listing) and listing.generator.is_too_large:
        job = replace(job, nest=plan(nest.attributes if factorized else None), tails=len(listing.tails))
        listing = job.listing()
    ranges = listing.ranges(tasks * RANGES_PER_TASK)
    dealt = tuple(tuple(ranges[task::tasks]) for task in range(tasks))
    return replace(job, ranges=tuple(r for r in dealt if r) or ((),))


def prepare_count(nests: CountPlan, index: Index, *, tasks: int, plan: Callable[[], Plan]) -> CountJob:
    """Cut the seeds of each term into ranges of equal estimated work, dealt to tasks in turn; `plan` is for terms too large."""
    job = CountJob(nests, index, ())
    terms = job.terms()
    if any(isinstance(term, Counting) and term.generator.is_too_large for _, term in terms):
        job = CountJob(plan(), index, ())
        terms = job.terms()
    cut = [term.ranges(tasks * RANGES_PER_TASK) for _, term in terms]
    dealt = [tuple(tuple(ranges[task::tasks]) for ranges in cut) for task in range(tasks)]
    return replace(job, ranges=tuple(mine for mine in dealt if any(mine)) or (((),) * len(terms),))


def counts(spark: SparkSession, job: CountJob, meter: str | None = None) -> DataFrame:
    """Return the count of each task as a lazy DataFrame, which Spark plans once, however often it is asked for."""
    return _run(spark, len(job.ranges), _count_task(job, meter), _COUNT)


def count(
    spark: SparkSession, job: CountJob, *, frame: DataFrame | None = None, progress: Callable[[float], None] | None = None
) -> tuple[int, dict[str, Any]]:
    """Return the number of matches, and what the run did; `frame` is that of `counts`, if there is one already."""
    with watching(sum(len(ranges) for task in job.ranges for ranges in task), progress) as meter:
        rows = (frame if frame is not None and meter is None else counts(spark, job, meter)).toArrow()
    stats = [json.loads(row) for row in rows["stats"].to_pylist()]
    # Counts travel as text and are added up as Python integers: they may exceed 64 bits.
    total = sum(int(n) for n in rows["count"].to_pylist())
    assert total % job.divisor == 0, "a sum of counts is not divisible by the symmetry it was counted with"
    return total // job.divisor, _merge(job, stats)


def find(spark: SparkSession, job: Job, index: Index) -> DataFrame:
    """Return the matches as a lazy DataFrame with the original ids; a time there is in microseconds."""
    columns = in_microseconds(schema(job, index))
    frame = _run(spark, len(job.ranges), _match_task(job, columns), from_arrow_schema(columns))
    return frame if job.limit is None else frame.limit(job.limit)


def schema(job: Job, index: Index) -> pa.Schema:
    """Return the columns of the matches: the terms of the head, with the types of their ids and properties."""
    return schema_of(outputs(job.query, job.nest.attributes, index), len(job.listing().attributes))


def write(
    spark: SparkSession,
    job: Job,
    folder: Path,
    suffix: str,
    *,
    progress: Callable[[float], None] | None = None,
    in_pieces: bool = False,
) -> list[tuple[Path, int]]:
    """Write the matches as Parquet, CSV (without titles) or Arrow files in a folder, from the tasks; return files and rows.

    In pieces, whoever reads the folder has them already.
    """
    if job.limit is not None:  # one task finds the first matches as well as many do
        job = replace(job, ranges=(tuple(r for task in job.ranges for r in task),))
    with watching(sum(map(len, job.ranges)), progress) as meter:
        task = (_piece_task if in_pieces else _write_task)(job, str(folder.absolute()), suffix, meter)
        rows = _run(spark, len(job.ranges), task, _PART).toArrow()
    return [(Path(row["file"]), row["rows"]) for row in rows.sort_by("task").to_pylist()]


def _run(spark: SparkSession, tasks: int, task: Task, schema: StructType) -> DataFrame:
    """Run a number of tasks; the row that reaches a task says which it is, not its partition."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from task(number)

    return spark.range(0, tasks, 1, tasks).mapInArrow(run, schema)


def _count_task(job: CountJob, meter: str | None) -> Task:
    def task(number: int) -> Iterator[pa.RecordBatch]:
        started, compiled = time.perf_counter(), compilations()
        progress = Meter(meter, number).advance
        total, tallies = 0, []
        for (times, counting), ranges in zip(job.terms(), job.ranges[number], strict=True):
            total += times * counting.count(ranges, progress)
            tallies.append(counting.tally.tolist())
        stats = {
            "tallies": tallies,
            "seconds": time.perf_counter() - started,
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "compiled": compilations() - compiled,
        }
        yield pa.RecordBatch.from_pydict({"count": [str(total)], "stats": [json.dumps(stats)]})

    return task


def _match_task(job: Job, columns: pa.Schema) -> Task:
    def task(number: int) -> Iterator[pa.RecordBatch]:
        for batch in _decoded(job, number, None):
            yield batch.cast(columns, safe=False)

    return task


def _write_task(job: Job, folder: str, suffix: str, meter: str | None) -> Task:
    def task(number: int) -> Iterator[pa.RecordBatch]:
        file = Path(folder) / f"part-{number:05d}-{uuid.uuid4().hex}{suffix}"
        batches = _decoded(replace(job, batch_size=max(job.batch_size, ROW_GROUP)), number, meter)
        first = next(batches, None)
        if first is None:
            return
        rows = 0
        with file_writer(file, first.schema, suffix) as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)
                rows += batch.num_rows
        yield pa.RecordBatch.from_pydict({"task": [number], "file": [str(file)], "rows": [rows]})

    return task


def _piece_task(job: Job, folder: str, suffix: str, meter: str | None) -> Task:
    """Return a task that writes its batches as pieces; if it runs again, the same ones under the same names."""

    def task(number: int) -> Iterator[pa.RecordBatch]:
        where = Path(folder)
        for place, batch in enumerate(_decoded(replace(job, batch_size=min(job.batch_size, STREAMED)), number, meter)):
            make_room(where)
            draft = where / f"part-{uuid.uuid4().hex}{suffix}"
            with file_writer(draft, batch.schema, suffix) as writer:
                writer.write_batch(batch)
            draft.rename(where / f"{PIECE}{number:05d}-{place:09d}{suffix}")
        yield from ()

    return task


def _decoded(job: Job, number: int, meter: str | None) -> Iterator[pa.RecordBatch]:
    """Give the matches of one task as batches of ids in the order of the head, and stop at the limit."""
    if job.limit == 0:
        return
    listing, columns = job.listing(), outputs(job.query, job.nest.attributes, job.index)
    found_as = schema_of(columns, len(listing.attributes))
    left = job.limit
    # With a limit, small batches: the first matches are all that is wanted, but rare ones must not take forever.
    size = job.batch_size if left is None else min(job.batch_size, max(LIMITED_BATCH, left))
    for found in listing.rows(job.ranges[number], size, Meter(meter, number).advance):
        batch = pa.RecordBatch.from_arrays([_column(output, found) for output in columns], names=found_as.names).cast(found_as)
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= min(left, batch.num_rows)
            if left == 0:
                return


def _column(output: Output, rows: Rows) -> pa.Array:
    """Return the values of a column: one for each prefix, or a list for each where the attribute is a tail."""
    tail = output.position - len(rows.prefixes)
    if tail < 0:
        return output.decode(rows.prefixes)
    lengths, codes = rows.tails[tail]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), output.values_of(codes))


def _merge(job: CountJob, stats: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the stats of a run: sums over tasks, and how even they were."""
    steps = []
    for i, loops in enumerate(job.loops):
        tally = [sum(column) for column in zip(*(s["tallies"][i] for s in stats), strict=True)]
        for k, attribute in enumerate(loops):
            steps.append({"term": i, "attribute": attribute, "prefixes": tally[k], "candidates": tally[len(loops) + k]})
    seconds = [s["seconds"] for s in stats] or [0.0]
    return {
        "rounds": 1,
        "bytes": 0,
        "load": {"max": 0, "mean": 0.0},
        "steps": steps,
        "tasks": {"count": len(stats), "seconds": {"max": max(seconds), "mean": sum(seconds) / len(seconds)}},
        "busy": sum(seconds) / len(seconds) / max(*seconds, 1e-9),
        "peak_memory": max((s["peak_memory"] for s in stats), default=0),
        "kernels_compiled": sum(s["compiled"] for s in stats),
    }
