"""Rows as Python programs hold them: lists of tuples or dictionaries, columns, NumPy arrays, tables of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from bigjoin.errors import SourceError, shown, warn_of_reading
from bigjoin.ingest.table import EDGES, Kind
from bigjoin.reading import ReadingOptions


def is_columns(given: object) -> bool:
    """Tell a mapping of names to columns from one of names to tables: a column holds values, not rows."""
    if not isinstance(given, Mapping) or not given:
        return False
    return all(_is_column(values) for values in given.values())


def _is_column(values: object) -> bool:
    if isinstance(values, (pa.Array, pa.ChunkedArray)) or (hasattr(values, "iloc") and getattr(values, "ndim", 0) == 1):
        return True
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.names is None
    return isinstance(values, (list, tuple, range)) and not any(isinstance(one, (tuple, list, Mapping)) for one in values[:1])


def is_networkx(given: object) -> bool:
    """Tell whether something is a graph of NetworkX, or looks like one; a frame of Spark has an attribute of any name."""
    return all(hasattr(type(given), name) for name in ("edges", "nodes", "is_directed", "is_multigraph"))


def networkx_vertices(graph: Any) -> pa.Table:
    """Return the vertices of a NetworkX graph, with their attributes."""
    return _table_of_records([{"id": node, **known} for node, known in graph.nodes(data=True)], "vertices", ("id",))


def networkx_edges(graph: Any, *, directed: bool | None) -> pa.Table:
    """Return the edges of a NetworkX graph, with their attributes."""
    if not graph.is_directed() and directed is not False:
        warn_of_reading(
            "the NetworkX graph is undirected, and its edges are read in one direction each: say directed=False, or "
            "directed=True and give graph.to_directed()"
        )
    rows = [{"src": src, "dst": dst, **known} for src, dst, known in graph.edges(data=True)]
    return _table_of_records(rows, "edges", ("src", "dst"))


def from_python(rows: Any, what: str, kind: Kind | None, said: ReadingOptions) -> tuple[pa.Table, ReadingOptions] | None:
    """Return rows in a form of Python's as a table, and what is then left to say of it; None if they are in no known form.

    Tuples have no names: those of two values are edges, and others need `columns`. Rows of a relation may have any width.
    """
    try:
        if isinstance(rows, Mapping):
            if not is_columns(rows):
                raise SourceError(f"{what}: a mapping holds columns of one length by name, such as {{'src': [1], 'dst': [2]}}")
            return _table({str(name): values for name, values in rows.items()}, what), said
        if isinstance(rows, np.ndarray):
            return _from_numpy(rows, what, kind, said)
        if hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.RecordBatch):
            return pa.table(rows), said
        if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
            return None
        listed = list(rows)
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"{what}: the {type(rows).__name__} cannot be read: {_first_line(error)}") from None
    if all(isinstance(row, Mapping) for row in listed) and listed:
        return _table_of_records(listed, what, ()), said
    if any(isinstance(row, (str, bytes)) or not isinstance(row, Iterable) for row in listed):
        if kind is not None and kind is not EDGES:
            return _named([listed], what, kind, said)
        odd = next(row for row in listed if isinstance(row, (str, bytes)) or not isinstance(row, Iterable))
        raise SourceError(
            f"{what}: the list holds {shown(repr(odd), 60)}, and a row is a tuple, such as (1, 2), or a dictionary"
        )
    tuples = [tuple(row) for row in listed]
    width = len(tuples[0]) if tuples else len(said.columns or ()) or (len(kind.ends) if kind is not None else 0)
    if odd_row := next((i for i, row in enumerate(tuples, 1) if len(row) != width), None):
        raise SourceError(f"{what}: row {odd_row:,} has {len(tuples[odd_row - 1])} values, and the first has {width}")
    return _named([[row[i] for row in tuples] for i in range(width)], what, kind, said)


def _from_numpy(
    rows: np.ndarray[Any, Any], what: str, kind: Kind | None, said: ReadingOptions
) -> tuple[pa.Table, ReadingOptions]:
    if rows.dtype.names is not None:
        if rows.ndim != 1:
            raise SourceError(f"{what}: the structured array has {rows.ndim} dimensions; give one, with a record for each row")
        return _table({name: rows[name] for name in rows.dtype.names}, what), said
    if kind is not None and kind is not EDGES and rows.ndim == 1:
        rows = rows.reshape(-1, 1)
    if rows.ndim != 2:
        raise SourceError(f"{what}: the array has the shape {rows.shape}; edges have the shape (n, 2), a row for each")
    return _named([np.ascontiguousarray(rows[:, i]) for i in range(rows.shape[1])], what, kind, said)


def _named(
    columns: Sequence[Sequence[Any] | np.ndarray[Any, Any]], what: str, kind: Kind | None, said: ReadingOptions
) -> tuple[pa.Table, ReadingOptions]:
    """Return columns that have no names as a table: named by the user, or, if there are as many as ids, as the ids."""
    width = len(columns)
    ends = kind.ends if kind is not None else ()
    if said.columns is not None:
        if len(said.columns) != width:
            raise SourceError(f"{what}: {len(said.columns)} columns are named, and a row has {width} values")
        names, left = tuple(said.columns), replace(said, columns=None)
        asked = left.src is not None or left.dst is not None or left.id is not None
        if kind is not None and kind.named(names) is None and not asked:
            left = replace(left, id=names[0]) if kind is not EDGES else replace(left, src=names[0], dst=names[1])
        return _table(dict(zip(names, columns, strict=True)), what), left
    if kind is not None and width != len(ends) and not said.is_positional:
        example = ", ".join([repr(end) for end in ends] + ["'amount'", "'time'"][: max(0, width - len(ends))])
        raise SourceError(
            f"{what}: a row has {width} values, and {kind.need}; name them, as in columns=[{example}]"
            if width > len(ends)
            else f"{what}: a row has {width} value{'s' * (width != 1)}; {kind.need}"
        )
    names = tuple(ends) if width == len(ends) else tuple(f"c{i + 1}" for i in range(width))
    return _table(dict(zip(names, columns, strict=True)), what), said


def _table_of_records(rows: Sequence[Mapping[Any, Any]], what: str, first: Sequence[str]) -> pa.Table:
    """Return dictionaries as rows of all columns that any of them has."""
    names = list(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    return _table({str(name): [row.get(name) for row in rows] for name in names}, what)


def _table(columns: Mapping[str, Any], what: str) -> pa.Table:
    """Return columns as a table of Arrow's."""
    arrays = {name: _array(values, name, what) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise SourceError(f"{what}: the columns differ in length: {told}")
    return pa.table(arrays)


def _array(values: Any, name: str, what: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if not isinstance(values, np.ndarray):
        values = [str(value) if isinstance(value, UUID) else value for value in values]
    try:
        found = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kinds = list(dict.fromkeys(type(value).__name__ for value in values if value is not None))
        if len(kinds) > 1:
            raise SourceError(f"{what}: column {name!r} holds both {kinds[0]} and {kinds[1]}: make them one type") from None
        raise SourceError(f"{what}: column {name!r} cannot be read: {_first_line(error)}") from None
    return found.cast(pa.int64()) if pa.types.is_null(found.type) and not len(found) else found


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
