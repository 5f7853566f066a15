"""Text -> Statement. Each language is a module that does not know the others; `read` tells them apart."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, Unpack, cast

from bigjoin.errors import OptionError, QueryError, Span
from bigjoin.languages import named
from bigjoin.query.expressions import Call, Expression, Predicate, attributes_of, mapped
from bigjoin.query.operators import OPERATORS
from bigjoin.query.paths import check_paths
from bigjoin.query.query import Query, QueryFilter, column_of, conditions, validate
from bigjoin.query.seeds import SeedsLike
from bigjoin.query.statement import Language, QueryBlock, Statement
from bigjoin.query.terms import Constant, ParameterValue


class Flags(TypedDict, total=False):
    """What goes with a query's text: more filters and columns, parameters, seeds, and the flags of `query/flags.py`.

    Seeds are tables of any kind, so it is the verbs that read them, and not `read`.
    """

    where: str | None
    select: str | None
    parameters: Mapping[str, ParameterValue] | None
    seeds: SeedsLike
    distinct: bool
    unique: bool
    induced: bool
    cross_product: bool
    deduplicate: bool


Text = str | Query | Statement
"""What a verb takes as a query: a text in any language, or what a text became."""


def read(text: Text, **flags: Unpack[Flags]) -> Statement:
    """Return what a text (a name, a rule, a motif, Cypher or SQL), `where`, `select` and the flags ask for, validated.

    What a SELECT means is known once its tables are: until then, its statement has no queries.
    """
    if flags.pop("seeds", None) is not None:
        hint = "count, exists, find, write, pieces, estimate and explain take them"
        raise QueryError("seeds restrict one question, not a query that is stored or watched", hint=hint)
    if isinstance(text, Query):
        return Statement.of(refine(text, **flags))
    if isinstance(text, Statement):
        return _refined(text, flags)
    if not isinstance(text, str):
        raise QueryError(f"the query is a {type(text).__name__}: give a text, such as 'triangle'")
    text = text.lstrip("\ufeff\u200b")  # which editors leave, and nobody sees
    stripped = text.strip()
    if not stripped:
        raise QueryError("the query is empty", hint="give a name such as 'triangle', or a rule: q(a,b) := edge(a,b)")
    language = recognized(stripped)
    given = flags.get("parameters")
    if language == "cypher":
        from bigjoin.languages import cypher_meaning  # its grammar is large, and most texts are not Cypher

        return _refined(cypher_meaning.parse(text, given or {}), flags)
    if language == "sql":
        from bigjoin.languages import sql  # which imports sqlglot

        return _refined(Statement("sql", text, (), unread=sql.parse(text)), flags)
    if given:
        raise QueryError("parameters are for Cypher, where $name stands for one", hint="write the value into the text")
    if language == "motif":
        from bigjoin.languages import motif

        return _refined(motif.parse(text), flags)
    if language == "name":
        return Statement.of(refine(named.parse(stripped), **flags), language, text)
    from bigjoin.languages import datalog  # a parser, which names do not need

    return _refined(datalog.parse(text), flags)


def parameter_value(name: str, text: str) -> ParameterValue:
    """Return the value of a parameter: numbers, true, false, null and lists as JSON has them, everything else as text."""
    try:
        value = json.loads(text, parse_constant=lambda word: word)
    except ValueError:
        return text
    if any(isinstance(each, list | dict) for each in (value if isinstance(value, list) else [value])):
        raise OptionError(f"{name} is no number, text, true or false, and no list of these")
    return cast("ParameterValue", value)


def recognized(text: str) -> Language:
    """Return the language of a text, which its first characters tell; refuse languages that are not read."""
    if named.is_name(text):
        return "name"
    if re.match(_SQL, text, re.IGNORECASE | re.DOTALL):
        return "sql"
    if re.match(r"g\.V\(", text):
        hint = "write a rule, q(a,b) := edge(a,b); a motif, (a)-[]->(b); or Cypher, MATCH (a)-[]->(b) RETURN a, b"
        raise QueryError("this is Gremlin, which bigjoin does not read", Span(text, 0, 4), hint)
    words = re.match(
        rf"(?:\s|//[^\n]*(?:\n|$)|/\*.*?\*/)*([a-z]+)\b(?!\s*{_HEAD}\s*(?::=|:-|<-\s*\w))", text, re.IGNORECASE | re.DOTALL
    )
    if words is not None and words[1].casefold() in _CYPHER_WORDS:
        return "cypher"
    from bigjoin.languages.motif_terms import is_motif

    return "motif" if is_motif(text) else "rule"


_HEAD = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
"""The head of a rule, whose columns may call functions of functions."""

_SQL = (
    r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
    r"(?:select\b(?!\s*\([^()]*\)\s*(?::=|:-|<-))|with\s+(?:recursive\s+)?[\w`]+\s*(?:\([^()]*\)\s*)?as\s*\(|(?:insert|update)\s+)"
)
"""What SQL begins with, also where it is then refused."""

_CYPHER_WORDS = frozenset(
    (
        *("match", "optional", "return", "with", "unwind", "call", "use", "explain", "profile", "show", "load", "foreach"),
        *("create", "merge", "delete", "detach", "set", "remove"),
    )
)
"""What a Cypher text may begin with, also where it is then refused: it is never read as another language."""


def parse(text: str, **flags: Unpack[Flags]) -> Query:
    """Return the one query that a text, `where`, `select` and the flags ask for; refuse texts that ask for more."""
    return only_query(read(text, **flags))


def only_query(statement: Statement) -> Query:
    """Return the query of a statement that has nothing else; raise QueryError for any other."""
    if (more := statement.beyond_query) is not None:
        hint = "write it as a rule" if statement.unread is not None else "leave it out"
        raise QueryError(f"only one query is wanted here, and {more} is more than that", hint=hint)
    return statement.query


def refine(query: Query, **flags: Unpack[Flags]) -> Query:
    """Return a query with further filters, properties in its head, and flags, validated; it keeps what it already has."""
    where, select = flags.pop("where", None), flags.pop("select", None)
    flags.pop("parameters", None)
    for name, value in flags.items():
        if value not in (True, False):
            raise OptionError(f"{name} is {value!r}; give True or False")
    flagged = query.with_flags({name: True for name, value in flags.items() if value})
    more: tuple[tuple[str, Expression], ...] = ()
    filters = query.filters
    if (select and select.strip()) or (where and where.strip()):
        from bigjoin.languages import datalog

        more = datalog.parse_properties(select) if select and select.strip() else ()
        filters += datalog.parse_filters(where) if where and where.strip() else ()
    read = tuple(f for condition in filters for f in _with_truth_values(condition, query))
    head = (*query.head, *(term for _, term in more))
    natural = not query.names and all(column_of(term) == name for name, term in more)
    names = () if natural else (*query.columns, *(name for name, _ in more))
    head = tuple(_literals(term, query) for term in head)
    return check_paths(validate(replace(flagged, head=head, names=names, filters=read)))


def _refined(statement: Statement, flags: Flags) -> Statement:
    """Return a statement whose queries have further filters and flags."""
    if statement.unread is not None:
        return _asked_in_sql(statement, flags)
    if flags.get("deduplicate") and statement.count_column is not None:
        raise QueryError("count(*) counts every row", hint="leave deduplicate out, or RETURN DISTINCT what you want to count")
    if any(block.subpatterns for block in statement.blocks):
        for flag in ("distinct", "unique", "induced"):
            if flags.get(flag):
                hint = "say in the text which nodes differ, as in a <> b"
                raise QueryError(f"{flag!r} cannot be combined with an OPTIONAL MATCH or a condition of this kind", hint=hint)
        if flags.pop("deduplicate", False):
            statement = replace(statement, deduplicate=True)
    if flags.get("select") and not statement.is_query:
        raise QueryError(
            "'select' adds columns to a rule", hint="a motif has all properties in its structs; in Cypher, RETURN them"
        )

    def refined(block: QueryBlock) -> QueryBlock:
        return replace(block, query=refine(block.query, **flags))

    return replace(statement, blocks=tuple(map(refined, statement.blocks)))


def _asked_in_sql(statement: Statement, flags: Flags) -> Statement:
    """Return a SELECT, which says all that a query's flags could, except that it is meant to be a cross product."""
    advice = {"where": "WHERE", "select": "the list of columns", "deduplicate": "SELECT DISTINCT", "parameters": "the text"}
    for name, value in flags.items():
        if name == "cross_product" or not value:
            continue
        hint = f"say it in {advice.get(name, 'WHERE, as in a.src <> b.src')}"
        raise QueryError(f"{name!r} is not for SQL, which says itself what is wanted", hint=hint)
    if not flags.get("cross_product"):
        return statement
    return replace(statement, unread=replace(statement.unread, cross_product=True))


def _with_truth_values(condition: QueryFilter, query: Query) -> tuple[QueryFilter, ...]:
    """Return a condition with `true`, `false` and `null` as constants, unless an atom binds an attribute of that name."""
    if isinstance(condition, Predicate):
        read = _literals(condition.expression, query)
        if not attributes_of(read):
            what = "compares two constants" if condition.expression.function in OPERATORS else "is about constants alone"
            raise QueryError(f"'{condition}' {what}", condition.span, "compare an attribute")
        return conditions(read, query.dialect, condition.span) if read != condition.expression else (condition,)
    if condition.also:
        return (condition,)
    left, right = (_literals(side, query) for side in (condition.left, condition.right))
    if isinstance(left, Constant) and isinstance(right, Constant):
        shown = f"{left} {condition.op} {right}"
        raise QueryError(f"'{shown}' compares two constants", condition.span, "compare an attribute")
    if (left, right) == (condition.left, condition.right):
        return (condition,)
    return conditions(Call(condition.op, (left, right), condition.span), query.dialect, condition.span)


def _literals(expression: Expression, query: Query) -> Expression:
    """Return an expression with `true`, `false` and `null` as constants, unless an atom binds an attribute of that name."""
    words = {"true": Constant(True), "false": Constant(False), "null": Constant(None)}

    def read(part: Expression) -> Expression:
        is_word = isinstance(part, str) and part not in query.bound
        return words.get(part.casefold(), part) if is_word and isinstance(part, str) else part

    return mapped(expression, read)
