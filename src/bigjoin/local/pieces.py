"""Stream matches while they are being found: tasks leave pieces of the result in a folder, from which the driver takes them.

A file whose name begins with `piece-` is complete. Tasks wait while there are too many pieces, so that a slow reader does not
let the disk fill up. When the reader has seen enough, the work is stopped.
"""

from __future__ import annotations

import atexit
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

from bigjoin.errors import QueryCancelledError
from bigjoin.quota import Quota, quota, within

PIECE_PREFIX = "piece-"
MAX_PIECES = 64
"""The most pieces that wait for the reader."""
LOOK_SECONDS = 0.02
"""Seconds between two looks into the folder."""
PATIENCE_SECONDS = 30.0
"""Seconds that the work may take to end after it was stopped."""


def publish(files: Iterable[Path], folder: Path) -> None:
    """Turn complete files into pieces of the result, as soon as there is room for them."""
    for file in files:
        make_room(folder)
        file.rename(folder / f"{PIECE_PREFIX}{uuid.uuid4().hex}{file.suffix}")


def make_room(folder: Path) -> None:
    """Wait until there are few enough pieces; raise FileNotFoundError if the reader has gone, and the folder with it."""
    while sum(file.name.startswith(PIECE_PREFIX) for file in folder.iterdir()) >= MAX_PIECES:
        quota().check()
        time.sleep(LOOK_SECONDS)


def stream(folder: Path, work: Callable[[], None], look: Callable[[], None], limits: Quota) -> Generator[Path, None, None]:
    """Give the pieces that `work` makes in a folder, and remove each after use; stop the work if the reader stops.

    `look` is called regularly, and an error that it raises ends everything. A piece with the name of an earlier one has the
    same contents: it comes from a task that ran again.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with within(limits):
                work()
        except BaseException as error:  # it is raised where the pieces are read
            failed.append(error)
        finally:
            finished.set()

    def end() -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not (finished.is_set() and not folder.exists()) and time.monotonic() < until:
            if not finished.is_set():
                limits.stop(QueryCancelledError("the reader has seen enough"))
            shutil.rmtree(folder, ignore_errors=True)  # repeated, as a task may have put another piece there
            finished.wait(10 * LOOK_SECONDS)

    # An event, since Python considers a thread finished if an interrupt arrives while it is being joined.
    finished = threading.Event()
    # A program may end with a result that it has not read to its end. Then the work has to end before Python does, which stops
    # a thread wherever it is: inside Arrow, that aborts the process.
    atexit.register(end)
    threading.Thread(target=run, daemon=True).start()
    seen: set[str] = set()
    try:
        at_work = True
        while at_work:
            at_work = not finished.is_set()  # checked before the folder is listed, so that no piece is missed
            pieces = sorted(folder.glob(f"{PIECE_PREFIX}*"))
            for piece in pieces:
                if piece.name not in seen:
                    seen.add(piece.name)
                    yield piece
                piece.unlink()
            look()
            if not pieces:
                finished.wait(LOOK_SECONDS)
    finally:
        end()
        atexit.unregister(end)
    if failed:
        raise failed[0]
