"""The files that DataFrames of results read: scratch folders, kept for as long as a plan may read them.

Only the user knows when that ends. A derived frame, a cached one or a view reads the same files, and none of these is a Python
object whose end could be observed. So files are removed by `close`, or with the session that could read them, or when the
process ends. A small result is part of its frame instead, and needs no files.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from pyspark.sql import SparkSession

MAX_UNNOTED_BYTES = 16 << 30
"""Bytes of results beyond which a warning says how to free them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Folder:
    """The files of one result, and the session that reads them."""

    path: Path
    session: SparkSession
    bytes: int


class Held:
    """The folders of some results."""

    _all: ClassVar[WeakSet[Held]] = WeakSet()

    def __init__(self) -> None:
        self._folders: list[_Folder] = []
        self._noted = False
        self._all.add(self)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    @property
    def bytes(self) -> int:
        """How many bytes on disk are kept."""
        return sum(folder.bytes for folder in self._folders)

    def add(self, folder: Path, spark: SparkSession) -> None:
        """Keep a folder, and remove what is kept for sessions that have ended."""
        for held in list(self._all):
            held.free([folder.session for folder in held._folders if folder.session is not spark and has_ended(folder.session)])
        self._folders.append(_Folder(folder, spark, sum(file.stat().st_size for file in folder.iterdir())))
        if not self._noted and self.bytes > MAX_UNNOTED_BYTES:
            self._noted = True
            warnings.warn(
                f"results of find hold {self.bytes >> 30} GB of scratch files until the graph is closed: close() it, or "
                "write() results to files of your own",
                stacklevel=3,
            )

    def free(self, sessions: Sequence[SparkSession] | None = None) -> None:
        """Remove the files that some sessions read, or all files; frames that need them can no longer be read."""
        for folder in list(self._folders):
            if sessions is None or folder.session in sessions:
                shutil.rmtree(folder.path, ignore_errors=True)
                self._folders.remove(folder)


def has_ended(spark: SparkSession) -> bool:
    """Tell whether a session has been stopped."""
    try:
        spark.conf.get("spark.app.name", "")
    except Exception:  # Py4J's or gRPC's: which one depends on the kind of session
        return True
    return False
