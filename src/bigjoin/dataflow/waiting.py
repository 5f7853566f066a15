"""Files of prefixes that wait: counted blocks, one after the other, of which any stretch of proposals can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.blocks import Counts, join, pack, unpack
from bigjoin.index.trie import Codes
from bigjoin.joins.extend import Counted
from bigjoin.joins.queue import Queue

_HEADER = 16


class WaitingFile:
    """A file in the making."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.prefixes = self.proposals = self.bytes = self.codes = 0
        self._file = path.open("wb")

    def put(self, counted: Counts, keys: Codes | None = None) -> None:
        """Add prefixes, none of which has proposed anything yet; neighbours with the same key will propose from one list."""
        data, proposals = pack(counted), int(counted.counts.sum())
        self._file.write(np.array([len(data), proposals], np.int64).tobytes())
        self._file.write(data)
        self.prefixes += len(counted)
        self.proposals += proposals
        self.bytes += len(data) + _HEADER
        self.codes += int(codes_that_travel(counted, keys).sum())

    def close(self) -> None:
        """Finish the file, if it is not yet finished."""
        self._file.close()


def codes_that_travel(counted: Counts, keys: Codes | None) -> NDArray[np.int64]:
    """Return how many codes travel when each prefix proposes: its own, and the list that neighbours with its key share."""
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if keys is not None else np.arange(len(counted))
    codes = np.full(len(counted), len(counted.prefixes))
    codes[firsts] += np.maximum.reduceat(counted.counts, firsts)
    return codes


def read_waiting(path: str | Path, first: int, last: int, batch_size: int, code_type: Any) -> Iterator[Counted]:
    """Give the proposals number first..last - 1 of a file, in batches of at most B'; only a list longer than that is cut."""
    for block in stretches(path, first, last, code_type):
        yield from batches(block, 0, int(block.counts.sum()), batch_size)


def stretches(path: str | Path, first: int, last: int, code_type: Any) -> Iterator[Counts]:
    """Give the proposals number first..last - 1 of a file, block by block."""
    seen = 0
    with Path(path).open("rb") as file:
        while seen < last and (header := file.read(_HEADER)):
            size, proposals = (int(n) for n in np.frombuffer(header, np.int64))
            if seen + proposals <= first:
                file.seek(size, 1)
            else:
                block: Counts = join([unpack(file.read(size), code_type)])
                yield block.cut(first - seen, last - seen)
            seen += proposals


def batches(block: Counts, first: int, last: int, batch_size: int) -> Iterator[Counted]:
    """Give the proposals number first..last - 1 of a block, in batches of at most B'; only a list longer than that is cut."""
    queue = Queue(by_run=False)
    cut = block.cut(first, last)
    assert cut.starts is not None
    queue.put(Counted(cut.prefixes, cut.proposers, cut.starts, cut.starts + cut.counts, np.ones(len(cut), np.bool_)))
    while queue.has(1):
        yield queue.take(batch_size)
