"""What updates have to be like to fit a graph: asked of the columns of a stream or a file before a watch starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.index.directory import EDGE, VERTEX, Index
from bigjoin.ingest.columns import cast
from bigjoin.streaming.update_columns import BY_NAME, FoundColumns, UpdateColumns, is_text
from bigjoin.streaming.updates import RELATION_COLUMN, check_sign_type, id_kind

PropertyTypes: TypeAlias = Mapping[str, pa.DataType]
"""The types of properties, by name."""


@dataclass(frozen=True)
class ExpectedUpdates:
    """What updates of a graph have to be like."""

    ids: pa.DataType
    properties: Mapping[str, PropertyTypes]
    """Those of edges, by the relations that updates can name."""
    of_vertices: PropertyTypes = field(default_factory=dict)
    """Those of vertices."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The column that says the type of an edge, by the relations of typed edges."""
    columns: UpdateColumns = BY_NAME
    order: str | None = None
    time: str | None = None
    """The column of a window."""

    @classmethod
    def of_index(
        cls, index: Index, columns: UpdateColumns, *, order: str | None = None, time: str | None = None
    ) -> ExpectedUpdates:
        """Return what updates of an index have to be like."""
        known = index.statistics
        relations = {n: r for n, r in known.relations.items() if r.arity == 2 and not r.materialized}
        properties = {
            name: {} if relation.rows is None else {n: c.type for n, c in index.properties(relation.rows.domains[2]).items()}
            for name, relation in relations.items()
        }
        of_vertices = {name: column.type for name, column in index.properties(VERTEX).items()}
        entries = index.manifest.relations.items()
        types = {name: entry.type_of.column for name, entry in entries if entry.type_of is not None}
        return cls(index.dictionaries[VERTEX].type, properties, of_vertices, types, columns, order, time)

    @cached_property
    def known_names(self) -> frozenset[str]:
        """The names of all properties."""
        return frozenset(self.of_vertices).union(*self.properties.values())

    @property
    def only_relation(self) -> str | None:
        """The relation of updates that do not name one; None if they have to."""
        return EDGE if EDGE in self.properties else next(iter(self.properties)) if len(self.properties) == 1 else None

    def find(self, schema: pa.Schema, source: str) -> FoundColumns:
        """Return which columns say what changes; raise SourceError if one is missing."""
        return self.columns.find(schema.names, source, frozenset[str]().union(*self.properties.values()))

    def names_relation(self, schema: pa.Schema) -> bool:
        """Tell whether updates with these columns name their relations: a property of edges may have that name, too."""
        is_property = len(self.properties) == 1 and RELATION_COLUMN in self.known_names
        return RELATION_COLUMN in schema.names and not is_property

    def about_vertices(self, table: pa.Table, found: FoundColumns) -> NDArray[np.bool_]:
        """Tell for each row whether it is about a vertex."""
        if found.are_vertices or found.id is None or VERTEX in self.properties or not self.names_relation(table.schema):
            return np.full(len(table), found.are_vertices)
        named = pc.equal(table[RELATION_COLUMN].cast(pa.string()), VERTEX)
        return np.asarray(pc.fill_null(named, False).to_numpy(), np.bool_)


def check_schema(schema: pa.Schema, expected: ExpectedUpdates, source: str, *, begins: bool = False) -> FoundColumns:
    """Return which columns say what changes; raise SourceError if no row with such columns could be an update.

    What `begins` a watch needs the column of its window, too; a later file without it has NULL there.
    """
    found = expected.find(schema, source)
    for name in dict.fromkeys((*found.ends, *((found.id,) if expected.names_relation(schema) and found.id else ()))):
        id_kind(schema.field(name).type, expected.ids, name, source)
    if found.op is not None:
        check_sign_type(schema.field(found.op).type, found.op, source)
    shown = ", ".join(schema.names)
    if expected.names_relation(schema):
        kind = schema.field(RELATION_COLUMN).type
        if not is_text(kind):
            raise SourceError(f"column {RELATION_COLUMN!r} of {source} is {kind}, and names of relations are text: cast it")
    elif expected.only_relation is None and not found.are_vertices:
        several = ", ".join(expected.properties)
        raise SourceError(f"{source} has no column {RELATION_COLUMN!r}, and the graph has several: {several}")
    if expected.order is not None and expected.order not in schema.names:
        raise SourceError(f"{source} has no column {expected.order!r} to order updates by; its columns are: {shown}")
    if expected.order is not None and pa.types.is_nested(schema.field(expected.order).type):
        raise SourceError(f"column {expected.order!r} of {source} is {schema.field(expected.order).type}, which has no order")
    if begins and expected.time is not None and expected.time not in schema.names and not found.are_vertices:
        raise SourceError(f"{source} has no column {expected.time!r} with the times of edges; its columns are: {shown}")
    _check_properties(schema, expected, found, source)
    return found


def _check_properties(schema: pa.Schema, expected: ExpectedUpdates, found: FoundColumns, source: str) -> None:
    """Refuse a property that no relation could take, whatever its values are."""
    for field_ in schema:
        name, kind = field_.name, field_.type
        wanted = {types[name] for types in (*expected.properties.values(), expected.of_vertices) if name in types}
        if name in (*found.ends, found.op) or not wanted or any(_can_become(kind, type_) for type_ in wanted):
            continue
        types = " or ".join(sorted(map(str, wanted)))
        raise SourceError(f"column {name!r} of {source} is {kind}, and that of the graph is {types}: cast it")


def _can_become(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether some values of a type can be cast to another."""
    if kind == wanted:
        return True
    try:
        cast(pa.array([], kind), wanted, column="", source="")
    except (SourceError, pa.ArrowException):
        return False
    return True
