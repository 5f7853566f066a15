"""bigjoin through thousands of epochs with a sliding window, to see what grows."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.changing_verbs import monitor_of
from bigjoin.defaults import LOCAL
from bigjoin.index.writer import vacuum
from bigjoin.streaming.watched import watchable
from bigjoin.streaming.window import Window
from bigjoin_bench.feeds import after_first
from bigjoin_bench.memory import held
from bigjoin_bench.peers.applied import Applied
from bigjoin_bench.question import Answer, Input, Question

SAMPLES, VACUUMS, REBUILDS = 100, 20, 10
"""How often, in all epochs, figures are taken, superseded files are removed, and the count is checked."""

TIME = "at"
"""The column with the number of the epoch in which an edge comes."""


class Sliding(Applied):
    """Each edge lives for so many epochs as the window is long."""

    def __init__(self, *, window: int, **feed: Any) -> None:
        super().__init__(**feed)
        self.window = window

    def load(self, graph: Input) -> None:
        """Build an empty index, and give each edge a time."""
        super().load(graph)
        assert not len(self.first)
        self.later = self.later.append_column(TIME, pa.array(np.arange(len(self.later)) // self.feed.updates + 1))
        self.index = self.build(self.later.slice(0, 0), "index")

    def run(self, question: Question) -> Answer:
        """Apply all epochs; now and then the count is that of a new index of the edges in the window, or this is an error."""
        tables = self.feed.tables(self.later)
        every, cleaned, checked = (max(1, len(tables) // many) for many in (SAMPLES, VACUUMS, REBUILDS))
        times: list[float] = []
        kept: dict[int, int] = {}
        samples, compactions = [], 0
        with self.copied() as graph:
            monitor = monitor_of(
                graph,
                watchable(question.query, question.flags, listing=False),  # type: ignore[arg-type]
                {"strategy": LOCAL, "workers": None, "batch_size": None},
                window=Window(TIME, self.window),
                sync=self.sync,
            )
            path = graph.index.path
            for number, table in enumerate(tables, 1):
                begun = time.perf_counter()
                epoch = monitor.apply(table)
                times.append(time.perf_counter() - begun)
                assert epoch is not None
                assert monitor.live is not None
                compactions += not monitor.live.index.runs
                if number % checked == 0 or number == len(tables):
                    kept[number] = epoch.count
                if number % every == 0:
                    samples.append({"epoch": number, "memory": held([os.getpid()]), **_size(path)})
                if number % cleaned == 0:
                    monitor.flush()
                    vacuum(path)
            monitor.flush()
        for number, found in kept.items():
            ends = max(0, number - self.window) * self.feed.updates, number * self.feed.updates
            living = self.later.slice(ends[0], ends[1] - ends[0]).select(["src", "dst"])
            self.check(question, found, self.count_anew(question, living))
        figures = {"updates": self.feed.updates, "epochs": times, "samples": samples, "compactions": compactions}
        return Answer(kept[len(tables)], fmean(after_first(times)), figures | {"rebuilt": len(kept)})


def _size(folder: Path) -> dict[str, int]:
    """Return how many files a folder has, and their bytes."""
    found = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return {"files": len(found), "bytes": sum(found)}
