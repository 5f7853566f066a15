"""What every family of graphs is: a numbered list of edges, cut into chunks that can be made alone and in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bigjoin.errors import GeneratorError

CHUNK_EDGES = 1_000_000
"""Edges of a chunk, the last one aside. It is part of what a seed means: another size would draw other R-MAT edges."""

EdgeNumbers = npt.NDArray[np.int64]


class Family(ABC):
    """A graph by its parameters. Ids are 0 up to `vertices`, though not each of them need have an edge."""

    if TYPE_CHECKING:  # at run time, a data class would take these for the defaults of its fields

        @property
        def vertices(self) -> int: ...

        @property
        def edge_count(self) -> int: ...

    @abstractmethod
    def edges(self, chunk: int) -> tuple[EdgeNumbers, EdgeNumbers]:
        """Return sources and destinations of a chunk: the same for the same parameters, in whatever order chunks are made."""

    @abstractmethod
    def describe(self) -> str:
        """Return the family and its parameters in a line."""

    @property
    def chunks(self) -> int:
        return -(-self.edge_count // CHUNK_EDGES)

    def table(self) -> pa.Table:
        """Return all edges as a table with the columns src and dst, which has to fit into memory."""
        chunks = [pa.table(dict(zip(("src", "dst"), self.edges(chunk), strict=True))) for chunk in range(self.chunks)]
        return pa.concat_tables(chunks)

    def size(self, chunk: int) -> int:
        """Return the number of edges of a chunk."""
        return min(self.edge_count, (chunk + 1) * CHUNK_EDGES) - chunk * CHUNK_EDGES

    def numbers(self, chunk: int) -> EdgeNumbers:
        """Return the numbers of a chunk's edges."""
        first = chunk * CHUNK_EDGES
        return np.arange(first, first + self.size(chunk), dtype=np.int64)


def require(holds: bool, message: str) -> None:
    """Raise GeneratorError unless the parameters make sense."""
    if not holds:
        raise GeneratorError(message)


def require_seed(seed: int) -> None:
    """Raise GeneratorError unless the seed is one."""
    require(0 <= seed < 1 << 63, f"a seed is from 0 to 2^63 - 1, not {seed}")


def require_edges(edges: int, *, least: int = 1, most: int, where: str) -> None:
    """Raise GeneratorError unless a graph can have so many edges."""
    require(least <= edges <= most, f"{where} has from {least:,} to {most:,} edges, not {edges:,}")
