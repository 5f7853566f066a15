"""What plans are executed on, and what they list: ranges of seeds, and rows of matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
