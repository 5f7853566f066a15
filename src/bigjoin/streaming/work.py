"""How much there is to look at before an epoch can end: a count that would take hours is refused before it begins."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bigjoin.errors import BigjoinError, shown
from bigjoin.joins.bind import Relations
from bigjoin.joins.sampled import expected_candidates
from bigjoin.query.nest import Nest, nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query

MOST = 1 << 36
"""Candidates of a count at most: some minutes of one thread."""

SETTING = "BIGJOIN_MOST_CANDIDATES"
"""The environment variable that allows more, or fewer."""


def term_of(plan: Plan) -> Nest:
    """Return a plan as loops, each within the one before."""
    return nest_of(plan)


def check_work(query: Query, nests: Iterable[tuple[Nest, Query, Relations]]) -> None:
    """Refuse to count a query by nests that are expected to look at more than the most."""
    most = _most()
    expected = sum(expected_candidates(*nest) for nest in nests)
    if expected > most:
        raise BigjoinError(
            f"to count {shown(query, 120)} for this epoch means to look at some {expected:.2g} candidates, and {most:.2g} is "
            f"the most: watch a query with fewer attributes, bring fewer updates at a time, or set {SETTING} to allow more"
        )


def _most() -> float:
    said = os.environ.get(SETTING)
    try:
        return MOST if said is None else float(said)
    except ValueError:
        raise BigjoinError(f"{SETTING} is a number of candidates, such as 1e12, and not {shown(said, 60)!r}") from None
