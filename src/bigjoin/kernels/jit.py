"""How kernels are compiled and where their machine code is kept, and a count of how many had to be compiled.

numba keeps a function's machine code until the file of that function changes, and does not see a change in a helper from
another file. So the folder of the cache is named by the sources of all kernels together.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numba

# Kernels allocate nothing, so arrays need no reference counts: an atomic addition for each array of each call of a helper
# takes longer than a short search (45 ns against 5). The option has no public name; without it kernels are right, and slower.
_UNCOUNTED: dict[str, Any] = {}
with suppress(ImportError):
    from numba.core.options import DefaultOptions

    _UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

_Function = TypeVar("_Function", bound=Callable[..., Any])
_kernels: list[Any] = []
_choosing = Lock()


def kernel(function: _Function) -> _Function:
    """Compile a function on its first call, without the GIL, and keep the machine code on disk."""
    with _choosing:  # the folder is a global of numba's, and functions are made in several threads
        users_choice, numba.config.CACHE_DIR = numba.config.CACHE_DIR, cache_folder()
        try:
            compiled: _Function = numba.njit(nogil=True, cache=True, **_UNCOUNTED)(function)
        finally:
            numba.config.CACHE_DIR = users_choice
    _kernels.append(compiled)
    return compiled


helper = kernel
"""A function that kernels call: compiled like one, and named apart for the reader."""


def compilations() -> int:
    """Return how many functions this process had to compile because the cache did not have them."""
    return sum(sum(k.stats.cache_misses.values()) for k in _kernels if hasattr(k, "stats"))


@cache
def cache_folder() -> str:
    """Return NUMBA_CACHE_DIR, or bigjoin's part of the user's cache folder, and below it one folder for these sources."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or user / "bigjoin" / "kernels")
    with suppress(OSError):
        base.mkdir(parents=True, exist_ok=True)
    if not os.access(base, os.W_OK):  # no home, or not ours
        base = Path(tempfile.gettempdir()) / f"bigjoin-kernels-{os.getuid()}"
    sources = b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
    return str(base / sha256(sources).hexdigest()[:16])
