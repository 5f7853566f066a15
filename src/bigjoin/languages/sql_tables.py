"""What SQL has to know about a source's tables, and how it reads them: relations of key columns, and perhaps row numbers.

Relations are sets, and a table may have equal rows. So a use of a table is an atom of its key columns, which are joined, and,
where equal keys may occur or other columns are looked at, the number of the row. All other columns are properties of the row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from bigjoin.errors import Span
from bigjoin.languages.sql_tree import UNQUALIFIED
from bigjoin.query.expressions import Expression, mapped
from bigjoin.query.query import Atom
from bigjoin.query.terms import Property

TableKey: TypeAlias = Expression
"""What a table is joined by: a column of it, as `Property("", column)`, or an expression of its columns."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """What one use reads of a table: keys without NULLs, the number of the row if it is wanted, and some rows only."""

    table: str
    keys: tuple[TableKey, ...]
    row: bool = False
    where: Expression | None = None


class SqlTables(Protocol):
    """A source's tables, as SQL reads them."""

    def names(self) -> list[str]:
        """Return the names of the tables."""

    def columns(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table, and their Arrow types as text."""

    def expect(self, columns: Mapping[str, Collection[str]]) -> None:
        """Get ready for a statement that looks at some columns of each table."""

    def fixed_keys(self, table: str) -> tuple[TableKey, ...] | None:
        """Return the keys that every use of a table has, if they are not chosen for each statement; others are not joined."""

    def row_key(self, table: str) -> TableKey | None:
        """Return the key that the other columns are properties of, if that is not the row."""

    def check_row(self, table: str, span: Span | None) -> None:
        """Raise QueryError if rows of a table cannot be told apart by their numbers."""

    def common_keys(self, one: tuple[str, TableKey], other: tuple[str, TableKey]) -> tuple[TableKey, TableKey] | None:
        """Return keys of two tables in forms whose values have one type; None if there are none."""

    def may_be_null(self, table: str, key: TableKey) -> bool:
        """Tell whether a key is NULL in some row."""

    def is_distinct(self, table: str, keys: Collection[TableKey]) -> bool:
        """Tell whether no two rows agree in some keys, rows in which one of them is NULL aside."""

    def truth(self, condition: Expression) -> bool | None:
        """Tell whether a condition without columns holds; None if it has some."""

    def filters(self, table: str) -> bool:
        """Tell whether an atom can read those rows of a table alone that satisfy a condition."""

    def atom(self, read: TableRead, attributes: Sequence[str], span: Span | None) -> Atom:
        """Return the atom that reads a table; the attribute of the row comes last."""


def key_of(expression: Expression) -> TableKey:
    """Return an expression about one use as a key of its table."""

    def change(part: Expression) -> Expression:
        return Property(UNQUALIFIED, part.name) if isinstance(part, Property) else part

    return mapped(expression, change)


def column_key(column: str) -> TableKey:
    """Return a column as a key."""
    return Property(UNQUALIFIED, column)
