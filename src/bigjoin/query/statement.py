"""What a text asks for beyond one query: queries whose rows are added up, and what becomes of the rows.

A rule is one query, and its rows are the answer. A motif may be several queries (one for each length or direction), and its
columns are structs. A Cypher text may keep rows only where another pattern does or does not match, add what an optional pattern
finds, sort and cut. What lies beyond a query is done with the rows of queries, by Spark; everything else is the join's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
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
    hidden: bool = False
    """Whether it is no column, but still has to be in the table, as often as it is there."""

    @property
    def is_vertex(self) -> bool:
        return self.ends is None


@dataclass(frozen=True, slots=True)
class Subpattern:
    """A pattern of its own that shares attributes with a block: what the block's rows need, must not have, or may add."""

    block: QueryBlock
    shared: tuple[str, ...]
    kind: Literal["exists", "not exists", "optional"]


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """A query, and the patterns that decide about its rows, in this order."""

    query: Query
    subpatterns: tuple[Subpattern, ...] = ()
    elements: tuple[Element, ...] = ()
    constants: tuple[tuple[str, str | int], ...] = ()
    """Further columns that have one value, by name."""

    def walk(self) -> Iterator[QueryBlock]:
        """Give the block, and those of its subpatterns."""
        yield self
        for sub in self.subpatterns:
            yield from sub.block.walk()


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
    blocks: tuple[QueryBlock, ...]
    """Their rows are added up."""
    head: tuple[Term, ...] = ()
    """What the columns of the result are, if a block has subpatterns: some of its terms may be theirs."""
    names: tuple[str, ...] = ()
    """What the terms of the head are called."""
    columns: tuple[str, ...] = ()
    """The columns of the result, in order; rows may have others, to be sorted by."""
    order: tuple[SortKey, ...] = ()
    skip: int = 0
    limit: int | None = None
    count_column: str | None = None
    """The name of the only column, if the result is one row with the number of rows."""
    deduplicate: bool = False

    @classmethod
    def of(cls, query: Query, language: Language = "rule", text: str = "") -> Statement:
        """Return the statement that asks for the rows of one query."""
        return cls(language, text or str(query), (QueryBlock(query),))

    @property
    def query(self) -> Query:
        """The first query, which gives the statement its name."""
        return self.blocks[0].query

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def has_structs(self) -> bool:
        """Whether its columns are named elements, each a struct, as those of a motif are."""
        return any(block.elements for block in self.blocks)

    @property
    def everything(self) -> Iterator[QueryBlock]:
        """All blocks, and those of subpatterns."""
        return chain.from_iterable(block.walk() for block in self.blocks)

    @property
    def beyond_query(self) -> str | None:
        """What it asks for beyond the matches of one query, named as in its language; None if nothing."""
        subpatterns = {sub.kind for block in self.blocks for sub in block.subpatterns}
        for name, is_there in (
            ("ORDER BY", bool(self.order) and self.language == "cypher"),
            ("LIMIT", self.limit is not None),
            ("SKIP", bool(self.skip)),
            ("count(*)", self.count_column is not None),
            ("this OPTIONAL MATCH", "optional" in subpatterns),
            ("a condition of several relationships", bool(subpatterns)),
            ("a pattern of several lengths or directions", len(self.blocks) > 1),
        ):
            if is_there:
                return name
        return None

    @property
    def is_query(self) -> bool:
        """Whether its rows are those of one query as the join finds them, up to a limit."""
        block = self.blocks[0]
        shaped = block.elements or block.constants or self.order or self.skip or self.count_column
        return len(self.blocks) == 1 and not block.subpatterns and not shaped

    @property
    def counts_as_queries(self) -> bool:
        """Whether the number of its rows follows from the numbers of matches of its queries."""
        return not any(block.subpatterns for block in self.blocks)

    def cut(self, rows: int) -> int:
        """Return how many of so many rows are left after SKIP and LIMIT; those of a count(*) are about its one row."""
        if self.count_column is not None:
            return rows if not self.skip and self.limit != 0 else 0
        left = max(0, rows - self.skip)
        return left if self.limit is None else min(left, self.limit)
