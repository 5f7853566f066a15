"""What is decided about a source before its rows are read: which columns are ids, their types, and the pieces to read."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Protocol

import pyarrow as pa

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import BigjoinError, SourceError, did_you_mean
from bigjoin.index.manifest_entries import ReadingEntry
from bigjoin.ingest.columns import common_type, id_type, property_type
from bigjoin.reading import JUDGED, ReadingOptions
from bigjoin.storage.arrays import map_table

ENDS = (("src", "dst"), ("source", "target"), ("from", "to"))
"""What the two columns of an edge may be called, in upper or lower case."""

MAX_COMPARED_COLUMNS = 32
"""Columns that are compared to guess which two a user means."""

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


def is_here(split: Split) -> bool:
    """Tell whether the rows of a piece, or of the piece that it selects from, are in this process."""
    return isinstance(getattr(split, "split", split), InMemory)


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
    reading: ReadingEntry | None = None

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
        return self.rows is not None and all(map(is_here, self.splits))


@dataclass(frozen=True)
class Kind:
    """Edges or vertices: what their ids are called in an index, and how they are recognised in a source."""

    noun: str
    ends: tuple[str, ...]
    named: Callable[[Sequence[str]], tuple[str, ...] | None]
    need: str
    lacks: str
    """What lines without ids are said to lack."""
    question: str
    """How a user is asked which columns are meant."""
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
    "say which are the ends",
    "; an edge is 'src dst', separated by spaces, a tab or a comma; --drop-nulls (drop_nulls=True) drops other lines",
)
VERTICES = Kind("vertices", ("id",), vertex_column, "vertices need one, id", "have no id", "say which it is")


@dataclass(frozen=True)
class Choice:
    """The columns of a source that are read: ids and properties, and whether the ids were taken by their places alone."""

    keys: tuple[str, ...]
    others: tuple[str, ...]
    by_place: bool = False

    def entry(self, source: str, *, header: bool | None = None, judged: str | None = None) -> ReadingEntry:
        """Return what a manifest says about it."""
        return ReadingEntry(source, self.keys, self.others, header, self.by_place, judged)


def choose(
    kind: Kind,
    names: Sequence[str],
    source: str,
    said: ReadingOptions = JUDGED,
    *,
    properties: bool = True,
    titled: bool = True,
    suggest: Callable[[], tuple[str, ...]] | None = None,
) -> Choice:
    """Return which columns of a source are ids and which are properties: as asked for, or by their names and places.

    Names are the source's own if it is `titled`. Where several columns have names and none is that of an id, the user has to
    say which is meant; `suggest` gives columns for the example of how to say it.
    """
    width = len(kind.ends)
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise SourceError(f"{source} has two columns called {twice!r}: rename one of them")
    if len(names) < width:
        found = f"{len(names)} column{'s' * (len(names) != 1)}" + (f", {names[0]!r}" if titled and names else "")
        raise SourceError(f"{source} has {found}; {kind.need}")
    columns = said.columns
    if columns is not None:
        check_names(kind, columns)
        for name in columns:
            if name not in names:
                raise SourceError(f"{source} has no column {name!r}; {_hint(name, names)}")
    asked = (said.src, said.dst) if kind is EDGES else (said.id,)
    named, by_place = kind.named(names), False
    if any(one is not None for one in asked):
        keys = _asked_for(kind, names, source, asked, titled=titled)
    elif columns is not None:
        keys = tuple(columns)[:width]
    elif named is not None:
        keys = named
    elif titled and len(names) > width:
        raise SourceError(_question(kind, names, source, (suggest or (lambda: plausible_ends(names)))()))
    else:
        keys, by_place = tuple(names)[:width], (titled and kind is EDGES) or len(names) > width
    if not properties:
        return Choice(keys, (), by_place)
    others: list[str] = []
    left_out: list[str] = []
    for name in columns or names:
        if name not in keys:
            (left_out if name in others or name in kind.ends else others).append(name)
    warn_left_out(source, left_out, "another column has that name")
    return Choice(keys, tuple(others), by_place)


def _asked_for(
    kind: Kind, names: Sequence[str], source: str, asked: Sequence[str | int | None], *, titled: bool
) -> tuple[str, ...]:
    """Return the columns of ids that a user has named; if only one end is, the other is known by its name or is left over."""
    found = [
        None if one is None else _column(one, end, names, source, titled=titled)
        for one, end in zip(asked, kind.ends, strict=True)
    ]
    if None in found:
        missing = found.index(None)
        rest = [name for name in names if name not in found]
        known_ends = [name for name in rest if name.lower() in {pair[missing] for pair in ENDS}]
        other = known_ends[0] if known_ends else rest[0] if len(rest) == 1 else None
        if other is None:
            end, known = kind.ends[missing], str(found[1 - missing])
            rest.sort(key=lambda name: SequenceMatcher(None, name.lower(), known.lower()).ratio(), reverse=True)
            raise SourceError(
                f"{source} has {len(names)} columns, and {kind.ends[1 - missing]} is {known}; say which is {end}, "
                f"too, as in --{end} {rest[0]} ({end}={rest[0]!r}): {', '.join(rest)}"
            )
        found[missing] = other
    keys = tuple(name for name in found if name is not None)
    if len(set(keys)) < len(keys):
        raise SourceError(
            f"src and dst are both column {keys[0]!r} of {source}: an edge has two ends; it has {', '.join(names)}"
        )
    return keys


def _column(asked: str | int, end: str, names: Sequence[str], source: str, *, titled: bool) -> str:
    """Return the column that a user has named, or given by its position."""
    if isinstance(asked, str) and asked in names:
        return asked
    if isinstance(asked, str) and not asked.lstrip("-").isdigit():
        if titled:
            raise SourceError(f"{source} has no column {asked!r} for {end}; {_hint(asked, names)}")
        raise SourceError(
            f"{source} has no header, so no column is called {asked!r}: give its position, as in --{end} 1 ({end}=1), or say "
            "that the first line is the header: --header (header=True)"
        )
    if not 1 <= int(asked) <= len(names):
        columns = f"{len(names)} columns" + (f", {', '.join(names)}" if titled else "")
        raise SourceError(f"{end} is column {asked}, and {source} has {columns}: positions are from 1 to {len(names)}")
    return names[int(asked) - 1]


def _hint(name: str, names: Sequence[str]) -> str:
    return did_you_mean(name, names) or f"it has {', '.join(names)}"


def _question(kind: Kind, names: Sequence[str], source: str, suggested: Sequence[str]) -> str:
    """Return the error that asks which columns are ids, with an example of the answer."""
    options = " ".join(f"--{end} {shlex.quote(name)}" for end, name in zip(kind.ends, suggested, strict=False))
    arguments = ", ".join(f"{end}={json.dumps(name)}" for end, name in zip(kind.ends, suggested, strict=False))
    if kind is EDGES and vertex_column(names) is not None:
        arguments += "; if these are vertices: Graph(edges, vertices=...), --vertices"
    return (
        f"{source} has {len(names)} columns, and none is called {' or '.join(kind.ends)}: {', '.join(names)}; "
        f"{kind.question}: {options} ({arguments})"
    )


def plausible_ends(names: Sequence[str], types: Sequence[object] = (), values: Sequence[Set[str]] = ()) -> tuple[str, ...]:
    """Return the two columns that look most like the ends of an edge: common values, similar names, one type; else the first.

    `types` and `values` are by column, as far as they are known.
    """

    def likeness(pair: tuple[int, int]) -> float:
        one, other = pair
        common = len(values[one] & values[other]) / max(1, min(len(values[one]), len(values[other]))) if values else 0.0
        alike = SequenceMatcher(None, names[one].lower(), names[other].lower()).ratio()
        return 2 * common + (alike if alike >= 0.5 else 0.0) + (0.25 if types and types[one] == types[other] else 0.0)

    pairs = [(i, j) for j in range(len(names[:MAX_COMPARED_COLUMNS])) for i in range(j)]
    return tuple(names[i] for i in max(pairs, key=likeness, default=(0,)))


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
    said: ReadingOptions,
    *,
    properties: bool,
) -> tuple[Choice, pa.Schema]:
    """Return which of a source's columns are read, and what they become: ids of one type, flat properties."""

    def suggest() -> tuple[str, ...]:
        possible = [name for name in names if _may_be_id(type_of(name))] or list(names)
        return plausible_ends(possible, [type_of(name) for name in possible]) if kind is EDGES else tuple(possible[:1])

    choice = choose(kind, names, source, said, properties=properties, suggest=suggest)
    keys = choice.keys
    ids = [id_type(type_of(name), name, source) for name in keys]
    common = common_type(ids[0], ids[-1])
    if common is None:
        types = ", ".join(map(str, ids))
        raise SourceError(f"columns {keys[0]!r} and {keys[-1]!r} of {source} differ in type ({types}): cast one of them")
    found = {name: property_type(type_of(name)) for name in choice.others}
    warn_left_out(source, [name for name, becomes in found.items() if becomes is None], "its type is nested or unknown")
    flat = {name: becomes for name, becomes in found.items() if becomes is not None}
    schema = pa.schema([*((end, common) for end in kind.ends), *flat.items()])
    return replace(choice, others=tuple(flat)), schema


def _may_be_id(kind: pa.DataType) -> bool:
    becomes = property_type(kind)
    return becomes is not None and not (pa.types.is_floating(becomes) or pa.types.is_boolean(becomes))


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
