"""The one entry through which generated source is compiled: `load` turns the source of a module into its function.

The module is named by the hash of its source, so that other processes find its machine code in the cache of `jit.py`. Only the
machine code is kept on disk: every process writes the source again, from the plan.
"""

from __future__ import annotations

import linecache
import sys
import threading
from functools import lru_cache
from hashlib import sha256
from types import ModuleType
from typing import Any

MAX_LOADED_FUNCTIONS = 512
"""Functions that a process keeps in memory."""


_loading = threading.Lock()
"""Threads that need the same function get the same one, so that it is compiled once."""


def load(source: str) -> Any:
    """Return the function `run` that a module's source defines."""
    with _loading:
        return _load(source)


@lru_cache(maxsize=MAX_LOADED_FUNCTIONS)
def _load(source: str) -> Any:
    module = ModuleType(f"bigjoin.kernels.plan_{sha256(source.encode()).hexdigest()[:24]}")
    file = f"<{module.__name__}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    sys.modules[module.__name__] = module  # where numba looks for the module when it loads machine code
    exec(compile(source, file, "exec"), module.__dict__)
    return module.run
