"""Where the files of an epoch lie until it is committed: in a folder of a build or, if they are small, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Protocol

from bigjoin.index.manifest_entries import Manifest
from bigjoin.storage import Storage


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
    """Files in the folder of a build; on a store, they are put there at once, as tasks read them before the commit."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self.storage, self.folder = storage, folder
        self.held: dict[str, bytes] = {}

    def name(self, file: str) -> str:
        return f"{self.folder.name}/{file}"

    @contextmanager
    def open(self, file: str) -> Iterator[IO[bytes]]:
        with (self.folder / file).open("wb") as sink:
            yield sink
        if self.storage.is_store:
            self.storage.sync(self.name(file))
            self.storage.keep(self.name(file))

    def drop_unused(self, manifest: Manifest) -> None:
        """Remove the files that a manifest does not name, since they were merged into others."""
        for name in {self.name(file) for file in self.storage.list(self.folder.name)} - set(manifest.named_files()):
            self.storage.remove(name)


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
