"""Everything that the library asks of a store of files.

Names are relative to a root, with `/` between folders. A file is written once, into a folder from `create_folder`, and never
changed afterwards; only `publish` replaces a file, in one step, and only `write_from` extends one. Every commit rests on that:
new files are synced, then one file that names them is published.

What is being written is private to its writer, so tasks write it by path: the files of a build in progress, staged output, and
scratch. `create_folder` returns that path, and nothing else may read from it until the files are synced and named by a commit.
A store without a local file system behind it returns a local folder, and `sync` puts its files on the store.

`commit` is for the one name by which writers compete: it makes the next content of a name, and refuses if somebody else has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bigjoin.storage.place import Place


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What a store knows about a name without reading the file."""

    kind: Literal["file", "folder", "other"]
    """A link is `other`, whatever it leads to."""
    bytes: int
    version: tuple[int, ...]
    """Numbers of which at least one changes whenever the file is changed or replaced, as far as the store can tell."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The bytes of a file, read from the store when they are accessed, and its status when it was opened."""

    content: NDArray[np.uint8]
    status: FileStatus


@dataclass(frozen=True, slots=True)
class Current:
    """The newest content that was committed under a name, and its number."""

    content: bytes
    number: int


class TakenError(Exception):
    """Somebody else has committed the content that was to be next."""


class LockHeldError(Exception):
    """Another process holds a lock; the message says which, if that is known."""


class Storage(Protocol):
    """Files below a root. No name leads outside it: links and special files are refused, not followed."""

    @property
    def root(self) -> Place:
        """The folder that names are relative to."""

    @property
    def is_store(self) -> bool:
        """Whether it is a store of objects, which cannot be renamed or extended, and where nobody holds a lock."""

    def address(self, name: str) -> str:
        """Return the absolute address of a file, the same however the root is spelled."""

    def exists(self, name: str) -> bool:
        """Tell whether a name is taken, even by a link that leads nowhere."""

    def is_folder(self, name: str = "") -> bool:
        """Tell whether a name, or without a name the root, is a folder."""

    def status(self, name: str) -> FileStatus:
        """Return the status of a name; raise FileNotFoundError if it is not taken."""

    def list(self, folder: str = "") -> Mapping[str, FileStatus]:
        """Return the sorted names in a folder."""

    def read(self, name: str, first: int = 0, last: int | None = None) -> bytes:
        """Return the bytes [first, last) of a file."""

    def sizes(self, names: set[str]) -> Mapping[str, int]:
        """Return the bytes of those files that exist."""

    def map(self, name: str, checksum: str | None = None) -> StoredFile:
        """Return a file as an array of bytes that are read on access; it stays valid when the file is removed.

        A store maps a local copy, which is found by the checksum that the caller knows of the file.
        """

    def keep(self, name: str, checksum: str | None = None) -> None:
        """Keep a copy of a file that this process has written, if files are mapped from copies."""

    def lay_beside(self, name: str, files: Mapping[str, str]) -> None:
        """Have files, given with their checksums, beside a folder that is being written, under their own names."""

    def release(self, name: str) -> None:
        """Give up the local folder of a draft that was synced, if there is one."""

    def put(self, name: str, file: Path) -> None:
        """Copy a file of this machine to a name that is not taken."""

    def copy_to(self, name: str, file: Path) -> None:
        """Copy a file to a path of this machine."""

    def create_folder(self, name: str) -> Path:
        """Create a folder, which must not exist, and return the path where its files are to be written."""

    def sync(self, name: str = "") -> None:
        """Wait until a file, or the list of names in a folder, would survive a power failure."""

    def publish(self, name: str, content: bytes) -> None:
        """Replace a file in one step and durably: readers see the whole old content or the whole new one."""

    def create(self, name: str, content: bytes) -> None:
        """Create a file in one step and durably; raise FileExistsError if the name is taken."""

    def current(self, name: str) -> Current:
        """Return the newest content that was committed under a name; raise FileNotFoundError if there is none."""

    def commit(self, name: str, content: bytes, after: int) -> int:
        """Make a content the next one of a name, after the one with some number, as durably as `publish`; return its number.

        Raise TakenError if another content is next already. Where locks keep writers apart, numbers stay 0.
        """

    def outdated(self, name: str) -> Sequence[str]:
        """Return the names of earlier contents of a name that was committed which nobody reads any more, the oldest first."""

    def age(self, name: str) -> float:
        """Return the seconds since a file, or the youngest one in a folder, was written."""

    def write_from(self, name: str, position: int, content: bytes, *, sync: bool = True) -> None:
        """Replace everything from a position of a file on, durably or not; a file that does not exist is created."""

    def move(self, name: str, target: str) -> None:
        """Rename a file or folder in one step; a file replaces one that has the new name."""

    def adopt(self, name: str, source: Storage, source_name: str) -> None:
        """Add a file of another store to this one, if possible without a copy: files never change, so they can be shared."""

    def size(self, name: str) -> int:
        """Return the bytes of a file, or of all files in a folder."""

    def remove(self, name: str) -> int:
        """Remove a file, or a folder with its content, if it exists; return the number of bytes that freed."""

    def locked(self, name: str, *, patience: float = 0.0) -> AbstractContextManager[None]:
        """Hold a lock that the end of the process releases, even if it is killed.

        Raise LockHeldError if another process holds it for longer than `patience` seconds.
        """
