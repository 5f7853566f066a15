"""What was said to be durable survives a power failure at any moment, and what is left is always some whole epoch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.errors import BigjoinError, OutputError
from bigjoin.index.directory import Index
from bigjoin.index.manifest_file import read_manifest
from bigjoin.index.writer import locked
from bigjoin.languages import parse
from bigjoin.storage.local import LocalStorage
from bigjoin.streaming import commit, monitor
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched
from tests.power import Disk, listen
from tests.test_epoch_log import WEDGES, begun, edges_of, history, log_of, states, table, wedges


@pytest.mark.parametrize("sync", ["epoch", "group", "none"])
@pytest.mark.parametrize("limit", ["records", "files", ""])
def test_a_power_failure_leaves_what_was_durable(tmp_path, monkeypatch, sync, limit):
    """Before every step that touches the disk, look at what a failure could leave there."""
    limits = {"records": ("MAX_LOG_RECORDS", 3), "files": ("MAX_LOGGED_BYTES", 0)}
    if limit:
        monkeypatch.setattr(commit, *limits[limit])
    monkeypatch.setattr(monitor, "GROUP_SECONDS", 1000.0)
    path, random, epochs = begun(tmp_path / "index"), Random(7), history(11, 9)
    known, done, tried = states(epochs), [], 0
    disk = Disk(path)

    def fail() -> None:
        nonlocal tried
        durable = max((epoch.number for epoch in done if epoch.durable), default=0)
        left = tmp_path / "left"
        disk.failed(left, random)
        tried += 1
        index = Index.open(left)
        assert durable <= index.epoch <= len(done) + 1
        if tried % 5 == 0:
            assert edges_of(left) == known[index.epoch]
        shutil.rmtree(left)

    graph = bj.Graph.open(path)
    with monkeypatch.context() as patched:
        listen(disk, patched, fail)
        for number, updates in enumerate(epochs, 1):
            epoch = graph.apply(table(updates), WEDGES, sync=sync)
            assert epoch.durable or sync != "epoch"
            done.append(epoch)
            if number in (4, 9):
                graph.flush()
                assert all(one.durable for one in done)
    assert tried >= {"epoch": 12, "group": 6, "none": 8}[sync]
    assert Index.open(path).epoch == len(epochs)
    assert edges_of(path) == known[-1]


@pytest.mark.parametrize("sync", ["epoch", "group", "none"])
def test_output_is_published_when_its_epoch_is_durable(tmp_path, monkeypatch, sync):
    monkeypatch.setattr(monitor, "GROUP_SECONDS", 1000.0)
    path, epochs = begun(tmp_path / "index"), history(12, 8)
    known, output, query = states(epochs), tmp_path / "output", parse(WEDGES)
    watching = Monitor(
        path,
        {query.name: Watched(query)},
        spark=lambda: pytest.fail("no Spark"),
        initial=lambda *_: wedges(known[0]),
        output=output,
        strategy="local",
        sync=sync,
    )
    done = []
    for number, updates in enumerate(epochs, 1):
        done.append(watching.apply(table(updates)))
        if sync != "group":  # what a process goes on with is what others read
            assert watching.live is not None
            assert read_manifest(path) == watching.live.index.manifest
        there = {int(folder.name.partition("=")[2]) for folder in output.glob("epoch=*")}
        assert there == {epoch.number for epoch in done if epoch.durable}
        if number == 5:
            watching.flush()
    watching.finish()
    assert all(epoch.durable for epoch in done)
    lines = [json.loads(line) for line in (output / "_counts.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["count"]) for line in lines] == [(n, wedges(known[n])) for n in range(1, 9)]
    for epoch in done:
        rows = pq.read_table(output / f"epoch={epoch.number}", partitioning=None)
        assert rows.num_rows == epoch.created + epoch.destroyed == epoch.table.num_rows
    assert not Index.open(path).manifest.publications


def test_a_group_becomes_durable_in_time(tmp_path):
    path, epochs = begun(tmp_path / "index"), history(13, 4)
    graph = bj.Graph.open(path)
    graph.apply(table(epochs[0]), sync="group")  # it begins the log
    epoch = graph.apply(table(epochs[1]), sync="group")
    assert not epoch.durable
    until = time.monotonic() + 30
    while not epoch.durable and time.monotonic() < until:
        time.sleep(0.01)
    assert epoch.durable
    assert Index.open(path).epoch == 2


def test_a_query_sees_epochs_that_are_not_durable(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "GROUP_SECONDS", 1000.0)
    path, epochs = begun(tmp_path / "index"), history(14, 6)
    graph, known = bj.Graph.open(path), states(epochs)
    for updates in epochs:
        epoch = graph.apply(table(updates), WEDGES, sync="group")
    assert not epoch.durable
    assert graph.count(WEDGES, strategy="local") == wedges(known[-1])
    assert epoch.durable  # nothing is compacted that could be lost
    epoch = graph.apply(table([("x", "y", "+")]), WEDGES, sync="group")
    graph.close()
    assert epoch.durable
    assert edges_of(path) == known[-1] | {("x", "y")}


PROGRAM = """
import sys
import bigjoin as bj
from tests.test_epoch_log import history, table
graph = bj.Graph.open(sys.argv[1])
for updates in history(15, 5):
    epoch = graph.apply(table(updates), sync=sys.argv[2])
print(epoch.durable)
"""


@pytest.mark.parametrize("sync", ["group", "none"])
def test_a_program_that_ends_leaves_all_of_its_epochs(tmp_path, sync):
    path = begun(tmp_path / "index")
    here = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), sync], cwd=here, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
    assert Index.open(path).epoch == 5
    assert edges_of(path) == states(history(15, 5))[-1]


def test_others_wait_until_a_group_is_durable(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "GROUP_SECONDS", 0.5)
    path, epochs = begun(tmp_path / "index"), history(16, 6)
    one, two, known = bj.Graph.open(path), bj.Graph.open(path), states(epochs)
    for number, updates in enumerate(epochs, 1):
        epoch = (one, two)[number % 2].apply(table(updates), WEDGES, sync="group")
        assert (epoch.number, epoch.count) == (number, wedges(known[number]))


def test_a_full_disk_says_which_epochs_are_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "GROUP_SECONDS", 1000.0)
    path, epochs = begun(tmp_path / "index"), history(17, 6)
    graph, known = bj.Graph.open(path), states(epochs)
    for updates in epochs[:4]:
        graph.apply(table(updates), sync="group")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "write_from", full)
        with pytest.raises(OutputError, match="No space left on device; epochs 2 to 4 are lost, as they were not durable yet"):
            graph.flush()
    assert Index.open(path).epoch == 1
    for updates in epochs[1:]:
        graph.apply(table(updates), sync="group")
    graph.flush()
    assert edges_of(path) == known[-1]


def test_an_unknown_way_is_refused(tmp_path):
    with pytest.raises(BigjoinError, match="sync is 'groups'; did you mean 'group'"):
        bj.Graph.open(begun(tmp_path / "index")).apply(table([]), sync="groups")


def test_what_was_not_synced_is_told_from_damage(tmp_path):
    """Without syncs, an earlier record may be lost and a later one be there: then the log ends before both."""
    path, epochs = begun(tmp_path / "index"), history(18, 5)
    graph, known, ends = bj.Graph.open(path), states(epochs), []
    for updates in epochs:
        graph.apply(table(updates), sync="none")
        ends.append(log_of(path).stat().st_size)
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    content = bytearray(log_of(path).read_bytes())
    content[ends[1] : ends[1] + 64] = bytes(64)
    log_of(copy).write_bytes(content)
    assert Index.open(copy).epoch == 2
    assert edges_of(copy) == known[2]
    graph.flush()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize("sync", ["epoch", "group"])
def test_what_cannot_be_written_is_neither_durable_nor_published(sync, error, tmp_path, monkeypatch):
    """The epoch has no output until it is applied again, and what is then published is that epoch's."""
    monkeypatch.setattr(monitor, "GROUP_SECONDS", 1000.0)
    path = begun(tmp_path / "index")
    query = parse("q(a,b,c) := edge(a,b), edge(b,c)")
    watching = Monitor(
        path, {"q": Watched(query)}, spark=None, initial=lambda *_: 0, output=tmp_path / "out", strategy="local", sync=sync
    )
    done = [watching.apply(table([("x101", "x102", "+")])), watching.apply(table([("x102", "x103", "+")]))]
    watching.flush()

    def failing(*_, **__):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "write_from", failing)
        if sync == "group":
            done.append(watching.apply(table([("x103", "x104", "+")])))
        with pytest.raises((OutputError, KeyboardInterrupt)):
            watching.flush() if sync == "group" else watching.apply(table([("x103", "x104", "+")]))
    assert [epoch.durable for epoch in done] == [True, True, *[False] * (len(done) - 2)]
    assert Index.open(path).epoch == 2
    assert sorted(folder.name for folder in (tmp_path / "out").glob("epoch=*")) == ["epoch=1", "epoch=2"]
    again = watching.apply(table([("x100", "x101", "+")]))
    watching.flush()
    assert (again.number, again.created) == (3, 1)
    rows = [pq.read_table(file, partitioning=None).to_pylist() for file in (tmp_path / "out" / "epoch=3").glob("*.parquet")]
    assert rows == [[{"change": 1, "a": "x100", "b": "x101", "c": "x102"}]]
    assert len((tmp_path / "out" / "_counts.jsonl").read_text().splitlines()) == 3


def test_a_watch_that_ends_is_seen_by_other_writers(tmp_path):
    """It takes its output off the list, and the record of that must not be written over."""
    path = begun(tmp_path / "index")
    query = parse("q(a,b,c) := edge(a,b), edge(b,c)")
    options = {"spark": None, "initial": lambda *_: 0, "strategy": "local"}
    mine = Monitor(path, {"q": Watched(query)}, output=tmp_path / "out", **options)
    other = Monitor(path, {"q": Watched(query)}, **options)
    mine.apply(table([("x101", "x102", "+")]))
    other.apply(table([("x102", "x103", "+")]))
    mine.finish()
    other.apply(table([("x103", "x104", "+")]))
    assert read_manifest(path).publications == ()
    assert read_manifest(path).epoch == 3


def test_the_lock_is_kept_until_a_worn_index_is_compacted(tmp_path, monkeypatch):
    """Epochs that waited in memory are written before: others must not write between that and the compaction."""
    monkeypatch.setattr(monitor, "GROUP_SECONDS", 1000.0)
    path, epochs = begun(tmp_path / "index"), history(16, 4)
    graph, known, tried = bj.Graph.open(path), states(epochs), []
    for updates in epochs[:3]:
        graph.apply(table(updates), sync="group")
    compacting = monitor.commit_compacted

    def watched(*given):
        with pytest.raises(BigjoinError, match="another process"), locked(path):
            pass
        tried.append(given)
        return compacting(*given)

    monkeypatch.setattr(monitor, "is_worn", lambda index: True)
    monkeypatch.setattr(monitor, "commit_compacted", watched)
    graph.apply(table(epochs[3]), sync="group")
    assert tried
    with pytest.raises(BigjoinError):
        graph.apply(table([("x", "y", "?")]), sync="group")
    assert edges_of(path) == known[-1]
