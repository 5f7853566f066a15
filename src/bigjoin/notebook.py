"""A progress bar in notebooks, for whatever takes more than two seconds. Anywhere else, nothing here does anything.

A bar is one display of the cell, which is replaced as time goes by and is empty in the end. A thread of its own draws it, as
the main thread waits for the answer. What it shows is what verbs report to `progress=`, as on the command line.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from bigjoin.markup import element, joined

PROGRESS_VARIABLE = "BIGJOIN_PROGRESS"
"""The environment variable that turns bars off, with one of the values below."""
OFF = frozenset({"0", "off", "no", "false"})
DELAY_SECONDS = 2.0
"""Time before anything is shown, also by the command line."""
REDRAW_SECONDS = 0.5
ENDING_SECONDS = 5.0
"""How long a verb waits, at most, until its bar is gone."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Item = TypeVar("_Item")


class Bar:
    """What a cell is busy with, and how much of that is done, shown if it takes long."""

    def __init__(self, publish: Callable[..., None], stage: str) -> None:
        self.state: tuple[str, float | None] = (stage, None)
        """What is being done, and the share of it that is done, if that is known."""
        self._publish, self._display = publish, f"bigjoin-{uuid.uuid4().hex}"
        self._began, self._ended = time.monotonic(), threading.Event()
        # The context names the cell that the display belongs to.
        self._thread = threading.Thread(target=copy_context().run, args=(self._draw,), daemon=True, name="bigjoin-progress")

    def stage(self, name: str) -> None:
        """Begin a stage of unknown length."""
        self.state = name, None

    def share(self, share: float) -> None:
        """Set how much of the stage is done, from 0 to 1."""
        self.state = self.state[0], min(1.0, share)

    def __enter__(self) -> Bar:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(ENDING_SECONDS)

    def _draw(self) -> None:
        if self._ended.wait(DELAY_SECONDS):
            return
        with suppress(Exception):  # a kernel that is stopped, for one: no query fails because nobody can see its progress
            self._show(*self._drawn(), update=False)
            while not self._ended.wait(REDRAW_SECONDS):
                self._show(*self._drawn(), update=True)
            self._show("", "", update=True)

    def _show(self, html: str, text: str, *, update: bool) -> None:
        bundle = {"text/html": html, "text/plain": text}
        self._publish(bundle, transient={"display_id": self._display}, update=update)

    def _drawn(self) -> tuple[str, str]:
        """Return the bar as HTML, and as text for what shows no HTML."""
        stage, share = self.state
        percent = "" if share is None else f"{share:.0%}, "
        told = f"{stage}: {percent}{time.monotonic() - self._began:.0f} s"
        bar = element("progress", max=1, value=None if share is None else f"{share:.3f}")
        return joined(bar, " ", told), told


_current: ContextVar[Bar | None] = ContextVar("bar", default=None)


def _publisher() -> Callable[..., None] | None:
    """Return what shows something in the current cell; None outside of notebooks, and where bars are turned off."""
    if "IPython" not in sys.modules or os.environ.get(PROGRESS_VARIABLE, "").lower() in OFF:
        return None
    shell = getattr(sys.modules["IPython"], "get_ipython", lambda: None)()
    if shell is None or getattr(shell, "kernel", None) is None:  # a terminal cannot replace what it has shown
        return None
    return cast("Callable[..., None]", shell.display_pub.publish)


@contextmanager
def progress_bar(stage: str) -> Iterator[Bar | None]:
    """Show a bar if the block takes long, or add a stage to the bar that is there already; give None outside of notebooks."""
    if (outer := _current.get()) is not None:
        before, _ = outer.state
        outer.stage(stage)
        try:
            yield outer
        finally:
            outer.stage(before)
    elif (publish := _publisher()) is None:
        yield None
    else:
        with Bar(publish, stage) as bar:
            token = _current.set(bar)
            try:
                yield bar
            finally:
                _current.reset(token)


def with_progress(stage: str, **reports: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Show a bar while a function runs.

    `reports` are its keywords that take what to call with shares or stages: the bar's method of that name, unless the user has
    given another function, and wants no bar.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def call(*args: _P.args, **given: _P.kwargs) -> _R:
            if any(given.get(keyword) is not None for keyword in reports):
                return function(*args, **given)
            with progress_bar(stage) as bar:
                mine = {} if bar is None else {keyword: getattr(bar, method) for keyword, method in reports.items()}
                return cast("Callable[..., _R]", function)(*args, **{**given, **mine})

        return call

    return decorate


def shown_while_read(
    stage: str, begin: Callable[[Callable[[float], None] | None], Generator[_Item, Any, Any]]
) -> Generator[_Item, None, None]:
    """Show a bar from the first item of a generator to its end; `begin` makes it, given what to call with shares.

    Other code runs between two items, so the bar is nobody else's.
    """
    if (publish := _publisher()) is None:
        yield from begin(None)
        return
    with Bar(publish, stage) as bar:
        yield from begin(bar.share)
