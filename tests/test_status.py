"""What bigjoin status says of a watch, while it runs and afterwards, without a lock and without Spark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.changing_verbs import monitor_of
from bigjoin.compiled import loops
from bigjoin.errors import IndexFormatError, OutputError
from bigjoin.index.writer import locked, vacuum
from bigjoin.streaming.output import WatchOutput
from bigjoin.streaming.status import status_of
from tests.executions import interpreted
from tests.test_changed_queries import QUERIES, History, rows_of
from tests.test_cli import refused, run_here
from tests.test_exactly_once import files_below


@pytest.fixture
def cheaply(monkeypatch):
    monkeypatch.setattr(loops, "load", interpreted)


def test_what_a_watch_has_done(tmp_path, cheaply):
    history = History(tmp_path, 21, 4)
    history.build()
    history.monitor(["triangle"], is_named=False).apply(history.updates(1))
    watching = history.monitor(["triangle", "open"])
    for epoch in (2, 3):
        watching.apply(history.updates(epoch))
    before = files_below(tmp_path)
    found = status_of(tmp_path / "index", tmp_path / "out")
    assert files_below(tmp_path) == before
    counts = {name: rows_of(name, history.edges[3]).total() for name in ("triangle", "open")}
    assert found.epoch == 3
    assert {query.query: (query.count, query.current) for query in found.queries} == {
        QUERIES[name]: (count, True) for name, count in counts.items()
    }
    assert found.relations["edge"].edges == len(history.edges[3])
    assert found.relations["edge"].rows is None
    assert found.log is not None
    assert (found.runs, found.log.records) == (2, 1)  # the first was compacted to count what is new
    assert found.writer is None
    assert found.output is not None
    assert found.output.epoch == 3
    assert found.output.waiting == ()
    assert {name: (one.folder, one.watched, one.count) for name, one in found.output.queries.items()} == {
        "triangle": ("", True, counts["triangle"]),
        "open": ("open", True, counts["open"]),
    }

    with mock.patch.object(WatchOutput, "publish", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        watching.apply(history.updates(4))
    found = status_of(tmp_path / "index", tmp_path / "out")
    assert found.output is not None
    assert (found.epoch, found.output.epoch, found.output.waiting) == (4, 3, (4,))
    assert (
        bj.Graph.open(tmp_path / "index").count(QUERIES["open"], strategy="local") == rows_of("open", history.edges[4]).total()
    )
    found = status_of(tmp_path / "index")
    assert (found.runs, found.log) == (0, None)
    assert found.freeable > 0
    assert found.freeable == vacuum(tmp_path / "index")
    assert status_of(tmp_path / "index").freeable == 0


def test_a_count_that_is_out_of_date_says_so(tmp_path, cheaply):
    history = History(tmp_path, 22, 2)
    history.build()
    history.monitor(["open"]).apply(history.updates(1))
    bj.Graph.open(tmp_path / "index").apply(history.updates(2), QUERIES["pair"])
    found = status_of(tmp_path / "index", tmp_path / "out")
    assert [(query.query, query.epoch) for query in found.queries] == [(QUERIES["pair"], 2)]
    assert found.output is not None
    assert found.output.queries["open"].count is None


def test_it_waits_for_no_lock_and_names_who_holds_it(tmp_path):
    bj.build_index([(1, 2)], tmp_path / "index")
    index = tmp_path / "index"
    with locked(index):
        holder = status_of(index).writer
        assert holder is not None
        assert holder.startswith("process ")
        (index / "build-0123456789ab").mkdir()
        (index / "build-0123456789ab" / "part").write_bytes(bytes(1000))
        assert status_of(index).freeable == 0  # a build that goes on
    assert status_of(index).writer is None
    assert status_of(index).freeable == 1000
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    lock = index / ".lock"
    lock.write_text(lock.read_text().strip() or holder.replace(holder.split()[1], str(died.pid)))
    assert status_of(index).writer is None


def test_a_window_and_bad_rows_are_told(tmp_path):
    updates = tmp_path / "updates"
    updates.mkdir()
    (updates / "001.csv").write_text("src,dst,t,op\n1,2,5,+\n2,3,9,+\n3,1,12,+\n1,2,13,+\n")
    done = run_here(
        *(
            "watch",
            "ring=3-cycle",
            "graph",
            "--updates",
            "updates",
            "--output",
            "out",
            "--once",
            "--window",
            "5",
            "--time",
            "t",
        ),
        cwd=tmp_path,
    )
    assert done.returncode == 0
    (tmp_path / "out" / "_quarantine" / "epoch=1").mkdir(parents=True)
    pq.write_table(pa.table({"src": [1, 2, 3]}), tmp_path / "out" / "_quarantine" / "epoch=1" / "part-0.parquet")
    told = run_here("status", "graph", "--output", "out", cwd=tmp_path).stdout
    assert "graph: epoch 1, committed 20" in told
    assert f"  follows the files of {updates}, until batch 0, 001.csv\n" in told
    assert "  window: the clock of edge.t is at 13" in told
    assert "  edge: 3 edges in 3 rows\n" in told
    assert "  3 matches: " in told
    assert "out: last epoch 1\n  ring: in ring, epochs 1-, 3 matches: " in told
    assert "  3 updates in quarantine\n" in told
    facts = json.loads(run_here("status", "graph", "--output", "out", "--json", cwd=tmp_path).stdout)
    assert facts["epoch"] == 1
    assert facts["clock"] == {"relation": "edge", "column": "t", "at": 13.0}
    assert facts["ledger"]["name"] == "001.csv"
    assert facts["output"]["queries"]["ring"]["spans"] == [{"first": 1, "count": "0", "last": None}]
    assert facts["output"]["quarantined"] == 3


def test_mistakes_are_told_in_a_sentence(tmp_path):
    for name in ("graph", "other"):
        bj.build_index([(1, 2)], tmp_path / name)
    (tmp_path / "empty").mkdir()
    refused(run_here("status", "nowhere", cwd=tmp_path), "there is no index at nowhere")
    refused(run_here("status", "empty", cwd=tmp_path), "empty is not an index")
    refused(run_here("status", "graph", "--output", "empty", cwd=tmp_path), "empty is not the output of a watch")
    graph = bj.Graph.open(tmp_path / "other")
    watching = monitor_of(graph, {}, {"strategy": "local", "workers": None, "batch_size": None}, output=tmp_path / "out")
    with watching.writing():
        pass
    with pytest.raises(OutputError, match="is the output of another index"):
        status_of(tmp_path / "graph", tmp_path / "out")
    (tmp_path / "out" / "_bigjoin.json").write_text("[")
    with pytest.raises(OutputError, match="is not what a watch writes"):
        status_of(tmp_path / "other", tmp_path / "out")
    shutil.rmtree(tmp_path / "graph")
    with pytest.raises(IndexFormatError, match="there is no index"):
        status_of(tmp_path / "graph")


def test_it_reads_while_epochs_are_committed(tmp_path, cheaply, monkeypatch):
    """Compactions and folds happen meanwhile; what is told is always one whole version."""
    monkeypatch.setattr("bigjoin.streaming.commit.MAX_LOG_RECORDS", 2)
    monkeypatch.setattr("bigjoin.streaming.commit.RUN_RETENTION_SECONDS", 0.0)
    history = History(tmp_path, 23, 40)
    history.build()
    sizes = [len(edges) for edges in history.edges]
    seen, failures, done = [], [], threading.Event()

    def look() -> None:
        while not done.is_set():
            try:
                begun = (tmp_path / "out" / "_bigjoin.json").exists()
                found = status_of(tmp_path / "index", tmp_path / "out" if len(seen) % 2 and begun else None)
            except BaseException as error:
                failures.append(error)
                raise
            seen.append((found.epoch, found.relations["edge"].edges))

    looking = threading.Thread(target=look)
    looking.start()
    watching = history.monitor(["pair"])
    for epoch in range(1, 41):
        watching.apply(history.updates(epoch))
    done.set()
    looking.join()
    assert not failures
    assert seen == sorted(seen, key=lambda one: one[0])
    assert all(edges == sizes[epoch] for epoch, edges in seen)
    assert len({epoch for epoch, _ in seen}) > 3


def test_nothing_heavy_is_loaded(tmp_path):
    bj.build_index([(1, 2)], tmp_path / "index")
    program = (
        "import sys; from bigjoin.cli.main import cli; cli.main(['status', sys.argv[1]], standalone_mode=False); "
        "print(sorted({'pyspark', 'py4j', 'pandas'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "index")], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
