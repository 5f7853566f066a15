"""The balanced strategy: theorem 3.4 on a cluster in this process, under skew that breaks others, and the strategy in Spark."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.dataflow import lookups
from bigjoin.dataflow.forecast import forecast
from bigjoin.dataflow.lookups import Dealing, ProposeLookup, ask, ask_ranges, entries_of_workers, gathered
from bigjoin.dataflow.managed import Manager
from bigjoin.dataflow.owned_seeds import tuples_of_workers
from bigjoin.dataflow.packing import pack, pack_arrays, unpack, unpack_arrays
from bigjoin.dataflow.schedule import DealtSchedule, Waiting
from bigjoin.dataflow.waiting import WaitingFile, read_waiting
from bigjoin.errors import BigjoinError
from bigjoin.generators import Funnel, Hubs, Theory
from bigjoin.index.runs import read_deltas
from bigjoin.index.versions import versions_of
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.joins.blocks import Counts, join
from bigjoin.joins.extender import BoundExtender
from bigjoin.joins.phase import Phase
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.planner.agm import agm_bound
from bigjoin.relations import Relations
from bigjoin.spark import balanced
from bigjoin.spark.balanced import BalancedRounds, BalancedTask
from bigjoin.spark.choose import by_skew
from bigjoin.spark.exchange import RECEIPT, ROW
from bigjoin.spark.job import Job
from bigjoin.streaming import commit
from bigjoin.streaming.count_changes import ChangeCounter
from bigjoin.streaming.find import FoundChanges, work_of
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched
from tests.dataflow import Balanced, Simulated
from tests.test_partitioned import scattered

SIZES = (10, 1, 25, 100, 3, 51)

LOG = 40
"""Bits of the input times the largest output, about: the other bound of theorem 3.4 on B' / w."""


def table_of(family):
    columns = [np.concatenate(parts) for parts in zip(*map(family.edges, range(family.chunks)), strict=True)]
    return pa.table(dict(zip(("src", "dst"), columns, strict=True)))


def funnel(folder, workers):
    """Every triangle goes through one vertex."""
    edges = workers * workers * 20
    index = build_index(table_of(Funnel(2001, edges)), folder / "index")
    return index, plan(parse("triangle"), index.statistics), edges - 2000


def hubs(folder, workers):
    """Some vertices are next to all others."""
    family = Theory((4, 5, 16, 25) if workers > 16 else (40, 50))
    index = build_index(table_of(family), folder / "index", directed=False)
    leaves = np.array(family.stars)
    triangles = (np.prod(3 * leaves + 1) - 3 * np.prod(leaves + 1) + 2) // 6
    return index, plan(parse("triangle"), index.statistics), 6 * int(triangles)


def shared_projection(_, workers):
    """All prefixes (a, b) have the same b."""
    many, each = 50 * workers, 20
    a = np.arange(many)
    c = (a[:, None] * 7 + np.arange(each)) % 1000
    tables = {
        "r": pa.table({"a": a, "b": np.zeros(many, np.int64)}),
        "s": pa.table({"b": np.zeros(500, np.int64), "c": np.arange(500)}),
        "t": pa.table({"a": np.repeat(a, each), "c": c.ravel()}),
    }
    return *related(tables), int((c < 500).sum())


def adversarial(_, workers):
    """Few keys, and all workers ask for the same: candidates (a, b, c) with any a, five b and as many c as B' has room for."""
    many, keys = 3 * workers, 4 * workers * max(workers, LOG) // 5
    a, c = np.arange(many), np.arange(keys)
    tables = {
        "r": pa.table({"a": np.repeat(a, 5), "b": np.tile(np.arange(5), many)}),
        "s": pa.table({"b": np.repeat(np.arange(5), 2 * keys), "c": np.tile(np.arange(2 * keys), 5)}),
        "t": pa.table({"a": np.repeat(a, keys), "c": np.tile(3 * c, many)}),
    }
    return *related(tables), many * 5 * int((3 * c < 2 * keys).sum())


def related(tables):
    query = parse("q(a, b, c) := r(a, b), s(b, c), t(a, c)")
    index = Relations(tables)._index_for(query)
    return index, plan(query, index.statistics, order=("a", "b", "c"))


SKEWED = [funnel, hubs, shared_projection, adversarial]


# Theorem 3.4


@pytest.mark.parametrize("workers", [16, 64])
@pytest.mark.parametrize("skew", SKEWED)
def test_no_worker_is_asked_more_than_its_share_under_any_skew(skew, workers, tmp_path):
    index, chosen, count = skew(tmp_path, workers)
    size = sum(relation.tuples for relation in index.statistics.relations.values())
    bound = max(workers, log2(size * agm_bound(chosen.query, index.statistics)))
    batch_size = int(4 * workers * bound)
    run = Balanced(chosen, index, tmp_path, workers=workers, tasks=2, batch_size=batch_size).run()
    assert run.count == count
    for kind, dealt, load in run.loads:
        assert load.max() <= 1.2 * max(load.mean(), dealt) + workers, kind
        assert load.sum() <= len(chosen.steps[0].extenders) * workers * batch_size
    for dealt, answered in run.answers:
        assert answered.max() <= len(chosen.steps[0].extenders) * dealt
    assert run.sent == sum(int(load.sum()) for _, _, load in run.loads) + sum(int(a.sum()) for _, a in run.answers) + run.ranges
    lopsided = Simulated(chosen, index, tmp_path, workers=workers, tasks=2, batch_size=1 << 20, budget=1 << 24).run()
    assert lopsided.count == count
    assert lopsided.load.max() > 1.9 * lopsided.load.mean()
    assert run.sent <= 5 * lopsided.sent
    path = sum(int(load.max()) for _, _, load in run.loads)
    assert path < lopsided.load.max()


def test_the_worst_that_an_adversary_can_ask():
    """All workers ask for the same keys, as many as B': what the proof calls weights of w for T / w keys."""
    for workers in (16, 64):
        asked = 4 * workers * max(workers, LOG)
        load = np.zeros(workers, np.int64)
        for _ in range(workers):
            columns = np.arange(asked, dtype=np.uint32)[None] * np.uint32(workers)
            ask(columns, Dealing(workers, 2, 5), load)
        assert load.sum() == workers * asked
        assert load.max() <= 1.2 * load.mean()


def test_batches_keep_the_bounds_of_the_proof(tmp_path):
    """The simulation asserts that deals are even, that a step gets at most 2B and has at most 4B."""
    index = scattered(tmp_path, vertices=40, edges=500)
    chosen = plan(parse("4-clique"), index.statistics)
    run = Balanced(chosen, index, tmp_path / "index", workers=7, batch_size=50).run()
    assert run.count == Simulated(chosen, index, tmp_path / "index").run().count > 0
    full = [dealt for dealt in run.dealt if sum(dealt) == 7 * 50]
    assert len(full) > 20
    assert all(set(dealt) == {50} for dealt in full)
    assert 0 < run.schedule.most_waiting <= 2


def test_no_worker_holds_the_list_of_a_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(lookups, "CHUNK_TUPLES", 1000)  # which cuts lists
    index = build_index(table_of(Hubs(5000, 30_000, hubs=2)), tmp_path / "index", directed=False)
    trie = index.trie("edge", (0, 1))
    for workers in (16, 64):
        held = entries_of_workers(trie, Dealing(workers, 2, 9))
        assert held.sum() == entries(trie)
        assert held.max() <= 1.2 * held.mean()
        assert tuples_of_workers(trie, workers).max() > 2 * len(trie) / workers


# What auto expects


@pytest.mark.parametrize("workers", [16, 64])
@pytest.mark.parametrize("skew", SKEWED)
def test_the_forecast_is_near_what_happens(skew, workers, tmp_path):
    index, chosen, _ = skew(tmp_path, workers)
    expected = forecast(bind(chosen, index), workers)
    run = Simulated(chosen, index, tmp_path, workers=workers, tasks=2, batch_size=1 << 20, budget=1 << 24).run()
    assert expected.skew == pytest.approx(run.load.max() / run.load.mean(), rel=0.2)
    assert expected.mean >= 0.95 * run.load.mean()  # it does not know of what need not travel


def test_auto_deals_out_what_is_hot(tmp_path):
    index, chosen, _ = hubs(tmp_path, 64)
    strategy, why = by_skew(chosen, index, 64)
    assert strategy == "heavy-light"
    assert "busiest would get 2.9 times its share" in why
    assert by_skew(chosen, index, 1)[0] == "partitioned"


def test_auto_deals_out_everything_where_keys_are_hot_that_have_few_tuples():
    """Each b has one c, so no c has much of a relation; but as there are few b, each c is asked about much in the last step."""
    many, keys, each = 2000, 4, 30
    a, b = np.arange(many), np.arange(keys)
    others = np.arange(keys, 100_000)
    tables = {
        "r": pa.table({"a": np.repeat(a, keys), "b": np.tile(b, many)}),
        "s": pa.table({"b": np.concatenate([b, others]), "c": np.concatenate([b, others])}),
        "t": pa.table(
            {"c": np.concatenate([np.repeat(b, each), others]), "d": np.concatenate([np.tile(np.arange(each), keys), others])}
        ),
        "u": pa.table({"a": np.repeat(a, 20), "d": np.tile(np.arange(20), many)}),
    }
    query = parse("q(a, b, c, d) := r(a, b), s(b, c), t(c, d), u(a, d)")
    index = Relations(tables)._index_for(query)
    chosen = plan(query, index.statistics, order=("a", "b", "c", "d"))
    strategy, why = by_skew(chosen, index, 64)
    assert strategy == "balanced"
    assert "owners of c" in why
    assert "and pays" in why
    assert by_skew(chosen, index, 4)[0] == "partitioned"


# The parts


def test_a_deal_is_even_and_its_remainder_rotates():
    schedule = DealtSchedule((5, 1005), 1, workers=7, batch_size=30)
    extra = np.zeros(7, np.int64)
    at = 5
    while (batch := schedule.next_round()) is not None:
        sizes = np.array([sum(part.last - part.first for part in parts) for parts in batch.work])
        assert sizes.max() - sizes.min() <= 1
        for (part,) in filter(None, batch.work):
            assert part.first == at
            at = part.last
    assert at == 1005
    files = [Waiting(str(n), 0, 0, 0, 3, n, 1, n) for n in SIZES]
    schedule.add(files, 0)
    schedule.batch_size = 5
    taken = []
    at = []
    while (batch := schedule.next_round()) is not None:
        sizes = np.array([sum(part.last - part.first for part in parts) for parts in batch.work])
        extra += sizes - sizes.min()
        at.append(tuple(np.flatnonzero(sizes > sizes.min())))
        assert sizes.max() - sizes.min() <= 1
        assert sum(len(parts) for parts in batch.work) <= len(files) + 7
        taken += [(part.file, k) for parts in batch.work for part in parts for k in range(part.first, part.last)]
    assert taken == [(str(n), k) for n in SIZES for k in range(n)]
    assert extra.max() - extra.min() <= 1
    assert schedule.turn == (1000 + sum(SIZES)) % 7  # the next that gets one more


def test_a_batch_begins_when_all_workers_have_work():
    schedule = DealtSchedule((0, 100), 2, workers=4, batch_size=10)
    assert schedule.next_round().step is None
    schedule.add([Waiting("a", 0, 0, 0, 5, 39, 1, 39)], 0)
    assert schedule.next_round().step is None  # 39 are not 10 for each of 4
    schedule.add([Waiting("b", 0, 0, 0, 5, 2, 1, 2), Waiting("c", 1, 0, 0, 5, 39, 1, 39)], 0)
    batch = schedule.next_round()
    assert (batch.step, batch.size, batch.spent) == (0, 40, ("a",))
    schedule.add([Waiting("d", 1, 0, 0, 5, 1, 1, 1)], 0)
    assert schedule.next_round().step == 1
    assert schedule.next_round().step is None  # the last seeds
    assert schedule.next_round().step == 0
    assert schedule.next_round() is None
    assert schedule.share == 1.0


def test_ranges_wait_in_files_and_are_cut_anywhere(tmp_path):
    counts = [3, 1, 4, 1, 5, 9, 2, 6]
    file = WaitingFile(tmp_path, 0, 0, 0)
    for n in range(0, 8, 3):
        some = np.arange(n, min(n + 3, 8))
        starts = 100 * some.astype(np.int64)
        block = Counts(some[None].astype(np.uint32), np.array(counts)[some], some.astype(np.uint8), starts)
        assert pack(join([unpack(pack(block))])) == pack(block)
        file.put(block)
    file.close()
    everything = [(n, n, 100 * n + k) for n, count in enumerate(counts) for k in range(count)]
    for first in range(0, 31, 2):
        for last in range(first, 32, 3):
            found = []
            for cut in read_waiting(file.waiting.file, first, last):
                assert (cut.counts > 0).all()
                for row in zip(cut.prefixes[0].tolist(), cut.proposers.tolist(), cut.starts, cut.counts, strict=True):
                    found += [(row[0], row[1], row[2] + k) for k in range(row[3])]
            assert found == everything[first:last]


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_equal_lookups_travel_once(kind):
    random = np.random.default_rng(1)
    columns = random.integers(0, 12, (3, 5000)).astype(kind)
    load = np.zeros(5, np.int64)
    asked = ask(columns, Dealing(5, 2, 3), load)
    sent = [tuple(row) for request in asked.requests for row in zip(*(c.tolist() for c in request), strict=True)]
    assert len(sent) == len(set(sent)) == load.sum() == len({tuple(row) for row in columns.T.tolist()})
    assert [sent[slot] for slot in asked.slots] == [tuple(row) for row in columns.T.tolist()]
    assert [len(request[0]) for request in asked.requests] == list(asked.sizes) == [load[0::2].sum(), load[1::2].sum()]
    for arrays in ((columns[0], columns[1][:0]), (np.packbits(columns[0] > 3),), ()):
        back = unpack_arrays(pack_arrays(arrays))
        assert [(a.dtype, a.tolist()) for a in back] == [(a.dtype, a.tolist()) for a in arrays]


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
def test_extensions_are_resolved_by_all_workers_alike(workers, tmp_path):
    index = scattered(tmp_path, vertices=12, edges=700)
    trie = index.trie("edge", (0, 1))
    dealing, load = Dealing(workers, min(3, workers), 7), np.zeros(workers, np.int64)
    keys = np.array([[3, 1, 3, 0, 1, 3, 9]], np.uint32)
    starts = np.array([5, 0, 2, 11, 3, 4, 1])
    ends = np.minimum(np.array([9, 4, 6, 12, 8, 5, 3]), np.diff(trie.offsets)[keys[0]])
    lookup = ProposeLookup(BoundExtender(trie, (0,), 1), 0)
    asked = ask_ranges(keys, starts, ends, dealing, load)
    wanted = {(key, k) for key, a, b in zip(keys[0].tolist(), starts, ends, strict=True) for k in range(a, b)}
    assert load.sum() == len(wanted)
    answers = {}
    for task, request in enumerate(asked.requests):
        if len(request[0]):
            (answers[task],) = lookup.answer(request, dealing, task, np.uint32)
            assert len(answers[task])  # only those are asked who know something
    codes = gathered(asked, answers, dealing)
    assert len(codes) == len(wanted)
    for slot, key, a, b in zip(asked.slots, keys[0], starts, ends, strict=True):
        head = trie.offsets[key]
        assert codes[slot : slot + b - a].tolist() == trie.values[head + a : head + b].tolist()


def test_nobody_can_choose_places_that_lie_with_one_worker():
    """Each w-th extension of a list, and the first of many lists."""
    workers, many = 16, 3000
    for keys, places in ((np.zeros(many), np.arange(many) * workers), (np.arange(many) * workers, np.zeros(many))):
        load = np.zeros(workers, np.int64)
        starts = places.astype(np.int64)
        ask_ranges(keys.astype(np.uint32)[None], starts, starts + 1, Dealing(workers, 2, 5), load)
        assert load.sum() == many
        assert load.max() <= 1.4 * load.mean()


def stages(job, batch, *, cut=1000, write=None):
    """Run the stages of a round task by task, without Spark, twice each; give what they send, and at the end the receipts."""
    rows = []
    for stage in range(BalancedRounds(job, None).exchanges(batch) + 1):
        sent = []
        for task in range(job.tasks):
            arriving = sorted((r for r in rows if r["task"] == task), key=lambda r: (r["source"], r["sequence"]))
            again = [_stage(job, batch, stage, task, arriving, size) for size in (cut, 1)]
            assert _without_names(again[0]) == _without_names(again[1])
            sent += again[1]
        if write is not None:
            write(stage, sent)
        rows = sent
    return [json.loads(row["payload"]) for row in rows if row["visit"] == RECEIPT]


def _stage(job, batch, stage, task, arriving, size):
    mine = BalancedTask(job, batch, stage)
    batches = (pa.RecordBatch.from_pylist(arriving[i : i + size], ROW) for i in range(0, len(arriving), size))
    given = mine.begin(task) if stage == 0 else mine.advance(batches)
    return pa.Table.from_batches(list(given), ROW).to_pylist()


def _without_names(rows):
    """Rows as they are sent again: states by what they hold, receipts by what they tell but time and names."""
    found = []
    for row in rows:
        payload = row["payload"]
        if row["visit"] == balanced.STATE and Path(payload.decode()).exists():
            payload = Path(payload.decode()).read_bytes()
        if row["visit"] == RECEIPT:
            said = json.loads(payload)
            if "error" in said:
                continue
            files = [Path(file["file"]).read_bytes() for file in said["waiting"]]
            payload = [files, *(said.get(name) for name in ("prefixes", "candidates", "matches", "load", "dealt", "bytes"))]
        found.append({**row, "payload": payload})
    return found


@pytest.mark.parametrize("piece", [8, 1 << 20])
def test_a_task_that_runs_again_sends_the_same_bytes(piece, tmp_path, monkeypatch):
    monkeypatch.setattr(balanced, "ROW_REQUESTS", piece)
    index = scattered(tmp_path, vertices=30, edges=300)
    chosen = plan(parse("4-clique"), index.statistics)
    job = Job(chosen, index, 7, 3, 60, folder=tmp_path, name="1" * 32)
    schedule = DealtSchedule(job.bound.seed.positions, len(chosen.steps), workers=7, batch_size=60)
    found, rounds = 0, 0
    while (batch := schedule.next_round()) is not None:
        receipts = stages(job, batch, cut=7)
        found += sum(receipt["matches"] for receipt in receipts)
        schedule.add([Waiting(**file) for receipt in receipts for file in receipt["waiting"]], 0)
        rounds += 1
    assert rounds > 3
    assert found == Simulated(chosen, index, tmp_path / "index").run().count > 0


def test_a_task_that_cannot_write_says_where_and_what_to_do(tmp_path, monkeypatch):
    index = scattered(tmp_path, vertices=60, edges=600)
    folder = tmp_path / "full"
    job = Job(plan(parse("triangle"), index.statistics), index, 4, 2, 1000, folder=folder)
    batch = DealtSchedule(job.bound.seed.positions, 1, workers=4, batch_size=1000).next_round()
    said = stages(job, batch)  # to the last stage: nobody waits for what was not written
    assert {receipt["error"] for receipt in said if "error" in receipt} == {"OutputError"}
    assert "full" in said[0]["message"]
    assert "BIGJOIN_SCRATCH" in said[0]["message"]


def entries(trie):
    """Membership, resolution and counts, list by list."""
    nodes = range(trie.nodes_stored) if trie.places is None else trie.places.tolist()
    lengths = [int(trie.offsets[node + 1] - trie.offsets[node]) for node in nodes]
    return sum(2 * length + (length > 0) for length in lengths)


class Versioned(Balanced):
    """Tasks that answer from an index of their own."""

    others = ()

    def answering(self, task, manager):
        plan = self.others[task % len(self.others)]
        return Manager(plan, manager.number, self.dealing, self, counting=self.counting)


def test_tasks_may_know_the_same_changing_lists_by_other_places(tmp_path, monkeypatch):
    """A process that has seen all epochs wrote its lists at other places than one that has read them from merged runs."""
    random = np.random.default_rng(7)
    pairs = random.integers(0, 40, (900, 2))
    build_index(pa.table({"src": pairs[:300, 0], "dst": pairs[:300, 1]}), tmp_path / "index", directed=False)
    query = parse("triangle", unique=True)
    mine = Monitor(tmp_path / "index", {"q": Watched(query, listing=False)}, spark=None, initial=lambda *_: 0)
    compared, differ = [], []

    def find(counter, mine, *_):
        index = mine[0].index
        *runs, last = index.runs
        fresh = versions_of(index, runs)  # as a process that has just begun
        fresh.begin(read_deltas(index, last), index.statistics)
        found = FoundChanges()
        for signed in work_of(counter.plans[0], mine):
            phases = [mine[signed.insert], Phase(fresh, index, signed.insert)]
            wanted = Simulated(signed.dq.plan, phases[0], tmp_path / "index").run().count
            for phase in phases:
                for trie in bind(signed.dq.plan, phase).tries:
                    assert entries_of_workers(trie, Dealing(5, 2, 1)).sum() == entries(trie)
            layouts = [[t.places for t in bind(signed.dq.plan, p).tries if t.places is not None] for p in phases]
            differ.append(any((a != b).any() for a, b in zip(*layouts, strict=True)))
            run = Versioned(signed.dq.plan, phases[0], tmp_path / "index", workers=5, tasks=2)
            run.others = [bind(signed.dq.plan, phase) for phase in phases]
            assert run.run().count == wanted
            compared.append(wanted)
            found.add(wanted * signed.sign * signed.each)
        return found

    monkeypatch.setattr(ChangeCounter, "count", find)
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 2)
    for first in range(300, 900, 100):
        part = pairs[first : first + 100]
        op = np.where(random.random(100) < 0.3, "-", "+")
        mine.apply(pa.table({"src": part[:, 0], "dst": part[:, 1], "op": op}))
    assert sum(compared) > 100
    assert any(differ)


# Through Spark


@pytest.fixture(scope="module")
def graph(spark, tmp_path_factory):
    return bj.Graph.open(scattered(tmp_path_factory.mktemp("graph"), vertices=60, edges=600).path, spark=spark)


@pytest.mark.spark
@pytest.mark.parametrize(("name", "workers"), [("triangle", 1), ("4-clique", 7), ("diamond", 64), ("triangle", 224)])
def test_counts_through_spark(graph, name, workers):
    count = graph.count(name, strategy="balanced", workers=workers, batch_size=4000)
    assert count == graph.count(name, strategy="shared")
    assert (count.strategy, count.workers) == ("balanced", workers)
    stats = count.stats
    assert stats["steps"][-1]["prefixes"] == count
    assert stats["balance"]["dealt"] <= 1
    assert stats["balance"]["new"] <= 2
    assert stats["balance"]["waiting"] <= 4
    assert stats["balance"]["batch"] == workers * 4000
    assert 0 < stats["load"]["mean"] <= stats["load"]["max"] <= stats["critical_path"]
    assert stats["critical_path"] == sum(load["max"] for load in stats["exchange_loads"])
    assert stats["tuples"] == pytest.approx(sum(load["mean"] for load in stats["exchange_loads"]) * workers)
    assert stats["index_tuples"]["mean"] <= stats["index_tuples"]["max"]
    assert stats["bytes"] > 0


@pytest.mark.spark
def test_rows_are_those_of_the_shared_strategy(graph, tmp_path):
    query = "q(a, b, c) := edge(a, b), edge(b, c), edge(c, a), a < b"
    wanted = sorted(map(tuple, graph.find(query).collect()))
    assert wanted
    found = graph.find(query, strategy="balanced", workers=5, batch_size=50)
    assert found.columns == ["a", "b", "c"]
    assert sorted(map(tuple, found.collect())) == wanted
    assert graph.write(query, tmp_path / "out.parquet", strategy="balanced", workers=5) == len(wanted)
    assert sorted(zip(*pq.read_table(tmp_path / "out.parquet").to_pydict().values(), strict=True)) == wanted
    first = graph.find(query, strategy="balanced", limit=3)
    assert first.count() == 3
    assert set(map(tuple, first.collect())) <= set(wanted)
    assert graph.write(query, tmp_path / "none.parquet", strategy="balanced", limit=0) == 0
    assert graph.find("q(a, b) := edge(a, b), a < a", strategy="balanced").count() == 0
    assert graph.count("q(a, b) := edge(a, b)", strategy="balanced") == graph.edge_count
    with pytest.raises(BigjoinError, match="factorized matches are found by the local and shared strategies only"):
        graph.find("diamond", strategy="balanced", factorized=True)
    told = graph.explain("triangle", analyze=True, strategy="balanced", workers=6)
    assert "no batch was full" in told
    assert "theorem 3.4" in told


@pytest.mark.spark
def test_a_folder_that_is_not_there_is_told(graph, monkeypatch, tmp_path):
    monkeypatch.setenv("BIGJOIN_SCRATCH", str(tmp_path / "nowhere"))
    with pytest.raises(BigjoinError, match=r"cannot make a scratch folder .* set BIGJOIN_SCRATCH"):
        graph.count("triangle", strategy="balanced")
