"""A job in rounds: a plan dealt to workers, what its tasks write, and what they tell the driver when they are done."""

from __future__ import annotations

import errno
import json
import resource
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from bigjoin import errors
from bigjoin.dataflow.blocks import Counts
from bigjoin.dataflow.heavy import Heavy
from bigjoin.dataflow.operators import Tally
from bigjoin.dataflow.waiting import WaitingFile
from bigjoin.defaults import WORKERS_PER_CORE
from bigjoin.index.directory import Index
from bigjoin.index.phase import Phase
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan, bind
from bigjoin.joins.changes import Signed, with_change
from bigjoin.kernels.jit import compilations
from bigjoin.query.plan import Plan
from bigjoin.spark.matches import MatchFile, schema_of

MOST_WORKERS = 1 << 20

_LASTING = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}
"""Errors of the file system that a task would meet again; others are Spark's to try again."""


@dataclass(frozen=True)
class Job:
    """A plan over an index, dealt to workers: all that travels to tasks."""

    plan: Plan
    index: Index | Phase
    workers: int
    tasks: int
    batch_size: int
    limit: int | None = None
    output: tuple[str, str] | None = None
    """The folder and the suffix of the files that matches are written to; without, they are counted."""
    signed: Signed | None = None
    """How matches are reported, if the plan is that of a delta query."""
    heavy: Heavy | None = None
    """The keys that are dealt out over all workers, if some are."""
    soon: bool = False
    """Whether matches are read as they are found, so that a round gives a bounded number of them."""
    folder: str = ""
    """Where prefixes wait: a folder that every task sees."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def bound(self) -> BoundPlan:
        """The plan bound to the index, once in each process."""
        if self.name not in _bound:
            _bound.clear()
            _bound[self.name] = bind(self.plan, self.index)
        return _bound[self.name]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the matches."""
        found = schema_of(self.bound.outputs, len(self.plan.attributes))
        return found if self.signed is None else with_change(found)

    def hosted(self, task: int) -> range:
        """Return the workers that a task hosts."""
        return range(task, self.workers, self.tasks)


_bound: dict[str, BoundPlan] = {}


def worker_count(index: Index, asked: int | None, cores: int) -> int:
    """Return how many workers there are: as asked for, one for each shard of an index, or some for each core."""
    many = asked or (index.shards if index.shards > 1 else WORKERS_PER_CORE * cores)
    if many > MOST_WORKERS:
        raise errors.BigjoinError(f"workers is {many}; it must be at most {MOST_WORKERS:,}")
    return many


class Matches:
    """The matches that a task finds: written to one file of its own, as ids in the order of the head."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._file: MatchFile | None = None

    @property
    def is_full(self) -> bool:
        """Whether this task alone has found as many matches as are wanted."""
        return self.job.limit is not None and self._file is not None and self._file.rows >= self.job.limit

    @property
    def parts(self) -> list[tuple[str, int]]:
        """The file, if there is one, and its rows."""
        return [] if self._file is None else [(str(self._file.path), self._file.rows)]

    def put(self, matches: Codes) -> None:
        """Write some matches."""
        if self.is_full:
            return
        if self._file is None:
            assert self.job.output is not None
            folder, suffix = self.job.output
            path = Path(folder) / f"part-{uuid.uuid4().hex}{suffix}"
            self._file = MatchFile(path, self.job.schema, suffix)
        outputs = self.job.bound.outputs
        if self.job.signed is None:
            self._file.put([output.decode(matches) for output in outputs])
        else:
            for columns in self.job.signed.columns(outputs, matches):
                self._file.put(columns)

    def close(self) -> None:
        """Finish the file, if it is not yet finished."""
        if self._file is not None:
            self._file.close()


class Kept:
    """What a task of a round keeps, until its receipt tells of it: prefixes that wait, and matches; and what it has taken."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.matches = Matches(job)
        self._files: dict[tuple[int, int], WaitingFile] = {}
        self._started, self._compiled = time.perf_counter(), compilations()

    @property
    def is_full(self) -> bool:
        """Whether this task alone has found as many matches as are wanted."""
        return self.matches.is_full

    def wait(self, step: int, stop: int, counts: Counts, keys: Codes | None) -> None:
        """Write prefixes to the file of those that wait at a stop."""
        if (step, stop) not in self._files:
            self._files[step, stop] = WaitingFile(Path(self.job.folder) / f"{uuid.uuid4().hex}.waiting")
        self._files[step, stop].put(counts, keys)

    def match(self, matches: Codes) -> None:
        """Write matches to this task's file."""
        self.matches.put(matches)

    def close(self) -> None:
        """Finish the files."""
        for file in self._files.values():
            file.close()
        self.matches.close()

    def receipt(self, task: int, tally: Tally) -> dict[str, Any]:
        """Return what is kept, with what was done and what it took."""
        return {
            "task": task,
            "prefixes": tally.prefixes,
            "candidates": tally.candidates,
            "matches": tally.matches,
            "parts": self.matches.parts,
            "waiting": [
                {
                    "file": str(file.path),
                    "step": step,
                    "stop": stop,
                    "task": task,
                    "prefixes": file.prefixes,
                    "proposals": file.proposals,
                    "bytes": file.bytes,
                    "codes": file.codes,
                }
                for (step, stop), file in self._files.items()
            ],
            "seconds": time.perf_counter() - self._started,
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "compiled": compilations() - self._compiled,
        }


def reported(
    kept: Kept, rows: Iterator[pa.RecordBatch], receipt: Callable[[], dict[str, Any]]
) -> Generator[pa.RecordBatch, None, dict[str, Any]]:
    """Give the rows that a task sends, and return its receipt: of what was done, or of what went wrong."""
    try:
        yield from rows
        kept.close()
        return receipt()
    except (errors.BigjoinError, OSError) as error:
        return failure(kept.job, error)
    finally:
        with suppress(OSError):  # what went wrong is told by now
            kept.close()


def by_worker(tuples: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return how many tuples each worker has, of those that have any."""
    busy = np.flatnonzero(tuples)
    return list(zip(busy.tolist(), tuples[busy].tolist(), strict=True))


def failure(job: Job, error: errors.BigjoinError | OSError) -> dict[str, Any]:
    """Return the receipt of a task that could not do something, if the user is to know; raise what Spark is to try again."""
    if isinstance(error, errors.BigjoinError):
        return {"error": type(error).__name__, "message": str(error)}
    if error.errno not in _LASTING:
        raise error
    hint = "set BIGJOIN_SCRATCH to a folder that every executor sees, with room for what waits"
    return {"error": "OutputError", "message": f"{errors.reason(error)} (prefixes wait in {job.folder}; {hint})"}


def receipts(rows: DataFrame) -> list[dict[str, Any]]:
    """Run a job, and return what its tasks say they have done; raise what one of them could not do."""
    said = [json.loads(payload) for payload in rows.toArrow()["payload"].to_pylist()]
    for receipt in said:
        if "error" in receipt:
            raise getattr(errors, receipt["error"])(receipt["message"])
    return said
