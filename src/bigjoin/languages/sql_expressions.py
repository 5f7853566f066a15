"""From sqlglot's tree of an expression to ours: functions and operators by name, and by name what is not read.

sqlglot knows hundreds of functions of many dialects. It is told to leave them as they are written, so that what a function is
called, and what it means, is decided by our own table, as in rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import exp

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.languages.sql_tree import UNQUALIFIED, Select, SqlExpression, Subquery
from bigjoin.query.expressions import Call
from bigjoin.query.functions import AGGREGATE_FUNCTIONS, CYPHER_ONLY, FUNCTIONS, SYNONYMS, function_named
from bigjoin.query.grouping import Aggregate
from bigjoin.query.terms import Constant, Property, number_of
from bigjoin.query.times import interval_of

MAX_SQL_DIGITS = 600
"""Digits of a constant. Python limits the digits of integers it reads, by a setting that may be as low as 640."""

_OPERATORS: dict[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.And: "and",
    exp.Or: "or",
    exp.RegexpLike: "rlike",
    exp.Like: "like",
    exp.ILike: "ilike",
}
_AGGREGATES = {"mean": "avg", "average": "avg"} | {name: name for name in AGGREGATE_FUNCTIONS if " " not in name}
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "like", "ilike", "rlike")

_ADVICE: dict[type[Any], tuple[str, str]] = {
    exp.Window: ("a window function", "group with GROUP BY, or use the window on the DataFrame of the result"),
    exp.Subquery: ("a subquery as a value", "ask for it first, and write its value; EXISTS and IN may hold a SELECT"),
    exp.Select: ("a subquery as a value", "ask for it first, and write its value; EXISTS and IN may hold a SELECT"),
    exp.Any: ("ANY or ALL", "write IN, EXISTS or NOT EXISTS"),
    exp.All: ("ANY or ALL", "write IN, EXISTS or NOT EXISTS"),
    exp.Placeholder: ("a parameter", "write its value into the text"),
    exp.Parameter: ("a parameter", "write its value into the text"),
    exp.Bracket: ("a member of a list or map", "make it a column of its own before"),
    exp.Dot: ("a field of a struct", "make it a column of its own before"),
    exp.Tuple: ("a tuple", "compare its members one by one"),
    exp.CurrentDate: ("the current date", "write it, as in DATE '2024-05-31'"),
    exp.CurrentTimestamp: ("the current time", "write it, as in TIMESTAMP '2024-05-31 12:30:00'"),
    exp.Lambda: ("a lambda", "compute it on the DataFrame of the result"),
    exp.Star: ("* here", "count(*) counts rows"),
}


@dataclass(frozen=True)
class SqlExpressionReader:
    """Reads expressions of one text; `select` reads a SELECT within them."""

    text: str
    select: Callable[[Any], Select]

    def span(self, node: Any) -> Span | None:
        """Return where a node stands: from the first to the last of its tokens that are known."""
        found = [part.meta for part in node.walk() if "start" in part.meta]
        if not found:
            return None
        start, end = min(meta["start"] for meta in found), max(meta["end"] for meta in found) + 1
        if isinstance(node, exp.Anonymous | exp.Subquery | exp.Exists | exp.Cast | exp.Paren):
            closing = self.text.find(")", end)
            between = self.text[end:closing] if closing >= 0 else "-"
            end = closing + 1 if not between.strip(" (\n\t*") and "(" in self.text[start : closing + 1] else end
        return Span(self.text, start, end)

    def refuse(self, node: Any, what: str, hint: str | None = None) -> NoReturn:
        """Say that something is not read."""
        raise QueryError(f"{what} is not read", self.span(node), hint)

    def read(self, node: Any) -> SqlExpression:
        """Return an expression."""
        kind = type(node)
        if kind in _OPERATORS:
            return self._operator(node, _OPERATORS[kind])
        reader = _READERS.get(kind)
        if reader is not None:
            return reader(self, node)
        what, hint = _ADVICE.get(kind, (f"'{node.sql(dialect='spark')}'", "see docs/coming-from-sql.md for what is"))
        self.refuse(node, what, hint)

    def call(self, node: Any, function: str, *arguments: SqlExpression) -> Call:
        """Return a call that knows where it stands."""
        return Call(function, arguments, self.span(node))

    def _operator(self, node: Any, function: str) -> Call:
        self._only(node, "this", "expression", "safe", "typed", "negate", "flag")
        if node.args.get("flag") is not None:
            self.refuse(node, "a flag of a regular expression", "write it into the pattern, as in '(?i)a.*'")
        for side in (node.this, node.expression):
            if function in _COMPARISONS and isinstance(side, exp.Tuple):
                self.refuse(side, "a comparison of tuples", "compare their members one by one, joined by AND")
        chain = node.flatten(unnest=False) if function in ("and", "or", "||") else (node.this, node.expression)
        found = self.call(node, function, *map(self.read, chain))
        return self.call(node, "not", found) if node.args.get("negate") else found

    def _only(self, node: Any, *known: str) -> None:
        """Refuse what a node says besides what is read of it."""
        for name, value in node.args.items():
            if value not in (None, False, []) and name not in known:
                self.refuse(node, f"'{name.strip('_').replace('_', ' ')}' in '{node.sql(dialect='spark')}'")

    # Leaves

    def column(self, node: Any) -> Property:
        if isinstance(node.this, exp.Star):
            self.refuse(node, "* here", "count(*) counts rows")
        if node.args.get("db") is not None:
            self.refuse(node, f"'{node.sql(dialect='spark')}', a field of a struct,", "make it a column of its own before")
        return Property(node.table or UNQUALIFIED, node.name, self.span(node))

    def literal(self, node: Any) -> Constant:
        if node.is_string:
            return Constant(node.this)
        if len(node.this) > MAX_SQL_DIGITS:
            raise QueryError(f"a number can have at most {MAX_SQL_DIGITS} digits", self.span(node), "no id is that long")
        if node.this.isdigit():
            return Constant(int(node.this))
        return Constant(number_of(node.this))

    def interval(self, node: Any) -> Constant:
        unit = node.args.get("unit")
        count = node.this.this if isinstance(node.this, exp.Literal) else None
        found = None if count is None else interval_of(f"{count} {unit.name if unit is not None else ''}".strip())
        if found is None:
            raise QueryError("this is no span of time", self.span(node), "write INTERVAL 1 DAY, or INTERVAL '2' HOURS")
        return Constant(found)

    def null(self, _: Any) -> Constant:
        return Constant(None)

    def boolean(self, node: Any) -> Constant:
        return Constant(bool(node.this))

    # Conditions

    def paren(self, node: Any) -> SqlExpression:
        return self.read(node.this)

    def negation(self, node: Any) -> Call:
        return self.call(node, "not", self.read(node.this))

    def is_(self, node: Any) -> Call:
        value, what = self.read(node.this), node.expression
        if isinstance(what, exp.Null):
            return self.call(node, "is null", value)
        if isinstance(what, exp.Boolean):
            truth = value if what.this else self.call(node, "not", value)
            return self.call(node, "coalesce", truth, Constant(False))
        self.refuse(node, f"'{node.sql(dialect='spark')}'", "IS NULL, IS TRUE and IS FALSE are read")

    def equal_or_both_null(self, node: Any) -> Call:
        one, other = self.read(node.this), self.read(node.expression)
        both = self.call(node, "and", self.call(node, "is null", one), self.call(node, "is null", other))
        return self.call(node, "coalesce", self.call(node, "=", one, other), both)

    def between(self, node: Any) -> Call:
        self._only(node, "this", "low", "high")
        value = self.read(node.this)
        low = self.call(node, ">=", value, self.read(node.args["low"]))
        return self.call(node, "and", low, self.call(node, "<=", value, self.read(node.args["high"])))

    def is_in(self, node: Any) -> Call | Subquery:
        self._only(node, "this", "expressions", "query")
        if isinstance(node.this, exp.Tuple):
            self.refuse(node.this, "a comparison of tuples", "write EXISTS, with a condition for each member")
        value, query = self.read(node.this), node.args.get("query")
        if query is not None:
            return Subquery(self.select(query), value, self.span(node))
        return self.call(node, "in", value, *map(self.read, node.expressions))

    def exists(self, node: Any) -> Subquery:
        return Subquery(self.select(node.this), None, self.span(node))

    # Functions

    def case(self, node: Any) -> Call:
        subject = None if node.this is None else self.read(node.this)
        parts: list[SqlExpression] = []
        for branch in node.args["ifs"]:
            condition = self.read(branch.this)
            parts += [condition if subject is None else self.call(branch, "=", subject, condition)]
            parts += [self.read(branch.args["true"])]
        default = node.args.get("default")
        return self.call(node, "case", *parts, *([] if default is None else [self.read(default)]))

    def if_(self, node: Any) -> Call:
        default = node.args.get("false")
        parts = [node.this, node.args["true"], *([] if default is None else [default])]
        return self.call(node, "case", *map(self.read, parts))

    def negative(self, node: Any) -> SqlExpression:
        value = self.read(node.this)
        is_number = isinstance(value, Constant) and isinstance(value.value, int | float | Decimal)
        if is_number and not isinstance(value.value, bool):
            return Constant(-value.value)
        return self.call(node, "negative", value)

    def cast(self, node: Any) -> SqlExpression:
        self._only(node, "this", "to", "_type")
        value, target = self.read(node.this), node.args["to"].sql(dialect="spark").lower()
        is_constant = isinstance(node.this, exp.Literal)
        if is_constant and isinstance(value.value, str) and target in ("date", "timestamp", "timestamp_ntz"):
            return self.call(node, "date" if target == "date" else "timestamp", value)
        if is_constant and isinstance(value.value, int) and target == "bigint":
            return value
        if is_constant and isinstance(value.value, int | float | Decimal) and target in ("double", "float"):
            return Constant(float(value.value))
        return self.call(node, "cast", value, Constant(target))

    def extract(self, node: Any) -> Call:
        unit = node.name.lower()
        known = {"dow": "dayofweek", "doy": "dayofyear"}.get(unit, unit)
        if known not in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "dayofweek", "dayofyear"):
            self.refuse(node, f"EXTRACT({unit} ...)", "parts are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE and SECOND")
        return self.call(node, known, self.read(node.expression))

    def substring(self, node: Any) -> Call:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        return self._checked(node, "substring", [self.read(part) for part in parts if part is not None])

    def trim(self, node: Any) -> Call:
        if node.args.get("expression") is not None:
            self.refuse(node, "TRIM of other characters than white space", "use replace")
        names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
        return self.call(node, names.get(str(node.args.get("position") or "").upper(), "trim"), self.read(node.this))

    def concatenation(self, node: Any) -> SqlExpression:
        """Return texts side by side as one text."""
        parts = [self.read(part) for part in node.expressions]
        return Constant("".join(str(part.value) for part in parts))

    def function(self, node: Any) -> SqlExpression:
        name = str(node.this).lower()
        if name in _AGGREGATES:
            return self._aggregate(node, _AGGREGATES[name])
        entry = function_named(name)
        if entry is None or entry.of_path:
            called = [n for n, e in FUNCTIONS.items() if e.spelling == "call" and not e.of_path and n not in CYPHER_ONLY]
            hint = (
                did_you_mean(name, [*called, *SYNONYMS, *_AGGREGATES])
                or "docs/expressions.md lists the functions that there are"
            )
            raise QueryError(f"there is no function {node.this!r}", self._name_span(node), hint)
        return self._checked(node, entry.name, [self.read(argument) for argument in node.expressions])

    def _checked(self, node: Any, name: str, arguments: list[SqlExpression]) -> Call:
        """Return a call of a function; refuse too few or too many arguments."""
        entry = FUNCTIONS[name]
        if not entry.fewest <= len(arguments) <= entry.most:
            most = "or more" if entry.most == float("inf") else f"to {entry.most:.0f}" * (entry.most != entry.fewest)
            wanted = f"{entry.fewest} {most}".strip()
            raise QueryError(f"{name} takes {wanted} arguments, not {len(arguments)}", self.span(node))
        return self.call(node, name, *arguments)

    def _aggregate(self, node: Any, name: str) -> Aggregate:
        """Return an aggregate; count of a constant counts rows."""
        arguments, distinct = node.expressions, False
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            arguments, distinct = arguments[0].expressions, True
        if len(arguments) != 1:
            hint = "write count(*), or count(x)" if name == "count" else f"write {name}(x)"
            raise QueryError(f"{name} takes one argument, not {len(arguments)}", self.span(node), hint)
        if isinstance(arguments[0], exp.Star):
            if name != "count" or distinct:
                raise QueryError(f"{name}({'distinct ' * distinct}*) has no meaning", self.span(node), "write count(*)")
            return Aggregate("count")
        argument = self.read(arguments[0])
        if any(isinstance(part, exp.Anonymous) and str(part.this).lower() in _AGGREGATES for part in arguments[0].walk()):
            raise QueryError("an aggregate of an aggregate has no meaning", self.span(node))
        if distinct and name in ("sum", "avg"):
            self.refuse(node, f"{name}(DISTINCT ...)", "count(DISTINCT x), min and max are")
        if name == "count" and not distinct and isinstance(argument, Constant) and argument.value is not None:
            return Aggregate("count")
        return Aggregate("count distinct" if distinct and name == "count" else name, argument)

    def filtered(self, node: Any) -> Aggregate:
        """Return an aggregate of some rows: FILTER (WHERE ...)."""
        found, condition = self.read(node.this), self.read(node.expression.this)
        if not isinstance(found, Aggregate):
            self.refuse(node, "FILTER here", "it follows an aggregate")
        value = Constant(1) if found.argument is None else found.argument
        return Aggregate(found.function, self.call(node, "case", condition, value))

    def _name_span(self, node: Any) -> Span | None:
        return Span(self.text, node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else self.span(node)


_READERS: dict[type[Any], Callable[[SqlExpressionReader, Any], SqlExpression]] = {
    exp.Column: SqlExpressionReader.column,
    exp.Literal: SqlExpressionReader.literal,
    exp.Interval: SqlExpressionReader.interval,
    exp.Null: SqlExpressionReader.null,
    exp.Boolean: SqlExpressionReader.boolean,
    exp.Paren: SqlExpressionReader.paren,
    exp.Not: SqlExpressionReader.negation,
    exp.Is: SqlExpressionReader.is_,
    exp.NullSafeEQ: SqlExpressionReader.equal_or_both_null,
    exp.Between: SqlExpressionReader.between,
    exp.In: SqlExpressionReader.is_in,
    exp.Exists: SqlExpressionReader.exists,
    exp.Case: SqlExpressionReader.case,
    exp.If: SqlExpressionReader.if_,
    exp.Neg: SqlExpressionReader.negative,
    exp.Cast: SqlExpressionReader.cast,
    exp.TryCast: SqlExpressionReader.cast,
    exp.Extract: SqlExpressionReader.extract,
    exp.Substring: SqlExpressionReader.substring,
    exp.Trim: SqlExpressionReader.trim,
    exp.Concat: SqlExpressionReader.concatenation,
    exp.Anonymous: SqlExpressionReader.function,
    exp.Filter: SqlExpressionReader.filtered,
}
