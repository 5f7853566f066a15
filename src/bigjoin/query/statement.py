"""What a text asks for beyond one query: queries whose rows are added up, and what becomes of the rows.

A rule is one query, and its rows are the answer. A motif may be several queries (one for each length or direction), and its
columns are structs. A Cypher text may keep rows only where another pattern does or does not match, add what an optional pattern
finds, sort and cut. What lies beyond a query is done with the rows of queries, by Spark; everything else is the join's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from bigjoin.query.query import Query
from bigjoin.query.terms import Term

Language = Literal["name", "rule", "motif", "cypher"]


@dataclass(frozen=True, slots=True)
class Element:
    """A named vertex or edge of a motif: a struct in the result."""

    name: str
    attribute: str
    ends: tuple[str, str] | None = None
    """The attributes of its ends, if it is an edge."""
    distinct: bool = False
    """Whether equal rows of the table it comes from count once: a later negated term removes duplicates."""

    @property
    def is_vertex(self) -> bool:
        return self.ends is None


@dataclass(frozen=True, slots=True)
class Subpattern:
    """A pattern of its own that shares attributes with a block: what the block's rows need, must not have, or may add."""

    block: Block
    shared: tuple[str, ...]
    kind: Literal["exists", "not exists", "optional"]


@dataclass(frozen=True, slots=True)
class Block:
    """A query, and the patterns that decide about its rows, in this order."""

    query: Query
    subpatterns: tuple[Subpattern, ...] = ()
    elements: tuple[Element, ...] = ()
    constants: tuple[tuple[str, str | int], ...] = ()
    """Further columns that have one value, by name."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """What a text asks for."""

    language: Language
    text: str
    blocks: tuple[Block, ...]
    """Their rows are added up."""
    head: tuple[Term, ...] = ()
    """What the columns of the result are, if a block has subpatterns: some of its terms may be theirs."""
    columns: tuple[str, ...] = ()
    """The names of the result's columns, if rows have others to be sorted by."""
    order: tuple[SortKey, ...] = ()
    skip: int = 0
    limit: int | None = None
    counted: str | None = None
    """The name of the only column, if the result is one row with the number of rows."""
    deduplicate: bool = False

    @classmethod
    def of(cls, query: Query, language: Language = "rule", text: str = "") -> Statement:
        """Return the statement that asks for the rows of one query."""
        return cls(language, text or str(query), (Block(query),))

    @property
    def query(self) -> Query:
        """The first query, which gives the statement its name."""
        return self.blocks[0].query

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def is_query(self) -> bool:
        """Whether its rows are those of one query, up to a limit, so that the join alone can answer it."""
        block = self.blocks[0]
        beyond = block.subpatterns or block.elements or block.constants or self.order or self.skip or self.counted
        return len(self.blocks) == 1 and not beyond

    @property
    def counts_as_query(self) -> bool:
        """Whether the number of its rows is the number of matches of its queries, up to a limit."""
        return not any(block.subpatterns for block in self.blocks)

    @property
    def refused_by_watches(self) -> str | None:
        """What has no incremental meaning in it, if anything."""
        if self.order:
            return "ORDER BY"
        if self.limit is not None or self.skip:
            return "LIMIT" if self.limit is not None else "SKIP"
        if any(block.subpatterns for block in self.blocks):
            kinds = {sub.kind for block in self.blocks for sub in block.subpatterns}
            return "an OPTIONAL MATCH of this kind" if "optional" in kinds else "a pattern of several relationships in a condition"
        if len(self.blocks) > 1:
            return "a pattern of several lengths or directions"
        return None

    def with_query(self, query: Query) -> Statement:
        """Return the statement with its first query replaced."""
        return replace(self, blocks=(replace(self.blocks[0], query=query), *self.blocks[1:]))
