"""SQL: a SELECT is read by sqlglot, in Spark's dialect, and becomes the tree of `sql_tree.py`. What lies outside is named.

sqlglot accepts what any dialect has, so every clause is looked at: one that is not read is refused, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokens import TokenType

from bigjoin.errors import QueryError, Span, shown
from bigjoin.languages.sql_columns import natural_name
from bigjoin.languages.sql_expressions import SqlExpressionReader
from bigjoin.languages.sql_tree import (
    Derived,
    Item,
    Joined,
    JoinKind,
    Nested,
    Select,
    Sort,
    Source,
    SqlExpression,
    Star,
    TableUse,
)

MAX_NESTED_SELECTS = 60
"""SELECTs within SELECTs."""

_LATER = "see docs/coming-from-sql.md for what is read"

_CLAUSES = {
    "laterals": ("LATERAL VIEW", "explode the column on the DataFrame first"),
    "windows": ("WINDOW", "group with GROUP BY, or use the window on the DataFrame of the result"),
    "qualify": ("QUALIFY", "use the window on the DataFrame of the result"),
    "sort": ("SORT BY", "write ORDER BY"),
    "cluster": ("CLUSTER BY", "write ORDER BY"),
    "distribute": ("DISTRIBUTE BY", "repartition the DataFrame of the result"),
    "into": ("INTO", "write the DataFrame of the result"),
    "hint": ("a hint", "leave it out: the join needs none"),
    "sample": ("TABLESAMPLE", "sample the DataFrame first"),
    "pivots": ("PIVOT", "pivot the DataFrame of the result"),
    "match": ("MATCH_RECOGNIZE", _LATER),
    "locks": ("FOR UPDATE", "leave it out"),
    "connect": ("CONNECT BY", "paths of several lengths are for rules, motifs and Cypher"),
    "fetch": ("FETCH", "write LIMIT"),
}
"""Clauses that are not read, by sqlglot's name for them."""

_STATEMENTS = {
    exp.Union: ("UNION", "ask for each part, and unite the DataFrames: one.union(other)"),
    exp.Intersect: ("INTERSECT", "write EXISTS"),
    exp.Except: ("EXCEPT", "write NOT EXISTS"),
}


FunctionParsers: TypeAlias = Mapping[str, Any]
"""By the name of a function: what reads its arguments."""


class _Parser(Spark.Parser):  # type: ignore[misc]
    """Spark's parser, which leaves functions as they are written, except for those with words among their arguments."""

    FUNCTIONS: ClassVar[FunctionParsers] = {}
    FUNCTION_PARSERS: ClassVar[FunctionParsers] = {
        name: Spark.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM")
    }


class _Dialect(Spark):  # type: ignore[misc]
    """Spark's dialect, in which two quotes are one within a text, as Spark reads them since 4.0."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


def parse(text: str) -> Select:
    """Return the SELECT that a text holds; raise QueryError for what cannot be read, with a caret."""
    statements = [statement for statement in _parsed(text) if statement is not None]
    if len(statements) > 1:
        raise QueryError("only one SELECT is wanted", SqlExpressionReader(text, _nothing).span(statements[1]), "ask one by one")
    return _SelectReader(text, {}, 0).select(statements[0])


def _parsed(text: str) -> list[Any]:
    dialect = _Dialect()
    try:
        tokens = dialect.tokenize(text)
        _check_commas(tokens, text)
        return list(_Parser(dialect=dialect, error_level=ErrorLevel.IMMEDIATE).parse(tokens, text))
    except TokenError:
        quote = next((mark for mark in ("'", '"', "`") if text.count(mark) % 2), None)
        at = text.rfind(quote) if quote is not None else 0
        raise QueryError("this text does not end", Span(text, at, at + 1), f"close it with {quote or 'a quote'}") from None
    except ParseError as error:
        found = error.errors[0]
        line, column, wrong = (found.get(name) for name in ("line", "col", "highlight"))
        raise _unread(text, line, column, wrong or "", str(found.get("description", ""))) from None
    except RecursionError:
        raise QueryError("this text is nested too deeply") from None


def _unread(text: str, line: int | None, column: int | None, wrong: str, why: str) -> QueryError:
    """Return the error for a text that is no SQL, with a caret where the parser stopped."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    end = starts[(line or 1) - 1] + (column or 0)
    span = Span(text, max(0, end - len(wrong)), end)
    near = f"'{shown(wrong, 40)}'"
    if "Expected table name" in why:
        return QueryError(f"a table is missing after {near}", span)
    if (missing := re.search(r"Expecting (\S+)", why)) is not None:
        return QueryError(f"'{missing[1]}' is missing before {near}", span)
    if "Required keyword" in why:
        return QueryError(f"something is missing after {near}", span)
    return QueryError(f"{near} is not expected here", span)


def _check_commas(tokens: Sequence[Any], text: str) -> None:
    """Refuse a comma with nothing behind it, which sqlglot overlooks."""
    ends = (TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.WHERE, TokenType.SEMICOLON)
    for one, other in zip(tokens, [*tokens[1:], None], strict=True):
        if one.token_type == TokenType.COMMA and (other is None or other.token_type in ends):
            raise QueryError("nothing follows this comma", Span(text, one.start, one.end + 1))


def _nothing(node: Any) -> Select:
    raise NotImplementedError(node)


class _SelectReader:
    """Reads SELECTs, given the ones of WITH that they may name."""

    def __init__(self, text: str, named: Mapping[str, Select], depth: int) -> None:
        self.text, self.named, self.depth = text, dict(named), depth
        self.expressions = SqlExpressionReader(text, self.inner)

    def inner(self, node: Any) -> Select:
        """Read a SELECT within this one."""
        if self.depth >= MAX_NESTED_SELECTS:
            raise QueryError(f"at most {MAX_NESTED_SELECTS} SELECTs may be nested", self.expressions.span(node))
        return _SelectReader(self.text, self.named, self.depth + 1).select(node)

    def select(self, node: Any) -> Select:
        """Read a SELECT."""
        while isinstance(node, exp.Subquery) and not any(
            value for name, value in node.args.items() if name not in ("this", "alias") and value
        ):
            node = node.this
        for kind, (word, hint) in _STATEMENTS.items():
            if isinstance(node, kind):
                self.expressions.refuse(node, word, hint)
        if not isinstance(node, exp.Select):
            word = str(getattr(node, "key", "this")).upper()
            hint = "write SELECT ... FROM ..."
            raise QueryError(f"{word} is not read: bigjoin answers SELECT", self.expressions.span(node), hint)
        self._with(node.args.get("with_"))
        known = ("with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset")
        for name, value in node.args.items():
            if value and name not in known:
                word, hint = _CLAUSES.get(name, (name.strip("_").replace("_", " ").upper(), _LATER))
                self.expressions.refuse(value[0] if isinstance(value, list) else value, word, hint)
        if node.args.get("from_") is None:
            raise QueryError("there is no FROM", self.expressions.span(node), "write SELECT ... FROM a table")
        group = node.args.get("group")
        where, having = node.args.get("where"), node.args.get("having")
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            self.expressions.refuse(distinct.args["on"], "DISTINCT ON", "group with GROUP BY")
        return Select(
            items=tuple(map(self._item, node.expressions)),
            joined=self._from(node.args["from_"].this, node.args.get("joins") or ()),
            where=None if where is None else self.expressions.read(where.this),
            distinct=distinct is not None,
            group=self._group(group),
            group_all=group is not None and bool(group.args.get("all")),
            having=None if having is None else self.expressions.read(having.this),
            order=self._order(node.args.get("order")),
            limit=self._number(node.args.get("limit"), "LIMIT"),
            offset=self._number(node.args.get("offset"), "OFFSET") or 0,
            span=self.expressions.span(node),
        )

    def _with(self, node: Any) -> None:
        """Read the SELECTs of WITH; each may name those before it."""
        if node is None:
            return
        if node.args.get("recursive"):
            hint = "paths of several lengths are for rules, motifs and Cypher: MATCH (a)-[*1..3]->(b)"
            self.expressions.refuse(node, "WITH RECURSIVE", hint)
        for one in node.expressions:
            if one.args["alias"].args.get("columns"):
                self.expressions.refuse(one.args["alias"], "a list of columns in WITH", "name them with AS in the SELECT")
            self.named[one.alias.casefold()] = self.inner(one.this)

    # SELECT

    def _item(self, node: Any) -> Item | Star:
        span = self.expressions.span(node)
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
        if isinstance(star, exp.Star):
            if any(value for value in star.args.values()):
                self.expressions.refuse(star, "* with EXCEPT, REPLACE or RENAME", "list the columns")
            return Star(node.table or None if isinstance(node, exp.Column) else None, span)
        if isinstance(node, exp.Aliases):
            self.expressions.refuse(node, "several names for one column", "give it one name")
        alias = node.alias if isinstance(node, exp.Alias) else None
        inner = node.this if isinstance(node, exp.Alias) else node
        return Item(self.expressions.read(inner), alias, natural_name(inner), span)

    # FROM

    def _from(self, first: Any, joins: Sequence[Any]) -> tuple[Joined, ...]:
        joined = self._with_joins(first, Joined(self._source(first), span=self.expressions.span(first)))
        for node in joins:
            joined = self._joined(joined, node)
        return joined

    def _with_joins(self, node: Any, found: Joined) -> tuple[Joined, ...]:
        """Return a table with what is joined to it before anything else is."""
        joined: tuple[Joined, ...] = (found,)
        for join in node.args.get("joins") or ():
            joined = self._joined(joined, join)
        return joined

    def _source(self, node: Any) -> Source:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Subquery):
            return self._subquery(node)
        what, hint = {
            exp.Values: ("VALUES", "give these rows as a table of their own"),
            exp.Lateral: ("LATERAL", "explode the column on the DataFrame first"),
            exp.Unnest: ("UNNEST", "explode the column on the DataFrame first"),
        }.get(type(node), (f"'{node.sql(dialect='spark')}' in FROM", _LATER))
        self.expressions.refuse(node, what, hint)

    def _table(self, node: Any) -> Source:
        for name, (word, hint) in _CLAUSES.items():
            if node.args.get(name):
                self.expressions.refuse(node, word, hint)
        if not isinstance(node.this, exp.Identifier):
            self.expressions.refuse(node, f"'{node.sql(dialect='spark')}' in FROM", "give these rows as a table of their own")
        if node.args.get("db") is not None or node.args.get("catalog") is not None:
            name = node.sql(dialect="spark").split(" ")[0]
            hint = f"give it under a name of its own: {node.name}=spark.table('{name}')"
            raise QueryError(f"there is no catalogue in which to look for {name!r}", self.expressions.span(node), hint)
        alias = node.args.get("alias")
        span = self.expressions.span(node)
        assert span is not None
        named = self.named.get(node.name.casefold())
        columns = tuple(column.name for column in alias.args.get("columns") or ()) if alias is not None else ()
        if named is not None:
            return Derived(named, node.alias or node.name, columns, span)
        if columns:
            self.expressions.refuse(alias, "another name for the columns of a table", "rename them in a SELECT, with AS")
        return TableUse(node.name, node.alias or node.name, span)

    def _subquery(self, node: Any) -> Source:
        span = self.expressions.span(node)
        assert span is not None
        alias = node.args.get("alias")
        if isinstance(node.this, exp.Table):
            if alias is not None:
                self.expressions.refuse(node, "a name for joined tables", "give each table a name of its own")
            return Nested(self._from(node.this, ()), span)
        columns = tuple(column.name for column in alias.args.get("columns") or ()) if alias is not None else ()
        for name, (word, hint) in _CLAUSES.items():
            if node.args.get(name):
                self.expressions.refuse(node, word, hint)
        return Derived(self.inner(node.this), node.alias or "", columns, span)

    def _joined(self, before: tuple[Joined, ...], node: Any) -> tuple[Joined, ...]:
        """Return tables with one more; the tables before a RIGHT JOIN become its other side."""
        side, kind, method = (str(node.args.get(name) or "").upper() for name in ("side", "kind", "method"))
        span = self.expressions.span(node)
        if method:
            hint = "write ON with an equality for each column, or USING (...)"
            self.expressions.refuse(node, f"{method} JOIN", hint)
        if side == "FULL":
            self.expressions.refuse(node, "FULL JOIN", "ask with LEFT JOIN both ways, and unite the DataFrames")
        kinds: dict[tuple[str, str], JoinKind] = {("LEFT", "SEMI"): "semi", ("", "SEMI"): "semi"}
        kinds |= {("LEFT", "ANTI"): "anti", ("", "ANTI"): "anti", ("LEFT", ""): "left", ("LEFT", "OUTER"): "left"}
        kinds |= {("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner"}
        is_right = side == "RIGHT" and kind in ("", "OUTER")
        if not is_right and (side, kind) not in kinds:
            self.expressions.refuse(node, f"{side} {kind} JOIN".strip(), "inner, left, semi and anti joins are")
        for name, value in node.args.items():
            if value and name not in ("this", "side", "kind", "on", "using"):
                self.expressions.refuse(node, f"'{name}' of a join", _LATER)
        on = node.args.get("on")
        condition = None if on is None else self.expressions.read(on)
        using = tuple((one.name, self._known(one)) for one in node.args.get("using") or ())
        source = self._source(node.this)
        with_own = self._with_joins(node.this, Joined(source, span=span)) if isinstance(node.this, exp.Table) else ()
        if len(with_own) > 1:
            source = Nested(with_own, self._known(node))
        if not is_right:
            return (*before, Joined(source, kinds[side, kind], condition, using, span))
        return Joined(source, span=span), Joined(Nested(before, self._known(node)), "left", condition, using, span)

    def _known(self, node: Any) -> Span:
        return self.expressions.span(node) or Span(self.text, 0, len(self.text))

    # What becomes of the rows

    def _group(self, node: Any) -> tuple[SqlExpression, ...] | None:
        if node is None:
            return None
        for name, word in (("rollup", "ROLLUP"), ("cube", "CUBE"), ("grouping_sets", "GROUPING SETS"), ("totals", "TOTALS")):
            if node.args.get(name):
                self.expressions.refuse(node, word, "ask for each grouping by itself")
        for one in node.expressions:
            words = {exp.GroupingSets: "GROUPING SETS", exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}
            if type(one) in words:
                self.expressions.refuse(one, words[type(one)], "ask for each grouping by itself")
        return tuple(map(self.expressions.read, node.expressions))

    def _order(self, node: Any) -> tuple[Sort, ...]:
        if node is None:
            return ()
        found = []
        for one in node.expressions:
            descending = bool(one.args.get("desc"))
            if isinstance(one.this, exp.Column) and one.this.name.upper() == "ALL" and not one.this.table:
                self.expressions.refuse(one, "ORDER BY ALL", "list the columns")
            nulls_first = bool(one.args.get("nulls_first"))
            found.append(Sort(self.expressions.read(one.this), descending, nulls_first, self.expressions.span(one)))
        return tuple(found)

    def _number(self, node: Any, clause: str) -> int | None:
        if node is None:
            return None
        given = node.expression
        if (
            isinstance(given, exp.Literal)
            and not given.is_string
            and given.this.isdigit()
            and not node.args.get("limit_options")
        ):
            return int(given.this)
        if isinstance(given, exp.Column) and given.name.upper() == "ALL" and clause == "LIMIT":
            return None
        raise QueryError(f"{clause} takes a whole number", self.expressions.span(node), f"for example {clause} 10")
