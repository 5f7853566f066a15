"""What a task of a round has done and kept, told to the driver in a receipt when it is over."""

from __future__ import annotations

import errno
import json
import resource
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from bigjoin import errors
from bigjoin.dataflow.schedule import Waiting
from bigjoin.dataflow.waiting import WaitingFile
from bigjoin.index.trie import Codes
from bigjoin.index.typed_json import from_json, to_json
from bigjoin.join.blocks import Counts
from bigjoin.join.dataflow_primitive import Tally
from bigjoin.kernels.jit import compilations
from bigjoin.spark.job import Job
from bigjoin.spark.matches import MatchFile

_LASTING_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}
"""Errors of the file system that a task would meet again; others are for Spark to try again."""


@dataclass(frozen=True)
class Receipt:
    """What a task did in one stage of a round."""

    task: int
    stage: int
    prefixes: tuple[int, ...]
    """Of each step, the first entry the seed's."""
    candidates: tuple[int, ...]
    matches: int
    """Those that were only counted."""
    parts: tuple[tuple[str, int], ...]
    """Files of matches, and their rows."""
    waiting: tuple[Waiting, ...]
    bytes: int
    """Sent to other tasks."""
    load: tuple[tuple[int, int], ...]
    """Workers, and the tuples that were sent to each."""
    seconds: float
    peak_memory: int
    compiled: int
    """Kernels that had to be compiled."""
    dealt: tuple[tuple[int, int], ...] = ()
    """Workers, and the ranges that each was dealt, where work is dealt."""
    begun: tuple[tuple[int, int], ...] = ()
    """Workers, and how many candidates each began with."""
    states: tuple[tuple[str, int], ...] = ()
    """Files of what workers manage, and their bytes."""


@dataclass(frozen=True)
class Failure:
    """What a task could not do, if the user is to know."""

    error: str
    message: str


class TaskOutput:
    """What a task of a round keeps: prefixes that wait, and matches, in files of its own."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._waiting: dict[tuple[int, int], WaitingFile] = {}
        self._matches: MatchFile | None = None
        self._started, self._compiled = time.perf_counter(), compilations()

    @property
    def is_full(self) -> bool:
        """Whether this task alone has found as many matches as are wanted."""
        return self.job.limit is not None and self._matches is not None and self._matches.rows >= self.job.limit

    def wait(self, step: int, stop: int, block: Counts, keys: Codes | None) -> None:
        """Write prefixes to the file of those that wait at a stop."""
        if (step, stop) not in self._waiting:
            self._waiting[step, stop] = WaitingFile(Path(self.job.folder), step, stop, 0)
        self._waiting[step, stop].put(block, keys)

    def match(self, matches: Codes) -> None:
        """Write matches to this task's file, as ids in the order of the head."""
        if self.is_full:
            return
        if self._matches is None:
            assert self.job.output is not None
            folder, suffix = self.job.output
            self._matches = MatchFile(Path(folder) / f"part-{uuid.uuid4().hex}{suffix}", self.job.schema, suffix)
        outputs = self.job.bound.columns
        if self.job.signed is None:
            self._matches.put([output.decode(matches) for output in outputs])
        else:
            for columns in self.job.signed.columns(outputs, matches):
                self._matches.put(columns)

    def close(self) -> None:
        """Finish the files, if they are not yet finished."""
        for file in self._waiting.values():
            file.close()
        if self._matches is not None:
            self._matches.close()

    def receipt(self, *, task: int, stage: int, tally: Tally, bytes_sent: int, load: NDArray[np.int64]) -> Receipt:
        """Return what is kept, what was done, and what it took."""
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
    """Return how many tuples each worker has, of those that have any."""
    busy = np.flatnonzero(tuples)
    return tuple(zip(busy.tolist(), tuples[busy].tolist(), strict=True))


def failure(job: Job, error: errors.BigjoinError | OSError) -> Failure:
    """Return what a task tells of an error, if the user is to know; raise what Spark is to try again."""
    if isinstance(error, errors.BigjoinError):
        return Failure(type(error).__name__, str(error))
    if error.errno not in _LASTING_ERRORS:
        raise error
    hint = "set BIGJOIN_SCRATCH to a folder that every executor sees, with room for what waits"
    return Failure("OutputError", f"{errors.reason(error)} (prefixes wait in {job.folder}; {hint})")


def encode(said: Receipt | Failure) -> bytes:
    """Return a receipt as it travels."""
    return json.dumps(to_json(said)).encode()


def read_receipts(rows: DataFrame) -> list[Receipt]:
    """Run a job, and return what its tasks say they have done; raise what one of them could not do."""
    said = [json.loads(payload) for payload in rows.toArrow()["payload"].to_pylist()]
    for receipt in said:
        if "error" in receipt:
            failed = from_json(Failure, receipt)
            raise getattr(errors, failed.error)(failed.message)
    return [from_json(Receipt, receipt) for receipt in said]
