"""Queries are added to a watch and dropped from it on one output folder: each keeps its folder, and gaps are recorded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from bigjoin.compiled import loops
from bigjoin.errors import BigjoinError, OutputError
from bigjoin.graph import Graph
from bigjoin.index.manifest_file import read_manifest
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.streaming import commit, compaction
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.output import WatchOutput
from bigjoin.streaming.watched import Watched
from tests.executions import interpreted, plain
from tests.oracles import naive
from tests.power import JournaledDisk, listen
from tests.test_cli import refused, run_here
from tests.test_exactly_once import Doomed

QUERIES = {
    "triangle": "triangle(a, b, c) := edge(a, b), edge(b, c), edge(a, c)",
    "cycle": "cycle(a, b, c) := edge(a, b), edge(b, c), edge(c, a)",
    "open": "open(a, b, c) := edge(a, b), edge(b, c), not edge(a, c), a != c",
    "pair": "pair(a, b) := edge(a, b), edge(b, a)",
}


def rows_of(name: str, edges: set) -> Counter:
    """The matches of a query by brute force."""
    attributes, atoms, filters = plain(parse(QUERIES[name]))
    return Counter(naive.matches({"edge": edges}, attributes, atoms, filters))


@dataclass
class History:
    """A graph that changes at random, with the matches of every query after each epoch."""

    path: Path
    seed: int
    length: int

    @cached_property
    def edges(self) -> list[set]:
        random = Random(self.seed)
        found = [{(random.randrange(7), random.randrange(7)) for _ in range(14)}]
        for _ in range(self.length):
            gone = set(random.sample(sorted(found[-1]), min(3, len(found[-1]))))
            found.append((found[-1] - gone) | {(random.randrange(7), random.randrange(7)) for _ in range(4)})
        return found

    def updates(self, epoch: int) -> pa.Table:
        before, after = self.edges[epoch - 1], self.edges[epoch]
        rows = [(*edge, "-") for edge in sorted(before - after)] + [(*edge, "+") for edge in sorted(after - before)]
        src, dst, op = zip(*rows, strict=True) if rows else ((), (), ())
        return pa.table({"src": pa.array(src, pa.int64()), "dst": pa.array(dst, pa.int64()), "op": pa.array(op, pa.string())})

    def changes(self, name: str, epoch: int) -> Counter:
        before, after = rows_of(name, self.edges[epoch - 1]), rows_of(name, self.edges[epoch])
        gone, new = before - after, after - before
        return Counter({(-1, *row): n for row, n in gone.items()}) + Counter({(1, *row): n for row, n in new.items()})

    def build(self) -> None:
        src, dst = zip(*sorted(self.edges[0]), strict=True)
        build_index(pa.table({"src": src, "dst": dst}), self.path / "index")

    def monitor(self, names, *, is_named: bool = True, root: Path | None = None, spark=None, **options) -> Monitor:
        """Watch queries by name; initial counts are those of brute force."""
        texts = {str(parse(QUERIES[name])): name for name in QUERIES}
        return Monitor(
            (root or self.path) / "index",
            {name: Watched(parse(QUERIES[name]), is_named=is_named) for name in names},
            spark=lambda: spark,
            initial=lambda index, query: rows_of(texts[str(query)], self.edges[index.epoch]).total(),
            output=(root or self.path) / "out",
            **options,
        )

    def entry(self, root: Path | None = None) -> dict:
        return json.loads(((root or self.path) / "out" / "_bigjoin.json").read_text())["queries"]

    def lines(self, root: Path | None = None) -> dict[int, dict]:
        file = (root or self.path) / "out" / "_counts.jsonl"
        found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        assert [line["epoch"] for line in found] == sorted({line["epoch"] for line in found})
        return {line["epoch"]: line for line in found}

    def check(self, watched: dict[int, set[str]], root: Path | None = None) -> None:
        """Each query has exactly the epochs in which it was watched, with the rows of brute force, and spans that say so."""
        entry, lines = self.entry(root), self.lines(root)
        assert sorted(lines) == sorted(watched)
        for name, known in entry.items():
            mine = [epoch for epoch, names in watched.items() if name in names]
            folder = (root or self.path) / "out" / known["folder"]
            assert sorted(int(at.name[6:]) for at in folder.glob("epoch=*")) == mine, name
            for epoch in mine:
                assert rows_in(folder / f"epoch={epoch}") == self.changes(name, epoch)
                figures = lines[epoch]["queries"][name] if "queries" in lines[epoch] else lines[epoch]
                assert figures["count"] == rows_of(name, self.edges[epoch]).total()
            spans = known["spans"]
            last = max(watched, default=0)
            covered = [epoch for span in spans for epoch in range(span["first"], span.get("last", last) + 1)]
            assert covered == mine, name
            for span in spans:
                assert int(span["count"]) == rows_of(name, self.edges[span["first"] - 1]).total()


def rows_in(folder: Path) -> Counter:
    table = ds.dataset(folder, format="parquet").to_table()
    names = [column for column in table.column_names if column != "change"]
    return Counter((row["change"], *(row[name] for name in names)) for row in table.to_pylist())


@pytest.fixture
def cheaply(monkeypatch):
    monkeypatch.setattr(loops, "load", interpreted)


@pytest.mark.parametrize("seed", range(12))
def test_queries_come_and_go_at_random(seed, tmp_path, monkeypatch, cheaply):
    """Between watches, other writers may have epochs of their own; watches may end before their output is in place."""
    random = Random(seed)
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", 3)
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", random.choice([0, 1 << 18]))
    monkeypatch.setattr(compaction, "COMPACTION_RATIO", 1 << 40)
    history, watched, epoch = History(tmp_path, seed, 14), {}, 0
    history.build()
    while epoch < history.length:
        names = random.sample(sorted(QUERIES), random.randint(1, 3))
        watching = history.monitor(names)
        for _ in range(random.randint(0, 3)):
            if epoch == history.length:
                break
            epoch += 1
            if random.random() < 0.2:
                with watching.writing():
                    pass  # what was left by others is finished first
                with mock.patch.object(WatchOutput, "publish", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
                    watching.apply(history.updates(epoch))
                watching = history.monitor(names)
            else:
                watching.apply(history.updates(epoch))
            watched[epoch] = set(names)
        if random.random() < 0.3 and epoch < history.length:
            epoch += 1
            Monitor(tmp_path / "index", {}, spark=None, initial=lambda *_: 0).apply(history.updates(epoch))
    with history.monitor(["pair"]).writing():
        pass  # finishes what is left, and drops the others
    history.check(watched)
    assert {known["folder"] for known in history.entry().values()} <= set(QUERIES)


def test_a_query_keeps_its_folder(tmp_path, cheaply):
    """The first has the output folder itself, since nobody has named it; that it was dropped is recorded."""
    history = History(tmp_path, 3, 6)
    history.build()
    plan = [(["triangle"], False), (["triangle", "open"], True), (["open"], True), (["open"], False), (["triangle"], False)]
    watched = {}
    for epoch, (names, is_named) in enumerate(plan, 1):
        history.monitor(names, is_named=is_named).apply(history.updates(epoch))
        watched[epoch] = set(names)
    history.check(watched)
    entry, lines = history.entry(), history.lines()
    assert {name: known["folder"] for name, known in entry.items()} == {"triangle": "", "open": "open"}
    assert [(span["first"], span.get("last")) for span in entry["triangle"]["spans"]] == [(1, 2), (5, None)]
    assert ["queries" in lines[epoch] for epoch in range(1, 6)] == [False, True, True, True, False]
    assert sorted(lines[2]["queries"]) == ["open", "triangle"]


def test_a_single_query_with_a_name_has_a_folder_of_its_own(tmp_path, cheaply):
    history = History(tmp_path, 4, 2)
    history.build()
    history.monitor(["cycle"]).apply(history.updates(1))
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.name != "_staging") == [
        "_bigjoin.json",
        "_counts.jsonl",
        "cycle",
    ]
    history.check({1: {"cycle"}})
    assert history.lines()[1]["queries"]["cycle"]["count"] == rows_of("cycle", history.edges[1]).total()


@pytest.mark.parametrize("names", [["triangle"], ["triangle", "open"]])
def test_outputs_of_older_versions_go_on(names, tmp_path, cheaply):
    history = History(tmp_path, 5, 3)
    history.build()
    history.monitor(names, is_named=False).apply(history.updates(1))
    about = tmp_path / "out" / "_bigjoin.json"
    known = json.loads(about.read_text())
    about.write_text(json.dumps({**known, "queries": {name: one["query"] for name, one in known["queries"].items()}}))
    history.monitor(names, is_named=False).apply(history.updates(2))
    history.monitor([*names, "pair"], is_named=False).apply(history.updates(3))
    entry = history.entry()
    assert {name: one["folder"] for name, one in entry.items()} == {
        **({"triangle": ""} if len(names) == 1 else {name: name for name in names}),
        "pair": "pair",
    }
    assert [one["spans"] for name, one in entry.items() if name in names] == [[{}]] * len(names)
    assert entry["pair"]["spans"] == [{"first": 3, "count": str(rows_of("pair", history.edges[2]).total())}]
    for name in names:
        folder = tmp_path / "out" / entry[name]["folder"]
        assert [rows_in(folder / f"epoch={epoch}") for epoch in (1, 2, 3)] == [history.changes(name, e) for e in (1, 2, 3)]


def test_the_same_name_with_another_text_is_refused(tmp_path, cheaply):
    history = History(tmp_path, 6, 2)
    history.build()
    history.monitor(["triangle", "open"]).apply(history.updates(1))
    history.monitor(["open"]).apply(history.updates(2))
    before = history.entry()
    other = Watched(parse("triangle(a, b) := edge(a, b)"), is_named=True)
    for watched, said in [
        ({"triangle": other}, r"another query by the name 'triangle' \(triangle\(a, b, c\).*give this one another name"),
        ({"pair": Watched(parse(QUERIES["pair"]))}, r"the output of other queries \(.*name this one \(NAME=QUERY\)"),
        ({"_open": Watched(parse(QUERIES["open"]), is_named=True)}, "readers pass over: give it another name"),
    ]:
        watching = Monitor(tmp_path / "index", watched, spark=None, initial=lambda *_: 0, output=tmp_path / "out")
        with pytest.raises(OutputError, match=said):
            watching.apply(history.updates(2))
    assert history.entry() == before
    assert read_manifest(tmp_path / "index").epoch == 2


@pytest.mark.parametrize(
    ("content", "what"),
    [('{"index": "x", "queries": {"a": {"query": "q", "folder": "../a"}}}', ""), ('{"index": 1}', ""), ("[]", ""), ("{", "")],
)
def test_what_no_watch_has_written_is_refused(content, what, tmp_path, cheaply):
    history = History(tmp_path, 6, 1)
    history.build()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_bigjoin.json").write_text(content)
    with pytest.raises(OutputError, match=r"_bigjoin.json is not what a watch writes: choose a new output folder"):
        history.monitor(["pair"]).apply(history.updates(1))


CHANGES = [["triangle"], ["triangle", "open"], ["pair"], ["open", "triangle"]]
"""What is watched in the epochs of a history in turn."""


def go_on(root: Path, seed: int) -> None:
    """Apply the epochs that an index lacks, each with the queries of its own."""
    history = History(root, seed, len(CHANGES))
    with mock.patch.object(loops, "load", interpreted):
        for epoch in range(read_manifest(root / "index").epoch + 1, len(CHANGES) + 1):
            history.monitor(CHANGES[epoch - 1]).apply(history.updates(epoch))
        with history.monitor(CHANGES[-1]).writing():
            pass


def expected() -> dict[int, set[str]]:
    return {epoch: set(names) for epoch, names in enumerate(CHANGES, 1)}


def test_a_power_failure_at_any_step_loses_no_query(tmp_path, monkeypatch, cheaply):
    """Whatever a failure leaves, the watches that were to come make it what it was to be."""
    history, tried, random = History(tmp_path / "place", 8, len(CHANGES)), 0, Random(1)
    history.path.mkdir()
    history.build()
    (history.path / "out").mkdir()
    disk, lefts = JournaledDisk(history.path), []

    def fail() -> None:
        nonlocal tried
        tried += 1
        if tried % 9 == 0:
            lefts.append(tmp_path / f"left{tried}")
            disk.failed(lefts[-1], random)

    with monkeypatch.context() as patched:
        listen(disk, patched, fail)
        go_on(history.path, 8)
    disk.close()
    history.check(expected())
    assert len(lefts) >= 10
    for left in lefts:
        go_on(left, 8)
        history.check(expected(), left)


def serve() -> None:
    """Go on in processes that are forked from this one, each killed at the step that is asked."""
    os.fsync = os.fdatasync = lambda descriptor: None
    for line in sys.stdin:
        root, at = json.loads(line)
        if not (child := os.fork()):
            if at:
                Doomed(at, cleaning=False)
            go_on(Path(root), 9)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201


@pytest.mark.slow
def test_killed_at_every_step_of_a_change_of_queries(tmp_path):
    history = History(tmp_path / "place", 9, len(CHANGES))
    history.path.mkdir()
    history.build()
    command = [sys.executable, "-c", "from tests.test_changed_queries import serve; serve()"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    ) as p:

        def go(root: Path, at: int) -> int:
            p.stdin.write(json.dumps([str(root), at]) + "\n")
            p.stdin.flush()
            return int(p.stdout.readline())

        for at in range(1, 500, 13):
            left = tmp_path / str(at)
            shutil.copytree(history.path, left)
            status = go(left, at)
            assert status in (0, -signal.SIGKILL)
            if not status:
                break
            assert go(left, 0) == 0
            history.check(expected(), left)
            shutil.rmtree(left)
        p.stdin.close()
    assert at > 60
    history.check(expected(), left)


def test_the_command_changes_what_it_watches(tmp_path):
    updates = tmp_path / "updates"
    updates.mkdir()

    def give(number, *rows):
        (updates / f"{number:03}.csv").write_text("\n".join(["src,dst,op", *rows]) + "\n")

    def watch(*queries):
        return run_here("watch", *queries, "graph", "--updates", "updates", "--output", "out", "--once", cwd=tmp_path)

    give(1, "1,2,+", "2,3,+", "3,1,+")
    assert watch("3-cycle").stdout == "1 epoch, 3 updates, +3 -0 matches; 3-cycle 3\n"
    give(2, "3,4,+", "4,1,+")
    assert watch("3-cycle", "four=4-cycle").stdout == "1 epoch, 2 updates, +4 -0 matches; 3-cycle 3, four 4\n"
    give(3, "1,3,+", "2,1,+", "4,3,+")
    assert watch("four=4-cycle").stdout.startswith("1 epoch, 3 updates, +")
    assert refused(watch("four=4-clique"), "another query by the name 'four'", "(NAME=QUERY)")
    assert refused(watch("diamond"), "is the output of other queries", "name this one (NAME=QUERY)")
    about = json.loads((tmp_path / "out" / "_bigjoin.json").read_text())["queries"]
    assert {name: one["folder"] for name, one in about.items()} == {"3-cycle": "", "four": "four"}
    assert about["3-cycle"]["spans"] == [{"first": 1, "count": "0", "last": 2}]
    assert about["four"]["spans"] == [{"first": 2, "count": "0"}]
    assert sorted(path.name for path in (tmp_path / "out").glob("epoch=*")) == ["epoch=1", "epoch=2"]
    assert sorted(path.name for path in (tmp_path / "out" / "four").iterdir()) == ["epoch=2", "epoch=3"]


@pytest.mark.spark
def test_a_stream_goes_on_with_another_query(tmp_path, spark):
    """The same checkpoint and the same output, after the stream was stopped."""
    history = History(tmp_path, 10, 4)
    history.build()
    (tmp_path / "arriving").mkdir()

    def stream(queries, *epochs):
        for epoch in epochs:
            pq.write_table(history.updates(epoch), tmp_path / "arriving" / f"{epoch}.parquet")
            os.utime(tmp_path / "arriving" / f"{epoch}.parquet", (epoch, epoch))
        frames = spark.readStream.schema("src long, dst long, op string").option("maxFilesPerTrigger", 1)
        frame = frames.parquet(str(tmp_path / "arriving"))
        graph = Graph.open(tmp_path / "index", spark=spark)
        watching = graph.watch(queries, frame, output=tmp_path / "out", trigger={"availableNow": True})
        watching.awaitTermination()
        return watching

    stream(QUERIES["triangle"], 1, 2)
    two = stream({"triangle": QUERIES["triangle"], "open": QUERIES["open"]}, 3)
    assert two.counts == {name: rows_of(name, history.edges[3]).total() for name in ("triangle", "open")}
    stream({"open": QUERIES["open"]}, 4)
    history.check({1: {"triangle"}, 2: {"triangle"}, 3: {"triangle", "open"}, 4: {"open"}})
    with pytest.raises(BigjoinError, match="another query by the name 'open'"):
        stream({"open": QUERIES["pair"]})


WAYS = [
    ("local", None),
    ("partitioned", 3),
    ("shared", 2),
    ("partitioned", 1),
    ("balanced", 5),
    ("heavy-light", 2),
    ("partitioned", 7),
    ("local", 1),
    ("balanced", 2),
    ("shared", None),
]
"""A strategy and a number of workers for each epoch."""


@pytest.mark.spark
@pytest.mark.parametrize(("shards", "limit"), [pytest.param(1, 256, marks=pytest.mark.slow), (4, 2)])
def test_workers_and_strategies_change_from_epoch_to_epoch(shards, limit, tmp_path, spark, monkeypatch):
    """The same index, output and queries go on, whoever finds the matches; compactions and folds happen in between."""
    monkeypatch.setattr(commit, "MAX_LOG_RECORDS", limit)
    monkeypatch.setattr(compaction, "MIN_COMPACTED_TUPLES", 12 if limit == 2 else 1 << 18)
    monkeypatch.setattr(compaction, "COMPACTION_RATIO", 1 << 40)
    history, names = History(tmp_path, 50 + shards, len(WAYS)), ["triangle", "open"]
    src, dst = zip(*sorted(history.edges[0]), strict=True)
    build_index(pa.table({"src": src, "dst": dst}), tmp_path / "index", shards=shards)
    for epoch, (strategy, workers) in enumerate(WAYS, 1):
        watching = history.monitor(names, spark=spark, strategy=strategy, workers=workers)
        watching.apply(history.updates(epoch))
    history.check({epoch: set(names) for epoch in range(1, len(WAYS) + 1)})


@pytest.mark.spark
def test_a_graph_and_a_stream_change_their_workers(tmp_path, spark):
    history = History(tmp_path, 60, 6)
    history.build()
    (tmp_path / "arriving").mkdir()
    for epoch, (strategy, workers) in enumerate([("partitioned", 3), ("local", 2), ("partitioned", 2)], 1):
        pq.write_table(history.updates(epoch), tmp_path / "arriving" / f"{epoch}.parquet")
        os.utime(tmp_path / "arriving" / f"{epoch}.parquet", (epoch, epoch))
        frames = spark.readStream.schema("src long, dst long, op string").option("maxFilesPerTrigger", 1)
        watching = Graph.open(tmp_path / "index", spark=spark).watch(
            {"open": QUERIES["open"]},
            frames.parquet(str(tmp_path / "arriving")),
            output=tmp_path / "out",
            strategy=strategy,
            workers=workers,
            trigger={"availableNow": True},
        )
        watching.awaitTermination()
    history.check({epoch: {"open"} for epoch in (1, 2, 3)})
    graph = Graph.open(tmp_path / "index", spark=spark)
    for epoch, (strategy, workers) in enumerate([("balanced", 2), ("balanced", 5), ("shared", 1)], 4):
        done = graph.apply(history.updates(epoch), QUERIES["open"], strategy=strategy, workers=workers)
        rows = Counter((row["change"], row["a"], row["b"], row["c"]) for row in done.table.to_pylist())
        assert rows == history.changes("open", epoch)
        assert done.count == rows_of("open", history.edges[epoch]).total()
