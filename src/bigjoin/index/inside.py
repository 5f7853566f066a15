"""The door to the files of an index: opened without following links, so that no name in it leads outside, and mapped.

The directory itself may be a link; below it, a link could lead a reader to a pipe, or a writer to somebody else's file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError

_parsing = Lock()
"""NumPy parses the header of a file with Python's parser, which in Python 3.11 must not run in two threads at once."""


def open_inside(directory: Path, name: str, flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of a regular file below a directory; raise IndexFormatError if a link or something else is there."""
    *folders, file = PurePosixPath(name).parts
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=at)
    except OSError as error:
        if not isinstance(error, FileNotFoundError) and _is_link(directory, name):
            raise _refused(directory, name, "is a link") from None
        raise
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refused(directory, name, "is no regular file")
    return descriptor


def read_inside(directory: Path, name: str) -> bytes:
    """Return the content of a file below a directory."""
    with open(open_inside(directory, name), "rb") as source:
        return source.read()


def is_inside(directory: Path, name: str) -> bool:
    """Tell whether something is there, be it a link that leads nowhere."""
    return os.path.lexists(directory / name)


class Mapped(np.ndarray[Any, Any]):
    """The pages of a file, or a part of them; `filename` says of which, for who wants to map it again."""

    filename: str | None = None

    def __array_finalize__(self, other: Any) -> None:
        self.filename = getattr(other, "filename", None)


def map_inside(directory: Path, name: str) -> tuple[NDArray[np.uint8], os.stat_result]:
    """Return the bytes of a file below a directory, mapped, and what the system says of that very file.

    Arrow maps it, as Python's own maps each keep a descriptor open, and an index may have more files than a process may open.
    """
    with open(open_inside(directory, name), "rb") as source:
        status = os.fstat(source.fileno())
        if not status.st_size:
            return np.empty(0, np.uint8), status
        with pa.memory_map(f"/dev/fd/{source.fileno()}") as pages:
            mapped = np.frombuffer(pages.read_buffer(), np.uint8).view(Mapped)
        mapped.filename = str(directory / name)
        return mapped, status


def array_in(content: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the one array that the bytes of a NumPy file hold, without a copy; raise ValueError if they do not."""
    source = _Reader(content)
    with _parsing:
        version = npy.read_magic(source)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read is None:
            raise ValueError(f"NumPy's format {version} is not read")
        shape, fortran, dtype = read(source)
    if len(shape) != 1 or fortran or dtype.hasobject or shape[0] < 0:
        raise ValueError("not one plain array")
    if source.at + shape[0] * dtype.itemsize != len(content) or source.at % max(1, dtype.itemsize):
        raise ValueError("not as long as its header says")
    return np.asarray(content[source.at :].view(dtype) if shape[0] else np.empty(0, dtype))


def table_in(content: NDArray[np.uint8]) -> pa.Table:
    """Return the table that the bytes of an Arrow file hold, without a copy; raise ArrowException if they do not."""
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(content))).read_all()


class _Reader:
    """Bytes in memory, read as NumPy reads a header."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.content, self.at = content, 0

    def read(self, count: int = -1, /) -> bytes:
        found = self.content[self.at : None if count < 0 else self.at + count].tobytes()
        self.at += len(found)
        return found


def _is_link(directory: Path, name: str) -> bool:
    path = directory
    for part in PurePosixPath(name).parts:
        path = path / part
        if path.is_symlink():
            return True
    return False


def _refused(directory: Path, name: str, what: str) -> IndexFormatError:
    return IndexFormatError(f"{directory / name} {what}: inside an index nothing is opened through links; remove it")
