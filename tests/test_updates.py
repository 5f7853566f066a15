"""Updates from tables to signed matches: random histories against a model that applies them one by one."""

from __future__ import annotations

import pickle
import re
import time
from collections import Counter
from math import comb, perm
from random import Random
from threading import Event, Thread
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.compiled import loops
from bigjoin.errors import BigjoinError, QueryError, SourceError
from bigjoin.index import changing
from bigjoin.index.changing import ChangingTrie
from bigjoin.index.directory import Index
from bigjoin.index.version_cache import VersionCache
from bigjoin.index.writer import locked, verify
from bigjoin.indexing import build_index
from bigjoin.ingest import compact
from bigjoin.joins import phase
from bigjoin.languages import parse
from bigjoin.streaming import compaction, find
from bigjoin.streaming.compaction import without_runs
from bigjoin.streaming.count_changes import ChangeCounter
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.update_files import watch_folder
from bigjoin.streaming.watched import Watched
from bigjoin.streaming.window import Window
from tests.executions import interpreted
from tests.questions import FLAGS, canonical, draw_rule, matches

PAIRS = [
    "q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)",
    "q(a,b,c) := edge(a,b), edge(b,c), not edge(a,c)",
    "q(a,b) := edge(a,b), a < b",
    "q(a,b,c,d) := edge(a,b), edge(b,c), edge(c,d), edge(d,a)",
    "q(a,b,c,d) := edge(a,b), edge(a,c), edge(a,d), edge(b,c)",
    "q(a) := edge(a,a)",
]
ROWS = [
    "q(a,b,e) := edge(a,b,e), e.w > 3",
    "q(a,b,c,e,f) := edge(a,b,e), edge(b,c,f), e.w < f.w",
    "q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)",
    "q(a,b,e,f) := edge(a,b,e), edge(a,b,f), e.w <= f.w",
    "q(a,b,c,e,f,g) := edge(a,b,e), edge(b,c,f), edge(c,a,g), e.t < f.t",
]
IDS = [list(range(5)), [10, -4, 7, 99, 3, 55], list("abcde")]
LENGTH = 3
"""Of the window."""


class Model:
    """A graph as a list of rows (src, dst, w, t, number), changed one update after the other.

    Its query is one of those above, or drawn like the rest.
    """

    def __init__(self, random, *, drawn=False):
        self.random = random
        self.ids, self.directed = random.choice(IDS), random.random() < 0.6
        self.rowwise, self.ordered = random.random() < 0.5, random.random() < 0.4
        self.window = self.rowwise and random.random() < 0.4
        self.text = random.choice(ROWS if self.rowwise else PAIRS)
        flags = [{}, {}, {"distinct": True}, {"unique": True}] + ([] if self.rowwise else [{"induced": True}])
        self.flags = random.choice(flags)
        if drawn:
            self.flags = dict.fromkeys(random.choice(FLAGS), True)
            self.text = draw_rule(random, self.ids, rows=self.rowwise, injective=bool(self.flags))
        self.query = parse(self.text, **self.flags)
        self.rows, self.numbers = [], 0
        self.base = [(*self.pair(), random.randrange(8), 0) for _ in range(random.choice([0, 0, 3, 8]))]
        for src, dst, w, t in self.base:
            self.insert(src, dst, w, t)
        self.clock = 0 if self.rows else -(10**9)

    def pair(self):
        return self.random.choice(self.ids), self.random.choice(self.ids)

    def ends(self, src, dst):
        return (src, dst) if self.directed else tuple(sorted((src, dst)))

    def insert(self, src, dst, w, t):
        loop = src == dst and not self.directed
        ends = self.ends(src, dst)
        if not loop and (self.rowwise or all(row[:2] != ends for row in self.rows)):
            self.rows.append((*ends, w, t, self.numbers))
        self.numbers += 1 if self.rowwise else 0  # a loop of the source keeps its number

    def updates(self, epoch):
        """A table of updates, which are applied here; it may lack columns that edges have, or have others."""
        drawn = []
        lacking = self.random.choice(["", "", "", "w", "t", "wt"]) if self.rowwise else ""
        for _ in range(self.random.choice([0, 1, 3, 8])):
            insert, late = self.random.random() < 0.7, self.random.choice([0, 0, 0, 4])
            w = self.random.randrange(8) if insert or self.random.random() < 0.5 else None
            t = 2 * epoch + self.random.randrange(3) - late if insert else None
            w, t = None if "w" in lacking else w, None if "t" in lacking else t
            drawn.append((*self.pair(), insert, w, t, self.random.randrange(4)))
        self.apply(sorted(drawn, key=lambda u: u[5] if self.ordered else u[2]))
        kind = pa.int64() if isinstance(self.ids[0], int) else pa.string()
        columns = {
            "src": pa.array([u[0] for u in drawn], kind),
            "dst": pa.array([u[1] for u in drawn], kind),
            "op": pa.array(["+" if u[2] else "-" for u in drawn], pa.string()),
        }
        if self.ordered:
            columns["s"] = pa.array([u[5] for u in drawn], pa.int64())
        if self.rowwise:
            given = [(name, i) for name, i in (("w", 3), ("t", 4)) if name not in lacking]
            columns |= {name: pa.array([u[i] for u in drawn], pa.int64()) for name, i in given}
            columns |= {"more": pa.nulls(len(drawn))} if self.random.random() < 0.1 else {}
        return pa.table(columns)

    def apply(self, updates):
        before, first = len(self.rows), self.numbers
        if self.window:
            timed = [u[4] for u in updates if u[2] and u[4] is not None and (self.directed or u[0] != u[1])]
            self.clock = max([self.clock, *timed])
        kept = self.rows[:before]
        fresh = []
        for src, dst, insert, w, t, _ in updates:
            ends = self.ends(src, dst)
            if src == dst and not self.directed:
                continue
            if insert:
                late = self.window and t is not None and t <= self.clock - LENGTH
                if not late and (self.rowwise or all(row[:2] != ends for row in kept + fresh)):
                    fresh.append((*ends, w, t, None))
            else:
                gone = [row for row in kept + fresh if row[:2] == ends and (w is None or not self.rowwise or row[2] == w)]
                kept = [row for row in kept if row not in gone]
                fresh = [row for row in fresh if row not in gone]
        if self.window:
            kept = [row for row in kept if row[3] is None or row[3] > self.clock - LENGTH]
        self.rows = kept + [(*row[:4], first + i) for i, row in enumerate(fresh)]
        self.numbers = first + (len(fresh) if self.rowwise else 0)

    @property
    def tuples(self):
        found = set()
        for src, dst, _, _, number in self.rows:
            for ends in {(src, dst)} if self.directed else {(src, dst), (dst, src)}:
                found |= {ends, (*ends, number)} if self.rowwise else {ends}
        return found

    def result(self):
        weights, times = ({row[4]: row[i] for row in self.rows} for i in (2, 3))
        return matches(self.query, self.tuples, self.flags, weights, directed=self.directed, t=times)

    def canonical(self, row):
        return canonical(self.query, row, directed=self.directed)

    def source(self):
        kind = pa.int64() if isinstance(self.ids[0], int) else pa.string()
        columns = {name: pa.array([row[i] for row in self.base], kind) for i, name in enumerate(("src", "dst"))}
        if self.rowwise:
            columns |= {name: pa.array([row[i] for row in self.base], pa.int64()) for name, i in (("w", 2), ("t", 3))}
        return pa.table(columns)


def follow(seed, folder):
    """Run a history, and compare every epoch with the model."""
    random = Random(seed)
    model = Model(random)
    path = folder / "index"
    build_index(model.source(), path, directed=model.directed, shards=random.choice([1, 3]))
    before = model.result()
    watching = Monitor(
        path,
        {"q": Watched(model.query)},
        spark=None,
        initial=lambda *_: sum(before.values()),
        output=folder / "output",
        order="s" if model.ordered else None,
        window=Window("t", LENGTH) if model.window else None,
    )
    for epoch in range(random.randint(1, 6)):
        table = model.updates(epoch)
        after = model.result()
        wanted = Counter(after)
        wanted.subtract(before)
        done = watching.apply(table)
        found: Counter = Counter()
        for row in done.table.drop_columns("epoch").to_pylist():
            found[model.canonical(tuple(row.values())[1:])] += row["change"]
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in wanted.items() if v}, (seed, epoch, model.text, table)
        assert done.count == sum(after.values())
        assert done.fate.updates == len(table)
        if random.random() < 0.3:
            check_edges(without_runs(Index.open(path)), model)
        before = after


def check_edges(index, model):
    """The index holds what the model does, and is sound."""
    verify(index)
    trie, dictionary = index.trie("edge", (0, 1)), index.dictionaries["vertex"]
    columns = [dictionary.decode(column).to_pylist() for column in trie.tuples(np.arange(len(trie)))]
    assert set(zip(*columns, strict=True)) == {t for t in model.tuples if len(t) == 2}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(40))
def test_histories_are_those_of_the_model(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", [0, 5, 1 << 16][seed % 3])  # how soon runs are compacted
    reach = [-1, find.MAX_REACH_ON_BATCHES][seed % 2]  # whether loops find what changes, or batches
    monkeypatch.setattr(find, "MAX_REACH_ON_BATCHES", reach)
    monkeypatch.setattr(compact, "MIN_FORGOTTEN_VERTICES", 0)
    with mock.patch.object(loops, "load", interpreted):
        follow(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_thousands_of_histories_are_those_of_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(compact, "MIN_FORGOTTEN_VERTICES", 0)
    with mock.patch.object(loops, "load", interpreted):
        for seed in range(1000, 4000):
            monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", [0, 5, 1 << 16][seed % 3])
            monkeypatch.setattr(find, "MAX_REACH_ON_BATCHES", [-1, 1 << 16][seed % 2])
            (tmp_path / str(seed)).mkdir()
            follow(seed, tmp_path / str(seed))


def updates(*rows, **columns):
    table = {name: [row[i] for row in rows] for i, name in enumerate(("src", "dst", "op"))}
    return pa.table(table | columns)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"src": [1], "op": ["+"]}), "has no columns src and dst"),
        (pa.table({"a": [1], "b": [2], "op": ["+"]}), "has no columns src and dst"),
        (updates((1, 2, "plus")), "is 'plus' in row 1"),
        (updates((1, None, "+")), "is NULL in row 1"),
        (updates(("x", "y", "+")), "the ids of the graph are int64"),
        (pa.table({"src": [1], "dst": [2], "op": [True]}), "is bool"),
    ],
)
def test_updates_that_make_no_sense_are_refused_and_change_nothing(table, said):
    graph = bj.Graph(pa.table({"src": [1], "dst": [2]}))
    with pytest.raises(SourceError, match=said):
        graph.apply(table, "q(a,b) := edge(a,b)")
    epoch = graph.apply(updates((2, 1, "+")), "q(a,b) := edge(a,b)", listing=False)
    assert (epoch.number, epoch.created) == (1, 1)


def test_queries_over_stored_results_are_watched():
    graph = bj.Graph(pa.table({"src": [1, 2, 1], "dst": [2, 3, 3]}))
    graph.materialize("tri", "triangle")
    epoch = graph.apply(updates((3, 4, "+"), (1, 4, "+")), "q(a,b,c) := tri(a,b,c)")
    assert [tuple(row.values())[1:] for row in epoch.table.to_pylist()] == [(1, 1, 3, 4)]
    assert graph.count("q(a,b,c) := tri(a,b,c)") == 2


@pytest.mark.spark
@pytest.mark.parametrize(
    ("strategy", "alone"), [("shared", find.MAX_REACH_HERE), ("shared", -1), ("partitioned", -1), ("balanced", -1)]
)
def test_static_queries_see_what_was_applied(strategy, alone, spark, monkeypatch):
    monkeypatch.setattr(find, "MAX_REACH_HERE", alone)  # below zero, the tasks of Spark find what changes
    monkeypatch.setattr(find, "MAX_REACH_ON_BATCHES", min(alone, find.MAX_REACH_ON_BATCHES))
    random = np.random.default_rng(3)
    drawn = random.integers(0, 60, (1500, 2))
    with bj.Graph(pa.table({"src": drawn[:900, 0], "dst": drawn[:900, 1]}), directed=False, spark=spark) as graph:
        for part in (drawn[900:1200], drawn[1200:]):
            gone = drawn[: len(part) // 2]
            rows = np.concatenate([part, gone])
            table = pa.table({"src": rows[:, 0], "dst": rows[:, 1], "op": ["+"] * len(part) + ["-"] * len(gone)})
            epoch = graph.apply(table, "triangle", unique=True, strategy=strategy)
            signs = epoch.table["change"].to_numpy()
            assert ((signs > 0).sum(), (signs < 0).sum()) == (epoch.created, epoch.destroyed)
            assert epoch.count == graph.count("triangle", unique=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": -1}, "workers is -1; it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"batch_size": 1 << 31}, "batch_size is 2147483648; it must be at most 1,073,741,824"),
        ({"workers": 2.5}, "workers is 2.5; it must be a whole number"),
        ({"workers": True}, "workers is True; it must be a whole number"),
    ],
)
def test_numbers_that_cannot_be_are_refused(options, message, tmp_path):
    build_index(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    with pytest.raises(BigjoinError, match=re.escape(message)):
        graph.apply(updates((9, 8, "+")), "triangle", strategy="balanced", **options)
    assert graph.edge_count == 3


def watching(path, text="q(a,b) := edge(a,b)", **options):
    return Monitor(path, {"q": Watched(parse(text), listing=False)}, spark=None, initial=lambda *_: 0, **options)


def test_an_epoch_that_is_interrupted_leaves_nothing_begun(tmp_path, monkeypatch):
    build_index(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), tmp_path / "index")
    mine, calls = watching(tmp_path / "index"), []

    def change(trie, *arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        original(trie, *arguments, **options)

    original = ChangingTrie.change
    mine.apply(updates((9, 8, "+")))
    monkeypatch.setattr(ChangingTrie, "change", change)
    with pytest.raises(KeyboardInterrupt):
        mine.apply(updates((1, 3, "+"), (1, 2, "-")))
    assert mine.apply(updates((1, 3, "+"), (2, 1, "+"))).count == 3  # counted from the first epoch on
    assert verify(Index.open(tmp_path / "index")) > 0
    assert len(without_runs(Index.open(tmp_path / "index")).trie("edge", (0, 1))) == 6


def test_tasks_keep_versions_from_one_epoch_to_the_next(tmp_path, monkeypatch):
    """A phase that is pickled gets its versions from files; they advance by one epoch, or are read again after a gap."""
    build_index(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), tmp_path / "index")
    mine, arrived = watching(tmp_path / "index", "q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)"), []
    monkeypatch.setattr(phase, "WORKER_VERSIONS", VersionCache())

    def count_in_a_task(counter, phases, *options):
        if mine.live.index.epoch != 2:  # the third epoch does not reach the task
            phases = pickle.loads(pickle.dumps(phases))
            arrived.append(phases)
        return original(counter, phases, *options)

    original = ChangeCounter.count
    monkeypatch.setattr(ChangeCounter, "count", count_in_a_task)
    epochs = [updates((3, 2, "+"), (2, 1, "+")), updates((1, 3, "+")), updates((1, 2, "-")), updates((1, 2, "+"), (2, 3, "-"))]
    assert [mine.apply(table).count for table in epochs] == [0, 3, 0, 0]
    first, second, fourth = (
        deletions.versions for deletions, insertions in arrived if deletions.versions is insertions.versions
    )
    assert first is second
    assert second is not fourth
    assert fourth is not mine.live.versions


def test_an_epoch_waits_for_who_writes_the_index(tmp_path):
    build_index(pa.table({"src": [1], "dst": [2]}), tmp_path / "index")
    done = Event()

    def write():
        with locked(tmp_path / "index"):
            done.set()
            time.sleep(0.3)

    other = Thread(target=write)
    other.start()
    done.wait()
    assert watching(tmp_path / "index").apply(updates((2, 1, "+"))).number == 1
    other.join()


def test_space_follows_what_is_there(tmp_path, monkeypatch):
    """A small window moves over many rows and vertices: neither their numbers nor what is written about them pile up."""
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", 100)
    monkeypatch.setattr(compact, "MIN_FORGOTTEN_VERTICES", 100)
    nothing = pa.table({name: pa.array([], pa.int64()) for name in ("src", "dst", "t")})
    build_index(nothing, tmp_path / "index")
    mine = watching(tmp_path / "index", window=Window("t", 2))
    for epoch in range(60):
        ends = np.arange(50) + 50 * epoch
        table = pa.table({"src": ends, "dst": ends + 1, "op": ["+"] * 50, "t": np.full(50, epoch)})
        done = mine.apply(table)
    assert done.count == 100
    domains = mine.live.index.statistics.domains
    assert max(domains.values()) <= 1000, domains
    trie = mine.live.versions.orders["edge", 3][0, 1, 2]
    assert trie.levels[-1][1].used < 10_000


def test_lists_of_rows_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(changing, "MIN_SWEPT_TUPLES", 1000)
    build_index(pa.table({"src": [0] * 300, "dst": [1] * 300, "w": range(300)}), tmp_path / "index")
    mine = watching(tmp_path / "index")
    for number in range(40):
        mine.apply(pa.table({"src": [0], "dst": [1], "op": ["+"], "w": [number]}))
    assert mine.live.versions.orders["edge", 3][0, 1, 2].levels[1][1].used < 3000


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("us"), pa.int64(), pa.float64(), pa.date32()])
def test_a_window_over_any_kind_of_time(kind, tmp_path):
    """NULL never expires; the clock of one column is not that of another."""
    day = {pa.timestamp("ns"): 86_400 * 10**9, pa.timestamp("us"): 86_400 * 10**6}.get(kind, 1)
    first = 20_000 * day
    times = pa.array([first, None, first + day, None], pa.int64())
    times = times.cast(pa.int32()).cast(kind) if kind == pa.date32() else times.cast(kind)
    table = pa.table({"src": [1, 2, 3, 4], "dst": [2, 3, 4, 5], "op": ["+"] * 4, "at": times, "n": [1, 2, 3, 4]})
    build_index(table.drop_columns("op").slice(0, 0), tmp_path / "index")
    length = "1 day" if pa.types.is_timestamp(kind) or kind == pa.date32() else 1
    done = watching(tmp_path / "index", window=Window("at", length)).apply(table)
    assert (done.count, done.fate.late) == (3, 1)
    again = table.set_column(4, "n", pa.array([5, 6, 7, 8]))
    assert watching(tmp_path / "index", window=Window("n", 100)).apply(again).fate.expired == 0


def test_ids_of_text_files_stay_text(tmp_path):
    build_index(pa.table({"src": ["007", "x"], "dst": ["x", "009"]}), tmp_path / "index")
    (tmp_path / "u.csv").write_text("src,dst,op\n009,007,+\n")
    graph = bj.Graph.open(tmp_path / "index")
    assert graph.apply(tmp_path / "u.csv", "q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)").created == 3


def test_an_index_that_changes_can_be_written_again_and_joined(tmp_path):
    build_index(pa.table({"src": [1, 2], "dst": [2, 3]}), tmp_path / "index")
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "1.csv").write_text("src,dst,op\n3,1,+\n")
    watch_folder(watching(tmp_path / "index"), tmp_path / "u", once=True)
    with bj.Relations({"r": str(tmp_path / "index")}) as relations:
        index = relations._index_for(parse("q(a,b) := r(a,b)"))
        assert index.statistics.relations["r"].tuples == 3
    watch_folder(watching(tmp_path / "index"), tmp_path / "u", once=True)
    build_index(tmp_path / "index", tmp_path / "index", shards=3)
    assert watch_folder(watching(tmp_path / "index"), tmp_path / "u", once=True) == 0
    assert Index.open(tmp_path / "index").epoch == 1


def test_a_function_that_fails_is_told_apart_from_the_index(tmp_path):
    build_index(pa.table({"src": [1], "dst": [2]}), tmp_path / "index")

    def refuse(epoch):
        raise ConnectionRefusedError("no alarm today")

    with pytest.raises(BigjoinError, match=r"refuse failed at epoch 1, which is not committed: .*no alarm today"):
        watching(tmp_path / "index").apply(updates((2, 1, "+")), function=refuse)
    assert Index.open(tmp_path / "index").epoch == 0


def test_text_of_files_stays_as_it_is_written(tmp_path):
    table = pa.table({"src": [1, 1, 1], "dst": [2, 2, 2], "note": ["x", "007", "NA"]})
    graph = bj.Graph(table)
    for note, left in (("NA", {"x", "007"}), ("007", {"x"}), ("true", {"x"})):
        (tmp_path / "u.csv").write_text(f"src,dst,op,note\n1,2,-,{note}\n")
        graph.apply(tmp_path / "u.csv", "q(a,b,e.note) := edge(a,b,e)")
        rows = graph.index.statistics.relations["edge"].rows
        assert rows.tuples == len(left)


def test_a_window_over_large_integers_is_exact(tmp_path):
    build_index(pa.table({name: pa.array([], pa.int64()) for name in ("src", "dst", "t")}), tmp_path / "index")
    first = 1_700_000_000_000_000_001
    table = updates((1, 2, "+"), (2, 3, "+"), t=[first, first - 100])
    done = watching(tmp_path / "index", window=Window("t", "100")).apply(table)
    assert (done.fate.inserted, done.fate.late) == (1, 1)
    with pytest.raises(BigjoinError, match="above zero"):
        watching(tmp_path / "index", window=Window("t", 0)).apply(table)


def test_small_mistakes_are_told(tmp_path):
    graph = bj.Graph(pa.table({"src": [1], "dst": [2]}))
    with pytest.raises(SourceError, match="names the relation 'zz'"):
        graph.apply(updates((5, 6, "+"), relation=["zz"]))
    with pytest.raises(QueryError, match="is a column of every watch's output"):
        graph.apply(updates((5, 6, "+")), "q(change, b) := edge(change, b)")
    with pytest.raises(SourceError, match="two columns of one name"):
        graph.apply(pa.table([[1], [2], ["+"], [1]], names=["src", "dst", "op", "src"]))
    epoch = graph.apply(
        updates(at=[]).cast(pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("op", pa.string()), ("at", pa.null())])),
        order="at",
    )
    assert epoch.number == 1


@pytest.mark.parametrize(("flags", "stars"), [({}, pow), ({"distinct": True}, perm), ({"unique": True}, comb)])
@pytest.mark.parametrize("leaves", [pytest.param(5, marks=pytest.mark.slow), 8])
def test_stars_at_a_hub_are_counted_without_listing_them(leaves, flags, stars):
    """An edge at a hub makes more stars than anybody could list: the leaves are counted by themselves."""
    hub = 300
    graph = bj.Graph(pa.table({"src": [0] * hub, "dst": list(range(1, hub + 1))}))
    rows = updates((0, hub + 1, "+"), (0, hub + 2, "+"), (0, 1, "-"))
    epoch = graph.apply(rows, f"{leaves}-star", listing=False, **flags)
    before, between, after = (stars(degree, leaves) for degree in (hub, hub - 1, hub + 1))
    assert (epoch.destroyed, epoch.created, epoch.count) == (before - between, after - between, after)


def star(leaves):
    return pa.table({"src": [0] * leaves, "dst": list(range(1, leaves + 1))})


@pytest.mark.parametrize("there", [0, 300])
def test_a_count_that_would_take_hours_is_refused_before_it_begins(there):
    """The leaves of an induced star depend on each other: at a hub of 300, each of five has 300 candidates."""
    graph = bj.Graph(star(there).cast(pa.schema([("src", pa.int64()), ("dst", pa.int64())])))
    rows = updates(*((0, leaf, "+") for leaf in range(there + 1, 302)))
    begun = time.monotonic()
    with pytest.raises(
        BigjoinError, match=r"counting 5-star.* about 2\.[34]e\+12 candidates, and the limit is 6\.9e\+10: .*BIGJOIN_MOST_CAND"
    ):
        graph.apply(rows, "5-star", listing=False, induced=True)
    assert time.monotonic() - begun < 20
    assert graph.index.epoch == 0
    assert graph.apply(rows, "triangle", listing=False).count == 0  # and nothing is in the way of others


def test_how_much_a_count_may_look_at_can_be_said(monkeypatch):
    """An induced 3-star at a hub of 40 looks at 40 leaves, 40 for each of them, and 40 for each of 40 * 39 pairs."""
    rows = updates((0, 41, "+"))
    monkeypatch.setenv("BIGJOIN_MOST_CANDIDATES", "6e4")
    with pytest.raises(BigjoinError, match=r"about 6\.4e\+04 candidates, and the limit is 6e\+04"):
        bj.Graph(star(40)).apply(rows, "3-star", listing=False, induced=True)
    monkeypatch.setenv("BIGJOIN_MOST_CANDIDATES", "many")
    with pytest.raises(BigjoinError, match="is a number of candidates, such as 1e12, and not 'many'"):
        bj.Graph(star(40)).apply(rows, "3-star", listing=False, induced=True)
    monkeypatch.setenv("BIGJOIN_MOST_CANDIDATES", "7e4")
    epoch = bj.Graph(star(40)).apply(rows, "3-star", listing=False, induced=True)
    assert epoch.count == perm(41, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("columns", [(), ("amount",), ("time", "more")])
@pytest.mark.parametrize("signs", ["+-", "-+", "--", "+-+", ""])
def test_updates_may_lack_the_columns_of_edges(signs, columns, window, tmp_path):
    """In any order of insertions and deletions: what is not given fits any edge that is deleted, and is NULL in a new one."""
    build_index(pa.table({"src": [1, 1, 2], "dst": [2, 2, 3], "amount": [5, 6, 7], "time": [1, 2, 3]}), tmp_path / "index")
    rows = [(7 + i, 8 + i, "+") if sign == "+" else (1 + i % 2, 2 + i % 2, "-") for i, sign in enumerate(signs)]
    given = {"amount": [5] * len(rows), "time": [4 if sign == "+" else None for sign in signs], "more": ["x"] * len(rows)}
    table = updates(*rows, **{name: given[name] for name in columns})
    kinds = {name: pa.string() if name in ("op", "more") else pa.int64() for name in table.column_names}
    table = table.cast(pa.schema(kinds))
    query = {"q": Watched(parse("q(a, b, e, e.amount, e.time) := edge(a, b, e)"))}
    done = Monitor(
        tmp_path / "index",
        query,
        spark=None,
        initial=lambda *_: 3,
        window=Window("time", window) if window is not None else None,
    ).apply(table)
    there = [(1, 2, 0, 5, 1), (1, 2, 1, 6, 2), (2, 3, 2, 7, 3)]
    ends = {row[:2] for row in rows if row[2] == "-"}
    gone = {edge for edge in there if edge[:2] in ends and ("amount" not in columns or edge[3] == 5)}
    amount, time = 5 if "amount" in columns else None, 4 if "time" in columns else None
    came = {(*row[:2], 3 + i, amount, time) for i, row in enumerate(row for row in rows if row[2] == "+")}
    found = {(row.pop("epoch"), *row.values()) for row in done.table.to_pylist()}
    assert found == {(1, -1, *edge) for edge in gone} | {(1, 1, *edge) for edge in came}
    assert done.count == len(there) - len(gone) + len(came)
