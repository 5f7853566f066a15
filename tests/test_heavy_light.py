"""The heavy-light strategy: loads near the mean where keys are skewed, on a cluster in this process, and through Spark."""

from __future__ import annotations

from math import prod

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.dataflow.heavy import Heavy, find_heavy
from bigjoin.dataflow.owned_seeds import WorkerSeeds, tuples_of_codes
from bigjoin.dataflow.packing import pack, unpack
from bigjoin.dataflow.routing import route
from bigjoin.dataflow.schedule import Round, Slice
from bigjoin.generators.pairs import Funnel, Hubs
from bigjoin.generators.theory import Theory
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.joins.blocks import Counts, Proposals, Spread, join
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.seeds import equal_ranges
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.spark.exchange import RECEIPT
from bigjoin.spark.job import Job
from bigjoin.spark.partitioned import PartitionedTask
from tests.dataflow import Simulated

STARS = (81, 256)
SKEWED = {
    "funnel": (Funnel(4001, 40_000), True),
    "hubs": (Hubs(4000, 40_000), True),
    "hubs, undirected": (Hubs(4000, 40_000), False),
    "theory": (Theory(STARS), True),
}
KNOWN = {"funnel": 40_000 - 4000, "theory": (prod(3 * m + 1 for m in STARS) - 3 * prod(m + 1 for m in STARS) + 2) // 6}


def table(family):
    src, dst = (np.concatenate(column) for column in zip(*map(family.edges, range(family.chunks)), strict=True))
    return pa.table({"src": src, "dst": dst})


@pytest.fixture(scope="module")
def skewed(tmp_path_factory):
    def index(name):
        if name not in known:
            family, directed = SKEWED[name]
            known[name] = build_index(table(family), tmp_path_factory.mktemp("skewed") / "index", directed=directed)
        return known[name]

    known: dict = {}
    return index


def planned(index, name="triangle"):
    return plan(parse(name, unique=index.statistics.relations["edge"].symmetric), index.statistics)


def counted(chosen, index):
    bound = bind(chosen, index)
    return GenericJoin(bound, counting=True).count(equal_ranges(bound, 1))


def simulated(index, chosen, folder, workers, **options):
    size = {"workers": workers, "tasks": 8, "batch_size": 1 << 16, "budget": 1 << 30, "enough": 32}
    return Simulated(chosen, index, folder, **size, **options).run()


def lopsided(run):
    """How many times the mean the worst worker receives, exchange by exchange, and the worst task proposes."""
    received = sum(most for most, _ in run.loads) / sum(mean for _, mean in run.loads)
    proposed = [sum(host.tally.candidates) for host in run.hosts]
    return received, max(proposed) / np.mean(proposed)


# On a cluster in this process


@pytest.mark.parametrize("workers", [16, 64])
@pytest.mark.parametrize("name", SKEWED)
def test_no_worker_has_much_more_than_the_mean(name, workers, skewed, tmp_path):
    index = skewed(name)
    chosen = planned(index)
    light, heavy = (simulated(index, chosen, tmp_path, workers, spreading=how) for how in (None, True))
    assert light.count == heavy.count == KNOWN.get(name, counted(chosen, index))
    assert heavy.sent <= light.sent
    received, proposed = lopsided(heavy)
    assert received < 1.25
    assert proposed < 1.25
    assert lopsided(light)[0] > (1.5 if workers == 16 else 3)


@pytest.mark.parametrize("workers", [16, 64])
@pytest.mark.parametrize("query", ["4-clique", "diamond"])
def test_later_steps_are_spread_too(query, workers, tmp_path):
    index = build_index(table(Hubs(600, 6000)), tmp_path / "index", directed=query == "diamond")
    chosen = planned(index, query)
    light, heavy = (simulated(index, chosen, tmp_path / "index", workers, spreading=how) for how in (None, True))
    assert light.count == heavy.count == counted(chosen, index)
    assert heavy.sent <= 1.05 * light.sent
    assert lopsided(heavy)[0] < 1.6
    assert sum(most for most, _ in heavy.loads) < 0.6 * sum(most for most, _ in light.loads)


def test_where_no_key_is_heavy_nothing_differs(tmp_path):
    random = np.random.default_rng(2)
    edges = random.integers(0, 2000, (2, 20_000))
    index = build_index(pa.table({"src": edges[0], "dst": edges[1]}), tmp_path / "index")
    chosen = planned(index, "4-clique")
    light, heavy = (simulated(index, chosen, tmp_path / "index", 16, spreading=how) for how in (None, True))
    assert not any(heavy.heavy.any(position) for position in range(4))
    assert light.loads == heavy.loads
    assert light.itinerary.visits == heavy.itinerary.visits


def test_heavy_codes_are_those_with_more_than_a_part_of_a_share(skewed):
    index = skewed("funnel")  # v* has half of the vertices before it, and half behind
    bound = bind(planned(index), index)
    hub = 0  # codes fall with degree
    for workers in (16, 64):
        heavy = find_heavy(bound, workers)
        assert [np.flatnonzero(marks).tolist() for marks in heavy.marks] == [[hub]] * 3
        assert heavy.has(0, np.array([hub, hub + 1, 4000], np.uint32)).tolist() == [True, False, False]
    everything = find_heavy(bound, 2, threshold=0)
    degrees = tuples_of_codes(index.trie("edge", (0, 1)))
    assert everything.has(0, np.arange(4001))[degrees > 0].all()


@pytest.mark.parametrize("workers", [16, 64])
def test_what_workers_own_is_dealt_out_evenly(workers, skewed):
    index = skewed("hubs")
    bound = bind(planned(index), index)
    used = [bound.seed.extender, *bound.extenders]
    heavy = find_heavy(bound, workers)
    owned = heavy.tuples_of_workers(used)
    assert owned.max() < 1.15 * owned.mean()
    whole = Heavy(np.inf, tuple(marks[:0] for marks in heavy.marks), workers).tuples_of_workers(used)
    assert whole.max() > 1.5 * whole.mean()
    assert whole.sum() == sum({id(e.trie): len(e.trie) for e in used}.values())
    assert owned.sum() <= 2 * whole.sum()  # a heavy list is there by place and by value


@pytest.mark.parametrize("shards", [1, 5])
def test_each_seed_is_read_by_one_task(shards, tmp_path):
    index = build_index(table(Hubs(50, 400, hubs=3)), tmp_path / "index", shards=shards)
    seed = bind(planned(index), index).seed
    for marks in ([], [True], [False, True, True], [True] * 60):
        read = []
        for task in range(4):
            seeds = WorkerSeeds(seed, 7, 4, task, np.array(marks, np.bool_))
            parts = [prefixes for _, prefixes in seeds.read(0, len(seeds), 16)]
            read += [tuple(row) for prefixes in parts for row in prefixes.T.tolist()]
        assert len(read) == len(set(read)) == 400


def test_pieces_of_a_list_come_to_whoever_owns_the_stretch():
    heavy = Heavy(4, (np.array([True, True]),), 5, least=3)
    block = Counts(np.array([[0, 1, 0]], np.uint32), np.array([10, 7, 4]), np.zeros(3, np.uint8), np.zeros(3, np.int64))
    offsets = np.array([0, 2, 9])
    found, owners = [], {}
    for part in heavy.pieces(block, 0, offsets, 2):
        assert len(part) <= 2
        for i in range(len(part)):
            key, start, count = int(part.block.prefixes[0, i]), int(part.block.starts[i]), int(part.block.counts[i])
            found.append((key, start, count))
            row = 1 if key else 0 if len([f for f in found if f[0] == 0]) <= 4 else 2
            for place in range(offsets[row] + start, offsets[row] + start + count):
                assert owners.setdefault((key, place // 3), int(part.numbers[i]) % 5) == int(part.numbers[i]) % 5
    assert found == [(0, 0, 3), (0, 3, 3), (0, 6, 3), (0, 9, 1), (1, 0, 1), (1, 1, 3), (1, 4, 3), (0, 0, 3), (0, 3, 1)]
    back = join([unpack(pack(block)), unpack(pack(part.block))])
    assert back.starts.tolist() == [0, 0, 0, *part.block.starts.tolist()]


def test_candidates_are_spread_by_value_and_heavy_ones_stay():
    codes = np.array([0, 1, 2, 5, 8, 9, 1, 3], np.uint32)
    block = Proposals(np.array([[7, 7, 6]], np.uint32), np.array([0, 2, 6]), np.array([6, 3, 2]), codes)
    marks = np.array([True, False, True])
    load, found = np.zeros(4, np.int64), []
    for task, part in route(Spread(block, np.array([0, 0, 3], np.uint64), marks), 0, workers=4, tasks=2, load=load):
        for i in range(len(part)):
            mine = part.codes[part.begins[i] : part.begins[i] + part.lengths[i]].tolist()
            first = 0 if part.prefixes[0, i] == 7 else 3
            assert all((first + code) % 4 % 2 == task for code in mine)
            found += [(int(part.prefixes[0, i]), code) for code in mine]
    assert sorted(found) == [(6, 1), (6, 3), (7, 1), (7, 5), (7, 5), (7, 8), (7, 8), (7, 9)]
    assert load.tolist() == [3, 4, 1, 0]
    stay = Heavy(0, (marks, marks), 4).heavy_candidates(1, block)
    assert stay.prefixes.tolist() == [[7, 7]]
    assert [stay.codes[b : b + n].tolist() for b, n in zip(stay.begins, stay.lengths, strict=True)] == [[0, 2], [2]]


def test_a_task_that_runs_again_sends_the_same_bytes(skewed, tmp_path):
    index = skewed("hubs")
    job = Job(planned(index), index, 16, 3, 1000, folder=str(tmp_path))
    job = Job(job.plan, index, 16, 3, 1000, folder=str(tmp_path), heavy=find_heavy(job.bound, 16))

    def sent():
        rows = pa.Table.from_batches(list(PartitionedTask(job, Round(None, ((Slice(0, 2000),),) * 3, allowance=5000)).begin(1)))
        return [row for row in rows.to_pylist() if row["visit"] != RECEIPT]

    first = sent()
    assert first
    assert first == sent()


# Through Spark


@pytest.mark.spark
def test_counts_rows_and_limits_through_spark(spark, skewed, tmp_path):
    graph = bj.Graph.open(skewed("hubs").path, spark=spark)
    shared = graph.count("triangle")
    counts = {s: graph.count("triangle", strategy=s, workers=64) for s in ("partitioned", "heavy-light")}
    assert set(counts.values()) == {shared}
    light, heavy = (count.stats for count in counts.values())
    assert counts["heavy-light"].strategy == "heavy-light"
    assert heavy["tuples"] <= light["tuples"]
    assert heavy["critical_path"] < 1.25 * sum(load["mean"] for load in heavy["exchange_loads"])
    assert light["critical_path"] > 3 * heavy["critical_path"]
    assert heavy["index_tuples"]["max"] < 1.2 * heavy["index_tuples"]["mean"]
    query = "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c), not edge(c, a), a < b"
    wanted = sorted(map(tuple, graph.find(query).collect()))
    assert sorted(map(tuple, graph.find(query, strategy="heavy-light", workers=16).collect())) == wanted
    assert graph.write(query, tmp_path / "some.parquet", strategy="heavy-light", limit=7) == 7
    assert graph.exists("triangle", strategy="heavy-light")


@pytest.mark.spark
def test_changes_are_those_of_the_shared_strategy(spark):
    """Insert and delete the edges of a hub."""
    random = np.random.default_rng(4)
    edges = random.integers(1, 300, (1200, 2))
    spokes = np.stack([np.zeros(250, np.int64), np.arange(1, 251)], axis=1)
    gone = edges[:200]
    with bj.Graph(pa.table({"src": edges[:, 0], "dst": edges[:, 1]}), directed=False, spark=spark) as graph:
        for number, rows in enumerate((spokes, spokes[:200])):
            both = np.concatenate([rows, gone])
            ops = ["+-"[number]] * len(rows) + ["-+"[number]] * len(gone)
            updates = pa.table({"src": both[:, 0], "dst": both[:, 1], "op": ops})
            epoch = graph.apply(updates, "triangle", unique=True, strategy="heavy-light", workers=16)
            signs = epoch.table["change"].to_numpy()
            assert ((signs > 0).sum(), (signs < 0).sum()) == (epoch.created, epoch.destroyed)
            assert epoch.count == graph.count("triangle", unique=True)
