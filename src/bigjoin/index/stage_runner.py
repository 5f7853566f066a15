"""How the stages of a build are run. Spark's tasks are one way, in `spark`; these are the ones that need no Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

StageRunner: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Runs a stage: its function for each item, results in the order of the items."""


def in_turn(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Run a stage here, one item after another."""
    return [function(item) for item in items]


def in_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Run a stage here, on every core: sorting, hashing, reading and kernels do without Python's lock."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))
