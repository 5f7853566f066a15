"""Where the files of an epoch lie until it is committed: in a folder of a build or, if they are small, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Protocol


class EpochFiles(Protocol):
    """The files of an epoch that is not committed yet."""

    @property
    def held(self) -> dict[str, bytes]:
        """Those that are not on disk, by name."""

    def name(self, file: str) -> str:
        """Return the name by which the manifest will know a file."""

    @contextmanager
    def open(self, file: str) -> Iterator[IO[bytes]]:
        """Give what the content of a new file is written to."""


class FilesInFolder:
    """Files in the folder of a build."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[str, bytes] = {}

    def name(self, file: str) -> str:
        return f"{self.folder.name}/{file}"

    @contextmanager
    def open(self, file: str) -> Iterator[IO[bytes]]:
        with (self.folder / file).open("wb") as sink:
            yield sink


class FilesForLog:
    """Files in memory, which a record of the log will hold."""

    def __init__(self, log: str, epoch: int) -> None:
        self.stem = f"{log.partition('/')[0]}/{epoch}"
        self.held: dict[str, bytes] = {}

    def name(self, file: str) -> str:
        return f"{self.stem}.{file}"

    @contextmanager
    def open(self, file: str) -> Iterator[IO[bytes]]:
        sink = BytesIO()
        yield sink
        self.held[self.name(file)] = sink.getvalue()
