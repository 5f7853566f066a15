"""How a stage, which is a function of an item, is executed for many items without Spark; `spark/tasks.py` does it in tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

StageRunner: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Applies a stage's function to each item, and returns the results in the order of the items."""


def in_turn(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Execute a stage in this thread, one item after another."""
    return [function(item) for item in items]


def in_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Execute a stage on every core: sorting, hashing, reading and kernels release Python's lock."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))
