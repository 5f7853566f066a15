"""A nest of loops: how matches are counted without listing them all.

A loop binds one attribute and adds up, over its extensions, the product of the sums of its inner loops: loops side by side
are independent of each other once the attributes around them are bound. A plan is the nest in which no two loops stand side
by side.

Two things keep a nest from doing work twice. A loop that depends only on the attribute around it is `cached`: its sum is kept
for each code of that attribute. And a counter eliminates attributes: while the attributes around it stay bound, counter(v)
adds up the ways in which a value v is reached; then a single loop over v multiplies counters, however many ways there are
(the paper's diamond is two counters).

Queries that are added up may begin alike, as paths of several lengths do. Then their plans are a tree: loops that go on `apart`
are added, not multiplied, and a query's matches are complete where it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bigjoin.query.plan import Extender, Plan, Restriction, Seed, Step
from bigjoin.query.query import Query


@dataclass(frozen=True, slots=True)
class Loop:
    """Bind an attribute, as a step of a plan does, and sum the inner loops for each of its values."""

    step: Step
    inner: tuple[Loop, ...] = ()
    counters: tuple[Counter, ...] = ()
    """Filled anew for each value of the attribute, before the inner loops start."""
    weights: tuple[int, ...] = ()
    """Counters whose entry for a value is a factor of the product; without extenders, the loop runs over their entries."""
    collects: int | None = None
    """The counter that this loop, the last of its spine, adds to: the product goes to the entry of the value."""
    cached: bool = False
    discount: int = 0
    """How many values to subtract from the count: those that attributes of loops side by side with this one always take."""
    apart: tuple[Loop, ...] = ()
    """In a tree of plans: the loops with which queries that share this one go on, each for itself."""
    ends: tuple[int, ...] = ()
    """In a tree of plans: the numbers of the queries whose matches are complete here."""

    @property
    def attribute(self) -> str:
        return self.step.attribute

    def walk(self) -> Iterator[Loop]:
        """Give this loop and all within it, the outer ones first."""
        yield self
        for counter in self.counters:
            yield from counter.spine.walk()
        for loop in (*self.inner, *self.apart):
            yield from loop.walk()


@dataclass(frozen=True, slots=True)
class Counter:
    """How often each value of an attribute is reached. The first inner loop of each loop leads on to the one that collects."""

    number: int
    spine: Loop

    @property
    def attribute(self) -> str:
        return next(loop.attribute for loop in self.spine.walk() if loop.collects == self.number)


@dataclass(frozen=True, slots=True)
class Nest:
    """A term of a sum: a nest of loops, how often its count is added, and the attributes that it binds."""

    times: int
    root: Loop
    attributes: tuple[str, ...]

    @property
    def is_tree(self) -> bool:
        """Whether it is a tree of plans."""
        return any(loop.ends for loop in self.root.walk())

    @property
    def tails(self) -> tuple[str, ...]:
        """The attributes of the innermost loops of a chain that ends in loops side by side: factorized, they are lists."""
        loop = self.root
        while len(loop.inner) == 1 and loop.inner[0].inner:
            loop = loop.inner[0]
        return tuple(inner.attribute for inner in loop.inner)

    @property
    def restrictions(self) -> tuple[Restriction, ...]:
        return tuple(dict.fromkeys(r for loop in self.root.walk() for r in loop.step.restrictions))


@dataclass(frozen=True, slots=True)
class CountPlan:
    """How the matches of a query are counted: nests are added up, with their signs, and divided by the size of a symmetry."""

    query: Query
    terms: tuple[Nest, ...]
    divisor: int = 1

    cost: float = field(default=0.0, compare=False)
    """Values that it is expected to look at."""

    def __str__(self) -> str:
        lines = []
        for term in self.terms:
            times = {1: "+", -1: "-"}.get(term.times, f"{term.times:+d} times")
            lines += [f"{times} the sum" if len(self.terms) > 1 or term.times != 1 else "the sum", *_lines(term.root, 1)]
        return "\n".join(lines + ([f"divided by {self.divisor}"] if self.divisor > 1 else []))


@dataclass(frozen=True, slots=True)
class PlanTree:
    """Plans of queries that are added up, as one nest: the steps with which several of them begin are taken once."""

    queries: tuple[Query, ...]
    nest: Nest
    orders: tuple[tuple[str, ...], ...]
    """For each query its attributes in the order of its plan; along the nest, they may have names of other queries."""
    scope: Query
    """All atoms, with the attributes of the nest."""
    cost: float = field(default=0.0, compare=False)
    """Values that it is expected to look at."""

    def __str__(self) -> str:
        return "\n".join(_lines(self.nest.root, 0))


def nest_of(plan: Plan) -> Nest:
    """Return a plan as a nest, each step inside the one before."""
    return chain([*seed_steps(plan.seed), *plan.steps])


def chain(steps: Sequence[Step], tails: Sequence[Step] = ()) -> Nest:
    """Return the nest with each step inside the one before, and the tails side by side inside the last."""
    loops = tuple(Loop(step) for step in tails)
    for step in reversed(steps):
        loops = (Loop(step, loops),)
    return Nest(1, loops[0], tuple(step.attribute for step in (*steps, *tails)))


def seed_steps(seed: Seed) -> Iterator[Step]:
    """Give a step for each attribute of the seed's atom, with everything that this attribute decides."""
    atom = seed.extender.atom
    columns = seed.extender.columns
    for i, attribute in enumerate(seed.attributes):
        bound = seed.attributes[: i + 1]

        def decides(names: Sequence[str], bound: Sequence[str] = bound) -> bool:
            return set(names) <= set(bound) and bound[-1] in names

        place = next(k for k, c in enumerate(columns) if atom.attributes[c] == attribute)
        repeated = len(columns) > len(seed.attributes) and i == len(seed.attributes) - 1
        checks = [e for e in seed.checks if decides(e.reads)]
        yield Step(
            attribute,
            (Extender(atom, columns[: place + 1]),),
            restrictions=tuple(r for r in seed.restrictions if decides(r.attributes)),
            checks=(*checks, *([seed.extender] if repeated else [])),
            filters=tuple(f.led_by(attribute) for f in seed.filters if decides(f.attributes)),
        )


def _lines(loop: Loop, depth: int) -> list[str]:
    indent = "  " * depth
    parts = [*loop.step.parts, *(f"counter{number}({loop.attribute})" for number in loop.weights)]
    kept = ", kept for each value" if loop.cached else ""
    kept += f", but for {loop.discount} that are taken" if loop.discount else ""
    into = f", added to counter{loop.collects}({loop.attribute})" if loop.collects is not None else ""
    into += f": the matches of part {' and '.join(str(end + 1) for end in loop.ends)}" if loop.ends else ""
    lines = [f"{indent}over {loop.attribute}: {', '.join(map(str, parts)) or 'all values'}{kept}{into}"]
    for counter in loop.counters:
        lines += [f"{indent}  counter{counter.number}({counter.attribute}) is the sum", *_lines(counter.spine, depth + 2)]
    for inner in (*loop.inner, *loop.apart):
        lines += _lines(inner, depth + 1)
    return lines
