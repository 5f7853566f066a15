"""Count what an epoch changes in a query's result, where the whole index is at hand, without listing the matches.

There are four ways, and each gives the same numbers:

- *Delta queries on batches*, as they are listed. Nothing has to be compiled, so the first epochs are counted at once.
- *Delta queries as compiled loops* (`compiled/following.py`), which multiply what is independent and eliminate variables. They
  are compiled once batches have looked at as much as they could have while loops were compiled, so this never costs more than
  twice what the better choice would have; and they are used from the first epoch if an earlier process has compiled them.
- *The same in Spark's tasks*, if there is very much to look at.
- *All matches*, half way through the epoch and after it. What holds half way is what the old and the new result share, so the
  differences are what was destroyed and what was created. This is cheaper if what updates touch is most of what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import inf
from typing import TypeAlias

from bigjoin.compiled.following import FollowingCount
from bigjoin.compiled.loops_or_batches import CountProgram, as_loops
from bigjoin.compiled.work_limit import expected_work, most_work, refuse_work
from bigjoin.defaults import LOCAL
from bigjoin.index.stage_runner import cores, in_threads, in_turn
from bigjoin.joins.changes import Signed
from bigjoin.joins.generic_join import Batched, TooManyPrefixesError
from bigjoin.joins.phase import Phase
from bigjoin.local.count_job import RANGES_PER_TASK, count_ranges, dealt_job, divided_count
from bigjoin.planner import whole_count_plan
from bigjoin.query.delta import DeltaPlan, DeltaQuery
from bigjoin.query.nest import CountPlan, Loop
from bigjoin.query.plan import Plan
from bigjoin.spark.session import parallelism
from bigjoin.spark.tasks import run_tasks
from bigjoin.streaming.find import (
    DELTA_THREADS,
    MAX_REACH_HERE,
    Execution,
    FindOptions,
    FoundChanges,
    Phases,
    net_changes,
    reach_of,
    work_of,
)

MAX_REACH_ALONE = 1 << 16
"""The reach of a delta up to which one thread is faster than several."""

MAX_PREFIXES_ON_BATCHES = 1 << 20
"""Prefixes that a delta query may have on batches before compiled loops, which multiply what is independent, start over."""

WORTH_COMPILING = 1 << 23
"""Prefixes and candidates that a delta query looks at on batches in about the time that it takes to compile its loops."""

MAX_UNSAMPLED = 1 << 34
"""Candidates up to which nobody asks beforehand how many there will be: that takes milliseconds."""

WORTH_COUNTING_ALL = 2.0
"""How many times as many candidates as a count of all matches delta queries must be expected to have to be replaced by it."""

MAX_KEPT_BYTES = 1 << 26
"""Scratch space that a delta query keeps from one epoch to the next, in each phase and for each share of its seeds."""

BoundCounts: TypeAlias = "list[tuple[int, FollowingCount | Batched]]"
"""What is added up, each with how often."""


@dataclass(frozen=True)
class CountShare:
    """Stage: count one delta query in one phase, over a share of its seeds, in one of Spark's tasks."""

    phases: Phases
    shares: int

    def __call__(self, item: tuple[Signed, CountProgram, int]) -> str:
        """Return the count as text, because it may exceed 64 bits."""
        signed, program, share = item
        found, parts = program.bind(self.phases[signed.insert]), self.shares * RANGES_PER_TASK
        return str(sum(times * counting.count(counting.ranges(parts)[share :: self.shares]) for times, counting in found))


@dataclass
class ChangeCounter:
    """Counts what epochs change in the result of one query, which is the sum of the queries that have plans."""

    plans: Sequence[DeltaPlan]
    replaced: bool = False
    """Whether they are about epochs that replace properties of vertices."""
    deltas: list[DeltaCounter] = field(init=False)
    _all: list[CountPlan] = field(default_factory=list, init=False)
    """How all matches are counted, once that was needed."""

    def __post_init__(self) -> None:
        self.deltas = [DeltaCounter(plan) for plan in self.plans]

    def count(self, phases: Phases, before: int, options: FindOptions) -> FoundChanges:
        """Return what an epoch changes, given how many matches there were before it."""
        found = FoundChanges()
        work = [work_of(delta.plan, phases) for delta in self.deltas]
        wanted = options.execution is Execution.ALL_MATCHES
        if options.execution is None:
            wanted = self._should_count_all(work, phases)
        if wanted and not self._is_too_large(phases):
            changes = self._in_all(phases, before, options)
        else:
            every = zip(self.deltas, work, strict=True)
            changes = [change for delta, mine in every for change in delta.count(mine, phases, options)]
        for change in changes:
            found.add(change)
        return found if len(self.plans) == 1 else net_changes(found)

    def _should_count_all(self, work: Sequence[Sequence[Signed]], phases: Phases) -> bool:
        """Tell whether a count of all matches is cheaper than delta queries; refuse the epoch if either would take hours."""
        every = list(zip(self.deltas, work, strict=True))
        if sum(delta.most_work(mine, phases) for delta, mine in every) <= min(MAX_UNSAMPLED, most_work()):
            return False
        expected = sum(delta.expected_work(mine, phases) for delta, mine in every)
        of_all = expected_work((plan, phase) for plan in self._all_plans(phases) for phase in self._changing(phases))
        refuse_work(self.plans[0].query, min(expected, of_all))
        return expected > WORTH_COUNTING_ALL * of_all

    def _is_too_large(self, phases: Phases) -> bool:
        """Tell whether the loops that count all matches are too large to be compiled."""
        bound = (CountProgram(plan.query, plan.terms).bind_loops(phases[1]) for plan in self._all_plans(phases))
        return any(found.is_too_large for each in bound for found in each)

    def _all_plans(self, phases: Phases) -> list[CountPlan]:
        if not self._all:
            known = phases[1].index.statistics
            self._all = [whole_count_plan(plan.query, known, replaced=self.replaced) for plan in self.plans]
        return self._all

    def _in_all(self, phases: Phases, before: int, options: FindOptions) -> list[int]:
        """Count all matches in each phase that changes any."""
        changes = []
        for phase in self._changing(phases):
            after = sum(_count_all(plan, phase, _threads(options)) for plan in self._all_plans(phases))
            changes.append(after - before)
            before = after
        return changes

    def _changing(self, phases: Phases) -> list[Phase]:
        """Return the phases in which any match can come or go."""
        found = {signed.insert for plan in self.plans for signed in work_of(plan, phases)}
        return [phase for phase in phases if phase.insert in found]


def _count_all(plan: CountPlan, phase: Phase, threads: int) -> int:
    """Return the number of matches at the end of a phase."""
    job = dealt_job(CountProgram(plan.query, plan.terms, plan.divisor), phase, threads)
    receipts = in_threads(partial(count_ranges, job, None), range(len(job.ranges)), threads=threads)
    return divided_count(job, receipts)


@dataclass
class DeltaCounter:
    """Counts by the delta queries of one plan, and keeps what it has compiled from one epoch to the next."""

    plan: DeltaPlan
    _spent: float = field(default=0.0, init=False)
    """Prefixes and candidates that batches have looked at so far."""
    _programs: list[CountProgram] = field(default_factory=list, init=False)
    _most: dict[int, list[float]] = field(default_factory=dict, init=False)
    """By the length that no list exceeds: how many candidates each delta query may look at for each of its seeds."""
    _kept: dict[tuple[int, bool, int], BoundCounts] = field(default_factory=dict, init=False)
    """By the number of a delta query, the phase, and the share of its seeds."""

    def count(self, work: Sequence[Signed], phases: Phases, options: FindOptions) -> list[int]:
        """Return the change of each phase, given the delta queries that have seeds."""
        execution = options.execution or self._execution(work, phases, options)
        net = [Fraction(), Fraction()]
        try:
            for signed, found in zip(work, self._found(execution, work, phases, options), strict=True):
                net[signed.insert] += found
        except BaseException:
            self._kept.clear()  # their scratch space may not be as a function expects it
            raise
        assert all(change.denominator == 1 for change in net), "counts are not divisible by the symmetry they were counted with"
        return [int(change) for change in net]

    def _execution(self, work: Sequence[Signed], phases: Phases, options: FindOptions) -> Execution:
        if options.strategy != LOCAL and reach_of(self.plan, phases) > MAX_REACH_HERE:
            return Execution.TASKS
        if self._spent == 0 and work and self._are_compiled(phases):
            self._spent = inf
        return Execution.BATCHED if self._spent <= WORTH_COMPILING * len(self.plan.queries) else Execution.COMPILED

    def _found(
        self, execution: Execution, work: Sequence[Signed], phases: Phases, options: FindOptions
    ) -> Sequence[Fraction | int]:
        """Return the change that each delta query stands for; only the sum over all of them is a whole number."""
        if execution is Execution.BATCHED:
            try:
                return self._on_batches(work, phases)
            except TooManyPrefixesError:
                self._spent = inf
        if execution is Execution.TASKS:
            return self._in_tasks(work, phases, options)
        return self._by_loops(work, phases, options)

    def _on_batches(self, work: Sequence[Signed], phases: Phases) -> list[int]:
        changes = []
        for signed in work:
            batched = Batched(signed.dq.plan, phases[signed.insert], max_prefixes=MAX_PREFIXES_ON_BATCHES)
            changes.append(signed.sign * signed.each * batched.count(batched.ranges(1)))
            self._spent += max(1, int(batched.tally.sum()))
        return changes

    def _by_loops(self, work: Sequence[Signed], phases: Phases, options: FindOptions) -> list[Fraction]:
        shares = 1 if reach_of(self.plan, phases) <= MAX_REACH_ALONE else _threads(options)
        bound = [[self._bound(signed, phases, share) for share in range(shares)] for signed in work]
        items: list[Callable[[], int]] = []
        for each in bound:
            cut = [one.whole if shares == 1 else one.ranges(shares * RANGES_PER_TASK) for _, one in each[0]]
            items += [partial(_counted, mine, [ranges[share::shares] for ranges in cut]) for share, mine in enumerate(each)]
        run = in_turn if shares == 1 else partial(in_threads, threads=shares)
        found = run(lambda item: item(), items)
        totals = (sum(found[number * shares : (number + 1) * shares]) for number in range(len(work)))
        return [self._change(signed, total) for signed, total in zip(work, totals, strict=True)]

    def _in_tasks(self, work: Sequence[Signed], phases: Phases, options: FindOptions) -> list[Fraction]:
        spark = options.spark()
        shares, programs = options.workers or parallelism(spark), self._chosen(phases)
        items = [(one, programs[self.plan.queries.index(one.dq)], share) for one in work for share in range(shares)]
        found = list(map(int, run_tasks(spark, CountShare(phases, shares), items)))
        totals = (sum(found[number * shares : (number + 1) * shares]) for number in range(len(work)))
        return [self._change(signed, total) for signed, total in zip(work, totals, strict=True)]

    def _change(self, signed: Signed, found: int) -> Fraction:
        return Fraction(signed.sign * signed.each * found, self._programs[self.plan.queries.index(signed.dq)].divisor)

    def _bound(self, signed: Signed, phases: Phases, share: int) -> BoundCounts:
        """Return what counts a delta query in a phase, with scratch space of its own for each share."""
        number, phase = self.plan.queries.index(signed.dq), phases[signed.insert]
        program, key = self._chosen(phases)[number], (number, signed.insert, share)
        if program.steps is not None:
            return [(1, Batched(program.steps, phase))]
        kept = self._kept.pop(key, [])
        if not kept or not all(isinstance(one, FollowingCount) and one.follow(phase) for _, one in kept):
            kept = [(nest.times, FollowingCount(nest, program.query, phase)) for nest in program.nests]
        if sum(one.scratch_bytes for _, one in kept if isinstance(one, FollowingCount)) <= MAX_KEPT_BYTES:
            self._kept[key] = kept
        return kept

    def _are_compiled(self, phases: Phases) -> bool:
        """Tell whether there is machine code of all loops, also of those that this epoch does not need."""
        every = [Signed(self.plan, dq, phase.insert) for phase in phases for dq in self.plan.queries]
        bound = (self._bound(signed, phases, 0) for signed in every)
        return all(isinstance(one, FollowingCount) and one.is_compiled for each in bound for _, one in each)

    def _chosen(self, phases: Phases) -> list[CountProgram]:
        """Return the programs that count delta queries, which are chosen once.

        Nests that count without visiting each match are used for all queries or for none: their sum is divided as a whole.
        """
        if not self._programs:
            queries, phase = self.plan.queries, phases[1]

            def programs(counts: Sequence[CountPlan]) -> list[CountProgram]:
                steps: list[Plan] = [dq.plan for dq in queries]
                pairs = zip(counts, steps, strict=True)
                return [CountProgram.choose(count, lambda chosen=chosen: chosen, phase) for count, chosen in pairs]  # type: ignore[misc]

            nests = [dq.nests for dq in queries if dq.nests is not None]
            nested = programs(nests) if len(nests) == len(queries) else []
            is_nested = bool(nested) and all(program.steps is None for program in nested)
            self._programs = nested if is_nested else programs([as_loops(dq.plan) for dq in queries])
        return self._programs

    def expected_work(self, work: Sequence[Signed], phases: Phases) -> float:
        """Estimate how many candidates the delta queries of an epoch will look at, by a sample."""
        programs = self._chosen(phases)
        numbered = ((self.plan.queries.index(signed.dq), signed.insert) for signed in work)
        return expected_work((programs[number].plan, phases[insert]) for number, insert in numbered)

    def most_work(self, work: Sequence[Signed], phases: Phases) -> float:
        """Return a bound on that number."""
        longest = _rounded_up(phases[0].versions.longest)  # so that what a seed can lead to is rarely another number
        if longest not in self._most:
            self._most = {longest: [self._most_of_seed(dq, program, longest) for dq, program in self._programs_of(phases)]}
        return sum(signed.seeds * self._most[longest][self.plan.queries.index(signed.dq)] for signed in work)

    def _programs_of(self, phases: Phases) -> Iterable[tuple[DeltaQuery, CountProgram]]:
        return zip(self.plan.queries, self._chosen(phases), strict=True)

    @staticmethod
    def _most_of_seed(dq: DeltaQuery, program: CountProgram, longest: float) -> float:
        """Return a bound on how many candidates a delta query looks at for each of its seeds."""
        bound = len(dq.plan.seed.attributes)
        return sum(_most_candidates(term.root, 1.0, longest, bound) for term in program.plan.terms)


def _rounded_up(number: int) -> int:
    """Return a number, or one that is at most an eighth larger."""
    shift = max(0, number.bit_length() - 4)
    return -(-number >> shift) << shift


def _most_candidates(loop: Loop, prefixes: float, longest: float, bound: int) -> float:
    """Return a bound on the candidates of a loop and those within it; the first `bound` of them bind the seeds."""
    step, heads = loop.step, [*(counter.spine for counter in loop.counters), *loop.inner]
    looked_up = not (heads or loop.weights or loop.collects is not None or step.checks or step.excluders or step.filters)
    if looked_up and len(step.extenders) == 1:
        return prefixes
    reached = prefixes if bound > 0 else prefixes * longest
    return reached + sum(_most_candidates(head, reached, longest, bound - 1) for head in heads)


def _counted(bound: BoundCounts, ranges: Sequence[Sequence[tuple[int, int, int, int]]]) -> int:
    """Count ranges of seeds."""
    return sum(times * one.count(mine) for (times, one), mine in zip(bound, ranges, strict=True))


def _threads(options: FindOptions) -> int:
    return options.workers or cores() if options.strategy == LOCAL else DELTA_THREADS
