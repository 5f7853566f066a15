"""The shared strategy: every task maps the whole index, and the seeds are dealt out. Nothing is exchanged.

The seeds are cut into ranges of equal estimated work and dealt to a few large tasks, one for each core: a Python task costs a
tenth of a second, so there are never hundreds of them.
"""

from __future__ import annotations

import resource
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bigjoin.compiled.loops_or_batches import CountProgram, ListProgram
from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.directory import Index
from bigjoin.index.typed_json import BigInt
from bigjoin.joins.bind import ResultColumn, result_columns
from bigjoin.joins.executable import MatchRows, Range
from bigjoin.kernels.jit import compilations
from bigjoin.planner import count_plan, factorized_plan, plan
from bigjoin.spark.held import Held
from bigjoin.spark.matches import in_microseconds, limited, schema_of, write_batches
from bigjoin.spark.progress import Meter, watching
from bigjoin.spark.session import parallelism
from bigjoin.spark.strategy import Ask, Outcome, PartFile, Progress, Strategy, task_stats, whole_index
from bigjoin.spark.stream import PIECE_PREFIX, make_room
from bigjoin.spark.tasks import decode, encode, run_numbered

RANGES_PER_TASK = 32
"""Ranges dealt to each task: the estimate looks one step ahead, and many small ranges even out what it cannot foresee."""

ROW_GROUP_ROWS = 1 << 20
"""Rows of a row group in a file, which are found and written at once."""

STREAMED_ROWS = 1 << 16
"""Rows of a piece, if rows are read as they are found."""

LIMITED_ROWS = 4096
"""Matches that a task holds at once if a limit asks for few."""

MAX_KEPT_COUNTS = 256
"""Counts whose plan and frame are kept for the next time."""

# Types, not their names: those Spark would have the JVM parse for every query.
_COUNT = StructType([StructField("count", StringType()), StructField("stats", StringType())])
_PART = StructType([StructField("task", LongType()), StructField("file", StringType()), StructField("rows", LongType())])


@dataclass(frozen=True)
class CountJob:
    """A count over an index, with the ranges of each nest for each task. It is all that travels to tasks."""

    program: CountProgram
    index: Index
    ranges: tuple[tuple[tuple[Range, ...], ...], ...]


@dataclass(frozen=True)
class ListJob:
    """A search for matches in an index, with the ranges of each task. It is all that travels to tasks."""

    program: ListProgram
    index: Index
    """The version that the plan was made for; later commits do not affect it."""
    ranges: tuple[tuple[Range, ...], ...]
    batch_size: int
    limit: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the matches: the terms of the head, with the types of their ids and properties."""
        return schema_of(self.columns(), len(self.program.bind(self.index).attributes))

    def columns(self) -> tuple[ResultColumn, ...]:
        """Return the columns of the matches, with their values by code."""
        return result_columns(self.program.query, self.program.attributes, self.index)


@dataclass(frozen=True)
class CountReceipt:
    """What a task of a count did."""

    tallies: tuple[tuple[BigInt, ...], ...]
    """For each nest, the prefixes of its loops, followed by their candidates."""
    seconds: float
    peak_memory: int
    compiled: int
    """Kernels that had to be compiled."""


class Shared(Strategy):
    """Every task has the whole index."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._counts: dict[tuple[str, str, int], tuple[CountJob, DataFrame]] = {}
        """Jobs and frames by index, query and number of tasks: a count that is repeated is not planned again, nor by Spark."""

    def count(self, ask: Ask, progress: Progress | None = None) -> Outcome:
        """Count the matches of a query."""
        started = time.perf_counter()
        job, frame = self._count_job(ask)
        planned = time.perf_counter() - started
        with watching(sum(len(ranges) for task in job.ranges for ranges in task), progress) as meter:
            rows = (frame if meter is None else self._counted(job, meter)).toArrow()
        receipts = [decode(CountReceipt, row) for row in rows["stats"].to_pylist()]
        # Counts travel as text and are added up as Python integers, since they may exceed 64 bits.
        total = sum(int(n) for n in rows["count"].to_pylist())
        assert total % job.program.divisor == 0, "a sum of counts is not divisible by the symmetry it was counted with"
        matches, held = total // job.program.divisor, partial(whole_index, ask.index)
        return Outcome(matches, len(job.ranges), _stats(job, receipts), held, plan_seconds=planned)

    def find(self, ask: Ask, held: Held) -> DataFrame:
        """Return the matches as a lazy DataFrame with the original ids, and times in microseconds."""
        del held  # it reads no files except the index
        job = list_job(ask, self._tasks(ask))
        columns = in_microseconds(job.schema)

        def task(number: int) -> Iterator[pa.RecordBatch]:
            for batch in _decoded(job, number, None):
                yield batch.cast(columns, safe=False)

        frame = run_numbered(self.spark, task, len(job.ranges), from_arrow_schema(columns))
        return frame if job.limit is None else frame.limit(job.limit)

    def write(
        self, ask: Ask, folder: Path, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches as Parquet, CSV (without a header) or Arrow files in a folder, from the tasks."""
        job = list_job(ask, self._tasks(ask))
        columns = job.schema
        if job.limit is not None:  # one task finds the first matches as fast as many do
            job = replace(job, ranges=(tuple(chain.from_iterable(job.ranges)),))
        with watching(sum(map(len, job.ranges)), progress) as meter:
            task = partial(_write_pieces if in_pieces else _write_file, job, str(folder.absolute()), suffix, meter)
            rows = run_numbered(self.spark, task, len(job.ranges), _PART).toArrow()
        return [(Path(row["file"]), row["rows"]) for row in rows.sort_by("task").to_pylist()], columns

    def _tasks(self, ask: Ask) -> int:
        return ask.workers or parallelism(self.spark)

    def _count_job(self, ask: Ask) -> tuple[CountJob, DataFrame]:
        """Return a count that is ready to run, and the lazy DataFrame of what its tasks count."""
        asked = (ask.index.manifest.identity, repr(ask.query), self._tasks(ask))  # text, as 1 == True in Python
        if asked not in self._counts:
            if len(self._counts) >= MAX_KEPT_COUNTS:
                del self._counts[next(iter(self._counts))]
            job = count_job(ask, self._tasks(ask))
            self._counts[asked] = job, self._counted(job, None)
        return self._counts[asked]

    def _counted(self, job: CountJob, meter: str | None) -> DataFrame:
        return run_numbered(self.spark, partial(_count, job, meter), len(job.ranges), _COUNT)


def count_job(ask: Ask, tasks: int) -> CountJob:
    """Cut the seeds of each nest of a count into ranges of equal estimated work, dealt to tasks in turn."""
    program = CountProgram.choose(count_plan(ask.meaning), partial(plan, ask.meaning), ask.index)
    cut = [found.ranges(tasks * RANGES_PER_TASK) for _, found in program.bind(ask.index)]
    dealt = [tuple(tuple(ranges[task::tasks]) for ranges in cut) for task in range(tasks)]
    return CountJob(program, ask.index, tuple(mine for mine in dealt if any(mine)) or (((),) * len(cut),))


def list_job(ask: Ask, tasks: int) -> ListJob:
    """Cut the seeds of a search into ranges of equal estimated work, dealt to tasks in turn."""
    if ask.factorized:
        nest = factorized_plan(ask.meaning)
        program = ListProgram.factorize(ask.query, nest, lambda order: plan(ask.meaning, order=order), ask.index)
    else:
        program = ListProgram.of(plan(ask.meaning), ask.index)
    cut = program.bind(ask.index).ranges(tasks * RANGES_PER_TASK)
    dealt = tuple(tuple(cut[task::tasks]) for task in range(min(tasks, len(cut)))) or ((),)
    return ListJob(program, ask.index, dealt, ask.batch_size or BATCH_SIZE, ask.limit)


def _count(job: CountJob, meter: str | None, number: int) -> Iterator[pa.RecordBatch]:
    """Count the ranges of one task."""
    started, compiled = time.perf_counter(), compilations()
    progress = Meter(meter, number).advance
    total, tallies = 0, []
    for (times, found), ranges in zip(job.program.bind(job.index), job.ranges[number], strict=True):
        total += times * found.count(ranges, progress)
        tallies.append(tuple(found.tally.tolist()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    receipt = CountReceipt(tuple(tallies), time.perf_counter() - started, peak, compilations() - compiled)
    yield pa.RecordBatch.from_pydict({"count": [str(total)], "stats": [encode(receipt)]})


def _write_file(job: ListJob, folder: str, suffix: str, meter: str | None, number: int) -> Iterator[pa.RecordBatch]:
    """Write the matches of one task to a file of its own, if it has any."""
    file = Path(folder) / f"part-{number:05d}-{uuid.uuid4().hex}{suffix}"
    batches = _decoded(replace(job, batch_size=max(job.batch_size, ROW_GROUP_ROWS)), number, meter)
    if rows := write_batches(batches, file, suffix):
        yield pa.RecordBatch.from_pydict({"task": [number], "file": [str(file)], "rows": [rows]})


def _write_pieces(job: ListJob, folder: str, suffix: str, meter: str | None, number: int) -> Iterator[pa.RecordBatch]:
    """Write the matches of one task as pieces; a task that runs again writes the same ones under the same names."""
    where = Path(folder)
    for place, batch in enumerate(_decoded(replace(job, batch_size=min(job.batch_size, STREAMED_ROWS)), number, meter)):
        make_room(where)
        draft = where / f"part-{uuid.uuid4().hex}{suffix}"
        write_batches(iter([batch]), draft, suffix)
        draft.rename(where / f"{PIECE_PREFIX}{number:05d}-{place:09d}{suffix}")
    yield from ()


def _decoded(job: ListJob, number: int, meter: str | None) -> Iterator[pa.RecordBatch]:
    """Give the matches of one task as batches of ids in the order of the head, up to the limit."""
    found, columns = job.program.bind(job.index), job.columns()
    schema = schema_of(columns, len(found.attributes))
    # A limit makes batches small, as the first matches are all that is wanted, but not tiny, as matches may be rare.
    size = job.batch_size if job.limit is None else min(job.batch_size, max(LIMITED_ROWS, job.limit))
    matches = found.rows(job.ranges[number], size, Meter(meter, number).advance)
    arrays = ([_column(column, rows) for column in columns] for rows in matches)
    yield from limited((pa.RecordBatch.from_arrays(some, names=schema.names).cast(schema) for some in arrays), job.limit)


def _column(output: ResultColumn, rows: MatchRows) -> pa.Array:
    """Return the values of a column: one for each prefix, or a list for each if the attribute is a tail."""
    tail = output.position - len(rows.prefixes)
    if tail < 0:
        return output.decode(rows.prefixes)
    lengths, codes = rows.tails[tail]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), output.values_of(codes))


def _stats(job: CountJob, receipts: list[CountReceipt]) -> dict[str, Any]:
    """Return the stats of a count: sums over its tasks, and how evenly these were loaded."""
    steps = []
    for i, loops in enumerate(job.program.loops):
        tally = [sum(column) for column in zip(*(receipt.tallies[i] for receipt in receipts), strict=True)]
        for k, attribute in enumerate(loops):
            steps.append({"term": i, "attribute": attribute, "prefixes": tally[k], "candidates": tally[len(loops) + k]})
    peak = max((receipt.peak_memory for receipt in receipts), default=0)
    compiled = sum(receipt.compiled for receipt in receipts)
    tasks = task_stats([receipt.seconds for receipt in receipts], peak_memory=peak, compiled=compiled)
    return {"rounds": 1, "bytes": 0, "load": {"max": 0, "mean": 0.0}, "steps": steps, **tasks}
