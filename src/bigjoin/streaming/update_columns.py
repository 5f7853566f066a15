"""Which columns of updates are the ends of edges, vertices and the operation: as the user names them, or by their own names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from bigjoin.errors import SourceError, did_you_mean
from bigjoin.ingest.table import ENDS, vertex_column

OP_COLUMN = "op"

NamesT = TypeVar("NamesT", bound=tuple[str, ...])


@dataclass(frozen=True)
class FoundColumns:
    """The columns of a table of updates that say what changes, and how; without `op`, every row is an insertion."""

    src: str
    dst: str
    """The same column as `src`, if all rows are about vertices."""
    op: str | None
    id: str | None = None
    """The column of vertices, if some rows may be about these."""

    @property
    def ends(self) -> tuple[str, str]:
        return self.src, self.dst

    @property
    def are_vertices(self) -> bool:
        """Whether all rows are about vertices."""
        return self.src == self.dst


@dataclass(frozen=True)
class UpdateColumns:
    """What a user calls the columns of updates; those that are not given are known by their names."""

    src: str | None = None
    dst: str | None = None
    op: str | None = None

    def __post_init__(self) -> None:
        for role, given in vars(self).items():
            if given is not None and not isinstance(given, str):
                raise SourceError(f"{role} is {given!r}; give the name of a column of updates")
        named = [given for given in (self.src, self.dst, self.op) if given is not None]
        if len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise SourceError(f"the column {twice!r} of updates is named twice: src=, dst= and op= are different columns")

    def find(self, names: Sequence[str], source: str, known: Collection[str] = frozenset()) -> FoundColumns:
        """Return the columns of a table with these names, of which some are `known` as properties of edges.

        Raise SourceError if one is missing, or if two readings are possible.
        """
        if len(set(names)) < len(names):
            raise SourceError(f"{source} has two columns of one name: {', '.join(names)}")
        for role, given in vars(self).items():
            if given is not None and given not in names:
                hint = did_you_mean(given, names) or f"its columns are: {', '.join(names) or 'none'}"
                raise SourceError(f"{source} has no column {given!r} for {role}; {hint}")
        rest = [name for name in names if name not in (self.src, self.dst, self.op)]
        src, dst = self._ends(names, rest, source, known)
        (id_,) = vertex_column(names) or (None,)
        op = self.op if self.op is not None else _op(rest, source, known)
        return FoundColumns(src, dst, op, None if id_ in known and src != dst else id_)

    def find_all(self, names: Sequence[str], known: Collection[str] = frozenset()) -> FoundColumns | None:
        """Return the columns if it is clear which they are."""
        with suppress(SourceError):
            return self.find(names, "", known)
        return None

    def _ends(self, names: Sequence[str], rest: Sequence[str], source: str, known: Collection[str]) -> tuple[str, str]:
        if self.src is not None and self.dst is not None:
            return self.src, self.dst
        if self.src is None and self.dst is None:
            pairs = [(a, b) for one, other in ENDS for a in _called(one, rest) for b in _called(other, rest)]
            found = _without_properties(pairs, known)
            if not found and (of_vertices := vertex_column(rest)) is not None:
                return of_vertices * 2
            if not found:
                shown = ", ".join(names) or "none"
                raise SourceError(
                    f"{source} has no columns src and dst; its columns are: {shown}; if others are meant, name them with "
                    "--src and --dst (src=, dst=)"
                )
            if len(found) > 1:
                (a, b), (c, d) = found[:2]
                raise SourceError(
                    f"{source} has columns {a} and {b}, and also {c} and {d}: say which are the ends of an edge, as in "
                    f"--src {a} --dst {b} (src={a!r}, dst={b!r})"
                )
            return found[0]
        missing = 0 if self.src is None else 1
        one = _without_properties([(name,) for pair in ENDS for name in _called(pair[missing], rest)], known)
        role, other = ("src", "dst")[missing], ("src", "dst")[1 - missing]
        if len(one) != 1:
            raise SourceError(
                f"{other} of {source} is {self.dst if missing == 0 else self.src!r}: say which column is {role}, too, with "
                f"--{role} ({role}=); its columns are: {', '.join(names)}"
            )
        (found_end,) = one[0]
        return (found_end, str(self.dst)) if missing == 0 else (str(self.src), found_end)


BY_NAME = UpdateColumns()
"""Nothing is named: columns are known by their own names."""


def _called(word: str, names: Sequence[str]) -> list[str]:
    """Return the names that are a word in upper or lower case; the word itself, if it is there, is the only one."""
    found = [name for name in names if name.lower() == word]
    return [word] if word in found else found


def _without_properties(found: list[NamesT], known: Collection[str]) -> list[NamesT]:
    """Return readings; of several, those that do not take a property of edges for something else, if there are such."""
    if len(found) < 2:
        return found
    return [names for names in found if not any(name in known for name in names)] or found


def _op(rest: Sequence[str], source: str, known: Collection[str]) -> str | None:
    found = _without_properties([(name,) for name in _called(OP_COLUMN, rest)], known)
    if len(found) > 1:
        (one,), (other,) = found[:2]
        raise SourceError(
            f"{source} has the columns {one!r} and {other!r}: say which has + or -, as in --op {one} (op={one!r})"
        )
    return found[0][0] if found else None


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column of a type can name relations; one of no type is that of a file without rows."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def as_plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as plain strings, however it was encoded."""
    while pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if column.type in (pa.string(), pa.null()) else column.cast(pa.string())
