"""Find what an epoch changes in a query's result, by executing its delta queries over both phases of the epoch.

Where every task has the whole index, this process executes small epochs itself and leaves large ones to Spark's tasks; under a
strategy with exchanges, delta queries are executed in rounds like any plan.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.compiled.loops_or_batches import ListProgram
from bigjoin.defaults import BATCH_SIZE, LOCAL, STRATEGIES
from bigjoin.index.stage_runner import StageRunner, cores, in_threads, in_turn
from bigjoin.joins.bind import result_columns
from bigjoin.joins.changes import CHANGE_COLUMN, Signed, with_change
from bigjoin.joins.phase import Phase
from bigjoin.local.count_job import RANGES_PER_TASK
from bigjoin.local.matches import MatchFile, schema_of
from bigjoin.local.strategy import Outcome, strategy_named
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.nest import nest_of
from bigjoin.spark.session import parallelism
from bigjoin.spark.tasks import run_tasks
from bigjoin.storage import Place
from bigjoin.storage.arrays import read_parquet, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.spark.rounds import InRounds

MAX_REACH_ON_BATCHES = 1 << 16
"""The reach of a delta (`Versions.reach_of_delta`) up to which one thread without compiled loops is fast enough."""

MAX_REACH_HERE = 1 << 28
"""The reach of a delta up to which this process is faster than a Spark job."""

DELTA_THREADS = 2
"""Threads that execute delta queries under `shared`, beside whatever else Spark's driver does."""

Phases: TypeAlias = tuple[Phase, Phase]
"""The deletions of an epoch, and its insertions: indexed by whether a phase inserts."""


class Execution(Enum):
    """How delta queries are executed where every task has the whole index."""

    BATCHED = "batched"
    """In this thread, on batches: nothing has to be compiled."""
    COMPILED = "compiled"
    """In this process, as compiled loops; in threads if there is much to look at."""
    TASKS = "tasks"
    """In Spark's tasks, as compiled loops."""
    ALL_MATCHES = "all matches"
    """Not at all: all matches are counted again, in threads of this process. Only for counts."""


@dataclass(frozen=True)
class FindOptions:
    """How the delta queries of an epoch are executed."""

    spark: Callable[[], SparkSession]
    strategy: str = "shared"
    workers: int | None = None
    batch_size: int | None = None
    execution: Execution | None = None
    """Where every task has the whole index; None leaves it to the delta."""


@dataclass
class FoundChanges:
    """What an epoch changes in one query's result."""

    created: int = 0
    destroyed: int = 0
    files: list[Place] = field(default_factory=list)
    """Of signed matches."""
    figures: list[Outcome] = field(default_factory=list)
    """Of each count in rounds."""
    groups: int | None = None
    """How many groups, or distinct rows, are kept in memory, if the query has any."""

    def add(self, change: int) -> None:
        """Count created matches, or destroyed ones if the change is below zero."""
        self.created += max(0, change)
        self.destroyed += max(0, -change)


@dataclass(frozen=True)
class ListReceipt:
    """What a share of a delta query's seeds came to."""

    matches: int
    file: str | None = None
    """The name of the file that they are in, if there are any."""


@dataclass(frozen=True)
class ListShare:
    """Stage: list the matches of one delta query in one phase, over a share of its seeds."""

    phases: Phases
    folder: Place
    """Where signed matches are written."""
    shares: int
    parts: int
    """How many ranges the seeds are cut into; each share takes every shares-th."""

    def __call__(self, item: tuple[Signed, ListProgram, int]) -> ListReceipt:
        signed, program, share = item
        phase = self.phases[signed.insert]
        listing = program.bind(phase)
        columns = result_columns(program.query, tuple(listing.attributes), phase)
        schema = with_change(schema_of(columns, len(listing.attributes)))
        file: MatchFile | None = None
        try:
            for rows in listing.rows(listing.ranges(self.parts)[share :: self.shares], BATCH_SIZE):
                for arrays in signed.columns(columns, rows.prefixes):
                    if len(arrays[0]):
                        file = file or MatchFile(_new_part(self.folder), schema, ".parquet")
                        file.put(arrays)
        finally:
            if file is not None:
                file.close()
        return ListReceipt(0) if file is None else ListReceipt(file.rows, file.path.name)


def find_changes(
    plans: Sequence[DeltaPlan],
    phases: Phases,
    schema: pa.Schema | None,
    folder: Place | None,
    options: FindOptions,
    *,
    comes_back: bool = False,
) -> FoundChanges:
    """Find what an epoch changes in the result of a query, which is the sum of the queries that have plans.

    Signed matches are written to a folder, with the columns of a schema; without these, they are counted, in rounds. With
    `comes_back`, the epoch may create a match that has the same row as one that it destroys.
    """
    found = FoundChanges()
    for plan in plans:
        if STRATEGIES[options.strategy].in_rounds:
            strategy: Any = strategy_named(options.strategy)
            _find_in_rounds(strategy(options.spark()), plan, phases, folder, options, found)
        else:
            assert folder is not None
            _list_by_sharing(options.execution or execution_of(plan, phases), plan, phases, folder, options, found)
    if len(plans) == 1 and not comes_back:
        return found
    if folder is None or schema is None:
        return net_changes(found)
    _consolidate(found, schema, folder)  # one query may lose a row that another one gains, or that comes back
    return found


def net_changes(found: FoundChanges) -> FoundChanges:
    """Return the changes of a sum of queries: counts cannot tell which matches were both created and destroyed."""
    net = found.created - found.destroyed
    return replace(found, created=max(0, net), destroyed=max(0, -net))


def work_of(plan: DeltaPlan, phases: Phases) -> list[Signed]:
    """Return the delta queries of each phase that have seeds."""
    every = ((dq, phase, len(phase.seeds(dq.plan.seed.extender))) for phase in phases for dq in plan.queries)
    return [Signed(plan, dq, phase.insert, seeds) for dq, phase, seeds in every if seeds]


def reach_of(plan: DeltaPlan, phases: Phases) -> int:
    """Return the reach of an epoch's delta, as far as the delta queries of a plan start from it."""
    versions = phases[0].versions
    atoms = (dq.atom for dq in plan.queries if dq.atom.view is None)
    relations = {atom.relation for atom in atoms if (atom.relation, 2) in versions.orders}
    return sum(versions.reach_of_delta(relation) for relation in relations)


def execution_of(plan: DeltaPlan, phases: Phases) -> Execution:
    """Choose how to list the matches of delta queries, by the reach of the delta."""
    reach = reach_of(plan, phases)
    if reach <= MAX_REACH_ON_BATCHES:
        return Execution.BATCHED
    return Execution.COMPILED if reach <= MAX_REACH_HERE else Execution.TASKS


def _list_by_sharing(
    execution: Execution, plan: DeltaPlan, phases: Phases, folder: Place, options: FindOptions, found: FoundChanges
) -> None:
    """List the matches of delta queries where every task has the whole index."""
    work = work_of(plan, phases)
    run: StageRunner = in_turn
    shares = 1
    if execution is Execution.TASKS and options.strategy != LOCAL:
        spark = options.spark()
        run, shares = partial(run_tasks, spark), options.workers or parallelism(spark)
    elif execution is not Execution.BATCHED:
        shares = options.workers or cores() if options.strategy == LOCAL else DELTA_THREADS
        run = partial(in_threads, threads=shares)
    if execution is Execution.BATCHED:
        programs = [ListProgram(one.dq.plan.query, nest_of(one.dq.plan), steps=one.dq.plan) for one in work]
    else:
        programs = [ListProgram.of(one.dq.plan, phases[one.insert]) for one in work]
    parts = 1 if execution is Execution.BATCHED else shares * RANGES_PER_TASK  # one thread takes all seeds together
    stage = ListShare(phases, folder, shares, parts)
    items = [(one, program, share) for one, program in zip(work, programs, strict=True) for share in range(shares)]
    for (signed, _, _), receipt in zip(items, run(stage, items), strict=True):
        found.add(signed.sign * receipt.matches)
        found.files += [folder / receipt.file] if receipt.file is not None else []


def _find_in_rounds(
    strategy: InRounds, plan: DeltaPlan, phases: Phases, folder: Place | None, options: FindOptions, found: FoundChanges
) -> None:
    """Execute delta queries under a strategy that exchanges prefixes."""
    from bigjoin.spark.job import Job, worker_count

    tasks = parallelism(strategy.spark)
    workers = worker_count(phases[0].index, options.workers, tasks)
    batch_size = options.batch_size or strategy.batch_size(workers)
    for signed in work_of(plan, phases):
        job = Job(signed.dq.plan, phases[signed.insert], workers, min(tasks, workers), batch_size)
        if folder is None:
            ran = strategy.run(job)
            found.add(ran.matches * signed.sign * signed.each)
            found.figures.append(ran)
        else:
            parts = strategy.write_job(replace(job, signed=signed), folder, ".parquet")
            found.add(signed.sign * sum(rows for _, rows in parts))
            found.files += [file for file, _ in parts]


def _consolidate(found: FoundChanges, schema: pa.Schema, folder: Place) -> None:
    """Replace the signed matches of an epoch by those that remain when created and destroyed ones cancel out."""
    if not found.files:
        return
    tables = [schema.empty_table(), *map(read_parquet, found.files)]
    signed = pa.concat_tables(tables, promote_options="permissive")  # columns that a part of the query lacks are NULL
    signed = signed.cast(schema).combine_chunks()
    matches = signed.drop_columns(CHANGE_COLUMN)
    keys = {str(number): key for number, key in enumerate(_keys(matches))}
    equal = pa.table({**keys, CHANGE_COLUMN: signed[CHANGE_COLUMN], "row": np.arange(len(signed))})
    equal = equal.group_by(list(keys)).aggregate([(CHANGE_COLUMN, "sum"), ("row", "min")])
    changes, rows = equal[f"{CHANGE_COLUMN}_sum"].to_numpy(), equal["row_min"].to_numpy()
    signs = pa.array(np.repeat(np.sign(changes), np.abs(changes)).astype(np.int8))
    net = matches.take(pa.array(np.repeat(rows, np.abs(changes)))).add_column(0, CHANGE_COLUMN, signs).cast(schema)
    for file in found.files:
        file.unlink()
    found.created, found.destroyed = int(changes[changes > 0].sum()), int(-changes[changes < 0].sum())
    found.files = [_new_part(folder)] if len(net) else []
    for file in found.files:
        write_parquet(net, file)


def _keys(matches: pa.Table) -> Iterator[pa.ChunkedArray]:
    """Give columns to group equal matches by: Arrow groups by no list, so a list becomes its size and its elements."""
    for column in matches.columns:
        if not pa.types.is_list(column.type):
            yield column
            continue
        sizes = pc.list_value_length(column)
        yield sizes
        longest = max(1, pc.max(sizes).as_py() or 0)
        padded = pc.list_slice(column, 0, longest, return_fixed_size_list=True)
        yield from (pc.list_element(padded, place) for place in range(longest))


def _new_part(folder: Place) -> Place:
    return folder / f"part-{uuid.uuid4().hex}.parquet"
