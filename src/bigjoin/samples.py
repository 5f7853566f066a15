"""Samples of matches: what can be sampled, and how large the sample is."""

from __future__ import annotations

import secrets

from bigjoin.defaults import ListOptions, check_numbers, check_random_state
from bigjoin.errors import BigjoinError, QueryError
from bigjoin.query.statement import Statement

MAX_SAMPLE = 100_000_000
"""The most matches of a sample, which are all in the memory of this process for a moment."""


def sample_size(statement: Statement, options: ListOptions) -> int | None:
    """Return how many rows a sample has, or None if all are wanted; refuse what a sample cannot be of."""
    check_random_state(options["random_state"])
    if (size := options["sample"]) is None:
        return None
    check_numbers(sample=size, limit=options["limit"])
    if size > MAX_SAMPLE:
        raise BigjoinError(f"sample is {size}; it must be at most {MAX_SAMPLE:,}")
    if options["factorized"]:
        raise QueryError("a sample is of single matches, and factorized rows stand for many", hint="leave out one of the two")
    is_sorted = bool(statement.order) and statement.language != "motif"  # GraphFrames sorts what it adds up
    ordered = is_sorted or statement.skip or statement.count_column is not None
    if ordered or not statement.counts_as_queries:
        raise QueryError(f"a sample is of matches in no order: {statement.beyond_query} cannot be combined with it")
    return min(n for n in (size, options["limit"], statement.limit) if n is not None)


def state_of(options: ListOptions) -> int:
    """Return the seed of the random numbers of a sample: as asked for, or another each time."""
    given = options["random_state"]
    return secrets.randbits(63) if given is None else given
