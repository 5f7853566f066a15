"""Text -> Statement. Each language is a module that does not know the others; `read` tells them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

from bigjoin.errors import OptionError, QueryError, Span
from bigjoin.languages import datalog, motif, named
from bigjoin.languages.motif_terms import is_motif
from bigjoin.query.query import Comparison, Query, validate
from bigjoin.query.statement import Language, QueryBlock, Statement
from bigjoin.query.terms import Constant, Operand, Value


class Flags(TypedDict, total=False):
    """What goes with a query's text: more filters and columns, parameters, and the flags of `query/flags.py`."""

    where: str | None
    select: str | None
    parameters: Mapping[str, Value] | None
    distinct: bool
    unique: bool
    induced: bool
    cross_product: bool
    deduplicate: bool


Text = str | Query | Statement
"""What a verb takes as a query: a text in any language, or what a text became."""


def read(text: Text, **flags: Unpack[Flags]) -> Statement:
    """Return what a text (a name, a rule, a motif or Cypher), `where`, `select` and the flags ask for, validated."""
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
    if given:
        raise QueryError("parameters are for Cypher, where $name stands for one", hint="write the value into the text")
    if language == "motif":
        return _refined(motif.parse(text), flags)
    query = named.parse(stripped) if language == "name" else datalog.parse(text)
    return Statement.of(refine(query, **flags), language, text)


def recognized(text: str) -> Language:
    """Return the language of a text, which its first characters tell; refuse languages that are not read."""
    if named.is_name(text):
        return "name"
    if re.match(r"\(?\s*select\b|with\s+\w+\s+as\s*\(|(insert|update)\s+", text, re.IGNORECASE):
        hint = "write a rule, q(a,b) := edge(a,b); a motif, (a)-[]->(b); or Cypher, MATCH (a)-[]->(b) RETURN a, b"
        raise QueryError("this is SQL, which bigjoin does not read", Span(text, 0, len(text.split()[0])), hint)
    if re.match(r"g\.V\(", text):
        hint = "write a rule, q(a,b) := edge(a,b); a motif, (a)-[]->(b); or Cypher, MATCH (a)-[]->(b) RETURN a, b"
        raise QueryError("this is Gremlin, which bigjoin does not read", Span(text, 0, 4), hint)
    words = re.match(
        r"(?:\s|//[^\n]*(?:\n|$)|/\*.*?\*/)*([a-z]+)\b(?!\s*\([^()]*\)\s*(?::=|:-|<-\s*\w))", text, re.IGNORECASE | re.DOTALL
    )
    if words is not None and words[1].casefold() in _CYPHER_WORDS:
        return "cypher"
    return "motif" if is_motif(text) else "rule"


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
        raise QueryError(f"only one query is wanted here, and {more} is more than that", hint="leave it out")
    return statement.query


def refine(query: Query, **flags: Unpack[Flags]) -> Query:
    """Return a query with further filters, properties in its head, and flags, validated; it keeps what it already has."""
    where, select = flags.pop("where", None), flags.pop("select", None)
    flags.pop("parameters", None)
    for name, value in flags.items():
        if value not in (True, False):
            raise OptionError(f"{name} is {value!r}; give True or False")
    flagged = query.with_flags({name: True for name, value in flags.items() if value})
    more = datalog.parse_properties(select) if select and select.strip() else ()
    filters = query.filters + (datalog.parse_filters(where) if where and where.strip() else ())
    read = tuple(_with_truth_values(comparison, query.attributes) for comparison in filters)
    names = (*query.names, *(term.column for term in more)) if query.names else ()
    return validate(replace(flagged, head=query.head + more, names=names, filters=read))


def _refined(statement: Statement, flags: Flags) -> Statement:
    """Return a statement whose queries have further filters and flags."""
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


def _with_truth_values(comparison: Comparison, bound: tuple[str, ...]) -> Comparison:
    """Return a comparison with `true` and `false` as constants, unless an atom binds an attribute of that name."""

    def read(side: Operand) -> Operand:
        word = side.casefold() if isinstance(side, str) and side not in bound else None
        return Constant(word == "true") if word in ("true", "false") else side

    read_as = replace(comparison, left=read(comparison.left), right=read(comparison.right))
    if not read_as.attributes:
        raise QueryError(f"'{read_as}' compares two constants", comparison.span, "compare an attribute")
    return read_as
