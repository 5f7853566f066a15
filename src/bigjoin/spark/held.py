"""The files that DataFrames of results read: scratch folders, kept for as long as a plan may read them.

Only the user knows when that ends. A derived frame, a cached one or a view reads the same files, and none of these is a Python
object whose end could be observed. So files are removed by `close`, or with the session that could read them, or when the
process ends. A small result is part of its frame instead, and needs no files.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from bigjoin.storage import Place, remove_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_UNNOTED_BYTES = 16 << 30
"""Bytes of results beyond which a warning says how to free them."""

_changing = threading.Lock()
"""Held while a list of folders, or the set of all such lists, changes or is looked through."""


@dataclass(frozen=True, slots=True, eq=False)
class _Folder:
    """The files of one result, and the session that reads them."""

    path: Place
    session: SparkSession
    bytes: int


class Held:
    """The folders of some results."""

    _all: ClassVar[WeakSet[Held]] = WeakSet()

    def __init__(self) -> None:
        self._folders: list[_Folder] = []
        self._noted = False
        with _changing:
            self._all.add(self)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    @property
    def bytes(self) -> int:
        """How many bytes on disk are kept."""
        return sum(folder.bytes for folder in list(self._folders))

    def add(self, folder: Place, spark: SparkSession) -> None:
        """Keep a folder, and remove what is kept for sessions that have ended."""
        with _changing:
            kept = [(held, one.session) for held in self._all for one in held._folders if one.session is not spark]
        for held, session in kept:
            if has_ended(session):
                held.free([session])
        size = sum(file.stat().st_size for file in folder.iterdir()) if folder.exists() else 0
        with _changing:
            self._folders.append(_Folder(folder, spark, size))
            is_much = not self._noted and self.bytes > MAX_UNNOTED_BYTES
            self._noted = self._noted or is_much
        if is_much:
            warnings.warn(
                f"results of find hold {self.bytes >> 30} GB of scratch files until the graph is closed: close() it, or "
                "write() results to files of your own",
                stacklevel=3,
            )

    def free(self, sessions: Sequence[SparkSession] | None = None) -> None:
        """Remove the files that some sessions read, or all files; frames that need them can no longer be read."""
        with _changing:
            freed = [folder for folder in self._folders if sessions is None or folder.session in sessions]
            self._folders = [folder for folder in self._folders if folder not in freed]
        for folder in freed:
            remove_folder(folder.path)


def has_ended(spark: SparkSession) -> bool:
    """Tell whether a session has been stopped."""
    try:
        spark.conf.get("spark.app.name", "")
    except Exception:  # Py4J's or gRPC's: which one depends on the kind of session
        return True
    return False
