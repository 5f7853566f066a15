"""What was worked out for a question, kept for the next time it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_KEPT = 256
"""Questions whose plans and jobs are kept; the oldest makes room for the next."""

_Asked = TypeVar("_Asked")
_Ready = TypeVar("_Ready")


class Kept(Generic[_Asked, _Ready]):
    """A dictionary of bounded size, for any number of threads."""

    def __init__(self) -> None:
        self._ready: dict[_Asked, _Ready] = {}
        self._lock = threading.Lock()

    def __contains__(self, asked: _Asked) -> bool:
        return asked in self._ready

    def get(self, asked: _Asked) -> _Ready | None:
        """Return what is ready, if it is kept."""
        return self._ready.get(asked)

    def keep(self, asked: _Asked, ready: _Ready) -> _Ready:
        """Keep what is ready, and return it."""
        with self._lock:
            self._ready[asked] = ready
            while len(self._ready) > MAX_KEPT:
                del self._ready[next(iter(self._ready))]
        return ready

    def forget(self, is_useless: Callable[[_Ready], bool]) -> None:
        """Forget what is of no use any more."""
        with self._lock:
            self._ready = {asked: ready for asked, ready in self._ready.items() if not is_useless(ready)}
