"""Run a plan on batches, one step after another: for patterns so large that their loops would be no function to compile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

import numpy as np

from bigjoin.joins.bind import Relations, bind
from bigjoin.joins.compiled import MatchRows, Range
from bigjoin.joins.generic_join import Tally, count_matches, matches
from bigjoin.joins.seeds import equal_ranges
from bigjoin.query.plan import Plan


class Batched:
    """A plan bound to an index, which counts and lists as compiled loops do; its seeds are the tuples of the first atom.

    A count that comes to more than `most` prefixes before the last step is given up: TooManyPrefixesError. The last `tails`
    attributes are given as lists, of one value each.
    """

    def __init__(self, plan: Plan, index: Relations, *, most: float = inf, tails: int = 0) -> None:
        self.plan, self.most = bind(plan, index), most
        self.attributes = list(plan.attributes[: len(plan.attributes) - tails])
        self.tally = np.zeros(2 * (len(plan.steps) + 1), np.int64)

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""
        return [(first, last, 0, 0) for first, last in equal_ranges(self.plan, parts)]

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = lambda _: None) -> int:
        """Return the count for some ranges of seeds, and say after each that it is done."""
        total, tally = 0, Tally.of(self.plan, self.most)
        for first, last, *_ in ranges:
            total += count_matches(self.plan, [(first, last)], tally=tally)
            progress(1)
        self.tally += np.array([*tally.prefixes, *tally.candidates])
        return total

    def rows(self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = lambda _: None) -> Iterator[MatchRows]:
        """Give the matches of ranges of seeds, at most `size` at a time."""
        for first, last, *_ in ranges:
            for found in matches(self.plan, [(first, last)], batch_size=size):
                width = len(self.attributes)
                ones = np.ones(found.shape[1], np.int64)
                yield MatchRows(found[:width], tuple((ones, tail) for tail in found[width:]))
            progress(1)
