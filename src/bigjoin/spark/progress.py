"""How far a run is: tasks note the seeds they have read in files that the driver looks at.

Files, because a directory that every executor sees is what an index needs anyway, while Spark's own status tracker is not
there on Spark Connect.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bigjoin.spark.session import scratch_directory

INTERVAL = 0.2
"""Seconds between two notes, and between two looks."""


class Meter:
    """A task's side: adds up seeds, and notes the sum now and then."""

    def __init__(self, folder: str | None, task: int) -> None:
        self.file = Path(folder) / str(task) if folder else None
        self.seeds = 0
        self.noted = 0.0

    def advance(self, seeds: int) -> None:
        self.seeds += seeds
        now = time.monotonic()
        if self.file is not None and now - self.noted > INTERVAL:
            self.noted = now
            with suppress(OSError):  # on another machine the driver's folder may not be there
                self.file.write_text(str(self.seeds), encoding="ascii")


@contextmanager
def watching(seeds: int, progress: Callable[[float], None] | None) -> Iterator[str | None]:
    """Give the folder for the tasks' notes, and call `progress` with the share of the seeds read until the block ends."""
    if progress is None:
        yield None
        return
    folder = scratch_directory("progress")
    finished = threading.Event()

    def look() -> None:
        while not finished.wait(INTERVAL):
            with suppress(OSError, ValueError):  # a note that is just being written is read next time
                read = sum(int(file.read_text(encoding="ascii")) for file in folder.iterdir())
                progress(read / max(1, seeds))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield str(folder)
    finally:
        finished.set()
        thread.join()
        shutil.rmtree(folder, ignore_errors=True)
