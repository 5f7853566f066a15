"""Find the cheapest nest of loops for counting: which attribute is bound where, what stands side by side, what is eliminated.

With some attributes bound (a path), the others fall into components that nothing joins, and each is counted by itself: by a
loop over one of its attributes, inside which the rest falls apart again. Two things make this cheaper than loops alone. A
component that only the innermost attribute joins to the path has one count for each value of that attribute, which is kept.
And a component between the path and an attribute v may be run through first, adding up in a counter how often each v is
reached (variable elimination): then v need not be a neighbour of the path, and is looped over once.

Costs are expected numbers of values looked at. The search tries every choice for up to WHOLE attributes; beyond, only the few
that are cheapest at first sight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import inf

from bigjoin.planner.column_orders import extender
from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import Estimate
from bigjoin.query.query import Atom, Comparison
from bigjoin.query.read import Version

WHOLE = 6
FEW = 3
SCATTER = 2.0
"""What adding to a counter costs beside looking at a value of a list."""

Attributes = frozenset[str]
Pair = frozenset[str]


@dataclass(frozen=True, slots=True)
class Node:
    """A loop, before its step is made."""

    attribute: str
    inner: tuple[Node, ...] = ()
    spines: tuple[Node, ...] = ()
    """One for each counter that is filled in this loop: the first inner loops lead to the one that collects."""
    weights: tuple[int, ...] = ()
    """Which counters of the loop around this one multiply here."""
    cached: bool = False
    collects: bool = False
    discount: int = 0
    """How many of its values, for sure, are not to be counted: those that attributes elsewhere have."""


@dataclass(frozen=True, slots=True)
class Found:
    """A component's nest, and what it costs in all."""

    cost: float
    node: Node | None = None
    spines: tuple[Node, ...] = ()
    """Counters that are to be filled before the node runs, by the loop around it."""


@dataclass(slots=True)
class Search:
    """The search for one draft; `apart` are pairs of attributes that are to differ and so are joined.

    `differing` are all pairs that are to differ, also those that are seen to elsewhere.
    """

    draft: Draft
    estimate: Estimate
    apart: frozenset[Pair] = frozenset()
    differing: frozenset[Pair] = frozenset()
    memo: dict[tuple[Attributes, str, Attributes], Found] = field(default_factory=dict)
    spine_memo: dict[tuple[Attributes, str, Attributes, str, Attributes], tuple[float, Node | None]] = field(
        default_factory=dict
    )
    lists: dict[tuple[Attributes, str], int] = field(default_factory=dict)
    joined: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draft = self.draft
        scopes: list[Iterable[str]] = [part.attributes for part in draft.parts]
        scopes += [(r.smaller, r.larger) for r in draft.restrictions] + list(self.apart)
        if draft.first is not None:  # what is later is so by the seed's tuple: it cannot be kept for one attribute alone
            later = [atom for atom in draft.atoms if atom.version is Version.LATER]
            scopes += [(*atom.attributes, *draft.first.attributes) for atom in later]
        self.joined = {a: set() for atom in draft.positive for a in atom.attributes}
        for scope in scopes:
            for a in scope:
                self.joined[a] |= set(scope) - {a}

    def best(self) -> Found:
        """Return the cheapest nest for all attributes; those of a delta that it is seeded with come first, in their order."""
        if self.draft.first is None:
            return self.component(frozenset(), "", frozenset(self.joined))
        *before, last = (a for a in self.draft.order if a in self.draft.first.attributes)
        left = frozenset(self.joined) - set(before)
        found = self.bind(frozenset(before), before[-1] if before else "", left, last, inf)
        node = found.node
        for attribute in reversed(before):
            node = None if node is None else Node(attribute, (node,))
        return replace(found, node=node)

    def components(self, attributes: Attributes) -> list[Attributes]:
        """Return the parts into which attributes fall."""
        left, parts = set(attributes), []
        while left:
            part, new = set(), {min(left)}
            while new:
                part |= new
                new = {b for a in new for b in self.joined[a] if b in left} - part
            left -= part
            parts.append(frozenset(part))
        return parts

    def component(self, path: Attributes, last: str, attributes: Attributes) -> Found:
        """Return the cheapest nest of a component inside a path, the last attribute of which varies fastest."""
        key = (path, last, attributes)
        if key not in self.memo:
            best = Found(inf)
            for v in self.candidates(path, last, attributes):
                found = self.bind(path, last, attributes, v, best.cost)
                best = min(best, found, key=lambda found: found.cost)
            if path and 1 < len(attributes) <= WHOLE:
                for v in sorted(attributes):
                    best = min(best, self.eliminate(path, last, attributes, v), key=lambda found: found.cost)
            self.memo[key] = best
        return self.memo[key]

    def candidates(self, path: Attributes, last: str, attributes: Attributes) -> list[str]:
        """Return the attributes that may be bound next."""
        near = [v for v in sorted(attributes) if path and self.extenders(path, v)]
        near = near or [v for v in sorted(attributes) if self.is_listed(v)]
        near = sorted(near, key=lambda v: self.reading(path, last, v) + self.estimate.prefixes(path | {v}))
        beyond = len(self.joined) - WHOLE
        return near if beyond <= 0 else near[: max(1, FEW + 1 - beyond)]

    def is_listed(self, v: str) -> bool:
        """Tell whether some atom lists the values of an attribute by itself."""
        mine = (atom for atom in self.draft.positive if v in atom.attributes)
        return any(extender(atom, v, (), self.draft) is not None for atom in mine)

    def around(self, attributes: Attributes) -> Attributes:
        return frozenset(b for a in attributes for b in self.joined[a]) - attributes

    def extenders(self, path: Attributes, v: str) -> int:
        """Return how many lists restrict an attribute once the path is bound."""
        if (path, v) not in self.lists:
            near = (atom for atom in self.draft.positive if v in atom.attributes and path & set(atom.attributes) - {v})
            self.lists[path, v] = sum(extender(atom, v, path, self.draft) is not None for atom in near)
        return self.lists[path, v]

    def reading(self, path: Attributes, last: str, v: str) -> float:
        """Estimate what finding the extensions of an attribute costs, for all bindings of a path."""
        lists = self.extenders(path, v)
        times = self.estimate.prefixes(path)
        if lists <= 1:
            return times
        bounded = any({r.smaller, r.larger} - {v} <= path for r in self.draft.restrictions if v in (r.smaller, r.larger))
        return times * (1 + self.estimate.reading(path, last, v) * (0.5 if bounded else 1.0))

    def bind(self, path: Attributes, last: str, attributes: Attributes, v: str, limit: float) -> Found:
        """Return the nest that binds an attribute next, or none if it costs as much as a limit."""
        now, rest = path | {v}, attributes - {v}
        cost = self.reading(path, last, v) if path else 0.0
        if not rest:
            return Found(cost, Node(v))
        cost += self.estimate.prefixes(now)
        inner: list[Node] = []
        spines: tuple[Node, ...] = ()
        for part in self.components(rest):
            if cost >= limit:
                return Found(inf)
            found = self.inside(now, part, v, deep=bool(path))
            if found.node is None:
                return Found(inf)
            cost += found.cost
            inner.append(replace(found.node, weights=tuple(len(spines) + number for number in found.node.weights)))
            spines += found.spines
        return Found(cost, Node(v, tuple(inner), spines))

    def inside(self, path: Attributes, part: Attributes, v: str, *, deep: bool) -> Found:
        """Return the nest of a component inside the loop of an attribute, kept for each value where that is cheaper."""
        found = self.component(path, v, part)
        if deep and self.around(part) == {v}:
            kept = self.component(frozenset({v}), v, part)
            cost = kept.cost + self.estimate.prefixes(path)
            if cost < found.cost and not kept.spines and kept.node is not None:
                return Found(cost, replace(kept.node, cached=True))
        return found

    def eliminate(self, path: Attributes, last: str, attributes: Attributes, v: str) -> Found:
        """Return the nest that counts how often an attribute is reached through others, and then loops over it once."""
        now = path | {v}
        direct, reached = [], []
        for part in self.components(attributes - {v}):
            around = self.around(part)
            by_loop = self.component(now, v, part)
            if by_loop.spines:
                by_loop = Found(inf)
            by_counter = self.spine(path, last, part, v, path) if v in around and around & path else (inf, None)
            direct.append(by_loop)
            reached.append((part, *by_counter))
        has_lists = self.extenders(path, v) > 0
        use = [counter[1] < loop.cost for loop, counter in zip(direct, reached, strict=True)]
        if not any(use):
            gains = [
                counter[1] - loop.cost if counter[2] is not None else inf for loop, counter in zip(direct, reached, strict=True)
            ]
            if min(gains, default=inf) == inf:
                return Found(inf)
            use[gains.index(min(gains))] = True
        spines: dict[object, tuple[Node, float]] = {}
        weights, inner, cost = [], [], 0.0
        touched = self.estimate.prefixes(path) * self.estimate.size(v)
        for loop, (part, counter_cost, node), counted in zip(direct, reached, use, strict=True):
            if counted and node is not None:
                signature = self.signature(path, part, v) if sum(use) > 1 else ""
                spines.setdefault(signature, (node, counter_cost))
                weights.append(list(spines).index(signature))
                touched = min(touched, self.estimate.prefixes(path | part | {v}))
            elif loop.node is None:
                return Found(inf)
            else:
                inner.append(loop.node)
                cost += loop.cost
        values = self.estimate.prefixes(now) if has_lists else touched
        cost += sum(each for _, each in spines.values()) + values + (self.reading(path, last, v) if has_lists else 0.0)
        node = Node(v, tuple(inner), weights=tuple(weights))
        return Found(cost, node, tuple(spine for spine, _ in spines.values()))

    def spine(self, path: Attributes, last: str, part: Attributes, v: str, outer: Attributes) -> tuple[float, Node | None]:
        """Return the cheapest loops through a component that end at an attribute and count how often it is reached."""
        key = (path, last, part, v, outer)
        if key not in self.spine_memo:
            if not part:
                found: tuple[float, Node | None] = (inf, None)
                if self.extenders(path - outer, v):
                    # What joins the attribute to those around the counter is not looked at here.
                    times, through = self.estimate.prefixes(path), path - outer
                    reached = self.estimate.extensions(v, tuple(sorted(through)))
                    cost = times * (1 + self.estimate.reading(through, last, v) + SCATTER * reached)
                    found = (cost, Node(v, collects=True))
                self.spine_memo[key] = found
            else:
                choices = [self.along(path, last, part, u, v, outer) for u in sorted(part) if self.extenders(path, u)]
                self.spine_memo[key] = min(choices, key=lambda choice: choice[0], default=(inf, None))
        return self.spine_memo[key]

    def along(
        self, path: Attributes, last: str, part: Attributes, u: str, v: str, outer: Attributes
    ) -> tuple[float, Node | None]:
        """Return loops through a component that bind a certain attribute of it next."""
        now = path | {u}
        cost = self.reading(path, last, u) + self.estimate.prefixes(now)
        inner: list[Node] = []
        spine: Node | None = None
        for piece in self.components(part - {u} | {v}):
            if v in piece:
                further, spine = self.spine(now, u, piece - {v}, v, outer)
                cost += further
            else:
                found = self.component(now, u, piece)
                if found.node is None or found.spines:
                    return inf, None
                cost += found.cost
                inner.append(found.node)
        return (cost, Node(u, (spine, *inner))) if spine is not None else (inf, None)

    def signature(self, path: Attributes, part: Attributes, v: str) -> object:
        """Return what tells the counters of two components apart: equal ones are filled once.

        A pair that is to differ is a filter in one component's loops, and nothing would be one in the other's: such are apart.
        """
        scope = path | part | {v}
        if any(pair <= scope and part & pair for pair in self.differing | self.apart):
            return part
        mine = [p for p in self.draft.parts if set(p.attributes) <= scope and part & set(p.attributes)]
        limits = [r for r in self.draft.restrictions if {r.smaller, r.larger} <= scope and part & {r.smaller, r.larger}]
        shapes = []
        for order in permutations(sorted(part)):
            names = {a: a for a in scope} | {a: f"#{i}" for i, a in enumerate(order)}
            texts = [self.shape(p.renamed(names)) for p in mine]
            texts += [f"{names[r.smaller]} << {names[r.larger]}" for r in limits]
            shapes.append(tuple(sorted(texts)))
        return min(shapes)

    def shape(self, part: Atom | Comparison) -> str:
        """Return an atom or filter as text, both directions of a symmetric relation alike."""
        if isinstance(part, Comparison):
            return str(part.canonical())
        if self.draft.statistics.relation(part).symmetric:
            return f"{part.negated} {part.read} {sorted(part.attributes[:2])} {part.attributes[2:]}"
        return str(part)
