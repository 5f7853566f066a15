"""Which strategy `auto` takes, and why: the whole index for every task while a machine has room for it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from bigjoin.index.directory import Index

SHARE = 2
"""An index is mapped by every task if it fills at most one part in so many of the memory."""

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def choose(spark: SparkSession | None, index: Index) -> tuple[str, str]:
    """Return the strategy for an index, and the reason."""
    memory, whose = _memory(spark)
    size = index.own_bytes
    shared = size * SHARE <= memory
    sizes = f"the index has {_shown(size)}, {whose} {_shown(memory)}"
    return ("shared", f"{sizes}: every task maps all of it") if shared else ("partitioned", f"{sizes}: each worker owns a part")


def _memory(spark: SparkSession | None) -> tuple[int, str]:
    """Return the memory of an executor, and whose it is; a session that runs here, or none yet, has this machine's."""
    master = "local" if spark is None else spark.conf.get("spark.master", "") or ""
    if spark is None or master.startswith("local"):
        return _memory_here(), "this machine"
    heap = _bytes(spark.conf.get("spark.executor.memory", None) or "1g", "b")
    overhead = spark.conf.get("spark.executor.memoryOverhead", None)
    return heap + (_bytes(overhead, "m") if overhead else max(384 << 20, heap // 10)), "an executor"


def _memory_here() -> int:
    """Return the memory of this machine, or what its container may use of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            memory = min(memory, int(Path(limit).read_text()))
    return memory


def _bytes(text: str, unit: str) -> int:
    """Return a size as Spark spells it; `unit` is that of a bare number."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgtp]?)b?\s*", text.lower())
    if found is None:
        return 1 << 30
    return int(found[1]) * _UNITS[found[2] or unit]


def _shown(size: int) -> str:
    return f"{size / 2**30:,.1f} GB" if size >= 1 << 30 else f"{size / 2**20:,.1f} MB"
