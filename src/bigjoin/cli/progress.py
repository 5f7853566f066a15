"""Progress on stderr: a bar or a spinner for anything that takes more than two seconds, on a terminal, unless --quiet."""

from __future__ import annotations

import threading
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

DELAY_SECONDS = 2.0
"""Time before anything is shown."""


class Reporter:
    """Shows which stage a command has reached and, if known, how much of that stage is done."""

    def __init__(self, *, quiet: bool) -> None:
        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        hidden = quiet or not console.is_terminal
        # Standard output is not redirected: rows that are printed meanwhile belong there.
        self._progress = Progress(*columns, console=console, transient=True, redirect_stdout=False, disable=hidden)
        self._task = self._progress.add_task("", total=None)
        self._timer = threading.Timer(DELAY_SECONDS, self._progress.start)
        self._timer.daemon = True

    def stage(self, name: str) -> None:
        """Begin a stage of unknown length."""
        self._progress.update(self._task, description=name, total=None, completed=0)

    def share(self, share: float) -> None:
        """Set how much of the stage is done, from 0 to 1."""
        self._progress.update(self._task, total=1.0, completed=min(1.0, share))

    def __enter__(self) -> Reporter:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        self._progress.stop()
