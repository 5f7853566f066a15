"""Build the parts of a rule from lark's tree, each with its span."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from bigjoin.errors import QueryError, Span
from bigjoin.languages.datalog_meaning import Called, RuleHead, RuleMeaning, RuleTail, Tested, Tuple, hops_of
from bigjoin.query.expressions import Expression
from bigjoin.query.operators import spellings
from bigjoin.query.query import QueryFilter, column_of
from bigjoin.query.statement import Statement
from bigjoin.query.terms import Constant, Property, number_of
from bigjoin.query.times import interval_of, time_of

MAX_DIGITS = 600
"""Digits of a constant. Python limits the digits of integers it reads, by a setting that may be as low as 640."""


@v_args(meta=True)
class BuildRule(Transformer):  # type: ignore[misc]
    """Turn lark's tree into the frozen model, with a span on every part."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.places: dict[int, Span] = {}
        """Where constants stand, by the identity of each: equal ones may stand in several places."""

    def _span(self, at: Meta | Token) -> Span:
        return Span(self.text, at.start_pos, at.end_pos)

    # Rules

    def rule(self, _: Meta, parts: list[Any]) -> Statement:
        head, _, *rest = parts
        tail = RuleTail()
        for part in [part for part in rest if isinstance(part, RuleTail)]:
            tail.having = part.having if part.having is not None else tail.having
            tail.order, tail.limit = part.order or tail.order, part.limit if part.limit is not None else tail.limit
        body = [part for part in rest if not isinstance(part, RuleTail)]
        return RuleMeaning(self.text, head, body, self.places).statement(tail)

    def head(self, _: Meta, parts: list[Any]) -> RuleHead:
        return RuleHead(str(parts[0]), parts[1:])

    def column(self, _: Meta, parts: list[Any]) -> tuple[str | None, Any]:
        name = None if len(parts) == 1 else text_of(parts[1]) if parts[1].type == "STRING" else str(parts[1])
        return name, parts[0]

    def having(self, _: Meta, parts: list[Any]) -> RuleTail:
        return RuleTail(having=parts[0])

    def order(self, _: Meta, parts: list[Any]) -> RuleTail:
        return RuleTail(order=parts)

    def sort(self, _: Meta, parts: list[Any]) -> tuple[Any, bool]:
        return parts[0], len(parts) > 1 and parts[1].type == "DESCENDING"

    def limit(self, _: Meta, parts: list[Token]) -> RuleTail:
        return RuleTail(limit=int(parts[0]))

    def optional(self, meta: Meta, parts: list[Any]) -> Called:
        called: Called = parts[1]
        return replace(called, optional=True, span=self._span(meta))

    def filters(self, _: Meta, parts: list[Any]) -> tuple[QueryFilter, ...]:
        meaning = RuleMeaning(self.text, RuleHead("where", []), [])
        return tuple(f for part in parts for f in meaning.condition(part))

    def properties(self, _: Meta, parts: list[Any]) -> tuple[tuple[str, Expression], ...]:
        meaning = RuleMeaning(self.text, RuleHead("select", []), [])
        found = [(name, meaning.expression(part)) for name, part in parts]
        return tuple((name or column_of(term), term) for name, term in found)

    # Calls and operators

    def call(self, meta: Meta, parts: list[Any]) -> Called:
        name, *arguments = parts
        hops = next((hops_of(a, self._span(a)) for a in arguments if isinstance(a, Token) and a.type == "HOPS"), None)
        star = any(isinstance(a, Token) and a.type == "STAR" for a in arguments)
        distinct = any(isinstance(a, Token) and a.type == "DISTINCT" for a in arguments)
        given = [a for a in arguments if not isinstance(a, Token)]
        named = [a for a in given if isinstance(a, tuple)]
        columns = tuple(column for column, _ in named)
        if len(set(columns)) < len(columns):
            raise QueryError("an atom names a column twice", self._span(meta), "give each column one attribute")
        values = tuple(value for _, value in named) if named else tuple(given)
        return Called(str(name), values, self._span(meta), columns, distinct, star, hops=hops)

    def path(self, meta: Meta, parts: list[Any]) -> Called:
        mode: Any = parts[0]
        called: Called = parts[1]
        if called.hops is None:
            raise QueryError("a path needs bounds", self._span(meta), f"write {mode} {called.name}*1..4(a, b)")
        return replace(called, hops=replace(called.hops, mode=mode.lower()), span=self._span(meta))

    def endless_path(self, meta: Meta, parts: list[Any]) -> Called:
        raise QueryError("a path needs bounds", self._span(meta), f"write {parts[0]} {parts[1]}*1..4(a, b)")

    def named(self, _: Meta, parts: list[Any]) -> tuple[str, Any]:
        return (text_of(parts[0]) if parts[0].type == "STRING" else str(parts[0])), parts[1]

    def or_(self, meta: Meta, parts: list[Any]) -> Tested:
        return Tested("or", tuple(parts), self._span(meta))

    def and_(self, meta: Meta, parts: list[Any]) -> Tested:
        return Tested("and", tuple(parts), self._span(meta))

    def negation(self, meta: Meta, parts: list[Any]) -> Tested:
        return Tested("not", (parts[1],), self._span(meta))

    def comparison(self, meta: Meta, parts: list[Any]) -> Tested:
        left, operator, right = parts
        return Tested(spellings()[operator].text, (left, right), self._span(meta))

    def _perhaps_not(self, meta: Meta, parts: list[Any], make: Any) -> Tested:
        span = self._span(meta)
        is_not = any(isinstance(part, Token) and part.type == "NOT" for part in parts)
        found = make([part for part in parts if not (isinstance(part, Token) and part.type == "NOT")], span)
        return Tested("not", (found,), span) if is_not else found

    def between(self, meta: Meta, parts: list[Any]) -> Tested:
        def make(given: list[Any], span: Span) -> Tested:
            value, low, high = given
            return Tested("and", (Tested(">=", (value, low), span), Tested("<=", (value, high), span)), span)

        return self._perhaps_not(meta, parts, make)

    def is_in(self, meta: Meta, parts: list[Any]) -> Tested:
        return self._perhaps_not(meta, parts, lambda given, span: Tested("in", tuple(given), span))

    def text_test(self, meta: Meta, parts: list[Any]) -> Tested:
        def make(given: list[Any], span: Span) -> Tested:
            left, word, right = given
            names = {"STARTS": "starts with", "ENDS": "ends with"}
            return Tested(names.get(word.type, word.type.lower()), (left, right), span)

        return self._perhaps_not(meta, parts, make)

    def is_null(self, meta: Meta, parts: list[Any]) -> Tested:
        function = "is null" if len(parts) == 1 else "is not null"
        return Tested(function, (parts[0],), self._span(meta))

    def arithmetic(self, meta: Meta, parts: list[Any]) -> Tested:
        left, operator, right = parts
        if isinstance(right, Tuple) and operator.type == "STAR":
            raise QueryError("a path needs bounds", self._span(meta), f"write {left}*1..4(a, b)")
        return Tested(str(operator).lower(), (left, right), self._span(meta))

    def negative(self, meta: Meta, parts: list[Any]) -> Any:
        part = parts[-1]
        if isinstance(part, Constant) and isinstance(part.value, int | float | Decimal) and not isinstance(part.value, bool):
            return self._placed(Constant(-part.value), self._span(meta))
        return Tested("negative", (part,), self._span(meta))

    def positive(self, _: Meta, parts: list[Any]) -> Any:
        return parts[-1]

    def grouped(self, _: Meta, parts: list[Any]) -> Any:
        return parts[0]

    def tuple(self, meta: Meta, parts: list[Any]) -> Tuple:
        return Tuple(tuple(parts), self._span(meta))

    def property_of(self, meta: Meta, parts: list[Any]) -> Tested:
        name = text_of(parts[1]) if parts[1].type == "STRING" else str(parts[1])
        return Tested(f".{name}", (parts[0],), self._span(meta))

    def when(self, _: Meta, parts: list[Any]) -> list[Any]:
        return parts

    def case(self, meta: Meta, parts: list[Any]) -> Tested:
        flat = [part for branch in parts for part in (branch if isinstance(branch, list) else [branch])]
        return Tested("case", tuple(flat), self._span(meta))

    def type(self, _: Meta, parts: list[Token]) -> str:
        return f"{parts[0]}({', '.join(parts[1:])})" if len(parts) > 1 else str(parts[0])

    def cast(self, meta: Meta, parts: list[Any]) -> Tested:
        return Tested("cast", (parts[0], Constant(parts[1].lower())), self._span(meta))

    # Leaves

    def name(self, _: Meta, parts: list[Token]) -> str:
        return str(parts[0])

    def property(self, _: Meta, parts: list[Token]) -> Property:
        attribute, _, name = parts[0].partition(".")
        return Property(attribute, name.strip('"'), self._span(parts[0]))

    def integer(self, _: Meta, parts: list[Token]) -> Constant:
        if len(parts[0]) > MAX_DIGITS:
            raise QueryError(f"a number can have at most {MAX_DIGITS} digits", self._span(parts[0]), "no id is that long")
        return self._placed(Constant(int(parts[0])), self._span(parts[0]))

    def decimal(self, _: Meta, parts: list[Token]) -> Constant:
        return self._placed(Constant(number_of(parts[0])), self._span(parts[0]))

    def quoted(self, _: Meta, parts: list[Token]) -> Constant:
        return self._placed(Constant(text_of(parts[0])), self._span(parts[0]))

    def _placed(self, constant: Constant, span: Span) -> Constant:
        self.places[id(constant)] = span
        return constant

    def time(self, meta: Meta, parts: list[Token]) -> Constant:
        word, text = parts[0].type, text_of(parts[1])
        found: Any = interval_of(text) if word == "INTERVAL" else time_of(text)
        if word == "TIMESTAMP" and isinstance(found, date) and not isinstance(found, datetime):
            found = datetime(found.year, found.month, found.day)
        if found is None or (word == "DATE" and isinstance(found, datetime)):
            examples = {"DATE": "date '2024-05-31'", "TIMESTAMP": "timestamp '2024-05-31 12:30:00'"}
            hint = f"write {examples.get(word, 'interval ' + chr(39) + '1 day 2 hours' + chr(39))}"
            raise QueryError(f"{parts[1]!s} is no {word.lower()}", self._span(meta), hint)
        return Constant(found)

    def span(self, meta: Meta, parts: list[Token]) -> Constant:
        found = interval_of(f"{parts[1]} {parts[2]}")
        if found is None:
            raise QueryError(f"'{parts[1]} {parts[2]}' is no span of time", self._span(meta), "write interval 2 days")
        return Constant(found)


def text_of(token: Token) -> str:
    r"""Return the text of a quoted string, whose escapes are those of Spark SQL: the backslash of \% and \_ is for `like`."""
    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _unescaped, token[1:-1], flags=re.DOTALL)


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _ESCAPED.get(escaped, escaped)


_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
