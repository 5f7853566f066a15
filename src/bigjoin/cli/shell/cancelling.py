"""Ctrl-C while something runs: that is cancelled, and nothing else is.

SIGTERM, and the end of the terminal, cancel it as well, and then end the shell.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from bigjoin.quota import Quota, within

_STILL_ENDING = b"bigjoin: it is ending: what runs now ends with the next look at its quota\n"


class Ended(KeyboardInterrupt):
    """The process was told to end, and not only what it is doing."""


class Cancelling:
    """Turns signals into the cancelling of what runs. Python's own interrupt could come in the middle of a message to Spark."""

    def __init__(self) -> None:
        self._running: threading.Event | None = None
        """Set to cancel what runs now."""
        self._ends = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle signals in the block; in a thread that cannot, leave them as they are."""
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: self._end,
            signal.SIGHUP: self._end,
        }
        before = {}
        with suppress(ValueError):  # not the main thread
            before = {
                number: signal.signal(number, handler)
                for number, handler in handlers.items()
                if signal.getsignal(number) is not signal.SIG_IGN  # as in the background
            }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def running(self) -> Iterator[threading.Event]:
        """Have signals cancel the block, within a quota, instead of interrupting it wherever it is."""
        self._running = event = threading.Event()
        try:
            with within(Quota(cancel=event)):
                yield event
        finally:
            self._running = None
            if self._ends:
                raise Ended

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        if self._running is None:
            raise KeyboardInterrupt
        if self._running.is_set():
            with suppress(OSError, ValueError):  # print could be in the middle of printing
                os.write(sys.stderr.fileno(), _STILL_ENDING)
        self._running.set()

    def _end(self, _: int, __: FrameType | None) -> None:
        self._ends = True
        if self._running is None:
            raise Ended
        self._running.set()
