"""The page about skew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bigjoin.bench.results import Line


def write_skew(lines: Sequence[Line], folder: Path) -> Path | None:
    """Write skew.md."""
    return None
