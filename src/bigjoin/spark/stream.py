"""Matches while they are being found: tasks leave pieces of the result in a folder, and the driver takes them from there.

A file whose name begins with `piece-` is whole. Whoever makes pieces waits while too many lie about, so that a reader who is
slow does not fill the disk; and when the reader has seen enough, the work is stopped.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from bigjoin.spark.session import OWN_SESSION

PIECE_PREFIX = "piece-"
MAX_PIECES = 64
"""Pieces that wait for their reader."""
LOOK_SECONDS = 0.02
"""Seconds between two looks into the folder."""
STOP_SECONDS = 30.0
"""Seconds that work which was stopped may take to end."""


def publish(files: Iterable[Path], folder: Path) -> None:
    """Make files that are whole pieces of the result, as soon as there is room for them."""
    for file in files:
        make_room(folder)
        file.rename(folder / f"{PIECE_PREFIX}{uuid.uuid4().hex}{file.suffix}")


def make_room(folder: Path) -> None:
    """Wait until the reader has taken some pieces; if the folder is gone, so is the reader."""
    while sum(file.name.startswith(PIECE_PREFIX) for file in folder.iterdir()) >= MAX_PIECES:
        time.sleep(LOOK_SECONDS)


def stream(
    spark: SparkSession,
    folder: Path,
    work: Callable[[SparkSession], None],
    look: Callable[[], None],
) -> Generator[Path, None, None]:
    """Give the pieces that `work` makes in a folder, each for as long as it is looked at; stop the work if nobody reads on.

    `look` is called while nothing comes: what it raises ends all. A piece with the name of one before it is the same, from a
    task that ran again.
    """
    failed: list[BaseException] = []
    with _stoppable(spark) as (session, begin, stop):

        def run() -> None:
            try:
                begin()
                work(session)
            except BaseException as error:  # it is raised where the pieces are read
                failed.append(error)
            finally:
                finished.set()

        # An event, as an interrupt while a thread is joined makes Python take it for one that has ended.
        finished = threading.Event()
        threading.Thread(target=run, daemon=True).start()
        seen: set[str] = set()
        try:
            at_work = True
            while at_work:
                at_work = not finished.is_set()  # asked before the look, so that no piece is missed
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
            until = time.monotonic() + STOP_SECONDS
            while not (finished.is_set() and not folder.exists()) and time.monotonic() < until:
                if not finished.is_set():
                    with suppress(Exception):  # of a session that ends by itself
                        stop()
                shutil.rmtree(folder, ignore_errors=True)  # again, if a task has put another piece there meanwhile
                finished.wait(10 * LOOK_SECONDS)
    if failed:
        raise failed[0]


@contextmanager
def _stoppable(spark: SparkSession) -> Iterator[tuple[SparkSession, Callable[[], None], Callable[[], object]]]:
    """Give a session, what a thread calls before it runs jobs there, and what stops those jobs and no others."""
    if "connect" in type(spark).__module__:
        tag = f"bigjoin-{uuid.uuid4().hex}"
        yield spark, lambda: spark.addTag(tag), lambda: spark.interruptTag(tag)
        return
    session = spark.newSession()  # on the same cluster; a tag would not reach jobs that give Arrow
    session.conf.set(OWN_SESSION, "true")
    yield session, lambda: None, session.interruptAll
