"""The processes below one, the memory that they hold, and their end."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self


def family(pid: int) -> Iterator[int]:
    """Give a process and all below it: a JVM, its daemon, the workers."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def held(pids: Iterable[int]) -> int:
    """Return the bytes that processes hold for themselves; pages of mapped files do not count, as the system can drop them."""
    return sum(_held(pid) for pid in pids)


def _held(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE)) * 1024


class Peak:
    """The most bytes that this process holds while a block runs, looked at every few milliseconds."""

    LOOK = 0.02
    bytes = 0

    def __enter__(self) -> Self:
        self._done = Event()
        self._looking = Thread(target=self._look, daemon=True)
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._looking.join()

    def _look(self) -> None:
        while True:
            self.bytes = max(self.bytes, held([os.getpid()]))
            if self._done.wait(self.LOOK):
                return


def end(pid: int) -> None:
    """Kill a process and all below it; workers of Spark have left its process group, so they are looked up first."""
    for member in list(family(pid)):
        with suppress(OSError):
            os.kill(member, signal.SIGKILL)


def half_of_memory() -> int:
    """Return half of this machine's memory, in megabytes: what a peer that asks for a limit may use."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**21
