"""Epochs that are killed at any step are there whole, with all they say, or not at all; the same command goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from bigjoin.compiled import loops
from bigjoin.errors import BigjoinError, OutputError
from bigjoin.graph import Graph
from bigjoin.index import writer
from bigjoin.index.directory import Index
from bigjoin.index.manifest_file import MANIFEST, read_manifest
from bigjoin.index.stage_runner import in_turn
from bigjoin.index.writer import verify
from bigjoin.indexing import build_index
from bigjoin.joins.changes import CHANGE_COLUMN
from bigjoin.languages import parse
from bigjoin.planner import count_plan
from bigjoin.query.terms import Property
from bigjoin.streaming import compaction
from bigjoin.streaming.commit import LOG_NAME
from bigjoin.streaming.compaction import without_runs
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.update_files import watch_folder
from bigjoin.streaming.watched import Watched
from tests.executions import interpreted, plain, total
from tests.oracles import naive
from tests.test_cli import BIGJOIN, refused, run, run_here

TRIANGLE = "q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)"
OPEN = "open(a, b, c) := edge(a, b), edge(b, c), not edge(a, c), a != c"
HEAVY = "heavy(a, b, c, e.weight) := edge(a, b, e), edge(b, c), edge(a, c), e.weight > 2"

WRITING = ("open", "os.link", "os.mkdir", "os.rename", "os.truncate")
"""What Python tells of before it happens; a file counts if it is opened to be written."""
CLEANING = ("os.remove", "os.rmdir", "shutil.rmtree")
UNHEARD = (
    (os, "fsync"),
    (os, "fdatasync"),
    (os, "pwrite"),
    (np.lib.format, "write_array"),
    (pq.ParquetWriter, "close"),
    (pa.ipc.RecordBatchFileWriter, "close"),
)
"""What it does not tell of."""


@dataclass(frozen=True)
class Scenario:
    """A graph, epochs that change it, and what is watched meanwhile."""

    edges: tuple[tuple, ...]
    epochs: tuple[tuple[tuple, ...], ...]
    """Updates: + or -, and an edge."""
    queries: tuple[str, ...]
    directed: bool = True
    compacts: bool = False

    @property
    def columns(self) -> list[str]:
        return ["src", "dst", "weight"][: len(self.epochs[0][0]) - 1]

    @cached_property
    def watched(self) -> dict[str, Watched]:
        return {query.name: Watched(query) for query in map(parse, self.queries)}

    def states(self) -> list[list[tuple]]:
        """The rows of the graph before the first epoch, and after each; rows keep their places, None where one is gone."""
        found = [list(self.edges)]
        for updates in self.epochs:
            gone = {update[1:] for update in updates if update[0] == "-"}
            rows = [None if row in gone else row for row in found[-1]]
            for sign, *edge in updates:
                if sign == "+" and (len(edge) > 2 or tuple(edge) not in rows):
                    rows.append(tuple(edge))
            found.append(rows)
        return found

    @property
    def final(self) -> list[tuple]:
        """The rows after the last epoch, as an index has them."""
        rows = [row for row in self.states()[-1] if row is not None]
        return sorted(rows if self.directed else naive.undirected(rows))

    @cached_property
    def expected(self) -> dict[str, list[Counter]]:
        """By query and epoch: the signed rows that brute force finds in one state and not in the other."""
        found = {}
        for name, watched in self.watched.items():
            results = [Counter(self._matches(watched.query, rows)) for rows in self.states()]
            found[name] = [
                Counter({(1, *row): n for row, n in (after - before).items()})
                + Counter({(-1, *row): n for row, n in (before - after).items()})
                for before, after in pairwise(results)
            ]
        return found

    def _matches(self, query, rows):
        tuples = {row[:2] for row in rows if row is not None}
        tuples = tuples if self.directed else naive.undirected(tuples)
        numbered = {(*row[:2], number) for number, row in enumerate(rows) if row is not None and len(row) > 2}
        attributes, atoms, filters = plain(query)
        every = tuple(dict.fromkeys([*attributes, *(name for _, names, _ in atoms for name in names)]))
        domains = {name: "row" if any(len(n) == 3 and n[2] == name for _, n, _ in atoms) else "vertex" for name in every}
        weights = {number: None if row is None else row[-1] for number, row in enumerate(rows)}
        options = {"domains": domains, "properties": {"row": {"weight": weights}}, "symmetric": not self.directed}
        for match in naive.matches({"edge": tuples | numbered}, every, atoms, filters, **options):
            at = dict(zip(every, match, strict=True))
            yield tuple(weights[at[h.attribute]] if isinstance(h, Property) else at[h] for h in query.head)


def weighted(edges):
    return tuple((a, b, (a + 2 * b) % 7) for a, b in edges)


CIRCLE = tuple((a, (a + d) % 9) for a in range(9) for d in (1, 3))
PAIRS = (
    tuple(("+", a, (a + 2) % 9) for a in range(5)),
    (("-", 0, 1), ("-", 4, 7), ("+", 9, 0), ("+", 9, 1), ("+", 2, 9), ("+", 1, 9)),
    (("-", 9, 0), ("+", 0, 1), ("+", 3, 4), ("-", 7, 7), ("+", 10, 9), ("+", 10, 2)),
)
ROWS = tuple(tuple((sign, *row) for sign, *edge in updates for row in weighted([tuple(edge)])) for updates in PAIRS)
LOW = tuple(sorted({tuple(sorted(edge)) for edge in CIRCLE}))
LOW_PAIRS = tuple(tuple((sign, *sorted(edge)) for sign, *edge in updates if edge[0] != edge[1]) for updates in PAIRS)

SCENARIOS = {
    "pairs": Scenario(CIRCLE, PAIRS, (TRIANGLE,)),
    "pairs, compacted": Scenario(LOW, LOW_PAIRS, (TRIANGLE, OPEN), directed=False, compacts=True),
    "rows": Scenario(weighted(CIRCLE), ROWS, (HEAVY, OPEN)),
    "rows, compacted": Scenario(weighted(CIRCLE), ROWS, (HEAVY,), compacts=True),
}


@dataclass(frozen=True)
class Place:
    """Where a scenario is played: an index, a folder of updates, and one of output."""

    path: Path
    scenario: Scenario

    @property
    def index(self) -> Path:
        return self.path / "index"

    @property
    def updates(self) -> Path:
        return self.path / "updates"

    @property
    def output(self) -> Path:
        return self.path / "out"

    def build(self, *, epochs: int) -> None:
        """Build the index, and have some epochs wait."""
        self.updates.mkdir(parents=True, exist_ok=True)
        build_index(self._table(self.scenario.edges), self.index, directed=self.scenario.directed)
        for epoch in range(epochs):
            self.give(epoch)

    def give(self, epoch: int, folder: str = "updates") -> None:
        """Have the file of an epoch wait; later ones have later times."""
        updates = self.scenario.epochs[epoch]
        file = self.path / folder / f"{epoch:03}.parquet"
        table = self._table([edge for _, *edge in updates]).append_column("op", pa.array([sign for sign, *_ in updates]))
        pq.write_table(table, file)
        os.utime(file, (epoch, epoch))

    def _table(self, rows) -> pa.Table:
        return pa.table({name: [row[i] for row in rows] for i, name in enumerate(self.scenario.columns)})

    def watch(self) -> None:
        """Apply the files that wait."""
        with self.cheaply():
            watch_folder(self.monitor(), self.updates, once=True)

    def monitor(self) -> Monitor:
        """Return one that needs no Spark."""
        return Monitor(
            self.index,
            self.scenario.watched,
            spark=None,
            initial=lambda index, query: total(count_plan(query, index.statistics), index),
            output=self.output,
        )

    @contextmanager
    def cheaply(self):
        """Have generated code interpreted, which need not be compiled, and files compacted as the scenario says."""
        name, ratio = "MIN_COMPACTED_TUPLES", "COMPACTION_RATIO"
        limits = {name: 0, ratio: 1 << 40} if self.scenario.compacts else {name: compaction.MIN_COMPACTED_TUPLES}
        with (
            mock.patch.object(loops, "load", interpreted),
            mock.patch.object(writer, "in_threads", in_turn),
            mock.patch.multiple(compaction, **limits),
        ):
            yield

    def rows(self, name: str) -> dict[int, Counter]:
        """By epoch: the signed rows that whoever reads the output of a query as a table sees."""
        folder = self.output if len(self.scenario.queries) == 1 else self.output / name
        if not folder.is_dir():
            return {}
        shown = ds.dataset(folder, format="parquet", partitioning="hive")
        if not shown.files:
            return {}
        columns = [column for column in shown.schema.names if column not in ("epoch", CHANGE_COLUMN)]
        found: dict[int, Counter] = {int(Path(file).parent.name.partition("=")[2]): Counter() for file in shown.files}
        for row in shown.to_table().to_pylist():
            found[row["epoch"]][(row[CHANGE_COLUMN], *(row[column] for column in columns))] += 1
        return found

    def counts(self) -> list[dict]:
        file = self.output / "_counts.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def check(self, *, finished: bool) -> int:
        """Check that whole epochs are seen, all that are committed but perhaps for the last, and return how many are."""
        committed = read_manifest(self.index).epoch
        for name, expected in self.scenario.expected.items():
            rows = self.rows(name)
            assert sorted(rows) == list(range(1, len(rows) + 1))
            assert committed - (not finished) <= len(rows) <= committed
            for epoch, found in rows.items():
                assert found == expected[epoch - 1]
        lines = self.counts()
        assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1))
        assert committed - (not finished) <= len(lines) <= committed
        return committed

    def edges(self) -> list[tuple]:
        """The edges that the index has come to, with what they have."""
        index = without_runs(Index.open(self.index))
        verify(index)
        ids, trie = index.dictionaries["vertex"], index.trie("edge", (0, 1))
        if len(self.scenario.columns) == 2:
            return sorted(zip(*(ids.decode(c).to_pylist() for c in trie.tuples(np.arange(len(trie)))), strict=True))
        trie = index.trie("edge", (0, 1, 2))
        src, dst, rows = trie.tuples(np.arange(len(trie)))
        weights = index.properties("edge edge")["weight"].take(pa.array(rows)).to_pylist()
        return sorted(zip(ids.decode(src).to_pylist(), ids.decode(dst).to_pylist(), weights, strict=True))


class Doomed:
    """Counts steps that change files, and kills its own process before one of them."""

    def __init__(self, at: int, *, cleaning: bool) -> None:
        self.left, self.events = at, CLEANING if cleaning else WRITING
        if not cleaning:
            for owner, name in UNHEARD:
                self._count(owner, name)
        sys.addaudithook(self._hear)

    def _count(self, owner, name) -> None:
        original = getattr(owner, name)

        def counted(*arguments, **options):
            self._step()
            return original(*arguments, **options)

        setattr(owner, name, counted)

    def _hear(self, event, arguments) -> None:
        if event in self.events and (event != "open" or arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            self._step()

    def _step(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


def serve() -> None:
    """Watch in processes that are forked from this one, which has everything loaded; each is killed at the step that is asked.

    What the system has taken it keeps, however a process ends, so nothing waits for the disk here.
    """
    os.fsync = os.fdatasync = lambda descriptor: None
    for line in sys.stdin:
        path, name, at, cleaning = json.loads(line)
        place, child = Place(Path(path), SCENARIOS[name]), 0
        if at is not None:
            child = os.fork()
        if not child:
            if at:
                Doomed(at, cleaning=cleaning)
            place.watch()
            if at is not None:
                os._exit(0)
        status = os.waitpid(child, 0)[1] if child else 0
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


class Processes:
    """Asks the process that serves."""

    def __init__(self, program: str = "from tests.test_exactly_once import serve; serve()") -> None:
        command = [sys.executable, "-c", program]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
        )

    def watch(self, place: Place, at: int | None = 0, *, cleaning: bool = False) -> bool:
        """Watch in a process of its own, which is killed at a step; tell whether it finished before."""
        name = next(name for name, scenario in SCENARIOS.items() if scenario is place.scenario)
        self.process.stdin.write(json.dumps([str(place.path), name, at, cleaning]) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        assert status in (0, -signal.SIGKILL)
        return status == 0


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    serving = Processes()
    for scenario in SCENARIOS.values():
        place = Place(tmp_path_factory.mktemp("warm") / "place", scenario)
        place.build(epochs=len(scenario.epochs))
        assert serving.watch(place, None)
    yield serving
    serving.process.stdin.close()
    assert serving.process.wait() == 0


class Snapshot:
    """A place as it was, to come back to."""

    def __init__(self, place: Place) -> None:
        self.place, self.kept = place, place.path.with_name("kept")
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(place.path, self.kept)

    def restore(self) -> None:
        shutil.rmtree(self.place.path)
        shutil.copytree(self.kept, self.place.path)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "pairs" else pytest.mark.slow) for name in SCENARIOS])
def test_killed_at_every_step_of_an_epoch(tmp_path, processes, name):
    """Before the commit nothing has happened; after it the epoch is there, and perhaps some work is left to finish."""
    place = Place(tmp_path / "place", SCENARIOS[name])
    last = len(place.scenario.epochs) - 1
    place.build(epochs=last)
    assert processes.watch(place)
    place.give(last)
    before, kills, commits = Snapshot(place), 0, 0
    while not processes.watch(place, kills + 1):
        kills += 1
        if place.check(finished=False) == last:
            assert not commits
            continue  # the next process finds what this one has left
        commits += 1
        assert processes.watch(place)
        assert place.check(finished=True) == last + 1
        before.restore()
    assert kills - commits >= 25
    assert commits >= (25 if place.scenario.compacts else 10)
    assert place.check(finished=True) == last + 1
    assert place.edges() == place.scenario.final


def test_killed_while_it_removes_what_one_that_was_killed_has_left(tmp_path, processes):
    place = Place(tmp_path / "place", SCENARIOS["pairs, compacted"])
    last = len(place.scenario.epochs) - 1
    place.build(epochs=last)
    assert processes.watch(place)
    place.give(last)
    at = next(at for at in count(20) if not processes.watch(place, at) and list(place.output.glob("_staging/*/*/*.parquet")))
    assert place.check(finished=False) == last
    left, kills = Snapshot(place), 0
    while not processes.watch(place, kills + 1, cleaning=True):
        kills += 1
        assert place.check(finished=False) == last, at
        assert processes.watch(place)
        assert place.check(finished=True) == last + 1
        left.restore()
    assert kills >= 10
    assert place.check(finished=True) == last + 1
    assert place.edges() == place.scenario.final


def test_killed_again_and_again_and_started_again(tmp_path, processes):
    """From the first step of the first epoch on: each process gets one step further than the one before it."""
    place = Place(tmp_path / "place", SCENARIOS["pairs"])
    place.build(epochs=len(place.scenario.epochs))
    done = []
    for at in count(1):
        if processes.watch(place, at):
            break
        done.append(place.check(finished=False))
    assert done == sorted(done)
    assert set(done) >= set(range(len(place.scenario.epochs)))
    assert place.check(finished=True) == len(place.scenario.epochs)
    assert place.edges() == place.scenario.final


def test_what_a_commit_names_would_survive_a_power_cut(tmp_path, monkeypatch):
    """What is new is synced before the manifest is replaced or the log is, and what is renamed before the next commit."""
    place = Place(tmp_path / "place", SCENARIOS["rows"])
    place.build(epochs=3)
    synced: dict[int, int] = {}
    known, replace, commits = {*place.index.rglob("*")}, os.replace, 0

    def is_durable(path: Path) -> bool:
        now = path.stat()
        return synced.get(now.st_ino) == now.st_mtime_ns or path in known or path.name == ".lock"

    def commit(*but: Path) -> None:
        nonlocal commits
        everything = (*place.index.rglob("*"), place.output, *place.output.rglob("*"))
        assert not [path for path in everything if path not in but and not is_durable(path)]
        commits += 1

    def sync(descriptor: int) -> None:
        now, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.name == LOG_NAME and now.st_size:
            commit(path)
        synced[now.st_ino] = now.st_mtime_ns

    def noted(source, target):
        if Path(target).name == MANIFEST:
            commit()
        replace(source, target)
        known.add(Path(target))

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr(os, "replace", noted)
    place.watch()
    assert commits == 3
    assert place.check(finished=True) == 3


def test_an_output_that_could_not_be_finished_is_finished_by_the_next_epoch(tmp_path):
    place = Place(tmp_path / "place", SCENARIOS["pairs"])
    place.build(epochs=3)
    watching = place.monitor()
    with mock.patch.object(Path, "rename", side_effect=OSError(28, "No space left on device")), place.cheaply():
        with pytest.raises(OutputError, match="cannot be written: No space left on device"):
            watch_folder(watching, place.updates, once=True)
        assert place.check(finished=False) == 1
        assert place.rows("q") == {}
    with place.cheaply():
        watch_folder(watching, place.updates, once=True)
    assert place.check(finished=True) == 3


def test_an_update_is_for_the_index_though_a_query_had_to_read_a_copy(tmp_path):
    place = Place(tmp_path / "place", SCENARIOS["pairs"])
    place.build(epochs=3)
    place.watch()
    graph = Graph.open(place.index)
    with writer.locked(place.index):
        assert graph.undirected().vertices == 11
        with pytest.raises(BigjoinError, match="is writing the index"):
            graph.materialize("tri", TRIANGLE)
    graph.apply(pa.table({"src": [1], "dst": [77], "op": ["+"]}))
    assert (1, 77) in place.edges()


@pytest.mark.spark
def test_a_stream_goes_on_and_a_batch_that_comes_again_changes_nothing(tmp_path, spark):
    place = Place(tmp_path / "place", Scenario(CIRCLE, (*PAIRS, (("+", 6, 8), ("-", 1, 3)), (("+", 5, 7),)), (TRIANGLE,)))
    place.build(epochs=3)
    (place.path / "others").mkdir()
    calls: list[tuple[int, Counter]] = []

    def note(epoch):
        """Fail at the second epoch, when it comes for the first time."""
        calls.append((epoch.number, Counter(tuple(row.values())[1:] for row in epoch.table.to_pylist())))
        if [number for number, _ in calls] == [1, 2]:
            raise RuntimeError("a mistake of the function")

    def stream(folder="updates", output=None, **options):
        frames = spark.readStream.schema("src long, dst long, op string").option("maxFilesPerTrigger", 1)
        graph, updates = Graph.open(place.index, spark=spark), frames.parquet(str(place.path / folder))
        options = {"output": output or place.output, "trigger": {"availableNow": True}, **options}
        graph.watch(TRIANGLE, updates, **options).awaitTermination()

    with pytest.raises(Exception, match="a mistake of the function"):
        stream(function=note)
    assert place.check(finished=True) == 1
    stream(function=note)
    assert place.check(finished=True) == 3
    assert [number for number, _ in calls] == [1, 2, 2, 3]
    assert all(rows == place.scenario.expected["q"][number - 1] for number, rows in calls)

    checkpoint = place.output / "_checkpoint"
    for file in ("2", ".2.crc"):
        (checkpoint / "commits" / file).unlink()
    stream(function=note)
    assert (checkpoint / "commits" / "2").exists()
    assert place.check(finished=True) == 3
    assert [number for number, _ in calls] == [1, 2, 2, 3]

    place.give(3, "others")
    with pytest.raises(BigjoinError, match=r"follows stream .*, until its batch 2, and the checkpoint .* is new"):
        stream("others", checkpoint=str(tmp_path / "new"))
    stream("others", checkpoint=str(tmp_path / "new"), adopt=True)
    assert place.check(finished=True) == 4
    place.build(epochs=0)
    with pytest.raises(BigjoinError, match=r"has 3 batches behind it, and the index .* has none of them: .*built again"):
        stream(checkpoint=str(checkpoint), output=tmp_path / "again")
    place.give(4)
    stream(checkpoint=str(checkpoint), output=tmp_path / "again", adopt=True)
    assert [json.loads(line)["inserted"] for line in (tmp_path / "again" / "_counts.jsonl").read_text().splitlines()] == [1]


def parquet(**columns) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


TRIPLE = b"src,dst,op\n1,2,+\n2,3,+\n1,3,+\n"
GOOD = parquet(src=[3, 1], dst=[4, 4], op=["+", "+"])
FAULTS = {
    "002.csv": [
        (b"src,op\n3,+\n", "002.csv has no columns src and dst; its columns are: src, op"),
        (b"src,dst,op\n3,4,+\n1,4,?\n", "column 'op' of updates/002.csv is '?' in row 2; it says + or -"),
        (b"src,dst,op\n3,4,+\n,4,+\n", "column 'src' of updates/002.csv is NULL in row 2: an edge has two ends"),
        (b"src,dst,op\n3,x,+\n", "column 'dst' of updates/002.csv is string, and the ids of the graph are int64: cast it"),
        (b"", "updates/002.csv is empty: it needs at least the titles of its columns"),
    ],
    "002.parquet": [
        (GOOD[: len(GOOD) // 2], "updates/002.parquet cannot be read as updates: "),
    ],
}


def files_below(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_file_that_is_refused_damages_nothing_and_can_be_replaced(tmp_path):
    """One walk, since each command takes a second: the files of the second epoch, each wrong in its own way."""
    updates, command = tmp_path / "updates", ("watch", TRIANGLE, "graph", "--output", "out", "--once", "--updates")
    updates.mkdir()
    assert refused(run_here(*command, "nowhere", cwd=tmp_path), "there is no folder nowhere of updates")
    (updates / "001.csv").write_bytes(b"src,op\n1,+\n")
    assert refused(run_here(*command, updates.name, cwd=tmp_path), "001.csv has no columns src and dst")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["updates"]
    (updates / "001.csv").write_bytes(TRIPLE)
    (tmp_path / "graph" / "build-0123456789ab").mkdir(parents=True)  # as a first build that was killed leaves it
    assert run_here(*command, updates.name, cwd=tmp_path).stdout == "1 epoch, 3 updates, +1 -0 matches; q 1\n"
    before = files_below(tmp_path / "graph"), files_below(tmp_path / "out")
    for name, faults in FAULTS.items():
        for content, sentence in faults:
            (updates / name).write_bytes(content)
            done = run_here(*command, updates.name, cwd=tmp_path)
            assert refused(done, sentence)
            assert len(done.stderr.strip().splitlines()) == 1
            assert (files_below(tmp_path / "graph"), files_below(tmp_path / "out")) == before
        (updates / name).unlink()
    (updates / "002.parquet").write_bytes(GOOD)
    (updates / "003.csv").write_bytes(b"src,dst,op\n")  # titles alone: an epoch in which nothing happens
    assert run_here(*command, updates.name, cwd=tmp_path).stdout == "2 epochs, 2 updates, +1 -0 matches; q 2\n"


def test_an_index_and_an_output_belong_to_what_they_were_watched_with(tmp_path):
    (tmp_path / "updates").mkdir()
    (tmp_path / "updates" / "001.csv").write_bytes(TRIPLE)
    shutil.copytree(tmp_path / "updates", tmp_path / "others")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")

    def watch(query=TRIANGLE, output="out", updates="updates", *options):
        return run_here("watch", query, "graph", "--updates", updates, "--output", output, "--once", *options, cwd=tmp_path)

    assert refused(watch(output="full"), "full is not empty, and not the output of a watch: choose a new folder")
    assert files_below(tmp_path / "full") == {"mine.txt": b"mine"}
    assert watch().returncode == 0
    before = files_below(tmp_path / "graph"), files_below(tmp_path / "out")
    assert refused(watch(OPEN), "out is the output of other queries (q(a, b, c) := ", "choose a new folder")
    assert refused(watch(TRIANGLE, "out", "updates", "--undirected"), "graph is directed: build it with 'bigjoin index")
    assert refused(watch(updates="others"), "follows the files of", "(--adopt)")
    assert (files_below(tmp_path / "graph"), files_below(tmp_path / "out")) == before
    shutil.rmtree(tmp_path / "out")  # who does not want it any more may remove it
    assert watch(TRIANGLE, "new", "others", "--adopt").stdout == "1 epoch, 3 updates, +0 -0 matches; q 1\n"


def test_the_command_is_killed_and_given_again(tmp_path):
    epochs = tuple(tuple(("-" if t % 3 == 2 else "+", (t + i) % 7, (t * i) % 11) for i in range(4)) for t in range(24))
    place = Place(tmp_path / "place", Scenario((), epochs, (TRIANGLE,)))
    place.updates.mkdir(parents=True)
    for epoch in range(len(epochs)):
        place.give(epoch)
    command = ["watch", TRIANGLE, place.index, "--updates", place.updates, "--output", place.output, "--once"]
    for wanted in (1, 8, 16):
        process = subprocess.Popen([str(BIGJOIN), *map(str, command)], stdout=subprocess.DEVNULL)
        while process.poll() is None and len(place.counts()) < wanted:
            time.sleep(0.001)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert place.check(finished=False) >= wanted
    assert run(*command).returncode == 0
    assert place.check(finished=True) == len(epochs)
    assert place.edges() == place.scenario.final
