"""Find what an epoch changes in a query's result: by sharing, here or in Spark's tasks, or in rounds."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.directory import Index
from bigjoin.index.run import Run, in_threads, in_turn
from bigjoin.index.versions import Phase, begun
from bigjoin.joins.batched import Batched
from bigjoin.joins.bind import outputs
from bigjoin.joins.changes import CHANGE, Signed, with_change
from bigjoin.joins.compiled import Counting, Listing
from bigjoin.joins.generic_join import TooManyPrefixesError
from bigjoin.query.delta import DeltaPlan, DeltaQuery
from bigjoin.query.nest import Nest
from bigjoin.query.query import Query
from bigjoin.spark import results
from bigjoin.spark.job import Job, worker_count
from bigjoin.spark.matches import MatchFile, schema_of
from bigjoin.spark.session import parallelism
from bigjoin.spark.shared import RANGES_PER_TASK
from bigjoin.spark.strategies import IN_ROUNDS, Strategy
from bigjoin.spark.tasks import run_tasks
from bigjoin.streaming.work import check_work, term_of

FEW = 1 << 16
"""Values in the shorter lists of a delta's pairs for which one thread and no compiled loops are enough."""

ALONE = 1 << 28
"""Values in the shorter lists of a delta's pairs up to which this process finds changes itself: a Spark job takes longer."""

MOST = 1 << 20
"""Prefixes that are counted on batches: beyond, few updates have come to much work, and loops side by side may be less."""


class Execution(Enum):
    """How the delta queries of an epoch are run where every task has the whole index."""

    BATCHED = "batched"
    """Here, one after another, on batches: nothing has to be compiled."""
    COMPILED = "compiled"
    """Here, in threads, as compiled loops."""
    TASKS = "tasks"
    """In Spark's tasks, as compiled loops."""


@dataclass
class Found:
    """What an epoch changes in one query's result."""

    created: int = 0
    destroyed: int = 0
    files: list[tuple[Path, int]] = field(default_factory=list)
    """Files of signed matches, and their rows."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """The prefixes and candidates of each step of each delta query."""
    runs: list[results.Ran] = field(default_factory=list)
    """Under a strategy that works in rounds, those that were counted."""

    def add(self, number: int) -> None:
        """Count matches that came (or, below zero, went)."""
        self.created += max(0, number)
        self.destroyed += max(0, -number)


@dataclass(frozen=True)
class FindChanges:
    """Stage: run one delta query over the deltas of one phase, or a share of them."""

    index: Index
    """With the epoch as its last run."""
    plan: DeltaPlan
    folder: str | None
    """Where signed matches are written; without one, they are counted."""
    tasks: int = 1
    compiled: bool = True
    """Whether as loops, which take a second to compile when they are new, or on batches."""
    nested: bool = False
    """Whether matches are counted by the nests of the delta queries, or by the loops that would find them."""

    def __call__(self, item: tuple[int, bool, int]) -> dict[str, Any]:
        number, insert, task = item
        signed = Signed(self.plan, self.plan.queries[number], insert)
        phase = Phase(begun(self.index), self.index, insert)
        return self._count(signed, phase, task) if self.folder is None else self._list(signed, phase, task)

    def change(self, number: int, insert: bool, found: int) -> Fraction:
        """Return by how much what was found for a delta query changes the result: with all others, that is a whole number."""
        signed = Signed(self.plan, self.plan.queries[number], insert)
        if self.folder is not None:
            return Fraction(signed.sign * found)
        divisor = signed.dq.nests.divisor if self.nested and signed.dq.nests is not None else 1
        return Fraction(signed.sign * signed.each * found, divisor)

    def has_nests(self, work: Sequence[tuple[int, bool]]) -> bool:
        """Tell whether all that is to be counted can be by nests: they are divided together, so all are, or none."""
        for number, insert in dict(work).items():
            nests = self.plan.queries[number].nests
            phase = Phase(begun(self.index), self.index, insert)
            if nests is None or any(Counting(term, nests.query, phase).generator.is_too_large for term in nests.terms):
                return False
        return True

    def nests(self, work: Sequence[tuple[int, bool]]) -> Iterator[tuple[Nest, Query, Phase]]:
        """Give the nests that are counted, if they are compiled, each with the half of the epoch that it is counted over."""
        for number, insert in work:
            dq, phase = self.plan.queries[number], Phase(begun(self.index), self.index, insert)
            if self.nested and dq.nests is not None:
                yield from ((term, dq.nests.query, phase) for term in dq.nests.terms)
            else:
                yield term_of(dq.plan), dq.plan.query, phase

    def _count(self, signed: Signed, phase: Phase, task: int) -> dict[str, Any]:
        total = 0
        steps: list[tuple[str, int, int]] = []
        for times, attributes, found in self._terms(signed.dq, phase):
            total += times * found.count(found.ranges(self.tasks * RANGES_PER_TASK)[task :: self.tasks])
            half = len(found.tally) // 2
            # On batches the seed counts once, however many attributes it binds.
            steps += zip(attributes[-half:], found.tally[:half].tolist(), found.tally[half:].tolist(), strict=True)
        return {"number": str(total), "files": [], "steps": steps}

    def _terms(self, dq: DeltaQuery, phase: Phase) -> list[tuple[int, Sequence[str], Counting | Batched]]:
        """Return what is added up, how often, and the attributes that each is a loop or a step of."""
        if self.nested and dq.nests is not None:
            terms = [(term, Counting(term, dq.nests.query, phase)) for term in dq.nests.terms]
            return [(term.times, [loop.attribute for loop in term.root.walk()], counting) for term, counting in terms]
        counting = Counting(term_of(dq.plan), dq.plan.query, phase) if self.compiled else None
        if counting is None or counting.generator.is_too_large:
            return [(1, dq.plan.attributes, Batched(dq.plan, phase, most=inf if self.compiled else MOST))]
        return [(1, dq.plan.attributes, counting)]

    def _list(self, signed: Signed, phase: Phase, task: int) -> dict[str, Any]:
        plan = signed.dq.plan
        listing = Listing(term_of(plan), plan.query, phase) if self.compiled else None
        found: Listing | Batched = Batched(plan, phase) if listing is None or listing.generator.is_too_large else listing
        columns = outputs(plan.query, tuple(found.attributes), phase)
        schema = with_change(schema_of(columns, len(found.attributes)))
        target: MatchFile | None = None
        try:
            for rows in found.rows(found.ranges(self.tasks * RANGES_PER_TASK)[task :: self.tasks], BATCH_SIZE):
                for arrays in signed.columns(columns, rows.prefixes):
                    if len(arrays[0]):
                        name = f"part-{uuid.uuid4().hex}.parquet"
                        target = target or MatchFile(Path(self.folder or "") / name, schema, ".parquet")
                        target.put(arrays)
        finally:
            if target is not None:
                target.close()
        written = 0 if target is None else target.rows
        files = [] if target is None else [[str(target.path), written]]
        return {"number": str(written), "files": files, "steps": []}


def find_changes(
    plans: Sequence[DeltaPlan],
    index: Index,
    schema: pa.Schema,
    folder: Path | None,
    *,
    strategy: str,
    spark: Callable[[], SparkSession],
    workers: int | None = None,
    batch_size: int | None = None,
    execution: Execution | None = None,
) -> Found:
    """Find what the last run of an index changes in the result of a query, which is the sum of those that have plans.

    Signed matches are written if there is a folder, with the columns of a schema. Where every task has the whole index, what
    there is to look at decides how delta queries are run, unless that is said.
    """
    found = Found()
    for plan in plans:
        if strategy in IN_ROUNDS:
            _by_exchange(plan, index, folder, spark(), IN_ROUNDS[strategy], workers, batch_size, found)
        else:
            _by_sharing(plan, index, folder, spark, workers, execution, found)
    if len(plans) > 1 or plans[0].consolidates:
        if folder is not None:
            _consolidate(found, schema, folder)
        else:  # of matches that were counted, nobody knows which were created and destroyed in one epoch
            net = found.created - found.destroyed
            found.created, found.destroyed = max(0, net), max(0, -net)
    return found


def _work(plan: DeltaPlan, index: Index) -> list[tuple[int, bool]]:
    """Return the delta queries that have anything to begin with, in each phase."""
    return [
        (number, phase.insert)
        for phase in (Phase(begun(index), index, insert) for insert in (False, True))
        for number, dq in enumerate(plan.queries)
        if len(phase.seeds(dq.plan.seed.extender))
    ]


def _by_sharing(
    plan: DeltaPlan,
    index: Index,
    folder: Path | None,
    spark: Callable[[], SparkSession],
    workers: int | None,
    execution: Execution | None,
    found: Found,
) -> None:
    """Run delta queries where every task has the whole index."""
    work = _work(plan, index)
    stage = FindChanges(index, plan, None if folder is None else str(folder))
    try:
        stage, items, done = _run(stage, work, execution or _execution(plan, index), spark, workers)
    except TooManyPrefixesError:
        stage, items, done = _run(stage, work, Execution.COMPILED, spark, workers)
    net = {False: Fraction(), True: Fraction()}
    tallies: dict[int, list[list[Any]]] = {}
    for (number, insert, _), result in zip(items, done, strict=True):
        net[insert] += stage.change(number, insert, int(result["number"]))
        found.files += [(Path(file), rows) for file, rows in result["files"]]
        tallies.setdefault(number, []).append(result["steps"])
    for change in net.values():  # a phase creates, or destroys; or it has negated atoms, and is put together later
        assert change.denominator == 1, "a sum of counts is not divisible by the symmetry it was counted with"
        found.add(int(change))
    for number, runs in sorted(tallies.items()):
        for same in zip(*runs, strict=True):
            prefixes, candidates = (sum(step[i] for step in same) for i in (1, 2))
            found.steps.append({"query": number, "attribute": same[0][0], "prefixes": prefixes, "candidates": candidates})


def _by_exchange(
    plan: DeltaPlan,
    index: Index,
    folder: Path | None,
    spark: SparkSession,
    strategy: Strategy,
    workers: int | None,
    batch_size: int | None,
    found: Found,
) -> None:
    """Run delta queries under a strategy that works in rounds."""
    cores = parallelism(spark)
    many = worker_count(index, workers, cores)
    for number, insert in _work(plan, index):
        signed, phase = Signed(plan, plan.queries[number], insert), Phase(begun(index), index, insert)
        job = Job(signed.dq.plan, phase, many, min(cores, many), batch_size or strategy.batch_size(many))
        if folder is None:
            ran = strategy.run(spark, job)
            found.add(ran.matches * signed.sign * signed.each)
            found.runs.append(ran)
        else:
            parts = results.write(spark, replace(job, signed=signed), strategy.run, folder, ".parquet")
            found.add(signed.sign * sum(rows for _, rows in parts))
            found.files += parts


def _execution(plan: DeltaPlan, index: Index) -> Execution:
    """Choose how to run delta queries, by what there is to look at."""
    versions = begun(index)
    atoms = (dq.atom for dq in plan.queries if dq.atom.view is None)
    relations = {atom.relation for atom in atoms if (atom.relation, 2) in versions.orders}
    reach = sum(versions.reach_of_delta(relation) for relation in relations)
    return Execution.BATCHED if reach <= FEW else Execution.COMPILED if reach <= ALONE else Execution.TASKS


def _run(
    stage: FindChanges,
    work: Sequence[tuple[int, bool]],
    execution: Execution,
    spark: Callable[[], SparkSession],
    workers: int | None,
) -> tuple[FindChanges, list[tuple[int, bool, int]], list[dict[str, Any]]]:
    """Run a stage by an execution; return it as it was run, what it was asked, and the answers."""
    run: Run = in_turn
    tasks = 1
    if execution is Execution.COMPILED:
        run, tasks = in_threads, 2
    elif execution is Execution.TASKS:
        session = spark()
        run, tasks = partial(run_tasks, session), workers or parallelism(session)
    compiled = execution is not Execution.BATCHED
    nested = compiled and stage.folder is None and stage.has_nests(work)
    stage = replace(stage, tasks=tasks, compiled=compiled, nested=nested)
    if compiled and stage.folder is None:
        check_work(stage.plan.query, stage.nests(work))
    items = [(number, insert, task) for number, insert in work for task in range(tasks)]
    return stage, items, run(stage, items)


def _consolidate(found: Found, schema: pa.Schema, folder: Path) -> None:
    """Put the signed matches of an epoch together: those that were created and destroyed within it cancel out."""
    if not found.files:
        return
    columns = [name for name in schema.names if name != CHANGE]
    tables = [pq.read_table(file, partitioning=None) for file, _ in found.files]
    keyed = pa.concat_tables(_with_all(table, schema) for table in tables).group_by(columns).aggregate([(CHANGE, "sum")])
    changes = keyed[f"{CHANGE}_sum"].to_numpy()
    rows = np.repeat(np.arange(len(changes)), np.abs(changes))
    signs = pa.array(np.sign(changes[rows]).astype(np.int8))
    whole = keyed.select(columns).take(pa.array(rows)).add_column(0, CHANGE, signs).cast(schema)
    for file, _ in found.files:
        file.unlink()
    found.created, found.destroyed = int(changes[changes > 0].sum()), int(-changes[changes < 0].sum())
    found.files = [(folder / f"part-{uuid.uuid4().hex}.parquet", len(whole))] if len(whole) else []
    for file, _ in found.files:
        pq.write_table(whole, file)


def _with_all(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return matches with all columns, NULL in those that their part of the query does not bind."""
    columns = {f.name: table[f.name] if f.name in table.column_names else pa.nulls(len(table), f.type) for f in schema}
    return pa.table(columns).cast(schema)
