"""The cache of the command line: a changed file is indexed again, even if its time was set back, and nothing piles up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bigjoin.cli import cache as cached
from bigjoin.cli.options import Options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import open_graph
from tests.test_index import edges_of


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("BIGJOIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def edges(path: Path) -> list[tuple]:
    with Reporter(quiet=True) as report:
        return sorted(edges_of(open_graph(str(path), Options(quiet=True), report).index))


def entries(cache: Path) -> list[str]:
    return sorted(entry.name for entry in cache.iterdir() if not entry.name.startswith("bigjoin-"))


def edited_in_place(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def copied_with_its_time(file: Path, content: bytes) -> None:
    """Replace the content as `cp -p` does."""
    other = file.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    subprocess.run(["cp", "-p", other, file], check=True)
    other.unlink()


def renamed_over(file: Path, content: bytes) -> None:
    """Replace the file as `rsync -t` does."""
    other = file.with_name(".other")
    other.write_bytes(content)
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.rename(file)


@pytest.mark.parametrize("change", [edited_in_place, copied_with_its_time, renamed_over])
def test_a_change_is_noticed_even_if_size_and_time_are_the_same(cache, tmp_path, change):
    file = tmp_path / "edges.txt"
    file.write_bytes(b"1 2\n2 3\n")
    before = file.stat()
    assert edges(file) == [(1, 2), (2, 3)]
    (first,) = entries(cache)
    assert edges(file) == [(1, 2), (2, 3)]
    assert entries(cache) == [first]
    change(file, b"1 2\n2 7\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert edges(file) == [(1, 2), (2, 7)]
    (second,) = entries(cache)
    assert second != first


@pytest.mark.parametrize("change", [edited_in_place, copied_with_its_time, renamed_over])
def test_a_changed_file_in_a_folder_is_noticed(cache, tmp_path, change):
    folder = tmp_path / "edges.parquet"
    folder.mkdir()
    for name, src in (("a", 1), ("b", 5)):
        pq.write_table(pa.table({"src": [src], "dst": [2]}), folder / f"{name}.parquet")
    pq.write_table(pa.table({"src": [6], "dst": [2]}), tmp_path / "new")
    assert edges(folder) == [(1, 2), (5, 2)]
    before = (folder / "b.parquet").stat()
    assert (tmp_path / "new").stat().st_size == before.st_size
    change(folder / "b.parquet", (tmp_path / "new").read_bytes())
    os.utime(folder / "b.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert edges(folder) == [(1, 2), (6, 2)]
    assert len(entries(cache)) == 1


def test_a_sample_of_the_content_detects_changes_that_a_file_system_hides(tmp_path, monkeypatch):
    """Some file systems have no stable inodes, or no change time."""
    file = tmp_path / "edges.txt"
    file.write_bytes(b"1 2\n" * 100_000)
    seen = os.stat_result([0o100644, 7, 7, 1, 0, 0, 400_000, 0, 0, 0])
    monkeypatch.setattr(cached.os, "fstat", lambda _: seen)
    before = cached._state(file)
    assert cached._state(file) == before
    for at in (0, 399_996):
        changed = bytearray(b"1 2\n" * 100_000)
        changed[at] = ord("7")
        file.write_bytes(changed)
        assert cached._state(file) != before


def test_naming_an_entry_costs_the_same_for_a_file_of_any_size(tmp_path):
    with (tmp_path / "edges.txt").open("wb") as file:
        file.truncate(1 << 40)  # reading all of it would take an hour
    started = time.perf_counter()
    cached._entry_name(tmp_path / "edges.txt", directed=True)
    assert time.perf_counter() - started < 5


BUILDER = """
import sys, time
from bigjoin import indexing
from bigjoin.cli.options import Options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import open_graph
with Reporter(quiet=True) as report:
    report.stage = lambda what: (print(what, flush=True), sys.stdin.readline())
    print(open_graph(sys.argv[1], Options(quiet=True), report).edges, flush=True)
"""


def builder(file: Path) -> subprocess.Popen:
    """Start a process that builds the index of a file and waits for a line of input at each stage."""
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def test_a_build_removes_what_a_killed_one_left(cache, tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("1 2\n2 3\n")
    for stages in (1, 3, 5):
        process = builder(file)
        for stage in range(stages):
            process.stdin.write("\n" if stage else "")
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = [folder for folder in cache.iterdir() if list(folder.glob("building-*"))]
        assert len(left) == 1  # those of earlier rounds are gone
    assert edges(file) == [(1, 2), (2, 3)]
    assert not [folder for folder in cache.iterdir() if list(folder.glob("building-*"))]
    assert len(entries(cache)) == 1


def test_a_running_build_is_left_alone(cache, tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("1 2\n2 3\n")
    process = builder(file)
    assert process.stdout.readline()
    other = tmp_path / "other.txt"
    other.write_text("1 7\n")
    assert edges(other) == [(1, 7)]
    assert edges(file) == [(1, 2), (2, 3)]
    said, _ = process.communicate("\n" * 100, timeout=120)
    assert process.returncode == 0
    assert said.split()[-1] == "2"
    assert len(entries(cache)) == 2


def test_unfinished_builds_of_earlier_versions_are_removed_after_a_day(cache, tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("1 2\n")
    names = ["0123456789abcdef-directed-0123456789abcdef.0a1b2c3d", "0123456789abcdef-undirected-0123456789abcdef.aaaabbbb"]
    for name in names:
        (cache / name).mkdir(parents=True)
    os.utime(cache / names[0], (0, 0))
    edges(file)
    assert names[0] not in entries(cache)
    assert names[1] in entries(cache)
