"""Arrays as bytes: what lookups ask and say, and what a worker remembers meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[Any], ...]

_ALIGNED = 8


def packed(arrays: Arrays) -> Iterator[Any]:
    """Give the parts of arrays as bytes, one after the other."""
    header = json.dumps([(array.dtype.str, len(array)) for array in arrays]).encode()
    header += b" " * (-len(header) % _ALIGNED)
    yield len(header).to_bytes(_ALIGNED, "little") + header
    for array in arrays:
        yield np.ascontiguousarray(array).view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNED)


def pack_arrays(arrays: Arrays) -> bytes:
    """Return arrays as bytes."""
    return b"".join(packed(arrays))


def unpack_arrays(data: Any) -> Arrays:
    """Return copies of the arrays that bytes hold."""
    view = memoryview(data)
    at = _ALIGNED + int.from_bytes(view[:_ALIGNED], "little")
    arrays = []
    for kind, length in json.loads(bytes(view[_ALIGNED:at])):
        array = np.frombuffer(view, kind, length, at)
        at += array.nbytes + -array.nbytes % _ALIGNED
        arrays.append(array.copy())  # kernels are compiled once more for arrays that cannot be written to
    return tuple(arrays)
