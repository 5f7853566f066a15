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

PART_SIZE = 1 << 21
"""Rows that a task of a build holds at once, about: its memory follows this, whatever the size of the graph."""


def check_strategy(strategy: str, *, factorized: bool = False) -> None:
    """Refuse a strategy that there is not, or that cannot do what is asked."""
    if strategy not in STRATEGIES:
        hint = did_you_mean(strategy, STRATEGIES) or f"choose one of {', '.join(STRATEGIES)}"
        raise BigjoinError(f"there is no strategy {strategy!r}; {hint}")
    if factorized and strategy not in ("auto", "shared"):
        raise BigjoinError("factorized matches are found by the shared strategy only; leave one of the two out")
