"""The one entry through which generated source is compiled.

A module that is generated is named by the hash of its source, so that its machine code is found again by workers and later
runs. The source itself is not kept: whoever asks for the function has it.
"""

from __future__ import annotations

import linecache
import sys
from functools import lru_cache
from hashlib import sha256
from types import ModuleType
from typing import Any

KEPT = 512
"""Functions that a process keeps."""


@lru_cache(maxsize=KEPT)
def load(source: str) -> Any:
    """Return the function `run` that a module's source defines."""
    module = ModuleType(f"bigjoin.kernels.plan_{sha256(source.encode()).hexdigest()[:24]}")
    file = f"<{module.__name__}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    sys.modules[module.__name__] = module  # where numba looks for the module of cached machine code
    exec(compile(source, file, "exec"), module.__dict__)
    return module.run
