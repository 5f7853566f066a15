"""Find what an epoch changes in a query's result, by executing its delta queries over both phases of the epoch.

Where every task has the whole index, this process executes small epochs itself and leaves large ones to Spark's tasks; under a
strategy with exchanges, delta queries are executed in rounds like any plan.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bigjoin.compiled.loops_or_batches import CountProgram, ListProgram, as_loops
from bigjoin.compiled.work_limit import check_work
from bigjoin.defaults import BATCH_SIZE, LOCAL, STRATEGIES
from bigjoin.index.phase import Phase
from bigjoin.index.stage_runner import StageRunner, cores, in_threads, in_turn
from bigjoin.joins.bind import result_columns
from bigjoin.joins.changes import CHANGE_COLUMN, Signed, with_change
from bigjoin.joins.generic_join import TooManyPrefixesError
from bigjoin.local.count_job import RANGES_PER_TASK
from bigjoin.local.matches import MatchFile, schema_of
from bigjoin.local.strategy import Outcome, strategy_named
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.nest import CountPlan, nest_of
from bigjoin.query.plan import Plan
from bigjoin.spark.session import parallelism
from bigjoin.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.spark.rounds import InRounds

MAX_REACH_ON_BATCHES = 1 << 16
"""The reach of a delta (`Versions.reach_of_delta`) up to which one thread without compiled loops is fast enough."""

MAX_REACH_HERE = 1 << 28
"""The reach of a delta up to which this process is faster than a Spark job."""

MAX_PREFIXES_ON_BATCHES = 1 << 20
"""How many prefixes are counted on batches before compiled loops, which can multiply independent counts, start over."""

DELTA_THREADS = 2
"""Threads that execute delta queries under `shared`, beside whatever else Spark's driver does."""

Phases: TypeAlias = tuple[Phase, Phase]
"""The deletions of an epoch, and its insertions: indexed by whether a phase inserts."""


class Execution(Enum):
    """How delta queries are executed where every task has the whole index."""

    BATCHED = "batched"
    """In this thread, on batches: nothing has to be compiled."""
    COMPILED = "compiled"
    """In threads of this process, as compiled loops."""
    TASKS = "tasks"
    """In Spark's tasks, as compiled loops."""


@dataclass(frozen=True)
class FindOptions:
    """How the delta queries of an epoch are executed."""

    spark: Callable[[], SparkSession]
    strategy: str = "shared"
    workers: int | None = None
    batch_size: int | None = None
    execution: Execution | None = None
    """Under `shared`; None lets the size of the delta decide."""


@dataclass
class FoundChanges:
    """What an epoch changes in one query's result."""

    created: int = 0
    destroyed: int = 0
    files: list[Path] = field(default_factory=list)
    """Of signed matches."""
    figures: list[Outcome] = field(default_factory=list)
    """Of each count in rounds."""

    def add(self, change: int) -> None:
        """Count created matches, or destroyed ones if the change is below zero."""
        self.created += max(0, change)
        self.destroyed += max(0, -change)


@dataclass(frozen=True)
class DeltaReceipt:
    """What a share of a delta query's seeds came to."""

    matches: str
    """As text, because a count may exceed 64 bits."""
    file: str | None = None
    """Where they are, if they were listed."""


@dataclass(frozen=True)
class FindChanges:
    """Stage: execute one delta query over the delta of one phase, or over a share of its seeds."""

    phases: Phases
    folder: str | None
    """Where signed matches are written, if they are listed."""
    shares: int
    parts: int
    """How many ranges the seeds are cut into; each share takes every shares-th."""

    def __call__(self, item: tuple[Signed, CountProgram | ListProgram, int]) -> DeltaReceipt:
        signed, program, share = item
        if isinstance(program, ListProgram):
            return self._list(signed, program, share)
        found = program.bind(self.phases[signed.insert])
        total = sum(times * counting.count(counting.ranges(self.parts)[share :: self.shares]) for times, counting in found)
        return DeltaReceipt(str(total))

    def _list(self, signed: Signed, program: ListProgram, share: int) -> DeltaReceipt:
        phase = self.phases[signed.insert]
        listing = program.bind(phase)
        columns = result_columns(program.query, tuple(listing.attributes), phase)
        schema = with_change(schema_of(columns, len(listing.attributes)))
        file: MatchFile | None = None
        try:
            for rows in listing.rows(listing.ranges(self.parts)[share :: self.shares], BATCH_SIZE):
                for arrays in signed.columns(columns, rows.prefixes):
                    if len(arrays[0]):
                        file = file or MatchFile(_new_part(Path(self.folder or "")), schema, ".parquet")
                        file.put(arrays)
        finally:
            if file is not None:
                file.close()
        return DeltaReceipt("0") if file is None else DeltaReceipt(str(file.rows), str(file.path))


def find_changes(
    plans: Sequence[DeltaPlan], phases: Phases, schema: pa.Schema, folder: Path | None, options: FindOptions
) -> FoundChanges:
    """Find what an epoch changes in the result of a query, which is the sum of the queries that have plans.

    Signed matches are written to the folder, if there is one, with the columns of the schema; otherwise they are counted.
    """
    found = FoundChanges()
    for plan in plans:
        if STRATEGIES[options.strategy].in_rounds:
            strategy: Any = strategy_named(options.strategy)
            _find_in_rounds(strategy(options.spark()), plan, phases, folder, options, found)
            continue
        execution = options.execution or _execution(plan, phases)
        if options.strategy == LOCAL and execution is Execution.TASKS:
            execution = Execution.COMPILED
        try:
            _find_by_sharing(execution, plan, phases, folder, options, found)
        except TooManyPrefixesError:
            _find_by_sharing(Execution.COMPILED, plan, phases, folder, options, found)
    if len(plans) > 1 or plans[0].consolidates:
        if folder is not None:
            _consolidate(found, schema, folder)
        else:  # a count cannot tell which matches were both created and destroyed
            net = found.created - found.destroyed
            found.created, found.destroyed = max(0, net), max(0, -net)
    return found


def _work(plan: DeltaPlan, phases: Phases) -> list[Signed]:
    """Return the delta queries of each phase that have seeds."""
    return [
        Signed(plan, dq, phase.insert) for phase in phases for dq in plan.queries if len(phase.seeds(dq.plan.seed.extender))
    ]


def _execution(plan: DeltaPlan, phases: Phases) -> Execution:
    """Choose how to execute delta queries, by the reach of the delta."""
    versions = phases[0].versions
    atoms = (dq.atom for dq in plan.queries if dq.atom.view is None)
    relations = {atom.relation for atom in atoms if (atom.relation, 2) in versions.orders}
    reach = sum(versions.reach_of_delta(relation) for relation in relations)
    if reach <= MAX_REACH_ON_BATCHES:
        return Execution.BATCHED
    return Execution.COMPILED if reach <= MAX_REACH_HERE else Execution.TASKS


def _list_programs(execution: Execution, work: Sequence[Signed], phases: Phases) -> list[ListProgram]:
    """Return what finds the matches of delta queries."""
    if execution is Execution.BATCHED:
        return [ListProgram(one.dq.plan.query, nest_of(one.dq.plan), steps=one.dq.plan) for one in work]
    return [ListProgram.of(one.dq.plan, phases[one.insert]) for one in work]


def _count_programs(execution: Execution, work: Sequence[Signed], phases: Phases) -> list[CountProgram]:
    """Return what counts the matches of delta queries.

    Nests that count without visiting each match are used for all queries or for none: their sum is divided as a whole.
    """
    if execution is Execution.BATCHED:
        plans = [one.dq.plan for one in work]
        return [CountProgram(plan.query, steps=plan, max_prefixes=MAX_PREFIXES_ON_BATCHES) for plan in plans]

    def programs(counts: Sequence[CountPlan]) -> list[CountProgram]:
        pairs = zip(counts, work, strict=True)
        return [CountProgram.choose(count, partial(_steps, one), phases[one.insert]) for count, one in pairs]

    nests = [one.dq.nests for one in work if one.dq.nests is not None]
    nested = programs(nests) if len(nests) == len(work) else []
    if nested and all(program.steps is None for program in nested):
        return nested
    return programs([as_loops(one.dq.plan) for one in work])


def _change_of(signed: Signed, program: CountProgram | ListProgram, found: int) -> Fraction:
    """Return the change that a delta query's matches stand for; only the sum over all delta queries is a whole number."""
    if isinstance(program, ListProgram):
        return Fraction(signed.sign * found)
    return Fraction(signed.sign * signed.each * found, program.divisor)


def _steps(signed: Signed) -> Plan:
    return signed.dq.plan


def _find_by_sharing(
    execution: Execution, plan: DeltaPlan, phases: Phases, folder: Path | None, options: FindOptions, found: FoundChanges
) -> None:
    """Execute delta queries where every task has the whole index."""
    work = _work(plan, phases)
    run: StageRunner = in_turn
    shares = 1
    if execution is Execution.COMPILED:
        shares = options.workers or cores() if options.strategy == LOCAL else DELTA_THREADS
        run = partial(in_threads, threads=shares)
    elif execution is Execution.TASKS:
        spark = options.spark()
        run, shares = partial(run_tasks, spark), options.workers or parallelism(spark)
    programs: list[CountProgram | ListProgram]
    if folder is None:
        counted = _count_programs(execution, work, phases)
        programs = [*counted]
        if execution is not Execution.BATCHED:
            check_work(plan.query, [(p.plan, phases[one.insert]) for p, one in zip(counted, work, strict=True)])
    else:
        programs = [*_list_programs(execution, work, phases)]
    parts = 1 if execution is Execution.BATCHED else shares * RANGES_PER_TASK  # one thread takes all seeds together
    stage = FindChanges(phases, None if folder is None else str(folder), shares, parts)
    items = [(one, program, share) for one, program in zip(work, programs, strict=True) for share in range(shares)]
    net = [Fraction(), Fraction()]
    for (signed, program, _), receipt in zip(items, run(stage, items), strict=True):
        net[signed.insert] += _change_of(signed, program, int(receipt.matches))
        found.files += [Path(receipt.file)] if receipt.file is not None else []
    for change in net:  # a phase either creates or destroys, unless there are negated atoms, which consolidates
        assert change.denominator == 1, "a sum of counts is not divisible by the symmetry it was counted with"
        found.add(int(change))


def _find_in_rounds(
    strategy: InRounds, plan: DeltaPlan, phases: Phases, folder: Path | None, options: FindOptions, found: FoundChanges
) -> None:
    """Execute delta queries under a strategy that exchanges prefixes."""
    from bigjoin.spark.job import Job, worker_count

    tasks = parallelism(strategy.spark)
    workers = worker_count(phases[0].index, options.workers, tasks)
    batch_size = options.batch_size or strategy.batch_size(workers)
    for signed in _work(plan, phases):
        job = Job(signed.dq.plan, phases[signed.insert], workers, min(tasks, workers), batch_size)
        if folder is None:
            ran = strategy.run(job)
            found.add(ran.matches * signed.sign * signed.each)
            found.figures.append(ran)
        else:
            parts = strategy.write_job(replace(job, signed=signed), folder, ".parquet")
            found.add(signed.sign * sum(rows for _, rows in parts))
            found.files += [file for file, _ in parts]


def _consolidate(found: FoundChanges, schema: pa.Schema, folder: Path) -> None:
    """Replace the signed matches of an epoch by those that remain when created and destroyed ones cancel out."""
    if not found.files:
        return
    tables = [schema.empty_table(), *(pq.read_table(file, partitioning=None) for file in found.files)]
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
        pq.write_table(net, file)


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


def _new_part(folder: Path) -> Path:
    return folder / f"part-{uuid.uuid4().hex}.parquet"
