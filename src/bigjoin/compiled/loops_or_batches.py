"""How a plan is executed where the whole index is at hand: as compiled loops, or on batches.

Loops are much faster. Batches are for patterns whose loops would be too large to compile, and for epochs so small that nothing
should be compiled for them. A program is chosen once, on the driver, so that all tasks agree on what their seeds are. It
travels to tasks, which bind it to their index; bound, both forms count and list ranges of seeds by the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from bigjoin.compiled.loops import Counting, Listing, TreeListing
from bigjoin.joins.bind import ReadableIndex
from bigjoin.joins.generic_join import Batched
from bigjoin.query.nest import CountPlan, Nest, PlanTree, nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.quota import quota


def as_loops(plan: Plan) -> CountPlan:
    """Return a plan as a count of its matches by loops, each within the one before."""
    return CountPlan(plan.query, (nest_of(plan),))


@dataclass(frozen=True)
class CountProgram:
    """Counts matches: by nests of loops, added up and divided, or by the steps of a plan on batches."""

    query: Query
    nests: tuple[Nest, ...] = ()
    divisor: int = 1
    steps: Plan | None = None
    max_prefixes: float = inf
    """Prefixes after which a count on batches is given up."""

    @classmethod
    def choose(cls, plan: CountPlan, steps: Callable[[], Plan], index: ReadableIndex) -> CountProgram:
        """Compile the nests of a plan, unless one of them is too large; `steps` makes the plan for that.

        If counters would take more memory than the query may, one chain of loops, which has none, is compiled instead.
        """
        program = cls(plan.query, plan.terms, plan.divisor)
        bound = program.bind_loops(index)
        if not quota().fits(sum(found.scratch_bytes for found in bound)):
            program = cls(plan.query, as_loops(steps()).terms)
            bound = program.bind_loops(index)
            quota().require(sum(found.scratch_bytes for found in bound), "what compiled loops keep for each value")
        return cls(plan.query, steps=steps()) if any(found.is_too_large for found in bound) else program

    def bind(self, index: ReadableIndex) -> list[tuple[int, Counting | Batched]]:
        """Bind what is added up to an index, each with how often it is added."""
        if self.steps is not None:
            return [(1, Batched(self.steps, index, max_prefixes=self.max_prefixes))]
        return list(zip((nest.times for nest in self.nests), self.bind_loops(index), strict=True))

    def bind_loops(self, index: ReadableIndex) -> list[Counting]:
        """Bind the nests of loops to an index."""
        return [Counting(nest, self.query, index) for nest in self.nests]

    @property
    def plan(self) -> CountPlan:
        """What is counted, as loops, whether they are compiled or not."""
        return CountPlan(self.query, self.nests, self.divisor) if self.steps is None else as_loops(self.steps)

    @property
    def loops(self) -> list[list[str]]:
        """The attributes that the loops of each nest bind, or the seed and the steps of the plan."""
        if self.steps is not None:
            return [[self.steps.seed.attributes[-1], *(step.attribute for step in self.steps.steps)]]
        return [[loop.attribute for loop in nest.root.walk()] for nest in self.nests]


@dataclass(frozen=True)
class ListProgram:
    """Lists matches: by a chain of loops, perhaps with tails side by side at its end, or by the steps of a plan on batches."""

    query: Query
    nest: Nest
    factorized: bool = False
    steps: Plan | None = None
    tails: int = 0
    """On batches: how many of the last attributes are given as lists all the same."""

    @classmethod
    def of(cls, plan: Plan, index: ReadableIndex) -> ListProgram:
        """Compile the loops of a plan, unless they are too large."""
        return cls._choose(cls(plan.query, nest_of(plan)), lambda _: plan, index)

    @classmethod
    def factorize(cls, query: Query, nest: Nest, steps: Callable[[tuple[str, ...]], Plan], index: ReadableIndex) -> ListProgram:
        """Compile loops with tails, unless they are too large; `steps` makes the plan for that, in the nest's order."""
        return cls._choose(cls(query, nest, factorized=True), steps, index)

    @classmethod
    def _choose(cls, loops: ListProgram, steps: Callable[[tuple[str, ...]], Plan], index: ReadableIndex) -> ListProgram:
        listing = loops.bind(index)
        if isinstance(listing, Listing) and listing.is_too_large:
            return replace(loops, steps=steps(loops.nest.attributes), tails=len(listing.tails))
        return loops

    def bind(self, index: ReadableIndex) -> Listing | Batched:
        """Bind the loops, or the plan, to an index."""
        if self.steps is not None:
            return Batched(self.steps, index, tails=self.tails)
        return Listing(self.nest, self.query, index, factorized=self.factorized)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The order in which attributes are bound."""
        return self.nest.attributes if self.steps is None else self.steps.attributes


@dataclass(frozen=True)
class TreeProgram:
    """Lists the matches of several queries by a tree of loops, which always compiles: otherwise they are asked one by one."""

    tree: PlanTree

    def bind(self, index: ReadableIndex) -> TreeListing:
        """Bind the loops to an index."""
        return TreeListing(self.tree, index)
