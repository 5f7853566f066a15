"""The quota of a query: how long it may take, and how much memory. Whatever takes long looks whether it is used up.

Python code calls `check`, compiled loops read `flag`, and Spark's jobs are stopped by functions that `stopped_by` registers. A
quota belongs to a context (`contextvars`), so it reaches everything that a query calls without being passed along. Threads that
work for a query end with it (`stage_runner.in_threads`); a task of Spark has a quota of its own, with the same numbers.

Memory is that of the process, beyond what it had when the query began. Nobody counts allocations: a thread asks the operating
system now and then, whether or not the query has a bound, since a machine without memory left kills without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import inf

import numpy as np

from bigjoin.errors import BigjoinError, QueryCancelledError, QueryMemoryError, QueryTimeoutError
from bigjoin.memory import machine_memory, process_memory, shown_size, size_in_bytes

WATCH_SECONDS = 0.1
"""Seconds between two looks whether a query was cancelled, and between two attempts to stop its jobs."""

MEMORY_SECONDS = 0.02
"""Seconds between two looks at the memory of a query that has a bound: a process can take some 50 MB in that time."""

NOTEWORTHY_BYTES = 64 << 20
"""Bytes from which on a query may be what a machine runs out of memory for; below, nobody looks at the machine."""

BATCH_CELL_BYTES = 64
"""Bytes of memory for each value of a row that is held at once: copies, and what else a process needs, included."""

MIN_BATCH_ROWS = 1 << 10
"""Rows that are held at once however small the bound is."""

_ADVICE = "allow more memory, ask for less (where, limit, a smaller pattern), or give a smaller batch_size"


def check_limits(timeout: float | None, cancel: threading.Event | None) -> None:
    """Refuse limits that make no sense."""
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise BigjoinError(f"timeout is {timeout!r}; it must be a number of seconds, more than 0")
    if cancel is not None and not hasattr(cancel, "is_set"):
        raise BigjoinError(f"cancel is a {type(cancel).__name__}; give a threading.Event, and set it to cancel the query")


class Quota:
    """What one query may take, and whether that is used up."""

    def __init__(
        self, timeout: float | None = None, memory: int | str | None = None, cancel: threading.Event | None = None
    ) -> None:
        check_limits(timeout, cancel)
        self.timeout, self.cancel = timeout, cancel
        self.memory = None if memory is None else size_in_bytes(memory)
        """Bytes that a process which works for the query may take."""
        self.flag = np.zeros(1, np.uint8)
        """Set once the query has to end. Compiled loops read it, and return at once; then `check` raises."""
        self.share: float | None = None
        """The share of the work that is done, if anybody knows."""
        self._error: BigjoinError | None = None
        self._deadline = inf if timeout is None else time.monotonic() + timeout
        self._memory_before: float = 0
        """The bytes that the process had when the query began."""
        self._next_look = inf
        """When to look at the memory of the process next."""
        self._stops: list[Callable[[], object]] = []
        self._changing = threading.Lock()

    @property
    def numbers(self) -> tuple[float | None, int | None]:
        """What the quota of a task is made of: seconds and bytes."""
        return self.timeout, self.memory

    @property
    def is_used_up(self) -> bool:
        """Whether the query has to end."""
        now = time.monotonic()
        if self._error is None and now >= self._deadline:
            self.stop(QueryTimeoutError(self._at_deadline()))
        if self._error is None and now >= self._next_look:
            self._next_look = now + self._look_seconds
            if (why := self._too_much_memory()) is not None:
                self.stop(QueryMemoryError(why))
        if self._error is None and self.cancel is not None and self.cancel.is_set():
            self.stop(QueryCancelledError("the query was cancelled"))
        return self._error is not None

    def check(self) -> None:
        """Raise the error that ends the query, if it has to end."""
        if self.is_used_up:
            assert self._error is not None
            raise self._error

    def stop(self, error: BigjoinError) -> None:
        """End the query with an error, from any thread; the first error counts."""
        with self._changing:
            if self._error is None:
                self._error = error
            self.flag[0] = 1
        self._stop_jobs()

    @contextmanager
    def stopped_by(self, stop: Callable[[], object]) -> Iterator[None]:
        """Have a function called if the query has to end before the block does."""
        self.check()
        with self._changing:
            self._stops.append(stop)
        try:
            yield
        finally:
            with self._changing:
                self._stops.remove(stop)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the seconds of the block, nor the memory that it takes."""
        left, self._deadline = self._deadline - time.monotonic(), inf
        taken, self._memory_before = process_memory() - self._memory_before, inf
        try:
            yield
        finally:
            self._deadline, self._memory_before = time.monotonic() + left, process_memory() - taken

    def affordable(self, rows: int, width: int) -> int:
        """Return how many rows of some values may be held at once: those asked for, or fewer if the query's memory is small."""
        if self.memory is None:
            return rows
        return min(rows, max(MIN_BATCH_ROWS, self.memory // (BATCH_CELL_BYTES * max(1, width))))

    def fits(self, size: int) -> bool:
        """Tell whether the query may take so many bytes in one process."""
        return self.memory is None or size <= self.memory

    def require(self, size: int, what: str) -> None:
        """Refuse the query if something that it needs takes more bytes than it may take."""
        if self.memory is not None and size > self.memory:
            bound = f"a process of the query may take {shown_size(self.memory)} (its bound)"
            raise QueryMemoryError(f"{what} would take {shown_size(size)} of memory, and {bound}: {_ADVICE}")

    def begin(self) -> None:
        """Count the memory that is taken from now on."""
        self._memory_before, self._next_look = process_memory(), time.monotonic() + self._look_seconds

    def watch(self, ended: threading.Event) -> None:
        """Look until the query has ended whether its quota is used up; if so, stop its jobs until it ends."""
        while not ended.wait(min(self._look_seconds, max(0.001, self._deadline - time.monotonic()))):
            if self.is_used_up:
                self._stop_jobs()
                ended.wait(WATCH_SECONDS)

    def _stop_jobs(self) -> None:
        with self._changing:
            stops = list(self._stops)
        for stop in stops:
            with suppress(Exception):  # the session may be ending by itself; and the next attempt comes soon
                stop()

    @property
    def _look_seconds(self) -> float:
        return WATCH_SECONDS if self.memory is None else MEMORY_SECONDS

    def _too_much_memory(self) -> str | None:
        """Return why the query has to end because of the memory that it takes, if it has to."""
        taken = process_memory() - self._memory_before
        if self.memory is not None and taken > self.memory:
            more = f"{shown_size(taken)} of memory, and may take {shown_size(self.memory)} (its bound)"
            return f"the query was stopped, as one of its processes took {more}{self._done}: {_ADVICE}"
        # Not if others have taken almost everything: what is left has to be less than what the query has taken.
        machine = machine_memory() if taken > NOTEWORTHY_BYTES else None
        if machine is not None and machine.left < min(taken, machine.reserved):
            left = f"{shown_size(machine.left)} of {shown_size(machine.size)} are left"
            more = f"{shown_size(taken)} of memory, and only {left}"
            ended = "the query was stopped before the system would have ended it"
            return f"{ended}: one of its processes took {more}{self._done}: {_ADVICE}"
        return None

    @property
    def _done(self) -> str:
        return "" if self.share is None else f", with about {self.share:.0%} of its work done"

    def _at_deadline(self) -> str:
        return (
            f"the query was stopped after {self.timeout:g} seconds (its timeout){self._done}: allow more time, ask for less "
            "(where, limit, a smaller pattern), or estimate the count"
        )


_unlimited = Quota()
_current: ContextVar[Quota] = ContextVar("quota", default=_unlimited)


def quota() -> Quota:
    """Return the quota of the query that this code works for; without one, a quota that is never used up."""
    return _current.get()


@contextmanager
def within(given: Quota, *, watched: bool = True) -> Iterator[None]:
    """Make a quota that of the code in the block; when it is used up, the block ends with its error."""
    token, ended = _current.set(given), threading.Event()
    if watched:  # or somebody else stops it
        given.begin()
        threading.Thread(target=given.watch, args=[ended], daemon=True).start()
    try:
        yield
    except MemoryError as error:
        what = f": {error}" if str(error) else ""
        message = f"the query needs more memory than the system gives to one of its processes{what}: {_ADVICE}"
        raise given._error or QueryMemoryError(message) from error
    except Exception as error:
        if given._error is None or given._error is error:
            raise
        raise given._error from error  # what Spark or a thread said because it was stopped
    finally:
        ended.set()
        _current.reset(token)


def is_limited() -> bool:
    """Tell whether this code works for a query that has a quota."""
    return _current.get() is not _unlimited
