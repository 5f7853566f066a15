"""The ways in which a case can be answered: each takes a question and one of its spellings, and gives rows.

TREATMENTS and EPOCH_TREATMENTS, at the end, name them all and say which questions each is for. This file and executions.py are
where cases touch the inside of the library.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa

from bigjoin.compiled import loops
from bigjoin.errors import BigjoinError
from bigjoin.graph import Graph
from bigjoin.index.directory import Index
from bigjoin.index.writer import verify
from bigjoin.indexing import build_index
from bigjoin.joins.bind import BoundPlan, bind
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.sampled_join import SampledJoin
from bigjoin.planner import count_plan, delta_plan, factorized_plan, meaning, plan
from bigjoin.query.nest import CountPlan
from bigjoin.query.query import Query
from bigjoin.relations import Relations
from bigjoin.spark.session import get_session
from bigjoin.streaming.epoch import Epoch
from bigjoin.streaming.find import Execution
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched, watchable
from bigjoin.streaming.window import Window
from tests import executions
from tests.case_file import Question, Source, Table
from tests.dataflow import Balanced, Simulated
from tests.executions import decoded, factorized, interpreted, listed, on_batches, total
from tests.oracle_input import Contents, answer, answer_in_sql, contents, history, parsed, ruled


@dataclass(eq=False)
class Prepared:
    """A question's query, bound to the index of its source; a query with optional atoms is the sum of several."""

    query: Query
    parts: list[BoundPlan]
    index: Index

    def gathered(self, find: Callable[[BoundPlan], list[tuple]]) -> list[tuple]:
        """The rows of all parts with the columns of the head, NULL where a part has no such column."""
        rows = []
        for part in self.parts:
            names = [output.name for output in part.columns]
            rows += [tuple(dict(zip(names, row, strict=True)).get(name) for name in self.query.columns) for row in find(part)]
        return list(dict.fromkeys(rows)) if self.query.deduplicate and self.query.projects else rows


@cache
def scratch() -> Path:
    """The folder of all indices, in memory if that is possible, where it costs nothing to make files durable."""
    memory = "/dev/shm"
    folder = Path(tempfile.mkdtemp(prefix="bigjoin-cases-", dir=memory if os.access(memory, os.W_OK) else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def index_of(source: Source) -> Index:
    """The index of a graph, which all questions about it share."""
    return index_again(source)


def index_again(source: Source) -> Index:
    """An index of a graph that nobody else reads, so that it may change."""
    return build_graph(source, {name: table.arrow for name, table in source.tables.items()}, stored=source.stored)


def build_graph(source: Source, tables: dict[str, pa.Table], stored: Mapping[str, str] | None = None) -> Index:
    return build_index(
        tables,
        Path(tempfile.mkdtemp(dir=scratch())) / "index",
        vertices=None if source.vertices is None else source.vertices.arrow,
        directed=source.directed,
        parallel="parallel" in source.options,
        labels=source.options.get("labels"),
        types=source.options.get("types"),
        materialized=stored,
    )


@cache
def relations_of(source: Source) -> Relations:
    return Relations({name: table.arrow for name, table in source.tables.items()}, drop_nulls="drop_nulls" in source.options)


@cache
def contents_of(source: Source) -> Contents:
    return contents(source)


@cache
def prepare(question: Question, spelling: str) -> Prepared:
    query, source = parsed(question, spelling), question.source
    index = index_of(source) if source.is_graph else relations_of(source)._index_for(query)
    parts = meaning(query, index.statistics)
    return Prepared(query, [bind(plan(part), index) for part in parts], index)


def by_naive(question: Question, spelling: str) -> list[tuple]:
    return answer(ruled(question, spelling), contents_of(question.source))


def by_duckdb(question: Question, spelling: str) -> list[tuple]:
    return answer_in_sql(ruled(question, spelling), contents_of(question.source))


def by_batches(question: Question, spelling: str, *, batch_size: int = 1 << 18, parts: int = 1) -> list[tuple]:
    return prepare(question, spelling).gathered(lambda part: on_batches(part, batch_size=batch_size, parts=parts))


def by_loops(question: Question, spelling: str) -> list[tuple]:
    asked = prepare(question, spelling)
    return asked.gathered(lambda part: listed(part.plan, asked.index, size=7, parts=2))


def by_machine_code(question: Question, spelling: str) -> list[tuple]:
    with mock.patch.object(executions, "interpreted", loops.load):
        return by_loops(question, spelling)


def by_nests(question: Question, spelling: str) -> int:
    asked = prepare(question, spelling)
    return sum(total(count_plan(part.plan.query, asked.index.statistics), asked.index, 2) for part in asked.parts)


def by_samples(question: Question, spelling: str) -> int:
    """The number of matches that a sample finds which leaves nothing out."""
    samples = [SampledJoin(part).draw(np.random.default_rng(0), 1 << 12) for part in prepare(question, spelling).parts]
    assert all(sample.weight == 1 for sample in samples)
    return sum(sample.found for sample in samples)


def by_factorized_loops(question: Question, spelling: str) -> list[tuple]:
    asked = prepare(question, spelling)
    return asked.gathered(lambda part: factorized(part.plan.query, asked.index, size=5, parts=2))


def on_a_cluster(question: Question, spelling: str, cluster: type, **options: Any) -> list[tuple]:
    """The rows of a strategy that works in rounds, and their count in a further run."""
    asked = prepare(question, spelling)
    tasks = min(3, options["workers"])

    def find(part: BoundPlan) -> list[tuple]:
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            counting = cluster(part.plan, asked.index, folder, tasks=tasks, **options).run()
            found = cluster(part.plan, asked.index, folder, tasks=tasks, counting=False, **options).run().rows()
        assert counting.count == len(found)
        return decoded(part.columns, np.array(found, np.uint32).reshape(-1, len(part.plan.attributes)).T)

    return asked.gathered(find)


def from_disk(question: Question, spelling: str) -> list[tuple]:
    """The rows from an index that is opened again, and verified."""
    asked = prepare(question, spelling)
    again = verified(asked.index.path, asked.index.manifest.identity)
    parts = [bind(part.plan, again) for part in asked.parts]
    return Prepared(asked.query, parts, again).gathered(lambda part: on_batches(part, batch_size=100, parts=2))


@cache
def verified(path: Path, identity: str) -> Index:
    """The index of a folder, which is opened once for each version: relations get further column orders as they are asked."""
    index = Index.open(path)
    assert verify(index) > 0
    return index


def as_epochs(question: Question, spelling: str) -> list[tuple]:
    """The rows that two epochs of insertions add up to, beginning with no edges."""
    return list(replayed(question.source)[question, spelling].elements())


@cache
def replayed(source: Source) -> dict[tuple[Question, str], Counter]:
    """What the insertion of a graph's edges comes to for all questions about it, which are watched together."""
    asked = [
        (question, spelling)
        for question in source.questions
        for spelling in question.spellings.values()
        if not (question.error or question.epochs) and TREATMENTS["epochs"].is_for(question, spelling)
    ]
    queries = {f"q{i}": parsed(*key) for i, key in enumerate(asked)}
    nothing = {name: replace_lines(table, []) for name, table in source.tables.items()}
    index = build_graph(source, {name: table.arrow for name, table in nothing.items()})
    empty = contents(replace(source, tables=nothing))
    found = {f"q{i}": Counter(answer(ruled(*key), empty)) for i, key in enumerate(asked)}
    before = {str(query): sum(found[name].values()) for name, query in queries.items()}
    watched = {name: Watched(query) for name, query in queries.items()}
    monitor = Monitor(index.path, watched, spark=None, initial=lambda _, query: before[str(query)])
    for turn in (0, 1):
        done = monitor.apply(pa.concat_tables(insertions(source, turn), promote_options="default"))
        for name, changes in done.queries.items():
            for change, *row in zip(*changes.table.drop_columns("epoch").to_pydict().values(), strict=True):
                found[name][tuple(row)] += change
            assert changes.count == sum(found[name].values())
    return dict(zip(asked, found.values(), strict=True))


def insertions(source: Source, turn: int) -> Iterator[pa.Table]:
    """The first half of each relation's edges as updates, or the second."""
    for name, table in source.tables.items():
        edges = table.arrow
        half = len(edges) // 2
        edges = edges.slice(half) if turn else edges.slice(0, half)
        columns = dict(zip(("src", "dst", *edges.column_names[2:]), edges.columns, strict=True))
        columns["op"] = pa.array(["+"] * len(edges), pa.string())
        if len(source.tables) > 1:
            columns["relation"] = pa.array([name] * len(edges), pa.string())
        yield pa.table(columns)


def replace_lines(table: Table, lines: list) -> Table:
    schema = table.schema
    return Table(table.name, dict(zip(schema.names, schema.types, strict=True)), lines)


def on_spark(question: Question, spelling: str, strategy: str) -> list[tuple]:
    """The rows of a DataFrame, and the count of a further job."""
    session, asked = get_session(), prepare(question, spelling)
    over = (
        Graph.open(asked.index.path, spark=session) if question.source.is_graph else relations_of(question.source).on(session)
    )
    options: dict[str, Any] = {"strategy": strategy, **question.options}
    number = over.count(spelling, **options)
    if not asked.query.head:
        return [()] * number
    rows = [tuple(row) for row in over.find(spelling, **options).collect()]
    assert number == len(rows)
    return rows


def in_this_process(question: Question, spelling: str) -> list[tuple]:
    """The rows of the strategy local, and their count: verbs as users call them, in three threads and without Spark."""
    asked = prepare(question, spelling)
    over = Graph.open(asked.index.path) if question.source.is_graph else relations_of(question.source)
    options: dict[str, Any] = {"strategy": "local", "workers": 3}
    with mock.patch.object(loops, "load", interpreted):
        number = over.count(asked.query, **options)
        assert over.exists(asked.query, **options) == (number > 0)
        if not asked.query.head:
            return [()] * number
        found = over.arrow(asked.query, **options).read_all()  # the query of a motif, whose rows are otherwise structs
    assert number == len(found)
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


# Epochs


class Applied(NamedTuple):
    """What an epoch came to."""

    changes: list[tuple] | None
    """The sign, + or -, and the row; None if they were only counted."""
    count: int
    fate: dict[str, int]


def epochs_by_naive(question: Question, spelling: str) -> Iterator[Applied]:
    query = parsed(question, spelling)
    states = history(question)
    known, _ = next(states)
    before = Counter(answer(query, known))
    for known, fate in states:
        after = Counter(answer(query, known))
        signed = [(sign, *row) for sign, rows in (("+", after - before), ("-", before - after)) for row in rows.elements()]
        yield Applied(signed, sum(after.values()), fate)
        before = after


def epochs_by_monitor(
    question: Question, spelling: str, *, execution: Execution, listing: bool = True, reopened: bool = False
) -> Iterator[Applied]:
    """Apply the epochs to an index of their own; `reopened`, each by a new monitor, after the index was verified."""
    index = index_again(question.source)
    watched = watchable({"q": spelling}, question.options, listing=listing)
    monitor = None
    for epoch in question.epochs:
        if monitor is None or reopened:
            verify(Index.open(index.path))
            window = None if question.window is None else Window(*question.window)
            options = {"order": question.order, "window": window, "execution": execution}
            monitor = Monitor(index.path, watched, spark=None, initial=count_by_batches, **options)
        with mock.patch.object(loops, "load", interpreted):
            done = monitor.apply(epoch.updates.arrow)
        yield applied(done, listing=listing)


def count_by_batches(index: Index, query: Query) -> int:
    """The number of matches with which a watch begins."""
    found = [bind(plan(part), index) for part in meaning(query, index.statistics)]
    return sum(GenericJoin(bound, counting=True).count([bound.seed.positions]) for bound in found)


def epochs_in_this_process(question: Question, spelling: str) -> Iterator[Applied]:
    graph = Graph.open(index_again(question.source).path)
    for epoch in question.epochs:
        with mock.patch.object(loops, "load", interpreted):
            done = graph.apply(epoch.updates.arrow, spelling, order=question.order, strategy="local", **question.options)
        yield applied(done, listing=True)


def epochs_on_spark(question: Question, spelling: str, strategy: str) -> Iterator[Applied]:
    graph = Graph.open(index_again(question.source).path, spark=get_session())
    for epoch in question.epochs:
        done = graph.apply(epoch.updates.arrow, spelling, order=question.order, strategy=strategy, **question.options)
        yield applied(done, listing=True)


def applied(done: Epoch, *, listing: bool) -> Applied:
    signed = None
    if listing:
        rows = zip(*done.table.drop_columns("epoch").to_pydict().values(), strict=True)
        signed = [("+" if change > 0 else "-", *row) for change, *row in rows]
        assert (done.created, done.destroyed) == tuple(sum(row[0] == sign for row in signed) for sign in "+-")
    return Applied(signed, done.count, {name: number for name, number in vars(done.fate).items() if number})


# Plans and errors


def planned(question: Question, spelling: str, kind: str) -> str:
    """The text of a plan: the rules of a `plan`, the loops of the others."""
    asked = prepare(question, spelling)
    query, known = asked.parts[0].plan.query, asked.index.statistics
    if kind == "plan":
        return str(asked.parts[0].plan)
    if kind == "count plan":
        return str(count_plan(query, known))
    return str(delta_plan(query, known)) if kind == "delta plan" else str(CountPlan(query, (factorized_plan(query, known),)))


def refuse(question: Question, spelling: str) -> None:
    """Ask what has to be refused before anything runs."""
    source = question.source
    over = Graph.open(index_of(source).path) if source.is_graph else relations_of(source)
    over.plan(spelling, **question.options)


# Which questions a treatment is for


def lists_all(question: Question, query: Query) -> bool:
    """Whether the head lists every attribute, so that lists of independent ones can be part of a row."""
    return bool(query.head) and not query.projects and not query.optional


def counts_matches(question: Question, query: Query) -> bool:
    """Whether every match counts: rows that are deduplicated have to be found."""
    return not (query.deduplicate and query.projects)


def is_sql(question: Question, query: Query) -> bool:
    """Whether SQL can say it: it has no classes of matches, and DuckDB reads no zones in comparisons."""
    instants = any(pa.timestamp("us", "UTC") in table.schema.types for table in question.source.tables.values())
    return not query.unique and not instants


def can_be_replayed(question: Question, query: Query) -> bool:
    """Whether the graph can come about by insertions, and the query be watched.

    Relations of types and stored results do not follow updates, and a loop that an undirected graph does not keep has the
    number of a row in a table, but none in an epoch.
    """
    source = question.source
    all_vertices = any(atom.relation == "vertex" and "vertex" not in source.tables for atom in query.atoms)
    is_alike = source.is_graph and "types" not in source.options and not source.stored and not all_vertices
    loops = any(row[0] == row[1] for name, table in source.tables.items() if source.has_ids(name) for row in table.rows)
    return is_alike and not (loops and not source.directed) and bool(query.head) and counts_matches(question, query)


def every(question: Question, query: Query) -> bool:
    return True


def has_no_window(question: Question, query: Query) -> bool:
    """Whether `apply` can be asked for it: windows belong to watches."""
    return question.window is None


@dataclass(frozen=True)
class Treatment:
    """A way to answer: `run` gives rows (or their number), or, for a question with epochs, what each epoch came to."""

    run: Callable[..., Any]
    applies: Callable[[Question, Query], bool] = every
    sampled: str | None = None
    """The word of a question's `also` that asks for it: it takes long, so few questions do."""

    def is_for(self, question: Question, spelling: str) -> bool:
        """Tell whether a question is answered this way; one that cannot be read is, and fails in its turn."""
        try:
            return self.sampled in (None, *question.also) and self.applies(question, parsed(question, spelling))
        except BigjoinError:
            return True


def _cluster(cluster: type, workers: int, **options: Any) -> Treatment:
    return Treatment(partial(on_a_cluster, cluster=cluster, workers=workers, **options))


STRATEGIES = ("shared", "partitioned", "heavy-light", "balanced")

TREATMENTS: dict[str, Treatment] = {
    "naive": Treatment(by_naive),
    "duckdb": Treatment(by_duckdb, is_sql),
    "batches": Treatment(by_batches),
    "batches-1": Treatment(partial(by_batches, batch_size=1)),
    "batches-7": Treatment(partial(by_batches, batch_size=7, parts=4)),
    "compiled": Treatment(by_loops),
    "nests": Treatment(by_nests, counts_matches),
    "samples": Treatment(by_samples, counts_matches),
    "factorized": Treatment(by_factorized_loops, lists_all),
    "partitioned-1": _cluster(Simulated, 1, batch_size=64, enough=32),
    "partitioned-7": _cluster(Simulated, 7, batch_size=3, enough=0),
    "partitioned-64": _cluster(Simulated, 64, batch_size=1 << 10, enough=2),
    "heavy-light-7": _cluster(Simulated, 7, batch_size=16, enough=0, spreading=2),
    "balanced-3": _cluster(Balanced, 3, batch_size=64),
    "balanced-7": _cluster(Balanced, 7, batch_size=4),
    "epochs": Treatment(as_epochs, can_be_replayed),
    "from-disk": Treatment(from_disk),
    "local": Treatment(in_this_process),
    "machine-code": Treatment(by_machine_code, sampled="machine-code"),
    **{f"spark-{name}": Treatment(partial(on_spark, strategy=name), sampled="spark") for name in STRATEGIES},
}
"""Of questions about a source as it is."""

EPOCH_TREATMENTS: dict[str, Treatment] = {
    "naive": Treatment(epochs_by_naive),
    "batches": Treatment(partial(epochs_by_monitor, execution=Execution.BATCHED)),
    "compiled": Treatment(partial(epochs_by_monitor, execution=Execution.COMPILED)),
    "nests": Treatment(partial(epochs_by_monitor, execution=Execution.COMPILED, listing=False)),
    "all-matches": Treatment(partial(epochs_by_monitor, execution=Execution.ALL_MATCHES, listing=False)),
    "from-disk": Treatment(partial(epochs_by_monitor, execution=Execution.BATCHED, reopened=True)),
    "local": Treatment(epochs_in_this_process, has_no_window),
    **{
        f"spark-{name}": Treatment(partial(epochs_on_spark, strategy=name), has_no_window, sampled="spark")
        for name in STRATEGIES
    },
}
"""Of questions with epochs."""
