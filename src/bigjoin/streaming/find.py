"""Find what an epoch changes in a query's result, by executing its delta queries over both phases of the epoch.

Where every task has the whole index, this process executes small epochs itself and leaves large ones to Spark's tasks; under a
strategy with exchanges, delta queries are executed in rounds like any plan.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bigjoin.compiled.loops_or_batches import CountProgram, ListProgram, as_loops
from bigjoin.compiled.work_limit import check_work
from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.phase import Phase
from bigjoin.index.stage_runner import StageRunner, in_threads, in_turn
from bigjoin.joins.bind import result_columns
from bigjoin.joins.changes import CHANGE_COLUMN, Signed, with_change
from bigjoin.joins.generic_join import TooManyPrefixesError
from bigjoin.query.delta import DeltaPlan, DeltaQuery
from bigjoin.query.nest import CountPlan, nest_of
from bigjoin.spark.job import Job, worker_count
from bigjoin.spark.matches import MatchFile, schema_of
from bigjoin.spark.rounds import InRounds
from bigjoin.spark.session import parallelism
from bigjoin.spark.shared import RANGES_PER_TASK
from bigjoin.spark.strategy import Ran, strategy_named
from bigjoin.spark.tasks import run_tasks

MAX_REACH_ON_BATCHES = 1 << 16
"""The reach of a delta (`Versions.reach_of_delta`) up to which one thread without compiled loops is fast enough."""

MAX_REACH_HERE = 1 << 28
"""The reach of a delta up to which this process is faster than a Spark job."""

MAX_PREFIXES_ON_BATCHES = 1 << 20
"""How many prefixes are counted on batches before compiled loops, which can multiply independent counts, start over."""

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


class Form(Enum):
    """What a delta query is executed as."""

    BATCHES = "batches"
    LOOPS = "loops"
    """The compiled loops that find its matches."""
    NESTS = "nests"
    """The compiled nests that count its matches without visiting each."""


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
    figures: list[Ran] = field(default_factory=list)
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
    """Where signed matches are written; if None, they are counted."""
    form: Form
    shares: int

    @property
    def parts(self) -> int:
        """How many ranges the seeds are cut into: one thread on batches takes all of them together."""
        return 1 if self.form is Form.BATCHES else self.shares * RANGES_PER_TASK

    def __call__(self, item: tuple[Signed, int]) -> DeltaReceipt:
        signed, share = item
        return self._count(signed, share) if self.folder is None else self._list(signed, share)

    def change(self, signed: Signed, found: int) -> Fraction:
        """Return the change that a delta query's matches stand for; only the sum over all delta queries is a whole number."""
        if self.folder is not None:
            return Fraction(signed.sign * found)
        return Fraction(signed.sign * signed.each * found, _loops_of(self.form, signed.dq).divisor)

    def _count(self, signed: Signed, share: int) -> DeltaReceipt:
        total = 0
        phase = self.phases[signed.insert]
        for times, counting in _count_program(self.form, signed.dq, phase).bind(phase):
            total += times * counting.count(counting.ranges(self.parts)[share :: self.shares])
        return DeltaReceipt(str(total))

    def _list(self, signed: Signed, share: int) -> DeltaReceipt:
        phase, query = self.phases[signed.insert], signed.dq.plan.query
        listing = _list_program(self.form, signed.dq, phase).bind(phase)
        columns = result_columns(query, tuple(listing.attributes), phase)
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


def _count_program(form: Form, dq: DeltaQuery, phase: Phase) -> CountProgram:
    """Return what counts a delta query's matches."""
    if form is Form.BATCHES:
        return CountProgram(dq.plan.query, steps=dq.plan, max_prefixes=MAX_PREFIXES_ON_BATCHES)
    return CountProgram.choose(_loops_of(form, dq), lambda: dq.plan, phase)


def _list_program(form: Form, dq: DeltaQuery, phase: Phase) -> ListProgram:
    """Return what finds a delta query's matches."""
    if form is Form.BATCHES:
        return ListProgram(dq.plan.query, nest_of(dq.plan), steps=dq.plan)
    return ListProgram.of(dq.plan, phase)


def _loops_of(form: Form, dq: DeltaQuery) -> CountPlan:
    """Return the loops that a delta query is compiled to."""
    return dq.nests if form is Form.NESTS and dq.nests is not None else as_loops(dq.plan)


def find_changes(
    plans: Sequence[DeltaPlan], phases: Phases, schema: pa.Schema, folder: Path | None, options: FindOptions
) -> FoundChanges:
    """Find what an epoch changes in the result of a query, which is the sum of the queries that have plans.

    Signed matches are written to the folder, if there is one, with the columns of the schema; otherwise they are counted.
    """
    found = FoundChanges()
    for plan in plans:
        strategy = strategy_named(options.strategy)
        if issubclass(strategy, InRounds):
            _find_in_rounds(strategy(options.spark()), plan, phases, folder, options, found)
            continue
        execution = options.execution or _execution(plan, phases)
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


def _form(execution: Execution, work: Sequence[Signed], phases: Phases, *, counts: bool) -> Form:
    """Choose what delta queries are executed as. Nests are used for all or for none: their sum is divided as a whole."""
    if execution is Execution.BATCHED:
        return Form.BATCHES
    distinct = {id(signed.dq): signed for signed in work}.values()
    is_nested = counts and all(_has_nests(signed.dq, phases[signed.insert]) for signed in distinct)
    return Form.NESTS if is_nested else Form.LOOPS


def _has_nests(dq: DeltaQuery, phase: Phase) -> bool:
    """Tell whether a delta query has nests that can be compiled."""
    return dq.nests is not None and CountProgram.choose(dq.nests, lambda: dq.plan, phase).steps is None


def _find_by_sharing(
    execution: Execution, plan: DeltaPlan, phases: Phases, folder: Path | None, options: FindOptions, found: FoundChanges
) -> None:
    """Execute delta queries where every task has the whole index."""
    work = _work(plan, phases)
    run: StageRunner = in_turn
    shares = 1
    if execution is Execution.COMPILED:
        run, shares = in_threads, 2
    elif execution is Execution.TASKS:
        spark = options.spark()
        run, shares = partial(run_tasks, spark), options.workers or parallelism(spark)
    form = _form(execution, work, phases, counts=folder is None)
    if folder is None and form is not Form.BATCHES:
        check_work(plan.query, [(_loops_of(form, signed.dq), phases[signed.insert]) for signed in work])
    stage = FindChanges(phases, None if folder is None else str(folder), form, shares)
    items = [(signed, share) for signed in work for share in range(shares)]
    net = [Fraction(), Fraction()]
    for (signed, _), receipt in zip(items, run(stage, items), strict=True):
        net[signed.insert] += stage.change(signed, int(receipt.matches))
        found.files += [Path(receipt.file)] if receipt.file is not None else []
    for change in net:  # a phase either creates or destroys, unless there are negated atoms, which consolidates
        assert change.denominator == 1, "a sum of counts is not divisible by the symmetry it was counted with"
        found.add(int(change))


def _find_in_rounds(
    strategy: InRounds, plan: DeltaPlan, phases: Phases, folder: Path | None, options: FindOptions, found: FoundChanges
) -> None:
    """Execute delta queries under a strategy that exchanges prefixes."""
    cores = parallelism(strategy.spark)
    workers = worker_count(phases[0].index, options.workers, cores)
    batch_size = options.batch_size or strategy.batch_size(workers)
    for signed in _work(plan, phases):
        job = Job(signed.dq.plan, phases[signed.insert], workers, min(cores, workers), batch_size)
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
    columns = [name for name in schema.names if name != CHANGE_COLUMN]
    tables = [schema.empty_table(), *(pq.read_table(file, partitioning=None) for file in found.files)]
    signed = pa.concat_tables(tables, promote_options="permissive")  # columns that a part of the query lacks are NULL
    keyed = signed.cast(schema).group_by(columns).aggregate([(CHANGE_COLUMN, "sum")])
    changes = keyed[f"{CHANGE_COLUMN}_sum"].to_numpy()
    rows = np.repeat(np.arange(len(changes)), np.abs(changes))
    signs = pa.array(np.sign(changes[rows]).astype(np.int8))
    net = keyed.select(columns).take(pa.array(rows)).add_column(0, CHANGE_COLUMN, signs).cast(schema)
    for file in found.files:
        file.unlink()
    found.created, found.destroyed = int(changes[changes > 0].sum()), int(-changes[changes < 0].sum())
    found.files = [_new_part(folder)] if len(net) else []
    for file in found.files:
        pq.write_table(net, file)


def _new_part(folder: Path) -> Path:
    return folder / f"part-{uuid.uuid4().hex}.parquet"
