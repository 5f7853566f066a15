"""The tables of SQL are the relations of a graph's index: `edge(src, dst, ...)`, `vertex(id, ...)`, labels, stored results.

Ids are keys, and the only ones. Where an index keeps rows, a table of edges has as many as its source and their columns;
otherwise it is a set of pairs, an undirected one with both directions of each edge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bigjoin.errors import QueryError, Span
from bigjoin.index.directory import Index
from bigjoin.index.values import Column
from bigjoin.languages.sql_tables import TableKey, TableRead, column_key
from bigjoin.query.expressions import Expression
from bigjoin.query.query import Atom
from bigjoin.query.statistics import VERTEX, RelationStatistics
from bigjoin.query.terms import Property
from bigjoin.sql_rows import truth


@dataclass(frozen=True)
class GraphTables:
    """The relations of an index as tables of SQL."""

    index: Index

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return list(dict.fromkeys([*self.index.statistics.relations, VERTEX]))

    def columns(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table, and their types: ids first, then properties."""
        known = self.index.statistics
        relation = self._relation(table)
        ids = dict(zip(self._ids(table), (known.ids.get(domain, "any") for domain in relation.domains), strict=True))
        return {**ids, **self._properties(table)}

    def expect(self, columns: Mapping[str, Collection[str]]) -> None:
        """Do nothing: everything is in the index."""
        del columns

    def fixed_keys(self, table: str) -> tuple[TableKey, ...]:
        """Return the ids."""
        return tuple(map(column_key, self._ids(table)))

    def row_key(self, table: str) -> TableKey | None:
        """Return the id of a vertex, whose properties are columns of a table of vertices."""
        return column_key(self._ids(table)[0]) if self._relation(table).domains == (VERTEX,) else None

    def common_keys(self, one: tuple[str, TableKey], other: tuple[str, TableKey]) -> tuple[TableKey, TableKey] | None:
        """Return ids of one domain as they are; nothing else is joined."""
        domains = [self._domain(*side) for side in (one, other)]
        return (one[1], other[1]) if domains[0] is not None and domains[0] == domains[1] else None

    def may_be_null(self, table: str, key: TableKey) -> bool:
        """Tell whether a column is NULL in some row: ids never are."""
        if key in self.fixed_keys(table):
            return False
        column = self._property(table, key.name) if isinstance(key, Property) else None
        return column is None or bool(column.null_count)

    def is_distinct(self, table: str, keys: Collection[TableKey]) -> bool:
        """Tell whether no two rows have the same ids."""
        relation = self._relation(table)
        return set(self.fixed_keys(table)) <= set(keys) and (relation.rows is None or relation.rows.tuples == relation.tuples)

    def truth(self, condition: Expression) -> bool | None:
        """Tell whether a condition without columns holds; None if it has some."""
        return truth(condition)

    def filters(self, table: str) -> bool:
        """Return False: an atom reads a relation of the index, all of it."""
        del table
        return False

    def check_row(self, table: str, span: Span | None) -> None:
        """Refuse to tell rows of a table apart by a number, if it has none."""
        relation = self._relation(table)
        if relation.rows is None or relation.symmetric:
            hint = "give the edges as a table of their own: bj.sql(text, edge=...)"
            raise QueryError(f"this needs numbers of the rows of {table!r}, which the index does not have", span, hint)

    def atom(self, read: TableRead, attributes: Sequence[str], span: Span | None) -> Atom:
        """Return the atom that reads a relation, or some of its columns."""
        if read.keys == self.fixed_keys(read.table):
            return Atom(read.table, tuple(attributes), span=span)
        names = tuple(key.name for key in read.keys if isinstance(key, Property))
        return Atom(read.table, tuple(attributes), columns=names, span=span)

    # The index

    def _relation(self, table: str) -> RelationStatistics:
        return self.index.statistics.relation(Atom(table, ()))

    def _ids(self, table: str) -> tuple[str, ...]:
        relation = self._relation(table)
        if relation.arity == 1 and relation.domains == (VERTEX,):
            return ("id",)
        return relation.columns or tuple(f"c{number + 1}" for number in range(relation.arity))

    def _properties(self, table: str) -> dict[str, str]:
        """Return the properties of a table's rows, or of its vertices, without those that are called like an id."""
        relation, known = self._relation(table), self.index.statistics.properties
        domain = relation.domains[0] if relation.domains == (VERTEX,) else relation.rows.domains[-1] if relation.rows else ""
        return {name: kind for name, kind in known.get(domain, {}).items() if name not in self._ids(table)}

    def _property(self, table: str, name: str) -> Column | None:
        relation = self._relation(table)
        if name not in self._properties(table):
            return None
        domain = relation.domains[0] if relation.rows is None else relation.rows.domains[-1]
        return self.index.properties(domain)[name]

    def _domain(self, table: str, key: TableKey) -> str | None:
        keys = self.fixed_keys(table)
        return self._relation(table).domains[keys.index(key)] if key in keys else None
