"""An interrupt waits for the end of the import that it falls into: some libraries overlook one while they are imported."""

from __future__ import annotations

import signal
from types import FrameType

_IMPORTER = "<frozen importlib._bootstrap>"
"""The file name of the code that imports modules."""
_PATIENCE_SECONDS = 0.02
"""Seconds after which to look again whether the import is done."""


def spare_imports() -> None:
    """Have SIGINT and SIGTERM raise KeyboardInterrupt, which removes unfinished work, but never in the middle of an import."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # jobs in the background ignore it
        signal.signal(signal.SIGINT, _interrupt)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTER:
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS)
            return
        frame = frame.f_back
    raise KeyboardInterrupt
