"""Counts of changes, in each of the ways there are: they are those of matrices, and functions go on from epoch to epoch."""

from __future__ import annotations

import pickle
import threading
import time
from math import comb, perm

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.compiled import following
from bigjoin.compiled.following import FollowingCount
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_threads
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.streaming import count_changes
from bigjoin.streaming.find import Execution
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched

EPOCHS = 14
STARS = [({}, lambda d: d**7), ({"distinct": True}, lambda d: perm(d, 7)), ({"unique": True}, lambda d: comb(d, 7))]
QUERIES = (
    "q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)",
    "q(a,b,c,d) := edge(a,b), edge(a,c), edge(a,d), edge(b,c), edge(b,d), edge(c,d)",
    "q(a,b,c,d) := edge(a,b), edge(c,b), edge(c,d), edge(a,d)",
    "q(a,b,c,d) := edge(a,b), edge(a,c), edge(a,d)",
    "q(a,b,c) := edge(a,b), edge(b,c), not edge(c,a)",
    "q(a,b,c,d) := edge(a,b), edge(b,c), edge(c,d), not edge(a,c), not edge(d,b)",
    "q(a,b) := edge(a,b), edge(b,a)",
    "q(a,b,c) := edge(a,a), edge(a,b), edge(b,c)",
)
WAYS = (Execution.BATCHED, Execution.COMPILED, Execution.ALL_MATCHES)


def contracted(query, positive, negated):
    """Return the number of matches, as a sum of products over matrices."""
    names = {a: chr(ord("a") + i) for i, a in enumerate(query.attributes)}
    terms = ",".join("".join(names[a] for a in atom.attributes) for atom in query.atoms)
    matrices = [1 - negated if atom.negated else positive for atom in query.atoms]
    return int(np.einsum(f"{terms}->", *(matrix.astype(np.int64) for matrix in matrices), optimize="greedy"))


def changes_of(query, old, new):
    """Return how many matches go and come: what is left half way has all that is in both, and nothing that is in either."""
    left = contracted(query, old & new, old | new)
    return contracted(query, old, old) - left, contracted(query, new, new) - left


def drawn(random, held, size):
    """Return a table of updates, and the matrix after them; ids up to a size may occur."""
    after = held.copy()
    pairs = np.argwhere(held)
    gone = pairs[random.random(len(pairs)) < 0.15]
    after[gone[:, 0], gone[:, 1]] = False
    come = random.integers(0, size, (int(random.integers(1, 12)), 2))
    come = come[~held[come[:, 0], come[:, 1]]]
    come = np.unique(come, axis=0)
    after[come[:, 0], come[:, 1]] = True
    ends = np.concatenate([gone, come])
    return pa.table({"src": ends[:, 0], "dst": ends[:, 1], "op": ["-"] * len(gone) + ["+"] * len(come)}), after


@pytest.mark.usefixtures("loops_as_python")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("text", QUERIES)
def test_changes_are_those_of_matrices(text, way, tmp_path):
    """A graph that grows from two vertices to thirty, so that scratch space has to be made anew now and then."""
    query, random = parse(text), np.random.default_rng(len(text) + WAYS.index(way))
    held = np.zeros((30, 30), np.bool_)
    held[0, 1] = True
    index = build_index(pa.table({"src": [0], "dst": [1]}), tmp_path / "index", directed=True)
    before = contracted(query, held, held)
    monitor = Monitor(
        index.path, {"q": Watched(query, listing=False)}, spark=None, initial=lambda *_: before, strategy="local", execution=way
    )
    for epoch in range(EPOCHS):
        table, after = drawn(random, held, min(30, 4 + 3 * epoch))
        done = monitor.apply(table)
        assert (done.destroyed, done.created) == changes_of(query, held, after)
        assert done.count == contracted(query, after, after)
        held = after


@pytest.mark.usefixtures("loops_as_python")
def test_a_function_is_written_once_and_goes_on(tmp_path, monkeypatch):
    written = []

    class Noted(FollowingCount):
        def __init__(self, *arguments):
            written.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(count_changes, "FollowingCount", Noted)
    ring = np.arange(64)
    path = tmp_path / "index"
    build_index(pa.table({"src": ring, "dst": (ring + 1) % 64}), path, directed=True)
    watched = {"q": Watched(parse(QUERIES[0]), listing=False)}
    monitor = Monitor(path, watched, spark=None, initial=lambda *_: 0, strategy="local", execution=Execution.COMPILED)
    chords = [(int(a), int((a + 62) % 64)) for a in ring[:20]]
    counts = [monitor.apply(pa.table({"src": [a], "dst": [b], "op": ["+"]})).count for a, b in chords]
    assert counts == [3 * (n + 1) for n in range(20)]
    assert len(written) <= 2 * 3  # one for each delta query, and again when a list has become longer


def test_room_is_for_what_grows():
    assert [following._with_room(size) for size in (0, 1, 2, 3, 4, 5, 1000)] == [1 << 14] * 7
    assert [following._with_room(size) for size in (1 << 14, (1 << 14) + 1, 100_000)] == [1 << 14, 1 << 15, 1 << 17]


@pytest.mark.parametrize(("flags", "stars"), STARS)
def test_stars_beyond_64_bits_are_counted_epoch_after_epoch(flags, stars, monkeypatch):
    """At a hub of a thousand leaves, which come and go one at a time: counts are remainders by primes, put together."""
    monkeypatch.setattr(count_changes, "MAX_PREFIXES_ON_BATCHES", 100)
    hub = 1000
    graph = bj.Graph([(0, leaf) for leaf in range(1, hub + 1)], directed=True)
    for degree, op in ((hub + 1, "+"), (hub, "-"), (hub + 1, "+")):
        epoch = graph.apply([{"src": 0, "dst": hub + 1, "op": op}], "7-star", listing=False, strategy="local", **flags)
        assert epoch.count == stars(degree)


def test_all_matches_are_counted_where_that_is_cheaper(monkeypatch):
    """Chosen by estimate: diamonds of a bipartite graph through a few hubs, half of which comes in one epoch."""
    chosen = []
    original = count_changes.ChangeCounter._in_all

    def in_all(self, *arguments):
        chosen.append(True)
        return original(self, *arguments)

    monkeypatch.setattr(count_changes.ChangeCounter, "_in_all", in_all)
    monkeypatch.setattr(count_changes, "MAX_UNSAMPLED", 0)
    random = np.random.default_rng(0)
    there = random.random((300, 300)) < 0.3
    come = ~there & (random.random((300, 300)) < 0.2)
    ends = np.argwhere(there)
    graph = bj.Graph(pa.table({"src": ends[:, 0], "dst": ends[:, 1]}), directed=True)
    rows = np.argwhere(come)
    table = pa.table({"src": rows[:, 0], "dst": rows[:, 1], "op": ["+"] * len(rows)})
    query = "q(a,b,c,d) := edge(a,b), edge(c,b), edge(c,d), edge(a,d)"
    epoch = graph.apply(table, query, listing=False, strategy="local")
    assert epoch.count == contracted(parse(query), there | come, there | come)
    assert chosen
    assert isinstance(graph.index, Index)


@pytest.mark.usefixtures("loops_as_python")
def test_rows_that_an_epoch_deletes_count_for_what_it_destroys():
    """Six of three thousand parallel edges: the bound on the count has to know how many there were before."""
    many, names = 3000, "tuvwxy"
    graph = bj.Graph(pa.table({"src": [0] * many, "dst": [1] * many, "w": range(many)}), directed=True)
    query = f"q(a,b,{','.join(names)}) := {', '.join(f'edge(a,b,{name})' for name in names)}"
    options = {"listing": False, "strategy": "local"}
    assert graph.apply([{"src": 5, "dst": 6, "op": "+", "w": 0}], query, **options).count == many**6 + 1
    gone = pa.table({"src": [0] * (many - 1), "dst": [1] * (many - 1), "w": range(1, many), "op": ["-"] * (many - 1)})
    epoch = graph.apply(gone, query, **options)
    assert (epoch.destroyed, epoch.created, epoch.count) == (many**6 - 1, 0, 2)


def test_a_monitor_travels_after_it_has_counted(tmp_path):
    path = tmp_path / "index"
    build_index(pa.table({"src": [0], "dst": [1]}), path, directed=True)
    watched = {"q": Watched(parse(QUERIES[0]), listing=False)}
    monitor = Monitor(path, watched, spark=None, initial=int_zero, strategy="local", execution=Execution.COMPILED)
    monitor.apply(pa.table({"src": [1], "dst": [2], "op": ["+"]}))
    there = pickle.loads(pickle.dumps(monitor))
    assert there.apply(pa.table({"src": [2], "dst": [0], "op": ["+"]})).count == 3


def int_zero(*_):
    return 0


def test_an_interrupt_does_not_wait_for_threads_that_were_not_started(monkeypatch):
    start, started = threading.Thread.start, []

    def second_fails(thread):
        started.append(thread)
        if len(started) == 2:
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", second_fails)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_threads(lambda item: item, [1, 2], threads=2)
    assert time.monotonic() - began < 30
