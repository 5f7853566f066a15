"""Shards: which worker owns a key, and where its lists lie.

The owner of a key is its code modulo the number of shards. Codes descend by degree, so this deals out the hubs one by one, as
evenly as any hash could. Lists are stored shard after shard, so a shard is one slice of each file, and the place of a key, its
node, is a matter of arithmetic; with one shard, the node is the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Shards:
    """`size` codes dealt to `count` shards."""

    count: int
    size: int

    def first(self, shard: int) -> int:
        """Return the first node of a shard, which is also the end of the shard before."""
        return shard * (self.size // self.count) + min(shard, self.size % self.count)

    def nodes(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the node of each code, in the type of the codes."""
        if self.count == 1:
            return codes
        slot, shard = np.divmod(codes.astype(np.int64), self.count)
        return (shard * (self.size // self.count) + np.minimum(shard, self.size % self.count) + slot).astype(codes.dtype)

    def codes(self, nodes: NDArray[Any]) -> NDArray[Any]:
        """Return the code of each node."""
        if self.count == 1:
            return nodes
        starts = np.array([self.first(shard) for shard in range(self.count)], np.int64)
        shard = np.searchsorted(starts, nodes, side="right") - 1
        return (nodes - starts[shard]) * self.count + shard


ONE_SHARD = Shards(1, 0)
"""Lists that are not dealt out: the node of a code is the code."""
