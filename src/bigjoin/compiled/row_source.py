"""Write the sets inside a universe as bits: `universes.py` decides which, `kernels/rows.py` says what that means.

A list becomes a row the first time that it pays, in space that is kept from one universe to the next. Whether a row is there is
told by its *era*: each universe that begins has a new number, so that nothing has to be cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from bigjoin.compiled.found_sets import BitSet, FoundSet, SetSlice, Settled
from bigjoin.compiled.set_source import SetSource
from bigjoin.compiled.stages import Bound, BoundLoop, CodeSet, ExtensionList
from bigjoin.compiled.universes import RowKind, Universe, Universes, is_below_key, own_cut
from bigjoin.joins.bind import Binder
from bigjoin.query.nest import Nest

MAX_ROW_WORDS = 1 << 21
"""Words that the rows of one kind may take together: 16 MiB."""

_NEXT_PLACES = {"<": (("high", ""),), ">": (("low", " + 1"),), "==": (("high", " + 1"), ("low", ""))}
"""Which ends of a range of places a bound sets: to the first place that is not below the bound's code, or that code + 1."""


class RowSource(SetSource):
    """Writes the sets of loops as lists, or as bits inside a universe."""

    def __init__(self, nest: Nest, binder: Binder) -> None:
        super().__init__(nest, binder)
        self.settled: list[Settled] = []
        """The universes that there are at this point, the innermost last."""
        self.known_places: dict[int, tuple[Universe, str]] = {}
        """For the position of each loop over bits: the universe, and the variable of the place of its value."""
        self.loops_over: dict[BitSet, tuple[int, ...] | None] = {}
        """The position of the innermost loop over a set."""

    @cached_property
    def universes(self) -> Universes:
        """The universes of the nest."""
        return Universes(self.nest)

    # Universes

    @contextmanager
    def marking(self, heads: Sequence[BoundLoop], depth: int, iterations: str) -> Iterator[None]:
        """Let the universes of a depth begin, then mark its other sets, while the code written inside runs."""
        before, begun = len(self.settled), {settled.universe for settled in self.settled}
        wanted = {stage.codes for head in heads for loop in head.walk() for stage in loop.stages}
        level, outer = self.level, len(self.clearing)
        for universe in self.universes.at(depth):
            # Loops whose sum is kept are written inside those around them: there, a universe has begun already.
            if (
                universe not in begun
                and universe.codes in wanted
                and isinstance(found := self.lookup(universe.codes), SetSlice)
            ):
                self.settle(universe, found)
        with super().marking(heads, depth, iterations):
            yield
        self.level = level
        self.clear(outer)
        del self.clearing[outer:], self.settled[before:]

    def settle(self, universe: Universe, found: SetSlice) -> None:
        """Write how a universe begins."""
        number = self.universes.all.index(universe)
        places = self.derived(f"places{number}", lambda: np.zeros(self.domain, np.int32))
        eras = self.derived("eras", lambda: np.zeros(1, np.int64))
        start, stop = self.let("first", found.start), self.let("last", found.stop)
        members = SetSlice(found.array, start, stop)
        words = self.let("words", f"(({members.size}) >> 6) + 1")
        self.line(f"settle({places}, {found.array}, {start}, {stop})")
        self.line(f"{eras}[0] += 1")
        self.settled.append(Settled(universe, members, places, words, self.let("era", f"{eras}[0]")))
        self.clearing.append((f"mark({places}, {found.array}, {start}, {stop}, 0)",))

    def universe_of(self, wanted: CodeSet) -> Settled | None:
        """Return the universe inside which a set is kept as bits, if there is one."""
        known = (u for u in self.settled if u.universe.codes.holds_all_of(wanted, self.nest.ordered))
        return next(known, None)

    def place_of(self, position: int, universe: Settled) -> str:
        """Return the place of a value that is a member of a universe."""
        home, place = self.known_places.get(position, (None, ""))
        return place if home == universe.universe else f"int64({universe.places}[x{position}])"

    def home_of(self, position: int) -> Settled | None:
        """Return a universe that the values of a loop are members of."""
        loop = next((loop for loop in self.loops if loop.position == position), None)
        return self.universe_of(loop.extensions) if loop is not None and loop.stages else None

    # Sets

    def needed(self, heads: Sequence[BoundLoop], depth: int) -> Iterator[tuple[BoundLoop, CodeSet]]:
        """Give the sets that become known at a depth, and first those of rows that are kept: one of them may be empty."""
        yield from sorted(super().needed(heads, depth), key=lambda one: not self.is_kept(one[1]))

    def is_kept(self, wanted: CodeSet) -> bool:
        """Tell whether a set is that of a row which is kept."""
        universe = self.universe_of(wanted)
        if universe is None:
            return False
        new = wanted.lists - self.known_part(wanted, universe)[0].lists
        return all(self.kind_of(part, wanted, universe)[0] is not None for part in new)

    def is_listed(self, wanted: CodeSet) -> bool:
        """Tell whether a set is written as a list, and not as bits."""
        return self.universe_of(wanted) is None

    def materialise(self, wanted: CodeSet, loop: BoundLoop | None) -> FoundSet:
        """Write the code that finds a set, and return where it is."""
        return super().materialise(wanted, loop) if self.is_listed(wanted) else self.as_bits(wanted, loop)

    def as_bits(self, wanted: CodeSet, loop: BoundLoop | None, *, counted: bool = False) -> BitSet:
        """Write a part of a universe: the smallest part known so far that holds it, met with what is not yet in that.

        If `counted`, only its size is found.
        """
        universe = self.universe_of(wanted)
        assert universe is not None
        codes, found = self.known_part(wanted, universe)
        lists = sorted(wanted.lists - codes.lists, key=lambda part: (part.trie, part.key))
        without = sorted(wanted.without - codes.without, key=lambda part: (part.trie, part.key, repr(part.after)))
        bounds = {b for b in wanted.bounds - codes.bounds if not any(part.key == (b.position,) for part in lists)}
        if found is None and not lists:
            found = self.new_set(universe, lambda out: f"all_members({universe.words}, {universe.members.size}, {out})")
        if bounds and found is not None:
            found, bounds = self.between(found, bounds), set()
        steps = [(part, False) for part in lists] + [(part, True) for part in without]
        for i, (part, negated) in enumerate(steps):
            only_size = counted and i == len(steps) - 1 and not bounds
            found = self.met(found, universe, part, wanted, loop if i == 0 else None, negated=negated, counted=only_size)
        assert found is not None
        return self.between(found, bounds) if bounds else found

    def known_part(self, wanted: CodeSet, universe: Settled) -> tuple[CodeSet, BitSet | None]:
        """Return the smallest part of a universe already written that holds a set: what it is, and where; None is all of it."""
        return self.smallest_known(wanted, BitSet, universe) or (universe.universe.codes, None)

    def met(
        self,
        found: BitSet | None,
        universe: Settled,
        part: ExtensionList,
        wanted: CodeSet,
        loop: BoundLoop | None,
        *,
        negated: bool,
        counted: bool,
    ) -> BitSet:
        """Write what a set shares with a list, or if `negated` does not share with it; None is the whole universe."""
        words, size = ("None, None, 0", universe.members.size) if found is None else (found.arguments, found.size)
        if found is not None and part.key == self.loops_over.get(found) and is_below_key(part, wanted):
            words = f"{found.bits}, {found.at}, i{part.key[0]} + 1"  # the words beyond that of the key have nothing below it
        kind, home = self.kind_of(part, wanted, universe)
        values = self.array(self.nest.tries[part.trie].values)
        within, flip = f"{universe.places}, {universe.arguments}, {values}", "ONES" if negated else "ZERO"
        if kind is None or home is None:
            sliced = self.own_slice(part, wanted)
            self.tally_size(loop, f"min({size}, {sliced.size})")
            if found is None and not negated:
                row = self.derived("row", lambda: np.empty(self.max_words, np.uint64))
                whole = f"{row}, {universe.words}, {within}, {sliced.start}, {sliced.stop}"
                return self.new_set(universe, lambda out: f"members_in_list({whole}, {out})", counted=counted)
            listed = f"{words}, {size}, {within}, {sliced.start}, {sliced.stop}, {flip}"
            return self.new_set(universe, lambda out: f"meet_list({listed}, {out})", counted=counted)
        rows = self.rows_of(kind)
        q, era = self.let("q", self.place_of(part.key[0], home)), max((home, universe), key=self.settled.index).era
        start, length = f"{rows}starts[{q}]", f"{rows}lengths[{q}]"
        whole = f"{start}, {start} + {length}"
        with self.block(f"if {rows}ready[{q}] != {era}:"):
            with self.block(f"if {rows}seen[{q}] != {era}:"):
                sliced = self.own_slice(part, wanted)
                self.line(f"{start}, {length} = {sliced.start}, max(0, {sliced.size})")
                self.line(f"{rows}seen[{q}], {rows}spent[{q}] = {era}, 0")
            made = f"{rows}, {rows}ready, {rows}spent, {q}, {era}, {universe.words}"
            self.line(f"make_row_if_paid({made}, {within}, {whole}, {size})")
        self.tally_size(loop, f"min({size}, {length})")
        by_row = f"meet_row({words}, {rows}, {q} * {universe.words}, {universe.words}, {flip}"
        by_list = f"meet_list({words}, {size}, {within}, {whole}, {flip}"
        is_made = f"{rows}ready[{q}] == {era}"
        return self.new_set(universe, lambda out: f"{by_row}, {out}) if {is_made} else {by_list}, {out})", counted=counted)

    def kind_of(self, part: ExtensionList, wanted: CodeSet, universe: Settled) -> tuple[RowKind | None, Settled | None]:
        """Return the kind of a list's row, if such rows are kept, and the universe that the list's key is a member of."""
        home = self.home_of(part.key[0]) if len(part.key) == 1 else None
        if home is None:
            return None, None
        return self.universes.kind(part, own_cut(part, wanted), home.universe, universe.universe), home

    def own_slice(self, part: ExtensionList, wanted: CodeSet) -> SetSlice:
        """Write where a list lies, cut by those bounds of a set that its own key sets."""
        return self.cut(self.slice_of(part), frozenset(b for b in wanted.bounds if part.key == (b.position,)), part)

    def rows_of(self, kind: RowKind) -> str:
        """Return the array of the rows of a kind, which has others beside it: what is known of each row."""
        name = f"rows{sorted(self.universes.kinds, key=repr).index(kind)}"
        most = self.longest_set(kind.home.codes) + 2
        words = (self.longest_set(kind.universe.codes) >> 6) + 1
        self.derived(name, lambda: np.empty(min(MAX_ROW_WORDS, most * words), np.uint64))
        for note in ("ready", "seen", "spent", "starts", "lengths"):
            self.derived(f"{name}{note}", lambda: np.zeros(most, np.int64))
        return name

    @cached_property
    def max_words(self) -> int:
        """How many words a set can have, and one more: sets are written before it is known whether their last word is zero."""
        return max(self.longest_set(universe.codes) for universe in self.universes.all) // 64 + 2

    def between(self, found: BitSet, bounds: Collection[Bound]) -> BitSet:
        """Write the part of a set within bounds."""
        members = found.within.members
        low, high = "0", f"{members.size} + 1"
        for bound in sorted(bounds, key=str):
            for end, more in _NEXT_PLACES[bound.op]:
                place = f"lower_bound({found.within.arguments}, {self.code_of(bound)}{more}) - {members.start} + 1"
                low, high = (f"max({low}, {place})", high) if end == "low" else (low, f"min({high}, {place})")
        return self.new_set(found.within, lambda out: f"meet_places({found.arguments}, {low}, {high}, {out})")

    def new_set(self, universe: Settled, written: Callable[[str], str], *, counted: bool = False) -> BitSet:
        """Write a set by a call, given the space for it; if `counted`, only how many members it has."""
        if counted:
            self.line(f"_, {(size := self.name('size'))} = {written('None, None')}")
            return BitSet(universe, "None", "None", "0", size)
        bits = self.derived(f"bits{self.buffers}", lambda: np.empty(self.max_words, np.uint64))
        at = self.derived(f"at{self.buffers}", lambda: np.empty(self.max_words, np.int32))
        self.buffers += 1
        kept, size = self.name("kept"), self.name("size")
        self.line(f"{kept}, {size} = {written(f'{bits}, {at}')}")
        return BitSet(universe, bits, at, kept, size)

    # What is done with a set

    @contextmanager
    def each(self, loop: BoundLoop, found: FoundSet, begin: str) -> Iterator[None]:
        """Write a loop over the members of a set, from one that it begins with."""
        if isinstance(found, SetSlice):
            with super().each(loop, found, begin):
                yield
            return
        x, p, i, rest = (f"{name}{loop.position}" for name in ("x", "p", "i", "rest"))
        self.write_all(f"{i} = 0", f"{rest} = {found.bits}[0]")
        with self.block(f"for n{loop.position} in range({found.size}):"):
            with self.block(f"while {rest} == ZERO:"):
                self.write_all(f"{i} += 1", f"{rest} = {found.bits}[{i}]")
            self.line(f"{p} = (int64({found.at}[{i}]) << 6) + lowest({rest})")
            self.line(f"{rest} = without_lowest({rest})")
            self.open(*([] if begin == found.begin else [f"{p} >= {begin}"]))
            self.line(f"{x} = int64({found.within.members.array}[{found.within.members.start} + {p} - 1])")
            self.known_places[loop.position] = (found.within.universe, p)
            outer, self.loops_over[found] = self.loops_over.get(found), (loop.position,)
            yield
            self.loops_over[found] = outer
            del self.known_places[loop.position]

    def contains(self, found: FoundSet, code: str) -> str:
        """Return as an expression whether a set holds a code."""
        if isinstance(found, SetSlice):
            return super().contains(found, code)
        return f"holds_place({found.arguments}, int64({found.within.places}[{code}]))"
