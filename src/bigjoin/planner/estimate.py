"""Estimates of how many prefixes and extensions a query's parts have, from statistics alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import inf, prod

from bigjoin.planner.column_orders import extender, typical_length
from bigjoin.planner.draft import Draft
from bigjoin.planner.share_of_orders import share_of_orders
from bigjoin.query.operators import EQUAL
from bigjoin.query.plan import Restriction
from bigjoin.query.query import Atom, Predicate, QueryFilter
from bigjoin.query.read import Read
from bigjoin.query.statistics import has_dense_lists

CLOSURE = 0.05
"""The assumed chance that two neighbours of a vertex are neighbours, without a catalogue: real graphs are clustered."""

COST_OF_LOOKUP = 8.0
"""The cost of finding a list by several columns, in values looked at: searches in distant places of memory."""

By = tuple[int, int]
"""A list: that of the key in a column of a stored atom, which is given by its number."""


ByKey = tuple[str, int, int]
"""A list: the attribute of its key, the number of an atom, and the column of the key in it."""


class SizeEstimate:
    """Estimates for one draft, each made once. What is far from an attribute does not matter to it, so it is not looked at."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.statistics = draft, draft.statistics
        self.attributes = draft.attributes
        self.positive = draft.positive
        is_given = [draft.statistics.relation(atom).given and len(atom.attributes) > 1 for atom in self.positive]
        self.given = tuple(atom for atom, given in zip(self.positive, is_given, strict=True) if given)
        """The atoms over seeds of several attributes: they join these, but no sample tells how."""
        self.stored = tuple(atom for atom, given in zip(self.positive, is_given, strict=True) if not given)
        self.place = {a: i for i, a in enumerate(self.attributes)}
        self._domains = draft.statistics.domains_of(reversed(self.positive))
        self._mine = _by_attribute(self.attributes, self.positive)
        self._scopes: dict[str, list[tuple[int, frozenset[str]]]] = {a: [] for a in self.attributes}
        for number, atom in enumerate(self.positive):
            for a in (scope := frozenset(atom.attributes)):
                self._scopes[a].append((number, scope))
        read = _by_attribute(self.attributes, draft.atoms)
        self._read = {a: frozenset(b for atom in atoms for b in atom.attributes) for a, atoms in read.items()}
        self._near = {a: frozenset(b for atom in atoms for b in atom.attributes if b != a) for a, atoms in self._mine.items()}
        self._neighbours_of = self._all_neighbours()
        self._joins = self._all_joins()
        first_of: dict[Read, int] = {}
        self._sources = [first_of.setdefault(atom.source, number) for number, atom in enumerate(self.stored)]
        """By stored atom: the first one that reads the same."""
        self._relations = [self.statistics.of(atom) for atom in self.stored]
        self._matters_to = self._all_that_matters()
        self._selective = [(frozenset(f.attributes), share) for f in draft.filters if (share := self._selectivity(f)) != 1.0]
        self.prefixes = cache(self._prefixes)
        self.bindings = cache(self._bindings)
        self.reading = cache(self._reading)
        self.making_rows = cache(self._making_rows)
        self.extensions = cache(self._extensions)
        self.proposals = cache(self._proposals)
        self.reachable = cache(self._reachable)
        self.length = cache(self._length)
        self._shortest = cache(self._shortest_list)
        self._served = cache(self._serving)
        self._list_length = cache(self._length_by)
        self._entry = cache(self._catalogue_entry)
        self._intersected_once = cache(self._intersected)

    def restricted(self, restrictions: tuple[Restriction, ...]) -> SizeEstimate:
        """Return the estimates for the draft with other restrictions; all that does not depend on these is shared."""
        if restrictions == self.draft.restrictions:
            return self
        other = copy(self)
        other.draft = replace(self.draft, restrictions=restrictions)
        other.prefixes = cache(other._prefixes)
        return other

    def _all_neighbours(self) -> dict[str, dict[str, By]]:
        """Return for each attribute those that a stored atom joins to it, each with that atom and the column of the key."""
        found: dict[str, dict[str, By]] = {a: {} for a in self.attributes}
        for number, atom in enumerate(self.stored):
            for attribute in dict.fromkeys(atom.attributes):
                for column, other in enumerate(atom.attributes):
                    if other != attribute:
                        found[attribute].setdefault(other, (number, column))
        return found

    def _all_joins(self) -> dict[tuple[str, str], int]:
        """Return the first stored atom that joins each two attributes."""
        found: dict[tuple[str, str], int] = {}
        for number, atom in enumerate(self.stored):
            for a, b in combinations(dict.fromkeys(atom.attributes), 2):
                found.setdefault((a, b), number)
                found.setdefault((b, a), number)
        return found

    def _all_that_matters(self) -> dict[str, list[str]]:
        """Return for each attribute those whose extensions depend on whether it is bound."""
        found: dict[str, list[str]] = {a: [] for a in self.attributes}
        for attribute, neighbours in self._neighbours_of.items():
            around = {b for a in neighbours for b in self._neighbours_of[a]} if len(neighbours) > 1 else set[str]()
            seeded = {a for atom in self.given if attribute in atom.attributes for a in atom.attributes}
            for other in {*neighbours, *around, *seeded} - {attribute}:
                found[other].append(attribute)
        return found

    def _reachable(self, bound: frozenset[str]) -> list[str]:
        """Return the attributes that an extender can propose next; if there are none, those of another component."""
        left = [a for a in self.attributes if a not in bound]
        near = [a for a in left if self.is_reachable(a, bound)]
        return near or [a for a in left if self.is_reachable(a, frozenset())]

    def is_reachable(self, attribute: str, bound: frozenset[str]) -> bool:
        """Tell whether an extender can propose an attribute."""
        near = self._near[attribute] & bound
        if bound and not near and attribute not in bound:
            return False
        return self._shortest(attribute, near if attribute not in bound else near | {attribute}, bool(bound)) is not None

    def served(self, attribute: str, bound: frozenset[str]) -> int:
        """Return how many lists of atoms with bound attributes propose an attribute."""
        near = self._near[attribute]
        return 0 if near.isdisjoint(bound) else self._served(attribute, near & bound)

    def _serving(self, attribute: str, near: frozenset[str]) -> int:
        return sum(length is not None for length in self._lengths(attribute, near, is_bound=True))

    def _shortest_list(self, attribute: str, near: frozenset[str], is_bound: bool) -> float | None:
        """Return the shortest list that proposes an attribute, if there is one."""
        lengths = self._lengths(attribute, near, is_bound=is_bound)
        return min((length for length in lengths if length is not None), default=None)

    def _lengths(self, attribute: str, near: frozenset[str], *, is_bound: bool) -> Iterator[float | None]:
        """Give the typical length of each atom's lists, None if it has none; if `is_bound`, of atoms with bound attributes."""
        for number, scope in self._scopes[attribute]:
            keys = scope & near
            if keys or not is_bound:
                yield self._list_length(number, attribute, keys)

    def _length_by(self, number: int, attribute: str, keys: frozenset[str]) -> float | None:
        found = extender(self.positive[number], attribute, keys, self.draft)
        return None if found is None else typical_length(found, self.draft)

    def work(self, attribute: str, order: Sequence[str], sets: Sequence[frozenset[str]]) -> float:
        """Estimate a step: its prefixes, and the proposals of each run of neighbouring prefixes that agree on what it reads.

        `sets` are the attributes of each prefix of the order, beginning with none of them.
        """
        read = self._read[attribute]
        last = len(order)
        while last and order[last - 1] not in read:
            last -= 1
        return self.prefixes(sets[-1]) + self.prefixes(sets[last]) * self.proposals(attribute, sets[-1])

    def _prefixes(self, bound: frozenset[str]) -> float:
        """Estimate the bindings of a set of attributes that satisfy the restrictions."""
        pairs = [(r.smaller, r.larger) for r in self.draft.restrictions if r.smaller in bound and r.larger in bound]
        return self.bindings(bound) * share_of_orders(pairs)

    def _bindings(self, bound: frozenset[str]) -> float:
        """Estimate the bindings of a set of attributes: one after another, each joined to those before it if possible."""
        left = dict.fromkeys(sorted(bound, key=self.place.__getitem__), 0)
        placed: dict[str, tuple[str, ...]] = dict.fromkeys(left, ())
        near: set[str] = set()
        estimate = 1.0
        while left:
            attribute = min(near, key=lambda a: (-left[a], self.place[a])) if near else next(iter(left))
            del left[attribute]
            near.discard(attribute)
            estimate *= self.extensions(attribute, placed[attribute])
            for other in self._matters_to[attribute]:
                if other in left:
                    placed[other] = (*placed[other], attribute)
                    if attribute in self._neighbours_of[other]:
                        left[other] += 1
                        near.add(other)
        return estimate * self.selected(bound)

    def selected(self, bound: frozenset[str]) -> float:
        """Estimate the share of bindings that filters keep which are about some attributes alone."""
        return prod(share for attributes, share in self._selective if attributes <= bound)

    def _extensions(self, attribute: str, placed: tuple[str, ...]) -> float:
        """Estimate the extensions of a prefix by an attribute, before filters: seeds leave at most as many as they have."""
        mine = (atom for atom in self.given if attribute in atom.attributes)
        lists = (extender(atom, attribute, placed, self.draft) for atom in mine)
        most = (typical_length(found, self.draft) for found in lists if found is not None)
        return min((self._extensions_stored(attribute, placed), *most))

    def _extensions_stored(self, attribute: str, placed: tuple[str, ...]) -> float:
        """Do the same by the atoms over relations of the index, and by labels."""
        size = float(self.size(attribute))
        labels = [atom for atom in self._mine[attribute] if atom.attributes == (attribute,)]
        share = prod(self.statistics.of(atom).tuples / max(1.0, size) for atom in labels)
        neighbours = self._neighbours(attribute, placed)
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
            by_chance = lengths[0] * lengths[1] / max(1, self._relations[neighbours[b][0]].tuples)
            estimate = min(estimate, max(self._wedge(a, b, neighbours, placed), by_chance))
        return estimate * share

    def _neighbours(self, attribute: str, placed: Collection[str]) -> dict[str, By]:
        """Return the attributes that an atom joins to this one, each with that atom and the column of the key in it."""
        return {a: by for a, by in self._neighbours_of[attribute].items() if a in placed}

    def _edges(self, attributes: Collection[str]) -> list[tuple[str, str, int]]:
        """Return the pairs of attributes that an atom joins, with the atom."""
        pairs = ((a, b, self._joins.get((a, b))) for a, b in combinations(attributes, 2))
        return [(a, b, atom) for a, b, atom in pairs if atom is not None]

    def _length(self, by: By) -> float:
        """Estimate the length of an attribute's list, which is longer for one that was reached through an edge."""
        atom, column = by
        relation = self._relations[atom]
        names = [name for name in relation.catalogue if name.startswith("length.") and name.endswith(f".{column}")]
        if names and len(self.stored[atom].attributes) == 2:
            return sum(relation.catalogue[name] for name in names) / len(names)
        lists = [s.typical for columns, s in relation.lists.items() if columns[:1] == (column,)]
        return lists[0] if lists else relation.tuples ** (1 / relation.arity)

    def _shared(self, a: str, b: str, atom: int, neighbours: dict[str, By]) -> float:
        """Estimate how many values the lists of two attributes share that an atom joins."""
        known = self._sampled("shared", atom, self._by(a, b, atom, neighbours))
        return min(self.length(neighbours[a]), self.length(neighbours[b])) * CLOSURE if known is None else known

    def _continued(self, a: str, b: str, atom: int, neighbours: dict[str, By], third: str) -> float:
        """Estimate how many values that the lists of two attributes share are in the list of a third."""
        known = self._sampled("continued", atom, (*self._by(a, b, atom, neighbours), neighbours[third]))
        return self._shared(a, b, atom, neighbours) * CLOSURE if known is None else known

    def _wedge(self, a: str, b: str, neighbours: dict[str, By], placed: Sequence[str]) -> float:
        """Estimate how many values the lists of two attributes share that a third one joins."""
        for centre in placed:
            first, second = self._joins.get((a, centre)), self._joins.get((centre, b))
            if centre in (a, b) or first is None or second is None:
                continue
            by = ((second, self.stored[second].attributes.index(centre)), neighbours[a], neighbours[b])
            known = self._sampled(f"wedge.{self.stored[first].attributes.index(centre)}", first, by)
            if known is not None:
                return known
        return 0.0

    def _sampled(self, what: str, atom: int, lists: Sequence[By]) -> float | None:
        """Return the catalogue's entry for lists whose keys an atom joins, or None if it has none.

        It is about pairs of one relation: an atom with an edge id names that relation too, but reads its rows.
        """
        source = self._sources[atom]
        if len(self.stored[atom].attributes) != 2 or any(self._sources[other] != source for other, _ in lists):
            return None
        return self._entry(what, source, tuple([column for _, column in lists]))

    def _catalogue_entry(self, what: str, source: int, columns: tuple[int, ...]) -> float | None:
        relation = self._relations[source]
        places = (0 if relation.symmetric else column for column in columns)
        return relation.catalogue.get(".".join([what, *map(str, places)]))

    def _reading(self, bound: frozenset[str], last: str, attribute: str) -> float:
        """Estimate how many values are looked at to find an attribute's extensions of one prefix, whose last attribute varies.

        The other lists are intersected before: what is left of them, or the list of the last attribute, is looked at.
        """
        neighbours = self._neighbours(attribute, bound)
        if len(neighbours) < 2:
            return 0.0
        looked_at = [self._intersected_once(last if last in neighbours else "", attribute, self._near[attribute] & bound)]
        for atom, length in self._shortcuts(attribute, bound):
            looked_at.append(COST_OF_LOOKUP + (0.0 if neighbours.keys() <= set(atom.attributes) else length))
        return min(looked_at)

    def _making_rows(self, centre: str, key: str, attribute: str) -> float:
        """Estimate the cost of rows of bits: the lists of keys, inside the list by which a centre leads to an attribute.

        If the centre leads to the key by the same lists, an earlier step has made these rows. Otherwise lists are read again.
        """
        near = self._neighbours_of[attribute]
        if key == centre or not {centre, key} <= near.keys() or centre not in self._neighbours_of[key]:
            return inf
        lists = (near[centre], near[key], self._neighbours_of[key][centre])
        if not all(self._is_dense(number, column) for number, column in lists):
            return inf
        kinds = {self._kind(number, column) for number, column in lists}
        return 0.0 if len(kinds) == 1 else self.prefixes(frozenset({centre, key})) * self.length(near[key])

    def lists(self, bound: frozenset[str], attribute: str) -> frozenset[ByKey]:
        """Return the lists that join an attribute to bound ones: attributes with the same lists have the same extensions."""
        near = self._neighbours_of[attribute].items()
        return frozenset((key, *self._kind(number, column)) for key, (number, column) in near if key in bound)

    def _kind(self, number: int, column: int) -> tuple[int, int]:
        """Return what lists are read: the first atom with the same relation, and the column of the key if it matters."""
        return self._sources[number], 0 if self._relations[number].symmetric else column

    def _is_dense(self, number: int, column: int) -> bool:
        """Tell whether the lists of pairs by a key column are dense."""
        return len(self.stored[number].attributes) == 2 and has_dense_lists(self._relations[number], (column, 1 - column))

    def _shortcuts(self, attribute: str, bound: Collection[str]) -> list[tuple[Atom, float]]:
        """Return the shortcuts to an attribute, and the typical length of their lists."""
        if not self.draft.shortcuts:
            return []
        atoms = [s.atom for s in self.draft.shortcuts if attribute in s.atom.attributes]
        complete = [atom for atom in atoms if set(atom.attributes) <= {*bound, attribute}]
        served = ((atom, extender(atom, attribute, bound, self.draft)) for atom in complete)
        return [(atom, typical_length(found, self.draft)) for atom, found in served if found is not None]

    def _intersected(self, last: str, attribute: str, near: frozenset[str]) -> float:
        """Estimate how many values of the lists of two neighbours or more are looked at."""
        neighbours = self._neighbours(attribute, near)
        if last not in neighbours:
            return min(map(self.length, neighbours.values()))
        scanned = self.length(neighbours[last])
        others = [a for a in neighbours if a != last]
        looked_at = [min(scanned, 2 * self.length(neighbours[a])) for a in others]
        for a in others:
            if (atom := self._joins.get((a, last))) is not None:
                by = self._by(a, last, atom, neighbours)
                known = self._sampled(f"scan.{0 if self.stored[atom].attributes[0] == last else 1}", atom, by)
                looked_at.append(min(map(self.length, by)) if known is None else known)
        looked_at += [2 * self._shared(a, b, atom, neighbours) + 0.05 * scanned for a, b, atom in self._edges(others)]
        return min(looked_at)

    def _proposals(self, attribute: str, bound: frozenset[str]) -> float:
        """Estimate the shortest list that can propose the attribute."""
        lengths = [float(self.size(attribute)), *(length for _, length in self._shortcuts(attribute, bound))]
        near = self._near[attribute] & bound
        listed = self._shortest(attribute, near, True) if near else None
        return min(lengths) if listed is None else min(*lengths, listed)

    def _selectivity(self, comparison: QueryFilter) -> float:
        if isinstance(comparison, Predicate):
            return comparison.expression.entry.selectivity
        if comparison.op == EQUAL.text and not comparison.properties:
            return 1 / max(1, self.size(comparison.attributes[0]))
        return comparison.operator.selectivity

    def size(self, attribute: str) -> int:
        """Return how many values an attribute may have."""
        return self.statistics.domains[self._domains[attribute]]

    def _by(self, a: str, b: str, atom: int, neighbours: dict[str, By]) -> tuple[By, By]:
        """Return the lists of two attributes in the order in which an atom joins them."""
        in_order = self.stored[atom].attributes[0] == a
        return (neighbours[a], neighbours[b]) if in_order else (neighbours[b], neighbours[a])


def _by_attribute(attributes: Iterable[str], atoms: Iterable[Atom]) -> dict[str, list[Atom]]:
    """Return for each attribute the atoms that have it."""
    found: dict[str, list[Atom]] = {a: [] for a in attributes}
    for atom in atoms:
        for a in dict.fromkeys(atom.attributes):
            found[a].append(atom)
    return found
