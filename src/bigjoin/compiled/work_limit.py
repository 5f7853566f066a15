"""A limit on the work of a count: one that would take hours is refused before it begins."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bigjoin.compiled.sampled import expected_candidates
from bigjoin.errors import BigjoinError, shown
from bigjoin.joins.bind import ReadableIndex
from bigjoin.query.nest import CountPlan
from bigjoin.query.query import Query

MAX_CANDIDATES = 1 << 36
"""How many candidates a count may look at: some minutes of one thread."""

MAX_CANDIDATES_VARIABLE = "BIGJOIN_MOST_CANDIDATES"
"""The environment variable that sets another limit."""


def expected_work(counts: Iterable[tuple[CountPlan, ReadableIndex]]) -> float:
    """Estimate how many candidates counts will look at."""
    return sum(expected_candidates(term, plan.query, index) for plan, index in counts for term in plan.terms)


def check_work(query: Query, counts: Iterable[tuple[CountPlan, ReadableIndex]]) -> None:
    """Refuse to count a query by plans that are expected to look at more candidates than the limit."""
    refuse_work(query, expected_work(counts))


def refuse_work(query: Query, expected: float) -> None:
    """Refuse to count a query if this is expected to mean looking at more candidates than the limit."""
    limit = most_work()
    if expected > limit:
        raise BigjoinError(
            f"counting {shown(query, 120)} means looking at about {expected:.2g} candidates, and the limit is "
            f"{limit:.2g}: watch a query with fewer attributes, apply fewer updates at a time, or allow more with "
            f"{MAX_CANDIDATES_VARIABLE} in the environment"
        )


def most_work() -> float:
    """Return how many candidates a count may look at."""
    given = os.environ.get(MAX_CANDIDATES_VARIABLE)
    try:
        return MAX_CANDIDATES if given is None else float(given)
    except ValueError:
        raise BigjoinError(
            f"{MAX_CANDIDATES_VARIABLE} is a number of candidates, such as 1e12, and not {shown(given, 60)!r}"
        ) from None
