"""What contenders are asked and what they answer: small frozen records, which travel to a contender's process as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

JOIN, DISTINCT, UNIQUE = "join", "distinct", "unique"
"""The meanings that a count may have."""

FIRST_ROWS, ROWS_ASKED = "first 100 rows", 100
"""A question for rows, of which a few are wanted."""

BY_VERTEX, BY_EDGE = "by vertex", "by edge"
"""What unique matches may be grouped by."""


@dataclass(frozen=True)
class Input:
    """A graph as contenders load it: a file of edges, and whether each edge stands for both directions."""

    name: str
    path: str
    undirected: bool = False
    vertices: str | None = None
    """A file of vertices, if the suite has them."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """A query by its name, and what a count of it means."""

    query: str
    meaning: str = JOIN

    @property
    def title(self) -> str:
        return self.query if self.meaning == JOIN else f"{self.query}, {self.meaning}"

    @property
    def flags(self) -> dict[str, bool]:
        """The flags that a verb of Graph takes."""
        return {} if self.meaning == JOIN else {self.meaning: True}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """What a contender found. `count` is None where there is nothing to compare; `seconds` where the clock outside will do."""

    count: int | None
    seconds: float | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What else a table wants to show, such as prefixes."""
