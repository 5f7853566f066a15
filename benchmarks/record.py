"""What every benchmark does with its results: a line of JSON with commit and versions, and a table on a page."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]
THREADS = 2

_Result = TypeVar("_Result")


def timed(run: Callable[[], _Result]) -> tuple[_Result, float]:
    started = time.perf_counter()
    return run(), time.perf_counter() - started


def append(benchmark: str, **results: Any) -> None:
    """Add a line to results.jsonl."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()
    versions = {name: version(name) for name in ("bigjoin", "duckdb", "pyspark", "numba", "numpy", "pyarrow")}
    machine = {"cores": THREADS, "machine": platform.machine(), "python": platform.python_version()}
    record = {"benchmark": benchmark, "commit": commit, "versions": versions, **machine, **results}
    with (ROOT / "benchmarks" / "results.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


def put(marker: str, text: str, *pages: str) -> None:
    """Replace what stands between two comments of a page."""
    for page in pages:
        file = ROOT / page
        block = f"<!-- {marker} -->\n{text}\n<!-- /{marker} -->"
        pattern = rf"<!-- {marker} -->.*<!-- /{marker} -->"
        file.write_text(re.sub(pattern, block.replace("\\", r"\\"), file.read_text(), flags=re.DOTALL))


@contextmanager
def watching_memory() -> Iterator[dict[str, int]]:
    """Give a dict that holds, afterwards, the peak memory of this process and its children, without mapped files."""
    peak: dict[str, int] = {"all": 0, "jvm": 0, "driver": 0, "worker": 0}
    finished = threading.Event()

    def look() -> None:
        while not finished.wait(0.02):
            total = 0
            for pid in _family(os.getpid()):
                kind, held = _memory(pid)
                total += held
                peak[kind] = max(peak[kind], held)
            peak["all"] = max(peak["all"], total)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        finished.set()
        thread.join()


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _memory(pid: int) -> tuple[str, int]:
    """Return what a process is, and the memory that only it holds."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "worker", 0
    held = sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE)) * 1024
    kind = "driver" if pid == os.getpid() else "jvm" if "java" in status.split("\n", 1)[0] else "worker"
    return kind, held
