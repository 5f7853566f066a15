"""The partitioned strategy: each worker owns the keys that fall to it, in every index, and prefixes travel to the owner.

This is the paper's BiGJoin (sections 3.1 and 3.2). A round is one Spark job: tasks begin with seeds, or with proposals of
prefixes that wait; blocks travel through the exchanges of that step and of the next ones, as far as a budget for each step
allows; and prefixes that found their proposer when it was spent wait there in files. The driver only knows which files there
are, and how many proposals each will make.
"""

from __future__ import annotations

import errno
import json
import resource
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bigjoin import errors
from bigjoin.dataflow.agenda import Agenda, Round, Slice, Waiting
from bigjoin.dataflow.blocks import Block, Counts
from bigjoin.dataflow.itinerary import Itinerary, Visit
from bigjoin.dataflow.operators import Operators
from bigjoin.dataflow.seeds import WorkerSeeds, seeds_of_tasks, tuples_of_workers
from bigjoin.dataflow.waiting import WaitingFile, read_waiting
from bigjoin.index.directory import Index
from bigjoin.index.trie import Codes
from bigjoin.index.versions import Phase
from bigjoin.joins.bind import BoundPlan, bind
from bigjoin.joins.changes import Signed, with_change
from bigjoin.kernels.jit import compilations
from bigjoin.query.plan import Plan
from bigjoin.spark.exchange import Inbox, Outbox, exchange, exchanging
from bigjoin.spark.matches import ARROW, MatchFile, file_writer, in_microseconds, schema_of
from bigjoin.spark.session import common_directory

BUDGET = 1 << 26
"""Proposals of each step in one round: what a Spark job moves, and prefixes that wait on disk at each step."""

FEW = 1 << 16
"""Proposals of the first round where a limit asks for few matches; the next ones have twice as many each."""

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

    def seeds(self, task: int) -> WorkerSeeds:
        """Return the seeds of the workers that a task hosts."""
        return WorkerSeeds(self.bound.seed, self.workers, self.tasks, task)


_bound: dict[str, BoundPlan] = {}

RunRound = Callable[[SparkSession, Job, Round, int], list[dict[str, Any]]]


@dataclass
class Stats:
    """What a run did, added up from the receipts of its tasks."""

    prefixes: list[int]
    candidates: list[int]
    matches: int = 0
    rounds: int = 0
    exchanges: int = 0
    bytes: int = 0
    tuples: int = 0
    most_load: int = 0
    """Tuples that a worker received in a round, at most."""
    peak_memory: int = 0
    compiled: int = 0
    seconds: dict[int, float] = field(default_factory=dict)
    """Seconds of each task, over all rounds."""
    parts: list[tuple[Path, int]] = field(default_factory=list)
    """Files of matches, and their rows."""

    def has(self, limit: int | None) -> bool:
        """Tell whether as many matches are written as are wanted."""
        return limit is not None and sum(rows for _, rows in self.parts) >= limit

    def add(self, receipt: dict[str, Any], load: NDArray[np.int64]) -> None:
        """Add the receipt of a task; `load` is that of the round."""
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
            load[worker] += tuples
        self.most_load = max(self.most_load, int(load.max()))


def count(
    spark: SparkSession,
    job: Job,
    *,
    budget: int = BUDGET,
    progress: Callable[[float], None] | None = None,
    run_round: RunRound | None = None,
) -> tuple[int, dict[str, Any]]:
    """Return the number of matches, and what the run did."""
    stats, agenda = _run(spark, job, budget, progress, run_round or _round)
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
    parts = _run(spark, written, budget, progress, _round)[0].parts if job.limit != 0 else []
    return parts if job.limit is None else _first(job, parts, folder, suffix)


def _first(job: Job, parts: list[tuple[Path, int]], folder: Path, suffix: str) -> list[tuple[Path, int]]:
    """Write the first matches of some Arrow files to one file."""
    left = job.limit or 0
    target = folder / f"first-{uuid.uuid4().hex}{suffix}"
    with file_writer(target, schema(job), suffix) as writer:
        for batch in chain.from_iterable(_batches(str(file)) for file, _ in parts):
            writer.write_batch(batch.slice(0, left))
            left -= min(left, batch.num_rows)
            if not left:
                break
    rows = (job.limit or 0) - left
    return [(target, rows)] if rows else []


def find(spark: SparkSession, job: Job) -> DataFrame:
    """Return the matches as a DataFrame, which reads them from the files that they are written to now."""
    folder = common_directory(spark, job.index.path, "matches")
    try:
        files = [str(file) for file, _ in write(spark, job, folder, ARROW)]
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    columns, tasks = in_microseconds(schema(job)), max(1, min(job.tasks, len(files)))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in chain.from_iterable(map(_batches, files[number::tasks])):
                    yield rows.cast(columns, safe=False)

    return spark.range(0, tasks, 1, tasks).mapInArrow(read, from_arrow_schema(columns))


def _batches(file: str) -> Iterator[pa.RecordBatch]:
    """Give the batches of an Arrow file."""
    with pa.memory_map(file) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def schema(job: Job) -> pa.Schema:
    """Return the columns of the matches."""
    found = schema_of(job.bound.outputs, len(job.plan.attributes))
    return found if job.signed is None else with_change(found)


def _run(
    spark: SparkSession, job: Job, budget: int, progress: Callable[[float], None] | None, run_round: RunRound
) -> tuple[Stats, Agenda]:
    """Run rounds until nothing waits."""
    itinerary, steps, limited = Itinerary(job.bound), len(job.plan.steps), job.limit is not None
    agenda = Agenda(
        seeds_of_tasks(job.bound.seed, job.workers, job.tasks),
        steps,
        job.workers,
        job.batch_size,
        FEW if limited else budget,
        shares_last=itinerary.shares_last,
        deepest_first=limited,
    )
    stats = Stats([0] * (steps + 1), [0] * (steps + 1))
    job = replace(job, folder=str(common_directory(spark, job.index.path, "waiting")))
    try:
        with exchanging(spark) as session:
            while not stats.has(job.limit) and (now := agenda.next_round()) is not None:
                stages, load = itinerary.exchanges(now.step), np.zeros(job.workers, np.int64)
                told = run_round(session, job, now, stages)
                for receipt in told:
                    if "error" in receipt:
                        raise getattr(errors, receipt["error"])(receipt["message"])
                    stats.add(receipt, load)
                waiting = [Waiting(**file) for receipt in told for file in receipt["waiting"]]
                agenda.add(waiting, sum(sum(receipt["candidates"][1:]) for receipt in told))
                stats.rounds += 1
                stats.exchanges += stages
                for file in now.spent:
                    Path(file).unlink(missing_ok=True)
                agenda.budget = min(budget, 2 * agenda.budget)
                if progress is not None:
                    progress(agenda.share)
    finally:
        shutil.rmtree(job.folder, ignore_errors=True)
    return stats, agenda


def _round(spark: SparkSession, job: Job, now: Round, stages: int) -> list[dict[str, Any]]:
    """Run one Spark job, and return the receipts of its tasks."""
    allowance = now.allowance // (stages + 1)

    def begin(number: int) -> Iterator[pa.RecordBatch]:
        yield from Task(job, allowance, now.step).begin(number, now.work[number])

    def advance(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from Task(job, allowance, now.step).advance(batches)

    return receipts(exchange(spark, job.tasks, begin, [advance] * stages))


def receipts(rows: DataFrame) -> list[dict[str, Any]]:
    """Run a job, and return what its tasks say they have done."""
    return [json.loads(payload) for payload in rows.toArrow()["payload"].to_pylist()]


class Task:
    """A task of a round: it hosts some workers, does what visits ask for, and sends what has to travel further."""

    def __init__(self, job: Job, allowance: int, step: int | None) -> None:
        self.job, self.step = job, step
        self.started, self.compiled = time.perf_counter(), compilations()
        last = Itinerary(job.bound).furthest(step)
        options: dict[str, Any] = {"batch_size": job.batch_size, "allowance": allowance, "last": last}
        self.operators = Operators(job.bound, self, counting=job.output is None, **options)
        self.numbers = {visit: n for n, visit in enumerate(self.operators.itinerary.visits)}
        self.files: dict[tuple[int, int], WaitingFile] = {}
        self.found: MatchFile | None = None
        self.outbox: Outbox

    def begin(self, number: int, work: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
        """Read seeds, or propose for prefixes that wait."""
        self.outbox = Outbox(number, workers=self.job.workers, tasks=self.job.tasks)
        yield from self._sent(self._begun(work))

    def advance(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do what the blocks that arrive ask for, and pass the receipts of earlier tasks on."""
        inbox = Inbox(batches, self.job.batch_size, self.job.bound.seed.code_type)
        blocks = inbox.blocks()
        first = list(next(blocks, ()))
        if inbox.task is None:  # nothing was sent here
            return
        self.outbox = Outbox(inbox.task, workers=self.job.workers, tasks=self.job.tasks)
        if first:
            yield from self._sent(self._visited(chain([first], blocks)))
        for receipt in inbox.receipts:
            yield self.outbox.receipt(receipt)

    def _begun(self, work: tuple[Slice, ...]) -> Iterator[tuple[Visit, Block]]:
        size, bound, step = self.job.batch_size, self.job.bound, self.step
        for part in work:
            if step is None:
                for read, prefixes in self.job.seeds(self.outbox.task).read(part.first, part.last, size):
                    self.operators.tally.candidates[0] += read
                    yield from self.operators.seed(prefixes)
                    if self.is_full:
                        return
            else:
                for batch in read_waiting(part.file, part.first, part.last, size, bound.seed.code_type):
                    yield from self.operators.propose(step, part.stop, batch)
                    if self.is_full:
                        return

    def _visited(self, blocks: Iterator[Any]) -> Iterator[tuple[Visit, Block]]:
        visits = self.operators.itinerary.visits
        for number, block in blocks:
            if not self.is_full:
                yield from self.operators.visit(visits[number], block)

    def _sent(self, travelling: Iterator[tuple[Visit, Block]]) -> Iterator[pa.RecordBatch]:
        """Give the rows that carry blocks further, and at their end the receipt."""
        said: dict[str, Any]
        try:
            for visit, block in travelling:
                at = self.operators.itinerary.place(visit)
                assert at is not None, "a block that may be anywhere has no need to travel"
                yield self.outbox.send(self.numbers[visit], block, at)
            self._close()
            said = self._receipt()
        except errors.BigjoinError as error:
            said = {"error": type(error).__name__, "message": str(error)}
        except OSError as error:
            if error.errno not in _LASTING:
                raise
            hint = "set BIGJOIN_SCRATCH to a folder that every executor sees, with room for what waits"
            said = {"error": "OutputError", "message": f"{errors.reason(error)} (prefixes wait in {self.job.folder}; {hint})"}
        finally:
            with suppress(OSError):  # what went wrong is told by now
                self._close()
        yield self.outbox.receipt(said)

    def _close(self) -> None:
        for file in self.files.values():
            file.close()
        if self.found is not None:
            self.found.close()

    def _receipt(self) -> dict[str, Any]:
        tally, outbox = self.operators.tally, self.outbox
        busy = np.flatnonzero(outbox.load)
        return {
            "task": outbox.task,
            "prefixes": tally.prefixes,
            "candidates": tally.candidates,
            "matches": tally.matches,
            "parts": [(str(self.found.path), self.found.rows)] if self.found is not None else [],
            "bytes": outbox.bytes,
            "tuples": outbox.tuples,
            "load": list(zip(busy.tolist(), outbox.load[busy].tolist(), strict=True)),
            "waiting": [
                {
                    "file": str(file.path),
                    "step": step,
                    "stop": stop,
                    "task": outbox.task,
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

    def wait(self, step: int, stop: int, counts: Counts, keys: Codes | None) -> None:
        """Write prefixes to the file of those that wait at a stop."""
        if (step, stop) not in self.files:
            self.files[step, stop] = WaitingFile(Path(self.job.folder) / f"{uuid.uuid4().hex}.waiting")
        self.files[step, stop].put(counts, keys)

    def match(self, matches: Codes) -> None:
        """Write matches to this task's file, as ids in the order of the head."""
        if self.is_full:
            return
        if self.found is None:
            assert self.job.output is not None
            folder, suffix = self.job.output
            path = Path(folder) / f"part-{self.outbox.task:05d}-{uuid.uuid4().hex}{suffix}"
            self.found = MatchFile(path, schema(self.job), suffix)
        outputs = self.job.bound.outputs
        if self.job.signed is None:
            self.found.put([output.decode(matches) for output in outputs])
        else:
            for columns in self.job.signed.columns(outputs, matches):
                self.found.put(columns)

    @property
    def is_full(self) -> bool:
        """Whether this task alone has found as many matches as are wanted."""
        return self.job.limit is not None and self.found is not None and self.found.rows >= self.job.limit


def _report(job: Job, stats: Stats, agenda: Agenda) -> dict[str, Any]:
    """Return the stats of a run: the paper's rounds, load, communication and memory."""
    attributes = [",".join(job.plan.seed.attributes), *(step.attribute for step in job.plan.steps)]
    seconds = list(stats.seconds.values()) or [0.0]
    bound = job.bound
    used = [bound.seed.extender, *(check for check, _ in bound.seed.checks)]
    for step in bound.steps:
        used += [*step.extenders, *step.excluders, *(check for check, _ in step.checks)]
    owned = sum(tuples_of_workers(trie, job.workers) for trie in {id(e.trie): e.trie for e in used}.values())
    return {
        "rounds": stats.rounds,
        "exchanges": stats.exchanges,
        "bytes": stats.bytes,
        "tuples": stats.tuples,
        "load": {"max": stats.most_load, "mean": stats.tuples / job.workers / max(1, stats.rounds)},
        "steps": [
            {"attribute": attribute, "prefixes": prefixes, "candidates": candidates}
            for attribute, prefixes, candidates in zip(attributes, stats.prefixes, stats.candidates, strict=True)
        ],
        "index_tuples": {"max": int(np.max(owned)), "mean": float(np.mean(owned))},
        "waiting": {"prefixes": agenda.peak_prefixes, "bytes": agenda.peak_bytes},
        "tasks": {"count": job.tasks, "seconds": {"max": max(seconds), "mean": sum(seconds) / len(seconds)}},
        "busy": sum(seconds) / len(seconds) / max(*seconds, 1e-9),
        "peak_memory": stats.peak_memory,
        "kernels_compiled": stats.compiled,
    }
