"""The tables of SQL are relations: what a statement reads of them becomes an index of its own.

A use of a table reads key columns, and the number of the row where that is wanted. Uses that read the same keys read one
relation. What else is looked at are properties of rows, in files of the index, so that tasks map them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bigjoin.errors import Span
from bigjoin.index.stage_runner import StageRunner
from bigjoin.ingest.relations import Domain, Encoded, NumberedRows, encode
from bigjoin.ingest.table import Table
from bigjoin.languages.sql_tables import TableKey, TableRead
from bigjoin.query.expressions import Expression, terms_of
from bigjoin.query.query import Atom
from bigjoin.query.statement import Statement
from bigjoin.query.terms import Property
from bigjoin.sql_rows import ROW_NUMBER, SqlTable, common_keys, properties_of, truth


@dataclass(frozen=True)
class RelationRead:
    """A relation of an index: what it reads of a table."""

    name: str
    table: str
    keys: tuple[TableKey, ...]
    where: Expression | None
    numbered: bool


@dataclass
class RelationTables:
    """Relations as tables of SQL; `open_table` gives some columns of one."""

    schemas: Callable[[str], Mapping[str, str]]
    open_table: Callable[[str, Sequence[str]], Table]
    known: Sequence[str]
    zone: Callable[[], str]
    tables: dict[str, SqlTable] = field(default_factory=dict)
    reads: dict[tuple[object, ...], RelationRead] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    """By the attribute of a row: its table."""
    columns_of: dict[str, set[tuple[str, TableKey]]] = field(default_factory=dict)
    """By attribute: the columns of tables that it ranges over."""

    # What SQL asks

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return list(self.known)

    def columns(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table, and their types."""
        return self.schemas(table)

    def expect(self, columns: Mapping[str, Collection[str]]) -> None:
        """Open tables with the columns that a statement looks at; where it looks at none, one tells how many rows there are."""
        for name, looked_at in columns.items():
            every = self.schemas(name)
            wanted = [column for column in every if column in looked_at] or list(every)[:1]
            self.tables[name] = SqlTable(name, self.open_table(name, wanted), self.zone)

    def fixed_keys(self, table: str) -> None:
        """Return None: keys are chosen for each statement."""
        del table

    def row_key(self, table: str) -> None:
        """Return None: columns that are no keys are properties of rows."""
        del table

    def check_row(self, table: str, span: Span | None) -> None:
        """Do nothing: all rows have numbers."""
        del table, span

    def common_keys(self, one: tuple[str, TableKey], other: tuple[str, TableKey]) -> tuple[TableKey, TableKey] | None:
        """Return keys of two tables in forms whose values have one type; None if there are none."""
        return common_keys(self.tables[one[0]], one[1], self.tables[other[0]], other[1])

    def may_be_null(self, table: str, key: TableKey) -> bool:
        """Tell whether a key is NULL in some row."""
        return self.tables[table].may_be_null(key)

    def is_distinct(self, table: str, keys: Collection[TableKey]) -> bool:
        """Tell whether no two rows agree in some keys."""
        return self.tables[table].is_distinct(keys)

    def truth(self, condition: Expression) -> bool | None:
        """Tell whether a condition without columns holds; None if it has some."""
        return truth(condition)

    def filters(self, table: str) -> bool:
        """Return True: an index is made of just the rows that a statement wants."""
        del table
        return True

    def atom(self, read: TableRead, attributes: Sequence[str], span: Span | None) -> Atom:
        """Return the atom that reads a table; pairs and the rows of pairs are one relation."""
        separate = read.row and len(read.keys) != 2
        place = (read.table, read.keys, read.where, separate)
        if place not in self.reads:
            taken = {known.name for known in self.reads.values()}
            names = (read.table if n == 1 else f"{read.table}_{n}" for n in range(1, len(self.reads) + 2))
            name = next(name for name in names if name not in taken)
            self.reads[place] = RelationRead(name, read.table, read.keys, read.where, separate)
        known = self.reads[place] = replace(self.reads[place], numbered=self.reads[place].numbered or read.row)
        for key, attribute in zip(read.keys, attributes, strict=False):
            self.columns_of.setdefault(attribute, set()).add((read.table, key))
        if read.row:
            self.rows[attributes[-1]] = read.table
        return Atom(known.name, tuple(attributes), span=span)

    # The index

    def encoded(self, statement: Statement, folder: Path, run: StageRunner) -> Encoded:
        """Encode what the queries of a statement read."""
        relations = {read.name: self._relation(read) for read in self.reads.values()}
        found = encode(relations, list(self._domains()), folder, run, drop_nulls=True)
        looked_at: dict[str, set[str]] = {}
        for term in _properties(statement):
            looked_at.setdefault(self.rows[term.attribute], set()).add(term.name)
        numbered = {}
        for domain, rows in found.numbered.items():
            table = domain.removesuffix(" row")
            properties, files = properties_of(self.tables[table], looked_at.get(table, ()), folder, run)
            numbered[domain] = NumberedRows(rows.size, properties, files) if properties else rows
        return replace(found, numbered=numbered)

    def _relation(self, read: RelationRead) -> Table:
        columns = [(_name(key), key) for key in read.keys]
        return self.tables[read.table].selected(columns, read.where, numbered=read.numbered)

    def _domains(self) -> Iterator[Domain]:
        """Give the domains: columns that share an attribute, directly or through others, and the rows of each table."""
        groups: list[set[tuple[str, TableKey]]] = []
        for columns in self.columns_of.values():
            touched = [group for group in groups if group & columns]
            groups = [group for group in groups if group not in touched] + [columns.union(*touched)]
        for group in groups:
            found = [(r.name, _name(key)) for r in self.reads.values() for key in r.keys if (r.table, key) in group]
            yield Domain(".".join(found[0]), tuple(found))
        for table in dict.fromkeys(read.table for read in self.reads.values() if read.numbered):
            numbered = tuple((read.name, ROW_NUMBER) for read in self.reads.values() if read.numbered and read.table == table)
            yield Domain(f"{table} row", numbered, self.tables[table].rows)


def _properties(statement: Statement) -> Iterator[Property]:
    """Give the properties of rows that the queries of a statement look at."""
    parts: list[Expression] = [term for block in statement.everything for term in block.query.head]
    parts += [*statement.head]
    for part in parts:
        yield from (term for term in terms_of(part) if isinstance(term, Property))
    for block in statement.everything:
        for condition in block.query.filters:
            yield from condition.properties


def _name(key: TableKey) -> str:
    return key.name if isinstance(key, Property) else str(key)
