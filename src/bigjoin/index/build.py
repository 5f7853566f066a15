"""Which columns of a table are an edge."""

from __future__ import annotations

from collections.abc import Sequence

COLUMNS = (("src", "dst"), ("source", "target"), ("from", "to"))
"""What the two columns of an edge may be called, in any case."""


def edge_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two of these columns that are an edge by their names, if two are."""
    lower = {name.lower(): name for name in names}
    return next(((lower[a], lower[b]) for a, b in COLUMNS if a in lower and b in lower), None)
