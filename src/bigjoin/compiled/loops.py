"""Execute a nest as compiled loops: the fast form of the plan that `generic_join` executes on batches.

The seeds are the codes of the root's attribute, cut into ranges; if only one loop hangs on the root, a range may also end
within the list of a hub. Counts are exact however large they are: what belongs to one code of the root fits into 64 bits, or
else the count is found modulo several primes and put together from the remainders; sums over codes are Python integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from bigjoin.compiled.count_source import CountSource
from bigjoin.compiled.list_source import ListSource
from bigjoin.compiled.tree_source import TreeCountSource, TreeListSource
from bigjoin.index.trie import Trie
from bigjoin.joins.bind import Binder, ReadableIndex
from bigjoin.joins.match_rows import MatchRows, Range
from bigjoin.kernels.generated import load
from bigjoin.kernels.jit import has_machine_code
from bigjoin.query.nest import Nest, PlanTree
from bigjoin.query.query import Query
from bigjoin.quota import quota

SAMPLED_POSITIONS = 1 << 16
"""Tuples behind the seeds whose work is estimated, to cut ranges of equal work."""

MAX_INT64_COUNT = 1 << 62
"""Counts below this are added up in 64 bits."""

_NO_LIMIT = int(np.iinfo(np.int64).max)


class Compiled:
    """A nest bound to an index and written as the source of one function, which is compiled when it is first called."""

    def __init__(self, generator: CountSource) -> None:
        self.generator = generator
        self.source = generator.function()
        self.tally = np.zeros(2 * len(generator.loops), np.int64)

    @property
    def is_too_large(self) -> bool:
        """Whether the function is too large to compile, and the plan should be executed on batches instead."""
        return self.generator.is_too_large

    @property
    def scratch_bytes(self) -> int:
        """The most memory that the arrays of the function take, apart from those of the index."""
        return sum(array.nbytes for array in self.generator.arrays.values() if array.base is None)

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""
        return _ranges_of_equal_work(self.generator, parts)

    def _function(self, *more: NDArray[np.generic] | int) -> Callable[..., int]:
        """Return the function of a range, given the arguments between the constants and the arrays."""
        function, limits = load(self.source), quota()
        self.generator.arrays["stopped"] = limits.flag
        arguments = self._arguments(*more)

        def call(*bounds: int) -> int:
            found = int(function(*bounds, *arguments))
            limits.check()
            return found

        return call

    def _arguments(self, *more: NDArray[np.generic] | int) -> tuple[NDArray[np.generic] | int, ...]:
        """Return the arguments of the function behind those of a range."""
        constants = np.array(self.generator.constants or [0], np.int64)
        return (self.tally, constants, *more, *self.generator.arrays.values())


class Counting(Compiled):
    """A nest bound to an index and compiled to count matches."""

    def __init__(self, nest: Nest, query: Query, index: ReadableIndex) -> None:
        self.nest, self.binder = nest, Binder(query, nest.attributes, index)
        super().__init__(self._source())

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = lambda _: None) -> int:
        """Return the count for some ranges of seeds, and report each range when it is done."""
        per_code, whole = self._bounds()
        if per_code >= MAX_INT64_COUNT:
            return self._count_by_primes(list(ranges), min(per_code * self._seeds(), whole))
        function = self._function()
        # As many codes of the root as can be added up in 64 bits.
        codes = max(1, MAX_INT64_COUNT // per_code) if whole >= MAX_INT64_COUNT else MAX_INT64_COUNT
        total = 0
        for first, last, low, high in ranges:
            for start in range(first, last, codes):
                total += function(start, min(last, start + codes), low, high)
            progress(1)
        return total

    def _count_by_primes(self, ranges: list[Range], bound: int) -> int:
        """Count modulo primes until their product exceeds a bound on the count, and put the count together."""
        total, product = 0, 1
        modular = self._modular
        modular.tally = self.tally
        for prime in primes():
            modular.generator.forget_sums()
            function = modular._function(prime)
            remainder = sum(function(*bounds) for bounds in ranges) % prime
            total += product * ((remainder - total) * pow(product, -1, prime) % prime)
            product *= prime
            if product > bound:
                return total
        raise AssertionError("there are enough primes")

    @property
    def is_compiled(self) -> bool:
        """Whether there is machine code of the function: from this process, or from one before."""
        return has_machine_code(load(self.source), (0, 0, 0, 0, *self._arguments()))

    @property
    def _modular(self) -> Compiled:
        return Compiled(self._source(modular=True))

    def _source(self, *, modular: bool = False) -> CountSource:
        return (TreeCountSource if self.nest.is_tree else CountSource)(self.nest, self.binder, modular=modular)

    def _seeds(self) -> int:
        return self.binder.size(self.nest.root.attribute)

    def _bounds(self) -> tuple[int, int]:
        return bounds_on_count(self.generator, self.nest, self.binder)


class Listing(Compiled):
    """A chain of loops, perhaps with tails side by side at its end, bound to an index and compiled to list matches."""

    def __init__(self, nest: Nest, query: Query, index: ReadableIndex, *, factorized: bool = False) -> None:
        generator = ListSource(nest, Binder(query, nest.attributes, index), factorized=factorized)
        super().__init__(generator)
        self.tails = [tail.loop.attribute for tail in generator.tails]
        self.attributes = [a for a in nest.attributes if a not in self.tails]

    def rows(self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = lambda _: None) -> Iterator[MatchRows]:
        """Give the matches of ranges of seeds, at most `size` prefixes at a time; the next rows overwrite them."""
        code_type = self.generator.code_type
        out = np.empty((len(self.attributes), size), code_type)
        state = np.zeros(len(self.attributes) + 2, np.int64)
        space = max([*self.generator.max_lengths, size])
        tails = [(np.empty(size, np.int64), np.empty(space, code_type)) for _ in self.tails]
        function = self._function(out, state, *(array for tail in tails for array in tail))
        for bounds in ranges:
            state[0] = 0
            while True:
                filled = function(*bounds)
                if filled:
                    lists = tuple((lengths[:filled], values[: int(lengths[:filled].sum())]) for lengths, values in tails)
                    yield MatchRows(out[:, :filled], lists)
                if not state[0]:
                    break
            progress(1)


class TreeListing(Compiled):
    """A tree of plans bound to an index and compiled to list the matches of each of its queries."""

    def __init__(self, tree: PlanTree, index: ReadableIndex) -> None:
        self.tree = tree
        self.source_text = TreeListSource(tree.nest, Binder(tree.scope, tree.nest.attributes, index))
        super().__init__(self.source_text)

    def rows(
        self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[tuple[int, MatchRows]]:
        """Give the matches of ranges of seeds, each time of one query, by its number; the next rows overwrite them."""
        ends = self.source_text.rows
        depths = [loop.depth + 1 for loop in ends]
        spaces = [np.empty((depth, size), self.generator.code_type) for depth in depths]
        state, filled = np.zeros(max(depths) + 2, np.int64), np.zeros(len(ends), np.int64)
        function = self._function(state, filled, *spaces)
        for bounds in ranges:
            state[0] = 0
            while True:
                filled[:] = 0
                function(*bounds)
                for number, space, rows in zip(self.source_text.numbers, spaces, filled.tolist(), strict=True):
                    if rows:
                        yield number, MatchRows(space[:, :rows])
                if not state[0]:
                    break
            progress(1)


def bounds_on_count(generator: CountSource, nest: Nest, binder: Binder) -> tuple[int, int]:
    """Return what the count of a nest cannot exceed: for one code of the root, and in all.

    A loop has at most as many values as its longest list, and there are at most as many matches as the product of the sizes
    of relations that cover all attributes.
    """
    per_code = generator.most_inside(generator.root)
    whole = per_code * max(1, binder.size(nest.root.attribute))
    if is_shared(nest) or nest.is_tree:
        return per_code, whole
    uncovered, cover = set(nest.attributes), 1
    atoms = [e.atom for loop in nest.root.walk() for e in loop.step.extenders]
    while uncovered:
        atom = max(atoms, key=lambda atom: len(uncovered & set(atom.attributes)))
        uncovered -= set(atom.attributes)
        cover *= max(1, binder.index.statistics.of(atom).tuples)
    return per_code, min(whole, cover)


def is_shared(nest: Nest) -> bool:
    """Tell whether one counter of a nest stands for several attributes, of which the nest then binds one alone."""
    return any(len(set(loop.weights)) < len(loop.weights) for loop in nest.root.walk())


def primes() -> Iterator[int]:
    """Give primes from 2^31 downwards."""
    for number in range(2**31 - 1, 2**30, -2):
        if all(number % d for d in range(3, isqrt(number) + 1, 2)):
            yield number


def _ranges_of_equal_work(generator: CountSource, parts: int) -> list[Range]:
    """Cut the seeds into ranges. The work of a seed is estimated as one, plus the length of the list that is read next."""
    root, (trie, divisible) = generator.root, generator.seeds
    bounds = root.condition.bounds
    if bounds.empty or len(set(bounds.codes)) > 1:
        return []
    if trie is None or (root.stages and not divisible):
        sizes = [len(generator.nest.tries[part.trie]) for stage in root.stages for part in stage.codes.lists]
        codes = min(sizes, default=generator.binder.size(generator.binder.order[root.position]))
        return between(np.linspace(0, codes, parts + 1).astype(np.int64))
    offsets = trie.levels[0].offsets[1:] if root.stages else trie.levels[0].offsets  # the first list of a delta has no key
    first, last = 0, len(offsets) - 1
    if bounds.codes and not root.stages:
        first = int(trie.nodes([np.array(bounds.codes[:1])], 1)[0])
        last = first + 1
    low, high = int(offsets[first]), int(offsets[last])
    positions = np.arange(low, high, -(-(high - low) // SAMPLED_POSITIONS) or 1)
    if not len(positions):
        return between(np.array([first, last]))
    work = np.cumsum(_work(generator, trie, positions))
    cuts = positions[np.searchsorted(work, work[-1] * np.arange(1, parts) / parts)]
    if not divisible:
        nodes = np.searchsorted(offsets, cuts, side="right") - 1
        return between(np.concatenate([[first], np.clip(nodes, first, last), [last]]))
    ends = np.unique(np.concatenate([[low], cuts, [high]]))
    firsts = np.searchsorted(offsets, ends[:-1], side="right") - 1
    lasts = np.searchsorted(offsets, ends[1:], side="left")
    return list(zip(firsts.tolist(), lasts.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def between(bounds: NDArray[np.int64]) -> list[Range]:
    """Return the ranges between bounds, with whole lists."""
    return [(first, last, 0, _NO_LIMIT) for first, last in pairwise(np.unique(bounds).tolist())]


def _work(generator: CountSource, trie: Trie, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Estimate the work behind some tuples of the trie that the root's codes lead to."""
    values = trie.levels[0].values[positions]
    work = np.ones(len(positions))
    child = generator.root.heads[0]
    inner = (loop for loop in child.walk() if loop is not child)
    lists = (part for loop in inner for stage in loop.stages for part in stage.codes.lists)
    read = next((generator.nest.tries[part.trie] for part in lists if part.key[:1] == (child.position,)), None)
    if read is None or int(values.max()) >= (read.nodes_stored if read.places is None else len(read.places)):
        return work  # nothing is read by these values, or only something that has codes of another domain
    offsets, nodes = read.levels[0].offsets, read.nodes([values], len(values)).astype(np.int64)
    return work + (offsets[nodes + 1] - offsets[nodes])
