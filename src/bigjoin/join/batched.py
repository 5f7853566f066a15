"""Execute a plan on batches: for patterns whose loops would be too large to compile, and for small epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

import numpy as np

from bigjoin.join.bind import ReadableIndex, bind
from bigjoin.join.executable import MatchRows, Range
from bigjoin.join.generic_join import GenericJoin
from bigjoin.join.seeds import equal_ranges
from bigjoin.query.plan import Plan


class Batched:
    """A plan bound to an index, with the interface of compiled loops; its seeds are the tuples of the first atom.

    Counting raises TooManyPrefixesError beyond `max_prefixes` prefixes before the last step. The last `tails` attributes are
    listed as tails, with one value for each prefix.
    """

    def __init__(self, plan: Plan, index: ReadableIndex, *, max_prefixes: float = inf, tails: int = 0) -> None:
        self.plan, self.max_prefixes = bind(plan, index), max_prefixes
        self.attributes = list(plan.attributes[: len(plan.attributes) - tails])
        self.tally = np.zeros(2 * (len(plan.steps) + 1), np.int64)

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""
        return [(first, last, 0, 0) for first, last in equal_ranges(self.plan, parts)]

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = lambda _: None) -> int:
        """Return the count for ranges of seeds, and report progress after each."""
        join = GenericJoin(self.plan, counting=True, max_prefixes=self.max_prefixes)
        for first, last, *_ in ranges:
            join.count([(first, last)])
            progress(1)
        self.tally += np.array([*join.tally.prefixes, *join.tally.candidates])
        return join.tally.matches

    def rows(self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = lambda _: None) -> Iterator[MatchRows]:
        """Give the matches of ranges of seeds, at most `size` at a time."""
        width = len(self.attributes)
        for first, last, *_ in ranges:
            for found in GenericJoin(self.plan, counting=False, batch_size=size).matches([(first, last)]):
                ones = np.ones(found.shape[1], np.int64)
                yield MatchRows(found[:width], tuple((ones, tail) for tail in found[width:]))
            progress(1)
