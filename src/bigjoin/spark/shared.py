"""The shared strategy: every task maps the whole index, and the seeds are dealt out. Nothing is exchanged.

The seeds are cut into ranges of equal estimated work and dealt to a few large tasks, one for each core: a Python task costs a
tenth of a second, so there are never hundreds of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bigjoin.local.count_job import RANGES_PER_TASK, CountJob, CountReceipt, added_up_count, count_job, count_ranges
from bigjoin.local.group_job import GroupJob, GroupReceipt, count_groups, group_job, put_together
from bigjoin.local.kept import Kept
from bigjoin.local.list_job import ListJob, bounded_in, limited_to_one_task, list_job, match_batches, write_file, write_pieces
from bigjoin.local.matches import PartFile, in_microseconds
from bigjoin.local.pick_job import PickJob, count_stretches, draw, pick
from bigjoin.local.progress import meter_folder, watching
from bigjoin.local.row_bound import RowBound
from bigjoin.local.strategy import Ask, Outcome, Progress
from bigjoin.local.tree_ask import asked_as_tree
from bigjoin.quota import quota
from bigjoin.spark.arrow_files import frame_of_files
from bigjoin.spark.held import Held
from bigjoin.spark.own_session import is_connect, own_session
from bigjoin.spark.session import common_directory, parallelism
from bigjoin.spark.strategy import Grouped, SparkStrategy
from bigjoin.spark.tasks import decode, encode, run_numbered
from bigjoin.storage import Place, place_like, remove_folder

_Asked: TypeAlias = tuple[SparkSession, str, str, int, tuple[float | None, int | None]]
"""What is asked, and where: a session, an index, a query, a number of tasks, and the seconds and bytes that these may take."""

# Types, not their names: those Spark would have the JVM parse for every query.
_RECEIPT = StructType([StructField("receipt", StringType())])
_STRETCH = StructType([StructField("stretch", LongType()), StructField("count", StringType())])
_PART = StructType([StructField("task", LongType()), StructField("file", StringType()), StructField("rows", LongType())])


class Shared(SparkStrategy):
    """Every task has the whole index."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._counts = Kept[_Asked, tuple[CountJob, DataFrame, Path]]()
        """Jobs, frames, and where tasks note their progress: a count that is repeated is not planned again, nor by Spark."""
        self._groups = Kept[_Asked, tuple[GroupJob, DataFrame, Path]]()
        self._trees = Kept[_Asked, Ask | None]()
        """Questions that are asked as one, or are not."""

    def together(self, asks: Sequence[Ask], *, counting: bool) -> Sequence[Ask]:
        """Return the questions of a sum, as one if their plans share prefixes that are worth exploring once."""
        query = repr([counting, *((ask.query, ask.meaning.given) for ask in asks)])
        asked = (self.spark, asks[0].index.identity, query, 0, (None, None))
        if len(asks) > 1 and asked not in self._trees:
            self._trees.keep(asked, asked_as_tree(asks, counting=counting))
        tree = self._trees.get(asked)
        return asks if tree is None else (replace(asks[0], tree=tree.tree),)

    def count(self, ask: Ask, progress: Progress | None = None) -> Outcome:
        """Count the matches of a query."""
        started = time.perf_counter()
        with own_session(self.spark) as session:
            job, frame, folder = self._count_job(ask, session)
            planned = time.perf_counter() - started
            quota().check()
            with watching(job.pieces, progress, folder):
                rows = frame.toArrow()
        return added_up_count(job, [decode(CountReceipt, row) for row in rows["receipt"].to_pylist()], planned)

    def find(self, ask: Ask, held: Held, progress: Progress | None = None) -> DataFrame:
        """Return the matches as a lazy DataFrame with the original ids, and times in microseconds."""
        del progress  # they are not found now
        job = list_job(ask, self._tasks(ask))
        if ask.max_rows is not None:
            job = replace(job, bound=RowBound(ask.max_rows, folder := common_directory(self.spark, ask.index.path, "rows")))
            held.add(folder, self.spark)
        columns = in_microseconds(job.schema)

        def task(number: int) -> Iterator[pa.RecordBatch]:
            for batch in match_batches(job, number, None):
                yield batch.cast(columns, safe=False)

        frame = run_numbered(self.spark, task, len(job.ranges), from_arrow_schema(columns))
        return frame if job.limit is None else frame.limit(job.limit)

    def count_by(self, ask: Ask, held: Held, progress: Progress | None = None) -> Grouped:
        """Count by groups now, without listing matches; loops that are too large to compile list them."""
        with own_session(self.spark) as session:
            kept = self._group_job(ask, session) if ask.meaning.keys else None
            return super().count_by(ask, held, progress) if kept is None else self._count_by(ask, *kept, held, progress)

    def _count_by(
        self, ask: Ask, job: GroupJob, tasks: DataFrame, meters: Path, held: Held, progress: Progress | None
    ) -> Grouped:
        folder, counted = common_directory(self.spark, ask.index.path, "groups"), 0

        def write() -> tuple[tuple[Place, ...], pa.Schema]:
            nonlocal counted
            quota().check()
            try:
                with watching(job.ranges, progress, meters):
                    rows = tasks.toArrow()
            except BaseException:
                self._forget(job)
                raise
            found = put_together(job, [decode(GroupReceipt, row) for row in rows["receipt"].to_pylist()], folder)
            counted = found.matches
            return found.files, found.schema

        frame = frame_of_files(self.spark, folder, held, self._tasks(ask), write)
        return Grouped(frame, counted, job.adds_up)

    def sample(self, asks: Sequence[Ask], size: int, random_state: int) -> list[pa.Table]:
        """Return matches that are chosen uniformly, at the cost of a count and not of a listing."""
        with own_session(self.spark) as session:
            return draw(
                asks,
                self._tasks(asks[0]),
                size,
                random_state,
                partial(_counts_of_stretches, session),
                partial(_picked, session),
            )

    def write(
        self, ask: Ask, folder: Place, suffix: str, progress: Progress | None = None, *, in_pieces: bool = False
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the matches as Parquet, CSV (without a header) or Arrow files in a folder, from the tasks."""
        job = bounded_in(limited_to_one_task(list_job(ask, self._tasks(ask))), ask.max_rows, folder)
        quota().check()
        with own_session(self.spark) as session, watching(sum(map(len, job.ranges)), progress) as meter:
            task = partial(_write_pieces if in_pieces else _write_file, job, folder.absolute(), suffix, meter)
            rows = run_numbered(session, task, len(job.ranges), _PART).toArrow()
        return [(place_like(row["file"], folder), row["rows"]) for row in rows.sort_by("task").to_pylist()], job.schema

    def _tasks(self, ask: Ask) -> int:
        return ask.workers or parallelism(self.spark)

    def _count_job(self, ask: Ask, session: SparkSession) -> tuple[CountJob, DataFrame, Path]:
        """Return a count that is ready to run, the lazy DataFrame of what its tasks count, and the folder of their meters."""
        query = repr(ask.queries)  # text, as 1 == True in Python
        asked = (session, ask.index.identity, query, self._tasks(ask), quota().numbers)
        if (known := self._counts.get(asked)) is not None:
            return known
        job, folder = count_job(ask, self._tasks(ask)), meter_folder()
        return self._counts.keep(asked, (job, _counted(session, job, str(folder)), folder))

    def _forget(self, job: GroupJob) -> None:
        """Remove what the tasks of a count by groups have written, after it failed."""
        self._groups.forget(lambda kept: kept[0] is job)
        if not is_connect(self.spark):  # there, another thread may be counting the same in the same session
            remove_folder(job.folder)

    def _group_job(self, ask: Ask, session: SparkSession) -> tuple[GroupJob, DataFrame, Path] | None:
        """Return a count by groups that is ready to run, the lazy DataFrame of its receipts, and the folder of its meters.

        Return None if its loops cannot be compiled.
        """
        keys = ", ".join(ask.meaning.keys)
        asked = (session, ask.index.identity, f"{ask.query!r} by {keys}", self._tasks(ask), quota().numbers)
        if (known := self._groups.get(asked)) is not None:
            return known
        folder = common_directory(self.spark, ask.index.path, "counted")
        job = group_job(ask, folder, self._tasks(ask), self._tasks(ask) * RANGES_PER_TASK)
        if job is None:
            return None
        meters = meter_folder()
        return self._groups.keep(asked, (job, _grouped(session, job, str(meters)), meters))


def _grouped(session: SparkSession, job: GroupJob, meter: str) -> DataFrame:
    return run_numbered(session, partial(_count_groups, job, meter), len(job.pieces), _RECEIPT)


def _counted(session: SparkSession, job: CountJob, meter: str) -> DataFrame:
    return run_numbered(session, partial(_count, job, meter), len(job.ranges), _RECEIPT)


def _count_groups(job: GroupJob, meter: str, number: int) -> Iterator[pa.RecordBatch]:
    """Count the groups of one task."""
    yield pa.RecordBatch.from_pydict({"receipt": [encode(count_groups(job, meter, number))]})


def _count(job: CountJob, meter: str, number: int) -> Iterator[pa.RecordBatch]:
    """Count the ranges of one task."""
    yield pa.RecordBatch.from_pydict({"receipt": [encode(count_ranges(job, meter, number))]})


def _write_file(job: ListJob, folder: Place, suffix: str, meter: str | None, number: int) -> Iterator[pa.RecordBatch]:
    """Write the matches of one task to a file of its own, if it has any."""
    if (part := write_file(job, folder, suffix, meter, number)) is not None:
        yield pa.RecordBatch.from_pydict({"task": [number], "file": [str(part[0])], "rows": [part[1]]})


def _write_pieces(job: ListJob, folder: Place, suffix: str, meter: str | None, number: int) -> Iterator[pa.RecordBatch]:
    """Write the matches of one task as pieces."""
    write_pieces(job, folder, suffix, meter, number)
    yield from ()


def _counts_of_stretches(spark: SparkSession, job: PickJob) -> list[dict[int, int]]:
    """Count the matches of stretches, in tasks."""

    def count(number: int) -> Iterator[pa.RecordBatch]:
        found = count_stretches(job, number)
        counts = pa.array(list(map(str, found.values())), pa.string())  # they may exceed 64 bits
        yield pa.RecordBatch.from_pydict({"stretch": pa.array(list(found), pa.int64()), "count": counts})

    rows = run_numbered(spark, count, job.counting_tasks, _STRETCH).toArrow()
    return [{row["stretch"]: int(row["count"]) for row in rows.to_pylist()}]


def _picked(spark: SparkSession, job: PickJob) -> pa.Table:
    """Return the matches that are picked, in tasks."""
    return run_numbered(spark, partial(pick, job), job.tasks, from_arrow_schema(job.schema)).toArrow()
