"""A count over relations that change: the function is written once, and goes on from version to version with other arrays.

Writing a function takes a millisecond or two, which is longer than a small epoch has to count. But from one epoch to the next,
nothing of the function changes but the arrays that it reads. So each argument is remembered by where it came from: a relation
at a version, in a column order, and a part of that trie. Scratch space is made with room to spare. Whatever else the text may
depend on (constants, properties, lists that do not change) is left to functions that are written anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.compiled.count_source import CountSource
from bigjoin.compiled.loops import MAX_INT64_COUNT, Compiled, Counting, between
from bigjoin.compiled.source_text import memory_of, read_only
from bigjoin.index.shards import Shards
from bigjoin.index.trie import Trie
from bigjoin.joins.bind import ReadableIndex
from bigjoin.joins.match_rows import Range
from bigjoin.query.nest import Nest
from bigjoin.query.query import Query

MIN_ROOM_BITS = 14
"""Scratch space is made for 2^14 codes at least: a graph that begins empty doubles often, and this is little memory."""

TrieForm: TypeAlias = tuple[bool, Shards, int, bool, bool]
ArrayPlace: TypeAlias = tuple[int, str]
"""An array of a trie: its level, or -1, and its name."""
Origin: TypeAlias = tuple[int, ArrayPlace]
"""The number of what reads the trie that an array belongs to, and which of its arrays it is."""


class FollowingSource(CountSource):
    """Writes the function that counts, and has scratch space for domains and lists up to twice as large."""

    def size_of(self, attribute: str) -> int:
        """Return how many codes of an attribute there is room for."""
        return _with_room(super().size_of(attribute))

    @cached_property
    def max_lengths(self) -> list[int]:
        """How long the lists of each trie may become."""
        return [_with_room(trie.longest) for trie in self.nest.tries]


class Following:
    """A function with the arrays of one version, which can be exchanged for those of another."""

    def __init__(self, generator: CountSource) -> None:
        self.generator, readings = generator, generator.binder.reads
        self.readings = list(readings)
        self.forms = [_form(trie) for trie in readings.values()]
        numbers = [_number(generator.nest.tries, trie) for trie in readings.values()]
        self.readings_of = [
            (number, [reading for reading, other in enumerate(numbers) if other == number])
            for number in sorted(set(numbers) - {-1})
        ]
        """By the number of a trie of the function: the numbers of those who read it."""
        self.max_lengths = [_with_room(trie.longest) for trie in generator.nest.tries]
        self.origins = _origins(generator) if self._depends_on_arrays_alone() else None
        for loop in generator.loops:  # they are written already, and would keep the arrays of this version
            loop.checks = ()

    def _depends_on_arrays_alone(self) -> bool:
        """Tell whether the text, the constants and the scratch space would be the same for any version."""
        generator = self.generator
        conditions = [loop.condition for loop in generator.loops]
        return not (
            generator.constants
            or any(c.row_filters or c.bounds.codes or c.bounds.empty for c in conditions)
            or any(not f.by_code or f.position is None for c in conditions for f in c.filters)
            or any(name.startswith(("splits", "nodes", "codes")) for name in generator.arrays)
            or not generator.root.stages
            or len(generator.root.extensions.lists) != 1
        )

    def to(self, index: ReadableIndex) -> bool:
        """Go on with another version; return False if its function has to be written anew."""
        generator = self.generator
        if self.origins is None:
            return False
        tries = [index.extensions(*reading) for reading in self.readings]
        if self.forms != [_form(trie) for trie in tries]:
            return False
        known = list(generator.nest.tries)
        for number, readings in self.readings_of:
            first, *others = (tries[reading] for reading in readings)
            if not all(first.has_same_lists(other) for other in others):
                return False
            known[number] = first
        if any(trie.longest > most for trie, most in zip(known, self.max_lengths, strict=True)):
            return False
        divides = generator.seeds[1]
        generator.binder.index, generator.binder.reads, generator.nest.tries[:] = index, {}, known
        if any(generator.binder.size(a) > generator.room[a] for a in generator.binder.order):
            return False
        del generator.seeds
        return generator.seeds[1] == divides and self._exchange(tries)

    def _exchange(self, tries: list[Trie]) -> bool:
        """Give the function the arrays of tries."""
        assert self.origins is not None
        for name, origins in self.origins.items():
            array, *others = (_array(tries[reading], part) for reading, part in origins)
            if any(other is not array and memory_of(other) != memory_of(array) for other in others):
                return False
            self.generator.arrays[name] = read_only(array)
        self.generator.forget_sums()
        return True


class FollowingCount(Counting):
    """A nest that is counted in one version after another."""

    def __init__(self, nest: Nest, query: Query, index: ReadableIndex) -> None:
        super().__init__(nest, query, index)
        self._functions = [Following(self.generator)]

    def follow(self, index: ReadableIndex) -> bool:
        """Go on with another version; if this returns False, the count is of no use any more."""
        return all(function.to(index) for function in self._functions)

    @property
    def whole(self) -> list[Range]:
        """All seeds, as one range."""
        if self._functions[0].origins is None:
            return self.ranges(1)
        (root,) = self.generator.root.extensions.lists
        return between(np.array([0, len(self.generator.nest.tries[root.trie])]))

    @cached_property
    def _modular(self) -> Compiled:
        modular = Compiled(self._source(modular=True))
        self._functions.append(Following(modular.generator))
        return modular

    def _bounds(self) -> tuple[int, int]:
        """Return bounds that hold for all versions, unless they are so large that it matters which version it is."""
        _, whole = self._bounds_with_room
        return self._bounds_with_room if whole < MAX_INT64_COUNT else super()._bounds()

    @cached_property
    def _bounds_with_room(self) -> tuple[int, int]:
        per_code = self.generator.most_inside(self.generator.root)
        return per_code, per_code * self.generator.room[self.nest.root.attribute]

    def _source(self, *, modular: bool = False) -> CountSource:
        return FollowingSource(self.nest, self.binder, modular=modular)


def _with_room(size: int) -> int:
    """Return the next power of two: what grows step by step rarely exceeds it, and what is small never does."""
    return 1 << max(MIN_ROOM_BITS, (size - 1).bit_length())


def _parts(trie: Trie) -> Iterator[ArrayPlace]:
    """Give the arrays that a trie has, as `_array` finds them."""
    if trie.places is not None:
        yield -1, "places"
    for number in range(len(trie.levels)):
        yield number, "offsets"
        yield number, "values"


def _array(trie: Trie, part: ArrayPlace) -> NDArray[Any]:
    """Return one of the arrays of a trie."""
    number, name = part
    if number < 0:
        assert trie.places is not None
        return trie.places
    return trie.levels[number].offsets if name == "offsets" else trie.levels[number].values


def _origins(generator: CountSource) -> dict[str, list[Origin]] | None:
    """Return where each array of a function comes from; None if one of them is of no trie."""
    places: dict[Any, list[Origin]] = {}
    for reading, trie in enumerate(generator.binder.reads.values()):
        for part in _parts(trie):
            places.setdefault(memory_of(_array(trie, part)), []).append((reading, part))
    if not generator.known.keys() <= places.keys():
        return None
    return {name: places[memory] for memory, name in generator.known.items()}


def _number(tries: list[Trie], wanted: Trie) -> int:
    """Return the number of a trie; -1 if the function does not read it."""
    return next((number for number, trie in enumerate(tries) if trie.has_same_lists(wanted)), -1)


def _form(trie: Trie) -> TrieForm:
    """Return what decides by which steps a function reads a trie."""
    return trie.keyed, trie.shards, len(trie.levels), trie.places is None, trie.keys is None
