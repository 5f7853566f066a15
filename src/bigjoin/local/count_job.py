"""Count where the whole index is at hand: what a task counts, whether it is Spark's or a thread.

The seeds are cut into ranges of equal estimated work and dealt to a few large tasks.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bigjoin.compiled.loops_or_batches import CountProgram
from bigjoin.index.typed_json import BigInt
from bigjoin.joins.bind import ReadableIndex
from bigjoin.joins.match_rows import Range
from bigjoin.kernels.jit import compilations
from bigjoin.local.progress import Meter
from bigjoin.local.strategy import Ask, Outcome, task_stats, whole_index
from bigjoin.planner import count_plan, plan

RANGES_PER_TASK = 32
"""Ranges dealt to each task: the estimate looks one step ahead, and many small ranges even out what it cannot foresee."""


@dataclass(frozen=True)
class CountJob:
    """A count over an index, with the ranges of each nest for each task. It is all that travels to tasks."""

    program: CountProgram
    index: ReadableIndex
    ranges: tuple[tuple[tuple[Range, ...], ...], ...]

    @property
    def pieces(self) -> int:
        """How many ranges there are."""
        return sum(len(ranges) for task in self.ranges for ranges in task)


@dataclass(frozen=True)
class CountReceipt:
    """What a task of a count did."""

    count: BigInt
    """Not yet divided."""
    tallies: tuple[tuple[BigInt, ...], ...]
    """For each nest, the prefixes of its loops, followed by their candidates."""
    seconds: float
    peak_memory: int
    compiled: int
    """Kernels that had to be compiled."""


def count_job(ask: Ask, tasks: int) -> CountJob:
    """Cut the seeds of each nest of a count into ranges of equal estimated work, dealt to tasks in turn."""
    if ask.tree is not None:
        program = CountProgram(ask.tree.scope, (ask.tree.nest,))
    else:
        program = CountProgram.choose(ask.counted or count_plan(ask.meaning), partial(plan, ask.meaning), ask.index)
    return dealt_job(program, ask.index, tasks)


def dealt_job(program: CountProgram, index: ReadableIndex, tasks: int) -> CountJob:
    """Deal the seeds of a program to tasks."""
    cut = [found.ranges(tasks * RANGES_PER_TASK) for _, found in program.bind(index)]
    dealt = [tuple(tuple(ranges[task::tasks]) for ranges in cut) for task in range(tasks)]
    return CountJob(program, index, tuple(mine for mine in dealt if any(mine)) or (((),) * len(cut),))


def count_ranges(job: CountJob, meter: str | None, number: int) -> CountReceipt:
    """Count the ranges of one task, which binds the loops by itself: they write to arrays of their own."""
    started, compiled = time.perf_counter(), compilations()
    progress = Meter(meter, number).advance
    total, tallies = 0, []
    for (times, found), ranges in zip(job.program.bind(job.index), job.ranges[number], strict=True):
        total += times * found.count(ranges, progress)
        tallies.append(tuple(found.tally.tolist()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return CountReceipt(total, tuple(tallies), time.perf_counter() - started, peak, compilations() - compiled)


def added_up_count(job: CountJob, receipts: Sequence[CountReceipt], plan_seconds: float) -> Outcome:
    """Return what the tasks of a count have counted together. Their sum is a Python integer, as it may exceed 64 bits."""
    total = divided_count(job, receipts)
    held = partial(whole_index, job.index)
    return Outcome(total, len(job.ranges), _stats(job, receipts), held, plan_seconds=plan_seconds)


def divided_count(job: CountJob, receipts: Sequence[CountReceipt]) -> int:
    """Return what the tasks of a count have counted together."""
    total = sum(receipt.count for receipt in receipts)
    assert total % job.program.divisor == 0, "a sum of counts is not divisible by the symmetry it was counted with"
    return total // job.program.divisor


def _stats(job: CountJob, receipts: Sequence[CountReceipt]) -> dict[str, Any]:
    """Return the stats of a count: sums over its tasks, and how evenly these were loaded."""
    steps = []
    for i, loops in enumerate(job.program.loops):
        tally = [sum(column) for column in zip(*(receipt.tallies[i] for receipt in receipts), strict=True)]
        for k, attribute in enumerate(loops):
            steps.append({"term": i, "attribute": attribute, "prefixes": tally[k], "candidates": tally[len(loops) + k]})
    peak = max((receipt.peak_memory for receipt in receipts), default=0)
    compiled = sum(receipt.compiled for receipt in receipts)
    tasks = task_stats([receipt.seconds for receipt in receipts], peak_memory=peak, compiled=compiled)
    return {"rounds": 1, "bytes": 0, "load": {"max": 0, "mean": 0.0}, "steps": steps, **tasks}
