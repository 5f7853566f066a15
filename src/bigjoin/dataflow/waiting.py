"""Files of prefixes that wait: counted blocks, from which any range of proposals can be read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np

from bigjoin.dataflow.packing import pack, unpack
from bigjoin.dataflow.schedule import Waiting
from bigjoin.index.trie import Codes
from bigjoin.joins.blocks import Counts, join
from bigjoin.joins.dataflow_primitive import codes_that_travel
from bigjoin.storage import Place, place_of

HEADER_BYTES = 16
"""The header of each block: how many bytes it has, and how many proposals it makes."""


class WaitingFile:
    """A file that is being written, and what the schedule has to know about it (`waiting`)."""

    def __init__(self, folder: Place, step: int, stop: int, task: int) -> None:
        path = folder / f"{uuid.uuid4().hex}.waiting"
        self.waiting = Waiting(str(path), step, stop, task)
        self._file = path.open("wb")

    def put(self, block: Counts, keys: Codes | None = None) -> None:
        """Add prefixes; neighbours with the same key share a list, which travels once when they propose."""
        data, waiting = pack(block), self.waiting
        self._file.write(np.array([len(data), block.proposals], np.int64).tobytes())
        self._file.write(data)
        waiting.prefixes += len(block)
        waiting.proposals += block.proposals
        waiting.bytes += len(data) + HEADER_BYTES
        waiting.codes += int(codes_that_travel(block, keys).sum())

    def close(self) -> None:
        """Finish the file, unless it is finished already."""
        self._file.close()


def read_waiting(path: str | Place, first: int, last: int) -> Iterator[Counts]:
    """Give proposals first..last - 1 of a file, block by block."""
    seen = 0
    with place_of(path).open("rb") as file:
        while seen < last and (header := file.read(HEADER_BYTES)):
            size, proposals = (int(n) for n in np.frombuffer(header, np.int64))
            if seen + proposals <= first:
                file.seek(size, 1)
            else:
                block = unpack(file.read(size))
                assert isinstance(block, Counts)
                yield join([block]).cut(first - seen, last - seen)
            seen += proposals
