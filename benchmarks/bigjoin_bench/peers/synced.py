"""Nothing but the disk: what an epoch has to wait for, however little is in it."""

from __future__ import annotations

import os
import tempfile
import time
from statistics import fmean

from bigjoin_bench.feeds import after_first
from bigjoin_bench.question import Answer, Input, Question

SYNCED_BYTES = 4096
"""What is written before each sync, about as much as a small epoch adds to its log."""


class Synced:
    """Some bytes are appended to a file, and synced, for each epoch."""

    def __init__(self, *, threads: int, epochs: int) -> None:
        del threads
        self.many = epochs

    def version(self) -> str:
        return os.uname().release

    def load(self, graph: Input) -> None:
        """Do nothing: it is the disk of the scratch folder that is measured."""

    def run(self, question: Question) -> Answer:
        """Append and sync."""
        del question
        times = []
        with tempfile.NamedTemporaryFile(prefix="bigjoin-bench-", buffering=0) as log:
            for _ in range(self.many):
                begun = time.perf_counter()
                log.write(bytes(SYNCED_BYTES))
                os.fsync(log.fileno())
                times.append(time.perf_counter() - begun)
        return Answer(None, fmean(after_first(times)), {"epochs": times})
