"""Forecast how many rows a verb is going to list: very many are worth a warning, and more than `max_rows` are refused.

A bound from sizes alone says for most queries that there is nothing to fear. Otherwise a few small samples of the join tell, in
hundredths of a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from bigjoin.defaults import ListOptions, check_numbers
from bigjoin.errors import BigjoinError, QueryError, RowLimitError, RowsWarning, shown, warn_caller
from bigjoin.estimates import Estimating, asked_drafts, bound_plans, interval
from bigjoin.index.directory import Index
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement

MANY_ROWS = 100_000_000
"""Rows beyond which a verb that lists them warns."""

MANY_ROWS_VARIABLE = "BIGJOIN_MANY_ROWS"
"""The environment variable that sets another number."""

FORECAST_SAMPLES, FORECAST_SIZE = 8, 1 << 10

MAX_WRITTEN_OUT = 1e15
"""Numbers of rows from here on are told as powers of ten."""


def check_rows(statement: Statement, options: ListOptions, index_for: Callable[[Query], Index]) -> None:
    """Refuse to list more rows than `max_rows`, and warn of very many; a limit or a sample says that there will be few."""
    most, many = options["max_rows"], _many_rows()
    check_numbers(max_rows=most)
    is_limited = any(n is not None for n in (options["limit"], options["sample"], statement.limit))
    if is_limited or options["factorized"] or statement.count_column is not None or not statement.counts_as_queries:
        return
    try:
        drafts = asked_drafts(statement, index_for)
    except QueryError:  # distinct rows, of which nobody knows the number; or a mistake, which is reported when the query runs
        return
    if sum(_most_rows(draft) for draft, _ in drafts) <= (many if most is None else most):
        return
    plans = bound_plans(drafts)
    count, low, high = interval(Estimating(plans, np.random.SeedSequence(0)).draws(FORECAST_SAMPLES, FORECAST_SIZE))
    about = f"about {_rounded(count)} rows (95 %: {_rounded(low)} to {_rounded(high)})"
    fewer = "use limit or sample, write conditions, count them, or group them (count by)"
    if most is not None and statement.cut(low) > most:
        raise RowLimitError(f"{shown(statement.name, 60)} has {about}, and max_rows is {most:,}: {fewer}, or allow more")
    if most is None and count > many:
        warn_caller(f"{shown(statement.name, 60)} has {about}: {fewer}; max_rows=N refuses more than N", RowsWarning)


def _rounded(number: float) -> str:
    """Return a number with its first two digits: 320, 27,000,000,000 or 1.2e+19."""
    return f"{float(f'{number:.2g}'):,.0f}" if number < MAX_WRITTEN_OUT else f"{number:.2g}"


def _most_rows(draft: Draft) -> int:
    """Return what the matches of a query cannot exceed: the product of the sizes of relations that bind all attributes."""
    sizes = {frozenset(atom.attributes): draft.statistics.of(atom).tuples for atom in draft.positive}
    most, left = 1, set(draft.query.attributes)
    while left:
        covered = max(sizes, key=lambda attributes: (len(attributes & left), -sizes[attributes]))
        most *= sizes[covered]
        left -= covered
    return most


def _many_rows() -> float:
    given = os.environ.get(MANY_ROWS_VARIABLE)
    try:
        return MANY_ROWS if given is None else float(given)
    except ValueError:
        message = f"{MANY_ROWS_VARIABLE} is a number of rows, such as 1e9, and not {shown(given, 60)!r}"
        raise BigjoinError(message) from None
