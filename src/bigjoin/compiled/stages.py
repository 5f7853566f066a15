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

One kind of loop is not jumped over: that of an edge's rows with a condition, such as a time. A pair has few rows, and often
none is left, so a stage that is known before such a loop is computed inside it.

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
from bigjoin.query.statistics import has_dense_lists

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

    @property
    def is_upper(self) -> bool:
        """Whether codes have to be below it."""
        return self.op == "<"

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
    looped: bool = False
    """Whether each of its values matters, and not only how many there are."""
    stages: list[SetStage] = field(default_factory=list)
    """Each a part of the one before; the last is the set of the loop. None: its values are all codes, or a counter has them."""
    inner: list[BoundLoop] = field(default_factory=list)
    counters: list[tuple[int, BoundLoop]] = field(default_factory=list)
    """The number of each counter and the first loop of the chain that fills it."""
    apart: list[BoundLoop] = field(default_factory=list)
    """The loops with which queries of a tree go on, each for itself."""

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
        return [*(first for _, first in self.counters), *self.inner, *self.apart]

    @property
    def is_counted(self) -> bool:
        """Whether only the size of its set matters, perhaps without a few codes that are already bound."""
        plain = all(f.by_code and f.operator == NOT_EQUAL and not f.unless for f in self.condition.filters)
        within = self.inner or self.apart or self.counters or self.checks or self.loop.weights
        return plain and not (within or self.looped or self.condition.row_filters) and bool(self.stages)

    def chain_to(self, last: BoundLoop) -> None:
        """Make the loops from here to another one a chain."""
        if self is not last:
            self.inner.sort(key=lambda child: last not in child.everything())
            self.chained = True
            self.inner[0].chain_to(last)

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
        self.dense: set[int] = set()
        """The numbers of tries whose lists are long and share much."""
        self._numbers = count()
        self._rare: set[int] = set()
        """The positions of rows of edges with a condition: often a pair has none."""
        self.root = self._bind(nest.root, (), None)

    def number(self, trie: Trie) -> int:
        """Return the number of a trie, a new one if it has none; both orders of a symmetric relation are the same lists."""
        number = next((i for i, known in enumerate(self.tries) if known.has_same_lists(trie)), len(self.tries))
        if number == len(self.tries):
            self.tries.append(trie)
        return number

    def list_of(self, extender: BoundExtender) -> ExtensionList:
        """Return the list of an extender."""
        return ExtensionList(self.number(extender.trie), extender.key, extender.after)

    def _bind(self, loop: Loop, path: tuple[int, ...], counter: int | None) -> BoundLoop:
        """Bind a loop and all within it; `counter` is the one that its chain fills, if it is part of such a chain."""
        step, binder = loop.step, self.binder
        read = [e for e in step.extenders if path or self._limits_root(e)]
        lists = [self.list_of(binder.extender(e)) for e in read]
        dense = [has_dense_lists(binder.index.statistics.of(e.atom), e.columns) for e in read]
        self.dense |= {part.trie for part, is_dense in zip(lists, dense, strict=True) if is_dense}
        short = [e for e in step.checks if not (path or e.key or e.atom.negated) and self._is_given(e)]
        lists += [self.list_of(binder.extender(e)) for e in short]
        checks = binder.checks([e for e in step.checks if e not in short])
        without = [self.list_of(binder.extender(e)) for e in step.excluders]
        if not path or not lists:  # there is no set to subtract from, so each value is checked
            checks, without = (*checks, *binder.checks(step.excluders)), []
        condition = binder.condition(loop.attribute, step.restrictions, step.filters)
        position = binder.order.index(loop.attribute)
        chained = counter is not None and loop.collects != counter
        bound = BoundLoop(loop, next(self._numbers), position, path, condition, checks, chained)
        bound.stages = _stages(bound, lists, without, self.ordered, self._rare)
        if condition.filters or condition.row_filters:
            self._rare |= {position} if any(map(self._lists_rows, step.extenders)) else set()
        inside = (*path, position)
        bound.counters = [(inner.number, self._bind(inner.spine, inside, inner.number)) for inner in loop.counters]
        bound.inner = [self._bind(child, inside, counter if chained and not i else None) for i, child in enumerate(loop.inner)]
        bound.apart = [self._bind(child, inside, None) for child in loop.apart]
        return bound

    def _limits_root(self, e: Extender) -> bool:
        """Tell whether the root loops over the list of an extender: of a label, of seeds, or of the keys of a delta.

        Otherwise the root loops over all codes, and those without an edge turn out to have an empty list at the next loop.
        """
        return len(e.atom.attributes) == 1 or e.atom.version in (Version.DELTA, Version.NOT_DELTA) or self._is_given(e)

    def _lists_rows(self, e: Extender) -> bool:
        """Tell whether the extensions of an extender are the rows of a pair."""
        return e.columns[-1] == self.binder.index.statistics.relation(e.atom).arity

    def _is_given(self, e: Extender) -> bool:
        return self.binder.index.statistics.of(e.atom).given


def _stages(
    loop: BoundLoop, lists: list[ExtensionList], without: list[ExtensionList], ordered: OrderedPairs, rare: set[int]
) -> list[SetStage]:
    if not lists:
        return []

    def known_at(part: ExtensionList | Bound) -> int:
        depth = max(map(loop.path.index, part.reads), default=-1)
        while depth + 1 < loop.depth and loop.path[depth + 1] in rare:
            depth += 1
        return depth

    below = {Bound("<", p) for p in loop.path if (loop.position, p) in ordered}
    above = {Bound(">", p) for p in loop.path if (p, loop.position) in ordered}
    bounds = below.union(above, loop.bounds)
    parts: list[ExtensionList | Bound] = [*lists, *without, *bounds]
    depths = {part: known_at(part) for part in parts}
    first = min(depths[part] for part in lists)
    stages = []
    for depth in sorted({max(first, each) for each in depths.values()}):
        known = {part for part, each in depths.items() if each <= depth}
        needed = {b for b in bounds & known if not b.follows_from(bounds & known, ordered)}
        stages.append(SetStage(depth, CodeSet(frozenset(lists) & known, frozenset(without) & known, frozenset(needed))))
    return stages
