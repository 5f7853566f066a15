"""Shards: which worker owns a key, and where its lists lie.

A key's owner is its code modulo the number of shards. Codes fall with degree, so this deals the hubs out one by one, as evenly
as any hash could. Lists are stored shard after shard, so a shard is one slice of each file, and a key's place, its node, is
arithmetic; with one shard, the node is the code.
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
        starts = np.array([self.first(shard) for shard in range(self.count + 1)], np.int64)
        shard = np.searchsorted(starts, nodes, side="right") - 1
        shard = np.minimum(shard, self.count - 1)
        return (nodes - starts[shard]) * self.count + shard


ONE_SHARD = Shards(1, 0)
"""Lists that are not dealt out: every code is its own node."""
