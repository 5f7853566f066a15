"""The order of a query's clauses: what a clause may follow, and which clauses are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bigjoin.errors import QueryError, Span
from bigjoin.languages.cypher_tree import (
    CypherQuery,
    Literal,
    MatchClause,
    Parameter,
    PathPattern,
    ReturnClause,
    ReturnItem,
    SortItem,
    Variable,
    WithClause,
)

CYPHER_EXAMPLE = "MATCH (a)-[:KNOWS]->(b) WHERE a.age > 30 RETURN a, b"

_AFTER_RETURN = ("RETURN", "ORDER BY", "SKIP", "LIMIT")
"""The last clauses, in their order. The last three may follow a WITH as well, and then a WHERE."""

_ONLY_READS = "bigjoin only reads"
_NOT_YET = {
    "CALL": "ask with MATCH ... WHERE ... RETURN; EXISTS { (a)-->(b) } asks whether there is a match",
    "EXPLAIN": "leave it out, and run 'bigjoin explain' with the query",
    "PROFILE": "leave it out, and run 'bigjoin explain' with the query",
    "SHOW": "ask with MATCH ... RETURN; 'bigjoin info' describes an index",
    "UNION": "run the two queries one after the other, and put their rows together",
    "UNWIND": "give values as a list: WHERE a.name IN $names",
    "USE": "leave it out: the graph is the one that the command or the call names",
    "USING": "leave it out: bigjoin chooses the order of the joins itself",
}
_WRITES = "a graph changes through updates (bigjoin watch); ask with MATCH ... RETURN"


@dataclass(frozen=True, slots=True)
class ClauseText:
    """A clause as the grammar reads it: its first words (upper case), what they are followed by, and where they stand."""

    keyword: str
    parts: tuple[Any, ...]
    span: Span
    keyword_span: Span


def query_of(text: str, clauses: Sequence[ClauseText]) -> CypherQuery:
    """Return the query of clauses in the right order; the first clause that is refused or misplaced is an error."""
    if not clauses:
        raise QueryError("the query is empty", hint=f"for example {CYPHER_EXAMPLE}")
    found: list[MatchClause | WithClause] = []
    returns: ReturnClause | None = None
    earlier: ClauseText | None = None
    for clause in clauses:
        _refuse(clause)
        _check_place(clause, earlier, returned=returns is not None, projected=_is_open(found))
        match clause.keyword:
            case "MATCH" | "OPTIONAL MATCH" as keyword:
                found.append(MatchClause(_patterns(clause), optional=keyword != "MATCH", span=clause.span))
            case "WHERE":
                first = found[-1].span
                whole = Span(text, first.start, clause.span.end) if first else None
                found[-1] = replace(found[-1], where=clause.parts[0], span=whole)
            case "WITH":
                found.append(WithClause(_with_names(_checked_columns(clause.parts[0])), span=clause.span))
            case "RETURN":
                returns = _checked_columns(clause.parts[0])
            case keyword if returns is not None:
                returns = _with_tail(returns, clause, keyword)
            case keyword:
                last = found[-1]
                assert isinstance(last, WithClause)
                found[-1] = replace(last, projection=_with_tail(last.projection, clause, keyword))
        earlier = clause
    if not any(isinstance(clause, MatchClause) for clause in found):
        raise QueryError("the query has no MATCH", clauses[0].keyword_span, f"say what to look for, as in {CYPHER_EXAMPLE}")
    if returns is None:
        end = len(text.rstrip().removesuffix(";").rstrip())
        raise QueryError("the query has no RETURN", Span(text, end, end + 1), _what_to_return(found))
    return CypherQuery(tuple(found), returns, span=Span(text, clauses[0].span.start, clauses[-1].span.end))


def _is_open(found: Sequence[MatchClause | WithClause]) -> bool:
    """Tell whether the last clause is a WITH, whose rows may still be sorted, cut and filtered."""
    return bool(found) and isinstance(found[-1], WithClause) and found[-1].where is None


def _refuse(clause: ClauseText) -> None:
    name = clause.keyword
    if name in _NOT_YET:
        raise QueryError(f"{name} is not supported yet", clause.keyword_span, _NOT_YET[name])
    if name not in ("MATCH", "OPTIONAL MATCH", "WHERE", "WITH", "OFFSET", *_AFTER_RETURN):
        raise QueryError(f"{name} is not supported: {_ONLY_READS}", clause.keyword_span, _WRITES)


def _check_place(clause: ClauseText, earlier: ClauseText | None, *, returned: bool, projected: bool) -> None:
    keyword = "SKIP" if clause.keyword == "OFFSET" else clause.keyword
    before = None if earlier is None else "SKIP" if earlier.keyword == "OFFSET" else earlier.keyword
    hint = None
    if keyword in _AFTER_RETURN[1:] and not (returned or projected):
        raise QueryError(f"{clause.keyword} stands before RETURN", clause.keyword_span, f"move {clause.keyword} after RETURN")
    if keyword == before and keyword in ("WHERE", "RETURN", "ORDER BY", "SKIP", "LIMIT"):
        joined = "join the conditions with AND" if keyword == "WHERE" else "keep one, with everything in it"
        raise QueryError(f"{clause.keyword} stands twice", clause.keyword_span, joined)
    if keyword not in _AFTER_RETURN and returned:
        hint = "RETURN comes last: move it to the end"
    elif keyword in _AFTER_RETURN[not returned :] and _AFTER_RETURN.index(keyword) < _place(before):
        hint = f"the order is {', '.join(('RETURN' if returned else 'WITH', *_AFTER_RETURN[1:]))}"
    elif keyword == "WHERE" and before is None:
        raise QueryError("WHERE stands before MATCH", clause.keyword_span, f"begin with MATCH, as in {CYPHER_EXAMPLE}")
    if hint is not None:
        raise QueryError(f"{clause.keyword} stands after {before}", clause.keyword_span, hint)


def _place(keyword: str | None) -> int:
    return _AFTER_RETURN.index(keyword) if keyword in _AFTER_RETURN else -1


def _patterns(clause: ClauseText) -> tuple[PathPattern, ...]:
    return clause.parts


def _checked_columns(returns: ReturnClause) -> ReturnClause:
    names: dict[str, ReturnItem] = {}
    for item in returns.items:
        name = item.alias or item.text
        if name in names:
            hint = "leave one out" if item.alias is None else "give each column an alias of its own"
            raise QueryError(f"two columns are named {name!r}", item.span, hint)
        names[name] = item
    return returns


def _with_names(projection: ReturnClause) -> ReturnClause:
    """Return what a WITH passes on; refuse what has no name."""
    for item in projection.items:
        if item.alias is None and not isinstance(item.expression, Variable):
            raise QueryError("what WITH passes on needs a name", item.span, f"write {item.text} AS name")
    return projection


def _with_tail(returns: ReturnClause, clause: ClauseText, keyword: str) -> ReturnClause:
    if keyword == "ORDER BY":
        order: tuple[SortItem, ...] = clause.parts
        return replace(returns, order=order)
    number = clause.parts[0]
    if isinstance(number, Literal):
        whole = isinstance(number.value, int) and not isinstance(number.value, bool) and number.value >= 0
    else:
        whole = isinstance(number, Parameter)
    if not whole:
        hint = f"write {keyword} 10, or a parameter: {keyword} $n"
        raise QueryError(f"{keyword} takes a whole number that is not negative", number.span, hint)
    return replace(returns, limit=number) if keyword == "LIMIT" else replace(returns, skip=number)


def _what_to_return(clauses: Sequence[MatchClause | WithClause]) -> str:
    if isinstance(clauses[-1], WithClause):
        return "add RETURN *, or RETURN count(*)"
    paths = [path for clause in clauses if isinstance(clause, MatchClause) for path in clause.patterns]
    names = dict.fromkeys(node.variable for path in paths for node in path.nodes if node.variable)
    columns = ", ".join(list(names)[:4])
    return (
        f"add RETURN {columns}, or RETURN count(*)" if columns else "add RETURN count(*), or name a node, as (a), and RETURN a"
    )
