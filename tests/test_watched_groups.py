"""Watched groups and distinct rows: random histories against plain Python, which makes all groups anew after each epoch."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import bigjoin as bj
from bigjoin.compiled import loops
from bigjoin.errors import BigjoinError, QueryError
from bigjoin.index.directory import Index
from bigjoin.index.manifest_file import read_manifest
from bigjoin.indexing import build_index
from bigjoin.ingest import compact
from bigjoin.languages import parse
from bigjoin.streaming import compaction, find
from bigjoin.streaming.compaction import compact_in_place
from bigjoin.streaming.group_state import MAX_GROUP_ENTRIES_VARIABLE
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.running_aggregates import Extreme
from bigjoin.streaming.watched import watchable
from bigjoin.streaming.window import Window
from tests.executions import interpreted
from tests.questions import matches
from tests.test_cli import run_here
from tests.test_exactly_once import Place, Processes, Scenario
from tests.test_updates import LENGTH, Model


def known(values):
    return [value for value in values if value is not None]


def total(values):
    return sum(there) if (there := known(values)) else None


def least(values):
    return min(known(values), default=None)


def most(values):
    return max(known(values), default=None)


def mean(values):
    return sum(there) / len(there) if (there := known(values)) else None


@dataclass(frozen=True)
class Case:
    """A query that is watched, and what it means: its matches, their groups, and the row of a group."""

    text: str
    inner: str
    """A rule that lists all attributes."""
    key: Callable
    """Of a match, whose attributes have their values; those of edges have w and t."""
    row: Callable | None = None
    """Of a key and the matches of its group."""
    having: Callable | None = None
    """Of the matches of a group."""
    flags: dict = field(default_factory=dict)
    forms: int = 1
    """Of a match that are in the same group, and count once."""

    def rows(self, found: list) -> dict:
        """The row of each group, by its key."""
        groups = defaultdict(list)
        if self.key(SimpleNamespace(**dict.fromkeys("abc"), e=SimpleNamespace(w=None, t=None))) == ():
            groups[()] = []
        for match in found:
            groups[self.key(match)].append(match)
        rows = {}
        for key, members in groups.items():
            if self.having is None or self.having(members):
                rows[key] = key if self.row is None else self.row(key, members[:: self.forms])
        return rows

    def changes(self, before: dict, after: dict) -> Counter:
        """The signed rows between two results."""
        if self.having is None:
            gone, come = Counter(before.values()), Counter(after.values())
            gone, come = gone - come, come - gone
        else:
            gone = Counter(row for key, row in before.items() if key not in after)
            come = Counter(row for key, row in after.items() if key not in before)
        return Counter({(1, *row): n for row, n in come.items()}) + Counter({(-1, *row): n for row, n in gone.items()})


ONE, TWO = "edge(a, b, e)", "edge(a, b, e), edge(b, c, f)"
ROWS = [
    Case(f"f(b, count(e) as n) := {ONE}", f"i(a, b, e) := {ONE}", lambda m: (m.b,), lambda k, g: (*k, len(g))),
    Case(
        f"f(b, count(e) as n) := {ONE} having n >= 2",
        f"i(a, b, e) := {ONE}",
        lambda m: (m.b,),
        lambda k, g: (*k, len(g)),
        lambda g: len(g) >= 2,
    ),
    Case(
        f"f(b, sum(e.w) as s, min(e.w) as lo, max(e.w) as hi, count(e.w) as n, count(distinct e.w) as d, avg(e.w) as m) "
        f":= {ONE}",
        f"i(a, b, e) := {ONE}",
        lambda m: (m.b,),
        lambda k, g: (
            *k,
            *(of([m.e.w for m in g]) for of in (total, least, most, lambda w: len(known(w)), lambda w: len({*known(w)}), mean)),
        ),
    ),
    Case(
        f"f(a, max(f.w) as hi, count(*) as n) := {TWO} having hi < 6",
        f"i(a, b, c, e, f) := {TWO}",
        lambda m: (m.a,),
        lambda k, g: (*k, most(m.f.w for m in g), len(g)),
        lambda g: (most(m.f.w for m in g) or 0) < 6 and known(m.f.w for m in g) != [],
    ),
    Case(
        f"f(count(*) as n, sum(e.w) as s, min(e.t) as t) := {ONE}, e.w > 2",
        f"i(a, b, e) := {ONE}, e.w > 2",
        lambda m: (),
        lambda k, g: (len(g), total(m.e.w for m in g), least(m.e.t for m in g)),
    ),
    Case(f"f(b) := {ONE}, e.w > 3", f"i(a, b, e) := {ONE}, e.w > 3", lambda m: (m.b,), flags={"deduplicate": True}),
    Case(f"f(e.w) := {ONE}", f"i(a, b, e) := {ONE}", lambda m: (m.e.w,), flags={"deduplicate": True}),
    Case(
        f"f(e.w, count(distinct a) as n) := {TWO}",
        f"i(a, b, c, e, f) := {TWO}",
        lambda m: (m.e.w,),
        lambda k, g: (*k, len({m.a for m in g})),
    ),
    Case(
        f"f(a, sum(e.w) + count(*) as x) := {ONE} having sum(e.w) > 5 or max(e.t) is null",
        f"i(a, b, e) := {ONE}",
        lambda m: (m.a,),
        lambda k, g: (*k, None if total(m.e.w for m in g) is None else total(m.e.w for m in g) + len(g)),
        lambda g: (total(m.e.w for m in g) or 0) > 5 or most(m.e.t for m in g) is None,
    ),
    Case(
        f"f(b) := {ONE} having count(*) = 2",
        f"i(a, b, e) := {ONE}",
        lambda m: (m.b,),
        having=lambda g: len(g) == 2,
    ),
    Case(
        "MATCH (a)-[e]->(b) WITH b, sum(e.w) AS s, max(e.t) AS t WHERE s > 4 RETURN s * 2 AS x, t, b",
        f"i(a, b, e) := {ONE}",
        lambda m: (m.b,),
        lambda k, g: ((total(m.e.w for m in g) or 0) * 2, most(m.e.t for m in g), *k),
        lambda g: (total(m.e.w for m in g) or 0) > 4,
    ),
    Case("MATCH (a)-[e]->(b) RETURN DISTINCT b", f"i(a, b, e) := {ONE}", lambda m: (m.b,)),
    Case(
        "MATCH (a)-[e]->(b) WHERE e.w > 2 RETURN count(*) AS n",
        f"i(a, b, e) := {ONE}, e.w > 2",
        lambda m: (),
        lambda k, g: (len(g),),
    ),
]
PATH, RING, OPEN = (
    "edge(a, b), edge(b, c)",
    "edge(a, b), edge(b, c), edge(c, a)",
    "edge(a, b), edge(b, c), not edge(a, c)",
)
PAIRS = [
    Case(f"f(a) := {RING}", f"i(a, b, c) := {RING}", lambda m: (m.a,), flags={"deduplicate": True}),
    Case(f"f(a, c) := {PATH}", f"i(a, b, c) := {PATH}", lambda m: (m.a, m.c), flags={"deduplicate": True}),
    Case(f"f(a, c) := {PATH}", f"i(a, b, c) := {PATH}", lambda m: (m.a, m.c), flags={"deduplicate": True, "distinct": True}),
    Case(
        f"f(a, c, count(b) as n) := {OPEN} having n >= 2",
        f"i(a, b, c) := {OPEN}",
        lambda m: (m.a, m.c),
        lambda k, g: (*k, len(g)),
        lambda g: len(g) >= 2,
    ),
    Case(
        f"f(a, min(b) as lo, max(c) as hi) := {PATH}",
        f"i(a, b, c) := {PATH}",
        lambda m: (m.a,),
        lambda k, g: (*k, min(m.b for m in g), max(m.c for m in g)),
    ),
    Case(
        f"f(count(distinct a) as n) := {PATH} having n > 1",
        f"i(a, b, c) := {PATH}",
        lambda m: (),
        lambda k, g: (len({m.a for m in g}),),
        lambda g: len({m.a for m in g}) > 1,
    ),
    Case(
        f"f(a, c, count(*) as n) := {PATH}, a < c",
        f"i(a, b, c) := {PATH}, a < c",
        lambda m: (m.a, m.c),
        lambda k, g: (*k, len(g)),
        flags={"unique": True},
    ),
]


def ring_case(by_vertex: bool, directed: bool) -> Case:
    """Rings of three, each once at each of its vertices or once in all: so many symmetries fix what they are grouped by."""
    key = (lambda m: (m.a,)) if by_vertex else (lambda m: ())
    forms = (1 if by_vertex else 3) * (1 if directed else 2)
    head = "a, count(*) as n" if by_vertex else "count(*) as n"
    row = lambda k, g: (*k, len(g))  # noqa: E731
    return Case(f"f({head}) := {RING}", f"i(a, b, c) := {RING}", key, row, flags={"unique": True}, forms=forms)


class GroupModel(Model):
    """A graph as rows, and the groups of a query."""

    def __init__(self, random):
        super().__init__(random)
        rings = [ring_case(by_vertex, self.directed) for by_vertex in (False, True)]
        self.case = random.choice(ROWS if self.rowwise else [*PAIRS, *rings])
        self.query = parse(self.case.inner)
        injective = self.case.flags.get("unique") or self.case.flags.get("distinct")
        self.flags = {"distinct": True} if injective else {}

    def groups(self) -> dict:
        """The rows of groups, by their keys."""
        edges = {row[4]: SimpleNamespace(w=row[2], t=row[3]) for row in self.rows}
        weights, times = ({row[4]: row[i] for row in self.rows} for i in (2, 3))
        counts = matches(self.query, self.tuples, self.flags, weights, directed=self.directed, t=times)
        found = []
        for row, times_found in counts.items():
            values = dict(zip(self.query.columns, row, strict=True))
            match = SimpleNamespace(**{name: edges[at] if name in "ef" else at for name, at in values.items()})
            found += [match] * times_found
        return self.case.rows(found)


def signed(epoch) -> Counter:
    return Counter(tuple(row.values())[1:] for row in epoch.table.to_pylist())


def follow(seed, folder):
    """Run a history, and compare what every epoch reports with the groups of the model."""
    random = Random(seed)
    model = GroupModel(random)
    build_index(model.source(), folder / "index", directed=model.directed, shards=random.choice([1, 3]))
    listing = random.random() < 0.8

    def watching():
        return Monitor(
            folder / "index",
            watchable({"q": model.case.text}, model.case.flags, listing=listing),
            spark=None,
            initial=lambda *_: 0,
            output=folder / "output" if listing else None,
            order="s" if model.ordered else None,
            window=Window("t", LENGTH) if model.window else None,
        )

    monitor, before, reported = watching(), model.groups(), Counter()
    for epoch in range(random.randint(1, 7)):
        if random.random() < 0.3:
            monitor = watching()
        table = model.updates(epoch)
        after = model.groups()
        wanted = model.case.changes(before, after)
        about = (seed, epoch, model.case.text, table.to_pylist())
        if random.random() < 0.2:  # an epoch that fails changes nothing, in memory either
            with pytest.raises(BigjoinError, match="no more"):
                monitor.apply(table, function=refuse)
        done = monitor.apply(table)
        if listing:
            assert signed(done) == wanted, about
            reported += Counter(signed(done))
        changes = done.queries["q"]
        assert (done.created, done.destroyed) == tuple(sum(n for row, n in wanted.items() if row[0] == s) for s in (1, -1)), (
            about
        )
        assert done.count == len(after), about
        assert changes.groups is not None
        assert changes.groups >= done.count
        if random.random() < 0.2:
            compact_in_place(Index.open(folder / "index"))
        before = after
    if listing:
        rows = ds.dataset(folder / "output", format="parquet", partitioning="hive").to_table().drop_columns("epoch")
        assert Counter(tuple(row.values()) for row in rows.to_pylist()) == reported
        lines = [json.loads(line) for line in (folder / "output" / "_counts.jsonl").read_text().splitlines()]
        assert lines[-1]["queries"]["q"]["count"] == len(before)
        assert lines[-1]["queries"]["q"]["groups"] >= len(before)
    assert int(read_manifest(folder / "index").watched[monitor.watched["q"].text].count) == len(before)


def refuse(epoch):
    raise ValueError("no more")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 150))])
def test_histories_are_those_of_the_model(seed, tmp_path, monkeypatch):
    play(seed, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_thousands_of_histories_are_those_of_the_model(tmp_path, monkeypatch):
    for seed in range(1000, 4000):
        (tmp_path / str(seed)).mkdir()
        play(seed, tmp_path / str(seed), monkeypatch)
        shutil.rmtree(tmp_path / str(seed))


def play(seed, folder, monkeypatch):
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", [0, 5, 1 << 16][seed % 3])  # how soon runs are compacted
    monkeypatch.setattr(find, "MAX_REACH_ON_BATCHES", [-1, 1 << 16][seed % 2])  # whether loops find what changes, or batches
    monkeypatch.setattr(compact, "MIN_FORGOTTEN_VERTICES", 0)
    with mock.patch.object(loops, "load", interpreted):
        follow(seed, folder)


def updates(rows, names=("op", "src", "dst"), **types):
    """A table of updates of rows, whose columns have names."""
    return pa.table({name: pa.array([row[i] for row in rows], types.get(name)) for i, name in enumerate(names)})


def opened(path, rows=(), **columns):
    """A graph of directed edges, with the types of further columns."""
    types = {"src": pa.int64(), "dst": pa.int64(), **columns}
    table = {name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(types.items())}
    build_index(pa.table(table), path / "index", directed=True)
    return bj.Graph.open(path / "index")


AMOUNT = ("op", "src", "dst", "amount")
FANIN = "fanin(b, count(e) as n, sum(e.amount) as total) := edge(a, b, e) having n >= 3"


def test_a_group_is_reported_when_it_crosses_the_bound(tmp_path):
    graph = opened(tmp_path, [(1, 9, 5), (2, 9, 6)], amount=pa.int64())

    def told(*rows):
        epoch = graph.apply(updates(rows, AMOUNT, amount=pa.int64()), FANIN, strategy="local")
        assert (epoch.created, epoch.destroyed) == tuple(sum(epoch.table["change"].to_numpy() == s) for s in (1, -1))
        return sorted(tuple(row.values())[1:] for row in epoch.table.to_pylist()), epoch.count

    assert told(("+", 3, 9, 7)) == ([(1, 9, 3, 18)], 1)
    assert told(("+", 4, 9, 1)) == ([], 1)  # it stays inside
    assert told(("-", 4, 9, None), ("+", 5, 9, 2)) == ([], 1)
    assert told(("+", 1, 8, 1), ("+", 1, 8, 1), ("+", 1, 8, None), ("-", 1, 9, None), ("-", 2, 9, None)) == (
        [(-1, 9, 4, 20), (1, 8, 3, 2)],
        1,
    )
    assert told(("+", 1, 7, 1), ("+", 1, 7, 1), ("-", 9, 9, None)) == ([], 1)
    assert told(("-", 1, 8, 1)) == ([(-1, 8, 3, 2)], 0)
    assert told(("-", 1, 8, None)) == ([], 0)


def test_a_row_comes_with_its_first_match_and_goes_with_its_last(tmp_path):
    graph = opened(tmp_path, [(1, 2), (2, 3)])

    def told(*rows):
        epoch = graph.apply(updates(rows), "q(a, c) := edge(a, b), edge(b, c)", deduplicate=True, strategy="local")
        return sorted(tuple(row.values())[1:] for row in epoch.table.to_pylist()), epoch.count, epoch.queries["q"].groups

    assert told(("+", 1, 4), ("+", 4, 3)) == ([], 1, 1)  # another way from 1 to 3
    assert told(("-", 1, 2), ("+", 1, 5), ("+", 5, 3)) == ([], 1, 1)
    assert told(("-", 4, 3)) == ([], 1, 1)
    assert told(("-", 5, 3)) == ([(-1, 1, 3)], 0, 0)
    assert told(("+", 5, 3), ("+", 3, 6)) == ([(1, 1, 3), (1, 2, 6), (1, 5, 6)], 3, 3)


def test_columns_and_types_are_those_of_a_static_query(tmp_path):
    """All aggregates of all types that they have a meaning for, with values that come, go and are NULL or NaN."""
    when = datetime(2026, 1, 1, tzinfo=UTC)
    kinds = {
        "i": (pa.int32(), lambda n: n),
        "x": (pa.float64(), lambda n: [math.nan, math.inf, -0.0, 0.0, 0.1, 0.2, 0.3, 1e300][n % 8]),
        "h": (pa.float32(), lambda n: n / 8),
        "d": (pa.decimal128(12, 2), lambda n: Decimal(n) / 4),
        "s": (pa.string(), lambda n: "aäz€\U0001f600"[n % 5]),
        "at": (pa.timestamp("ms", "UTC"), lambda n: when + timedelta(hours=n)),
        "day": (pa.date32(), lambda n: (when + timedelta(days=n)).date()),
        "ok": (pa.bool_(), lambda n: n % 2 == 0),
    }
    random = Random(5)

    def row(n):
        return [None if random.random() < 0.2 else value(n) for _, value in kinds.values()]

    graph = opened(tmp_path, [(1, 9, *row(0))], **{name: kind for name, (kind, _) in kinds.items()})
    columns = [f"{of}(e.{name}) as {of}_{name}" for name in kinds for of in ("count", "min", "max")]
    columns += [f"count(distinct e.{name}) as distinct_{name}" for name in kinds]
    columns += [f"{of}(e.{name}) as {of}_{name}" for name in "ixh" for of in ("sum", "avg")]
    text = f"q(b, e.x, {', '.join([*columns, 'sum(e.d) as sum_d'])}) := edge(a, b, e)"
    result: Counter = Counter()

    def comparable(row):
        return tuple(
            "NaN" if value != value else round(value, 9) if isinstance(value, float) else value for value in row.values()
        )

    graph.apply(updates([("-", 1, 9)]), text, strategy="local")
    for epoch in range(5):
        rows = [("+", n, n % 3, *row(n)) for n in range(8 * epoch, 8 * epoch + 8)]
        rows += [("-", n, n % 3, *[None] * len(kinds)) for n in range(8 * epoch - 8, 8 * epoch - 4)]
        types = {name: kind for name, (kind, _) in kinds.items()}
        done = graph.apply(updates(rows, ("op", "src", "dst", *kinds), **types), text, strategy="local")
        for one in done.table.drop_columns("epoch").to_pylist():
            result[comparable(one)[1:]] += one["change"]
        static = bj.Graph.open(tmp_path / "index").arrow(text, strategy="local").read_all()
        assert Counter(map(comparable, static.to_pylist())) == +result
        assert min(result.values()) >= 0
        assert [*done.table.schema][2:] == [*static.schema]
    graph.apply(updates([("-", n, n % 3) for n in range(40)]), text, strategy="local")
    assert graph.apply(updates([("-", 0, 0)]), text, strategy="local").count == 0


def test_sums_of_floating_numbers_come_back_to_where_they_were(tmp_path):
    graph, text = (
        opened(tmp_path, [(1, 9, 0.1)], amount=pa.float64()),
        "q(sum(e.amount) as s, avg(e.amount) as m) := edge(a, b, e)",
    )
    large = [("+", n, 9, 1e300 / n) for n in range(2, 30)]
    there = graph.apply(updates(large, AMOUNT, amount=pa.float64()), text, strategy="local")
    assert there.table.to_pylist()[-1]["s"] == math.fsum([0.1, *(row[-1] for row in large)])
    back = graph.apply(updates([("-", n, 9) for n in range(2, 30)]), text, strategy="local")
    assert back.table.to_pylist()[-1] == {"epoch": 2, "change": 1, "s": 0.1, "m": 0.1}


def test_the_largest_and_the_smallest_of_values_that_come_and_go():
    random = Random(8)
    for make in (
        lambda: random.randrange(30),
        lambda: random.choice("abcdefgh") * random.randrange(3),
        lambda: random.choice([math.nan, 1.5, -2.0]),
    ):
        largest, smallest, values = Extreme(is_largest=True), Extreme(is_largest=False), Counter()
        for _ in range(3000):
            value, times = make(), random.choice([1, 1, 2, -1, -1])
            times = max(times, -values[value])
            if times:
                for each in (largest, smallest):
                    each.add(value, times)
                values[value] += times
            there = sorted((one != one, one if one == one else 0, one) for one, n in values.items() if n)
            wanted = [None, None] if not there else [there[-1][-1], there[0][-1]]
            assert [largest.value, smallest.value] == wanted or (there and there[-1][0])
            if there and there[-1][0]:
                assert math.isnan(largest.value)
                assert smallest.value == there[0][-1] or (there[0][0] and math.isnan(smallest.value))
    assert len(largest._heap) < 30


def test_a_sum_that_does_not_fit_is_refused_and_nothing_happens(tmp_path):
    graph, text = opened(tmp_path, [(1, 9, 1 << 62)], amount=pa.int64()), "q(b, sum(e.amount) as s) := edge(a, b, e)"
    with pytest.raises(QueryError, match=re.escape("'sum(e.amount)' of some group does not fit into 64 bits")):
        graph.apply(updates([("+", 2, 9, 1 << 62)], AMOUNT), text, strategy="local")
    done = graph.apply(updates([("+", 2, 9, -1)], AMOUNT), text, strategy="local")
    assert (done.number, done.table["s"].to_pylist()) == (1, [1 << 62, (1 << 62) - 1])


@pytest.mark.parametrize("text", ["q(b, count(*) as n) := edge(a, b)", "q(a, b) := edge(a, b), edge(b, c)"])
def test_too_many_groups_are_refused_and_nothing_happens(text, tmp_path, monkeypatch):
    graph = opened(tmp_path, [(n, n + 1) for n in range(20)])
    monkeypatch.setenv(MAX_GROUP_ENTRIES_VARIABLE, "30")
    graph.apply(updates([("+", 50, 51)]), text, deduplicate="count" not in text, strategy="local")
    many = updates([("+", n, n + 1) for n in range(60, 80)])
    with pytest.raises(
        BigjoinError, match=r"groups or distinct rows to keep in memory, and the limit is 30.*BIGJOIN_MOST_GROUPS"
    ):
        graph.apply(many, text, deduplicate="count" not in text, strategy="local")
    assert graph.apply(updates([("+", 70, 51)]), text, deduplicate="count" not in text, strategy="local").number == 2
    monkeypatch.setenv(MAX_GROUP_ENTRIES_VARIABLE, "10")
    with pytest.raises(BigjoinError, match="the limit is 10"):
        bj.Graph.open(tmp_path / "index").apply(
            updates([("+", 90, 91)]), text, deduplicate="count" not in text, strategy="local"
        )
    monkeypatch.setenv(MAX_GROUP_ENTRIES_VARIABLE, "ten")
    with pytest.raises(BigjoinError, match="is a number of groups, such as 1e8, and not 'ten'"):
        bj.Graph.open(tmp_path / "index").apply(
            updates([("+", 90, 91)]), text, deduplicate="count" not in text, strategy="local"
        )
    assert read_manifest(tmp_path / "index").epoch == 2


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("q(b, count(*) as n) := edge(a, b) order by n", {}, "ORDER BY has no incremental meaning, so it cannot be watched"),
        ("q(b, count(*) as n) := edge(a, b) limit 3", {}, "LIMIT has no incremental meaning"),
        ("MATCH (a)-[]->(b) RETURN b, collect(id(a)) AS n", {}, r"'collect.*' of int64 values cannot be watched"),
        ("MATCH (a)-[]->(b) RETURN b, sum(DISTINCT id(a)) AS n", {}, r"'sum.distinct a.' of int64 values cannot be watched"),
        ("MATCH (a)-[]->(b) WITH b, count(a) AS n RETURN n, count(b) AS m", {}, "groups of groups.* cannot be watched"),
        ("MATCH (a)-[]->(b) WITH b, count(a) AS n ORDER BY n RETURN b", {}, "ORDER BY has no incremental meaning"),
        (
            "q(b, count(*) as n) := edge(a, b)",
            {"deduplicate": True},
            "groups of groups, or of distinct rows, cannot be watched",
        ),
        ("q(a) := edge(a, b)", {"deduplicate": True, "by": "a"}, "distinct rows that are counted by groups"),
        ("q(a, min(b) as m) := edge(a, b), edge(b, c), edge(c, a)", {"unique": True}, "it is not said which vertex of a match"),
        ("q(a) := edge(a, b), edge(b, c), edge(c, a)", {"unique": True, "deduplicate": True}, "it is not said which vertex"),
        ("q(b as epoch, count(*) as n) := edge(a, b)", {}, "'epoch' is a column of every watch's output"),
        ("q(b, count(*) as n) := edge(a, b)", {"by": "a"}, "the query has groups of its own"),
        ("select dst, count(*) from edge group by dst", {}, "a SELECT has no incremental meaning"),
    ],
)
def test_what_cannot_be_watched_is_refused(text, flags, said, tmp_path):
    graph = opened(tmp_path, [(1, 2)])
    with pytest.raises(QueryError, match=said):
        graph.apply(updates([("+", 2, 3)]), text, strategy="local", **flags)
    assert read_manifest(tmp_path / "index").epoch == 0


def test_counts_by_keys_are_those_of_count(tmp_path):
    """Also under `unique`: a triangle counts at its three corners."""
    build_index(pa.table({"src": [1, 2, 3, 1, 2], "dst": [2, 3, 1, 4, 4]}), tmp_path / "index", directed=False)
    graph = bj.Graph.open(tmp_path / "index")
    epoch = graph.apply(updates([("+", 3, 4), ("-", 1, 4)]), "triangle", unique=True, by="a1 as vertex", strategy="local")
    rows = [{"change": c, "vertex": v, "count": n} for c, v, n in [(-1, 1, 2), (1, 1, 1), (-1, 4, 1), (1, 4, 1)]]
    wanted = {(row["change"], row["vertex"], row["count"]) for row in rows if row["vertex"] != 4}
    found = {(row["change"], row["vertex"], row["count"]) for row in epoch.table.to_pylist()}
    # before: 123 and 124; after: 123 and 234
    assert found == {*wanted, (-1, 3, 1), (1, 3, 2)}
    assert (epoch.count, epoch.queries["triangle"].groups) == (4, 4)
    pairs = graph.apply(updates([("-", 1, 2)]), "q(a, b) := edge(a, b)", by=["a", "b % 2 as odd"], strategy="local")
    assert {tuple(row.values())[1:] for row in pairs.table.to_pylist()} == {(-1, 1, 0, 1), (-1, 2, 1, 2), (1, 2, 1, 1)}


def test_lists_and_optional_atoms_are_groups_too(tmp_path):
    graph = opened(tmp_path, [(1, 2), (2, 3)])
    paths = "q(nodes(p)) := edge*1..2(a, b, p), optional edge(b, c)"
    epoch = graph.apply(updates([("+", 3, 4), ("+", 3, 5)]), paths, deduplicate=True, strategy="local")
    column = epoch.table.column_names[-1]
    assert sorted(epoch.table[column].to_pylist()) == [[2, 3, 4], [2, 3, 5], [3, 4], [3, 5]]
    epoch = graph.apply(updates([("-", 3, 4)]), paths, deduplicate=True, strategy="local")
    assert sorted(epoch.table[column].to_pylist()) == [[2, 3, 4], [3, 4]]
    lacking = "q(b, count(c) as n) := edge(a, b), optional edge(b, c)"
    epoch = graph.apply(updates([("-", 3, 5), ("+", 5, 1)]), lacking, strategy="local")
    found = {tuple(row.values())[1:] for row in epoch.table.to_pylist()}
    assert found == {(-1, 3, 1), (1, 3, 0), (-1, 5, 0), (1, 1, 1)}


def test_groups_are_made_once_and_again_only_if_somebody_else_wrote(tmp_path, monkeypatch):
    from bigjoin.streaming.grouped_changes import GroupChanges

    graph, text, begun = opened(tmp_path, [(1, 9), (2, 9)]), "q(b, count(*) as n) := edge(a, b)", []
    begin = GroupChanges.begin
    monkeypatch.setattr(GroupChanges, "begin", lambda self, index: (begun.append(index.epoch), begin(self, index))[1])
    monitor = Monitor(tmp_path / "index", watchable(text, {}, listing=True), spark=None, initial=None, output=tmp_path / "out")

    def rows(table, **options):
        return {tuple(row.values())[1:] for row in monitor.apply(table, **options).table.to_pylist()}

    assert rows(updates([("+", 3, 9)])) == {(-1, 9, 2), (1, 9, 3)}
    with pytest.raises(BigjoinError, match="failed at epoch 2"):
        monitor.apply(updates([("+", 4, 9), ("-", 1, 9)]), function=refuse)
    assert rows(updates([("+", 4, 9)])) == {(-1, 9, 3), (1, 9, 4)}
    assert begun == [0]
    graph.apply(updates([("+", 5, 9), ("+", 5, 8)]))
    assert rows(updates([("+", 6, 9)])) == {(-1, 9, 5), (1, 9, 6)}
    assert begun == [0, 3]
    interrupted = mock.patch("bigjoin.streaming.group_state.GroupState._check", side_effect=KeyboardInterrupt)
    with interrupted, pytest.raises(KeyboardInterrupt):
        monitor.apply(updates([("+", 7, 9)]))
    assert rows(updates([("+", 7, 9), ("-", 5, 8)])) == {(-1, 9, 6), (1, 9, 7), (-1, 8, 1)}
    assert begun == [0, 3, 4]


def test_a_watch_goes_on_in_another_process(tmp_path):
    """As under Spark Connect: groups do not travel, and are made again."""
    opened(tmp_path, [(1, 9), (2, 9)])
    watched = watchable("q(b) := edge(a, b) having count(*) > 2", {}, listing=True)
    monitor = Monitor(tmp_path / "index", watched, spark=None, initial=None, output=tmp_path / "out")
    assert monitor.apply(updates([("+", 3, 9)])).created == 1
    other = pickle.loads(pickle.dumps(monitor))
    epoch = other.apply(updates([("-", 3, 9), ("+", 1, 8), ("+", 2, 8), ("+", 3, 8)]))
    assert {tuple(row.values()) for row in epoch.table.to_pylist()} == {(2, -1, 9), (2, 1, 8)}
    assert monitor.apply(updates([("+", 3, 9)])).table.to_pylist() == [{"epoch": 3, "change": 1, "b": 9}]


def test_counting_alone_and_several_queries(tmp_path):
    graph = opened(tmp_path, [(1, 9), (2, 9)])
    queries = {
        "busy": "q(b) := edge(a, b) having count(*) > 2",
        "pairs": "q(a, b) := edge(a, b)",
        "all": "q(count(*) as n) := edge(a, b)",
    }
    epoch = graph.apply(updates([("+", 3, 9), ("-", 1, 9), ("+", 4, 9)]), queries, listing=False, strategy="local")
    assert {name: (c.created, c.destroyed, c.count, c.groups) for name, c in epoch.queries.items()} == {
        "busy": (1, 0, 1, 1),
        "pairs": (2, 1, 3, None),
        "all": (1, 1, 1, 1),
    }
    assert epoch.line["queries"]["pairs"] == {"created": 2, "destroyed": 1, "count": 3}
    assert epoch.line["queries"]["busy"] == {"created": 1, "destroyed": 0, "count": 1, "groups": 1}
    with pytest.raises(BigjoinError, match="were counted, not listed"):
        _ = epoch.queries["busy"].table


def test_explain_says_how_groups_are_watched(tmp_path):
    graph = opened(tmp_path, [(1, 2)])

    def told(text, **flags):
        return str(graph.explain(text, delta=True, strategy="local", **flags))

    assert "reports a group as -1 and +1 when its row changes" in told("q(b, count(*) as n) := edge(a, b)")
    assert "reports a group when it begins or ends to satisfy" in told("q(b, count(*) as n) := edge(a, b) having n > 1")
    assert "reports a row as +1 with the first of them" in told("q(b) := edge(a, b)", deduplicate=True)
    assert "a watch" not in told("q(a, b) := edge(a, b)")
    assert "a watch" not in str(graph.explain("q(b, count(*) as n) := edge(a, b)", strategy="local"))


DAY = timedelta(days=1)
START = datetime(2026, 3, 1)


def payments():
    """Payments of three days, hour by hour: nine to 7 in all that time, ten to 8 within hours, and twenty to 9 over days."""
    rows = [(n, 7, n * 7) for n in range(9)] + [(n, 8, 20 + n) for n in range(10)] + [(n, 9, 3 * n + 1) for n in range(20)]
    return sorted(((src, dst, START + hour * DAY / 24) for src, dst, hour in rows), key=lambda row: row[2])


def fan_in_by_hand(batches):
    """By epoch: who begins or ends to have ten payments in a day, and with how many."""
    alive, inside, found = [], {}, []
    for batch in batches:
        alive = [row for row in alive + batch if row[2] > max(r[2] for r in alive + batch) - DAY]
        counts = Counter(row[1] for row in alive)
        now = {b: n for b, n in counts.items() if n >= 10}
        came = {(1, b, now[b]) for b in now if b not in inside}
        before = found[-1][1] if found else Counter()
        gone = {(-1, b, before[b]) for b in inside if b not in now}
        found.append((came | gone, counts))
        inside = now
    return [changes for changes, _ in found]


ONE_LINE = "fanin(b, count(e) as n) := edge(a, b, e) having n >= 10"


def test_fan_in_within_a_day_is_one_line_of_the_command(tmp_path):
    rows = payments()
    batches = [rows[at : at + 5] for at in range(0, len(rows), 5)]
    (tmp_path / "arriving").mkdir()
    for number, batch in enumerate(batches):
        lines = [f"{src},{dst},+,{when.isoformat(sep=' ')}" for src, dst, when in batch]
        (tmp_path / "arriving" / f"{number:03}.csv").write_text("\n".join(["src,dst,op,paid_at", *lines, ""]))
    command = ["watch", ONE_LINE, "bank", "--updates", "arriving", "--output", "busy", "--window", "1 day", "--time", "paid_at"]
    for _ in range(2):  # the second time, nothing is new
        ran = run_here(*command, "--once", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
    wanted = fan_in_by_hand(batches)
    assert any(wanted)
    found = [set() for _ in wanted]
    for row in ds.dataset(tmp_path / "busy", format="parquet", partitioning="hive").to_table().to_pylist():
        found[row["epoch"] - 1].add((row["change"], row["b"], row["n"]))
    assert found == wanted


@pytest.mark.spark
def test_fan_in_within_a_day_is_one_line_in_python(tmp_path, spark):
    rows = payments()
    batches = [rows[at : at + 13] for at in range(0, len(rows), 13)]
    build_index(
        pa.table(
            {"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64()), "paid_at": pa.array([], pa.timestamp("us"))}
        ),
        tmp_path / "bank",
        directed=True,
    )
    graph = bj.Graph.open(tmp_path / "bank", spark=spark)
    (tmp_path / "arriving").mkdir()
    stream = spark.readStream.schema("src long, dst long, op string, paid_at timestamp_ntz").option("header", True)
    stream = stream.option("maxFilesPerTrigger", 1).csv(str(tmp_path / "arriving"))
    for number, batch in enumerate(batches):
        lines = [f"{src},{dst},+,{when.isoformat()}" for src, dst, when in batch]
        (tmp_path / "arriving" / f"{number:03}.csv").write_text("\n".join(["src,dst,op,paid_at", *lines, ""]))
        os.utime(tmp_path / "arriving" / f"{number:03}.csv", (1e9 + number, 1e9 + number))
    query = graph.watch(ONE_LINE, stream, window="1 day", time="paid_at", output=tmp_path / "busy")
    query.processAllAvailable()
    query.stop()
    wanted = fan_in_by_hand(batches)
    assert any(wanted)
    found = [set() for _ in wanted]
    for row in ds.dataset(tmp_path / "busy", format="parquet", partitioning="hive").to_table().to_pylist():
        found[row["epoch"] - 1].add((row["change"], row["b"], row["n"]))
    assert found == wanted


@pytest.mark.spark
@pytest.mark.parametrize("strategy", ["shared", "tasks", "partitioned", "heavy-light", "balanced"])
def test_every_strategy_finds_what_groups_are_made_of(strategy, spark, tmp_path, monkeypatch):
    if strategy == "tasks":
        monkeypatch.setattr(find, "MAX_REACH_HERE", -1)
        monkeypatch.setattr(find, "MAX_REACH_ON_BATCHES", -1)
    random = Random(2)
    rows = [(random.randrange(12), random.randrange(12), random.randrange(50)) for _ in range(150)]
    build_index(
        pa.table({name: [row[i] for row in rows[:60]] for i, name in enumerate(("src", "dst", "amount"))}),
        tmp_path / "index",
        directed=True,
    )
    graph = bj.Graph.open(tmp_path / "index", spark=spark)
    text = "q(a, count(*) as n, sum(f.amount) as s, max(e.amount) as m) := edge(a, b, e), edge(b, c, f) having n > 20"
    queries = {"groups": text, "reached": parse("q(a, c) := edge(a, b), edge(b, c)", deduplicate=True)}

    def groups(edges):
        found = defaultdict(list)
        for a, b, w in edges:
            for b2, _, v in edges:
                if b2 == b:
                    found[(a,)].append((v, w))
        inside = {k: (*k, len(g), sum(v for v, _ in g), max(w for _, w in g)) for k, g in found.items() if len(g) > 20}
        return inside, {(a, c) for a, b, _ in edges for b2, c, _ in edges if b2 == b}

    alive = rows[:60]
    for start in (60, 100):
        gone = {row[:2] for row in random.sample(alive, 20)}
        before = groups(alive)
        alive = [row for row in alive if row[:2] not in gone] + rows[start : start + 40]
        after = groups(alive)
        table = updates(
            [("-", *pair, None) for pair in gone] + [("+", *row) for row in rows[start : start + 40]], AMOUNT, amount=pa.int64()
        )
        epoch = graph.apply(table, queries, strategy="shared" if strategy == "tasks" else strategy, workers=2)
        crossed = {(1, *after[0][k]) for k in after[0].keys() - before[0].keys()}
        crossed |= {(-1, *before[0][k]) for k in before[0].keys() - after[0].keys()}
        assert crossed
        assert Counter(tuple(row.values())[1:] for row in epoch.queries["groups"].table.to_pylist()) == Counter(crossed)
        rows_changed = {(1, *row) for row in after[1] - before[1]} | {(-1, *row) for row in before[1] - after[1]}
        assert Counter(tuple(row.values())[1:] for row in epoch.queries["reached"].table.to_pylist()) == Counter(rows_changed)
        assert (epoch.queries["groups"].count, epoch.queries["reached"].count) == (len(after[0]), len(after[1]))


class GroupScenario(Scenario):
    """A scenario whose queries have groups."""

    @property
    def watched(self):
        return watchable({case.text.partition("(")[0]: case.text for case in KILLED}, {}, listing=True)

    @property
    def expected(self):
        found = defaultdict(list)
        for case, name in zip(KILLED, self.watched, strict=True):
            results = []
            for rows in self.states():
                edges = [SimpleNamespace(a=row[0], b=row[1], e=SimpleNamespace(w=row[2])) for row in rows if row is not None]
                results.append(case.rows(edges))
            found[name] = [case.changes(before, after) for before, after in pairwise(results)]
        return found


KILLED = [
    Case(
        "sums(b, count(e) as n, sum(e.weight) as s, max(e.weight) as hi) := edge(a, b, e)",
        "",
        lambda m: (m.b,),
        lambda k, g: (*k, len(g), sum(m.e.w for m in g), max(m.e.w for m in g)),
    ),
    Case(
        "busy(b, count(e) as n) := edge(a, b, e) having n >= 3",
        "",
        lambda m: (m.b,),
        lambda k, g: (*k, len(g)),
        lambda g: len(g) >= 3,
    ),
]


def scenarios():
    from tests.test_exactly_once import SCENARIOS

    rows = SCENARIOS["rows"]
    options = {"queries": tuple(case.text for case in KILLED)}
    return {
        "groups": GroupScenario(rows.edges, rows.epochs, **options),
        "groups, compacted": GroupScenario(rows.edges, rows.epochs, **options, compacts=True),
    }


GROUPED = scenarios()


def serve_groups():
    """Serve the scenarios with groups."""
    from tests import test_exactly_once

    with mock.patch.object(test_exactly_once, "SCENARIOS", GROUPED):
        test_exactly_once.serve()


class GroupProcesses(Processes):
    """Asks the process that serves; it has scratch space of its own, where a process finds nothing that others have left."""

    def __init__(self, scratch) -> None:
        self.scratch = scratch
        with mock.patch.dict(os.environ, TMPDIR=str(scratch)):
            super().__init__("from tests.test_watched_groups import serve_groups; serve_groups()")

    def watch(self, place, at=0, *, cleaning=False):
        finished = super().watch(place, at, cleaning=cleaning)
        for folder in self.scratch.iterdir():
            shutil.rmtree(folder, ignore_errors=True)
        return finished


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    from tests import test_exactly_once

    with mock.patch.object(test_exactly_once, "SCENARIOS", GROUPED):
        serving = GroupProcesses(tmp_path_factory.mktemp("scratch"))
        place = Place(tmp_path_factory.mktemp("warm") / "place", GROUPED["groups"])
        last = len(place.scenario.epochs) - 1
        place.build(epochs=last)
        assert serving.watch(place, None)
        place.give(last)  # so that all kernels are compiled that a process needs to go on
        assert serving.watch(place, None)
        yield serving
    serving.process.stdin.close()
    assert serving.process.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["groups", "groups, compacted"])
def test_killed_at_every_step_of_an_epoch(tmp_path, processes, name):
    """No group is reported twice, or not at all: groups are made again of what is committed."""
    place = Place(tmp_path / "place", GROUPED[name])
    last = len(place.scenario.epochs) - 1
    place.build(epochs=last)
    assert processes.watch(place)
    place.give(last)
    kept, kills, commits = tmp_path / "kept", 0, 0
    shutil.copytree(place.path, kept)
    while not processes.watch(place, kills + 1):
        kills += 1
        is_committed = place.check(finished=False) == last + 1
        commits += is_committed
        if is_committed or kills % 4 == 0:
            assert processes.watch(place)
            assert place.check(finished=True) == last + 1
            assert place.edges() == place.scenario.final
        shutil.rmtree(place.path)
        shutil.copytree(kept, place.path)
    assert kills - commits >= 20
    assert commits >= 5
    assert place.check(finished=True) == last + 1


@pytest.mark.slow
def test_killed_again_and_again_and_started_again(tmp_path, processes):
    place = Place(tmp_path / "place", GROUPED["groups"])
    place.build(epochs=len(place.scenario.epochs))
    done, at = [0], 1
    while not processes.watch(place, at):
        done.append(place.check(finished=False))
        at = at + 1 if done[-1] == done[-2] else 1
    assert done == sorted(done)
    assert len(set(done)) >= 3  # the first process may commit more than one epoch before it is killed
    assert place.check(finished=True) == len(place.scenario.epochs)
    assert place.edges() == place.scenario.final


def test_groups_follow_properties_corrections_and_wider_numbers(tmp_path):
    accounts = pa.table({"id": [1, 2, 3], "label": ["person", "person", "bank"]})
    payments = pa.table({"src": [1, 2, 1], "dst": [3, 3, 2], "pid": [1, 2, 3], "amount": [10, 20, 30]})
    bj.build_index(payments, tmp_path / "index", vertices=accounts)
    graph = bj.Graph.open(tmp_path / "index")
    query = "fanin(b, count(e) as n, sum(e.amount) as total) := edge(a, b, e), person(a) having n >= 2"

    def signed(updates):
        epoch = graph.apply(updates, query, key="pid", strategy="local")
        return sorted(tuple(row.values())[1:] for row in epoch.table.to_pylist()), epoch.count

    assert signed([{"src": 3, "dst": 3, "op": "+", "pid": 9, "amount": 1}]) == ([], 1)  # from a bank
    assert signed([{"id": 2, "op": "=", "label": "bank"}]) == ([(-1, 3, 2, 30)], 0)
    assert signed([{"src": 1, "dst": 3, "op": "=", "pid": 1, "amount": 11}]) == ([], 0)
    with pytest.warns(UserWarning, match="is double from now on"):
        assert signed([{"src": 1, "dst": 3, "op": "+", "pid": 4, "amount": 0.5}]) == ([(1, 3, 2, 11.5)], 1)
    assert signed([{"id": 2, "op": "-"}, {"id": 1, "op": "=", "label": "bank"}]) == ([(-1, 3, 2, 11.5)], 0)
