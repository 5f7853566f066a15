"""Whether a question is worth a start of Spark: what its loops are expected to read, compared with what Spark's start takes.

On one machine, Spark's tasks have the same cores as threads. So what Spark adds to a question from a shell is its start and its
first job, some ten seconds, and what it is needed for are machines beyond this one, and memory beyond that of one process. A
question is answered here if that should take no longer than Spark's start. Then a wrong estimate costs little: who is patient
for as long as the alternative takes never waits twice as long as necessary, if the rest is as fast with Spark.
"""

from __future__ import annotations

from collections.abc import Iterable

from bigjoin.compiled.loops_or_batches import as_loops
from bigjoin.compiled.sampled import expected_candidates
from bigjoin.index.stage_runner import cores
from bigjoin.local.strategy import Ask
from bigjoin.planner import plan
from bigjoin.query.nest import CountPlan

SPARK_SECONDS = 10.0
"""Seconds from the start of Spark to the end of its first job, which a shell waits for whatever is asked."""

CANDIDATES_PER_SECOND = 100_000_000
"""What compiled loops read in a second and thread, as samples count it: 75 to 165 million on the graphs that we have."""

CANDIDATES_PER_ROW = 32
"""Candidates that take as long as to decode a match and write it."""


def counting_seconds(ask: Ask, counted: CountPlan) -> float:
    """Return about how many seconds a plan takes to count the matches of a question in threads of this process."""
    return _seconds([(counted, ask)], counted.cost)


def listing_seconds(ask: Ask) -> float:
    """Return about how many seconds it takes to list the matches of a question in threads of this process."""
    if ask.limit is not None:
        return 0.0  # one thread stops at the first matches
    found = as_loops(plan(ask.meaning))
    return CANDIDATES_PER_ROW * _seconds([(found, ask)], float("inf"))


def _seconds(counts: Iterable[tuple[CountPlan, Ask]], cost: float) -> float:
    """Return the seconds that plans take: by their cost or, if that is too high, by a sample of what they read.

    The cost is a bound rather than an estimate where few vertices have most edges, but needs no data.
    """
    rate = CANDIDATES_PER_SECOND * cores()
    if cost > SPARK_SECONDS * rate:
        cost = sum(expected_candidates(term, count.query, ask.index) for count, ask in counts for term in count.terms)
    return cost / rate
