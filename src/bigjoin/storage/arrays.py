"""The formats of data files: NumPy for arrays, Arrow (uncompressed IPC files) for tables, and Parquet for what users read."""

from __future__ import annotations

import io
import os
import uuid
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from bigjoin.storage.place import Place, readable, writable

MAX_HEADER_BYTES = 1 << 16
"""Where the header of a NumPy file ends at the latest; NumPy itself refuses headers of more than 10,000 bytes."""
_HEADER_BYTES = 128
"""The size of the header of a NumPy file with a one-dimensional array."""

_parsing = Lock()
"""NumPy parses headers with Python's own parser, which must not run in two threads at once in Python 3.11."""


def array_in(content: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the array in the bytes of a NumPy file, without a copy; raise ValueError if they are not one plain array."""
    source = io.BytesIO(content[:MAX_HEADER_BYTES].tobytes())
    with _parsing:
        version = npy.read_magic(source)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read is None:
            raise ValueError(f"version {version} of NumPy's format is not supported")
        shape, fortran, dtype = read(source)
    if len(shape) != 1 or fortran or dtype.hasobject or shape[0] < 0:
        raise ValueError("not one plain array")
    start = source.tell()
    if start + shape[0] * dtype.itemsize != len(content) or start % max(1, dtype.itemsize):
        raise ValueError("not as long as its header says")
    return np.asarray(content[start:].view(dtype) if shape[0] else np.empty(0, dtype))


def table_in(content: NDArray[np.uint8]) -> pa.Table:
    """Return the table in the bytes of an Arrow file, without a copy; raise ArrowException if they are not one."""
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(content))).read_all()


def map_array(file: str | Path) -> NDArray[Any]:
    """Map the array in a file that this build has written, as a plain array: slicing a np.memmap is slow."""
    with _parsing:
        return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))


def map_table(file: str | Path) -> pa.Table:
    """Map the table in a file that this build has written."""
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def write_table(table: pa.Table, file: str | Path | IO[bytes]) -> None:
    """Write a table as an Arrow file that can be mapped."""
    with (
        pa.OSFile(str(file), "wb") if isinstance(file, str | Path) else nullcontext(file) as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)


def load_array(file: Place) -> NDArray[Any]:
    """Return the array in a NumPy file: mapped or, from a store, in memory."""
    return np.asarray(np.load(file, mmap_mode="r") if isinstance(file, Path) else np.load(io.BytesIO(file.read_bytes())))


def read_parquet(file: Place) -> pa.Table:
    """Return the rows of a Parquet file, of this machine or on a store."""
    import pyarrow.parquet as pq

    with readable(file) as source:
        return pq.read_table(source, partitioning=None)


def write_parquet(table: pa.Table, file: Place) -> None:
    """Write rows to a Parquet file, on this machine or on a store."""
    import pyarrow.parquet as pq

    with writable(file) as sink:
        pq.write_table(table, sink)


def new_file(folder: str, purpose: str, suffix: str) -> str:
    """Return an unused path in a folder."""
    return f"{folder}/{purpose}-{uuid.uuid4().hex}{suffix}"


def save_new(array: NDArray[Any], folder: str, purpose: str) -> str:
    """Write an array to a new file, and return its path."""
    file = new_file(folder, purpose, ".npy")
    np.save(file, array)
    return file


def create_array(file: str | Path, dtype: np.dtype[Any], size: int) -> None:
    """Create a NumPy file whose content is written later, by `write_slice`."""
    with Path(file).open("wb") as sink:
        npy.write_array_header_1_0(sink, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)})
        assert sink.tell() == _HEADER_BYTES
        sink.truncate(_HEADER_BYTES + size * dtype.itemsize)


def write_slice(file: str | Path, first: int, values: NDArray[Any]) -> None:
    """Write values into a NumPy file from a position on; not through a map, which cannot report a full disk."""
    with Path(file).open("r+b") as sink:
        sink.seek(_HEADER_BYTES + first * values.dtype.itemsize)
        sink.write(np.ascontiguousarray(values).data)


def zeros_on_disk(folder: str, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of zeros that the system can write to a file if memory is short."""
    file = Path(new_file(folder, "zeros", ".bin"))
    with file.open("wb") as sink:
        os.posix_fallocate(sink.fileno(), 0, size * dtype.itemsize)  # a map cannot report a full disk
    return np.memmap(file, dtype, "r+", shape=(size,))
