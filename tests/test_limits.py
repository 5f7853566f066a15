"""Limits on a run: a timeout, cancelling from another thread, an interrupt. The query ends, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_threads, in_turn
from bigjoin.joins.generic_join import Batched
from bigjoin.languages import parse
from bigjoin.local.count_job import count_job
from bigjoin.local.list_job import list_job
from bigjoin.local.strategy import Ask
from bigjoin.planner import meaning, plan
from bigjoin.quota import Quota, quota, within
from bigjoin.spark.own_session import copy_settings, own_session
from tests.strategies import IN_ROUNDS, STRATEGIES
from tests.test_cli import refused, run_here

ENDLESS = "7-clique"
"""Takes hours on the graph below."""
NEVER = "q(a,b,c,d,e) := edge(a,b), edge(b,c), edge(c,d), edge(d,e), edge(e,a), a < b, b < c, c < d, d < e, e < a"
"""Has no match, which only a look at all candidates tells."""
SOON = 30.0
"""Seconds within which a stopped query has ended, on a machine that does other things, too."""


@pytest.fixture(scope="module")
def dense(tmp_path_factory) -> Index:
    draw = np.random.default_rng(1)
    ends = draw.integers(0, 2000, (2, 300_000))
    folder = tmp_path_factory.mktemp("dense") / "index"
    return bj.build_index(pa.table({"src": ends[0], "dst": ends[1]}), folder, directed=False)


@pytest.fixture(scope="module")
def edges(dense) -> int:
    return dense.statistics.relations["edge"].tuples


def ask(query: str, index: Index) -> Ask:
    return Ask(meaning(parse(query), index.statistics)[0], index)


def seconds_until(error, function) -> float:
    started = time.monotonic()
    with pytest.raises(error):
        function()
    return time.monotonic() - started


# Without Spark


@pytest.mark.parametrize("query", [ENDLESS, "house", "6-cycle", NEVER])
def test_compiled_loops_over_one_huge_range_end_at_the_deadline(dense, query):
    whole, question = [(0, 2000, 0, 1 << 60)], ask(query, dense)
    counting, listing = count_job(question, 1).program, list_job(question, 1).program

    def count():
        for _, found in counting.bind(dense):
            found.count(whole)

    def find():
        for _ in listing.bind(dense).rows(whole, 1 << 16):
            pass

    for work in (count, find):
        with within(Quota()), pytest.raises(bj.QueryTimeoutError), within(Quota(timeout=1e-9)):
            work()  # compiles
        limits = Quota(timeout=0.3)
        with pytest.raises(bj.QueryTimeoutError), within(limits):
            work()
        assert time.monotonic() - limits._deadline < SOON


def test_batches_end_at_the_deadline(dense):
    found = Batched(plan(ask(NEVER, dense).meaning), dense)
    with pytest.raises(bj.QueryTimeoutError), within(limits := Quota(timeout=0.3)):
        found.count(found.ranges(1))
    assert time.monotonic() - limits._deadline < SOON


def test_the_threads_of_a_query_end_with_it(dense):
    job = count_job(ask(ENDLESS, dense), 2)

    def count(ranges):
        return [found.count(mine) for (_, found), mine in zip(job.program.bind(dense), ranges, strict=True)]

    assert seconds_until(bj.QueryTimeoutError, lambda: limited(Quota(timeout=0.5), in_threads, count, job.ranges)) < SOON
    event = threading.Event()
    threading.Timer(0.5, event.set).start()
    assert seconds_until(bj.QueryCancelledError, lambda: limited(Quota(cancel=event), in_threads, count, job.ranges)) < SOON


def limited(limits: Quota, function, *args):
    with within(limits):
        return function(*args)


def test_the_other_threads_end_when_one_fails():
    ended = []

    def work(number):
        if number == 0:
            raise ValueError("the reason")
        try:
            while True:
                quota().check()
                time.sleep(0.01)
        finally:
            ended.append(number)

    with pytest.raises(ValueError, match="the reason"):
        in_threads(work, [0, 1])
    assert ended in ([], [1])
    assert threading.active_count() < 50


def test_what_runs_in_turn_ends_between_two_items():
    limits, done = Quota(), []

    def work(number):
        done.append(number)
        limits.stop(bj.BigjoinError("enough"))

    with pytest.raises(bj.BigjoinError, match="enough"), within(limits):
        in_turn(work, [1, 2, 3])
    assert done == [1]


def test_a_query_without_limits_never_ends_early():
    assert quota().timeout is None
    quota().check()
    with within(Quota()):
        quota().check()


def test_time_that_is_not_the_querys_does_not_count():
    limits = Quota(timeout=0.2)
    with within(limits):
        with limits.paused():
            time.sleep(0.3)
        limits.check()


def test_the_first_reason_counts_and_what_follows_from_it_is_its_cause():
    limits = Quota()

    def work():
        limits.stop(bj.QueryCancelledError("first"))
        limits.stop(bj.QueryCancelledError("second"))
        raise OSError("the job was killed")

    with pytest.raises(bj.QueryCancelledError, match="first") as raised:
        limited(limits, work)
    assert str(raised.value.__cause__) == "the job was killed"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"timeout": 0}, "timeout is 0; it must be a number of seconds, more than 0"),
        ({"timeout": -1.5}, "timeout is -1.5; it must be a number of seconds, more than 0"),
        ({"timeout": "5"}, "timeout is '5'; it must be a number of seconds, more than 0"),
        ({"timeout": True}, "timeout is True; it must be a number of seconds, more than 0"),
        ({"timeout": float("nan")}, "timeout is nan; it must be a number of seconds, more than 0"),
        ({"cancel": True}, "cancel is a bool; give a threading.Event, and set it to cancel the query"),
    ],
)
def test_limits_that_make_no_sense_are_refused(dense, given, sentence):
    graph = bj.Graph.open(dense.path)
    for ask_ in (lambda: graph.count("triangle", **given), lambda: graph.pieces("triangle", ".csv", **given)):
        with pytest.raises(bj.BigjoinError) as raised:
            ask_()
        assert str(raised.value) == sentence


# With Spark


def cpu_seconds_of_workers() -> float:
    """Return the CPU seconds that the Python workers of this process's JVM have used."""
    parents, ticks = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
            parents[int(process.name)] = int(fields[1])
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                ticks[int(process.name)] = int(fields[11]) + int(fields[12])
        except OSError:
            pass

    def is_mine(process):
        while process not in (0, os.getpid()):
            process = parents.get(process, 0)
        return process != 0

    return sum(used for process, used in ticks.items() if is_mine(process)) / os.sysconf("SC_CLK_TCK")


def wait_until_idle() -> None:
    """Wait until no worker of Spark computes any more; Spark kills those that do not end by themselves after some seconds."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        before = cpu_seconds_of_workers()
        time.sleep(0.5)
        if cpu_seconds_of_workers() - before < 0.1:
            return
    pytest.fail("a worker still computes")


@pytest.fixture
def graph(spark, dense, tmp_path_factory, monkeypatch):
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv("BIGJOIN_SCRATCH", str(scratch))
    with bj.Graph.open(dense.path, spark=spark) as graph:
        yield graph
    assert not list(scratch.glob("bigjoin-*/*-*")), "scratch files are left"


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_count_ends_at_its_timeout(graph, edges, strategy):
    query = "q(a,b) := edge(a,b)"
    assert graph.count(query, strategy=strategy, timeout=100) == edges
    assert seconds_until(bj.QueryTimeoutError, lambda: graph.count(ENDLESS, strategy=strategy, timeout=1)) < SOON
    wait_until_idle()
    assert graph.count(query, strategy=strategy) == edges


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_written_is_not_there_if_it_took_too_long(graph, tmp_path, strategy):
    target = tmp_path / "found.parquet"
    assert seconds_until(bj.QueryTimeoutError, lambda: graph.write(ENDLESS, target, strategy=strategy, timeout=1)) < SOON
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_each_action_on_a_lazy_frame_has_the_timeout(graph, edges):
    frame = graph.find(NEVER, timeout=1)
    for _ in range(2):
        with pytest.raises(Exception, match="QueryTimeoutError: the query was stopped after 1 seconds"):
            frame.count()
    assert graph.find("q(a,b) := edge(a,b)", timeout=60).count() == edges


@pytest.mark.spark
@pytest.mark.parametrize("strategy", IN_ROUNDS)
def test_a_search_in_rounds_ends_at_its_timeout(graph, strategy):
    assert seconds_until(bj.QueryTimeoutError, lambda: graph.find(ENDLESS, strategy=strategy, timeout=1)) < SOON


@pytest.mark.slow
@pytest.mark.spark
def test_other_verbs_end_at_their_timeout(graph):
    assert seconds_until(bj.QueryTimeoutError, lambda: graph.exists(NEVER, timeout=1)) < SOON
    assert seconds_until(bj.QueryTimeoutError, lambda: graph.explain(ENDLESS, analyze=True, timeout=1)) < SOON
    assert seconds_until(bj.QueryTimeoutError, lambda: list(graph.pieces(ENDLESS, ".csv", timeout=1))) < SOON
    distinct = "q(a,c) := edge(a,b), edge(b,x), edge(x,y), edge(y,z), edge(z,c)"
    assert seconds_until(bj.QueryTimeoutError, lambda: graph.count(distinct, deduplicate=True, timeout=1)) < SOON
    wait_until_idle()


@pytest.mark.slow
@pytest.mark.spark
def test_relations_have_the_same_limits(spark, dense):
    rows = bj.Graph.open(dense.path, spark=spark).find("q(a,b) := edge(a,b)").toArrow()
    query = "q(a,b,c,d,e) := r(a,b), r(b,c), r(c,d), r(d,e), r(e,a), r(a,c), r(b,d), r(c,e), a < b, b < c, c < d, d < a"
    with bj.Relations({"r": rows}, spark=spark) as relations:
        relations.count("q(a,b) := r(a,b)")
        assert seconds_until(bj.QueryTimeoutError, lambda: relations.count(query, timeout=1)) < SOON
    with pytest.raises(Exception, match="the query was stopped after 1 seconds"):  # while it is planned, or by a task
        bj.join(query, r=rows, timeout=1, spark=spark).count()


@pytest.mark.spark
def test_a_cancelled_query_ends_and_others_go_on(graph, edges):
    event, outcome = threading.Event(), []

    def count():
        try:
            outcome.append(graph.count(ENDLESS, cancel=event, workers=1))
        except bj.BigjoinError as error:
            outcome.append(error)

    running = threading.Thread(target=count)
    running.start()
    time.sleep(1.5)
    assert graph.count("q(a,b) := edge(a,b)", workers=1) == edges
    event.set()
    running.join(SOON)
    assert isinstance(outcome[0], bj.QueryCancelledError)
    assert str(outcome[0]) == "the query was cancelled"
    wait_until_idle()
    assert seconds_until(bj.QueryCancelledError, lambda: graph.count(ENDLESS, cancel=event)) < SOON


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_closing_a_graph_ends_the_queries_of_other_threads(spark, dense, strategy):
    graph = bj.Graph.open(dense.path, spark=spark)
    threading.Timer(2, graph.close).start()
    with pytest.raises(bj.BigjoinError, match=r"^the graph was closed while this query ran: make it again$"):
        graph.count(ENDLESS, strategy=strategy)
    wait_until_idle()


@pytest.mark.spark
def test_a_query_has_a_session_of_its_own_with_the_users_settings(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with own_session(spark) as own, own_session(spark) as same, own_session(own) as nested:
            assert own is same is nested
            assert own is not spark
            copy_settings(spark, own)
            assert own.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        with own_session(spark) as again:
            assert again is own
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.spark
def test_the_shell_has_a_timeout(spark, dense, tmp_path):
    done = run_here("count", ENDLESS, dense.path, "--timeout", "1.5", "--quiet", cwd=tmp_path)
    refused(done, "the query was stopped after 1.5 seconds (its timeout)")
    for command in (["find", ENDLESS, "-o", "out.csv"], ["explain", ENDLESS, "--analyze"]):
        refused(run_here(*command, dense.path, "--timeout", "1", "--quiet", cwd=tmp_path), "stopped after 1 seconds")
    done = run_here("find", ENDLESS, dense.path, "--timeout", "1", "--quiet", cwd=tmp_path)  # prints rows as it finds them
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "stopped after 1 seconds" in done.stderr
    refused(run_here("count", "triangle", dense.path, "--timeout", "0", cwd=tmp_path), "--timeout")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["shared", "partitioned"])
def test_an_interrupt_ends_a_command_at_any_moment(dense, tmp_path, strategy):
    """While modules are imported, the source is indexed, Spark starts, a query is planned, and tasks run."""
    command = [sys.executable, "-m", "bigjoin", "count", ENDLESS, str(dense.path), "--strategy", strategy, "--quiet"]
    for delay in (0.3, 1, 2, 3.5, 5, 7, 9, 12):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
        assert time.monotonic() - started < 5  # two seconds, on a machine that does nothing else
        assert (process.returncode, out, said.strip()) == (130, "", "bigjoin: interrupted")
