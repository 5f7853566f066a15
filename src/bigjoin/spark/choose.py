"""Which strategy `auto` chooses, and why: `shared` if a machine has room for the whole index, otherwise by skew.

A round takes as long as its busiest worker. For each strategy that deals the index out, the forecast critical path, as a
multiple of what it would be with equal work for all, is multiplied by what the strategy costs relative to `partitioned`. The
smallest product wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bigjoin.defaults import StrategyName
from bigjoin.index.overlay import AskedIndex
from bigjoin.query.plan import Plan
from bigjoin.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDICES_PER_MEMORY = 2
"""The whole index is mapped by every task if it would fit into the memory this many times."""

HEAVY_LIGHT_COST = 1.2
"""Task seconds of heavy-light relative to partitioned, without skew: 0.9 to 1.3 in most settings (docs/skew.md)."""

BALANCED_COST = 4.0
"""Task seconds of balanced relative to partitioned, without skew: 2 to 8 in most settings (docs/skew.md)."""

_UNIT_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def choose(
    spark: SparkSession | None, index: AskedIndex, plan: Callable[[], Plan], workers: int | None = None
) -> tuple[StrategyName, str]:
    """Return the strategy for a plan over an index, and the reason; `plan` is called only if skew matters."""
    memory, whose = _memory(spark)
    size = index.own_bytes
    sizes = f"the index has {_shown(size)}, {whose} {_shown(memory)}"
    if size * INDICES_PER_MEMORY <= memory:
        return "shared", f"{sizes}: every task maps all of it"
    from bigjoin.spark.job import worker_count

    many = worker_count(index, workers, parallelism(spark) if spark is not None else os.cpu_count() or 1)
    strategy, why = by_skew(plan(), index, many)
    return strategy, f"{sizes}; {why}"


def by_skew(plan: Plan, index: AskedIndex, workers: int) -> tuple[StrategyName, str]:
    """Return the strategy for an index that is dealt out to workers, and the reason."""
    from bigjoin.dataflow.forecast import forecast
    from bigjoin.dataflow.heavy import find_heavy
    from bigjoin.joins.bind import bind

    bound = bind(plan, index)
    plain, spread = forecast(bound, workers), forecast(bound, workers, find_heavy(bound, workers))
    costs: dict[StrategyName, float] = {
        "partitioned": plain.skew,
        "heavy-light": HEAVY_LIGHT_COST * spread.skew,
        "balanced": BALANCED_COST,
    }
    chosen = min(costs, key=lambda name: costs[name])
    why = f"with {workers} workers, the busiest would get {plain.skew:.1f} times its share if each worker owned a part"
    if plain.skew > 1.05:
        why += f" (most of all the owners of {plain.hottest[1]})"
    why += f", {spread.skew:.1f} times if hubs were dealt out"
    if chosen == "balanced":
        why += f"; dealing out everything costs {BALANCED_COST:g} times as much, and pays off"
    return chosen, why


def _memory(spark: SparkSession | None) -> tuple[int, str]:
    """Return the memory of an executor, and whose it is: this machine's if the session is local or has not started yet."""
    master = "local" if spark is None else spark.conf.get("spark.master", "") or ""
    if spark is None or master.startswith("local"):
        return _memory_here(), "this machine"
    heap = _bytes(spark.conf.get("spark.executor.memory", None) or "1g", "b")
    overhead = spark.conf.get("spark.executor.memoryOverhead", None)
    return heap + (_bytes(overhead, "m") if overhead else max(384 << 20, heap // 10)), "an executor"


def _memory_here() -> int:
    """Return the memory of this machine, or the limit of its container."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            memory = min(memory, int(Path(limit).read_text()))
    return memory


def _bytes(text: str, unit: str) -> int:
    """Return the bytes of a size in Spark's notation; `unit` is the unit of a bare number."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgtp]?)b?\s*", text.lower())
    if found is None:
        return 1 << 30
    return int(found[1]) * _UNIT_BYTES[found[2] or unit]


def _shown(size: int) -> str:
    return f"{size / 2**30:,.1f} GB" if size >= 1 << 30 else f"{size / 2**20:,.1f} MB"
