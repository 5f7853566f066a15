"""How a stage, which is a function of an item, is executed for many items without Spark; `spark/tasks.py` does it in tasks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from bigjoin.errors import QueryCancelledError
from bigjoin.quota import Quota, quota, within

StageRunner: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Applies a stage's function to each item, and returns the results in the order of the items."""


STOP_LOOK_SECONDS = 0.02
"""Seconds between two looks whether they have ended."""

STOP_SECONDS = 60.0
"""Seconds that threads may take to end after they were stopped."""


def in_turn(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Execute a stage in this thread, one item after another."""
    results = []
    for item in items:
        quota().check()
        results.append(function(item))
    return results


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[Any], Any], items: Sequence[Any], *, threads: int | None = None) -> list[Any]:
    """Execute a stage on every core: sorting, hashing, reading and kernels release Python's lock.

    Once an item has failed, or the caller is interrupted, the other threads end as soon as they look at their quota. Python
    does not wait for them when it exits: whoever calls this from a thread of its own ends that first (`local/pieces.py`).
    """
    own, results = Quota(), [None] * len(items)
    stop = partial(own.stop, QueryCancelledError("the query was stopped"))
    failed: list[BaseException] = []
    many = min(threads or cores(), len(items))
    waiting, ended, all_ended, begun = iter(range(len(items))), [], threading.Event(), 0

    def work() -> None:
        try:
            with within(own, watched=False):
                for place in waiting:  # each place reaches one thread: the next one is a single step of Python
                    own.check()
                    results[place] = function(items[place])
        except BaseException as error:  # it is raised where the results are wanted
            failed.append(error)
            stop()
        finally:
            ended.append(True)
            if len(ended) == many:
                all_ended.set()

    with quota().stopped_by(stop):
        try:
            for _ in range(many):
                threading.Thread(target=work, daemon=True).start()
                begun += 1
            if many:
                all_ended.wait()
        except BaseException:
            stop()
            until = time.monotonic() + STOP_SECONDS
            while len(ended) < begun and time.monotonic() < until:  # if not all were started, nothing says that all have ended
                all_ended.wait(STOP_LOOK_SECONDS)
            raise
    if failed:
        raise failed[0]
    return results
