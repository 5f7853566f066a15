"""The stats of a run in rounds: the paper's rounds, communication, load and memory, from the receipts of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.local.strategy import task_stats
from bigjoin.spark.job import Job
from bigjoin.spark.receipts import Receipt
from bigjoin.storage import Place, place_like

MAX_REPORTED_LOADS = 1000
"""The most exchanges whose loads are reported individually."""


@dataclass
class RoundStats:
    """What a run has done so far, added up from the receipts of its tasks."""

    workers: int
    prefixes: list[int]
    candidates: list[int]
    matches: int = 0
    rounds: int = 0
    exchanges: int = 0
    bytes: int = 0
    tuples: int = 0
    most_load: int = 0
    """The most tuples that a worker received in a round."""
    critical_path: int = 0
    """The most tuples that a worker received in an exchange, added up over all exchanges."""
    loads: list[dict[str, Any]] = field(default_factory=list)
    """For each of the first exchanges, the tuples that workers received: the maximum and the mean."""
    peak_memory: int = 0
    compiled: int = 0
    seconds: dict[int, float] = field(default_factory=dict)
    """Seconds of each task, over all rounds."""
    folder: Place = Path()
    """Where matches are written."""
    parts: list[tuple[Place, int]] = field(default_factory=list)
    """Files of matches, and how many rows each has."""

    @classmethod
    def of(cls, job: Job) -> RoundStats:
        steps = len(job.plan.steps) + 1
        folder = Path() if job.output is None else job.output[0]
        return cls(job.workers, [0] * steps, [0] * steps, folder=folder)

    def has(self, limit: int | None) -> bool:
        """Tell whether at least `limit` matches have been written."""
        return limit is not None and sum(rows for _, rows in self.parts) >= limit

    def add(self, receipts: Sequence[Receipt], exchanges: int, labels: Sequence[dict[str, Any]] = ()) -> NDArray[np.int64]:
        """Add the receipts of a round's tasks, and return how many tuples each worker received, exchange by exchange.

        `labels` are reported with the loads of each exchange.
        """
        loads: NDArray[np.int64] = np.zeros((exchanges + 1, self.workers), np.int64)
        for receipt in receipts:
            self.prefixes = [a + b for a, b in zip(self.prefixes, receipt.prefixes, strict=True)]
            self.candidates = [a + b for a, b in zip(self.candidates, receipt.candidates, strict=True)]
            self.matches += receipt.matches
            self.bytes += receipt.bytes
            self.compiled += receipt.compiled
            self.seconds[receipt.task] = self.seconds.get(receipt.task, 0.0) + receipt.seconds
            self.peak_memory = max(self.peak_memory, receipt.peak_memory)
            self.parts += [(place_like(file, self.folder), rows) for file, rows in receipt.parts]
            for worker, tuples in receipt.load:
                loads[receipt.stage, worker] += tuples
            for worker, tuples in receipt.dealt:  # the last row is free for these, as nothing is sent after the last exchange
                loads[-1, worker] += tuples
        self.rounds += 1
        self.exchanges += exchanges
        self.tuples += int(loads.sum())
        self.most_load = max(self.most_load, int(loads.sum(axis=0).max()))
        self.critical_path += int(loads.max(axis=1).sum())
        for number, load in enumerate(loads):
            if load.any() and len(self.loads) < MAX_REPORTED_LOADS:
                label = labels[number] if labels else {}
                self.loads.append({**label, "max": int(load.max()), "mean": float(load.mean())})
        return loads

    def report(self, job: Job) -> dict[str, Any]:
        """Return the stats of a run: the paper's rounds, load, communication and memory."""
        attributes = [",".join(job.plan.seed.attributes), *(step.attribute for step in job.plan.steps)]
        seconds = [self.seconds.get(task, 0.0) for task in range(job.tasks)]
        return {
            "workers": job.workers,
            "rounds": self.rounds,
            "exchanges": self.exchanges,
            "bytes": self.bytes,
            "tuples": self.tuples,
            "load": {"max": self.most_load, "mean": self.tuples / job.workers / max(1, self.rounds)},
            "exchange_loads": self.loads,
            "critical_path": self.critical_path,
            "steps": [
                {"attribute": attribute, "prefixes": prefixes, "candidates": candidates}
                for attribute, prefixes, candidates in zip(attributes, self.prefixes, self.candidates, strict=True)
            ],
            **task_stats(seconds, peak_memory=self.peak_memory, compiled=self.compiled),
        }
