"""Estimate how many matches a query has: a count with a 95 % interval, from samples of the join, in this process.

A few small samples (`joins/sampled_join.py`) say how much samples differ and what they cost. If the whole join would look at
little, it is executed, and the count is exact. Otherwise this pilot decides how large further samples have to be, and how many
of those the time allows for; its own values are not used, so that what it finds cannot bias the estimate. The further samples
are independent of each other. So their mean is an estimate without bias, and how much they differ says how far off it may be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import ceil, floor, inf, sqrt
from statistics import NormalDist, fmean, pstdev, stdev
from typing import TypeAlias

import numpy as np

from bigjoin.defaults import check_random_state
from bigjoin.errors import BigjoinError, QueryError
from bigjoin.html_tables import bar, table, titled
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_threads
from bigjoin.joins.bind import BoundPlan, bind
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.sampled_join import Sample, SampledJoin
from bigjoin.joins.seeds import equal_ranges
from bigjoin.planner import drops_duplicates, meaning, plan
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.quota import quota
from bigjoin.seeds import overlaid, with_members_as_seeds

SECONDS = 2.0
"""The time that an estimate may take."""

PRECISION = 0.05
"""The half-width of the interval that an estimate aims at, as a share of the count."""

MAX_EXACT_PROPOSALS = 1 << 21
"""Seeds and proposals up to which the whole join is executed, which takes a tenth of a second or two."""

PILOT_SAMPLES, PILOT_SIZE = 32, 1 << 9
SAMPLES, MIN_SIZE, MAX_SIZE = 32, 1 << 11, 1 << 20
"""How many samples an estimate is the mean of, and how many proposals they draw at each step."""

FEWEST_SAMPLES = 8
"""Samples below which an estimate whose time was up rather uses those of the pilot."""

MAX_SKEW = 0.5
"""The skewness that samples may have. If a few of them are much larger than the others, most sets of samples have none of
these, and the interval is too low and too narrow. The skewness of a sum falls with the root of its length, so larger samples
help.
"""

MIN_THREADED_SIZE = 1 << 11
"""Proposals from which on samples are drawn in threads: smaller ones spend most of their time with Python's lock."""

CAUTION = 1.5
"""By how much samples may differ more than those of the pilot."""

WORK_PER_SECOND = 2_000_000
"""What a core does of `Sample.work`, at least. A constant, so that the same random state gives the same samples everywhere."""

FEW_HITS = 10
"""Samples with a match below which the interval is that of a rare event."""

_RARE_HIGH = (3.7, 5.6, 7.3, 8.8, 10.3, 11.7, 13.1, 14.5, 15.8, 17.1)
"""What a rare event is not expected more often than, with 97.5 % certainty, if it has happened 0, 1, 2, ... times."""

_RARE_LOW = (0.0, 0.02, 0.24, 0.61, 1.08, 1.62, 2.2, 2.81, 3.45, 4.11)
"""What it is not expected less often than."""

Draw: TypeAlias = tuple[Sample, ...]
"""A sample of each part of a sum of queries."""


@dataclass(frozen=True)
class Estimate:
    """An estimate of the number of matches: `count`, and an interval from `low` to `high` that holds it in 95 of 100 cases."""

    count: int
    low: int
    high: int
    exact: bool
    """Whether all matches were counted. Then `low` and `high` equal `count`."""
    samples: int = 0
    """How many independent samples `count` is the mean of."""
    proposals: int = 0
    """How many proposals each sample drew at a step."""
    seconds: float = field(default=0.0, compare=False)

    def __repr__(self) -> str:
        return f"Estimate: {self.count:,}, {self._certainty}"

    def _repr_html_(self) -> str:
        ends = [] if self.exact else [("low", self.low), ("count", self.count), ("high", self.high)]
        bars = [table([(name, number, bar(number, of=self.high)) for name, number in ends])] if ends else []
        return titled(f"{self.count:,}", f"matches, {self._certainty}, {self.seconds:.2f} s", *bars)

    @property
    def _certainty(self) -> str:
        return "exactly" if self.exact else f"between {self.low:,} and {self.high:,} in 95 % of cases"

    def __str__(self) -> str:
        return str(self.count) if self.exact else f"{self.count} (95 %: {self.low} to {self.high})"

    def cut(self, statement: Statement) -> Estimate:
        """Return what SKIP and LIMIT of a statement leave of it."""
        return replace(self, count=statement.cut(self.count), low=statement.cut(self.low), high=statement.cut(self.high))


def estimate(
    statement: Statement,
    index_for: Callable[[Query], Index],
    *,
    seconds: float = SECONDS,
    precision: float = PRECISION,
    random_state: int | None = None,
    max_exact: int = MAX_EXACT_PROPOSALS,
    progress: Callable[[float], None] | None = None,
) -> Estimate:
    """Return an estimate of the number of rows of a statement, which has to follow from the matches of its queries."""
    started = time.perf_counter()
    _check_options(seconds, precision)
    check_random_state(random_state)
    plans = bound_plans(asked_drafts(statement, index_for))
    found = Estimating(plans, np.random.SeedSequence(random_state), progress).run(seconds, precision, max_exact)
    return replace(found, seconds=time.perf_counter() - started).cut(statement)


def asked_drafts(statement: Statement, index_for: Callable[[Query], Index]) -> list[tuple[Draft, Index]]:
    """Return the queries whose matches are the rows of a statement; refuse one whose rows are decided otherwise."""
    if not statement.counts_as_queries:
        what = statement.beyond_query or "this statement"
        raise QueryError(
            f"{what} decides about rows after they are found, so their number cannot be estimated", hint="count it"
        )
    drafts = []
    for block in statement.blocks:
        index = index_for(block.query)
        parts = meaning(with_members_as_seeds(block.query, index.statistics), index.statistics)
        if drops_duplicates(block.query, parts, index.statistics):
            raise QueryError(
                "the number of distinct rows cannot be estimated from samples", hint="leave out deduplicate, or count"
            )
        drafts += [(part, index) for part in parts]
    return drafts


def bound_plans(drafts: Iterable[tuple[Draft, Index]]) -> list[BoundPlan]:
    """Plan queries, each for its index."""
    return [bind(plan(draft), overlaid(index, draft)) for draft, index in drafts]


class Estimating:
    """An estimate in the making: the plans that are added up, and where random numbers come from."""

    def __init__(
        self, plans: Sequence[BoundPlan], random: np.random.SeedSequence, progress: Callable[[float], None] | None = None
    ) -> None:
        self.plans, self.random, self.progress = plans, random, progress
        self.kept = [1.0] * len(plans)

    def run(self, seconds: float, precision: float, max_exact: int) -> Estimate:
        """Return the estimate. The time begins after the pilot, which may have to load kernels first."""
        pilot = self.draws(PILOT_SAMPLES, PILOT_SIZE)
        self.kept = [max((sample.kept for sample in samples), default=0.0) for samples in zip(*pilot, strict=True)]
        if fmean(sum(sample.expected for sample in draw) for draw in pilot) <= max_exact:
            number = sum(in_threads(_count, [(p, cut) for p in self.plans for cut in equal_ranges(p, os.cpu_count() or 1)]))
            return Estimate(number, number, number, exact=True)
        size = _size(pilot, precision, seconds)
        found = self.draws(SAMPLES, size, time.perf_counter() + seconds)
        if len(found) < FEWEST_SAMPLES:  # time was up too early: samples took longer than they ever should
            found, size = pilot, PILOT_SIZE
        count, low, high = interval(found)
        return Estimate(count, low, high, False, len(found), size)

    def draws(self, number: int, size: int, deadline: float = inf) -> list[Draw]:
        """Return independent draws, fewer if time is up."""
        threads = min(number, os.cpu_count() or 1) if size >= MIN_THREADED_SIZE else 1
        streams, drawn = self.random.spawn(number), list[int]()

        def draw(first: int) -> list[tuple[int, Draw]]:
            joins, found = [SampledJoin(p) for p in self.plans], []
            for i in range(first, number, threads):
                quota().check()
                if time.perf_counter() > deadline:
                    break
                random = np.random.default_rng(streams[i])
                pairs = zip(joins, self.kept, strict=True)
                found.append((i, tuple(join.draw(random, size, kept=kept) for join, kept in pairs)))
                drawn.append(i)
                if self.progress is not None:
                    self.progress(len(drawn) / number)
            return found

        found = chain.from_iterable(in_threads(draw, range(threads)))
        return [one for _, one in sorted(found, key=lambda one: one[0])]


def interval(draws: Sequence[Draw]) -> tuple[int, int, int]:
    """Return the mean of independent draws, and the ends of its 95 % interval.

    The upper end allows for one more draw like the largest: where a few draws are large, how many of them there are is chance.
    """
    values = [sum(sample.matches for sample in draw) for draw in draws]
    many, hits, mean = len(values), sum(value > 0 for value in values), fmean(values)
    low, high = mean - _margin(values), fmean([*values, max(values)]) + _margin([*values, max(values)])
    if hits == 0:
        high = _RARE_HIGH[0] * fmean(sum(sample.weight for sample in draw) for draw in draws) / many
    elif hits < min(FEW_HITS, many):
        low, high = min(low, mean * _RARE_LOW[hits] / hits), max(high, mean * _RARE_HIGH[hits] / hits)
    return round(mean), max(int(hits > 0), floor(low)), ceil(high)


def _margin(values: Sequence[float]) -> float:
    """Return how far the mean of independent values may be off, in 95 % of cases, if they are spread as chance is."""
    return _quantile(len(values) - 1) * stdev(values) / sqrt(len(values))


def _size(pilot: Sequence[Draw], precision: float, seconds: float) -> int:
    """Return how many proposals samples should draw at each step, judged by those of a pilot."""
    values = [sum(sample.matches for sample in draw) for draw in pilot]
    work = max(sum(sample.work for sample in draw) for draw in pilot)
    affordable = PILOT_SIZE * seconds * WORK_PER_SECOND * (os.cpu_count() or 1) / (SAMPLES * max(1.0, work))
    mean = fmean(values)
    relative = CAUTION * stdev(values) / mean if mean > 0 else inf
    precise = PILOT_SIZE * (_quantile(SAMPLES - 1) * relative / precision) ** 2 / SAMPLES
    even = PILOT_SIZE * (_skewness(values) / MAX_SKEW) ** 2
    return int(min(max(precise, even, MIN_SIZE), max(affordable, PILOT_SIZE), MAX_SIZE))


def _skewness(values: Sequence[float]) -> float:
    """Return how much further the large values reach than the small ones, 0 if that is not so."""
    spread = pstdev(values)
    return 0.0 if spread == 0 else max(0.0, fmean(((value - fmean(values)) / spread) ** 3 for value in values))


def _quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution, by its expansion in the degrees of freedom."""
    z = NormalDist().inv_cdf(0.975)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _count(part: tuple[BoundPlan, tuple[int, int]]) -> int:
    """Count the matches that start from a range of seeds."""
    plan, seeds = part
    return GenericJoin(SampledJoin(plan).plan, counting=True).count([seeds])


def _check_options(seconds: float, precision: float) -> None:
    """Refuse options that make no sense."""
    for name, value in (("seconds", seconds), ("precision", precision)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf:
            raise BigjoinError(f"{name} is {value!r}; it must be a number above 0")
