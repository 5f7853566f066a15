"""What the library asks of a store of files.

Files have names below a root, with `/` between folders. A file is written once, into a folder that `create_folder` gives, and
never changed; only `publish` replaces one, at once, and only `write_from` extends one. A commit rests on that: new files are
synced, then one file that names them is published. A store without folders to write into may give a local one, and upload its
files in `sync`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What a store says of a name, without looking into the file."""

    kind: Literal["file", "folder", "other"]
    """A link is something other, whatever it leads to."""
    bytes: int
    version: tuple[int, ...]
    """What changes whenever the file is changed or replaced, in any way that the store can see."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The bytes of a file, of which only those are read that somebody looks at; and its status when it was opened."""

    content: NDArray[np.uint8]
    status: FileStatus


class LockHeldError(Exception):
    """Somebody else holds a lock; the message says who, if that is known."""


class Storage(Protocol):
    """Files below a root. No name leads outside of it: what is a link, or no regular file, is refused, not followed."""

    @property
    def root(self) -> Path:
        """What names are relative to."""

    def address(self, name: str) -> str:
        """Return what tells a file from those of other stores, however the root is spelled."""

    def exists(self, name: str) -> bool:
        """Tell whether a name is taken, be it by a link that leads nowhere."""

    def is_folder(self, name: str = "") -> bool:
        """Tell whether a name is that of a folder; without a name, whether the root is one."""

    def status(self, name: str) -> FileStatus:
        """Return the status of a name; raise FileNotFoundError if there is none."""

    def list(self, folder: str = "") -> Mapping[str, FileStatus]:
        """Return the names in a folder, in their order."""

    def read(self, name: str, first: int = 0, last: int | None = None) -> bytes:
        """Return the bytes of a file, or a range of them."""

    def map(self, name: str) -> StoredFile:
        """Return a file as an array of bytes that are read when they are looked at; it stays valid if the file is removed."""

    def create_folder(self, name: str) -> Path:
        """Create a folder, which must not be there, and return where tasks write its files."""

    def sync(self, name: str = "") -> None:
        """Wait until a file, or the names in a folder, would survive a power cut."""

    def publish(self, name: str, content: bytes) -> None:
        """Replace a file by new content at once, and durably: readers see the old one or the new one, whole."""

    def write_from(self, name: str, position: int, content: bytes) -> None:
        """Write content from a position of a file on, durably, as its new end; the file is created if there is none."""

    def move(self, name: str, target: str) -> None:
        """Give a file or folder another name at once; a file takes the place of one that has that name."""

    def adopt(self, name: str, source: Storage, source_name: str) -> None:
        """Have a file of another store here too: files never change, so a second name for the same one will do."""

    def remove(self, name: str) -> int:
        """Remove a file, or a folder with all that is in it, if it is there; return how many bytes that freed."""

    def locked(self, name: str, *, patience: float = 0.0) -> AbstractContextManager[None]:
        """Hold a lock, which ends with the process, however it ends.

        Raise LockHeldError if somebody else holds it for longer than some seconds of patience.
        """
