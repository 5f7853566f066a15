"""Which sets the loops of a nest need, and at which depth each is known.

The extensions of an attribute are the intersection of lists, and every list is known as soon as the attributes of its key are
bound: some of them before others. So a set is found in stages, each as early, and so as seldom, as can be; and as a set is
named by what it is the intersection of, loops that need the same one share it (4-clique: N(a) & N(b) serves c, and then d).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bigjoin.index.trie import Trie
from bigjoin.joins.after import After
from bigjoin.joins.bind import Binder, BoundExtender
from bigjoin.joins.constraints import Condition
from bigjoin.kernels.compare import NOT_EQUAL
from bigjoin.query.nest import Loop, Nest
from bigjoin.query.plan import Extender, ordered_pairs
from bigjoin.query.read import Version

Pairs = frozenset[tuple[int, int]]
"""Positions (smaller, larger) of attributes whose codes are known to be in this order."""


@dataclass(frozen=True, slots=True)
class List:
    """The list that the codes at some positions lead to in the trie of that number."""

    trie: int
    key: tuple[int, ...]
    after: After | None = None
    """Which part of it is meant, if it is that behind the seed's tuple."""

    @property
    def reads(self) -> tuple[int, ...]:
        """The positions that decide it."""
        return self.key if self.after is None else (*self.key, *self.after.seed)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on codes: `<`, `>` or `=` the code at a position, or a constant."""

    op: str
    position: int | None
    constant: int = 0


@dataclass(frozen=True, slots=True)
class SetOf:
    """The codes that all of some lists hold and others do not, within bounds."""

    lists: frozenset[List] = frozenset()
    without: frozenset[List] = frozenset()
    bounds: frozenset[Bound] = frozenset()

    def serves(self, want: SetOf, below: Pairs) -> bool:
        """Tell whether the wanted set is a part of this one."""
        known = all(b in want.bounds or any(_implies(w, b, below) for w in want.bounds) for b in self.bounds)
        return known and self.lists <= want.lists and self.without <= want.without


@dataclass(slots=True, eq=False)
class BoundLoop:
    """A loop of a nest, bound to an index. `path` holds the positions of the attributes around it, the outermost first."""

    loop: Loop
    number: int
    position: int
    path: tuple[int, ...]
    condition: Condition
    checks: tuple[tuple[BoundExtender, bool], ...]
    leads: bool = False
    """Whether its first inner loop leads on to one that collects."""
    stages: list[tuple[int, SetOf]] = field(default_factory=list)
    """(depth, set), each a part of the one before; the last holds the extensions. None: counters alone hold them."""
    inner: list[BoundLoop] = field(default_factory=list)
    counters: list[tuple[int, BoundLoop]] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return len(self.path)

    @property
    def heads(self) -> list[BoundLoop]:
        """The loops that run for each of its values: those that fill counters, and then those inside."""
        return [*(spine for _, spine in self.counters), *self.inner]

    @property
    def is_counted(self) -> bool:
        """Whether the size of its set is all that is asked for, perhaps without a few codes that are bound already."""
        plain = all(f.by_code and f.operator == NOT_EQUAL for f in self.condition.filters)
        return plain and not (self.inner or self.counters or self.checks or self.loop.weights) and bool(self.stages)

    def everything(self) -> Iterator[BoundLoop]:
        """Give this loop and all those within it."""
        yield self
        for child in self.heads:
            yield from child.everything()

    def walk(self) -> Iterator[BoundLoop]:
        """Give this loop and those within it, but for the insides of cached ones."""
        yield self
        for _, spine in self.counters:
            yield from spine.walk()
        for child in self.inner:
            if not child.loop.cached:
                yield from child.walk()


class Tries:
    """The tries that a nest reads, by number."""

    def __init__(self) -> None:
        self.all: list[Trie] = []

    def number(self, trie: Trie) -> int:
        """Return the number of a trie, a new one if it has none."""
        for i, known in enumerate(self.all):
            if known is trie:
                return i
        self.all.append(trie)
        return len(self.all) - 1


def bind_nest(term: Nest, binder: Binder) -> tuple[BoundLoop, Tries, Pairs]:
    """Bind the loops of a term, and find the stages of their sets."""
    tries = Tries()
    place = binder.order.index
    below = frozenset((place(smaller), place(larger)) for smaller, larger in ordered_pairs(term.restrictions))
    numbers = iter(range(len(list(term.root.walk()))))

    def bound(loop: Loop, path: tuple[int, ...], counter: int | None = None) -> BoundLoop:
        step, position = loop.step, binder.order.index(loop.attribute)
        condition = binder.condition(loop.attribute, step.restrictions, step.filters)
        leads = counter is not None and loop.collects != counter
        # The root runs over all codes, or over its labels, or over the keys of a delta: that an edge leads on is seen there.
        lists = [_list(binder.extender(e), tries) for e in step.extenders if path or _lists_root(e)]
        checks, without = binder.checks(step.checks), [_list(binder.extender(e), tries) for e in step.excluders]
        if not path or not lists:  # values come one by one
            checks, without = (*checks, *binder.checks(step.excluders)), []
        found = BoundLoop(loop, next(numbers), position, path, condition, checks, leads)
        found.stages = _stages(found, lists, without, below)
        inside = (*path, position)
        found.counters = [(inner.number, bound(inner.spine, inside, inner.number)) for inner in loop.counters]
        found.inner = [bound(child, inside, None if i or not leads else counter) for i, child in enumerate(loop.inner)]
        return found

    return bound(term.root, ()), tries, below


def _lists_root(e: Extender) -> bool:
    return len(e.atom.attributes) == 1 or e.atom.version is Version.DELTA


def _list(extender: BoundExtender, tries: Tries) -> List:
    return List(tries.number(extender.trie), extender.key, extender.after)


def _stages(loop: BoundLoop, lists: list[List], without: list[List], below: Pairs) -> list[tuple[int, SetOf]]:
    if not lists:
        return []

    def depth(positions: tuple[int, ...]) -> int:
        return max((loop.path.index(p) for p in positions), default=-1)

    window = loop.condition.window
    bounds = [Bound("<", p) for p in loop.path if (loop.position, p) in below or p in window.below]
    bounds += [Bound(">", p) for p in loop.path if (p, loop.position) in below or p in window.above]
    bounds += [Bound("=", p) for p in window.equal] + [Bound("=", None, code) for code in window.codes]
    if window.empty:
        bounds.append(Bound("<", None, 0))
    when: dict[List | Bound, int] = {part: depth(part.reads) for part in (*lists, *without)}
    when |= {part: -1 if part.position is None else depth((part.position,)) for part in bounds}
    first = min(when[part] for part in lists)
    stages = []
    for at in sorted({max(first, d) for d in when.values()}):
        known = [b for b in bounds if when[b] <= at]
        needed = [b for b in known if not any(_implies(other, b, below) for other in known if other != b)]
        stages.append(
            (
                at,
                SetOf(
                    frozenset(part for part in lists if when[part] <= at),
                    frozenset(part for part in without if when[part] <= at),
                    frozenset(needed),
                ),
            )
        )
    return stages


def _implies(tighter: Bound, bound: Bound, below: Pairs) -> bool:
    """Tell whether a code within one bound is within another."""
    if tighter.position is None or bound.position is None or tighter.op != bound.op:
        return False
    pair = (tighter.position, bound.position)
    return pair in below if bound.op == "<" else pair[::-1] in below if bound.op == ">" else False
