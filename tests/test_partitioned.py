"""The partitioned strategy: on a cluster in this process, through Spark, and on a standalone cluster that loses an executor."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.dataflow.owned_seeds import tuples_of_workers
from bigjoin.dataflow.packing import pack, unpack
from bigjoin.dataflow.routing import pieces, route
from bigjoin.dataflow.schedule import OwnedSchedule, Round, Slice, Waiting
from bigjoin.dataflow.waiting import WaitingFile, read_waiting
from bigjoin.errors import BigjoinError
from bigjoin.index.trie import Level, Trie
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.joins.blocks import Counts, Prefixes, Proposals, join
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.itinerary import Itinerary
from bigjoin.joins.seeds import equal_ranges
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.planner.agm import agm_bound
from bigjoin.spark import choose, partitioned, rounds
from bigjoin.spark.exchange import RECEIPT, ROW
from bigjoin.spark.job import Job
from bigjoin.spark.partitioned import Partitioned, PartitionedTask
from bigjoin.streaming.watched import Watched
from tests.dataflow import Simulated

PAPER = ["triangle", "4-clique", "diamond", "house", "5-clique"]


def scattered(folder, *, vertices=40, edges=250, directed=True, shards=1, seed=5):
    random = Random(seed)
    pairs = [(random.randrange(vertices), random.randrange(vertices)) for _ in range(edges)]
    table = pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]})
    return build_index(table, folder / "index", directed=directed, shards=shards)


def counted(chosen, index):
    bound = bind(chosen, index)
    return GenericJoin(bound, counting=True).count(equal_ranges(bound, 1))


# On a cluster in this process


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("workers", "tasks"), [(1, 1), (2, 2), (7, 2), (8, 3), (64, 4), (1000, 4)])
@pytest.mark.parametrize("name", PAPER)
def test_any_number_of_workers_counts_the_same(name, workers, tasks, shards, tmp_path):
    index = scattered(tmp_path, shards=shards)
    chosen = plan(parse(name), index.statistics)
    run = Simulated(chosen, index, tmp_path / "index", workers=workers, tasks=tasks).run()
    assert run.count == counted(chosen, index)
    assert run.sent <= run.most()


@pytest.mark.parametrize("name", PAPER)
def test_what_is_sent_stays_below_the_bound_of_the_paper(name, tmp_path):
    """Tuples sent are at most relations x attributes x AGM bound, also where every vertex hangs on one hub."""
    hub = [(0, i) for i in range(1, 120)] + [(i, i + 1) for i in range(1, 119)] + [(i, 0) for i in range(1, 120)]
    index = build_index(pa.table({"src": [a for a, _ in hub], "dst": [b for _, b in hub]}), tmp_path / "index")
    query = parse(name)
    run = Simulated(plan(query, index.statistics), index, tmp_path, workers=16, tasks=4).run()
    assert run.sent <= run.most()
    assert run.most() <= len(query.atoms) * len(query.attributes) * agm_bound(query, index.statistics)


@pytest.mark.parametrize("batch_size", [pytest.param(1, marks=pytest.mark.slow), 10, 100])
def test_what_waits_is_bounded_by_the_budget_and_not_by_the_output(batch_size, tmp_path):
    index = scattered(tmp_path, vertices=30, edges=500)
    chosen = plan(parse("diamond"), index.statistics)
    run = Simulated(chosen, index, tmp_path / "index", workers=4, tasks=2, batch_size=batch_size, budget=400).run()
    steps = len(chosen.steps)
    # What a round gives a step, what was too little for a round, and files of which a part is taken.
    assert run.schedule.peak_prefixes <= steps * (2 * 400 + 4 * batch_size)
    assert run.schedule.peak_prefixes < counted(chosen, index) / 4


@pytest.mark.parametrize("name", ["diamond", "4-clique", "house"])
def test_a_round_goes_as_far_as_its_budget_allows(name, tmp_path):
    index = scattered(tmp_path, vertices=30, edges=300)
    chosen = plan(parse(name), index.statistics)
    wanted = counted(chosen, index)
    one, many = (Simulated(chosen, index, tmp_path / "index", budget=budget).run() for budget in (1 << 20, 100))
    assert one.count == many.count == wanted > 0
    assert one.rounds == 1
    assert one.schedule.peak_prefixes == 0
    assert many.rounds > 5
    assert many.schedule.peak_prefixes > 0
    assert many.most_proposed <= 100 * (1 + len(chosen.steps))
    assert one.schedule.share == many.schedule.share == 1.0


def test_labels_are_checked_wherever_a_prefix_is(tmp_path):
    random = Random(3)
    edges = pa.table({"src": [random.randrange(20) for _ in range(150)], "dst": [random.randrange(20) for _ in range(150)]})
    people = pa.table({"id": list(range(20)), "label": ["p" if i % 3 else "o" for i in range(20)]})
    index = build_index(edges, tmp_path / "index", vertices=people)
    for labels in ("p(a)", "p(b)", "p(c)", "p(a), p(b)", "o(b), p(c)", "not p(b)"):
        query = parse(f"q(a, b, c) := edge(a, b), edge(b, c), edge(c, a), {labels}")
        for order in permutations("abc"):
            chosen = plan(query, index.statistics, order=order)
            run = Simulated(chosen, index, tmp_path / "index", workers=5, tasks=2).run()
            assert run.count == counted(chosen, index) > 0


def test_lists_wider_than_prefixes_travel_as_narrow_as_these(tmp_path):
    """An index with more rows than vertices can have lists of 64 bits, while a query's prefixes need 32."""
    index = scattered(tmp_path)
    chosen = plan(parse("4-clique"), index.statistics)
    wanted = counted(chosen, index)
    for key, trie in list(index._tries.items()):
        wide = tuple(Level(level.offsets, level.values.astype(np.uint64)) for level in trie.levels)
        index._tries[key] = Trie(wide, keyed=trie.keyed, shards=trie.shards)
    assert Simulated(chosen, index, tmp_path / "index").run().count == wanted
    assert Simulated(chosen, index, tmp_path / "index", spreading=3).run().count == wanted


def test_prefixes_do_not_travel_to_where_they_are(tmp_path):
    index = scattered(tmp_path)
    itinerary = Itinerary(bind(plan(parse("triangle"), index.statistics), index))
    # Seeds are with the owner of a1, which counts first; then that of a2, back for those that a1 proposes for, and again to a2.
    assert itinerary.exchanges(None) == 3
    # The proposer has its prefixes; one other owner intersects.
    assert itinerary.exchanges(0) == 1
    one = Itinerary(bind(plan(parse("q(a,b,c) := edge(a,b), edge(a,c)"), index.statistics), index))
    assert one.exchanges(None) == 0


def test_lists_that_neighbours_propose_travel_once(tmp_path):
    """A hub with many leaves: each of its seeds proposes the same list."""
    hub = [(0, i) for i in range(1, 200)] + [(i, 200 + i % 7) for i in range(1, 200)] + [(i, i + 1) for i in range(1, 199)]
    index = build_index(pa.table({"src": [a for a, _ in hub], "dst": [b for _, b in hub]}), tmp_path / "index")
    values = index.trie("edge", (0, 1)).values
    block = Proposals(
        np.array([[0] * 5, [1, 2, 3, 4, 5]], np.uint32),
        np.array([0, 1, 2, 3, 4]),
        np.array([100, 99, 98, 97, 96]),
        values,
    )
    load = np.zeros(4, np.int64)
    parts = dict(route(block, 1, workers=4, tasks=2, load=load))
    assert [len(part.codes) for part in parts.values()] == [99, 100]
    assert sum(part.tuples for part in parts.values()) == block.tuples == load.sum()
    for part in parts.values():
        for i in range(len(part)):
            n = int(part.prefixes[1, i]) - 1
            mine = part.codes[part.begins[i] : part.begins[i] + part.lengths[i]]
            assert mine.tolist() == values[block.begins[n] : block.begins[n] + block.lengths[n]].tolist()


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_blocks_come_back_from_bytes(kind):
    prefixes = np.arange(6, dtype=kind).reshape(2, 3)
    counted = Counts(prefixes, np.array([4, 5, 6]), np.array([0, 1, 0], np.uint8), np.zeros(3, np.int64))
    proposed = Proposals(prefixes, np.array([0, 1, 2]), np.array([2, 2, 1]), np.arange(3, dtype=kind))
    for block in (Prefixes(prefixes), counted, proposed, Prefixes(prefixes[:, :0])):
        data = pack(block)
        assert len(data) % 8 == 0
        back = join([unpack(data), unpack(data)])
        assert type(back) is type(block)
        assert back.prefixes.dtype == kind
        assert len(back) == 2 * len(block)
        assert back.tuples == 2 * block.tuples
        whole = join(list(pieces(back, 2)))
        assert whole.prefixes.tolist() == back.prefixes.tolist()
        assert whole.tuples == back.tuples
        assert all(len(piece) == 1 or piece.tuples <= 2 for piece in pieces(back, 2))
        half = back.part(np.arange(len(block)))
        assert pack(half) == data


def test_any_stretch_of_a_waiting_file_can_be_read(tmp_path):
    file = WaitingFile(tmp_path, 0, 0, 0)
    counts = [3, 1, 4, 1, 5, 9, 2, 6]
    for n in range(0, 8, 3):
        some = np.array(counts[n : n + 3])
        codes = np.arange(n, n + len(some), dtype=np.uint32)[None]
        file.put(Counts(codes, some, np.zeros(len(some), np.uint8), np.zeros(len(some), np.int64)))
    file.close()
    everything = [(code, k) for code, count in enumerate(counts) for k in range(count)]
    assert file.waiting.proposals == len(everything)
    for first in range(0, 31, 3):
        for last in range(first, 32, 4):
            found = []
            for batch in (b for block in read_waiting(file.waiting.file, first, last) for b in block.batches(4)):
                assert 0 < batch.proposals <= 4
                for code, a, many in zip(batch.prefixes[0].tolist(), batch.starts, batch.counts, strict=True):
                    found += [(code, k) for k in range(a, a + many)]
            assert found == everything[first:last]


def test_the_deepest_step_with_enough_work_goes_next():
    schedule = OwnedSchedule([100, 100], 2, workers=4, batch_size=10, budget=40)
    assert schedule.next_round().step is None
    schedule.add([Waiting("a", 0, 0, 0, 5, 15, 1, 15), Waiting("b", 1, 0, 1, 5, 15, 1, 15)], 0)
    assert schedule.next_round().step is None  # two workers in a task: 15 proposals need not be 10 for one of them
    schedule.add([Waiting("c", 0, 0, 0, 9, 30, 1, 30)], 0)
    now = schedule.next_round()
    assert (now.step, [(part.file, part.first, part.last) for part in now.work[0]]) == (0, [("a", 0, 15), ("c", 0, 5)])
    assert now.spent == ("a",)
    schedule.add([Waiting("d", 1, 0, 1, 9, 5, 1, 5)], 0)
    assert schedule.next_round().step == 1
    while schedule.seeds_left:
        now = schedule.next_round()
    steps = []
    while (now := schedule.next_round()) is not None:
        steps.append(now.step)
    assert steps == [0]  # what was left of c is flushed


def test_tuples_are_dealt_out_evenly(tmp_path):
    index = scattered(tmp_path, vertices=500, edges=5000, shards=3)
    trie = index.trie("edge", (0, 1))
    for workers in (1, 3, 7, 64):
        tuples = tuples_of_workers(trie, workers)
        assert tuples.sum() == len(trie)
        assert tuples.max() <= len(trie) / workers + 40


def test_a_task_that_runs_again_sends_the_same_bytes(tmp_path):
    index = scattered(tmp_path, vertices=60, edges=3000)  # lists that are worth counting
    chosen = plan(parse("4-clique"), index.statistics)
    job = Job(chosen, index, 7, 3, 100, folder=tmp_path)
    now = Round(None, ((Slice(0, 150),),) * 3, allowance=500)

    def sent(task):
        rows = pa.Table.from_batches(list(PartitionedTask(job, now).begin(task)))
        return [row for row in rows.to_pylist() if row["visit"] != RECEIPT]

    first = [row for task in range(3) for row in sent(task)]
    assert first == [row for task in range(3) for row in sent(task)]
    arriving = sorted((row for row in first if row["task"] == 1), key=lambda row: (row["source"], row["sequence"]))

    def advanced(size):
        """However Spark cuts the rows into batches."""
        batches = (pa.RecordBatch.from_pylist(arriving[i : i + size], ROW) for i in range(0, len(arriving), size))
        rows = pa.Table.from_batches(list(PartitionedTask(job, now).advance(batches))).to_pylist()
        return [row for row in rows if row["visit"] != RECEIPT]

    assert advanced(1000)
    assert advanced(1000) == advanced(1) == advanced(7)


# Through Spark


@pytest.fixture(scope="module")
def graph(spark, tmp_path_factory):
    return bj.Graph.open(scattered(tmp_path_factory.mktemp("graph"), vertices=60, edges=600).path, spark=spark)


@pytest.mark.spark
@pytest.mark.parametrize(("name", "workers"), [("triangle", 1), ("4-clique", 7), ("diamond", 64), ("house", 224)])
def test_counts_through_spark(graph, name, workers):
    count = graph.count(name, strategy="partitioned", workers=workers, batch_size=100)
    assert count == counted(plan(parse(name), graph.index.statistics), graph.index)
    assert (count.strategy, count.workers) == ("partitioned", workers)
    stats = count.stats
    assert stats["steps"][-1]["prefixes"] == count
    assert 0 < stats["load"]["mean"] <= stats["load"]["max"]
    assert stats["index_tuples"]["mean"] <= stats["index_tuples"]["max"]
    assert stats["rounds"] == 1
    assert stats["bytes"] > 0
    assert stats["peak_memory"] > 0
    assert stats["agm"] >= count


@pytest.mark.spark
def test_what_a_round_cannot_afford_waits_for_the_next(graph, monkeypatch):
    chosen = plan(parse("diamond"), graph.index.statistics)
    job = Job(chosen, graph.index, workers=7, tasks=2, batch_size=100)
    monkeypatch.setattr(partitioned, "ROUND_PROPOSALS", 30_000)
    ran = Partitioned(graph.spark).run(job)
    stats = ran.stats
    assert ran.matches == counted(chosen, graph.index)
    assert stats["rounds"] > 1
    assert stats["waiting"]["prefixes"] > 0


@pytest.mark.spark
def test_rows_are_those_of_the_shared_strategy(graph, tmp_path):
    query = "q(a, b, c) := edge(a, b), edge(b, c), edge(c, a), a < b"
    wanted = sorted(map(tuple, graph.find(query).collect()))
    assert wanted
    found = graph.find(query, strategy="partitioned", workers=5, batch_size=50)
    assert found.columns == ["a", "b", "c"]
    assert sorted(map(tuple, found.collect())) == wanted
    assert graph.write(query, tmp_path / "out.parquet", strategy="partitioned", workers=5) == len(wanted)
    assert sorted(zip(*pq.read_table(tmp_path / "out.parquet").to_pydict().values(), strict=True)) == wanted
    first = graph.find(query, strategy="partitioned", limit=3)
    assert first.count() == 3
    assert set(map(tuple, first.collect())) <= set(wanted)
    assert graph.write(query, tmp_path / "out.csv", strategy="partitioned", limit=4) == 4
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 5
    assert graph.write(query, tmp_path / "none.parquet", strategy="partitioned", limit=0) == 0
    assert graph.find("q(a, b) := edge(a, b), a < a", strategy="partitioned").count() == 0


@pytest.mark.spark
def test_a_limit_ends_the_rounds_early(graph, monkeypatch, tmp_path):
    steps, one_round = [], rounds.InRounds._round
    monkeypatch.setattr(partitioned, "LIMITED_PROPOSALS", 16)
    monkeypatch.setattr(rounds.InRounds, "_round", lambda *given: steps.append(given[3].step) or one_round(*given))
    graph.write("diamond", tmp_path / "few.parquet", strategy="partitioned", limit=5)
    assert steps[:3] == [None, 0, 1]
    assert len(steps) < 8
    with pytest.raises(BigjoinError, match="factorized matches are found by the local and shared strategies only"):
        graph.find("diamond", strategy="partitioned", factorized=True)


def test_a_task_that_cannot_write_says_where_and_what_to_do(tmp_path):
    index = scattered(tmp_path, vertices=60, edges=600)
    query = parse("q(a, b, c) := edge(a, b), edge(a, c), b < c")  # which waits where its seeds are
    job = Job(plan(query, index.statistics), index, 1, 1, 1000, folder=Path("/nowhere"))
    (row,) = list(PartitionedTask(job, Round(None, ((Slice(0, 100),),))).begin(0))[-1:]
    said = row.column("payload")[0].as_py().decode()
    assert "OutputError" in said
    assert "/nowhere" in said
    assert "BIGJOIN_SCRATCH" in said


@pytest.mark.spark
def test_a_folder_that_is_not_there_is_told(graph, monkeypatch, tmp_path):
    monkeypatch.setenv("BIGJOIN_SCRATCH", str(tmp_path / "nowhere"))
    with pytest.raises(BigjoinError, match=r"cannot make a scratch folder .* set BIGJOIN_SCRATCH"):
        graph.count("triangle", strategy="partitioned")


def test_auto_takes_shared_while_a_machine_has_room(graph, monkeypatch):
    assert "shared (the index has" in graph.explain("triangle")
    monkeypatch.setattr(choose, "_memory_here", lambda: graph.index.bytes)
    assert "partitioned (the index has" in graph.explain("triangle")
    assert graph.count("triangle").strategy == "partitioned"
    assert graph._strategy_for_updates("auto", {"q": Watched(parse("triangle"))}, None) == "partitioned"


@pytest.mark.spark
def test_the_analysis_of_a_run_shows_the_bounds(graph):
    text = graph.explain("triangle", analyze=True, strategy="partitioned", workers=6)
    assert "strategy: partitioned" in text
    for word in ("rounds", "exchanges", "load", "index tuples", "waiting"):
        assert word in text


# On a standalone cluster


ON_A_CLUSTER = """
import os, signal, sys, threading, time
from importlib import resources
import bigjoin as bj
from bigjoin.indexing import build_index
from bigjoin.spark.session import get_session
sys.path.insert(0, sys.argv[1])
from cluster import Cluster
with resources.as_file(resources.files("bigjoin") / "data" / "soc-Epinions1.txt.gz") as file:
    build_index(file, sys.argv[2] + "/index", directed=False, shards=4)
with Cluster(workers=2, cores=1) as cluster:
    spark = get_session(cluster.master, cluster.conf)
    graph = bj.Graph.open(sys.argv[2] + "/index", spark=spark)
    for strategy in ("shared", "partitioned"):
        assert graph.count("triangle", unique=True, strategy=strategy) == 1624481, strategy
    assert len(cluster.executors()) == 2, cluster.executors()
    killed = []
    def kill():
        time.sleep(1.5)
        killed.append(cluster.executors()[0])
        os.kill(killed[0], signal.SIGKILL)
    thread = threading.Thread(target=kill)
    thread.start()
    counts = [graph.count("4-clique", unique=True, strategy="partitioned", batch_size=20000) for _ in range(2)]
    thread.join()
    assert counts == [5803397, 5803397], counts
    assert killed
    spark.stop()
print("as many as ever")
"""


@pytest.mark.slow
@pytest.mark.spark
def test_an_executor_that_is_killed_changes_nothing(tmp_path):
    scripts = str(Path(__file__).parents[1] / "scripts")
    command = [sys.executable, "-c", ON_A_CLUSTER, scripts, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert "as many as ever" in run.stdout, run.stderr[-3000:]
