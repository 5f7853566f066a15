"""The paper's Datalog: one rule whose head names columns, with conditions as Spark SQL writes them, and groups."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError

from bigjoin.errors import QueryError, Span
from bigjoin.languages.datalog_build import BuildRule
from bigjoin.query.expressions import Expression
from bigjoin.query.operators import spellings
from bigjoin.query.query import QueryFilter
from bigjoin.query.statement import Statement

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


def parse(text: str) -> Statement:
    """Return what one rule asks for."""
    return cast(Statement, _parse(text, "rule"))


def parse_filters(text: str) -> tuple[QueryFilter, ...]:
    """Return the conditions of a filter expression, separated by commas or `and`."""
    return cast(tuple[QueryFilter, ...], _parse(text, "filters"))


def parse_properties(text: str) -> tuple[tuple[str, Expression], ...]:
    """Return the columns of a list such as `a.name, e.amount * 2 as double`, by their names."""
    return cast(tuple[tuple[str, Expression], ...], _parse(text, "properties"))


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
        return BuildRule(text).transform(_grammar(start).parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(text, start, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, RecursionError):
            raise _too_deep() from None
        raise error.orig_exc from None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> QueryError:
    return QueryError("the query is nested too deeply", hint="use fewer parentheses within each other")


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
    if start == "properties":
        return "list properties, for example a.name, b.name"
    if re.match(r"\w+\s*\(", text[position:]) and text[:position].rstrip().endswith(")"):
        return "expected ','"
    names: set[str] = set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        names = set(error.allowed or ())
    if "NAME" in names:
        names = names - {"LPAR"}  # which tuples begin with, and hardly anybody means
    expected = sorted({_EXPECTED[name] for name in names if name in _EXPECTED})
    return f"expected {' or '.join(expected)}" if expected else f"for example {EXAMPLE}"
