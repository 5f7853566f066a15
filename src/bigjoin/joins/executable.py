"""The interface of what executes a plan over a whole index: it counts or lists the matches of ranges of seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes

Range: TypeAlias = tuple[int, int, int, int]
"""(first, last, low, high): codes first..last - 1 of the root, and the stretch low..high - 1 of their lists."""


@dataclass(frozen=True, slots=True)
class MatchRows:
    """Matches, or prefixes whose last attributes are tails: lists of values that combine freely."""

    prefixes: Codes
    """A row per attribute, a column per prefix."""
    tails: tuple[tuple[NDArray[np.int64], Codes], ...] = ()
    """For each tail, how many values each prefix has, and the values of all prefixes."""


class Executable(Protocol):
    """A plan bound to an index, executed as compiled loops or on batches (`generic_join.py`)."""

    @property
    def tally(self) -> NDArray[np.int64]:
        """The prefixes of each loop or step of a count so far, followed by the candidates of each."""

    def ranges(self, parts: int) -> list[Range]:
        """Cut the seeds into at most `parts` ranges of about equal work."""


class CountExecutable(Executable, Protocol):
    """An executable that counts."""

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = ...) -> int:
        """Return the count for ranges of seeds."""


class ListExecutable(Executable, Protocol):
    """An executable that lists matches."""

    attributes: list[str]
    """The attributes of prefixes in order, without those of the tails."""

    def rows(self, ranges: Iterable[Range], size: int, progress: Callable[[int], None] = ...) -> Iterator[MatchRows]:
        """Give the matches of ranges of seeds, at most `size` prefixes at a time."""
