"""Progress on stderr: a bar or a spinner for anything that takes more than two seconds, on a terminal, unless --quiet."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from bigjoin.notebook import DELAY_SECONDS

if TYPE_CHECKING:
    from rich.progress import Progress


class Reporter:
    """Shows which stage a command has reached and, if known, how much of that stage is done."""

    def __init__(self, *, quiet: bool) -> None:
        self._stage: tuple[str, float | None] = ("", None)
        """What the command does, and how much of that is done, from 0 to 1."""
        self._progress: Progress | None = None
        """The bar, once it is shown; what draws it takes a tenth of a second to import."""
        self._changing = threading.Lock()
        self._timer = threading.Timer(DELAY_SECONDS, self._show)
        self._timer.daemon = True
        self._hidden, self._ended = quiet or not sys.stderr.isatty(), False

    def stage(self, name: str) -> None:
        """Begin a stage of unknown length."""
        self._set(name, None)

    def share(self, share: float) -> None:
        """Set how much of the stage is done, from 0 to 1."""
        self._set(self._stage[0], min(1.0, share))

    def _set(self, name: str, share: float | None) -> None:
        with self._changing:
            self._stage = name, share
            if self._progress is not None:
                (task,) = self._progress.task_ids
                total = None if share is None else 1.0
                self._progress.update(task, description=name, total=total, completed=share or 0)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        # Standard output is not redirected: rows that are printed meanwhile belong there.
        shown = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        with self._changing:
            if not self._ended:
                name, share = self._stage
                task = shown.add_task(name, total=None)
                if share is not None:
                    shown.update(task, total=1.0, completed=share)
                shown.start()
                self._progress = shown

    def __enter__(self) -> Reporter:
        if not self._hidden:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        with self._changing:
            self._ended = True
            if self._progress is not None:
                self._progress.stop()
