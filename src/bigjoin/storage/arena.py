"""Arrays that can grow: the mapped pages of a file, followed by memory at the next addresses.

In an index that changes, lists lie in its files until an update touches them, and in memory from then on; kernels read both as
one array. The file is mapped privately, so nothing is copied, all processes share its pages, and the file never changes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.storage.local import MappedBytes

MIN_ROOM = 1 << 16
"""Entries that a new array can grow by at least before it is copied."""
MIN_MAPPED_BYTES = 1 << 22
"""Smaller arrays are copied, which is faster than to map them."""

_FIXED = 0x10 if sys.platform.startswith(("linux", "darwin")) else None
_FAILED = ctypes.c_void_p(-1).value


class Growing:
    """An array that begins with the entries of another one."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.used = len(array)
        mapped = _mapped(array)
        if mapped is None:
            mapped = np.empty(len(array) + max(MIN_ROOM, len(array) // 4), array.dtype)
            mapped[: len(array)] = array
        self.array = mapped

    @property
    def filled(self) -> NDArray[Any]:
        return self.array[: self.used]

    def extend(self, count: int) -> NDArray[Any]:
        """Return `count` further entries, which the caller writes."""
        if self.used + count > len(self.array):
            grown = np.empty(max(self.used + count, 3 * len(self.array) // 2), self.array.dtype)
            grown[: self.used] = self.filled
            self.array = grown
        self.used += count
        return self.array[self.used - count : self.used]

    def fill(self, size: int, value: int) -> None:
        """Grow to a size, and set the new entries to a value."""
        if size > self.used:
            self.extend(size - self.used)[:] = value


def _mapped(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return the array of a file with as much room again behind it; None if it is small, or not the end of a mapped file."""
    file = _file_of(array)
    if file is None or array.nbytes < MIN_MAPPED_BYTES or _FIXED is None:
        return None
    begins = array.ctypes.data - file.ctypes.data
    size = begins + array.nbytes
    if size != file.nbytes:
        return None
    room = -(-(2 * size + MIN_ROOM * array.itemsize) // mmap.PAGESIZE) * mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    rights, private = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE
    address = libc.mmap(None, room, rights, private | mmap.MAP_ANONYMOUS, -1, 0)
    if address == _FAILED:
        return None
    try:
        descriptor = os.open(str(file.filename), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:  # it was removed from the cache since it was mapped
        libc.munmap(address, room)
        return None
    try:
        if libc.mmap(address, size, rights, private | _FIXED, descriptor, 0) == _FAILED:
            libc.munmap(address, room)
            return None
    finally:
        os.close(descriptor)
    whole = (ctypes.c_uint8 * room).from_address(address)
    weakref.finalize(whole, libc.munmap, address, room)
    count = (room - begins) // array.itemsize
    return np.frombuffer(memoryview(whole), array.dtype, count, begins)


def _file_of(array: NDArray[Any]) -> MappedBytes | None:
    """Return the whole mapped file that an array is a view of, if it is one."""
    found, at = None, array.base
    while isinstance(at, np.ndarray):
        found = at if isinstance(at, MappedBytes) and at.filename is not None else found
        at = at.base
    return found
