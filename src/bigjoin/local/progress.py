"""The progress of a job: tasks write to files how many seeds they have read, and the driver adds these up.

Files, because Spark's own status tracker does not exist on Spark Connect, whereas an index needs a directory that every
executor sees anyway.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bigjoin.quota import quota
from bigjoin.storage.scratch import scratch_directory

PROGRESS_SECONDS = 0.2
"""Seconds between two writes of a task, and between two reads of the driver."""


class Meter:
    """Adds up the seeds that a task has read, and writes the sum to a file now and then."""

    def __init__(self, folder: str | None, task: int) -> None:
        self.file = Path(folder) / str(task) if folder else None
        self.seeds = 0
        self.noted = 0.0

    def advance(self, seeds: int) -> None:
        self.seeds += seeds
        now = time.monotonic()
        if self.file is not None and now - self.noted > PROGRESS_SECONDS:
            self.noted = now
            with suppress(OSError):  # the driver's folder may not exist on another machine
                self.file.write_text(str(self.seeds), encoding="ascii")


def meter_folder() -> Path:
    """Return where the tasks of a job that is kept note their progress: a folder that is there only while somebody watches."""
    folder = scratch_directory("progress")
    folder.rmdir()
    return folder


@contextmanager
def watching(seeds: int, progress: Callable[[float], None] | None, folder: Path | None = None) -> Iterator[str | None]:
    """Give the folder for the files of tasks; until the block ends, call `progress` with the share of seeds that are read."""
    if progress is None:
        yield None
        return
    folder = folder or scratch_directory("progress")
    folder.mkdir(exist_ok=True)
    finished, limits = threading.Event(), quota()

    def look() -> None:
        while not finished.wait(PROGRESS_SECONDS):
            with suppress(OSError, ValueError):  # a file that is being written is read next time
                read = sum(int(file.read_text(encoding="ascii")) for file in folder.iterdir())
                limits.share = read / max(1, seeds)
                progress(limits.share)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield str(folder)
    finally:
        finished.set()
        thread.join()
        shutil.rmtree(folder, ignore_errors=True)
