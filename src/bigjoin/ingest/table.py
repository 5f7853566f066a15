"""What is known of a source before its rows are read: which columns are ids, what type each has, and where to cut."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bigjoin.errors import BigjoinError, SourceError, did_you_mean

ENDS = (("src", "dst"), ("source", "target"), ("from", "to"))
"""What the two columns of an edge may be called, in any case."""

BATCH = 2**16
"""So many rows go together: few enough that what is known of them stays in a core's cache."""


@dataclass(frozen=True)
class Table:
    """A source of edges or vertices: its columns, the ids first and under their own names, and the pieces to read it in."""

    source: str
    keys: tuple[str, ...]
    schema: pa.Schema
    splits: tuple[dict[str, Any], ...]
    rows: int | None
    span: tuple[int, int] | None

    @property
    def is_text(self) -> bool:
        return bool(self.splits) and self.splits[0]["format"] == "text"


@dataclass(frozen=True)
class Kind:
    """Edges or vertices: what their ids are called in an index, and how they are recognised in a source."""

    noun: str
    ends: tuple[str, ...]
    named: Callable[[Sequence[str]], tuple[str, ...] | None]
    need: str


def edge_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two of these columns that are an edge by their names, if two are."""
    lower = _by_lower_case(names)
    return next(((lower[a], lower[b]) for a, b in ENDS if a in lower and b in lower), None)


def _by_lower_case(names: Sequence[str]) -> dict[str, str]:
    """Return names by their lower case; one that is spelled so goes before others."""
    return {name.lower(): name for name in sorted(names, key=lambda name: (name == name.lower(), -names.index(name)))}


def vertex_column(names: Sequence[str]) -> tuple[str] | None:
    """Return the one of these columns that holds a vertex's id by its name, if one does."""
    lower = _by_lower_case(names)
    return next(((lower[name],) for name in ("id", "vertex", "node") if name in lower), None)


EDGES = Kind("edges", ("src", "dst"), edge_columns, "edges need two, src and dst")
VERTICES = Kind("vertices", ("id",), vertex_column, "vertices need one, id")


def choose(
    kind: Kind, names: Sequence[str], source: str, *, columns: Sequence[str] | None, properties: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of a source's columns are ids and which are properties: those asked for, else by their names and places."""
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
    """Refuse a list of columns that is too short, or that has one twice."""
    if len(columns) < len(kind.ends):
        raise SourceError(f"{', '.join(columns) or 'nothing'} was given for columns; {kind.need}")
    if twice := next((name for i, name in enumerate(columns) if name in columns[:i]), None):
        raise SourceError(f"the column {twice!r} is given twice")


def warn_left_out(source: str, names: Sequence[str], reason: str, what: str = "column") -> None:
    """Tell, in one sentence, which columns are left out."""
    if names:
        which = ", ".join(repr(name) for name in names)
        warnings.warn(f"{source}: {what} {which} is left out: {reason}", stacklevel=2)


def to_text(schema: pa.Schema) -> str:
    """Return a schema as text, for a piece that travels as JSON."""
    return base64.b64encode(schema.serialize()).decode()


def from_text(text: str) -> pa.Schema:
    """Return the schema of such a text."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Turn whatever is said about a file that cannot be read into one sentence."""
    try:
        yield
    except BigjoinError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or f"{error}\n".splitlines()[0]
        if "Truncated compressed stream" in reason:
            reason = "Unexpected end of input, the file is cut off"
        raise SourceError(f"{source} cannot be read: {reason}") from error
