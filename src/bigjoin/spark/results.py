"""What a run in rounds gives: a number, files of matches, or a DataFrame that reads them; and the figures of the run."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bigjoin.errors import BigjoinError
from bigjoin.spark.held import Held
from bigjoin.spark.job import Job
from bigjoin.spark.matches import ARROW, file_writer, in_microseconds
from bigjoin.spark.session import common_directory

Progress = Callable[[float], None]
Found = Callable[[list[Path]], None]
"""Takes files of matches that are whole, and may move them."""

SMALL = 1 << 19
"""Bytes of a result that is part of its frame: such a frame travels to tasks with it."""

KEPT_LOADS = 1000
"""Exchanges whose loads are reported one by one."""


@dataclass
class Stats:
    """What a run did, added up from the receipts of its tasks, round by round."""

    workers: int
    prefixes: list[int]
    candidates: list[int]
    matches: int = 0
    rounds: int = 0
    exchanges: int = 0
    bytes: int = 0
    tuples: int = 0
    most_load: int = 0
    """Tuples that a worker received in a round, at most."""
    critical_path: int = 0
    """The most that a worker received, added up over all exchanges."""
    loads: list[dict[str, Any]] = field(default_factory=list)
    """Tuples that workers received in each of the first exchanges: the most of them, and the mean."""
    peak_memory: int = 0
    compiled: int = 0
    seconds: dict[int, float] = field(default_factory=dict)
    """Seconds of each task, over all rounds."""
    parts: list[tuple[Path, int]] = field(default_factory=list)
    """Files of matches, and their rows."""

    @classmethod
    def of(cls, job: Job) -> Stats:
        steps = len(job.plan.steps) + 1
        return cls(job.workers, [0] * steps, [0] * steps)

    def has(self, limit: int | None) -> bool:
        """Tell whether as many matches are written as are wanted."""
        return limit is not None and sum(rows for _, rows in self.parts) >= limit

    def add(
        self, receipts: Sequence[dict[str, Any]], exchanges: int, labels: Sequence[dict[str, Any]] = ()
    ) -> NDArray[np.int64]:
        """Add the receipts of a round's tasks; each says how many tuples its stage sent to which worker.

        Return what each worker received, exchange by exchange; labels say what these are.
        """
        loads: NDArray[np.int64] = np.zeros((exchanges + 1, self.workers), np.int64)
        for receipt in receipts:
            self.prefixes = [a + b for a, b in zip(self.prefixes, receipt["prefixes"], strict=True)]
            self.candidates = [a + b for a, b in zip(self.candidates, receipt["candidates"], strict=True)]
            self.matches += receipt["matches"]
            self.bytes += receipt["bytes"]
            self.compiled += receipt["compiled"]
            self.seconds[receipt["task"]] = self.seconds.get(receipt["task"], 0.0) + receipt["seconds"]
            self.peak_memory = max(self.peak_memory, receipt["peak_memory"])
            self.parts += [(Path(file), rows) for file, rows in receipt["parts"]]
            for worker, tuples in receipt["load"]:
                loads[receipt["stage"], worker] += tuples
            for worker, tuples in receipt.get("dealt", ()):  # before the first exchange; after the last nothing is sent
                loads[-1, worker] += tuples
        self.rounds += 1
        self.exchanges += exchanges
        self.tuples += int(loads.sum())
        self.most_load = max(self.most_load, int(loads.sum(axis=0).max()))
        self.critical_path += int(loads.max(axis=1).sum())
        for number, load in enumerate(loads):
            if load.any() and len(self.loads) < KEPT_LOADS:
                label = labels[number] if labels else {}
                self.loads.append({**label, "max": int(load.max()), "mean": float(load.mean())})
        return loads

    def report(self, job: Job) -> dict[str, Any]:
        """Return the stats of a run: the paper's rounds, load, communication and memory."""
        attributes = [",".join(job.plan.seed.attributes), *(step.attribute for step in job.plan.steps)]
        seconds = list(self.seconds.values()) or [0.0]
        return {
            "workers": job.workers,
            "rounds": self.rounds,
            "exchanges": self.exchanges,
            "bytes": self.bytes,
            "tuples": self.tuples,
            "load": {"max": self.most_load, "mean": self.tuples / job.workers / max(1, self.rounds)},
            "exchange_loads": self.loads,
            "critical_path": self.critical_path,
            "steps": [
                {"attribute": attribute, "prefixes": prefixes, "candidates": candidates}
                for attribute, prefixes, candidates in zip(attributes, self.prefixes, self.candidates, strict=True)
            ],
            "tasks": {"count": job.tasks, "seconds": {"max": max(seconds), "mean": sum(seconds) / len(seconds)}},
            "busy": sum(seconds) / len(seconds) / max(*seconds, 1e-9),
            "peak_memory": self.peak_memory,
            "kernels_compiled": self.compiled,
        }


@dataclass(frozen=True)
class Ran:
    """A run that is over."""

    matches: int
    parts: list[tuple[Path, int]]
    """Files of matches, and their rows."""
    stats: dict[str, Any]
    index_tuples: Callable[[], dict[str, float]]
    """Finds how many entries of the indices a worker has, at most and on the average: it takes a look at all of them."""


class Run(Protocol):
    """A strategy that works in rounds."""

    def __call__(
        self, spark: SparkSession, job: Job, *, progress: Progress | None = None, found: Found | None = None
    ) -> Ran: ...


def write(
    spark: SparkSession,
    job: Job,
    run: Run,
    folder: Path,
    suffix: str,
    *,
    progress: Progress | None = None,
    found: Found | None = None,
) -> list[tuple[Path, int]]:
    """Write the matches to files in a folder, from the tasks, and return the files and their rows; `found` gets each round's.

    With a limit, rounds stop when there are enough, and one file of exactly that many is made of what they found.
    """
    written = replace(job, output=(str(folder.absolute()), suffix if job.limit is None else ARROW))
    if job.limit is None:
        return run(spark, written, progress=progress, found=found).parts
    parts = run(spark, written, progress=progress).parts if job.limit else []
    first = _first(job, parts, folder, suffix)
    if found is not None:
        found([file for file, _ in first])
    return first


def parts_of(receipts: Sequence[dict[str, Any]]) -> list[Path]:
    """Return the files of matches that the tasks of a round tell of."""
    return [Path(file) for receipt in receipts for file, _ in receipt["parts"]]


def _first(job: Job, parts: list[tuple[Path, int]], folder: Path, suffix: str) -> list[tuple[Path, int]]:
    """Write the first matches of some Arrow files to one file."""
    left = job.limit or 0
    target = folder / f"first-{uuid.uuid4().hex}{suffix}"
    with file_writer(target, job.schema, suffix) as writer:
        for batch in chain.from_iterable(_batches(str(file)) for file, _ in parts):
            writer.write_batch(batch.slice(0, left))
            left -= min(left, batch.num_rows)
            if not left:
                break
    rows = (job.limit or 0) - left
    return [(target, rows)] if rows else []


def find(spark: SparkSession, job: Job, run: Run, held: Held) -> DataFrame:
    """Return the matches, which are found now, as a DataFrame that reads them: from itself if they are few, else from files."""
    folder = common_directory(spark, job.index.path, "matches")
    files: list[str] | list[bytes]
    try:
        written = [file for file, _ in write(spark, job, run, folder, ARROW)]
        is_small = sum(file.stat().st_size for file in written) <= SMALL
        files = [file.read_bytes() for file in written] if is_small else [str(file) for file in written]
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if is_small:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        held.add(folder, spark)
    columns, tasks = in_microseconds(job.schema), max(1, min(job.tasks, len(files)))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in chain.from_iterable(map(_batches, files[number::tasks])):
                    yield rows.cast(columns, safe=False)

    return spark.range(0, tasks, 1, tasks).mapInArrow(read, from_arrow_schema(columns))


def _batches(file: str | bytes) -> Iterator[pa.RecordBatch]:
    """Give the batches of an Arrow file."""
    try:
        source = pa.BufferReader(file) if isinstance(file, bytes) else pa.memory_map(file)
    except FileNotFoundError:
        raise BigjoinError("the files of this result are gone, as its graph was closed: find it again") from None
    with source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
