"""Cypher: text -> the tree of `cypher_tree.py`, or an error that says what to do about the text.

The grammar (`cypher.lark`) is as wide as the queries that people write, so that what is not supported is named.
`cypher_build.py` makes the parts of the tree, `cypher_clauses.py` puts clauses together, `cypher_names.py` checks names,
and `cypher_hints.py` explains slips.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

from lark import Lark
from lark.exceptions import UnexpectedInput, VisitError

from bigjoin.errors import QueryError, Span
from bigjoin.languages.cypher_build import BuildTree
from bigjoin.languages.cypher_hints import syntax_error
from bigjoin.languages.cypher_names import check_names
from bigjoin.languages.cypher_tree import CypherQuery


def parse_cypher(text: str) -> CypherQuery:
    """Return the tree of a query that reads: one or more MATCH, each with its WHERE, and RETURN."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QueryError("the query holds bytes that are not UTF-8", Span(text, error.start, error.end)) from None
    try:
        query = cast(CypherQuery, BuildTree(text).transform(_grammar().parse(text)))
        check_names(query)
    except UnexpectedInput as error:
        raise syntax_error(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, RecursionError):
            raise _too_deep() from None
        raise error.orig_exc from None
    except RecursionError:
        raise _too_deep() from None
    return query


def _too_deep() -> QueryError:
    return QueryError("the query is nested too deeply", hint="use fewer parentheses, brackets and NOTs within each other")


@cache
def _grammar() -> Lark:
    grammar = Path(__file__).with_suffix(".lark").read_text(encoding="utf-8")
    return Lark(f"{grammar}\nPATTERN_OPEN.3: {_pattern_open()}\n", parser="lalr", propagate_positions=True)


def _pattern_open() -> str:
    """Return the terminal of a parenthesis that opens a pattern: a node follows, then an arrow, then another parenthesis.

    Repetitions are possessive (`*+`): the time to look ahead grows with the length of the text, and not faster.
    """
    gap = r"(?:\s|\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*\*\/)*+"
    name = r"(?:[^\W\d]\w*|`[^`]+`)"
    text = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`"""
    in_braces, in_brackets = rf"[^{{}}\"'`]|{text}", rf"[^\[\]\"'`]|{text}"
    braces = rf"\{{(?:{in_braces}|\{{(?:{in_braces})*+\}})*+\}}"
    brackets = rf"\[(?:{in_brackets}|\[(?:{in_brackets})*+\])*+\]"
    node = rf"{gap}{name}?(?:{gap}[:|&]{gap}{name}|{gap}\|{gap}:{gap}{name})*{gap}(?:{braces}|\$\w+)?{gap}\)"
    arrow = rf"{gap}<?{gap}-{gap}(?:{brackets})?{gap}-{gap}>?{gap}\("
    return rf"/\((?={node}{arrow})/s"
