"""What is chosen where a user says nothing, and what there is to choose from. Light, so that --help need not wait for Spark."""

from __future__ import annotations

from bigjoin.errors import BigjoinError, did_you_mean

STRATEGIES = ("auto", "shared", "partitioned", "heavy-light", "balanced")

BATCH_SIZE = 1 << 18
"""Matches that a task holds at once, and B' for a run on batches in one process."""

WORKERS = 4
"""Workers for each core, where nobody says how many and the index is not dealt to any."""

PROPOSALS = 1 << 21
"""B' where an index is dealt out: proposals alive in a worker. The more there are, the more of them share lists or lookups."""

MOST_PROPOSALS = 1 << 30
"""B' at most: what a worker has at once is numbered by 32 bits."""

MOST_SHARDS = 1 << 20
"""Shards that an index is dealt to at most."""

PART_SIZE = 1 << 21
"""Rows that a task of a build holds at once, about: its memory follows this, whatever the size of the graph."""

CONF = "BIGJOIN_CONF"
"""The environment variable whose settings, a JSON object, are those of any session that bigjoin starts."""


def check_strategy(strategy: str, *, factorized: bool = False) -> None:
    """Refuse a strategy that there is not, or that cannot do what is asked."""
    if strategy not in STRATEGIES:
        hint = did_you_mean(strategy, STRATEGIES) or f"choose one of {', '.join(STRATEGIES)}"
        raise BigjoinError(f"there is no strategy {strategy!r}; {hint}")
    if factorized and strategy not in ("auto", "shared"):
        raise BigjoinError("factorized matches are found by the shared strategy only; leave one of the two out")


def check_numbers(*, workers: int | None = None, batch_size: int | None = None, limit: int | None = None) -> None:
    """Refuse numbers that are none, or below the least or above the most that they may be."""
    bounds = {"workers": (workers, 1, None), "batch_size": (batch_size, 1, MOST_PROPOSALS), "limit": (limit, 0, None)}
    for name, (value, least, most) in bounds.items():
        if value is None:
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise BigjoinError(f"{name} is {value!r}; it must be a whole number")
        if value < least:
            raise BigjoinError(f"{name} is {value}; it must be at least {least}")
        if most is not None and value > most:
            raise BigjoinError(f"{name} is {value}; it must be at most {most:,}")
