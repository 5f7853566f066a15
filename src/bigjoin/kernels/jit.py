"""How kernels are compiled, and a count of how many had to be, so that a run can say that it compiled nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])
_kernels: list[Any] = []


def kernel(function: _Function) -> _Function:
    """Compile a function on its first call, without the GIL, and keep the machine code on disk."""
    compiled: _Function = numba.njit(nogil=True, cache=True)(function)
    _kernels.append(compiled)
    return compiled


def helper(function: _Function) -> _Function:
    """Compile a helper that kernels call."""
    compiled: _Function = numba.njit(nogil=True, cache=True)(function)
    return compiled


def compilations() -> int:
    """Return how many kernels this process had to compile because the cache did not have them."""
    return sum(sum(k.stats.cache_misses.values()) for k in _kernels if hasattr(k, "stats"))
