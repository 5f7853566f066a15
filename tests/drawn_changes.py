"""Draw histories of a property graph, play them with everything that a watch can do, and compare each epoch with brute force.

A history is a number: the graph, its queries and stored results, the updates, what is wrong with some of them, and how they
are applied all follow from it.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import nan
from pathlib import Path
from random import Random
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.compiled import loops
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.index.directory import Index
from bigjoin.joins.bind import result_columns
from bigjoin.joins.changes import Signed, changed
from bigjoin.local.threads import count_here
from bigjoin.streaming import commit, compaction, find, monitor
from bigjoin.streaming.compaction import compact_in_place
from bigjoin.streaming.find import Execution
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.replay import Replay
from bigjoin.streaming.watched import watchable
from bigjoin.streaming.window import Window
from tests.executions import interpreted
from tests.oracles.property_graph import LABELS, OF_EDGES, OF_VERTICES, TYPES, Definition, PropertyGraph, plain
from tests.test_delta import balanced, by_loops, on_batches, spread

IDS = [list(range(1, 6)), list("abcde")]
LENGTH = 3
"""Of the window."""
ALIKE = 20
"""Histories that begin with the same graph."""


def const(value):
    return ("const", value)


def of(name, column):
    return ("property", name, column)


def edge(names, relation="edge", *, negated=False):
    return (relation, tuple(names), negated)


def known(values):
    return [value for value in values if value is not None]


def total(values):
    return sum(there) if (there := known(values)) else None


PATH = (edge("ab"), edge("bc"))
RING = (*PATH, edge("ca"))

STORED = {
    "tri": ("tri(a, b, c) := edge(a, b), edge(b, c), edge(c, a)", Definition("abc", RING)),
    "open": (
        "open(a, b, c) := pays(a, b), edge(b, c), not edge(a, c)",
        Definition("abc", (edge("ab", "pays"), edge("bc"), edge("ac", negated=True))),
    ),
    "older": (
        "older(a, b) := edge(a, b), b.age > a.age",
        Definition("ab", (edge("ab"),), ((of("b", "age"), ">", of("a", "age")),)),
    ),
    "ring": ("ring(a, b, c) := edge(a, b), edge(b, c), edge(c, a)", Definition("abc", RING, flags=("unique",))),
    "far": ("far(a, c) := edge(a, b), edge(b, c)", Definition("abc", PATH, shown=lambda m: (m.a.id, m.c.id), once=True)),
    "paid": (
        "paid(b) := edge(a, b, e), e.amount > 5, person(a)",
        Definition(
            "abe",
            (edge("abe"), edge("a", "person")),
            ((of("e", "amount"), ">", const(5)),),
            shown=lambda m: (m.b.id,),
            once=True,
        ),
    ),
    "apart": (
        "apart(a, c) := edge(a, b), edge(b, c), not pays(a, c), a.age > 0",
        Definition(
            "abc",
            (*PATH, edge("ac", "pays", negated=True)),
            ((of("a", "age"), ">", const(0)),),
            flags=("distinct",),
            shown=lambda m: (m.a.id, m.c.id),
            once=True,
        ),
    ),
}
"""What is stored: its query, and what that means. All are sets."""

QUERIES = {
    "labels": (
        "labels(a, b) := edge(a, b), person(a), not bank(b)",
        Definition("ab", (edge("ab"), edge("a", "person"), edge("b", "bank", negated=True))),
    ),
    "alone": ("alone(a) := person(a), a.age > 1", Definition("a", (edge("a", "person"),), ((of("a", "age"), ">", const(1)),))),
    "compared": (
        "compared(a, b, c) := edge(a, b), edge(b, c), a.age < c.age",
        Definition("abc", PATH, ((of("a", "age"), "<", of("c", "age")),)),
    ),
    "shown": (
        "shown(a, b, a.name) := edge(a, b), b.age >= 2",
        Definition("ab", (edge("ab"),), ((of("b", "age"), ">=", const(2)),), shown=lambda m: (m.a.id, m.b.id, m.a.name)),
    ),
    "amounts": (
        "amounts(a, b, e.amount) := edge(a, b, e), e.amount > 5, a.age > 1",
        Definition(
            "abe",
            (edge("abe"),),
            ((of("e", "amount"), ">", const(5)), (of("a", "age"), ">", const(1))),
            shown=lambda m: (m.a.id, m.b.id, m.e.amount),
        ),
    ),
    "typed": ("typed(a, b, c) := pays(a, b), owns(b, c)", Definition("abc", (edge("ab", "pays"), edge("bc", "owns")))),
    "rows": (
        "rows(a, b, e.pid) := pays(a, b, e), b.name = 'x'",
        Definition(
            "abe", (edge("abe", "pays"),), ((of("b", "name"), "=", const("x")),), shown=lambda m: (m.a.id, m.b.id, m.e.pid)
        ),
    ),
    "rates": (
        "rates(a, e.rate, e.at) := edge(a, b, e)",
        Definition("abe", (edge("abe"),), shown=lambda m: (m.a.id, m.e.rate, m.e.at)),
    ),
    "computed": (
        "computed(a, b) := edge(a, b), a.age + 1 > 3, bank(b)",
        Definition("ab", (edge("ab"), edge("b", "bank")), ((of("a", "age"), ">", const(2)),)),
    ),
    "ring3": (
        "ring3(a, b, c) := edge(a, b), edge(b, c), edge(c, a), a.age > 0, b.age > 0, c.age > 0",
        Definition("abc", RING, tuple((of(v, "age"), ">", const(0)) for v in "abc"), flags=("unique",)),
    ),
    "induced": ("induced(a, b, c) := edge(a, b), edge(b, c)", Definition("abc", PATH, flags=("induced",))),
    "later": (
        "later(a, b, c, e.pid, f.pid) := edge(a, b, e), edge(b, c, f), e.at < f.at",
        Definition(
            "abcef",
            (edge("abe"), edge("bcf")),
            ((of("e", "at"), "<", of("f", "at")),),
            shown=lambda m: (m.a.id, m.b.id, m.c.id, m.e.pid, m.f.pid),
        ),
    ),
    "lower": ("lower(a, b) := edge(a, b), a < b", Definition("ab", (edge("ab"),), (("a", "<", "b"),))),
    "of_tri": (
        "of_tri(a, b, c, d) := tri(a, b, c), edge(c, d), not edge(a, d)",
        Definition("abcd", (edge("abc", "tri"), edge("cd"), edge("ad", negated=True))),
    ),
    "of_older": ("of_older(a, b) := older(a, b), owns(b, a)", Definition("ab", (edge("ab", "older"), edge("ba", "owns")))),
    "of_far": ("of_far(a, c) := far(a, c), not edge(a, c)", Definition("ac", (edge("ac", "far"), edge("ac", negated=True)))),
    "of_paid": (
        "of_paid(a, b) := owns(a, b), paid(b), a.age > 1",
        Definition("ab", (edge("ab", "owns"), edge("b", "paid")), ((of("a", "age"), ">", const(1)),)),
    ),
    "fans": (
        "fans(b, count(e) as n) := edge(a, b, e) having n >= 2",
        Definition("abe", (edge("abe"),), shown=lambda m: (m.b.id,), group=lambda g: (len(g),), having=lambda g: len(g) >= 2),
    ),
    "totals": (
        "totals(b, sum(e.amount) as s, max(e.amount) as hi, count(distinct e.kind) as k) := edge(a, b, e)",
        Definition(
            "abe",
            (edge("abe"),),
            shown=lambda m: (m.b.id,),
            group=lambda g: (
                total(m.e.amount for m in g),
                max(known(m.e.amount for m in g), default=None),
                len({*known(m.e.kind for m in g)}),
            ),
        ),
    ),
    "kinds": (
        "kinds(e.kind, count(*) as n) := edge(a, b, e)",
        Definition("abe", (edge("abe"),), shown=lambda m: (m.e.kind,), group=lambda g: (len(g),)),
    ),
    "ages": (
        "ages(b.name, sum(a.age) as s, min(a.age) as lo) := pays(a, b)",
        Definition(
            "ab",
            (edge("ab", "pays"),),
            shown=lambda m: (m.b.name,),
            group=lambda g: (total(m.a.age for m in g), min(known(m.a.age for m in g), default=None)),
        ),
    ),
    "whole": (
        "whole(count(*) as n, sum(a.age) as s) := edge(a, b), person(a)",
        Definition("ab", (edge("ab"), edge("a", "person")), group=lambda g: (len(g), total(m.a.age for m in g))),
    ),
    "reached": (
        "reached(a, c) := edge(a, b), edge(b, c)",
        Definition("abc", PATH, shown=lambda m: (m.a.id, m.c.id), once=True),
    ),
    "names": (
        "names(a.name, b.age) := edge(a, b), not bank(a)",
        Definition("ab", (edge("ab"), edge("a", "bank", negated=True)), shown=lambda m: (m.a.name, m.b.age), once=True),
    ),
}
"""What is watched, and what it means."""


def flags_of(definition):
    return {**dict.fromkeys(definition.flags, True), **({"deduplicate": True} if definition.once else {})}


TYPES_OF = {"pid": pa.int64(), "amount": pa.int64(), "at": pa.int64(), "age": pa.int64(), "rate": pa.float64()}
"""Of the columns that are not text."""
VALUES = {
    "label": [*LABELS, "ghost", None],
    "age": [0, 1, 2, 3, None],
    "name": ["x", "y", None],
    "pid": [1, 2, 3, None],
    "amount": [1, 6, 9, None],
    "kind": [*TYPES, "lends", None],
    "rate": [0.5, nan, None],
}
SPARK_TYPES = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}
BAD = "what no row says"


@dataclass
class History:
    """A graph that changes as a number says, and the index that follows it."""

    seed: int
    folder: Path
    bases: Path
    """Where an index is kept that several histories begin with."""
    epochs: int = 4
    every_execution: bool = False
    """Whether delta queries run along every path of execution, on clusters in one process too."""
    spark: object = None
    strategy: str | None = None
    """One that needs Spark; otherwise there is none."""
    streams: bool = False
    """Whether epochs are batches of a stream of Spark."""
    random: Random = field(init=False)

    def __post_init__(self):
        random = Random(f"base {self.seed // ALIKE}")
        self.ids = random.choice(IDS)
        self.stored = random.sample(sorted(STORED), random.choice([0, 0, 1, 2, 3]))
        self.shards = random.choice([1, 3])
        self.graph = PropertyGraph(random.random() < 0.7)
        self.time, self.places, self.batches = 0, 0, 0
        self.random = random
        rows = [row for row in (self.row() for _ in range(self.random.choice([0, 4, 12]))) if row["op"] == "+"]
        self.graph.apply(rows, [*OF_VERTICES, *OF_EDGES], ordered=False)
        self.random = random = Random(self.seed)
        self.key = random.choice([None, "pid", "pid", "rate"])
        self.order = random.choice([None, "s"])
        self.graph.key, self.graph.window = self.key, LENGTH if random.random() < 0.4 else None
        self.keeps = random.random() < 0.4
        self.on_bad_row = random.choice([*([] if self.streams else ["fail"]), "skip", "quarantine", "quarantine"])
        self.has_output = self.streams or self.on_bad_row == "quarantine" or random.random() < 0.6
        self.results = {}
        self.reported = {}
        """By query: the signed rows of each epoch, as they should be."""
        self.known = {}
        """The graph after each epoch, if they are kept."""

    # what is drawn

    def row(self):
        random = self.random
        row = dict.fromkeys(("relation", "src", "dst", "id", "op", *OF_VERTICES, *OF_EDGES))
        row |= {name: random.choice(VALUES[name]) for name in VALUES}
        row["s"] = random.randrange(4)
        if random.random() < 0.35:
            row |= {"relation": "vertex", "id": random.choice(self.ids), "op": random.choice("-++="), **dict.fromkeys(OF_EDGES)}
            return row
        row |= {"relation": random.choice(["edge", "edge", "edge", *TYPES]), "op": random.choice("-+++=")}
        row |= {"src": random.choice(self.ids), "dst": random.choice(self.ids), **dict.fromkeys(OF_VERTICES)}
        row["at"] = random.choice([None, self.time, self.time + 1, self.time - random.choice([0, 5])])
        if row["op"] == "-":
            row |= {name: None for name in OF_EDGES if random.random() < 0.5}
        if row["relation"] in TYPES:
            row["kind"] = None
        return row

    def updates(self):
        """Rows of updates and the columns that their table has; what is wrong with a row stands beside it."""
        random = self.random
        self.time += random.choice([1, 1, 2])
        rows = [(self.row(), None) for _ in range(random.choice([0, 1, 2, 4, 8]))]
        columns = {"relation", "src", "dst", "id", "op", *OF_VERTICES, *OF_EDGES}
        if self.streams:  # its columns are always the same
            return self._with_faults(rows, columns), columns
        columns -= {name for name in (*OF_VERTICES, *OF_EDGES) if random.random() < 0.08}
        if self.key is not None:
            columns.add(self.key)
        rows = self._with_faults(rows, columns)
        kinds = {row["relation"] for row, _ in rows}
        if rows and kinds == {"vertex"} and random.random() < 0.5:
            columns -= {"relation", "src", "dst", *OF_EDGES}
        elif rows and kinds == {"edge"} and random.random() < 0.5:
            columns -= {"relation", "id", *OF_VERTICES}
        return rows, columns

    def _with_faults(self, rows, columns):
        """Rows, and now and then some with which something is wrong."""
        random = self.random
        if random.random() > 0.3:
            return rows
        faults = ["op", "relation", "id", *(["amount"] if "amount" in columns and not self.streams else [])]
        faults += ["order"] if self.order else []
        faults += ["types"] if "kind" in columns else []
        for _ in range(random.choice([1, 2])):
            row, fault = self.row(), random.choice(faults)
            about_vertex = row["relation"] == "vertex"
            if fault == "op":
                row["op"] = random.choice(["?", None])
            elif fault == "relation":
                row["relation"] = random.choice(["nope", None])
                row["src"], row["dst"] = self.ids[0], self.ids[1]
            elif fault == "id":
                row["id" if about_vertex else random.choice(["src", "dst"])] = None
            elif fault == "order":
                row["s"] = None
            elif fault == "types":
                row |= {"relation": "pays", "src": self.ids[0], "dst": self.ids[1], "kind": "owns"}
            else:
                row |= {"relation": "edge", "src": self.ids[0], "dst": self.ids[1], "op": "+", "amount": BAD}
            rows.insert(random.randrange(len(rows) + 1), (row, fault))
        return rows

    def table(self, rows, columns):
        """A table of updates; columns with numbers are text now and then."""
        names = [
            name
            for name in (*dict.fromkeys(("relation", "src", "dst", "id", "op", *OF_VERTICES, *OF_EDGES)),)
            if name in columns
        ]
        names += ["s"] if self.order else []
        found = {}
        for name in names:
            values = [row[name] for row in rows]
            if name in ("src", "dst", "id"):
                kind = pa.int64() if isinstance(self.ids[0], int) else pa.string()
            else:
                kind = pa.int64() if name == "s" else TYPES_OF.get(name, pa.string())
            as_text = (
                pa.types.is_integer(kind)
                and name != "s"
                and (BAD in values or (self.random.random() < 0.05 and not self.streams))
            )
            if as_text:
                values, kind = [None if value is None else str(value) for value in values], pa.string()
            found[name] = pa.array(values, kind)
        return pa.table(found)

    # how it is played

    def play(self):
        with ExitStack() as patches:
            self._patch(patches)
            self._begin()
            for _ in range(self.epochs):
                self._between()
                self._epoch()
            self._end()

    def _patch(self, patches):
        random = self.random
        patches.enter_context(mock.patch.object(compaction, "MIN_COMPACTED_TUPLES", random.choice([0, 5, 1 << 16])))
        patches.enter_context(mock.patch.object(compaction, "COMPACTION_RATIO", random.choice([2, 1 << 40])))
        patches.enter_context(mock.patch.object(commit, "MAX_LOG_RECORDS", random.choice([1, 3, 256])))
        patches.enter_context(mock.patch.object(find, "MAX_REACH_ON_BATCHES", random.choice([-1, 1 << 16, 1 << 16])))
        patches.enter_context(mock.patch.object(loops, "load", interpreted))
        patches.enter_context(mock.patch.object(os, "fsync", return_value=None))
        patches.enter_context(mock.patch.object(os, "fdatasync", return_value=None))
        patches.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", UserWarning)
        self.found = {}
        if self.every_execution:
            patches.enter_context(mock.patch.object(monitor, "find_changes", partial(_along_every_path, self.found)))

    def _begin(self):
        """Begin with a copy of an index that is made once for histories that begin alike."""
        base = self.bases / str(self.seed // ALIKE)
        if not base.exists():
            shutil.rmtree(self.bases, ignore_errors=True)
            self._build(base)
        self.path, self.output = self.folder / "index0", self.folder / "output0"
        shutil.copytree(base, self.path)
        self.graph.load()
        self._watch()

    def rebuild(self):
        """Build an index of the graph as it is, and watch that."""
        self.places += 1
        self.path, self.output = self.folder / f"index{self.places}", self.folder / f"output{self.places}"
        self._build(self.path)
        self.results, self.reported, self.known = {}, {}, {}
        self.graph.load()
        self._watch()

    def _build(self, path):
        """Build an index of the graph as it is.

        It has to know all labels and types, so there is one of each, which the first epoch takes away.
        """
        text = pa.int64() if isinstance(self.ids[0], int) else pa.string()
        none = (-1, -2) if text == pa.int64() else ("-1", "-2")
        rows = [(*e.ends, *(e.values[name] for name in OF_EDGES)) for e in self.graph.edges.values()]
        rows += [(*none, number, None, kind, None, None) for number, kind in zip((-1, -2), TYPES, strict=True)]
        kinds = [text, text, *(TYPES_OF.get(name, pa.string()) for name in OF_EDGES)]
        names = ("src", "dst", *OF_EDGES)
        edges = pa.table({n: pa.array([row[i] for row in rows], k) for i, (n, k) in enumerate(zip(names, kinds, strict=True))})
        vertices = [{"id": v, **row} for v, row in self.graph.vertices.items()]
        vertices += [{"id": v, "label": label, "age": None, "name": None} for v, label in zip(none, LABELS, strict=True)]
        schema = pa.schema([("id", text), ("label", pa.string()), ("age", pa.int64()), ("name", pa.string())])
        table = pa.Table.from_pylist(vertices, schema)
        bj.build_index(edges, path, vertices=table, types="kind", directed=self.graph.directed, shards=self.shards)
        graph = bj.Graph.open(path)
        gone = [{"relation": "edge", "src": none[0], "dst": none[1], "op": "-", "pid": p, "id": None} for p in (-1, -2)]
        gone += [{"relation": "vertex", "src": None, "dst": None, "op": "-", "pid": None, "id": v} for v in none]
        kinds = [
            ("relation", pa.string()),
            ("src", text),
            ("dst", text),
            ("op", pa.string()),
            ("pid", pa.int64()),
            ("id", text),
        ]
        graph.apply(pa.Table.from_pylist(gone, pa.schema(kinds)))
        for name in self.stored:
            said, definition = STORED[name]
            graph.materialize(name, said, **dict.fromkeys(definition.flags, True))
        graph.close()

    def _watch(self):
        """Begin to watch some queries, or go on with others."""
        random = self.random
        names = [name for name in QUERIES if not name.startswith("of_") or name[3:] in self.stored]
        chosen = random.sample(names, random.choice([1, 2, 3]))
        if self.every_execution:
            chosen = [name for name in chosen if QUERIES[name][1].group is None and not QUERIES[name][1].once] or ["compared"]
        self.listing = self.has_output or random.random() < 0.5
        if self.streams:
            self._begin_stream(names)
            return
        watched = {}
        for name in chosen:
            watched |= watchable({name: QUERIES[name][0]}, flags_of(QUERIES[name][1]), listing=self.listing)
        executions = [None, None, Execution.BATCHED, Execution.COMPILED, *([] if self.listing else [Execution.ALL_MATCHES])]
        self.monitor = Monitor(
            self.path,
            watched,
            spark=lambda: self.spark,
            initial=count_here,
            output=self.output if self.has_output else None,
            order=self.order,
            key=self.key,
            window=None if self.graph.window is None else Window("at", self.graph.window),
            strategy=self.strategy or random.choice(["local", "shared"]),
            execution=random.choice(executions) if self.strategy is None else Execution.TASKS,
            workers=None if self.strategy is None else 5,
            sync=random.choice(["epoch", "epoch", "none"]),
            on_bad_row=self.on_bad_row,
            keep_epochs=100 if self.keeps else None,
        )
        self.watched = tuple(watched)
        self._remember()

    def _begin_stream(self, names):
        """Begin a stream that watches some queries, or go on with it; all of them have the same flags."""
        chosen = self.random.sample([name for name in names if not flags_of(QUERIES[name][1])], 2)
        self.arriving = self.folder / "arriving"
        self.arriving.mkdir(exist_ok=True)
        schema = self.table([], {"relation", "src", "dst", "id", "op", *OF_VERTICES, *OF_EDGES}).schema
        fields = ", ".join(f"{one.name} {SPARK_TYPES[one.type]}" for one in schema)
        frame = self.spark.readStream.schema(fields).option("maxFilesPerTrigger", 1).parquet(str(self.arriving))
        window = {} if self.graph.window is None else {"window": self.graph.window, "time": "at"}
        self.monitor, self.watched = None, tuple(chosen)
        self.stream = bj.Graph.open(self.path, spark=self.spark).watch(
            {name: QUERIES[name][0] for name in chosen},
            frame,
            output=self.output,
            order=self.order,
            key=self.key,
            on_bad_row=self.on_bad_row,
            keep_epochs=100 if self.keeps else None,
            strategy="shared",
            **window,
        )
        self._remember()

    def _remember(self):
        """Know what queries find now, by definition."""
        stored = self.contents()
        self.results = {name: QUERIES[name][1].result(self.graph, stored) for name in self.watched}

    def contents(self):
        """What is stored, by definition; `unique` results are left out, as any form of a match may be stored."""
        found = {name: STORED[name][1] for name in self.stored}
        return {name: set(one.result(self.graph)) for name, one in found.items() if "unique" not in one.flags}

    def _between(self):
        """What may happen between two epochs."""
        what = self.random.random()
        if self.streams:
            if what < 0.3:
                self.stream.stop()
                self._watch()
        elif what < 0.12:
            self.monitor.flush()
            self._watch()
        elif what < 0.2:
            self.monitor.flush()
            compact_in_place(Index.open(self.path))
        elif what < 0.26:
            self.monitor.flush()
            self._check_output()
            self.rebuild()
        elif what < 0.34:
            self.monitor.flush()
            self._check_static(bj.Graph.open(self.path))

    def _epoch(self):
        drawn, columns = self.updates()
        rows = [row for row, _ in drawn]
        table = self.table(rows, columns)
        about = self.seed, table.to_pylist()
        bad = {place for place, (_, fault) in enumerate(drawn) if fault is not None}
        good = [place for place in range(len(rows)) if place not in bad]
        what = [
            {**row, "relation": row["relation"] if "relation" in columns else "vertex" if "src" not in columns else "edge"}
            for row in rows
        ]
        doubtful = self.graph.apply([what[place] for place in good], sorted(columns), ordered=self.order is not None)
        bad |= {good[place] for place in doubtful}
        if (
            not self.streams and self.random.random() < 0.1 and not (bad and self.on_bad_row == "fail")
        ):  # nothing of it stays, in memory either
            with pytest.raises(BigjoinError, match="no more"):
                self.monitor.apply(table, function=_refuse)
        if bad and self.on_bad_row == "fail":
            first = min((place for place, (_, fault) in enumerate(drawn) if fault is not None), default=min(bad))
            with pytest.raises(SourceError, match=rf"row {first + 1}\b"):
                self.monitor.apply(table)
            table = table.take(pa.array([place for place in range(len(rows)) if place not in bad], pa.int64()))
            bad = set()
        before = self.results
        self.found.clear()
        done = self._stream(table) if self.streams else _done(self.monitor.apply(table), listing=self.listing)
        self._remember()
        if all(row["relation"] != "vertex" for row in what):
            for name in ("inserted", "deleted", "replaced"):
                assert done.fate[name] == self.graph.fate[name], (name, self.graph.fate, done.fate, about)
        assert (done.fate["bad"], done.fate["updates"]) == (len(bad), len(table)), about
        for name, changes in done.queries.items():
            definition = QUERIES[name][1]
            wanted = self._canonical(definition, definition.changes(before[name], self.results[name]))
            assert changes.count == definition.size(self.results[name]), (name, changes.count, self.results[name], about)
            assert changes.created - changes.destroyed == sum(wanted.values()), (name, about)
            if changes.rows is not None:
                found = self._canonical(definition, changes.rows)
                assert found == wanted, (name, found, wanted, about)
                self.reported.setdefault(name, {})[done.number] = wanted
            for other in self.found.get(name, ()):
                assert self._canonical(definition, other) == wanted, (name, about)
        if bad and self.on_bad_row == "quarantine":
            if self.monitor is not None:
                self.monitor.flush()
            rows = ds.dataset(self.output / "_quarantine" / f"epoch={done.number}", format="parquet").to_table().to_pylist()
            assert {row["number"] - 1 for row in rows} == bad, about
        if self.keeps:
            self.known[done.number] = self._all_results()

    def _stream(self, table):
        """Have the stream apply an epoch, and read what it has written."""
        self.batches += 1
        pq.write_table(table, self.arriving / f".{self.batches:04}")
        (self.arriving / f".{self.batches:04}").rename(self.arriving / f"{self.batches:04}.parquet")
        self.stream.processAllAvailable()
        line = json.loads((self.output / "_counts.jsonl").read_text().splitlines()[-1])
        queries = {}
        for name in self.watched:
            rows = ds.dataset(self.output / name / f"epoch={line['epoch']}", format="parquet").to_table()
            found = line["queries"][name]
            queries[name] = Changes(found["count"], found["created"], found["destroyed"], _signed(rows))
        return Done(line["epoch"], line, queries)

    def _all_results(self):
        stored = self.contents()
        names = [name for name in QUERIES if not name.startswith("of_") or name[3:] in self.stored]
        return {name: QUERIES[name][1].result(self.graph, stored) for name in names}

    def _canonical(self, definition, changes):
        """Changes of a `unique` query in one of the forms of each match."""
        if "unique" not in definition.flags:
            return {row: times for row, times in changes.items() if times}
        forms, found = definition.forms(self.graph), Counter()
        for row, times in changes.items():
            found[min(tuple(row[i] for i in form) for form in forms)] += times
        return {row: times for row, times in found.items() if times}

    def _check_static(self, graph, epoch=None):
        """What the index answers, and what it has stored, is what is there."""
        results = self._all_results() if epoch is None else self.known[epoch]
        for name in self.random.sample(sorted(results), 2):
            text, definition = QUERIES[name]
            if definition.group is None:
                assert graph.count(text, strategy="local", **flags_of(definition)) == definition.size(results[name]), (
                    self.seed,
                    name,
                )
        if epoch is not None:
            return
        relations = self.graph.relations()
        for name in ("edge", *TYPES):
            rows = graph.arrow(f"q(a, b) := {name}(a, b)", strategy="local").read_all().to_pylist()
            found = Counter(tuple(row.values()) for row in rows)
            assert found == Counter(t for t in relations[name] if len(t) == 2), (self.seed, name, found)
        for name in self.stored:
            definition = STORED[name][1]
            wanted = self._canonical(definition, definition.result(self.graph))
            head = STORED[name][0].partition("(")[2].partition(")")[0]
            rows = graph.arrow(f"q({head}) := {name}({head})", strategy="local").read_all().to_pylist()
            found = Counter(tuple(row.values()) for row in rows)
            assert self._canonical(definition, found) == wanted, (self.seed, name)

    def _check_output(self):
        """Each epoch is in the output, once."""
        if not self.has_output:
            return
        for name, epochs in self.reported.items():
            for number, wanted in epochs.items():
                rows = ds.dataset(self.output / name / f"epoch={number}", format="parquet").to_table()
                assert self._canonical(QUERIES[name][1], _signed(rows)) == wanted, (self.seed, name, number)

    def _end(self):
        if self.streams:
            self.stream.stop()
        else:
            self.monitor.flush()
        self._check_output()
        if self.keeps and len(self.known) > 1:
            self._replay()
        self._check_static(bj.Graph.open(self.path))

    def _replay(self):
        """Find again what the last epochs changed, for other queries."""
        first = self.random.choice(sorted(self.known)[1:])
        past = bj.Graph.open(self.path, epoch=first - 1)
        self._check_static(past, first - 1)
        past.close()
        names = self.random.sample(sorted(self.known[first]), 2)
        watched = {}
        for name in names:
            watched |= watchable({name: QUERIES[name][0]}, flags_of(QUERIES[name][1]), listing=True)
        for epoch in Replay(self.path, watched, self.folder / "replayed", first, count_here).run():
            before, after = self.known[epoch.number - 1], self.known[epoch.number]
            for name, changes in epoch.queries.items():
                definition = QUERIES[name][1]
                wanted = self._canonical(definition, definition.changes(before[name], after[name]))
                assert self._canonical(definition, _signed(changes.table)) == wanted, (self.seed, name, epoch.number)
                assert changes.count == definition.size(after[name]), (self.seed, name, epoch.number)


@dataclass(frozen=True)
class Changes:
    """What an epoch has reported of a query."""

    count: int
    created: int
    destroyed: int
    rows: Counter | None


@dataclass(frozen=True)
class Done:
    """What an epoch has reported."""

    number: int
    fate: dict
    queries: dict[str, Changes]


def _done(epoch, *, listing):
    queries = {}
    for name, one in epoch.queries.items():
        queries[name] = Changes(one.count, one.created, one.destroyed, _signed(one.table) if listing else None)
    return Done(epoch.number, vars(epoch.fate), queries)


def _refuse(epoch):
    raise ValueError("no more")


def _signed(table):
    """The signed rows of an epoch, added up."""
    found = Counter()
    for row in table.to_pylist():
        row.pop("epoch", None)
        sign = row.pop("change")
        found[tuple(map(plain, row.values()))] += sign
    return found


def _along_every_path(found, plans, phases, schema, folder, options, **more):
    """Run delta queries along every path of execution too, and keep what each finds."""
    name = plans[0].query.name
    for run in (on_batches, by_loops, spread, balanced):
        rows = Counter()
        for plan in plans:
            for insert, phase in enumerate(phases):
                for signed in (Signed(plan, dq, bool(insert)) for dq in plan.queries):
                    for bindings in run(signed.dq, phase, 3, listing=True):
                        columns = result_columns(plan.query, signed.dq.plan.attributes, phase)
                        for matches in changed(plan, signed.dq, bindings):
                            for row in zip(*(c.decode(matches).to_pylist() for c in columns), strict=True):
                                rows[tuple(map(plain, row))] += signed.sign
        found.setdefault(name, []).append(rows)
    return find.find_changes(plans, phases, schema, folder, options, **more)
