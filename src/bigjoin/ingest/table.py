"""What is decided about a source before its rows are read: which columns are ids, their types, and the pieces to read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import BigjoinError, SourceError, did_you_mean
from bigjoin.ingest.columns import common_type, id_type, property_type
from bigjoin.storage.arrays import map_table

ENDS = (("src", "dst"), ("source", "target"), ("from", "to"))
"""What the two columns of an edge may be called, in upper or lower case."""

BATCH_ROWS = 2**16
"""Rows that are read together: few enough that their fields stay in a core's cache."""


class Split(Protocol):
    """A piece of a table, which tasks read by themselves."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows, in batches with exactly the table's schema."""


@dataclass(frozen=True)
class InMemory:
    """A piece of a table whose rows are in this process."""

    table: pa.Table

    @classmethod
    def splits(cls, table: pa.Table) -> tuple[InMemory, ...]:
        """Return a table in pieces of a part's size."""
        return tuple(cls(table.slice(first, PART_SIZE)) for first in range(0, table.num_rows, PART_SIZE))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Give the rows."""
        yield from self.table.to_batches(max_chunksize=BATCH_ROWS)


@dataclass(frozen=True)
class ArrowFile:
    """A piece of a table that tasks have written down."""

    path: str

    def read(self) -> Iterator[pa.RecordBatch]:
        """Give the rows."""
        yield from map_table(self.path).to_batches(max_chunksize=BATCH_ROWS)


@dataclass(frozen=True)
class Table:
    """A source of edges, vertices, or tuples of any arity: its columns, the keys first, and the pieces to read it in.

    `keys` are the columns that are ids, or values to be joined, as the source calls them. `rows` and `span`, the smallest and
    the largest id if they are integers, are None where they are not known. Integers of text are spelled as they print.
    """

    source: str
    keys: tuple[str, ...]
    schema: pa.Schema
    splits: Sequence[Split]
    rows: int | None = None
    span: tuple[int, int] | None = None
    is_text: bool = False
    may_be_empty: bool = False

    @classmethod
    def of(cls, table: pa.Table, source: str) -> Table:
        """Return an Arrow table as a relation: all of its columns are keys."""
        return cls(source, tuple(table.column_names), table.schema, InMemory.splits(table), table.num_rows)

    def select(self, columns: Sequence[str]) -> Table:
        """Return some of a relation's columns; its pieces keep the others, unread."""
        return replace(self, keys=tuple(columns), schema=pa.schema([self.schema.field(name) for name in columns]))

    @property
    def in_memory(self) -> bool:
        """Whether this process holds all rows."""
        return self.rows is not None and all(isinstance(split, InMemory) for split in self.splits)


@dataclass(frozen=True)
class Kind:
    """Edges or vertices: what their ids are called in an index, and how they are recognised in a source."""

    noun: str
    ends: tuple[str, ...]
    named: Callable[[Sequence[str]], tuple[str, ...] | None]
    need: str
    lacks: str
    """What lines without ids are said to lack."""
    hint: str = ""


def edge_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two columns whose names make them the ends of an edge, if there are such."""
    lower = _by_lower_case(names)
    return next(((lower[a], lower[b]) for a, b in ENDS if a in lower and b in lower), None)


def _by_lower_case(names: Sequence[str]) -> dict[str, str]:
    """Return names by their lower case; of several, the one that is in lower case itself, or the first."""
    return {name.lower(): name for name in sorted(names, key=lambda name: (name == name.lower(), -names.index(name)))}


def vertex_column(names: Sequence[str]) -> tuple[str] | None:
    """Return the column whose name makes it the id of a vertex, if there is one."""
    lower = _by_lower_case(names)
    return next(((lower[name],) for name in ("id", "vertex", "node") if name in lower), None)


EDGES = Kind(
    "edges",
    ("src", "dst"),
    edge_columns,
    "edges need two, src and dst",
    "do not have two columns",
    "; an edge is 'src dst', separated by spaces, a tab or a comma",
)
VERTICES = Kind("vertices", ("id",), vertex_column, "vertices need one, id", "have no id")


def choose(
    kind: Kind, names: Sequence[str], source: str, *, columns: Sequence[str] | None, properties: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which columns of a source are ids and which are properties: as asked for, or by their names and places."""
    width = len(kind.ends)
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise SourceError(f"{source} has two columns called {twice!r}: rename one of them")
    if len(names) < width:
        raise SourceError(f"{source} has {len(names)} column(s); {kind.need}")
    if columns is not None:
        check_names(kind, columns)
        for name in columns:
            if name not in names:
                hint = did_you_mean(name, names) or f"it has {', '.join(names)}"
                raise SourceError(f"{source} has no column {name!r}; {hint}")
    keys = tuple(columns or kind.named(names) or names)[:width]
    if not properties:
        return keys, ()
    others: list[str] = []
    left_out: list[str] = []
    for name in columns or names:
        if name not in keys:
            (left_out if name in others or name in kind.ends else others).append(name)
    warn_left_out(source, left_out, "another column has that name")
    return keys, tuple(others)


def check_names(kind: Kind, columns: Sequence[str]) -> None:
    """Refuse a list of columns that is too short or repeats one."""
    if len(columns) < len(kind.ends):
        raise SourceError(f"{', '.join(columns) or 'nothing'} was given for columns; {kind.need}")
    if twice := next((name for i, name in enumerate(columns) if name in columns[:i]), None):
        raise SourceError(f"the column {twice!r} is given twice")


def warn_left_out(source: str, names: Sequence[str], reason: str, what: str = "column") -> None:
    """Warn, in one sentence, that some columns are left out."""
    if names:
        which = ", ".join(repr(name) for name in names)
        warnings.warn(f"{source}: {what} {which} is left out: {reason}", stacklevel=2)


def typed_columns(
    kind: Kind,
    names: Sequence[str],
    source: str,
    type_of: Callable[[str], pa.DataType],
    *,
    columns: Sequence[str] | None,
    properties: bool,
) -> tuple[tuple[str, ...], pa.Schema]:
    """Return which of a source's columns are read, ids first, and what they become: ids of one type, flat properties."""
    keys, others = choose(kind, names, source, columns=columns, properties=properties)
    ids = [id_type(type_of(name), name, source) for name in keys]
    common = common_type(ids[0], ids[-1])
    if common is None:
        types = ", ".join(map(str, ids))
        raise SourceError(f"columns {keys[0]!r} and {keys[-1]!r} of {source} differ in type ({types}): cast one of them")
    found = {name: property_type(type_of(name)) for name in others}
    warn_left_out(source, [name for name, becomes in found.items() if becomes is None], "its type is nested or unknown")
    flat = {name: becomes for name, becomes in found.items() if becomes is not None}
    return (*keys, *flat), pa.schema([*((end, common) for end in kind.ends), *flat.items()])


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Turn errors about a file that cannot be read into one sentence."""
    try:
        yield
    except BigjoinError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or f"{error}\n".splitlines()[0]
        if "Truncated compressed stream" in reason:
            reason = "Unexpected end of input, the file is cut off"
        raise SourceError(f"{source} cannot be read: {reason}") from error
