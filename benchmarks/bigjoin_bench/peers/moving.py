"""The exchanges of the partitioned strategy alone: the same rows travel through the same jobs, and nobody looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.dataflow.schedule import Round
from bigjoin.defaults import EXCHANGE_BATCH_SIZE, WORKERS_PER_CORE
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.spark.exchange import exchange, exchanging
from bigjoin.spark.job import Job
from bigjoin.spark.partitioned import Partitioned
from bigjoin.spark.rounds import Rounds
from bigjoin.storage.scratch import scratch_directory
from bigjoin_bench.peers.bigjoin import Bigjoin
from bigjoin_bench.question import Answer, Question

Rows = Iterator[pa.RecordBatch]


class Moving(Bigjoin):
    """Records what tasks send when a question is first asked, and from then on sends just that."""

    def __init__(self, *, threads: int) -> None:
        super().__init__(threads=threads)
        self.threads = threads
        self.recorded: dict[Question, tuple[Path, list[int], int]] = {}

    def run(self, question: Question) -> Answer:
        """Move the rows of a question."""
        if question not in self.recorded:
            self.recorded[question] = self._record(question)
        folder, stages, tasks = self.recorded[question]
        with exchanging(self.spark) as session:
            for number, each in enumerate(stages):
                begin, *then = [_replay(f"{folder}/{number}-{stage}") for stage in range(each + 1)]
                exchange(session, tasks, partial(begin, iter(())), then).toArrow()
        return Answer(None)

    def _record(self, question: Question) -> tuple[Path, list[int], int]:
        folder, stages = scratch_directory("recorded"), list[int]()

        class Recording(Partitioned):
            """Notes how many exchanges each round has, and has tasks keep what they send."""

            def _rows(self, session: SparkSession, rounds: Rounds[Any], now: Round, exchanges: int) -> DataFrame:
                number = len(stages)
                stages.append(exchanges)
                make = rounds.task(now)

                def begin(task: int) -> Rows:
                    yield from _kept(f"{folder}/{number}-0", make(0).begin(task))

                def advance(stage: int, rows: Rows) -> Rows:
                    yield from _kept(f"{folder}/{number}-{stage}", make(stage).advance(rows))

                then = [partial(advance, stage) for stage in range(1, exchanges + 1)]
                return exchange(session, rounds.job.tasks, begin, then)

        assert self.graph is not None
        index = self.graph.index
        chosen = plan(parse(question.query, **question.flags), index.statistics)  # type: ignore[arg-type]
        job = Job(chosen, index, WORKERS_PER_CORE * self.threads, self.threads, EXCHANGE_BATCH_SIZE)
        Recording(self.spark).run(job)
        return folder, stages, job.tasks


def _kept(path: str, rows: Rows) -> Rows:
    """Give the rows that a task sends, and keep them in a file with its number."""
    writer = None
    for batch in rows:
        if writer is None:
            writer = pa.ipc.new_file(f"{path}-{batch.column('source')[0].as_py()}", batch.schema)
        writer.write_batch(batch)
        yield batch
    if writer is not None:
        writer.close()


def _replay(path: str) -> Callable[..., Rows]:
    """Return a stage that receives rows, and sends those that the task with their number sent."""

    def stage(rows: Rows, task: int | None = None) -> Rows:
        for batch in rows:
            if batch.num_rows:
                task = batch.column("task")[0].as_py()
        file = Path(f"{path}-{task}")
        if file.exists():
            with pa.memory_map(str(file)) as source:
                reader = pa.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)

    return stage
