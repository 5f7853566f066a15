"""Spark for a shell: it starts when a question needs it, in a thread, so that the question can be cancelled meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from bigjoin.quota import quota

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_LOOK_SECONDS = 0.05
"""Seconds between two looks whether Spark has started, or the question was cancelled."""

END_SECONDS = 10.0
"""Seconds that a start may take to end."""


class LateSpark:
    """The session of a shell, once there is one."""

    def __init__(self, master: str | None, conf: Mapping[str, str]) -> None:
        self._master, self._conf = master, conf
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._started: threading.Event | None = None
        """Set when the start that is going on has ended, well or not."""
        self.seconds = 0.0
        """How long questions have waited for it."""

    @property
    def state(self) -> Literal["not started", "starting", "running"]:
        """How far it is."""
        if self._session is not None:
            return "running"
        return "not started" if self._started is None or self._started.is_set() else "starting"

    def session(self) -> SparkSession:
        """Return the session. If the question is cancelled before that, the start goes on for the next one that needs it."""
        if self._session is None:
            if self._started is None:
                self._error, self._started = None, threading.Event()
                threading.Thread(target=self._start, args=(self._started,), daemon=True, name="bigjoin-spark").start()
            began = time.perf_counter()
            try:
                while not self._started.wait(START_LOOK_SECONDS):
                    quota().check()
            finally:
                self.seconds += time.perf_counter() - began
            self._started = None
            if self._error is not None:
                raise self._error
        assert self._session is not None
        return self._session

    def _start(self, started: threading.Event) -> None:
        from bigjoin.spark.session import get_session

        try:
            self._session = get_session(self._master, self._conf)
        except BaseException as error:  # it is raised where somebody waits for the session
            self._error = error
        finally:
            started.set()

    def interrupt(self) -> None:
        """End whatever runs in the session itself; questions have sessions of their own."""
        if self._session is not None:
            self._session.interruptAll()

    def end(self) -> None:
        """End a start that nobody waits for any more, and which has the standard error for itself until then."""
        started, until = self._started, time.monotonic() + END_SECONDS
        while started is not None and not started.is_set() and time.monotonic() < until:
            from bigjoin.spark.session import end_jvm

            with suppress(OSError):
                end_jvm()
            started.wait(START_LOOK_SECONDS)
