"""Arrays in files, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

_one_at_a_time = Lock()


def map_array(file: str | Path) -> NDArray[Any]:
    """Return the array in a NumPy file: a plain read-only view of mapped pages, as np.memmap itself is slow to slice.

    NumPy parses the header with Python's parser, which in Python 3.11 must not run in two threads at once.
    """
    with _one_at_a_time:
        return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
