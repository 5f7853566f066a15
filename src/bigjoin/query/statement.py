"""What a text asks for beyond one query: queries whose rows are added up, and what becomes of the rows.

A rule is one query, and its rows are the answer. A motif may be several queries (one for each length or direction), and its
columns are structs. A Cypher text may keep rows only where another pattern does or does not match, add what an optional pattern
finds, sort and cut. What lies beyond a query is done with the rows of queries, by Spark; everything else is the join's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

from bigjoin.errors import QueryError
from bigjoin.query.expressions import Expression
from bigjoin.query.grouping import Grouping
from bigjoin.query.query import Query

MAX_LIMIT = 2**31 - 1
"""Rows that Spark can be asked to keep or to leave out."""

Language = Literal["name", "rule", "motif", "cypher", "sql"]


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

    def in_zone(self, zone: str) -> QueryBlock:
        """Return the block with another time zone."""
        inner = tuple(replace(sub, block=sub.block.in_zone(zone)) for sub in self.subpatterns)
        return replace(self, query=replace(self.query, zone=zone), subpatterns=inner)

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
    nulls_first: bool | None = None
    """Where NULLs are; None as in openCypher, where NULL is larger than anything."""


@dataclass(frozen=True, slots=True)
class RowStage:
    """What becomes of rows before the last clause of a text sees them: they are computed, grouped, sorted, cut and filtered."""

    columns: tuple[tuple[str, Expression], ...] = ()
    """What is computed of each row, by name; if empty, rows stay as they are."""
    grouping: Grouping | None = None
    deduplicate: bool = False
    order: tuple[SortKey, ...] = ()
    skip: int = 0
    limit: int | None = None
    where: Expression | None = None
    """What is true of the rows that are left in the end."""

    @property
    def keeps_rows(self) -> bool:
        """Whether there are as many rows after it as before."""
        return not (self.grouping or self.deduplicate or self.skip or self.where is not None) and self.limit is None


@dataclass(frozen=True, slots=True)
class Statement:
    """What a text asks for."""

    language: Language
    text: str
    blocks: tuple[QueryBlock, ...]
    """Their rows are added up."""
    head: tuple[Expression, ...] = ()
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
    grouping: Grouping | None = None
    """How the rows are grouped, if they are: the heads of the blocks then have its keys and what it aggregates."""
    before: tuple[RowStage, ...] = ()
    """What becomes of the rows of the blocks before all this."""
    unread: Any = field(default=None, repr=False)
    """A SELECT, if it is not known yet which tables and columns there are: it has no blocks until a source reads it."""

    def __post_init__(self) -> None:
        for name, rows in (("SKIP or OFFSET", self.skip), ("LIMIT", self.limit or 0)):
            if rows > MAX_LIMIT:
                raise QueryError(f"{name} is {rows}, and can be {MAX_LIMIT} at most")

    @classmethod
    def of(cls, query: Query, language: Language = "rule", text: str = "") -> Statement:
        """Return the statement that asks for the rows of one query."""
        return cls(language, text or str(query), (QueryBlock(query),))

    def in_zone(self, zone: Callable[[], str]) -> Statement:
        """Return the statement with the time zone of its session, which is asked for if it matters."""
        if not any(block.query.filters or block.query.computes for block in self.everything):
            return self
        name = zone()
        return self if name == "UTC" else replace(self, blocks=tuple(block.in_zone(name) for block in self.blocks))

    @property
    def query(self) -> Query:
        """The first query, which gives the statement its name."""
        return self.blocks[0].query

    @property
    def name(self) -> str:
        return self.query.name if self.blocks else self.language

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
            ("a SELECT", self.unread is not None),
            ("WITH", any(not stage.keeps_rows for stage in self.before)),
            ("an aggregate", self.grouping is not None),
            ("ORDER BY", bool(self.order) and self.language != "motif"),
            ("LIMIT", self.limit is not None),
            ("SKIP", bool(self.skip)),
            ("count(*)", self.count_column is not None),
            ("a column that is computed from what may be missing", bool(self.before)),
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
        shaped = block.elements or block.constants or self.order or self.skip or self.count_column or self.grouping
        changed = self.before or self.deduplicate
        narrowed = self.columns and self.columns != block.query.columns
        return len(self.blocks) == 1 and not block.subpatterns and not (shaped or changed or narrowed)

    @property
    def counts_as_queries(self) -> bool:
        """Whether the number of its rows follows from the numbers of matches of its queries."""
        changed = self.grouping or self.deduplicate or not all(stage.keeps_rows for stage in self.before)
        return not changed and not any(block.subpatterns for block in self.blocks)

    def cut(self, rows: int) -> int:
        """Return how many of so many rows are left after SKIP and LIMIT; those of a count(*) are about its one row."""
        if self.count_column is not None:
            return rows if not self.skip and self.limit != 0 else 0
        left = max(0, rows - self.skip)
        return left if self.limit is None else min(left, self.limit)
