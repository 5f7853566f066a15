"""The memory of a query: what counts, what is chosen or refused before it runs, what ends it, and that nothing else ends."""

from __future__ import annotations

import gc
import mmap
import os
import pty
import re
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin import quota as quota_module
from bigjoin.compiled.group_program import CodeCountProgram
from bigjoin.index.directory import Index
from bigjoin.local.count_job import count_job
from bigjoin.local.group_job import group_job
from bigjoin.local.list_job import list_job, match_batches
from bigjoin.memory import MachineMemory, machine_memory, shown_size, size_in_bytes
from bigjoin.quota import BATCH_CELL_BYTES, MIN_BATCH_ROWS, Quota, quota, within
from tests.test_cli import BIGJOIN, refused, run_here
from tests.test_limits import NEVER, SOON, ask, wait_until_idle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process has is read from Linux's files")

MB = 1 << 20
VERTICES = 1000
GROUPS = "q(a,b,c,d) := edge(a,b), edge(b,c), edge(c,d)"
"""Its groups by a, b and d are as many as there are triples of vertices, and where these differ, terms have to be added up."""


def graph_edges() -> np.ndarray:
    return np.random.default_rng(7).integers(0, VERTICES, (2, 60_000))


@pytest.fixture(scope="module")
def dense(tmp_path_factory) -> Index:
    ends = graph_edges()
    folder = tmp_path_factory.mktemp("dense") / "index"
    return bj.build_index(pa.table({"src": ends[0], "dst": ends[1]}), folder, directed=False)


@pytest.fixture(scope="module")
def adjacency() -> np.ndarray:
    """The graph as a matrix, from which counts follow without any join."""
    ends, matrix = graph_edges(), np.zeros((VERTICES, VERTICES), np.int64)
    matrix[ends[0], ends[1]] = matrix[ends[1], ends[0]] = 1
    np.fill_diagonal(matrix, 0)
    return matrix


# Sizes


@pytest.mark.parametrize(
    ("given", "size"),
    [(1, 1), ("100", 100), ("512MB", 512 * MB), ("2 GB", 2048 * MB), ("1.5g", 1536 * MB), ("3KiB", 3072), (np.int64(5), 5)],
)
def test_a_size_is_a_number_of_bytes_or_says_its_unit(given, size):
    assert size_in_bytes(given) == size


@pytest.mark.parametrize("given", [0, -1, True, 2.5, "", "much", "-1GB", "1PB", "0MB", "1 G B"])
def test_sizes_that_make_no_sense_are_refused(dense, given):
    sentence = f"memory is {given!r}; it must be a number of bytes, more than 0, or a size such as '512MB' or '2GB'"
    with pytest.raises(bj.BigjoinError, match=f"^{re.escape(sentence)}$"):
        bj.Graph.open(dense.path).count("triangle", memory=given)


def test_sizes_are_shown_as_people_read_them():
    assert [shown_size(size) for size in (1536 * MB, 512 * MB, 3 * MB // 2)] == ["1.5 GB", "512 MB", "1.5 MB"]


# What the system says


MAPPED_THEN_ALLOCATED = """
import mmap, sys, time
import numpy as np
from bigjoin.memory import process_memory

MB, before = 1 << 20, process_memory()
with open(sys.argv[1], "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
    assert np.frombuffer(mapped, np.uint8)[:: mmap.PAGESIZE].sum() == 0
    print((process_memory() - before) // MB)
    array, end = np.ones(8 * MB, np.int64), time.monotonic() + 20
    while process_memory() - before < 60 * MB and time.monotonic() < end:  # some systems tell with a delay
        time.sleep(0.05)
    print((process_memory() - before) // MB)
"""


def test_arrays_count_and_mapped_files_do_not(tmp_path):
    (tmp_path / "mapped").write_bytes(bytes(64 * MB))
    command = [sys.executable, "-c", MAPPED_THEN_ALLOCATED, tmp_path / "mapped"]
    mapped, allocated = map(int, subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split())
    assert mapped < 16
    assert 56 < allocated < 80


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 300 kB\nSwapFree: 50 kB\nHugePages_Total: 0\n"}
STAT = "anon 7\ninactive_file 100\nactive_file 50\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        (MEMINFO, MachineMemory(1000 << 10, 350 << 10)),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "0::/pod/box\n",
                "sys/fs/cgroup/pod/memory.max": "4000\n",
                "sys/fs/cgroup/pod/memory.current": "3900\n",
                "sys/fs/cgroup/pod/memory.stat": STAT,
                "sys/fs/cgroup/pod/box/memory.max": "max\n",
            },
            MachineMemory(4000, 250),
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "4:memory:/elsewhere\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "4000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "4000\n",
                "sys/fs/cgroup/memory/memory.stat": "inactive_file 9\ntotal_inactive_file 20\ntotal_active_file 5\n",
            },
            MachineMemory(4000, 25),
        ),
    ],
    ids=["unknown", "machine", "container", "older-container"],
)
def test_what_is_left_is_that_of_the_machine_or_the_container(tmp_path, files, expected):
    assert machine_memory(write_files(tmp_path, files)) == expected


# Without Spark


def take(size: int, held: list[np.ndarray]) -> None:
    """Take memory, and look at the quota, until there are so many bytes.

    Arrays are large enough that the system gives new memory for each: smaller ones might use what this process has freed.
    """
    while sum(array.nbytes for array in held) < size:
        held.append(np.ones(5 * MB, np.int64))
        time.sleep(0.03)
        quota().check()


def test_a_query_ends_near_its_bound_and_the_next_one_runs():
    limits, held = Quota(memory="100MB"), []
    limits.share = 0.25
    with pytest.raises(bj.QueryMemoryError) as raised, within(limits):
        take(800 * MB, held)
    said = re.fullmatch(
        r"the query was stopped, as one of its processes took (\d+) MB of memory, and may take 100 MB \(its bound\), with "
        r"about 25% of its work done: allow more memory, ask for less \(where, limit, a smaller pattern\), or give a smaller "
        r"batch_size",
        str(raised.value),
    )
    assert 100 <= int(said[1]) < 250
    with within(Quota(memory="100MB")):  # what is there already does not count
        quota().check()
    with within(Quota(memory="2GB")):
        take(300 * MB, held)


def test_compiled_loops_end_when_their_process_takes_too_much(dense):
    (_, counting) = count_job(ask(NEVER, dense), 1).program.bind(dense)[0]
    held: list[np.ndarray] = []
    timer = threading.Timer(0.3, lambda: held.extend(np.ones(5 * MB, np.int64) for _ in range(6)))
    timer.start()
    with pytest.raises(bj.QueryMemoryError), within(limits := Quota(memory="150MB", timeout=60)):
        counting.count([(0, VERTICES, 0, 1 << 60)] * 1000)  # half a second each time
    assert limits._deadline - time.monotonic() > 60 - SOON
    timer.join()


@pytest.mark.parametrize(("left", "ends"), [(10 * MB, True), (150 * MB, False), (2000 * MB, False)])
def test_without_a_bound_the_largest_query_ends_before_the_machine_has_nothing_left(monkeypatch, left, ends):
    """Of 8 GB, 256 MB should be left. The query takes 120 MB, so it is to blame only if even less is left."""
    monkeypatch.setattr(quota_module, "machine_memory", lambda: MachineMemory(8192 * MB, left))
    said = r"stopped before the system would have ended it: .* took \d+ MB of memory, and only 10 MB of 8\.0 GB are left"
    held: list[np.ndarray] = []
    gc.collect()  # what earlier tests have left would be freed meanwhile
    with pytest.raises(bj.QueryMemoryError, match=said) if ends else nullcontext(), within(Quota()):
        take(120 * MB, held)
        time.sleep(2 * quota_module.WATCH_SECONDS)
        quota().check()


def test_a_small_query_never_asks_what_the_machine_has(monkeypatch):
    monkeypatch.setattr(quota_module, "machine_memory", lambda: pytest.fail("not asked for"))
    with within(limits := Quota()):
        limits._next_look = 0
        limits.check()


def test_memory_that_the_system_refuses_is_an_error_of_ours():
    sentence = "the query needs more memory than the system gives"
    with pytest.raises(bj.QueryMemoryError, match=sentence) as raised, within(Quota()):
        np.zeros(1 << 50, np.int64)
    assert isinstance(raised.value.__cause__, MemoryError)


def test_memory_that_is_not_the_querys_does_not_count():
    held: list[np.ndarray] = []
    with within(limits := Quota(memory="50MB")):
        with limits.paused():
            take(100 * MB, held)
        limits.check()


# Planned


def test_batches_are_smaller_if_the_bound_is():
    assert Quota().affordable(1 << 30, 3) == 1 << 30
    assert Quota(memory="4GB").affordable(1 << 18, 3) == 1 << 18
    assert 1 << 16 < Quota(memory="64MB").affordable(1 << 30, 3) < 1 << 20
    assert Quota(memory=1).affordable(1 << 30, 3) == MIN_BATCH_ROWS


def test_a_count_without_counters_is_chosen_where_these_do_not_fit(dense, adjacency):
    expected = int(np.trace(np.linalg.matrix_power(adjacency, 4)))

    def counted(**limits) -> tuple[int, bool]:
        with within(Quota(**limits), watched=False):
            program = count_job(ask("4-cycle", dense), 1).program
            has_counters = any(loop.weights for nest in program.nests for loop in nest.root.walk())
            total = sum(n * found.count(found.ranges(1)) for n, found in program.bind(dense))
            return total // program.divisor, has_counters

    assert counted() == counted(memory="1GB") == (expected, True)
    assert counted(memory=8000) == (expected, False)
    with pytest.raises(
        bj.QueryMemoryError, match=r"^what compiled loops keep for each value would take 0\.0 MB of memory, and"
    ):
        counted(memory=10)


def test_groups_are_listed_where_an_array_for_every_value_does_not_fit(dense, tmp_path):
    question = ask("triangle", dense)
    keyed = replace(question, meaning=replace(question.meaning, keys=("a1",)))
    with within(Quota(memory="1GB"), watched=False):
        assert isinstance(group_job(keyed, tmp_path, 1, 4).program, CodeCountProgram)
    with within(Quota(memory=VERTICES * 8), watched=False):
        assert group_job(keyed, tmp_path, 1, 4) is None


def test_the_rows_of_a_list_are_the_same_whatever_the_bound(dense, adjacency):
    job = list_job(ask("triangle", dense), 1)
    rows, largest = [], []
    for limits in (Quota(), Quota(memory="2MB")):
        with within(limits, watched=False):
            batches = [batch.num_rows for batch in match_batches(job, 0, None)]
            rows, largest = [*rows, sum(batches)], [*largest, max(batches)]
    assert rows == 2 * [int(np.trace(np.linalg.matrix_power(adjacency, 3)))]
    assert largest[1] <= 2 * MB // (3 * BATCH_CELL_BYTES) < largest[0]


# With Spark


class Outside:
    """Watches, from outside, what the Python workers of a process take; the most that one of them had."""

    def __init__(self, root: int | None = None) -> None:
        self.root, self.most, self._ended = root or os.getpid(), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Outside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.most = max([self.most, *(self._memory(pid) for pid in self._workers())])

    def _workers(self) -> list[int]:
        parents = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parents[int(process.name)] = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
        found = [self.root]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return [pid for pid in found if pid == self.root != os.getpid() or self._is_worker(pid)]

    def _is_worker(self, pid: int) -> bool:
        try:
            return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def _memory(self, pid: int) -> int:
        try:
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        except OSError:
            return 0
        return (int(resident) - int(shared)) * mmap.PAGESIZE


@pytest.fixture
def graph(spark, dense, tmp_path_factory, monkeypatch):
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv("BIGJOIN_SCRATCH", str(scratch))
    with bj.Graph.open(dense.path, spark=spark) as graph:
        yield graph
        graph.close()
    assert not list(scratch.glob("bigjoin-*/*-*/*")), "scratch files are left"


def count_edges(graph) -> int:
    return graph.count("q(a,b) := edge(a,b)")


@pytest.mark.spark
def test_a_count_by_many_groups_ends_near_its_bound_and_others_go_on(graph, adjacency):
    before = count_edges(graph)
    assert before == adjacency.sum()
    outcome: list[int] = []
    other = threading.Thread(target=lambda: outcome.append(int(graph.count("triangle", workers=1))))
    other.start()
    with Outside() as idle:  # a worker has some 150 MB of code, and what earlier tests have left there
        time.sleep(0.1)
    with Outside() as outside, pytest.raises(bj.QueryMemoryError, match=r"and may take 150 MB \(its bound\)"):
        graph.count(GROUPS, by=("a", "b", "d"), distinct=True, memory="150MB", workers=2)
    assert outside.most < max(idle.most, 150 * MB) + 250 * MB
    other.join(SOON)
    assert outcome == [int(np.trace(np.linalg.matrix_power(adjacency, 3)))]
    assert count_edges(graph) == before
    wait_until_idle()


@pytest.mark.spark
def test_a_sample_that_does_not_fit_is_refused_with_what_it_needs(graph):
    with pytest.raises(bj.QueryMemoryError, match=r"^a sample of 5,000,000 matches would take 477 MB of memory, and a process"):
        graph.find("q(a,b,c) := edge(a,b), edge(b,c)", sample=5_000_000, memory="100MB")
    assert graph.find("q(a,b,c) := edge(a,b), edge(b,c)", sample=10, memory="100MB").count() == 10


@pytest.mark.spark
def test_the_tasks_of_a_lazy_frame_have_the_bound(graph):
    rows = "MATCH (a)--(b)--(c) WHERE a.id < 5 RETURN a.id AS a, c.id AS c ORDER BY c, a LIMIT 2000000"
    with within(Quota(memory=1), watched=False):  # watched, planning would end it
        frame = graph.find(rows)
    with pytest.raises(Exception, match="QueryMemoryError: the query was stopped"):
        frame.count()
    found = graph.find(rows, memory="1GB")
    assert found.count() == graph.find(rows).count() > 0


@pytest.mark.spark
@pytest.mark.parametrize(
    "strategy", ["partitioned", *(pytest.param(name, marks=pytest.mark.slow) for name in ("heavy-light", "balanced"))]
)
def test_rounds_have_the_bound(graph, adjacency, strategy):
    with pytest.raises(bj.QueryMemoryError, match="the query was stopped"):
        graph.count("triangle", strategy=strategy, memory=1)
    expected = int(np.trace(np.linalg.matrix_power(adjacency, 3)))
    assert graph.count("triangle", strategy=strategy, memory="200MB") == expected


@pytest.mark.spark
def test_what_took_too_much_leaves_no_file(graph, tmp_path):
    with pytest.raises(bj.QueryMemoryError):
        graph.write("q(a,b,c) := edge(a,b), edge(b,c)", tmp_path / "found.parquet", memory=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_the_shell_has_a_bound(spark, dense, adjacency, tmp_path):
    for command in (["count", "triangle"], ["find", "triangle", "-o", "out.csv"]):
        refused(run_here(*command, dense.path, "--memory", "1000", "--quiet", cwd=tmp_path), "of memory, and")
    refused(run_here("count", "triangle", dense.path, "--memory", "lots", cwd=tmp_path), "--memory", "'lots'")
    assert list(tmp_path.iterdir()) == []
    done = run_here("count", "triangle", dense.path, "--memory", "1GB", "--quiet", cwd=tmp_path)
    assert int(done.stdout) == np.trace(np.linalg.matrix_power(adjacency, 3))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["find", GROUPS, "--limit", "20000000"], ["count", GROUPS, "--by", "a,b,d", "--distinct"]],
    ids=["rows", "groups"],
)
def test_a_command_ends_near_its_bound(dense, tmp_path, arguments):
    """On a terminal, where the rows of a table are collected in the command's own process."""
    terminal, its_end = pty.openpty()
    command = [str(BIGJOIN), *arguments, str(dense.path), "--memory", "250MB", "--quiet"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=its_end, stderr=subprocess.PIPE, text=True)
    with Outside(process.pid) as outside:
        _, said = process.communicate(timeout=300)
    os.close(terminal)
    os.close(its_end)
    assert (process.returncode, "and may take 250 MB (its bound)" in said) == (2, True), said
    assert outside.most < (250 + 300) * MB
    assert list(tmp_path.iterdir()) == []
