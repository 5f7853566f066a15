"""Count by groups where every task has the whole index: what tasks write, and how that becomes the rows of the result.

With one key, a task writes an array of counts by code, and the arrays are added up where they are put together. With several,
each group is counted by one task, which writes it as a row of the result. Neither lists matches, and nothing here needs Spark:
tasks may as well be threads.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.compiled.group_program import CodeCountProgram, GroupProgram, Piece, divided, program_of
from bigjoin.compiled.group_rows import GroupCounts, GroupRows
from bigjoin.errors import BigjoinError
from bigjoin.index.dictionary import code_type
from bigjoin.index.overlay import AskedIndex
from bigjoin.index.typed_json import BigInt
from bigjoin.joins.bind import result_columns
from bigjoin.languages.keys import GROUP_COUNT
from bigjoin.local.matches import ARROW_SUFFIX, schema_of, write_batches
from bigjoin.local.progress import Meter
from bigjoin.local.strategy import Ask
from bigjoin.planner import group_plan
from bigjoin.storage import Place, place_like
from bigjoin.storage.arrays import load_array

CODES_PER_FILE = 1 << 18
"""Codes whose groups are in one file of the result, if there is one key."""

MAX_GROUP_COUNT = (1 << 124) - 1
"""The largest count of a group: two 64-bit numbers hold it, and so does a decimal. Those below 2^63 are 64-bit integers."""

_LOW_BITS = 62
"""How many bits of a count that may not fit into 64 the second of its two numbers holds."""


@dataclass(frozen=True)
class GroupJob:
    """A count by groups over an index, with the pieces of each task. It is all that travels to tasks."""

    program: GroupProgram
    index: AskedIndex
    pieces: tuple[tuple[Piece, ...], ...]
    folder: Place
    """Where tasks write what they count, every time that the job runs."""

    @property
    def ranges(self) -> int:
        """How many ranges of seeds there are."""
        return sum(len(ranges) for task in self.pieces for piece in task for ranges in piece)

    @property
    def adds_up(self) -> bool:
        """Whether groups have equal values in the result, since these are not the keys themselves."""
        return {*self.program.plan.query.head} != {*self.program.plan.keys}

    def batch(self, rows: GroupRows) -> pa.RecordBatch:
        """Return groups with the values that the head of the query lists, and their counts."""
        plan = self.program.plan
        columns = result_columns(plan.query, plan.keys, self.index)
        kinds = schema_of(columns, len(plan.keys))
        values = [column.decode(rows.keys).cast(field.type) for column, field in zip(columns, kinds, strict=True)]
        batch = pa.RecordBatch.from_arrays([*values, _counts(rows.counts)], names=[*kinds.names, GROUP_COUNT])
        is_small = rows.counts.dtype != object and exact_sum(rows.counts) < 1 << 63
        if not (self.adds_up and is_small and len(rows)):
            return batch
        (batch,) = added_up(pa.Table.from_batches([batch])).combine_chunks().to_batches()
        return batch


@dataclass(frozen=True)
class GroupReceipt:
    """What a task of a count by groups has written."""

    files: tuple[str, ...]
    matches: BigInt
    """The sum of the counts, not yet divided where they are arrays."""
    largest: BigInt
    """The largest count in the rows of a result."""


@dataclass(frozen=True)
class GroupFiles:
    """The rows of a result, in Arrow files."""

    files: tuple[Place, ...]
    schema: pa.Schema
    matches: int


def group_job(ask: Ask, folder: Place, tasks: int, parts: int) -> GroupJob | None:
    """Return a count by the keys of a question, dealt to tasks; None if it cannot be counted by compiled loops."""
    plan = group_plan(ask.meaning, ask.meaning.keys)
    program = None if plan is None else program_of(plan, ask.index)
    if program is None:
        return None
    pieces = program.pieces(ask.index, parts)
    dealt = (tuple(pieces[task::tasks]) for task in range(tasks))
    return GroupJob(program, ask.index, tuple(mine for mine in dealt if mine), folder.absolute())


def count_groups(job: GroupJob, meter: str | None, number: int) -> GroupReceipt:
    """Count the pieces of one task, and write what it has counted."""
    program, mine, progress = job.program, job.pieces[number], Meter(meter, number).advance
    file = job.folder / f"part-{number:05d}-{uuid.uuid4().hex}"
    if isinstance(program, CodeCountProgram):
        counts = program.count(job.index, mine, progress)
        path = file.with_suffix(".npy")
        with path.open("wb") as sink:
            np.save(sink, _halves(counts) if counts.dtype == object else counts, allow_pickle=False)
        return GroupReceipt((str(path),), exact_sum(counts), 0)
    matches = largest = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal matches, largest
        for rows in program.rows(job.index, mine, progress):
            matches += exact_sum(rows.counts)
            largest = max(largest, int(rows.counts.max(initial=0)))
            yield job.batch(rows)

    path = file.with_suffix(ARROW_SUFFIX)
    written = write_batches(batches(), path, ARROW_SUFFIX)
    return GroupReceipt((str(path),) if written else (), matches, largest)


def put_together(job: GroupJob, receipts: Sequence[GroupReceipt], folder: Place) -> GroupFiles:
    """Return the rows of a result, in files of a folder, given what its tasks have written, which is moved or removed."""
    empty = job.batch(GroupRows(np.zeros((len(job.program.plan.keys), 0), np.uint32), np.zeros(0, np.int64)))
    if isinstance(job.program, CodeCountProgram):
        files, matches, largest = _by_code(job, receipts, folder)
    else:
        written = [place_like(file, job.folder) for receipt in receipts for file in receipt.files]
        files = tuple(file.rename(folder / file.name) for file in written)
        matches = sum(receipt.matches for receipt in receipts)
        largest = max((receipt.largest for receipt in receipts), default=0)
    is_wide = (matches if job.adds_up else largest) >= 1 << 63
    kind = pa.decimal128(38) if is_wide else pa.int64()
    return GroupFiles(files, empty.schema.set(len(empty.schema) - 1, pa.field(GROUP_COUNT, kind)), matches)


def _by_code(job: GroupJob, receipts: Sequence[GroupReceipt], folder: Place) -> tuple[tuple[Place, ...], int, int]:
    """Add up the arrays of tasks, some codes at a time, and write the groups that have matches."""
    written = [place_like(file, job.folder) for receipt in receipts for file in receipt.files]
    arrays = [load_array(file) for file in written]
    files, largest, divisor = [], 0, job.program.plan.divisor
    size = arrays[0].shape[-1] if arrays else 0
    kind = code_type(size)
    for start in range(0, size, CODES_PER_FILE):
        parts = [_whole(array[..., start : start + CODES_PER_FILE]) for array in arrays]
        counts = divided(reduce(np.add, parts), divisor)
        codes = np.flatnonzero(counts)
        if len(codes):
            largest = max(largest, int(counts.max()))
            files.append(folder / f"counts-{start:012d}{ARROW_SUFFIX}")
            rows = GroupRows((codes + start)[None].astype(kind), counts[codes])
            write_batches(iter([job.batch(rows)]), files[-1], ARROW_SUFFIX)
    for file in written:
        file.unlink()
    return tuple(files), sum(receipt.matches for receipt in receipts) // divisor, largest


def _halves(counts: GroupCounts) -> NDArray[np.int64]:
    """Return counts that may not fit into 64 bits as two rows of numbers, the higher bits first."""
    _check(max(map(abs, counts), default=0))
    return np.array([counts >> _LOW_BITS, counts & ((1 << _LOW_BITS) - 1)]).astype(np.int64)


def _whole(counts: NDArray[np.int64]) -> GroupCounts:
    """Return the counts that one or two rows of numbers stand for."""
    if counts.ndim == 1:
        return np.asarray(counts)
    high, low = counts.astype(object)
    total: GroupCounts = (high << _LOW_BITS) + low
    return total


def _counts(counts: GroupCounts) -> pa.Array:
    """Return counts as a column: decimals, where 64 bits may not suffice."""
    if counts.dtype != object:
        return pa.array(counts)
    _check(max(counts, default=0))
    return pa.array([Decimal(count) for count in counts], pa.decimal128(38))


def _check(largest: int) -> None:
    if largest > MAX_GROUP_COUNT:
        message = f"a group has about {largest:.1e} matches, more than a column of counts can hold"
        raise BigjoinError(f"{message}: count them without 'by'")


def exact_sum(counts: GroupCounts) -> int:
    """Return the sum of counts, however large it is."""
    if counts.dtype == object:
        return int(counts.sum())
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def added_up(table: pa.Table) -> pa.Table:
    """Return rows with one for each combination of values, if all counts can be added up; NULL is a value like any other."""
    *names, _ = table.schema.names
    found: Any = table.group_by(names, use_threads=False).aggregate([(GROUP_COUNT, "sum")])
    return found.select([*names, f"{GROUP_COUNT}_sum"]).rename_columns([*names, GROUP_COUNT]).cast(table.schema)
