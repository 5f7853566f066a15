"""The paper's Datalog: one rule whose head names the attributes, and conjunctions of comparisons as filters."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError
from lark.tree import Meta

from bigjoin.errors import QueryError, Span
from bigjoin.query.operators import EQUAL, NOT_EQUAL, spellings
from bigjoin.query.query import Atom, Comparison, Query
from bigjoin.query.terms import Constant, Operand, Property

MAX_DIGITS = 600
"""Digits of a constant. Python limits the digits of integers it reads, by a setting that may be as low as 640."""

EXAMPLE = "tri(a,b,c) := edge(a,b), edge(b,c), edge(c,a), a < b"

_EXPECTED = {
    "DEFINES": "':='",
    "NAME": "a name",
    "OPERATOR": "a comparison such as '<'",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "_AND": "'and'",
    "INTEGER": "a number",
    "STRING": "a quoted string",
    "NOT": "'not'",
}


def parse(text: str) -> Query:
    """Return the query of one rule."""
    return cast(Query, _parse(text, "rule"))


def parse_filters(text: str) -> tuple[Comparison, ...]:
    """Return the comparisons of a filter expression, separated by commas or `and`."""
    return cast(tuple[Comparison, ...], _parse(text, "filters"))


def parse_properties(text: str) -> tuple[Property, ...]:
    """Return the properties of a list such as `a.name, e.amount`."""
    return cast(tuple[Property, ...], _parse(text, "properties"))


@cache
def _grammar(start: str) -> Lark:
    grammar = Path(__file__).with_suffix(".lark").read_text(encoding="utf-8")
    operators = " | ".join(f'"{text}"' for text in sorted(spellings(), key=len, reverse=True))
    return Lark(f"{grammar}\nOPERATOR: {operators}\n", start=start, parser="lalr", propagate_positions=True)


def _parse(text: str, start: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QueryError("the query holds bytes that are not UTF-8", Span(text, error.start, error.end)) from None
    try:
        return _Build(text).transform(_grammar(start).parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(text, start, error) from None
    except VisitError as error:
        raise error.orig_exc from None


@v_args(meta=True)
class _Build(Transformer):  # type: ignore[misc]
    """Turn lark's tree into the frozen model, with a span on every part."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.listed: set[str] = set()
        """What the head lists: the parser reaches it before the body."""
        self.fresh: list[str] = []
        self.constants: list[Comparison] = []

    def _span(self, at: Meta | Token) -> Span:
        return Span(self.text, at.start_pos, at.end_pos)

    def head(self, _: Meta, parts: list[Token]) -> tuple[str, list[Operand]]:
        self.listed = set(map(str, parts[1:]))
        return str(parts[0]), [self._operand(token) for token in parts[1:]]

    def atom(self, meta: Meta, parts: list[Any]) -> Atom:
        relation, *arguments = parts
        named = [argument for argument in arguments if isinstance(argument, tuple)]
        columns = tuple(name for name, _ in named)
        if len(set(columns)) < len(columns):
            raise QueryError("an atom names a column twice", self._span(meta), "give each column one attribute")
        attributes = tuple(self._argument(token) for token in [argument for _, argument in named] or arguments)
        return Atom(str(relation), attributes, columns=columns, span=self._span(meta))

    def named(self, _: Meta, tokens: list[Token]) -> tuple[str, Token]:
        return (_text(tokens[0]) if tokens[0].type == "STRING" else str(tokens[0])), tokens[1]

    def negated(self, meta: Meta, parts: tuple[Token, Atom]) -> Atom:
        return replace(parts[1], negated=True, span=self._span(meta))

    def optional(self, meta: Meta, parts: tuple[Token, Atom]) -> Atom:
        return replace(parts[1], optional=True, span=self._span(meta))

    def _argument(self, token: Token) -> str:
        """Return the attribute for an argument of an atom: a constant or `_` gets a fresh one."""
        truth = token.type == "NAME" and token.casefold() in ("true", "false") and token not in self.listed
        if token.type == "NAME" and token != "_" and not truth:
            return str(token)
        fresh = next(name for n in count(1) if (name := f"_{n}") not in self.fresh and name not in self.text)
        self.fresh.append(fresh)
        if token != "_":
            value = Constant(token.casefold() == "true") if truth else self._operand(token)
            self.constants.append(Comparison(fresh, EQUAL.text, value, span=self._span(token)))
        return fresh

    def comparison(self, meta: Meta, parts: list[Token]) -> Comparison:
        left, operator, right = parts
        return Comparison(self._operand(left), spellings()[operator].text, self._operand(right), span=self._span(meta))

    def names(self, _: Meta, names: list[Token]) -> list[str]:
        return [str(name) for name in names]

    def differing(self, meta: Meta, parts: list[Any]) -> Comparison:
        left, operator, right = parts
        if spellings()[operator] is not NOT_EQUAL:
            raise QueryError("tuples are only compared with !=", self._span(meta), "compare the attributes one by one")
        if len(left) != len(right):
            raise QueryError("the two tuples differ in length", self._span(meta), "write (a, b) != (c, d)")
        (first, second), *also = zip(left, right, strict=True)
        return Comparison(first, NOT_EQUAL.text, second, tuple(also), span=self._span(meta))

    def filters(self, _: Meta, comparisons: list[Comparison]) -> tuple[Comparison, ...]:
        return tuple(comparisons)

    def properties(self, _: Meta, tokens: list[Token]) -> tuple[Operand, ...]:
        return tuple(self._operand(token) for token in tokens)

    def rule(self, _: Meta, parts: list[Any]) -> Query:
        (name, head), _, *body = parts
        return Query(
            name=name,
            head=tuple(head),
            atoms=tuple(part for part in body if isinstance(part, Atom)),
            filters=(*(part for part in body if isinstance(part, Comparison)), *self.constants),
        )

    def _operand(self, token: Token) -> Operand:
        match token.type:
            case "NAME":
                return str(token)
            case "PROPERTY":
                attribute, _, name = token.partition(".")
                return Property(attribute, name.strip('"'), self._span(token))
            case "INTEGER":
                if len(token) > MAX_DIGITS:
                    raise QueryError(f"a number can have at most {MAX_DIGITS} digits", self._span(token), "no id is that long")
                return Constant(int(token))
            case "DECIMAL":
                return Constant(float(token))
            case _:
                return Constant(_text(token))


def _text(token: Token) -> str:
    """Return the text of a quoted string."""
    return re.sub(r"\\(.)", r"\1", token[1:-1])


def _syntax_error(text: str, start: str, error: UnexpectedInput) -> QueryError:
    position = error.pos_in_stream if error.pos_in_stream is not None else len(text)
    end_of_text = isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
    if end_of_text:
        position, end, what = len(text.rstrip()), len(text.rstrip()) + 1, "the text ends too early"
    elif isinstance(error, UnexpectedToken):
        end, what = position + len(error.token), f"unexpected {str(error.token)!r}"
    else:
        end, what = position + 1, f"unexpected {text[position]!r}"
    hint = _hint(text, start, error, position)
    return QueryError(f"the query cannot be read: {what}", Span(text, position, end), hint)


def _hint(text: str, start: str, error: UnexpectedInput, position: int) -> str:
    if start == "rule" and not re.search(r":=|:-|<-", text):
        return f"a rule has a head and ':=', for example {EXAMPLE}"
    if start == "rule" and re.search(r"\)\s*<?-\s*\[|\]\s*->?\s*\(|\)\s*--", text):
        return "the body of a rule has atoms: write edge(a, b) instead of (a)-[]->(b), or the motif without a head"
    inside_atom = text.count("(", 0, position) > text.count(")", 0, position)
    if start == "properties":
        return "list properties, for example a.name, b.name"
    if inside_atom and re.match(r"\.|\w+\.", text[position:]):
        return "atoms take attributes and constants; for a property, write edge(a,b), a.name = 'x'"
    names: set[str] = set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        names = set(error.allowed or ())
    if "NAME" in names:
        names = names - {"LPAR"}  # which tuples begin with, and hardly anybody means
    expected = sorted({_EXPECTED[name] for name in names if name in _EXPECTED})
    return f"expected {' or '.join(expected)}" if expected else f"for example {EXAMPLE}"
