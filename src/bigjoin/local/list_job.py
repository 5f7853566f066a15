"""List matches where the whole index is at hand: what a task finds and writes, whether it is Spark's or a thread."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from bigjoin.compiled.loops import TreeListing
from bigjoin.compiled.loops_or_batches import ListProgram, TreeProgram
from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.overlay import AskedIndex
from bigjoin.joins.bind import OutputColumn, result_columns
from bigjoin.joins.match_rows import MatchRows, Range
from bigjoin.local.count_job import RANGES_PER_TASK
from bigjoin.local.matches import PartFile, limited, schema_of, write_batches
from bigjoin.local.pieces import PIECE_PREFIX, make_room
from bigjoin.local.progress import Meter
from bigjoin.local.row_bound import RowBound
from bigjoin.local.strategy import Ask
from bigjoin.planner import factorized_plan, plan
from bigjoin.quota import quota
from bigjoin.storage import Place, make_folder

ROW_GROUP_ROWS = 1 << 20
"""Rows of a row group in a file, which are found and written at once."""

STREAMED_ROWS = 1 << 16
"""Rows of a piece, if rows are read as they are found."""

LIMITED_ROWS = 4096
"""Matches that a task holds at once if a limit asks for few."""


@dataclass(frozen=True)
class ListJob:
    """A search for matches in an index, with the ranges of each task. It is all that travels to tasks."""

    program: ListProgram | TreeProgram
    index: AskedIndex
    """The version that the plan was made for; later commits do not affect it."""
    ranges: tuple[tuple[Range, ...], ...]
    batch_size: int
    limit: int | None = None
    bound: RowBound | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the matches: the terms of the head, with the types of their ids and properties."""
        if isinstance(self.program, TreeProgram):
            return schema_of(self.columns(), max(map(len, self.program.tree.orders)))
        return schema_of(self.columns(), len(self.program.bind(self.index).attributes))

    def columns(self, number: int = 0) -> tuple[OutputColumn, ...]:
        """Return the columns of the matches of a query, by its number in a tree, with their values by code."""
        if isinstance(self.program, TreeProgram):
            tree = self.program.tree
            return result_columns(tree.queries[number], tree.orders[number], self.index)
        return result_columns(self.program.query, self.program.attributes, self.index)


def list_job(ask: Ask, tasks: int) -> ListJob:
    """Cut the seeds of a search into ranges of equal estimated work, dealt to tasks in turn."""
    program: ListProgram | TreeProgram
    if ask.tree is not None:
        program = TreeProgram(ask.tree)
    elif ask.factorized:
        nest = factorized_plan(ask.meaning)
        program = ListProgram.factorize(ask.query, nest, lambda order: plan(ask.meaning, order=order), ask.index)
    else:
        program = ListProgram.of(plan(ask.meaning), ask.index)
    cut = program.bind(ask.index).ranges(tasks * RANGES_PER_TASK)
    dealt = tuple(tuple(cut[task::tasks]) for task in range(min(tasks, len(cut)))) or ((),)
    return ListJob(program, ask.index, dealt, ask.batch_size or BATCH_SIZE, ask.limit)


def limited_to_one_task(job: ListJob) -> ListJob:
    """Return a search with a limit as that of one task, which finds the first matches as fast as many do."""
    return job if job.limit is None else replace(job, ranges=(tuple(chain.from_iterable(job.ranges)),))


def bounded_in(job: ListJob, most: int | None, folder: Place) -> ListJob:
    """Return a search whose tasks note in a folder how many rows they have, if there may only be so many."""
    if most is None:
        return job
    return replace(job, bound=RowBound(most, make_folder(folder / "_rows").absolute()))


def write_file(job: ListJob, folder: Place, suffix: str, meter: str | None, number: int) -> PartFile | None:
    """Write the matches of one task to a file of its own, if it has any."""
    file = folder / f"part-{number:05d}-{uuid.uuid4().hex}{suffix}"
    batches = match_batches(replace(job, batch_size=max(job.batch_size, ROW_GROUP_ROWS)), number, meter)
    rows = write_batches(batches, file, suffix)
    return (file, rows) if rows else None


def write_pieces(job: ListJob, folder: Place, suffix: str, meter: str | None, number: int) -> None:
    """Write the matches of one task as pieces; a task that runs again writes the same ones under the same names."""
    for place, batch in enumerate(match_batches(replace(job, batch_size=min(job.batch_size, STREAMED_ROWS)), number, meter)):
        make_room(folder)
        draft = folder / f"part-{uuid.uuid4().hex}{suffix}"
        write_batches(iter([batch]), draft, suffix)
        draft.rename(folder / f"{PIECE_PREFIX}{number:05d}-{place:09d}{suffix}")


def match_batches(job: ListJob, number: int, meter: str | None) -> Iterator[pa.RecordBatch]:
    """Give the matches of one task as batches of ids in the order of the head, up to the limit."""
    found, schema = job.program.bind(job.index), job.schema
    # A limit makes batches small, as the first matches are all that is wanted, but not tiny, as matches may be rare.
    size = job.batch_size if job.limit is None else min(job.batch_size, max(LIMITED_ROWS, job.limit))
    size = quota().affordable(size, len(schema))
    ranges, progress = job.ranges[number], Meter(meter, number).advance
    matches: Iterator[tuple[tuple[OutputColumn, ...], MatchRows]]
    if isinstance(found, TreeListing):
        outputs = [job.columns(query) for query in range(len(found.tree.queries))]
        matches = ((outputs[query], rows) for query, rows in found.rows(ranges, size, progress))
    else:
        columns = job.columns()
        matches = ((columns, rows) for rows in found.rows(ranges, size, progress))
    arrays = ([_column(column, rows) for column in columns] for columns, rows in matches)
    batches = limited((pa.RecordBatch.from_arrays(some, names=schema.names).cast(schema) for some in arrays), job.limit)
    yield from batches if job.bound is None else job.bound.watched(batches, number)


def _column(output: OutputColumn, rows: MatchRows) -> pa.Array:
    """Return the values of a column: one for each prefix, or a list for each if the attribute is a tail."""
    tail = output.position - len(rows.prefixes)
    if tail < 0:
        return output.decode(rows.prefixes)
    lengths, codes = rows.tails[tail]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), output.values_of(codes))
