"""An extender: an atom in its role in a step. It counts, proposes and intersects the extensions of prefixes.

The bound attributes of the atom are a key, and the key's sorted list holds the extensions: values of the new attribute. All
three verbs read the part of the list within the bounds that symmetry restrictions and equalities set for the new attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.after import After
from bigjoin.joins.blocks import Counts, Proposals
from bigjoin.kernels.count import count_extensions
from bigjoin.kernels.intersect import count_intersections, exclude_extensions, intersect_extensions
from bigjoin.kernels.lists import list_starts

CodeBounds: TypeAlias = tuple[Codes, Codes]
"""For each prefix a lower bound on extensions (included) and an upper bound (excluded); an empty array means no bound."""


@dataclass(frozen=True, slots=True)
class BoundExtender:
    """The lists of an extender, and the positions of its key and of the new attribute in a prefix."""

    trie: Trie
    key: tuple[int, ...]
    value: int
    after: After | None = None
    """Restricts the tuples of a delta to those that come after the seed's tuple."""

    def count(self, number: int, block: Counts, code_bounds: CodeBounds) -> None:
        """Lower the counts of prefixes that have fewer extensions here, and record `number` as their proposer."""
        count_extensions(*self._lists(block), *code_bounds, number, block.counts, block.proposers)

    def propose(self, block: Counts, code_bounds: CodeBounds) -> Proposals:
        """Return each prefix with its extensions, which are not copied."""
        begins = np.empty(len(block), np.int64)
        list_starts(*self._lists(block), code_bounds[0], begins)
        return Proposals(block.prefixes, begins + block.starts, block.counts, self.trie.values)

    def intersect(self, block: Proposals, code_bounds: CodeBounds, marks: NDArray[np.uint8]) -> None:
        """Reduce each segment to the candidates that the list of its prefix holds."""
        intersect_extensions(*self._lists(block), *code_bounds, marks, *block.segments)

    def count_common(self, block: Proposals, code_bounds: CodeBounds, marks: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return how many candidates of each segment `intersect` would keep, without changing the segments."""
        counts = np.empty(len(block), np.int64)
        count_intersections(*self._lists(block), *code_bounds, marks, *block.segments, counts)
        return counts

    def exclude(self, block: Proposals, code_bounds: CodeBounds) -> None:
        """Reduce each segment to the candidates that the list of its prefix does not hold: the atom is negated."""
        lower, upper = code_bounds
        if self.after is not None:
            mine = self.after.lower(block.prefixes)
            lower = np.maximum(mine, lower) if len(lower) else mine
        exclude_extensions(*self._lists(block), lower, upper, *block.segments)

    def holds(self, prefixes: Codes) -> NDArray[np.bool_]:
        """Tell for each prefix, which binds all attributes of the atom, whether the relation has its tuple."""
        found = self.trie.contains([prefixes[k] for k in (*self.key, self.value)])
        return found if self.after is None else found & (prefixes[self.value] >= self.after.lower(prefixes))

    @property
    def reads(self) -> tuple[int, ...]:
        """The positions of a prefix that determine which list is read, and which part of it."""
        return self.key if self.after is None else (*self.key, *self.after.seed)

    def nodes(self, prefixes: Codes) -> NDArray[Any]:
        """Return the node of each prefix's list."""
        return self.trie.nodes([prefixes[k] for k in self.key], prefixes.shape[1])

    def _lists(self, block: Counts | Proposals) -> tuple[NDArray[np.int64], Codes, NDArray[Any]]:
        return self.trie.offsets, self.trie.values, self.nodes(block.prefixes)
