"""Estimates of how many prefixes and extensions a query's parts have, from statistics alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from itertools import combinations
from math import factorial, prod

from bigjoin.planner.column_orders import extender
from bigjoin.planner.draft import Draft
from bigjoin.query.plan import Extender
from bigjoin.query.query import Atom, Comparison

CLOSURE = 0.05
"""The chance that two neighbours of a vertex are neighbours, where there is no catalogue: real graphs are clustered."""

LOOKUP = 8.0
"""What finding a list by several columns costs beside looking at its values: searches, in places that are far apart."""

_SELECTIVITY = {"<": 0.5, "<=": 0.5, ">": 0.5, ">=": 0.5, "!=": 1.0, "=": 0.1}
"""How much a comparison leaves; one for equal ids is known better."""

By = tuple[Atom, int]
"""An atom, and the column in it of the key whose list is meant."""


class Estimate:
    """Estimates for one draft, each made once."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.statistics = draft, draft.statistics
        self.prefixes = cache(self._prefixes)
        self.reading = cache(self._reading)
        self.extensions = cache(self._extensions)
        self._neighbours = cache(self._joined_by)
        self.proposals = cache(self._proposals)
        self.reachable = cache(self._reachable)

    def _reachable(self, bound: frozenset[str]) -> list[str]:
        """Return the attributes that an extender can propose next; if there are none, those of another part."""
        left = [a for a in self.draft.attributes if a not in bound]
        near = [a for a in left if any(self._extends(atom, a, bound) for atom in self.draft.positive)]
        return near or [a for a in left if any(self._extends(atom, a, frozenset()) for atom in self.draft.positive)]

    def is_reachable(self, attribute: str, bound: frozenset[str]) -> bool:
        """Tell whether an extender can propose an attribute."""
        return any(self._extends(atom, attribute, bound) for atom in self.draft.positive)

    def _extends(self, atom: Atom, attribute: str, bound: frozenset[str]) -> bool:
        joined = attribute in atom.attributes and (not bound or not bound.isdisjoint(atom.attributes))
        return joined and extender(atom, attribute, bound, self.draft) is not None

    def work(self, attribute: str, order: tuple[str, ...]) -> float:
        """Estimate a step: its prefixes, and the proposals of each run of them."""
        read = {a for atom in self.draft.atoms if attribute in atom.attributes for a in atom.attributes}
        part = order[: max((i + 1 for i, a in enumerate(order) if a in read), default=0)]
        bound = frozenset(order)
        return self.prefixes(bound) + self.prefixes(frozenset(part)) * self.proposals(attribute, bound)

    def _prefixes(self, bound: frozenset[str]) -> float:
        """Estimate the bindings of a set of attributes: one after another, each next to those before it where that can be."""
        left = [a for a in self.draft.attributes if a in bound]
        placed: tuple[str, ...] = ()
        estimate = 1.0
        while left:
            near = [a for a in left if self._neighbours(a, placed)]
            attribute = max(near, key=lambda a: len(self._neighbours(a, placed)), default=left[0])
            left.remove(attribute)
            estimate *= self.extensions(attribute, placed)
            placed = (*placed, attribute)
        selected = prod(self._selectivity(f) for f in self.draft.filters if set(f.attributes) <= bound)
        return estimate * selected * self._ordered(bound)

    def _ordered(self, bound: frozenset[str]) -> float:
        """Return the share of the orders of codes that satisfy the restrictions."""
        pairs = [(r.smaller, r.larger) for r in self.draft.restrictions if {r.smaller, r.larger} <= bound]
        items = frozenset(a for pair in pairs for a in pair)

        @cache
        def orders(left: frozenset[str]) -> int:
            least = [a for a in left if not any(larger == a and smaller in left for smaller, larger in pairs)]
            return sum(orders(left - {a}) for a in least) if left else 1

        return orders(items) / factorial(len(items))

    def _extensions(self, attribute: str, placed: tuple[str, ...]) -> float:
        """Estimate the extensions of a prefix by an attribute, before filters."""
        size = float(self._domain(attribute))
        for atom in self.draft.positive:
            if set(atom.attributes) == {attribute}:
                share = self.statistics.of(atom).tuples / max(1.0, size)
                size *= share if len(atom.attributes) == 1 else 1.0
        neighbours = self._neighbours(attribute, placed)
        if not neighbours:
            return size
        labelled = size / max(1.0, float(self._domain(attribute)))
        pairs = [(a, b, self._joining(a, b)) for a, b in combinations(neighbours, 2)]
        edges = [(a, b, atom) for a, b, atom in pairs if atom is not None]
        if edges:
            a, b, atom = min(edges, key=lambda edge: self._pair("shared", edge[0], edge[1], edge[2], neighbours))
            estimate = self._pair("shared", a, b, atom, neighbours)
            others = [c for c in neighbours if c not in (a, b)]
            for i, other in enumerate(others):
                deeper = self._continued(a, b, atom, neighbours, other)
                estimate = (
                    min(estimate, deeper) if i == 0 else estimate * min(1.0, deeper / max(estimate, deeper, 1e-9) + CLOSURE)
                )
            return estimate * labelled
        lengths = [self._length(neighbours[a]) for a in neighbours]
        estimate = min(lengths)
        for a, b in combinations(neighbours, 2):
            relation = self.statistics.of(neighbours[b][0])
            estimate = min(
                estimate, max(self._wedge(a, b, neighbours, placed), lengths[0] * lengths[1] / max(1, relation.tuples))
            )
        return estimate * labelled

    def _joined_by(self, attribute: str, placed: tuple[str, ...]) -> dict[str, By]:
        """Return the attributes that an atom joins to this one, each with that atom and the column of the key in it."""
        found: dict[str, By] = {}
        for atom in self.draft.positive:
            if attribute in atom.attributes:
                for column, other in enumerate(atom.attributes):
                    if other in placed and other != attribute:
                        found.setdefault(other, (atom, column))
        return found

    def _joining(self, a: str, b: str) -> Atom | None:
        return next((atom for atom in self.draft.positive if {a, b} <= set(atom.attributes)), None)

    def _length(self, by: By) -> float:
        """Estimate the length of an attribute's list, which is longer for one that was reached through an edge."""
        atom, column = by
        relation = self.statistics.of(atom)
        entries = [
            value for name, value in relation.catalogue.items() if name.startswith("length.") and name.endswith(f".{column}")
        ]
        if entries and len(atom.attributes) == 2:
            return sum(entries) / len(entries)
        lists = [s.typical for columns, s in relation.lists.items() if columns[:1] == (column,)]
        return lists[0] if lists else relation.tuples ** (1 / relation.arity)

    def _pair(self, what: str, a: str, b: str, atom: Atom, neighbours: dict[str, By]) -> float:
        """Return what the catalogue says of the lists of two attributes that an atom joins; else assume some clustering."""
        by = (neighbours[a], neighbours[b]) if atom.attributes[0] == a else (neighbours[b], neighbours[a])
        known = self._sampled(what, atom, by)
        if known is not None:
            return known
        return min(map(self._length, by)) * (CLOSURE if what == "shared" else 1.0)

    def _continued(self, a: str, b: str, atom: Atom, neighbours: dict[str, By], third: str) -> float:
        """Return how many values that the lists of two attributes share are in the list of a third."""
        by = (neighbours[a], neighbours[b]) if atom.attributes[0] == a else (neighbours[b], neighbours[a])
        known = self._sampled("continued", atom, (*by, neighbours[third]))
        return known if known is not None else self._pair("shared", a, b, atom, neighbours) * CLOSURE

    def _wedge(self, a: str, b: str, neighbours: dict[str, By], placed: Sequence[str]) -> float:
        """Estimate how many values the lists of two attributes share that a third one joins."""
        for centre in placed:
            first, second = self._joining(a, centre), self._joining(centre, b)
            if centre in (a, b) or first is None or second is None:
                continue
            middle = (second, second.attributes.index(centre))
            by = (middle, neighbours[a], neighbours[b])
            known = self._sampled(f"wedge.{first.attributes.index(centre)}", first, by)
            if known is not None:
                return known
        return 0.0

    def _sampled(self, what: str, atom: Atom, lists: Sequence[By]) -> float | None:
        """Return what the catalogue says of lists whose keys an atom joins, or None where it says nothing.

        It is about pairs of one relation: an atom with an edge id names that relation too, but reads its rows.
        """
        if len(atom.attributes) != 2 or any(other.source != atom.source for other, _ in lists):
            return None
        relation = self.statistics.of(atom)
        columns = (0 if relation.symmetric else column for _, column in lists)
        return relation.catalogue.get(".".join([what, *map(str, columns)]))

    def _reading(self, bound: frozenset[str], last: str, attribute: str) -> float:
        """Estimate what is looked at to find an attribute's extensions of one prefix, the last attribute of which varies.

        The other lists are intersected before: what is left of them, or the list of the last attribute, is looked at.
        """
        neighbours = self._neighbours(attribute, tuple(sorted(bound)))
        if len(neighbours) < 2:
            return 0.0
        looked_at = [self._intersected(last, neighbours)]
        for atom, length in self._shortcuts(attribute, bound):
            whole = neighbours.keys() <= set(atom.attributes)
            looked_at.append(LOOKUP if whole else LOOKUP + length)
        return min(looked_at)

    def _shortcuts(self, attribute: str, bound: Collection[str]) -> list[tuple[Atom, float]]:
        """Return the shortcuts to an attribute, and the typical length of their lists."""
        found = []
        for shortcut in self.draft.shortcuts:
            if attribute in shortcut.atom.attributes and set(shortcut.atom.attributes) <= {*bound, attribute}:
                served = extender(shortcut.atom, attribute, bound, self.draft)
                if served is not None:
                    found.append((shortcut.atom, self._typical(served)))
        return found

    def _intersected(self, last: str, neighbours: dict[str, By]) -> float:
        """Estimate what is looked at in the lists of two neighbours or more."""
        if last not in neighbours:
            return min(self._length(by) for by in neighbours.values())
        scanned = self._length(neighbours[last])
        others = [a for a in neighbours if a != last]
        looked_at = [min(scanned, 2 * self._length(neighbours[a])) for a in others]
        for a in others:
            if (atom := self._joining(a, last)) is not None:
                end = 0 if atom.attributes[0] == last else 1
                looked_at.append(self._pair(f"scan.{end}", a, last, atom, neighbours))
        for a, b in combinations(others, 2):
            if (atom := self._joining(a, b)) is not None:
                looked_at.append(2 * self._pair("shared", a, b, atom, neighbours) + 0.05 * scanned)
        return min(looked_at)

    def _proposals(self, attribute: str, bound: frozenset[str]) -> float:
        """Estimate the shortest list that can propose the attribute."""
        lengths = [float(self._domain(attribute)), *(length for _, length in self._shortcuts(attribute, bound))]
        for atom in self.draft.positive:
            if attribute in atom.attributes and bound & set(atom.attributes):
                served = extender(atom, attribute, bound, self.draft)
                lengths += [self._typical(served)] if served is not None else []
        return min(lengths)

    def _typical(self, e: Extender) -> float:
        """Return the typical length of an extender's lists."""
        relation = self.statistics.of(e.atom)
        lists = relation.lists.get(e.columns)
        return lists.typical if lists is not None else float(relation.tuples ** (1 / relation.arity))

    def _selectivity(self, comparison: Comparison) -> float:
        if comparison.op == "=" and not comparison.properties:
            return 1 / max(1, self._domain(comparison.attributes[0]))
        return _SELECTIVITY[comparison.op]

    def size(self, attribute: str) -> int:
        """Return how many values an attribute may have."""
        return self._domain(attribute)

    def _domain(self, attribute: str) -> int:
        return self.statistics.domains[self.draft.domain(attribute)]
