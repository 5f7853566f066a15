"""Which table each column of a SELECT belongs to: FROM becomes blocks of table uses, and names become columns of these.

A block holds tables that are all joined by inner joins. What a LEFT JOIN, an EXISTS or an IN adds is a block of its own, whose
conditions may be about the tables of the block around it. A SELECT in FROM, or of WITH, is spelled out in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal, Protocol

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.languages.sql_strict import is_strict
from bigjoin.languages.sql_tree import (
    UNQUALIFIED,
    Derived,
    Item,
    Joined,
    Nested,
    Select,
    Source,
    SqlExpression,
    Star,
    Subquery,
    TableUse,
    inside,
    span_of,
)
from bigjoin.query.expressions import Call, conjuncts
from bigjoin.query.grouping import Aggregate
from bigjoin.query.terms import Property


class KnownTables(Protocol):
    """What tables a source has."""

    def names(self) -> list[str]:
        """Return the names of the tables."""

    def columns(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table, and their Arrow types as text."""


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a table. Its name, which no other use in the statement has, stands for its row."""

    name: str
    table: str
    span: Span = field(compare=False, repr=False)


@dataclass
class TableBlock:
    """Tables that are joined by inner joins, conditions about them, and what is joined to them otherwise.

    Conditions name columns as `Property(use, column)`. Those of a sub-block may name uses of the blocks around it.
    """

    uses: list[Use] = field(default_factory=list)
    conditions: list[SqlExpression] = field(default_factory=list)
    subs: list[SubBlock] = field(default_factory=list)

    def all_uses(self) -> Iterator[Use]:
        """Give the uses whose columns its rows have: its own, and those of LEFT JOINs."""
        yield from self.uses
        for sub in self.subs:
            if sub.kind == "optional":
                yield from sub.block.all_uses()


@dataclass
class SubBlock:
    """A block that rows of another one need, must not have, or may add."""

    kind: Literal["exists", "not exists", "optional"]
    block: TableBlock
    span: Span | None = None
    text: str = ""
    """How it is written: LEFT JOIN, EXISTS, ..."""
    unknown: tuple[SqlExpression, ...] = ()
    """Expressions that must not be NULL, of a NOT IN: otherwise it is neither true nor false."""


@dataclass(frozen=True)
class Visible:
    """A table, or what stands for one, as expressions can name it: its columns by name."""

    alias: str
    columns: Mapping[str, SqlExpression]
    span: Span
    hidden: frozenset[str] = frozenset()
    """Columns that * leaves out, as USING shows them once."""


@dataclass
class Scope:
    """The names that expressions of a SELECT can use; those of the SELECT around it come after its own."""

    tables: KnownTables
    fresh: FreshNames
    outer: Scope | None = None
    visible: list[Visible] = field(default_factory=list)
    merged: dict[str, SqlExpression] = field(default_factory=dict)
    """Columns of USING, by name in lower case."""

    # Names

    def resolved(self, expression: SqlExpression) -> SqlExpression:
        """Return an expression whose columns are those of uses; a Subquery stays as it is."""
        if isinstance(expression, Property):
            return self._column(expression)
        if isinstance(expression, Call):
            return replace(expression, arguments=tuple(map(self.resolved, expression.arguments)))
        if isinstance(expression, Aggregate) and expression.argument is not None:
            return replace(expression, argument=self.resolved(expression.argument))
        return expression

    def _column(self, column: Property) -> SqlExpression:
        scope: Scope | None = self
        while scope is not None:
            if (found := scope._own(column)) is not None:
                return _at(found, column.span)
            scope = scope.outer
        self._refuse_column(column)
        raise AssertionError

    def _own(self, column: Property) -> SqlExpression | None:
        """Return what a column stands for in this SELECT, None if it has no such column."""
        if column.attribute == UNQUALIFIED:
            if (merged := self.merged.get(column.name.casefold())) is not None:
                return merged
            found = [(one, name) for one in self.visible if (name := _named(column.name, one.columns)) is not None]
            if len(found) > 1:
                both = " and ".join(f"{one.alias}.{name}" for one, name in found[:2])
                raise QueryError(f"{column.name!r} may be {both}", column.span, f"write {found[0][0].alias}.{found[0][1]}")
            return found[0][0].columns[found[0][1]] if found else None
        table = self._table(column.attribute)
        if table is None:
            return None
        name = _named(column.name, table.columns)
        if name is None:
            hint = did_you_mean(column.name, table.columns) or f"its columns are {', '.join(table.columns)}"
            raise QueryError(f"{table.alias!r} has no column {column.name!r}", column.span, hint)
        return table.columns[name]

    def _table(self, alias: str) -> Visible | None:
        return next((one for one in self.visible if one.alias.casefold() == alias.casefold()), None)

    def _refuse_column(self, column: Property) -> None:
        scopes = [self]
        while scopes[-1].outer is not None:
            scopes.append(scopes[-1].outer)
        visible = [one for scope in scopes for one in scope.visible]
        if column.attribute != UNQUALIFIED:
            aliases = [one.alias for one in visible]
            hint = did_you_mean(column.attribute, aliases) or f"FROM has {', '.join(aliases)}"
            raise QueryError(f"there is no table {column.attribute!r} in FROM", column.span, hint)
        known = list(dict.fromkeys(name for one in visible for name in one.columns))
        hint = did_you_mean(column.name, known) or f"the columns are {', '.join(known)}"
        raise QueryError(f"there is no column {column.name!r}", column.span, hint)

    def starred(self, star: Star) -> list[tuple[str, SqlExpression]]:
        """Return the columns of a *, in the order of FROM; those of USING come first, and once."""
        chosen = sorted(self.visible, key=lambda one: one.span.start)
        found: list[tuple[str, SqlExpression]] = []
        if star.table is not None:
            table = self._table(star.table)
            if table is None:
                hint = did_you_mean(star.table, [one.alias for one in chosen])
                raise QueryError(f"there is no table {star.table!r} in FROM", star.span, hint)
            return list(table.columns.items())
        found += [(self._written(name), column) for name, column in self.merged.items()]
        for one in chosen:
            found += [(name, column) for name, column in one.columns.items() if name not in one.hidden]
        return found

    def _written(self, name: str) -> str:
        return next(known for one in self.visible for known in one.columns if known.casefold() == name)

    # FROM

    def read_from(self, joined: tuple[Joined, ...], block: TableBlock) -> None:
        """Add the tables of FROM to a block."""
        for one in joined:
            self._join(one, block)

    def _join(self, joined: Joined, block: TableBlock) -> None:
        kinds: dict[str, Literal["exists", "not exists", "optional"]] = {
            "left": "optional",
            "semi": "exists",
            "anti": "not exists",
        }
        words = {"left": "LEFT JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN"}
        before = list(self.visible)
        target = block
        if joined.kind != "inner":
            target = TableBlock()
            sub = SubBlock(kinds[joined.kind], target, joined.span, words[joined.kind])
        self._source(joined.source, target, optional=joined.kind == "left")
        new = [one for one in self.visible if one not in before]
        for name, span in joined.using:
            target.conditions.append(self._using(name, span, before, new))
        if joined.on is not None:
            self.add_condition(joined.on, target, "ON")
        if joined.kind != "inner":
            if joined.on is None and not joined.using:
                hint = "write ON with the condition of the join"
                raise QueryError(f"this {words[joined.kind]} has no condition", joined.span, hint)
            block.subs.append(sub)
        if joined.kind in ("semi", "anti"):
            self.visible = before

    def _using(self, name: str, span: Span, before: list[Visible], new: list[Visible]) -> SqlExpression:
        """Return the equality that USING means; the column then has one name, and is that of the left side."""
        sides = []
        for side in (before, new):
            having = [(one, known) for one in side if (known := _named(name, one.columns)) is not None]
            shown = [(one, known) for one, known in having if known not in one.hidden]
            if not shown and name.casefold() in self.merged and side is before:
                sides.append(self.merged[name.casefold()])
                continue
            if len(shown) != 1:
                what = "has no column" if not shown else "has more than one column"
                raise QueryError(f"one side of the join {what} {name!r}", span, "write ON with an equality")
            sides.append(shown[0][0].columns[shown[0][1]])
        for number, one in enumerate(self.visible):
            if (known := _named(name, one.columns)) is not None:
                self.visible[number] = replace(one, hidden=one.hidden | {known})
        self.merged.setdefault(name.casefold(), sides[0])
        return Call("=", (sides[0], sides[1]), span)

    def _source(self, source: Source, block: TableBlock, *, optional: bool) -> None:
        if isinstance(source, Nested):
            self.read_from(source.joined, block)
            return
        if any(one.alias.casefold() == source.alias.casefold() and source.alias for one in self.visible):
            hint = f"give one of them another name: {source.alias} AS {source.alias}2"
            raise QueryError(f"two tables in FROM are called {source.alias!r}", source.span, hint)
        if isinstance(source, TableUse):
            self._use(source, block)
        else:
            self._derive(source, block, optional=optional)

    def _use(self, source: TableUse, block: TableBlock) -> None:
        known = self.tables.names()
        table = _named(source.table, known)
        if table is None:
            hint = did_you_mean(source.table, known) or f"the tables are {', '.join(sorted(known))}"
            raise QueryError(f"there is no table {source.table!r}", source.span, hint)
        use = Use(self.fresh.name(source.alias.replace(".", "_")), table, source.span)
        block.uses.append(use)
        columns = {name: Property(use.name, name) for name in self.tables.columns(table)}
        self.visible.append(Visible(source.alias, columns, source.span))

    def _derive(self, source: Derived, block: TableBlock, *, optional: bool) -> None:
        """Spell a SELECT out in place: its tables are those of the block, and its columns are expressions."""
        select = source.select
        what = "GROUP BY or an aggregate" if select.is_grouped else "DISTINCT" if select.distinct else None
        if select.limit is not None or select.offset:
            what = "LIMIT"
        if what is not None:
            hint = "ask for it first, and give its DataFrame as a table of its own"
            raise QueryError(f"{what} in a SELECT within FROM or WITH is not read", source.span, hint)
        inner = Scope(self.tables, self.fresh, self.outer)
        before = len(block.uses)
        inner.read_from(select.joined, block)
        if select.where is not None:
            inner.add_condition(select.where, block, "WHERE")
        columns: dict[str, SqlExpression] = {}
        for name, expression, span in inner.columns_of(select):
            if name.casefold() in map(str.casefold, columns):
                raise QueryError(f"two columns are called {name!r}", span, "give one of them another name with AS")
            columns[name] = expression
        if source.columns:
            if len(source.columns) != len(columns):
                message = f"{source.alias!r} has {len(columns)} columns, not {len(source.columns)}"
                raise QueryError(message, source.span)
            columns = dict(zip(source.columns, columns.values(), strict=True))
        mine = {use.name for use in block.uses[before:]}
        for name, expression in columns.items() if optional else ():
            if not is_strict(expression, mine):
                message = f"{name!r} of {source.alias!r} would have a value even where the LEFT JOIN finds no row"
                raise QueryError(f"{message}, which is not read", source.span, "compute it outside, with CASE or coalesce")
        self.visible.append(Visible(source.alias, columns, source.span))

    def columns_of(self, select: Select) -> list[tuple[str, SqlExpression, Span | None]]:
        """Return the columns of a SELECT, by their names."""
        found: list[tuple[str, SqlExpression, Span | None]] = []
        for item in select.items:
            if isinstance(item, Star):
                found += [(name, column, item.span) for name, column in self.starred(item)]
            else:
                found.append((item.alias or item.natural, self.resolved(item.expression), item.span))
        return found

    # Conditions

    def add_condition(self, condition: SqlExpression, block: TableBlock, clause: str) -> None:
        """Add a condition to a block: what a subquery decides becomes a sub-block."""
        parts: Iterable[SqlExpression] = conjuncts(condition)
        for part in parts:
            inner = part.arguments[0] if isinstance(part, Call) and part.function == "not" else part
            if isinstance(inner, Subquery):
                block.subs.append(self._subquery(inner, negated=inner is not part))
            else:
                self._check(part, clause)
                block.conditions.append(self.resolved(part))

    def _check(self, condition: SqlExpression, clause: str) -> None:
        for part in inside(condition):
            if isinstance(part, Subquery):
                hint = "join it to the other conditions with AND; of (A OR EXISTS (...)), ask for both cases"
                raise QueryError(f"{part} within OR, CASE or a comparison is not read", part.span, hint)
            if isinstance(part, Aggregate):
                message = f"{clause} is about rows, and '{part}' about groups"
                raise QueryError(message, span_of(condition), "write it in HAVING")

    def _subquery(self, subquery: Subquery, *, negated: bool) -> SubBlock:
        """Return the sub-block of an EXISTS or IN."""
        select, is_in = subquery.select, subquery.operand is not None
        word = f"{'NOT ' * negated}{'IN' if is_in else 'EXISTS'}"
        refused = "GROUP BY, HAVING or an aggregate" if select.is_grouped else None
        if select.offset or select.limit == 0 or (select.limit is not None and is_in):
            refused = "LIMIT or OFFSET"
        if refused is not None:
            hint = "ask for it first, and give its DataFrame as a table of its own"
            raise QueryError(f"{refused} within {word} is not read", subquery.span, hint)
        inner, block = Scope(self.tables, self.fresh, self), TableBlock()
        inner.read_from(select.joined, block)
        if select.where is not None:
            inner.add_condition(select.where, block, "WHERE")
        unknown: tuple[SqlExpression, ...] = ()
        if is_in:
            columns = inner.columns_of(select)
            if len(columns) != 1:
                raise QueryError(f"a SELECT within IN has one column, not {len(columns)}", subquery.span)
            sides = self.resolved(subquery.operand), columns[0][1]
            block.conditions.append(Call("=", sides, subquery.span))
            unknown = sides if negated else ()
        else:
            for item in select.items:
                if isinstance(item, Item):
                    inner.resolved(item.expression)  # which only has to exist
        return SubBlock("not exists" if negated else "exists", block, subquery.span, word, unknown)


class FreshNames:
    """Names for uses and attributes that nothing else in a statement has."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def name(self, wanted: str) -> str:
        """Return a name, or one like it if it is taken; none begins with an underscore, which has a meaning of its own."""
        plain = "".join(c if c.isalnum() or c in "_." else "_" for c in wanted).strip("_.") or "t"
        found = next(name for n in count(1) if (name := plain if n == 1 else f"{plain}_{n}") not in self.taken)
        self.taken.add(found)
        return found


def _named(name: str, known: Mapping[str, object] | list[str]) -> str | None:
    """Return a known name, in upper or lower case; the one that is spelled the same way, if there are several."""
    if name in known:
        return name
    found = [one for one in known if one.casefold() == name.casefold()]
    return found[0] if len(found) == 1 else None


def _at(expression: SqlExpression, span: Span | None) -> SqlExpression:
    """Return a column with the place where it is named."""
    return replace(expression, span=span) if isinstance(expression, Property) else expression
