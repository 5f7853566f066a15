"""What the planner may know about the data: sizes and list lengths, never tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ListStatistics:
    """The extension lists of one column order, seen as a distribution of lengths."""

    keys: int
    """Keys that have a list."""
    mean: float
    """Length of the list of a random key."""
    typical: float
    """Length of the list that a random tuple lies in: the size-biased mean, which hubs raise."""
    longest: int


@dataclass(frozen=True, slots=True)
class RelationStatistics:
    """One relation: the domains of its columns, its size, and the lists of each column order that is indexed."""

    domains: tuple[str, ...]
    tuples: int
    symmetric: bool = False
    """Whether exchanging the two columns leaves the relation as it is (an undirected graph)."""
    loops: int = 0
    """Tuples whose columns are all equal."""
    lists: Mapping[tuple[int, ...], ListStatistics] = field(default_factory=dict)

    @property
    def arity(self) -> int:
        return len(self.domains)


@dataclass(frozen=True, slots=True)
class Statistics:
    """All relations by name, and the number of values in each domain."""

    relations: Mapping[str, RelationStatistics]
    domains: Mapping[str, int]


def assumed_graph(*, symmetric: bool) -> Statistics:
    """Return the statistics of a middling social graph, for explaining a query without a source."""
    vertices, tuples = 100_000, 1_000_000
    lists = ListStatistics(keys=vertices, mean=tuples / vertices, typical=10 * tuples / vertices, longest=vertices // 10)
    edge = RelationStatistics(
        domains=("vertex", "vertex"),
        tuples=tuples,
        symmetric=symmetric,
        loops=0 if symmetric else 1,
        lists={(0, 1): lists, (1, 0): lists},
    )
    return Statistics({"edge": edge}, {"vertex": vertices})
