"""Several queries at once in one process: threads that ask one graph and several, and nothing that they share breaks."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.kernels import generated
from bigjoin.spark import session as sessions
from bigjoin.spark.held import Held
from bigjoin.spark.job import MAX_BOUND_PLANS, Job, _bound
from tests.oracles import naive

THREADS = 8
QUERIES = {
    "q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)": (("a", "b"), ("b", "c"), ("c", "a")),
    "q(a,b,c) := edge(a,b), edge(b,c)": (("a", "b"), ("b", "c")),
    "q(a,b,c,d) := edge(a,b), edge(b,c), edge(c,d), edge(d,a)": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")),
    "q(a,b) := edge(a,b), edge(b,a)": (("a", "b"), ("b", "a")),
}


def drawn_edges(vertices: int, edges: int, seed: int) -> list[tuple[int, int]]:
    draw = random.Random(seed)
    return sorted({(draw.randrange(vertices), draw.randrange(vertices)) for _ in range(edges)})


def table(edges) -> pa.Table:
    src, dst = zip(*edges, strict=True)
    return pa.table({"src": src, "dst": dst})


def answers(edges) -> dict[str, int]:
    found = {}
    for query, atoms in QUERIES.items():
        attributes = tuple(dict.fromkeys(a for atom in atoms for a in atom))
        found[query] = len(list(naive.matches({"edge": set(edges)}, attributes, [("edge", a, False) for a in atoms])))
    return found


def in_threads(function, many: int = THREADS) -> list:
    """Return what a function gives for each number, all at the same time; raise the first error."""
    ready = threading.Barrier(many)

    def call(number):
        ready.wait()
        return function(number)

    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(call, range(many)))


def asked_at_random(graph, edges_of, relations, draw, folder: Path):
    """Ask one question in one of many ways; return the answer and the truth."""
    name, query = draw.choice(list(graph)), draw.choice(list(QUERIES))
    strategy = draw.choice(["shared", "shared", "partitioned", "heavy-light", "balanced"])
    verb, wanted = draw.choice(["count", "find", "write", "exists", "pieces", "relations"]), edges_of[name][query]
    if verb == "count":
        return graph[name].count(query, strategy=strategy, workers=draw.choice([None, 2, 3])), wanted
    if verb == "find":
        return graph[name].find(query, strategy=strategy).count(), wanted
    if verb == "write":
        return graph[name].write(query, folder / f"{draw.random()}.parquet", strategy=strategy), wanted
    if verb == "exists":
        return graph[name].exists(query, strategy=strategy), wanted > 0
    if verb == "pieces":
        pieces = graph[name].pieces(query, ".arrow", strategy=strategy)
        return sum(pa.ipc.open_file(str(piece)).read_all().num_rows for piece in pieces), wanted
    return relations.count(query, strategy=strategy), edges_of["one"][query]


def ask_in_threads(spark, folder: Path, *, each: int) -> None:
    edges = {"one": drawn_edges(40, 250, 1), "other": drawn_edges(30, 150, 2)}
    truth = {name: answers(rows) for name, rows in edges.items()}
    graphs = {name: bj.Graph(table(rows), spark=spark) for name, rows in edges.items()}
    relations = bj.Relations({"edge": table(edges["one"])}, spark=spark)

    def ask(number):
        draw = random.Random(number)
        return [asked_at_random(graphs, truth, relations, draw, folder) for _ in range(each)]

    for answered in in_threads(ask):
        for found, wanted in answered:
            assert found == wanted


@pytest.mark.spark
def test_eight_threads_ask_different_questions_in_different_ways(spark, tmp_path):
    ask_in_threads(spark, tmp_path, each=1)


@pytest.mark.spark
@pytest.mark.slow
def test_eight_threads_ask_many_questions(spark, tmp_path):
    ask_in_threads(spark, tmp_path, each=8)


@pytest.mark.spark
@pytest.mark.slow
def test_eight_threads_ask_over_spark_connect_and_leave_its_settings_as_they_were(tmp_path):
    program = f"""
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
from tests.test_concurrency import ask_in_threads
spark.conf.set("spark.sql.adaptive.enabled", "true")
ask_in_threads(spark, Path({str(tmp_path)!r}), each=3)
assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch", None) != str(16 << 20)
print("the same")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert "the same" in done.stdout, done.stderr[-3000:]


# What threads share


@pytest.mark.spark
def test_relations_are_encoded_once_by_threads_that_need_them_at_once(spark, monkeypatch):
    edges = drawn_edges(40, 250, 1)
    relations, made = bj.Relations({"edge": table(edges)}, spark=spark), []
    from bigjoin import relations as module

    encode = module.encode
    monkeypatch.setattr(module, "encode", lambda *args, **more: made.append(time.sleep(0.1)) or encode(*args, **more))
    query = next(iter(QUERIES))
    assert set(in_threads(lambda _: relations.statistics_for(query).relations["edge"].tuples)) == {len(edges)}
    assert len(made) == 1


@pytest.mark.spark
def test_a_graph_that_was_updated_is_compacted_once_by_threads_that_query_it(spark, monkeypatch):
    edges = drawn_edges(40, 250, 1)
    graph = bj.Graph(table(edges), spark=spark)
    graph.apply(pa.table({"src": [100], "dst": [101], "op": ["+"]}))
    from bigjoin.streaming import compaction as module

    made, compact = [], module.without_runs
    monkeypatch.setattr(module, "without_runs", lambda index, known: made.append(bool(index.runs)) or compact(index, known))
    assert set(in_threads(lambda _: graph._without_runs().statistics.relations["edge"].tuples)) == {len(edges) + 1}
    assert made.count(True) == 1


@pytest.mark.spark
def test_a_thread_without_a_session_of_its_own_uses_that_of_the_process(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        graph = bj.Graph(table(drawn_edges(10, 30, 1)))
        found = in_threads(lambda _: graph.spark.conf.get("spark.sql.shuffle.partitions"))
        assert set(found) == {"7"}
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_threads_that_need_a_session_start_one(monkeypatch):
    started = []

    def start(master, conf):
        started.append(master)
        time.sleep(0.1)
        return started

    monkeypatch.setattr(sessions, "active_session", lambda: started or None)
    monkeypatch.setattr(sessions, "_start", start)
    in_threads(lambda _: sessions.get_session())
    assert len(started) == 1


def test_threads_load_one_function():
    source = "def run():\n    return 1\n# for this test\n"
    assert len({id(function) for function in in_threads(lambda _: generated.load(source))}) == 1


def test_bound_plans_of_several_jobs_are_kept_at_once(monkeypatch):
    monkeypatch.setattr("bigjoin.spark.job.bind", lambda plan, index: (plan, time.sleep(0.001)))
    monkeypatch.setattr("bigjoin.spark.job._bound", _bound.copy())

    def bound(number):
        jobs = [Job(f"{number}-{k}", None, 1, 1, 1) for k in range(20)]
        return all(job.bound[0] == job.plan for job in jobs for _ in range(3))

    assert all(in_threads(bound))
    from bigjoin.spark import job

    assert len(job._bound) <= MAX_BOUND_PLANS


def test_folders_of_results_are_added_and_freed_by_threads(tmp_path):
    session = SimpleNamespace(conf={"spark.app.name": "x"})
    shared = Held()

    def keep(number):
        with Held() as held:
            for k in range(50):
                for some in (held, shared):
                    folder = tmp_path / f"{number}-{k}-{some is shared}"
                    folder.mkdir()
                    some.add(folder, session)
                if k % 10 == 0:
                    shared.free()
        return True

    assert all(in_threads(keep))
    shared.free()
    assert list(tmp_path.iterdir()) == []
