"""Estimates of how many prefixes and extensions a query's parts have, from statistics alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from itertools import combinations
from math import factorial, prod

from bigjoin.planner.column_orders import extender, typical_length
from bigjoin.planner.draft import Draft
from bigjoin.query.operators import EQUAL
from bigjoin.query.query import Atom, Comparison

CLOSURE = 0.05
"""The assumed chance that two neighbours of a vertex are neighbours, without a catalogue: real graphs are clustered."""

COST_OF_LOOKUP = 8.0
"""The cost of finding a list by several columns, in values looked at: searches in distant places of memory."""

By = tuple[Atom, int]
"""A list: that of the key in a column of an atom."""


class Estimate:
    """Estimates for one draft, each made once."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.statistics = draft, draft.statistics
        self.prefixes = cache(self._prefixes)
        self.reading = cache(self._reading)
        self.extensions = cache(self._extensions)
        self.neighbours = cache(self._neighbours)
        self.proposals = cache(self._proposals)
        self.reachable = cache(self._reachable)
        self.length = cache(self._length)

    def _reachable(self, bound: frozenset[str]) -> list[str]:
        """Return the attributes that an extender can propose next; if there are none, those of another component."""
        left = [a for a in self.draft.attributes if a not in bound]
        near = [a for a in left if self.is_reachable(a, bound)]
        return near or [a for a in left if self.is_reachable(a, frozenset())]

    def is_reachable(self, attribute: str, bound: frozenset[str]) -> bool:
        """Tell whether an extender can propose an attribute."""
        mine = (atom for atom in self.draft.positive if attribute in atom.attributes)
        joined = (atom for atom in mine if not bound or not bound.isdisjoint(atom.attributes))
        return any(extender(atom, attribute, bound, self.draft) is not None for atom in joined)

    def work(self, attribute: str, order: tuple[str, ...]) -> float:
        """Estimate a step: its prefixes, and the proposals of each run of neighbouring prefixes that agree on what it reads."""
        read = {a for atom in self.draft.atoms if attribute in atom.attributes for a in atom.attributes}
        part = order[: max((i + 1 for i, a in enumerate(order) if a in read), default=0)]
        bound = frozenset(order)
        return self.prefixes(bound) + self.prefixes(frozenset(part)) * self.proposals(attribute, bound)

    def _prefixes(self, bound: frozenset[str]) -> float:
        """Estimate the bindings of a set of attributes: one after another, each joined to those before it if possible."""
        left = [a for a in self.draft.attributes if a in bound]
        placed: tuple[str, ...] = ()
        estimate = 1.0
        while left:
            near = [a for a in left if self.neighbours(a, placed)]
            attribute = max(near, key=lambda a: len(self.neighbours(a, placed)), default=left[0])
            left.remove(attribute)
            estimate *= self.extensions(attribute, placed)
            placed = (*placed, attribute)
        selected = prod(self._selectivity(f) for f in self.draft.filters if set(f.attributes) <= bound)
        return estimate * selected * self._ordered(bound)

    def _ordered(self, bound: frozenset[str]) -> float:
        """Return the share of the orders of codes that satisfy the restrictions."""
        pairs = [r.attributes for r in self.draft.restrictions if bound.issuperset(r.attributes)]
        items = frozenset(a for pair in pairs for a in pair)

        @cache
        def orders(left: frozenset[str]) -> int:
            least = [a for a in left if not any(larger == a and smaller in left for smaller, larger in pairs)]
            return sum(orders(left - {a}) for a in least) if left else 1

        return orders(items) / factorial(len(items))

    def _extensions(self, attribute: str, placed: tuple[str, ...]) -> float:
        """Estimate the extensions of a prefix by an attribute, before filters."""
        size = float(self.size(attribute))
        labels = [atom for atom in self.draft.positive if atom.attributes == (attribute,)]
        share = prod(self.statistics.of(atom).tuples / max(1.0, size) for atom in labels)
        neighbours = self.neighbours(attribute, placed)
        if not neighbours:
            return size * share
        pairs = [(self._shared(a, b, atom, neighbours), a, b, atom) for a, b, atom in self._edges(neighbours)]
        if pairs:
            estimate, a, b, atom = min(pairs, key=lambda pair: pair[0])
            for i, other in enumerate(c for c in neighbours if c not in (a, b)):
                deeper = self._continued(a, b, atom, neighbours, other)
                closed = min(1.0, deeper / max(estimate, deeper, 1e-9) + CLOSURE)
                estimate = estimate * closed if i else min(estimate, deeper)
            return estimate * share
        lengths = [self.length(by) for by in neighbours.values()]
        estimate = min(lengths)
        for a, b in combinations(neighbours, 2):
            by_chance = lengths[0] * lengths[1] / max(1, self.statistics.of(neighbours[b][0]).tuples)
            estimate = min(estimate, max(self._wedge(a, b, neighbours, placed), by_chance))
        return estimate * share

    def _neighbours(self, attribute: str, placed: tuple[str, ...]) -> dict[str, By]:
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

    def _edges(self, attributes: Collection[str]) -> list[tuple[str, str, Atom]]:
        """Return the pairs of attributes that an atom joins, with the atom."""
        pairs = ((a, b, self._joining(a, b)) for a, b in combinations(attributes, 2))
        return [(a, b, atom) for a, b, atom in pairs if atom is not None]

    def _length(self, by: By) -> float:
        """Estimate the length of an attribute's list, which is longer for one that was reached through an edge."""
        atom, column = by
        relation = self.statistics.of(atom)
        names = [name for name in relation.catalogue if name.startswith("length.") and name.endswith(f".{column}")]
        if names and len(atom.attributes) == 2:
            return sum(relation.catalogue[name] for name in names) / len(names)
        lists = [s.typical for columns, s in relation.lists.items() if columns[:1] == (column,)]
        return lists[0] if lists else relation.tuples ** (1 / relation.arity)

    def _shared(self, a: str, b: str, atom: Atom, neighbours: dict[str, By]) -> float:
        """Estimate how many values the lists of two attributes share that an atom joins."""
        known = self._sampled("shared", atom, _by(a, b, atom, neighbours))
        return min(self.length(neighbours[a]), self.length(neighbours[b])) * CLOSURE if known is None else known

    def _continued(self, a: str, b: str, atom: Atom, neighbours: dict[str, By], third: str) -> float:
        """Estimate how many values that the lists of two attributes share are in the list of a third."""
        known = self._sampled("continued", atom, (*_by(a, b, atom, neighbours), neighbours[third]))
        return self._shared(a, b, atom, neighbours) * CLOSURE if known is None else known

    def _wedge(self, a: str, b: str, neighbours: dict[str, By], placed: Sequence[str]) -> float:
        """Estimate how many values the lists of two attributes share that a third one joins."""
        for centre in placed:
            first, second = self._joining(a, centre), self._joining(centre, b)
            if centre in (a, b) or first is None or second is None:
                continue
            by = ((second, second.attributes.index(centre)), neighbours[a], neighbours[b])
            known = self._sampled(f"wedge.{first.attributes.index(centre)}", first, by)
            if known is not None:
                return known
        return 0.0

    def _sampled(self, what: str, atom: Atom, lists: Sequence[By]) -> float | None:
        """Return the catalogue's entry for lists whose keys an atom joins, or None if it has none.

        It is about pairs of one relation: an atom with an edge id names that relation too, but reads its rows.
        """
        if len(atom.attributes) != 2 or any(other.source != atom.source for other, _ in lists):
            return None
        relation = self.statistics.of(atom)
        columns = (0 if relation.symmetric else column for _, column in lists)
        return relation.catalogue.get(".".join([what, *map(str, columns)]))

    def _reading(self, bound: frozenset[str], last: str, attribute: str) -> float:
        """Estimate how many values are looked at to find an attribute's extensions of one prefix, whose last attribute varies.

        The other lists are intersected before: what is left of them, or the list of the last attribute, is looked at.
        """
        neighbours = self.neighbours(attribute, tuple(sorted(bound)))
        if len(neighbours) < 2:
            return 0.0
        looked_at = [self._intersected(last, neighbours)]
        for atom, length in self._shortcuts(attribute, bound):
            looked_at.append(COST_OF_LOOKUP + (0.0 if neighbours.keys() <= set(atom.attributes) else length))
        return min(looked_at)

    def _shortcuts(self, attribute: str, bound: Collection[str]) -> list[tuple[Atom, float]]:
        """Return the shortcuts to an attribute, and the typical length of their lists."""
        atoms = [s.atom for s in self.draft.shortcuts if attribute in s.atom.attributes]
        complete = [atom for atom in atoms if set(atom.attributes) <= {*bound, attribute}]
        served = ((atom, extender(atom, attribute, bound, self.draft)) for atom in complete)
        return [(atom, typical_length(found, self.draft)) for atom, found in served if found is not None]

    def _intersected(self, last: str, neighbours: dict[str, By]) -> float:
        """Estimate how many values of the lists of two neighbours or more are looked at."""
        if last not in neighbours:
            return min(map(self.length, neighbours.values()))
        scanned = self.length(neighbours[last])
        others = [a for a in neighbours if a != last]
        looked_at = [min(scanned, 2 * self.length(neighbours[a])) for a in others]
        for a in others:
            if (atom := self._joining(a, last)) is not None:
                by = _by(a, last, atom, neighbours)
                known = self._sampled(f"scan.{0 if atom.attributes[0] == last else 1}", atom, by)
                looked_at.append(min(map(self.length, by)) if known is None else known)
        looked_at += [2 * self._shared(a, b, atom, neighbours) + 0.05 * scanned for a, b, atom in self._edges(others)]
        return min(looked_at)

    def _proposals(self, attribute: str, bound: frozenset[str]) -> float:
        """Estimate the shortest list that can propose the attribute."""
        lengths = [float(self.size(attribute)), *(length for _, length in self._shortcuts(attribute, bound))]
        for atom in self.draft.positive:
            if attribute in atom.attributes and bound & set(atom.attributes):
                served = extender(atom, attribute, bound, self.draft)
                lengths += [typical_length(served, self.draft)] if served is not None else []
        return min(lengths)

    def _selectivity(self, comparison: Comparison) -> float:
        if comparison.op == EQUAL.text and not comparison.properties:
            return 1 / max(1, self.size(comparison.attributes[0]))
        return comparison.operator.selectivity

    def size(self, attribute: str) -> int:
        """Return how many values an attribute may have."""
        return self.statistics.domains[self.draft.domain(attribute)]


def _by(a: str, b: str, atom: Atom, neighbours: dict[str, By]) -> tuple[By, By]:
    """Return the lists of two attributes in the order in which an atom joins them."""
    return (neighbours[a], neighbours[b]) if atom.attributes[0] == a else (neighbours[b], neighbours[a])
