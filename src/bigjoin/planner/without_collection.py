"""Plan without Python's collector of cycles, which looks for garbage where there is none.

A search makes hundreds of thousands of small objects, and none of them refers to itself. The collector would go through them,
and through whatever else the program holds, again and again: for large queries, that took a quarter to a third of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Switch the collector off for a block, or for a function; whoever switched it off switches it on again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
