"""Decide which sets become universes, inside which sets are kept as bits.

Cliques of a vertex a lie within N(a): every set of a deeper loop is a part of N(a), found by intersecting with lists of
vertices that are themselves in N(a). So N(a) becomes a *universe*: its members have places, a part of it is a few words of
bits, and the list of each member becomes a row of bits, once for all loops inside (`kernels/rows.py`).

    for a in all codes:
        U = N(a) below a                                # the universe, at depth 0
        for b in U:
            B = the row of N(b) below b                 # depth 1: bits
            for c in B:
                total += bits of B & the row of N(c)    # depth 2: the row was made once, and is met for many b

A set pays as a universe if such a row is met more than once while the universe lasts: the key of the row must be bound two
loops or more further in, and must have a place: a loop over a part of the same universe, or of another one (in a directed
clique, rows of vertices in In(a) are made in Out(a)). The triangle has no such row, and stays a matter of lists and marks.

And its lists must be long and share much. Where most sets have a member or two, a word is not faster than a list: the 4-cliques
of amazon0601, whose lists typically have 31 values, take a quarter longer by bits, those of soc-Epinions1 (184) a third.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bigjoin.compiled.stages import BoundLoop, BoundNest, CodeSet, ExtensionList


@dataclass(frozen=True, slots=True)
class Universe:
    """A set whose members have places while the loop at its depth has the same value."""

    depth: int
    codes: CodeSet


@dataclass(frozen=True, slots=True)
class RowKind:
    """Rows of the lists in a trie, cut by their own keys, inside a universe; the keys are members of `home`."""

    trie: int
    cut: frozenset[str]
    """How a list is bounded by its key: "<" keeps the extensions below it."""
    home: Universe
    universe: Universe


class Universes:
    """The universes of a nest, and the kinds of rows that are worth keeping."""

    def __init__(self, nest: BoundNest) -> None:
        self.nest, self.ordered = nest, nest.ordered
        loops = list(nest.root.everything())
        self._by_position = {loop.position: loop for loop in loops}
        self.all: list[Universe] = []
        self.kinds: set[RowKind] = set()
        for depth in range(max(loop.depth for loop in loops)):
            for codes in dict.fromkeys(stage.codes for loop in loops for stage in loop.stages if stage.depth == depth):
                self._consider(Universe(depth, codes), loops)

    def at(self, depth: int) -> list[Universe]:
        """Return the universes that a depth begins with."""
        return [universe for universe in self.all if universe.depth == depth]

    def kind(self, part: ExtensionList, cut: frozenset[str], home: Universe, universe: Universe) -> RowKind | None:
        """Return the kind of a list's row, if rows of this kind are kept."""
        kind = RowKind(part.trie, cut, home, universe)
        return kind if part.after is None and kind in self.kinds else None

    def _consider(self, universe: Universe, loops: list[BoundLoop]) -> None:
        """Add a universe, and those that its rows' keys are members of, if a row is met more than once in it."""
        if not self._is_dense(universe) or any(u.codes.holds_all_of(universe.codes, self.ordered) for u in self.all):
            return
        found = {RowKind(part.trie, cut, home, universe) for part, cut, home in self._rows_met_again(universe, loops)}
        if found:
            self.kinds |= found
            for each in (universe, *sorted((kind.home for kind in found), key=repr)):
                if each not in self.all:
                    self.all.append(each)

    def _is_dense(self, universe: Universe) -> bool:
        """Tell whether the lists of a universe are long and share much; those without a key, of labels, do not matter."""
        return all(part.trie in self.nest.dense for part in universe.codes.lists if part.key)

    def _rows_met_again(
        self, universe: Universe, loops: list[BoundLoop]
    ) -> Iterator[tuple[ExtensionList, frozenset[str], Universe]]:
        for loop in loops:
            for stage in loop.stages:
                if stage.depth >= universe.depth + 2 and universe.codes.holds_all_of(stage.codes, self.ordered):
                    bound = loop.path[stage.depth]
                    for part in stage.codes.lists | stage.codes.without:
                        if part.key == (bound,) and part.after is None:
                            home = self._home(self._by_position[bound], universe)
                            if home is not None:
                                yield part, own_cut(part, stage.codes), home

    def _home(self, key: BoundLoop, universe: Universe) -> Universe | None:
        """Return the universe that a key's values are members of: a known one, this one, or the key's own set of that depth."""
        if not key.stages:
            return None
        for known in (*self.all, universe):
            if known.depth <= universe.depth and known.codes.holds_all_of(key.extensions, self.ordered):
                return known
        early = [stage for stage in key.stages if 0 <= stage.depth <= universe.depth]
        return Universe(early[-1].depth, early[-1].codes) if early else None


def is_below_key(part: ExtensionList, codes: CodeSet) -> bool:
    """Tell whether a set only has codes below the key of one of its lists."""
    return any(bound.is_upper for bound in codes.bounds if part.key == (bound.position,))


def own_cut(part: ExtensionList, codes: CodeSet) -> frozenset[str]:
    """Return how a set bounds one of its lists by the list's own key."""
    return frozenset(bound.op for bound in codes.bounds if part.key == (bound.position,))
