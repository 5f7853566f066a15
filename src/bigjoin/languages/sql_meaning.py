"""What a SELECT means for a source: queries over its tables, and what becomes of their rows.

The steps: names become columns of table uses (`sql_scope.py`), joins are decided (`sql_drafts.py`), uses become atoms
(`sql_queries.py`), and here the columns of the result are put together, with groups, order and limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bigjoin.errors import QueryError, Span
from bigjoin.languages.groups import grouped_statement
from bigjoin.languages.sql_drafts import BlockDrafting, settle
from bigjoin.languages.sql_queries import Queries
from bigjoin.languages.sql_scope import FreshNames, Scope, TableBlock
from bigjoin.languages.sql_tables import SqlTables
from bigjoin.languages.sql_tree import UNQUALIFIED, Select, Sort, SqlExpression, has_aggregate, inside, span_of
from bigjoin.query.expressions import Call, Expression, mapped, terms_of
from bigjoin.query.grouping import Aggregate
from bigjoin.query.query import validate
from bigjoin.query.statement import QueryBlock, RowStage, SortKey, Statement
from bigjoin.query.terms import Constant, Property


def meaning_of(select: Select, text: str, tables: SqlTables, name: str) -> Statement:
    """Return what a SELECT asks for in a source, in queries of one name; raise QueryError for what it cannot answer."""
    fresh = FreshNames()
    scope, block = Scope(tables, fresh), TableBlock()
    scope.read_from(select.joined, block)
    if select.where is not None:
        scope.add_condition(select.where, block, "WHERE")
    asked = _Asked.of(select, scope)
    tables.expect(_looked_at(block, asked.outputs))
    settle(block, tables, asked.outputs)
    main = BlockDrafting(tables, asked.outputs).draft(block)
    queries = Queries(main, tables, fresh, asked.outputs, select.cross_product)
    found = _named(queries.main, name)
    later = [_in_terms(condition, queries) for condition in main.later]
    where = later[0] if len(later) == 1 else Call("and", tuple(later)) if later else None
    statement = asked.statement(text, found, queries)
    for inner in statement.everything:
        validate(inner.query)
    return _staged(statement, where)


@dataclass(frozen=True)
class _Column:
    """A column of the result."""

    name: str
    expression: SqlExpression
    span: Span | None


@dataclass(frozen=True)
class _Asked:
    """What a SELECT makes of rows, with its names resolved."""

    select: Select
    columns: tuple[_Column, ...]
    keys: tuple[SqlExpression, ...]
    having: SqlExpression
    order: tuple[tuple[SqlExpression, Sort], ...]

    @classmethod
    def of(cls, select: Select, scope: Scope) -> _Asked:
        """Resolve the names of a SELECT: of columns, of the result's columns, and of their places."""
        found = scope.columns_of(select)
        names = _apart([name for name, _, _ in found])
        columns = tuple(_Column(name, expression, span) for name, (_, expression, span) in zip(names, found, strict=True))
        named = _Named(scope, columns, [name for name, _, _ in found])
        keys = tuple(named.key(key) for key in select.group or ())
        if select.group_all:
            keys = tuple(column.expression for column in columns if not has_aggregate(column.expression))
        having = None if select.having is None else named.resolved(select.having, columns_first=True)
        if having is not None and not (select.is_grouped or has_aggregate(having)):
            raise QueryError("HAVING is about groups, and there are none", span_of(select.having), "write WHERE, or GROUP BY")
        order = tuple((named.sorted_by(sort), sort) for sort in select.order)
        asked = cls(select, columns, keys, having, order)
        asked._check()
        return asked

    @property
    def outputs(self) -> tuple[SqlExpression, ...]:
        """Everything that is computed of rows."""
        having = () if self.having is None else (self.having,)
        parts = (*(column.expression for column in self.columns), *self.keys, *having, *(part for part, _ in self.order))
        return tuple(argument for part in parts for argument in _before_groups(part, self.keys))

    def _check(self) -> None:
        for part in self.keys:
            if has_aggregate(part):
                raise QueryError("rows are not grouped by an aggregate", span_of(part), "leave it out of GROUP BY")
        if self.select.is_grouped:
            for column in self.columns:
                self._check_grouped(column.expression, column.span)
            if self.having is not None:
                self._check_grouped(self.having, None)
            for part, sort in self.order:
                self._check_grouped(part, sort.span)
        if self.select.distinct:
            shown = [column.expression for column in self.columns]
            for part, sort in self.order:
                if part not in shown:
                    hint = "select it as well, or leave DISTINCT out"
                    raise QueryError("rows that are DISTINCT are sorted by what is selected", sort.span, hint)

    def _check_grouped(self, expression: SqlExpression, span: Span | None) -> None:
        """Refuse a column that differs within a group."""
        if expression in self.keys or isinstance(expression, Aggregate | Constant):
            return
        if isinstance(expression, Call):
            for argument in expression.arguments:
                self._check_grouped(argument, span)
            return
        name = expression.name if isinstance(expression, Property) else expression
        hint = "add it to GROUP BY, or aggregate it, as in max(...)"
        raise QueryError(f"'{name}' is neither in GROUP BY nor aggregated", span_of(expression) or span, hint)

    # The statement

    def statement(self, text: str, block: QueryBlock, queries: Queries) -> Statement:
        """Return the statement of a block."""
        if self.select.is_grouped:
            return self._grouped(text, block, queries)
        return self._plain(text, block, queries)

    def _grouped(self, text: str, block: QueryBlock, queries: Queries) -> Statement:
        select, only = self.select, self.columns[0]
        counts = len(self.columns) == 1 and only.expression == Aggregate("count") and not self.keys and self.having is None
        if counts and not select.group_all:
            block = replace(block, query=replace(block.query, head=()))
            return Statement("sql", text, (block,), count_column=only.name, skip=select.offset, limit=select.limit)
        found = grouped_statement(
            "sql",
            text,
            block,
            [(column.name, _in_terms(column.expression, queries)) for column in self.columns],
            having=None if self.having is None else _in_terms(self.having, queries),
            order=[(_in_terms(part, queries), sort.descending) for part, sort in self.order],
            limit=select.limit,
            skip=select.offset,
            keys=[_in_terms(key, queries) for key in self.keys],
        )
        sorts = zip(found.order, self.order, strict=True)
        order = tuple(replace(key, nulls_first=sort.nulls_first) for key, (_, sort) in sorts)
        blocks = (block,) if block.subpatterns else found.blocks  # whose heads are what they bind themselves
        return replace(found, blocks=blocks, order=order, deduplicate=select.distinct)

    def _plain(self, text: str, block: QueryBlock, queries: Queries) -> Statement:
        select = self.select
        terms = {column.name: _in_terms(column.expression, queries) for column in self.columns}
        shown = {column.name: column.expression for column in self.columns}
        order = []
        for number, (part, sort) in enumerate(self.order):
            name = next((name for name, known in shown.items() if known == part), f"_sort{number}")
            terms.setdefault(name, _in_terms(part, queries))
            order.append(SortKey(name, sort.descending, sort.nulls_first))
        head, names = tuple(terms.values()), tuple(terms)
        has_subs = bool(block.subpatterns)
        query = block.query if has_subs else replace(block.query, head=head, names=names, deduplicate=select.distinct)
        return Statement(
            "sql",
            text,
            (replace(block, query=query),),
            head=head,
            names=names,
            columns=tuple(column.name for column in self.columns),
            order=tuple(order),
            skip=select.offset,
            limit=select.limit,
            deduplicate=select.distinct and has_subs,
        )


@dataclass(frozen=True)
class _Named:
    """Resolves names that may be those of the result's columns."""

    scope: Scope
    columns: tuple[_Column, ...]
    names: Sequence[str]

    def key(self, key: SqlExpression) -> SqlExpression:
        """Return what rows are grouped by: the place of a column, an expression, or a name of a column."""
        if (column := self._place(key, "GROUP BY")) is not None:
            return column
        return self.resolved(key, columns_first=True)

    def sorted_by(self, sort: Sort) -> SqlExpression:
        """Return what rows are sorted by; names are those of the result first."""
        column = self._place(sort.expression, "ORDER BY")
        return self.resolved(sort.expression, columns_first=False) if column is None else column

    def _place(self, expression: SqlExpression, clause: str) -> SqlExpression | None:
        if not isinstance(expression, Constant) or not isinstance(expression.value, int) or isinstance(expression.value, bool):
            return None
        if not 1 <= expression.value <= len(self.columns):
            hint = f"the columns are 1 to {len(self.columns)}"
            raise QueryError(f"{clause} {expression.value}: there is no column {expression.value}", hint=hint)
        return self.columns[expression.value - 1].expression

    def resolved(self, expression: SqlExpression, *, columns_first: bool) -> SqlExpression:
        """Return an expression in which names of the result's columns stand for what these are."""
        if isinstance(expression, Call):
            parts = (self.resolved(argument, columns_first=columns_first) for argument in expression.arguments)
            return replace(expression, arguments=tuple(parts))
        if not isinstance(expression, Property) or expression.attribute != UNQUALIFIED:
            return self.scope.resolved(expression)
        alias = self._alias(expression.name)
        if alias is None or (columns_first and self._is_column(expression)):
            return self.scope.resolved(expression)
        return alias

    def _alias(self, name: str) -> SqlExpression | None:
        found = [c.expression for c, given in zip(self.columns, self.names, strict=True) if given.casefold() == name.casefold()]
        return found[0] if found and all(one == found[0] for one in found) else None

    def _is_column(self, column: Property) -> bool:
        try:
            self.scope.resolved(column)
        except QueryError:
            return False
        return True


def _before_groups(expression: SqlExpression, keys: Sequence[SqlExpression]) -> Iterable[SqlExpression]:
    """Give the parts of an expression that are computed of rows, before these are grouped."""
    if expression in keys or not has_aggregate(expression):
        yield expression
    elif isinstance(expression, Aggregate):
        if expression.argument is not None:
            yield expression.argument
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _before_groups(argument, keys)


def _in_terms(expression: SqlExpression, queries: Queries) -> SqlExpression:
    """Return an expression over the attributes and properties of queries."""
    if isinstance(expression, Aggregate):
        return (
            expression if expression.argument is None else replace(expression, argument=_in_terms(expression.argument, queries))
        )
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_in_terms(argument, queries) for argument in expression.arguments))
    return queries.term(expression) if isinstance(expression, Property) else expression


def _looked_at(block: TableBlock, outputs: Sequence[SqlExpression]) -> dict[str, set[str]]:
    """Return the columns of each table that a block, or what is computed of its rows, names."""
    blocks, tables = [block], dict[str, str]()
    for one in blocks:
        blocks += [sub.block for sub in one.subs]
        tables |= {use.name: use.table for use in one.uses}
    found: dict[str, set[str]] = {table: set() for table in tables.values()}
    for part in (*(condition for one in blocks for condition in one.conditions), *outputs):
        for leaf in inside(part):
            if isinstance(leaf, Property):
                found[tables[leaf.attribute]].add(leaf.name)
    return found


def _named(block: QueryBlock, name: str) -> QueryBlock:
    subs = tuple(replace(sub, block=_named(sub.block, name)) for sub in block.subpatterns)
    return replace(block, query=replace(block.query, name=name), subpatterns=subs)


def _apart(names: Sequence[str]) -> list[str]:
    """Return names that Spark can tell apart: of columns with one name, the second is called name_1."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        candidate, number = name, 0
        while candidate.casefold() in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate.casefold())
        found.append(candidate)
    return found


def _staged(statement: Statement, where: Expression | None) -> Statement:
    """Return a statement whose columns are computed after its parts have been joined, where they cannot be before."""
    head = statement.head
    if not statement.blocks[0].subpatterns or (where is None and all(isinstance(term, str | Property) for term in head)):
        return statement
    parts = [*head, *([] if where is None else [where])]
    leaves = {term: f"_t{n}" for n, term in enumerate(dict.fromkeys(leaf for part in parts for leaf in terms_of(part)))}

    def named(part: Expression) -> Expression:
        return leaves[part] if isinstance(part, str | Property) else part

    stages = [] if where is None else [RowStage(where=mapped(where, named))]
    if head:
        columns = zip(statement.names, head, strict=True)
        stages.append(RowStage(columns=tuple((name, mapped(term, named)) for name, term in columns)))
    return replace(statement, head=tuple(leaves), names=tuple(leaves.values()), before=tuple(stages))
