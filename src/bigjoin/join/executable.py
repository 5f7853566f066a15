"""What executes a plan where the whole index is at hand: it counts or lists, range of seeds by range of seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes

Range: TypeAlias = tuple[int, int, int, int]
"""(first, last, low, high): codes first..last - 1 of the root, and of their lists only the stretch from low to high."""


@dataclass(frozen=True, slots=True)
class MatchRows:
    """Prefixes, a row per attribute and a column per prefix; for each tail, how many values each prefix has, and all values."""

    prefixes: Codes
    tails: tuple[tuple[NDArray[np.int64], Codes], ...] = ()


class Executable(Protocol):
    """A plan bound to an index, to be executed range by range: as compiled loops, or on batches (`batched.py`)."""

    @property
    def tally(self) -> NDArray[np.int64]:
        """How many prefixes each loop or step of a count had so far, and then how many candidates each had."""

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""


class CountExecutable(Executable, Protocol):
    """An executable that counts."""

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = ...) -> int:
        """Return the count for some ranges of seeds."""


class ListExecutable(Executable, Protocol):
    """An executable that lists matches."""

    attributes: list[str]
    """Those of the prefixes, in their order; those of the tails follow."""

    def rows(self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = ...) -> Iterator[MatchRows]:
        """Give the matches of ranges of seeds, at most `size` prefixes at a time."""
