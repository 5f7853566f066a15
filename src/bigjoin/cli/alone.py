"""What a command does to a process in which nothing else runs."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType

_alone: list[bool] = []
"""Not empty if a command has the process for itself."""


def be_alone() -> None:
    """Note that the command has the process for itself."""
    _alone.append(True)


def spare_pandas() -> None:
    """Have Arrow do without pandas: otherwise it imports it, for half a second, to see whether an array is one of pandas'."""
    if _alone and "pandas" not in sys.modules:
        sys.modules["pandas"] = too_old = ModuleType("pandas")
        too_old.__dict__["__version__"] = "0"
        try:
            import pyarrow as pa

            with warnings.catch_warnings(action="ignore"):
                pa.array(())
        finally:
            del sys.modules["pandas"]
