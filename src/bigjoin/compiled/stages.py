"""Decide which sets the loops of a nest need, and how early each of them is known.

A plan is compiled into nested loops, one for each attribute (`query/nest.py`). The values of a loop are a *set*: the codes that
all of some lists hold, within bounds. The keys of these lists are attributes bound further out, and not all of them by the loop
just outside. So a set is found in *stages*: a stage is the part of the intersection that can be taken once the loop at some
depth has bound its value (the root has depth 0; at depth -1 nothing is bound yet). Each stage is computed at its own depth, so
loops further in do not repeat it.

Take the triangle, each found once: edge(a, b), edge(a, c), edge(b, c), with code(c) < code(b) < code(a). Write N(x) for the
sorted list of neighbours of x.

    attribute   stages
    b           depth 0: N(a) below a
    c           depth 0: N(a) below a       depth 1: N(a) & N(b), below b

Sets are compared by what they are made of, so the first stage of c is recognised as the set of b, and written once:

    for a in all codes:
        A = N(a) below a                            # depth 0
        for b in A:
            total += size of A & (N(b) below b)     # depth 1

That c is also below a is not checked at depth 1, since it follows from c < b and b < a. In the same way, the c and d of a
4-clique share A & N(b). `set_source.py` writes the code of a stage, and continues this example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from bigjoin.index.trie import Trie
from bigjoin.joins.after import After
from bigjoin.joins.bind import Binder
from bigjoin.joins.bounds_and_filters import Condition
from bigjoin.joins.extender import BoundExtender
from bigjoin.kernels.compare import NOT_EQUAL
from bigjoin.query.nest import Loop, Nest
from bigjoin.query.plan import Extender, ordered_pairs
from bigjoin.query.read import Version

OrderedPairs = frozenset[tuple[int, int]]
"""Positions (smaller, larger) of attributes whose codes are known to be in this order."""


@dataclass(frozen=True, slots=True)
class ExtensionList:
    """The list in a trie, given by its number, that the codes at some positions lead to."""

    trie: int
    key: tuple[int, ...]
    after: After | None = None
    """If set, only the part that comes after the seed's tuple."""

    @property
    def reads(self) -> tuple[int, ...]:
        """The positions that decide it."""
        return self.key if self.after is None else (*self.key, *self.after.seed)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on codes: `<`, `>` or `==`, and the code at a position or, if that is None, a constant."""

    op: str
    position: int | None
    constant: int = 0

    @property
    def reads(self) -> tuple[int, ...]:
        """The positions that decide it."""
        return () if self.position is None else (self.position,)

    def follows_from(self, others: Iterable[Bound], ordered: OrderedPairs) -> bool:
        """Tell whether codes within other bounds are within this one: what is below b is below a if b < a."""
        positions = [other.position for other in others if other.op == self.op]
        if self.op == "<":
            return any((position, self.position) in ordered for position in positions)
        return self.op == ">" and any((self.position, position) in ordered for position in positions)


@dataclass(frozen=True, slots=True)
class CodeSet:
    """The codes that all of some lists hold and others do not, within bounds."""

    lists: frozenset[ExtensionList] = frozenset()
    without: frozenset[ExtensionList] = frozenset()
    bounds: frozenset[Bound] = frozenset()

    def holds_all_of(self, part: CodeSet, ordered: OrderedPairs) -> bool:
        """Tell whether another set is sure to be a part of this one."""
        looser = all(b in part.bounds or b.follows_from(part.bounds, ordered) for b in self.bounds)
        return looser and self.lists <= part.lists and self.without <= part.without


class SetStage(NamedTuple):
    """What is known of a loop's set once the loop at some depth has bound its value."""

    depth: int
    codes: CodeSet


@dataclass(slots=True, eq=False)
class BoundLoop:
    """A loop of a nest, bound to an index."""

    loop: Loop
    number: int
    position: int
    path: tuple[int, ...]
    """The positions of the attributes around it, outermost first."""
    condition: Condition
    checks: tuple[tuple[BoundExtender, bool], ...]
    chained: bool = False
    """Whether its first inner loop continues a chain, whose last loop adds to a counter or writes rows."""
    stages: list[SetStage] = field(default_factory=list)
    """Each a part of the one before; the last is the set of the loop. None: its values are all codes, or a counter has them."""
    inner: list[BoundLoop] = field(default_factory=list)
    counters: list[tuple[int, BoundLoop]] = field(default_factory=list)
    """The number of each counter and the first loop of the chain that fills it."""

    @property
    def depth(self) -> int:
        return len(self.path)

    @property
    def extensions(self) -> CodeSet:
        """The set that it loops over; it must have stages."""
        return self.stages[-1].codes

    @property
    def bounds(self) -> list[Bound]:
        """The bounds that its condition sets."""
        bounds = self.condition.bounds
        found = [Bound("<", p) for p in bounds.below] + [Bound(">", p) for p in bounds.above]
        found += [Bound("==", p) for p in bounds.equal] + [Bound("==", None, code) for code in bounds.codes]
        return [*found, Bound("<", None, 0)] if bounds.empty else found

    @property
    def heads(self) -> list[BoundLoop]:
        """The loops that run for each of its values: those that fill counters, then those inside."""
        return [*(first for _, first in self.counters), *self.inner]

    @property
    def is_counted(self) -> bool:
        """Whether only the size of its set matters, perhaps without a few codes that are already bound."""
        plain = all(f.by_code and f.operator == NOT_EQUAL and not f.unless for f in self.condition.filters)
        return plain and not (self.inner or self.counters or self.checks or self.loop.weights) and bool(self.stages)

    def everything(self) -> Iterator[BoundLoop]:
        """Give this loop and all those within it."""
        yield self
        for child in self.heads:
            yield from child.everything()

    def walk(self) -> Iterator[BoundLoop]:
        """Give this loop and those within it, except cached ones: their sets are only found when there is no cached sum."""
        yield self
        for child in self.heads:
            if not child.loop.cached:
                yield from child.walk()


class BoundNest:
    """The loops of a nest bound to an index, with the stages of their sets, and the tries that these read."""

    def __init__(self, nest: Nest, binder: Binder) -> None:
        self.binder = binder
        self.tries: list[Trie] = []
        place = binder.order.index
        self.ordered: OrderedPairs = frozenset((place(a), place(b)) for a, b in ordered_pairs(nest.restrictions))
        self._numbers = count()
        self.root = self._bind(nest.root, (), None)

    def number(self, trie: Trie) -> int:
        """Return the number of a trie, a new one if it has none."""
        number = next((i for i, known in enumerate(self.tries) if known is trie), len(self.tries))
        if number == len(self.tries):
            self.tries.append(trie)
        return number

    def list_of(self, extender: BoundExtender) -> ExtensionList:
        """Return the list of an extender."""
        return ExtensionList(self.number(extender.trie), extender.key, extender.after)

    def _bind(self, loop: Loop, path: tuple[int, ...], counter: int | None) -> BoundLoop:
        """Bind a loop and all within it; `counter` is the one that its chain fills, if it is part of such a chain."""
        step, binder = loop.step, self.binder
        lists = [self.list_of(binder.extender(e)) for e in step.extenders if path or _limits_root(e)]
        checks, without = binder.checks(step.checks), [self.list_of(binder.extender(e)) for e in step.excluders]
        if not path or not lists:  # there is no set to subtract from, so each value is checked
            checks, without = (*checks, *binder.checks(step.excluders)), []
        condition = binder.condition(loop.attribute, step.restrictions, step.filters)
        position = binder.order.index(loop.attribute)
        chained = counter is not None and loop.collects != counter
        bound = BoundLoop(loop, next(self._numbers), position, path, condition, checks, chained)
        bound.stages = _stages(bound, lists, without, self.ordered)
        inside = (*path, position)
        bound.counters = [(inner.number, self._bind(inner.spine, inside, inner.number)) for inner in loop.counters]
        bound.inner = [self._bind(child, inside, counter if chained and not i else None) for i, child in enumerate(loop.inner)]
        return bound


def _limits_root(e: Extender) -> bool:
    """Tell whether the root loops over the list of an extender: of a label, or of the keys of a delta.

    Otherwise the root loops over all codes, and those without an edge turn out to have an empty list at the next loop.
    """
    return len(e.atom.attributes) == 1 or e.atom.version is Version.DELTA


def _stages(loop: BoundLoop, lists: list[ExtensionList], without: list[ExtensionList], ordered: OrderedPairs) -> list[SetStage]:
    if not lists:
        return []
    below = {Bound("<", p) for p in loop.path if (loop.position, p) in ordered}
    above = {Bound(">", p) for p in loop.path if (p, loop.position) in ordered}
    bounds = below.union(above, loop.bounds)
    parts: list[ExtensionList | Bound] = [*lists, *without, *bounds]
    depths = {part: max(map(loop.path.index, part.reads), default=-1) for part in parts}
    first = min(depths[part] for part in lists)
    stages = []
    for depth in sorted({max(first, each) for each in depths.values()}):
        known = {part for part, each in depths.items() if each <= depth}
        needed = {b for b in bounds & known if not b.follows_from(bounds & known, ordered)}
        stages.append(SetStage(depth, CodeSet(frozenset(lists) & known, frozenset(without) & known, frozenset(needed))))
    return stages
