"""Run a nest as compiled loops: the fast execution of the plan that `generic_join` runs on batches.

The seeds of a run are the codes of the root's attribute; where one loop alone hangs on it, a hub's list may be cut between
ranges. Counts are exact however large they are: a value that belongs to one code of the root fits 64 bits, or else the count
is found modulo several primes and put together again; sums over codes are Python's integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bind import Binder, Relations
from bigjoin.joins.count_source import CountSource
from bigjoin.joins.list_source import ListSource
from bigjoin.joins.set_source import SetSource
from bigjoin.joins.stages import BoundLoop
from bigjoin.kernels.generated import load
from bigjoin.query.nest import Nest
from bigjoin.query.query import Query

SAMPLE = 1 << 16
"""Seeds that are looked at to estimate where the work lies."""

Range = tuple[int, int, int, int]
"""(first, last, low, high): codes first..last - 1 of the root, of whose lists the stretch from low to high is meant."""


FITS = 1 << 62
"""Counts below this are added up in 64 bits."""


class Counting:
    """A term bound to an index and compiled. `tally` holds the prefixes of each loop, and then the candidates of each."""

    def __init__(self, term: Nest, query: Query, index: Relations) -> None:
        self.binder = Binder(query, term.attributes, index)
        self.term = term
        self.generator = CountSource(term, self.binder)
        self.source = self.generator.counting()
        self.tally = np.zeros(2 * self.generator.loops, np.int64)

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""
        return equal_ranges(self.generator, parts)

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = lambda _: None) -> int:
        """Return the count for some ranges of seeds, and say after each that it is done."""
        each, whole = self._bounds()
        if each >= FITS:
            return self._count_by_primes(list(ranges), min(each * self._seeds(), whole))
        run = self._function(self.generator, self.source)
        # So many codes of the root that their sum fits.
        most = max(1, FITS // each) if whole >= FITS else FITS
        total = 0
        for first, last, low, high in ranges:
            for start in range(first, last, most):
                total += int(run(start, min(last, start + most), low, high))
            progress(1)
        return total

    def _count_by_primes(self, ranges: list[Range], bound: int) -> int:
        """Count modulo several primes, whose product is beyond any count, and put the count together."""
        total, product = 0, 1
        for prime in _primes():
            generator = CountSource(self.term, self.binder, modular=True)
            run = self._function(generator, generator.counting(), prime)
            rest = sum(int(run(*r)) for r in ranges) % prime
            total += product * ((rest - total) * pow(product, -1, prime) % prime)
            product *= prime
            if product > bound:
                return total
        raise AssertionError("there are enough primes")

    def _function(self, generator: SetSource, source: str, *more: int) -> Callable[..., Any]:
        constants = np.array(generator.constants or [0], np.int64)
        return partial(_call, load(source), (self.tally, constants, *more, *generator.arrays.values()))

    def _seeds(self) -> int:
        return self.binder.size(self.term.root.attribute)

    def _bounds(self) -> tuple[int, int]:
        """Return what the count cannot exceed: for one code of the root, and in all.

        A loop has at most as many values as its longest list; and all matches are at most the product of relations that cover
        the attributes.
        """
        each = self.generator.most_inside(self.generator.root)
        weights = [loop.weights for loop in self.term.root.walk()]
        whole = each * max(1, self._seeds())
        if all(len(set(numbers)) == len(numbers) for numbers in weights):  # else a counter stands for several attributes
            uncovered, cover = set(self.term.attributes), 1
            atoms = [e.atom for loop in self.term.root.walk() for e in loop.step.extenders]
            while uncovered:
                atom = max(atoms, key=lambda atom: len(uncovered & set(atom.attributes)))
                uncovered -= set(atom.attributes)
                cover *= max(1, self.binder.index.statistics.of(atom).tuples)
            whole = min(whole, cover)
        return each, whole


@dataclass(frozen=True, slots=True)
class Rows:
    """Prefixes, a row an attribute and a column a prefix; for each tail, how many values each prefix has, and all values."""

    prefixes: Codes
    tails: tuple[tuple[NDArray[np.int64], Codes], ...] = ()


class Listing:
    """A chain of loops, perhaps with tails side by side at its end, bound to an index and compiled, to find matches."""

    def __init__(self, term: Nest, query: Query, index: Relations, *, factorized: bool = False) -> None:
        self.generator = ListSource(term, Binder(query, term.attributes, index), factorized=factorized)
        self.source = self.generator.listing()
        self.tails = [loop.loop.attribute for loop in self.generator.tails]
        self.attributes = [a for a in term.attributes if a not in self.tails]

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""
        return equal_ranges(self.generator, parts)

    def rows(self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = lambda _: None) -> Iterator[Rows]:
        """Give the matches of ranges of seeds, at most `size` prefixes at a time; what is given is overwritten by the next."""
        generator, function = self.generator, load(self.source)
        out = np.empty((len(self.attributes), size), generator.code_type)
        state = np.zeros(len(self.attributes) + 2, np.int64)
        space = max(generator.longest, size)
        tails = [(np.empty(size, np.int64), np.empty(space, generator.code_type)) for _ in self.tails]
        tally, constants = np.zeros(2 * generator.loops, np.int64), np.array(generator.constants or [0], np.int64)
        spaces = [array for pair in tails for array in pair]
        for bounds in ranges:
            state[0] = 0
            while True:
                filled = int(function(*bounds, tally, constants, out, state, *spaces, *generator.arrays.values()))
                if filled:
                    lists = tuple((lengths[:filled], values[: int(lengths[:filled].sum())]) for lengths, values in tails)
                    yield Rows(out[:, :filled], lists)
                if not state[0]:
                    break
            progress(1)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], *bounds: int) -> int:
    return int(function(*bounds, *arguments))


def _primes() -> Iterator[int]:
    """Give primes from 2^31 downwards."""
    for number in range(2**31 - 1, 2**30, -2):
        if all(number % d for d in range(3, isqrt(number) + 1, 2)):
            yield number


def equal_ranges(generator: SetSource, parts: int) -> list[Range]:
    """Cut the seeds into ranges of about equal work: that of a seed is one, and the list that is read next for each value."""
    root = generator.root
    trie, divisible = generator.seeds
    far = np.iinfo(np.int64).max
    window = root.condition.window
    if window.empty or len(set(window.codes)) > 1:
        return []
    if (root.stages and not divisible) or trie is None:
        sizes = [len(generator.tries.all[part.trie]) for _, found in root.stages for part in found.lists]
        last = min(sizes, default=generator.binder.size(generator.binder.order[root.position]))
        bounds = np.unique(np.linspace(0, last, parts + 1).astype(np.int64))
        return [(int(a), int(b), 0, far) for a, b in pairwise(bounds)]
    offsets = trie.levels[0].offsets[1:] if root.stages else trie.levels[0].offsets  # a delta's first list has no key
    first, last = 0, len(offsets) - 1
    if window.codes and not root.stages:
        first = int(trie.nodes([np.array(window.codes[:1])], 1)[0])
        last = first + 1
    low, high = int(offsets[first]), int(offsets[last])
    positions = np.arange(low, high, -(-(high - low) // SAMPLE) or 1)
    if not len(positions):
        return [(first, last, 0, far)]
    total = np.cumsum(_work(generator, trie, positions))
    cuts = positions[np.searchsorted(total, total[-1] * np.arange(1, parts) / parts)]
    nodes = np.searchsorted(offsets, cuts, side="right") - 1
    if not divisible:
        bounds = np.unique(np.concatenate([[first], np.clip(nodes, first, last), [last]]))
        return [(int(a), int(b), 0, far) for a, b in pairwise(bounds)]
    ends = np.unique(np.concatenate([[low], cuts, [high]]))
    firsts = np.searchsorted(offsets, ends[:-1], side="right") - 1
    lasts = np.searchsorted(offsets, ends[1:], side="left")
    return [(int(f), int(n), int(a), int(b)) for f, n, a, b in zip(firsts, lasts, ends[:-1], ends[1:], strict=True)]


def _work(generator: SetSource, trie: Trie, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Estimate the work behind tuples of the seed."""
    values = trie.levels[0].values[positions]
    work = np.ones(len(positions))
    child = next(iter(generator.root.heads), None)
    grown = _next_list(generator, child) if child is not None else None
    codes = 0 if grown is None else grown.nodes_stored if grown.places is None else len(grown.places)
    if grown is not None and int(values.max()) < codes:  # else they are of another domain
        offsets = grown.levels[0].offsets
        nodes = grown.nodes([values], len(values)).astype(np.int64)
        work += offsets[nodes + 1] - offsets[nodes]
    return work


def _next_list(generator: SetSource, child: BoundLoop) -> Trie | None:
    """Return the lists that the first loop inside a child of the root reads by the child's attribute."""
    for loop in child.walk():
        for _, found in loop.stages:
            for part in found.lists:
                if loop is not child and part.key[:1] == (child.position,):
                    return generator.tries.all[part.trie]
    return None
