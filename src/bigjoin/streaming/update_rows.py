"""A table of updates: rows about edges, and rows about vertices, which the column `relation` tells apart.

Without that column a table with the ends of edges is about edges, and a table with ids is about vertices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.index.directory import VERTEX
from bigjoin.ingest.table import vertex_column
from bigjoin.streaming.update_columns import BY_NAME, FoundColumns, UpdateColumns, as_plain_text, is_text
from bigjoin.streaming.updates import RELATION_COLUMN, Updates, read_updates


@dataclass(frozen=True)
class UpdateRows:
    """The updates of a table: those of edges, and those of vertices, in which both ends are the vertex."""

    edges: Updates
    vertices: Updates

    @property
    def ids(self) -> pa.ChunkedArray:
        """All ids: the sources of edges, their targets, and the vertices."""
        parts = (self.edges.src, self.edges.dst, self.vertices.src)
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], self.edges.src.type)


def read_update_rows(
    table: pa.Table,
    ids: pa.DataType,
    source: str,
    *,
    order: str | None = None,
    of_edges: Collection[str] = (),
    of_vertices: Collection[str] = (),
    relations: Sequence[str] = (),
    columns: UpdateColumns = BY_NAME,
) -> UpdateRows:
    """Return the updates of a table, given the properties of edges and of vertices; raise SourceError if it is malformed."""
    found = columns.find(table.column_names, source, of_edges)
    table = _with_plain_names(table)
    names, about_vertices = table.column_names, _about_vertices(table, of_edges, relations, found)
    kept = {*of_edges, *of_vertices}
    if not about_vertices.any():
        is_mixed = RELATION_COLUMN in names and RELATION_COLUMN not in of_edges
        mine = _columns_of_edges(table, of_edges, of_vertices) if is_mixed else table
        return UpdateRows(read_updates(mine, ids, source, order=order, kept=kept, columns=columns), _no_updates(ids))
    column = found.id
    if column is None:
        raise SourceError(f"{source} has rows about vertices, and no column 'id'; its columns are: {', '.join(names)}")
    ends = () if found.are_vertices else found.ends
    left_out = {*ends, column, RELATION_COLUMN, *(set(of_edges) - set(of_vertices))}
    rows = table.filter(pa.array(about_vertices)).select([name for name in names if name not in left_out - {column}])
    rows = rows.rename_columns(["src" if name == column else name for name in rows.column_names])
    rows = rows.append_column("dst", rows["src"])
    vertices = read_updates(rows, ids, source, order=order, kept=kept, columns=UpdateColumns(op=found.op))
    if about_vertices.all():
        return UpdateRows(_no_updates(ids), vertices)
    others = _columns_of_edges(table.filter(pa.array(~about_vertices)), of_edges, of_vertices)
    edges = read_updates(others, ids, source, order=order, kept=kept, columns=columns)
    return UpdateRows(replace(edges, rows=np.flatnonzero(~about_vertices)[edges.rows]), vertices)


def _with_plain_names(table: pa.Table) -> pa.Table:
    """Return a table whose relations are named in plain text, however that was encoded."""
    at = table.schema.get_field_index(RELATION_COLUMN)
    if at < 0 or not is_text(table.schema.types[at]):
        return table
    return table.set_column(at, RELATION_COLUMN, as_plain_text(table.column(at)))


def _columns_of_edges(table: pa.Table, of_edges: Collection[str], of_vertices: Collection[str]) -> pa.Table:
    """Return a table without the columns that are about vertices alone."""
    left_out = {*(vertex_column(table.column_names) or ()), *of_vertices} - {*of_edges}
    return table.select([name for name in table.column_names if name not in left_out])


def _about_vertices(
    table: pa.Table, of_edges: Collection[str], relations: Sequence[str], found: FoundColumns
) -> NDArray[np.bool_]:
    """Tell for each row whether it is about a vertex."""
    names = table.column_names
    if RELATION_COLUMN in names and VERTEX not in relations and (len(relations) > 1 or RELATION_COLUMN not in of_edges):
        column = table[RELATION_COLUMN]
        if pa.types.is_string(column.type):
            return np.asarray(pc.fill_null(pc.equal(column, VERTEX), False).to_numpy(), np.bool_)
    return np.full(len(table), found.are_vertices)


def _no_updates(ids: pa.DataType) -> Updates:
    none = pa.chunked_array([], ids)
    return Updates(none, none, np.empty(0, np.int8), pa.table({}), False, np.empty(0, np.int64))
