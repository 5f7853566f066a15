"""What a task of a round has done and kept, which it reports to the driver in a receipt."""

from __future__ import annotations

import errno
import json
import resource
import time
import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from bigjoin import errors
from bigjoin.dataflow.schedule import Waiting
from bigjoin.dataflow.waiting import WaitingFile
from bigjoin.index.trie import Codes
from bigjoin.index.typed_json import BigInt, from_json
from bigjoin.joins.blocks import Counts
from bigjoin.joins.dataflow_primitive import Tally
from bigjoin.kernels.jit import compilations
from bigjoin.local.matches import MatchFile
from bigjoin.local.row_bound import too_many_rows
from bigjoin.spark.job import Job
from bigjoin.spark.smallest import Smallest, with_hash
from bigjoin.spark.tasks import TaskError

_LASTING_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}
"""Errors of the file system that would happen again; after any other, Spark retries the task."""


@dataclass(frozen=True)
class Receipt:
    """What a task did in one stage of a round."""

    task: int
    stage: int
    prefixes: tuple[BigInt, ...]
    """The prefixes of each step; the first entry is the seed's."""
    candidates: tuple[BigInt, ...]
    matches: BigInt
    """Matches that were counted and not written."""
    parts: tuple[tuple[str, int], ...]
    """Files of matches, and how many rows each has."""
    waiting: tuple[Waiting, ...]
    bytes: int
    """Bytes sent to other tasks."""
    load: tuple[tuple[int, int], ...]
    """Workers, and how many tuples were sent to each."""
    seconds: float
    peak_memory: int
    compiled: int
    """Kernels that had to be compiled."""
    dealt: tuple[tuple[int, int], ...] = ()
    """Workers, and how many ranges each was dealt, where work is dealt."""
    begun: tuple[tuple[int, int], ...] = ()
    """Workers, and how many candidates each began with."""
    states: tuple[tuple[str, int], ...] = ()
    """Files with what workers manage between exchanges, and their bytes."""


class TaskOutput:
    """What a task of a round keeps in files of its own: prefixes that wait, and matches."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._waiting: dict[tuple[int, int], WaitingFile] = {}
        self._matches: MatchFile | None = None
        self._sample = None if job.sample is None else Smallest(*job.sample, job.plan.attributes)
        self._started, self._compiled = time.perf_counter(), compilations()

    @property
    def is_full(self) -> bool:
        """Whether this task has found as many matches as the limit asks for."""
        return self.job.limit is not None and self._matches is not None and self._matches.rows >= self.job.limit

    def wait(self, step: int, stop: int, block: Counts, keys: Codes | None) -> None:
        """Write prefixes to the file of a stop."""
        if (step, stop) not in self._waiting:
            self._waiting[step, stop] = WaitingFile(self.job.folder, step, stop, 0)
        self._waiting[step, stop].put(block, keys)

    def match(self, matches: Codes) -> None:
        """Write matches to this task's file, as ids in the order of the head."""
        if self.is_full:
            return
        if self._sample is not None:
            self._sample.put(matches)
            return
        if self._matches is None:
            self._matches = self._file(self.job.schema)
        if self.job.max_rows is not None and self._matches.rows + matches.shape[1] > self.job.max_rows:
            raise too_many_rows(self.job.max_rows)
        outputs = self.job.bound.columns
        if self.job.signed is None:
            self._matches.put([output.decode(matches) for output in outputs])
        else:
            for columns in self.job.signed.columns(outputs, matches):
                self._matches.put(columns)

    def _file(self, schema: pa.Schema) -> MatchFile:
        assert self.job.output is not None
        folder, suffix = self.job.output
        return MatchFile(folder / f"part-{uuid.uuid4().hex}{suffix}", schema, suffix)

    def close(self) -> None:
        """Finish the files, unless they are finished already."""
        if self._sample is not None and self._matches is None:
            matches, hashes = self._sample.matches()
            if len(hashes):
                self._matches = self._file(with_hash(self.job.schema))
                columns = [output.decode(matches) for output in self.job.bound.columns]
                self._matches.put([*columns, pa.array(hashes)])
        for file in self._waiting.values():
            file.close()
        if self._matches is not None:
            self._matches.close()

    def receipt(self, *, task: int, stage: int, tally: Tally, bytes_sent: int, load: NDArray[np.int64]) -> Receipt:
        """Return what the task did, what it keeps, and what that took."""
        for file in self._waiting.values():
            file.waiting.task = task
        return Receipt(
            task,
            stage,
            tuple(tally.prefixes),
            tuple(tally.candidates),
            tally.matches,
            () if self._matches is None else ((str(self._matches.path), self._matches.rows),),
            tuple(file.waiting for file in self._waiting.values()),
            bytes_sent,
            by_worker(load),
            time.perf_counter() - self._started,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            compilations() - self._compiled,
        )


def by_worker(tuples: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Return the workers that have tuples, and how many each has."""
    busy = np.flatnonzero(tuples)
    return tuple(zip(busy.tolist(), tuples[busy].tolist(), strict=True))


def failure(job: Job, error: errors.BigjoinError | OSError) -> TaskError:
    """Return an error as a task reports it to the driver; raise it if Spark is to retry the task."""
    if isinstance(error, errors.BigjoinError):
        return TaskError.of(error)
    if error.errno not in _LASTING_ERRORS:
        raise error
    hint = "set BIGJOIN_SCRATCH to a folder that every executor sees, with room for what waits"
    return TaskError("OutputError", f"{errors.reason(error)} (prefixes wait in {job.folder}; {hint})")


def read_receipts(rows: DataFrame) -> list[Receipt]:
    """Run a job, and return the receipts of its tasks; raise the error if one of them reports one."""
    reports = [json.loads(payload) for payload in rows.toArrow()["payload"].to_pylist()]
    for report in reports:
        if "error" in report:
            raise from_json(TaskError, report).raised()
    return [from_json(Receipt, report) for report in reports]
