"""The partitioned strategy: each worker owns the keys that fall to it, in every index, and prefixes travel to the owner.

This is the paper's BiGJoin (sections 3.1 and 3.2). A round is one Spark job: tasks begin with seeds, or with proposals of
prefixes that wait; blocks travel through the exchanges of that step and of counting for the next; and where prefixes have found
their proposer, they wait in files. The driver only knows which files there are, and how many proposals each will make.
"""

from __future__ import annotations

import json
import resource
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bigjoin import errors
from bigjoin.dataflow.agenda import Agenda, Round, Slice, Waiting
from bigjoin.dataflow.blocks import Block, Counted
from bigjoin.dataflow.itinerary import Itinerary, Visit
from bigjoin.dataflow.operators import Operators
from bigjoin.dataflow.seeds import WorkerSeeds, tuples_of_workers
from bigjoin.dataflow.waiting import WaitingFile, read_waiting
from bigjoin.index.directory import Index
from bigjoin.index.trie import Codes
from bigjoin.join.bind import BoundPlan, bind
from bigjoin.kernels.jit import compilations
from bigjoin.query.plan import Plan
from bigjoin.spark.exchange import Inbox, Outbox, exchange, exchanging
from bigjoin.spark.matches import ARROW, file_writer, in_microseconds, schema_of

BUDGET = 1 << 26
"""Proposals of one round: what a Spark job moves, and prefixes that wait on disk at each step."""

FEW = 1 << 16
"""Proposals of the first round where a limit asks for few matches; the next ones have twice as many each."""


@dataclass(frozen=True)
class Job:
    """A plan over an index, dealt to workers: all that travels to tasks."""

    plan: Plan
    index: Index
    workers: int
    tasks: int
    batch_size: int
    folder: str
    """Where prefixes wait: a folder that every task sees."""
    output: tuple[str, str] | None = None
    """The folder and the suffix of the files that matches are written to; without, they are counted."""
    limit: int | None = None

    @cached_property
    def bound(self) -> BoundPlan:
        return bind(self.plan, self.index)

    def seeds(self, task: int) -> WorkerSeeds:
        """Return the seeds of the workers that a task hosts."""
        return WorkerSeeds(self.bound.seed, self.workers, self.tasks, task)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "bound"}


@dataclass
class Stats:
    """What a run did, added up from the receipts of its tasks."""

    workers: int
    prefixes: list[int]
    candidates: list[int]
    matches: int = 0
    rounds: int = 0
    exchanges: int = 0
    bytes: int = 0
    tuples: int = 0
    peak_memory: int = 0
    compiled: int = 0
    seconds: dict[int, float] = field(default_factory=dict)
    """Seconds of each task, over all rounds."""
    parts: list[tuple[Path, int]] = field(default_factory=list)
    """Files of matches, and their rows."""
    load: list[Any] = field(default_factory=list)
    """Tuples that each worker received, round by round."""

    def has(self, limit: int | None) -> bool:
        """Tell whether as many matches are written as are wanted."""
        return limit is not None and sum(rows for _, rows in self.parts) >= limit

    def add(self, receipt: dict[str, Any], round_load: Any) -> None:
        """Add the receipt of a task."""
        self.prefixes = [a + b for a, b in zip(self.prefixes, receipt["prefixes"], strict=True)]
        self.candidates = [a + b for a, b in zip(self.candidates, receipt["candidates"], strict=True)]
        self.matches += receipt["matches"]
        self.bytes += receipt["bytes"]
        self.tuples += receipt["tuples"]
        self.compiled += receipt["compiled"]
        self.seconds[receipt["task"]] = self.seconds.get(receipt["task"], 0.0) + receipt["seconds"]
        self.peak_memory = max(self.peak_memory, receipt["peak_memory"])
        self.parts += [(Path(file), rows) for file, rows in receipt["parts"]]
        for worker, tuples in receipt["load"]:
            round_load[worker] += tuples


def count(
    spark: SparkSession, job: Job, *, budget: int = BUDGET, progress: Callable[[float], None] | None = None
) -> tuple[int, dict[str, Any]]:
    """Return the number of matches, and what the run did."""
    stats, agenda = _run(spark, job, budget, progress)
    return stats.matches, _report(job, stats, agenda)


def write(
    spark: SparkSession,
    job: Job,
    folder: Path,
    suffix: str,
    *,
    budget: int = BUDGET,
    progress: Callable[[float], None] | None = None,
) -> list[tuple[Path, int]]:
    """Write the matches to files in a folder, from the tasks, and return the files and their rows.

    With a limit, rounds stop when there are enough, and one file of exactly that many is made of what they found.
    """
    written = replace(job, output=(str(folder.absolute()), suffix if job.limit is None else ARROW))
    parts = _run(spark, written, budget, progress)[0].parts if job.limit != 0 else []
    return parts if job.limit is None else _first(job, parts, folder, suffix)


def _first(job: Job, parts: list[tuple[Path, int]], folder: Path, suffix: str) -> list[tuple[Path, int]]:
    """Write the first matches of some Arrow files to one file."""
    left = job.limit or 0
    target = folder / f"first-{uuid.uuid4().hex}{suffix}"
    with file_writer(target, schema(job), suffix) as writer:
        for file, _ in parts:
            for batch in _batches(str(file)):
                writer.write_batch(batch.slice(0, left))
                left -= min(left, batch.num_rows)
    rows = (job.limit or 0) - left
    return [(target, rows)] if rows else []


def find(spark: SparkSession, job: Job, parts: list[tuple[Path, int]]) -> DataFrame:
    """Return matches that were written as a DataFrame, which reads them from their files."""
    columns = in_microseconds(schema(job))
    files = [str(file) for file, _ in parts]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in _batches(files[number]):
                    yield rows.cast(columns, safe=False)

    return spark.range(0, len(files), 1, max(1, len(files))).mapInArrow(read, from_arrow_schema(columns))


def _batches(file: str) -> Iterator[pa.RecordBatch]:
    """Give the batches of an Arrow file."""
    with pa.memory_map(file) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def schema(job: Job) -> pa.Schema:
    """Return the columns of the matches."""
    return schema_of(job.bound.outputs, len(job.plan.attributes))


def _run(spark: SparkSession, job: Job, budget: int, progress: Callable[[float], None] | None) -> tuple[Stats, Agenda]:
    """Run rounds until nothing waits."""
    itinerary = Itinerary(job.bound)
    seeds = [len(job.seeds(task)) for task in range(job.tasks)]
    limited = job.limit is not None
    agenda = Agenda(seeds, len(job.plan.steps), job.workers, job.batch_size, FEW if limited else budget, deepest_first=limited)
    width = len(job.plan.steps) + 1
    stats = Stats(job.workers, [0] * width, [0] * width)
    try:
        while not stats.has(job.limit) and (now := agenda.next_round()) is not None:
            stages = itinerary.exchanges(now.step)
            load = np.zeros(job.workers, np.int64)
            for receipt in _round(exchanging(spark), job, now, stages):
                if "error" in receipt:
                    raise getattr(errors, receipt["error"])(receipt["message"])
                stats.add(receipt, load)
                agenda.add([Waiting(**file) for file in receipt["waiting"]])
            agenda.budget = min(budget, 2 * agenda.budget)
            stats.rounds += 1
            stats.exchanges += stages
            stats.load.append(load)
            for file in now.spent:
                Path(file).unlink(missing_ok=True)
            if progress is not None:
                progress(sum(agenda.read) / max(1, sum(agenda.seeds)))
    finally:
        shutil.rmtree(job.folder, ignore_errors=True)
    return stats, agenda


def _round(spark: SparkSession, job: Job, now: Round, stages: int) -> list[dict[str, Any]]:
    """Run one Spark job, and return the receipts of its tasks."""

    def begin(number: int) -> Iterator[pa.RecordBatch]:
        yield from Task(job, number).begin(now.step, now.work[number])

    def advance(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from Task(job, None).advance(batches)

    return receipts(exchange(spark, job.tasks, begin, [advance] * stages))


def receipts(rows: DataFrame) -> list[dict[str, Any]]:
    """Run a job, and return what its tasks say they have done."""
    return [json.loads(payload) for payload in rows.toArrow()["payload"].to_pylist()]


class Task:
    """A task of a round: it hosts some workers, does what visits ask for, and sends what has to travel further."""

    def __init__(self, job: Job, number: int | None) -> None:
        self.job, self.number = job, number
        self.started, self.compiled = time.perf_counter(), compilations()
        self.operators = Operators(job.bound, self, counting=job.output is None)
        self.numbers = {visit: n for n, visit in enumerate(self.operators.itinerary.visits)}
        self.files: dict[tuple[int, int], WaitingFile] = {}
        self.part: Path | None = None
        self.writer: Any = None
        self.rows = 0

    def begin(self, step: int | None, work: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
        """Read seeds, or propose for prefixes that wait."""
        assert self.number is not None
        outbox = self._outbox(self.number)
        yield from self._guarded(self._sent(outbox, self._begun(step, work)), outbox)

    def advance(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do what the blocks that arrive ask for."""
        inbox = Inbox(batches, self.job.batch_size, self.job.bound.seed.code_type)
        outbox: Outbox | None = None
        blocks = inbox.blocks()
        first = next(blocks, None)
        if inbox.task is None:
            return
        outbox = self._outbox(inbox.task)
        self.number = inbox.task
        if first is not None:
            yield from self._guarded(self._sent(outbox, self._visited([first], blocks)), outbox)
        for receipt in inbox.receipts:
            yield outbox.receipt(json.loads(receipt))

    def _outbox(self, number: int) -> Outbox:
        return Outbox(number, workers=self.job.workers, tasks=self.job.tasks)

    def _begun(self, step: int | None, work: tuple[Slice, ...]) -> Iterator[tuple[Visit, Block]]:
        size, bound = self.job.batch_size, self.job.bound
        for part in work:
            if step is None:
                assert self.number is not None
                for read, prefixes in self.job.seeds(self.number).read(part.first, part.last, size):
                    self.operators.tally.candidates[0] += read
                    yield from self.operators.seed(prefixes)
                    if self.full:
                        return
            else:
                for batch in read_waiting(part.file, part.first, part.last, size, bound.seed.code_type):
                    yield from self.operators.propose(step, part.stop, batch)
                    if self.full:
                        return

    def _visited(self, first: Any, blocks: Any) -> Iterator[tuple[Visit, Block]]:
        visits = self.operators.itinerary.visits
        for source in (first, blocks):
            for number, block in source:
                if not self.full:
                    yield from self.operators.visit(visits[number], block)

    def _sent(self, outbox: Outbox, travelling: Iterator[tuple[Visit, Block]]) -> Iterator[pa.RecordBatch]:
        for visit, block in travelling:
            at = self.operators.itinerary.place(visit)
            assert at is not None
            yield outbox.send(self.numbers[visit], block, at)

    def _guarded(self, rows: Iterator[pa.RecordBatch], outbox: Outbox) -> Iterator[pa.RecordBatch]:
        """Give rows, and at their end the receipt; what went wrong is in the receipt, if it tells a user something."""
        try:
            yield from rows
            for file in self.files.values():
                file.close()
            if self.writer is not None:
                self.writer.close()
        except errors.BigjoinError as error:
            yield outbox.receipt({"error": type(error).__name__, "message": str(error)})
        except OSError as error:
            yield outbox.receipt({"error": "OutputError", "message": errors.reason(error)})
        else:
            yield outbox.receipt(self._receipt(outbox))

    def _receipt(self, outbox: Outbox) -> dict[str, Any]:
        tally = self.operators.tally
        busy = np.flatnonzero(outbox.load)
        return {
            "task": self.number,
            "prefixes": tally.prefixes,
            "candidates": tally.candidates,
            "matches": tally.matches,
            "parts": [(str(self.part), self.rows)] if self.part else [],
            "bytes": outbox.bytes,
            "tuples": outbox.tuples,
            "load": list(zip(busy.tolist(), outbox.load[busy].tolist(), strict=True)),
            "waiting": [
                {
                    "file": str(file.path),
                    "step": step,
                    "stop": stop,
                    "task": self.number,
                    "prefixes": file.prefixes,
                    "proposals": file.proposals,
                    "bytes": file.bytes,
                    "codes": file.codes,
                }
                for (step, stop), file in self.files.items()
            ],
            "seconds": time.perf_counter() - self.started,
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "compiled": compilations() - self.compiled,
        }

    def wait(self, step: int, stop: int, counted: Counted, keys: Codes | None) -> None:
        """Write prefixes to the file of those that wait at a stop."""
        if (step, stop) not in self.files:
            self.files[step, stop] = WaitingFile(Path(self.job.folder) / f"{uuid.uuid4().hex}.waiting")
        self.files[step, stop].put(counted, keys)

    def match(self, matches: Codes) -> None:
        """Write matches to this task's file, as ids in the order of the head."""
        if self.full:
            return
        outputs, found_as = self.job.bound.outputs, schema(self.job)
        columns = [output.decode(matches) for output in outputs]
        batch = pa.RecordBatch.from_arrays(columns, names=found_as.names).cast(found_as)
        if self.writer is None:
            assert self.job.output is not None
            folder, suffix = self.job.output
            self.part = Path(folder) / f"part-{self.number:05d}-{uuid.uuid4().hex}{suffix}"
            self.writer = file_writer(self.part, found_as, suffix)
        self.writer.write_batch(batch)
        self.rows += batch.num_rows

    @property
    def full(self) -> bool:
        """Whether this task alone has found as many matches as are wanted."""
        return self.job.limit is not None and self.rows >= self.job.limit


def _report(job: Job, stats: Stats, agenda: Agenda) -> dict[str, Any]:
    """Return the stats of a run: the paper's rounds, load, communication and memory."""
    load = np.array(stats.load) if stats.load else np.zeros((1, job.workers), np.int64)
    steps = [
        {"attribute": attribute, "prefixes": prefixes, "candidates": candidates}
        for attribute, prefixes, candidates in zip(
            [",".join(job.plan.seed.attributes), *(step.attribute for step in job.plan.steps)],
            stats.prefixes,
            stats.candidates,
            strict=True,
        )
    ]
    seconds = list(stats.seconds.values()) or [0.0]
    tries = {id(e.trie): e.trie for step in job.bound.steps for e in (*step.extenders, *step.excluders)}
    tries[id(job.bound.seed.extender.trie)] = job.bound.seed.extender.trie
    tuples = sum(tuples_of_workers(trie, job.workers) for trie in tries.values())
    return {
        "rounds": stats.rounds,
        "exchanges": stats.exchanges,
        "bytes": stats.bytes,
        "tuples": stats.tuples,
        "load": {"max": int(load.max()), "mean": float(load.mean())},
        "steps": steps,
        "index_tuples": {"max": int(np.max(tuples)), "mean": float(np.mean(tuples))},
        "waiting": {"prefixes": agenda.peak_prefixes, "bytes": agenda.peak_bytes},
        "tasks": {"count": job.tasks, "seconds": {"max": max(seconds), "mean": sum(seconds) / len(seconds)}},
        "busy": sum(seconds) / len(seconds) / max(*seconds, 1e-9),
        "peak_memory": stats.peak_memory,
        "kernels_compiled": stats.compiled,
    }
