"""The last epochs stay readable: each is the graph of brute force, whatever was folded, compacted, killed or lost since."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.compiled import loops
from bigjoin.errors import BigjoinError, IndexFormatError, OutputError
from bigjoin.index.directory import Index
from bigjoin.index.kept import KeptVersions
from bigjoin.index.manifest_file import MANIFEST, kept_manifest, manifest_without_log, read_manifest
from bigjoin.index.writer import freeable, vacuum, verify
from bigjoin.indexing import build_index
from bigjoin.storage.local import LocalStorage
from bigjoin.streaming import commit, compaction, monitor
from bigjoin.streaming.compaction import compact_in_place, without_runs
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.replay import Replay
from bigjoin.streaming.watched import Watched
from bigjoin.streaming.window import Window
from tests.executions import interpreted
from tests.power import JournaledDisk, listen
from tests.test_changed_queries import QUERIES, History, rows_of
from tests.test_cli import refused, run_here
from tests.test_exactly_once import Doomed, files_below
from tests.test_updates import LENGTH as LENGTH_OF_WINDOW
from tests.test_updates import Model


@pytest.fixture(autouse=True)
def cheaply(monkeypatch):
    monkeypatch.setattr(loops, "load", interpreted)


def edges_in(index: Index) -> set:
    """The pairs of an index, without changing it."""
    index = without_runs(index)
    verify(index)
    ids, trie = index.dictionaries["vertex"], index.trie("edge", (0, 1))
    return set(zip(*(ids.decode(column).to_pylist() for column in trie.tuples(np.arange(len(trie)))), strict=True))


def edges_at(path: Path, epoch: int) -> set:
    """The edges of a graph after an epoch, as it was kept."""
    return edges_in(Index.open(path, epoch=epoch))


def check_kept(history: History, last: int, oldest: int, root: Path | None = None) -> None:
    """All epochs that are kept are those of brute force, and no others can be opened."""
    path = (root or history.path) / "index"
    assert KeptVersions.of(path).oldest == oldest
    for epoch in range(oldest, last):
        past = Index.open(path, epoch=epoch)
        assert past.epoch == epoch
        assert past.is_past
        assert edges_in(past) == history.edges[epoch], epoch
    for epoch in range(oldest):
        with pytest.raises(BigjoinError, match=rf"epoch {epoch} of the index .* is not kept, and the oldest is {oldest}"):
            Index.open(path, epoch=epoch)
    with pytest.raises(BigjoinError, match=f"has no epoch {last + 1}: its last one is {last}"):
        Index.open(path, epoch=last + 1)


@pytest.mark.parametrize("seed", range(10))
def test_kept_epochs_are_those_of_brute_force(seed, tmp_path, monkeypatch):
    """Folds, compactions by the watch and by queries, vacuums, stored results and other writers in between."""
    random = Random(seed)
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", random.choice([1, 2, 5, 256]))
    monkeypatch.setattr(commit, "RUN_RETENTION_SECONDS", 0.0)
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", random.choice([0, 20, 1 << 18]))
    monkeypatch.setattr(compaction, "COMPACTION_RATIO", 1 << 40)
    monkeypatch.setattr(monitor, "CLEANING_SECONDS", 0.0)
    monkeypatch.setattr("bigjoin.index.writer.RETENTION_SECONDS", 0.0)
    history, keep = History(tmp_path, seed, 24), random.choice([1, 2, 3, 7])
    history.build()
    path, sync = tmp_path / "index", random.choice(["epoch", "group", "none"])
    watching = history.monitor(["pair"], keep_epochs=keep, sync=sync)
    for epoch in range(1, 25):
        if random.random() < 0.2:
            watching.finish()
            watching = history.monitor(["pair"], sync=sync, keep_epochs=keep if epoch == 1 else None)  # the index remembers
        watching.apply(history.updates(epoch))
        if random.random() < 0.3:
            watching.flush()
            event = random.choice(["compact", "vacuum", "verify", "store"])
            if event == "compact":
                compact_in_place(Index.open(path))
            elif event == "vacuum":
                expected = freeable(path)
                assert vacuum(path) == expected
                assert freeable(path) == 0
            elif event == "verify":
                verify(Index.open(path))
            else:
                bj.Graph.open(path).materialize("tri", QUERIES["triangle"])
            check_kept(history, epoch, max(0, epoch - keep))
    watching.finish()
    check_kept(history, 24, 24 - keep)
    before = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    vacuum(path)
    check_kept(history, 24, 24 - keep)
    assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) <= before


def test_nothing_is_kept_unless_asked_and_it_can_end(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 2)
    history = History(tmp_path, 31, 12)
    history.build()
    path = tmp_path / "index"
    for epoch in range(1, 4):
        history.monitor([]).apply(history.updates(epoch))
    check_kept(history, 3, 3)
    assert manifest_without_log(path).version == 4
    watching = history.monitor([], keep_epochs=4)
    for epoch in range(4, 11):
        watching.apply(history.updates(epoch))
        check_kept(history, epoch, max(1, epoch - 4))  # what the log still had
    assert manifest_without_log(path).version == 5
    history.monitor([], keep_epochs=0).apply(history.updates(11))
    check_kept(history, 11, 11)
    vacuum(path)
    manifest = manifest_without_log(path)
    assert (manifest.kept, manifest.keep_epochs, manifest.version) == ((), 0, 4)
    assert {file.name for file in path.iterdir()} == {MANIFEST, ".lock", *manifest.folders}


def test_a_past_graph_answers_and_is_not_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 2)
    history = History(tmp_path, 32, 8)
    history.build()
    graph = bj.Graph.open(tmp_path / "index")
    for epoch in range(1, 9):
        graph.apply(history.updates(epoch), keep_epochs=5)
    identity = read_manifest(tmp_path / "index").identity
    for epoch in range(3, 8):
        past = bj.Graph.open(tmp_path / "index", epoch=epoch)
        for name, text in QUERIES.items():
            assert past.count(text, strategy="local") == rows_of(name, history.edges[epoch]).total()
        assert past.edge_count == len(history.edges[epoch])
    for refuse in (
        lambda: past.apply(history.updates(8)),
        lambda: past.materialize("tri", QUERIES["triangle"]),
        lambda: past.apply(history.updates(8), QUERIES["pair"]),
    ):
        with pytest.raises(BigjoinError, match="as it was after epoch 7, which nobody can change: open it without epoch="):
            refuse()
    assert read_manifest(tmp_path / "index").identity == identity
    assert (
        bj.Graph.open(tmp_path / "index", epoch=8).count(QUERIES["pair"], strategy="local")
        == rows_of("pair", history.edges[8]).total()
    )
    with pytest.raises(BigjoinError, match="epoch is -1; it must be at least 0"):
        bj.Graph.open(tmp_path / "index", epoch=-1)
    with pytest.raises(BigjoinError, match=r"keep_epochs is 1\.5; it must be a whole number"):
        graph.apply(history.updates(8), keep_epochs=1.5)


def test_rows_and_properties_are_kept(tmp_path, monkeypatch):
    """Parallel edges with values: after compactions, ids of rows are others, and earlier epochs still have theirs."""
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 2)
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", 6)
    monkeypatch.setattr(compaction, "COMPACTION_RATIO", 1 << 40)
    random, rows = Random(5), [[("a", "b", 1), ("b", "c", 2)]]
    source = {name: [row[i] for row in rows[0]] for i, name in enumerate(("src", "dst", "w"))}
    build_index(pa.table(source), tmp_path / "index")
    graph = bj.Graph.open(tmp_path / "index")
    for epoch in range(1, 15):
        gone = random.sample(rows[-1], min(len(rows[-1]), 2))
        new = [(random.choice("abcdef"), random.choice("abcdef"), 10 * epoch + i) for i in range(3)]
        rows.append([row for row in rows[-1] if row not in gone] + new)
        changes = [(*row, "-") for row in gone] + [(*row, "+") for row in new]
        table = pa.table({name: [one[i] for one in changes] for i, name in enumerate(("src", "dst", "w", "op"))})
        graph.apply(table, keep_epochs=6)
    for epoch in range(8, 15):
        past = bj.Graph.open(tmp_path / "index", epoch=epoch)
        found = past.arrow("q(a, b, e.w) := edge(a, b, e)", strategy="local")
        assert sorted(tuple(row.values()) for row in found.read_all().to_pylist()) == sorted(rows[epoch])
    verify(Index.open(tmp_path / "index"))


def damaged_copies(path: Path, target: Path):
    """Copies of an index, each with one file of a kept version damaged, gone, or a link to elsewhere."""
    entry = manifest_without_log(path).kept[1]
    begun = kept_manifest(path, entry)
    assert begun.log is not None
    files = {entry.manifest, begun.log, *begun.files}
    current = {*read_manifest(path).files}
    for number, name in enumerate(sorted(files - current)):
        for how in ("cut", "changed", "gone", "link"):
            copy = target / f"{number}{how}"
            shutil.copytree(path, copy)
            content = (copy / name).read_bytes()
            if not content or (how == "changed" and name.endswith("epochs.log")):
                continue
            (copy / name).unlink()
            if how == "cut":
                (copy / name).write_bytes(content[:-1] if not name.endswith("epochs.log") else content[:64])
            elif how == "changed":
                at = len(content) - 2 if name.endswith(".json") else len(content) // 2
                (copy / name).write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            elif how == "link":
                (copy / name).symlink_to(path / name)
            yield copy, entry


def read_all(path: Path, entry) -> None:
    for epoch in range(entry.epochs[0], entry.epochs[1] + 1):
        verify(without_runs(Index.open(path, epoch=epoch)))


def test_what_is_kept_is_not_trusted_either(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 3)
    history = History(tmp_path, 33, 9)
    history.build()
    watching = history.monitor([], keep_epochs=9)
    for epoch in range(1, 10):
        watching.apply(history.updates(epoch))
    compact_in_place(Index.open(tmp_path / "index"))
    assert len(manifest_without_log(tmp_path / "index").kept) >= 3
    tried = 0
    for copy, entry in damaged_copies(tmp_path / "index", tmp_path):
        with pytest.raises(IndexFormatError):
            read_all(copy, entry)
        with pytest.raises(IndexFormatError):
            verify(Index.open(copy))
        tried += 1
    assert tried >= 8


@pytest.mark.parametrize(
    "change",
    [
        {"manifest": "build-000000000000/../../manifest.json"},
        {"folders": ["../elsewhere"]},
        {"folders": []},
        {"epochs": [5, 2]},
        {"epochs": [0, 99]},
        {"epochs": [-1, 3]},
    ],
)
def test_no_entry_leads_outside_or_makes_no_sense(change, tmp_path):
    from tests.altered import digest

    history = History(tmp_path, 34, 3)
    history.build()
    watching = history.monitor([], keep_epochs=3)
    for epoch in range(1, 4):
        watching.apply(history.updates(epoch))
    file = tmp_path / "index" / MANIFEST
    manifest = json.loads(file.read_text())
    manifest["kept"][0].update(change)
    manifest.pop("sha256")
    file.write_text(json.dumps(digest(manifest)))
    with pytest.raises(IndexFormatError, match="kept"):
        Index.open(tmp_path / "index")


KEPT, LENGTH = 3, 9


def go_on(root: Path, seed: int) -> None:
    """Apply the epochs that an index lacks, with folds and compactions."""
    history = History(root, seed, LENGTH)
    with (
        mock.patch.object(loops, "load", interpreted),
        mock.patch.object(commit, "MAX_LOG_RECORDS", 2),
        mock.patch.multiple(compaction, MIN_COMPACTED_TUPLES=12, COMPACTION_RATIO=1 << 40),
        mock.patch.object(monitor, "CLEANING_SECONDS", 0.0),
    ):
        watching = history.monitor([], keep_epochs=KEPT)
        for epoch in range(read_manifest(root / "index").epoch + 1, LENGTH + 1):
            watching.apply(history.updates(epoch))


def check_left(history: History, root: Path) -> None:
    """Whatever a kill or a failure leaves is some epoch, with the epochs before it."""
    last = read_manifest(root / "index").epoch
    oldest = KeptVersions.of(root / "index").oldest
    assert oldest == max(0, last - KEPT) or manifest_without_log(root / "index").keep_epochs == 0
    check_kept(history, last, oldest, root)


def test_a_power_failure_loses_no_kept_epoch(tmp_path, monkeypatch):
    history, tried, random = History(tmp_path / "place", 8, LENGTH), 0, Random(1)
    history.path.mkdir()
    history.build()
    (history.path / "out").mkdir()
    disk, lefts = JournaledDisk(history.path), []

    def fail() -> None:
        nonlocal tried
        tried += 1
        if tried % 11 == 0:
            lefts.append(tmp_path / f"left{tried}")
            disk.failed(lefts[-1], random)

    with monkeypatch.context() as patched:
        listen(disk, patched, fail)
        go_on(history.path, 8)
    disk.close()
    check_kept(history, LENGTH, LENGTH - KEPT)
    assert len(lefts) >= 5
    for left in lefts:
        check_left(history, left)
        go_on(left, 8)
        check_kept(history, LENGTH, LENGTH - KEPT, left)


def serve() -> None:
    """Go on in processes that are forked from this one, each killed at the step that is asked."""
    os.fsync = os.fdatasync = lambda descriptor: None
    for line in sys.stdin:
        root, at = json.loads(line)
        if not (child := os.fork()):
            if at:
                Doomed(at, cleaning=at % 2 == 0)
            go_on(Path(root), 9)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201


def test_killed_at_any_step_the_kept_epochs_are_there(tmp_path):
    history = History(tmp_path / "place", 9, LENGTH)
    history.path.mkdir()
    history.build()
    command = [sys.executable, "-c", "from tests.test_kept_epochs import serve; serve()"]
    kills = 0
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    ) as p:

        def go(root: Path, at: int) -> int:
            p.stdin.write(json.dumps([str(root), at]) + "\n")
            p.stdin.flush()
            return int(p.stdout.readline())

        for at in (*range(1, 200, 24), *range(2, 40, 10)):
            left = tmp_path / str(at)
            shutil.copytree(history.path, left)
            status = go(left, at)
            assert status in (0, -signal.SIGKILL)
            kills += status != 0
            check_left(history, left)
            assert go(left, 0) == 0
            check_kept(history, LENGTH, LENGTH - KEPT, left)
            shutil.rmtree(left)
        p.stdin.close()
    assert kills >= 7


def test_the_commands_know_of_kept_epochs(tmp_path):
    (tmp_path / "updates").mkdir()
    for number, rows in enumerate([["1,2,+", "2,3,+", "3,1,+"], ["3,4,+", "4,1,+"], ["1,2,-"], ["5,6,+"]], 1):
        (tmp_path / "updates" / f"{number:03}.csv").write_text("\n".join(["src,dst,op", *rows]) + "\n")
    watch = ("watch", "3-cycle", "graph", "--updates", "updates", "--once", "--keep-epochs")
    assert run_here(*watch, "2", cwd=tmp_path).returncode == 0
    for epoch, edges in ((4, 5), (3, 4), (2, 5)):
        done = run_here("count", "q(a, b) := edge(a, b)", "graph", "--epoch", str(epoch), "--strategy", "local", cwd=tmp_path)
        assert int(done.stdout.split()[0]) == edges, done
    found = run_here("find", "3-cycle", "graph", "--epoch", "2", "--strategy", "local", "--quiet", cwd=tmp_path).stdout
    assert len([line for line in found.splitlines() if set(line.replace(",", " ").split()) == {"1", "2", "3"}]) == 3
    refused(run_here("count", "3-cycle", "graph", "--epoch", "1", cwd=tmp_path), "epoch 1 of the index", "the oldest is 2")
    refused(run_here("count", "3-cycle", "graph", "--epoch", "9", cwd=tmp_path), "has no epoch 9: its last one is 4")
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n")
    done = run_here("count", "3-cycle", "edges.csv", "--epoch", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert "--epoch is for an index that keeps epochs" in done.stderr
    status = json.loads(run_here("status", "graph", "--json", cwd=tmp_path).stdout)
    assert (status["keep_epochs"], status["oldest"]) == (2, 2)
    assert "epochs 2 to 4 are readable" in run_here("status", "graph", cwd=tmp_path).stdout
    assert "epochs 2 to 4 are readable" in run_here("info", "graph", cwd=tmp_path).stdout
    assert json.loads(run_here("info", "graph", "--json", cwd=tmp_path).stdout)["oldest_epoch"] == 2
    assert run_here("verify", "graph", cwd=tmp_path).returncode == 0
    assert run_here("vacuum", "graph", cwd=tmp_path).returncode == 0
    assert run_here("count", "3-cycle", "graph", "--epoch", "2", "--strategy", "local", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_replay_is_what_a_watch_would_have_given(seed, tmp_path, monkeypatch):
    """Of epochs in a log, of those that folded one, and across compactions; the index stays as it is."""
    random = Random(seed)
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", random.choice([1, 2, 3, 256]))
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", random.choice([0, 20, 1 << 18]))
    monkeypatch.setattr(compaction, "COMPACTION_RATIO", 1 << 40)
    history, keep = History(tmp_path, 40 + seed, 14), random.choice([3, 8, 20])
    history.build()
    watching = history.monitor(["pair"], keep_epochs=keep)
    for epoch in range(1, 15):
        watching.apply(history.updates(epoch))
        if random.random() < 0.2:
            compact_in_place(Index.open(tmp_path / "index"))
    before = files_below(tmp_path / "index")
    first, names = max(0, 14 - keep) + random.randint(1, 3), random.sample(sorted(QUERIES), 2)
    replayed = History(tmp_path / "replayed", 40 + seed, 14)
    replayed.path.mkdir()
    graph = bj.Graph.open(tmp_path / "index")
    epochs = graph.replay({name: QUERIES[name] for name in names}, output=replayed.path / "out", first=first)
    assert [epoch.number for epoch in epochs] == list(range(first, 15))
    assert files_below(tmp_path / "index") == before
    replayed.check({epoch: set(names) for epoch in range(first, 15)})
    for epoch, line in replayed.lines().items():
        gone, came = history.edges[epoch - 1] - history.edges[epoch], history.edges[epoch] - history.edges[epoch - 1]
        assert (line["inserted"], line["deleted"], line["updates"]) == (len(came), len(gone), len(came) + len(gone))
    assert graph.replay({name: QUERIES[name] for name in names}, output=replayed.path / "out", first=first) == []
    for epoch in epochs:
        assert epoch.queries[names[0]].table.num_rows == history.changes(names[0], epoch.number).total()

    other = tmp_path / "again"
    shutil.copytree(tmp_path / "index", other / "index")
    shutil.copytree(replayed.path / "out", other / "out")
    history.edges.append(history.edges[-1] | {(100, 101), (101, 100), (100, 0), (0, 101)})
    history.monitor(names, root=other).apply(history.updates(15))  # a watch goes on with what was replayed
    history.check({epoch: set(names) for epoch in range(first, 16)}, other)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(12))
def test_replayed_histories_are_those_of_the_model(seed, tmp_path, monkeypatch):
    """Parallel edges with properties, windows, undirected graphs and flags, up to automorphisms for `unique`."""
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", [1, 3][seed % 2])
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", [0, 5, 1 << 16][seed % 3])
    model = Model(Random(100 + seed))
    build_index(model.source(), tmp_path / "index", directed=model.directed)
    watching = Monitor(
        tmp_path / "index",
        {},
        spark=None,
        initial=lambda *_: 0,
        order="s" if model.ordered else None,
        window=Window("t", LENGTH_OF_WINDOW) if model.window else None,
        keep_epochs=9,
    )
    results = [Counter(model.result())]
    for epoch in range(8):
        watching.apply(model.updates(epoch))
        results.append(Counter(model.result()))
    watched = {"q": Watched(model.query, is_named=True)}
    total = Replay(tmp_path / "index", watched, tmp_path / "out", 1, lambda *_: results[0].total()).run()
    for epoch, (before, after) in zip(total, pairwise(results), strict=True):
        found: Counter = Counter()
        for row in epoch.queries["q"].table.drop_columns("epoch").to_pylist():
            found[model.canonical(tuple(row.values())[1:])] += row["change"]
        wanted = Counter(after)
        wanted.subtract(before)
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in wanted.items() if v}, (seed, epoch.number)
        assert epoch.queries["q"].count == after.total()


def test_a_replay_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 3)
    history = History(tmp_path, 61, 8)
    history.build()
    watching = history.monitor([], keep_epochs=8)
    for epoch in range(1, 9):
        watching.apply(history.updates(epoch))
    graph, replayed = bj.Graph.open(tmp_path / "index"), History(tmp_path / "replayed", 61, 8)
    replayed.path.mkdir()
    texts, output = {name: QUERIES[name] for name in ("open", "cycle")}, replayed.path / "out"
    calls, move = 0, LocalStorage.move

    def interrupted(self, *names):
        nonlocal calls
        calls += 1
        move(self, *names)
        if calls % 3 == 0:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "move", interrupted)
        for _ in range(4):
            with pytest.raises(KeyboardInterrupt):
                graph.replay(texts, output=output, first=2)
    graph.replay(texts, output=output, first=2)
    replayed.check({epoch: set(texts) for epoch in range(2, 9)})
    with pytest.raises(OutputError, match="has other queries or begins with another epoch: choose a new folder"):
        graph.replay(texts, output=output, first=3)
    with pytest.raises(BigjoinError, match="has no epoch 9: its last one is 8"):
        graph.replay(texts, output=tmp_path / "new", first=9)
    history.monitor([], keep_epochs=2).apply(history.updates(8))
    with pytest.raises(BigjoinError, match=r"epoch 7 of .* cannot be replayed: .*; begin with 8"):
        graph.replay(texts, output=tmp_path / "new", first=7)
    with pytest.raises(BigjoinError, match="first is 0; it must be at least 1"):
        graph.replay(texts, output=tmp_path / "new", first=0)
    assert not (tmp_path / "new").exists()


def test_the_replay_command(tmp_path):
    (tmp_path / "updates").mkdir()
    for number, rows in enumerate([["1,2,+", "2,3,+", "3,1,+"], ["3,4,+", "4,1,+"], ["1,2,-"]], 1):
        (tmp_path / "updates" / f"{number:03}.csv").write_text("\n".join(["src,dst,op", *rows]) + "\n")
    watch = ("watch", "3-cycle", "graph", "--updates", "updates", "--once", "--keep-epochs", "5", "--output", "out")
    assert run_here(*watch, cwd=tmp_path).returncode == 0
    done = run_here("replay", "3-cycle", "four=4-cycle", "graph", "--output", "both", "--first", "2", cwd=tmp_path)
    assert done.stdout == "2 epochs, +4 -7 matches; 3-cycle 0, four 0\n", done.stderr
    assert sorted(path.name for path in (tmp_path / "both" / "four").iterdir()) == ["epoch=2", "epoch=3"]
    refused(run_here("replay", "3-cycle", "graph", "--output", "x", "--first", "9", cwd=tmp_path), "has no epoch 9")


def test_a_replay_follows_properties_stored_results_and_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 2)
    accounts = pa.table({"id": [1, 2, 3], "label": ["person", "person", "bank"], "age": [10, 20, 30]})
    payments = pa.table({"src": [1, 2, 1], "dst": [3, 3, 2], "pid": [1, 2, 3], "amount": [10, 20, 30]})
    bj.build_index(payments, tmp_path / "index", vertices=accounts)
    graph = bj.Graph.open(tmp_path / "index")
    graph.materialize("older", "older(a, b) := edge(a, b), b.age > a.age")
    queries = {
        "adults": "adults(a, b) := edge(a, b), person(a), b.age >= 18",
        "stored": "stored(a, b, c) := older(a, b), edge(b, c)",
        "fanin": "fanin(b, count(e) as n) := edge(a, b, e) having n >= 2",
    }
    updates = [
        [{"relation": "vertex", "id": 2, "op": "=", "label": "bank", "age": 5}],
        [{"relation": "edge", "src": 3, "dst": 1, "op": "+", "pid": 4, "amount": 1}],
        [{"relation": "vertex", "id": 3, "op": "=", "label": "person", "age": 1}],
        [
            {"relation": "edge", "src": 2, "dst": 1, "op": "+", "pid": 5, "amount": 1},
            {"relation": "vertex", "id": 1, "op": "-"},
        ],
        [{"relation": "edge", "src": 2, "dst": 3, "op": "-", "pid": 2}],
    ]
    wanted = {name: [] for name in queries}
    for rows in updates:
        epoch = graph.apply(rows, queries, key="pid", keep_epochs=9, strategy="local")
        for name, changes in epoch.queries.items():
            wanted[name].append(sorted(tuple(row.values())[1:] for row in changes.table.to_pylist()))
    assert any(wanted["adults"])
    assert any(wanted["stored"])
    assert any(wanted["fanin"])
    graph.replay(queries, output=tmp_path / "again", first=1)
    for name, epochs in wanted.items():
        for number, rows in enumerate(epochs, 1):
            found = pq.read_table(tmp_path / "again" / name / f"epoch={number}", partitioning=None).to_pylist()
            assert sorted(tuple(row.values()) for row in found) == rows, (name, number)
