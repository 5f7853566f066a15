"""From lark's tree to the tree of `cypher_tree.py`: values of literals, and mistakes that one part shows on its own."""

from __future__ import annotations

import re
from collections import Counter as Tallies
from dataclasses import replace
from typing import Any, NamedTuple

from lark import Token, Transformer, v_args
from lark.tree import Meta

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_clauses import ClauseText, query_of

MAX_NUMBER_LENGTH = 600
"""Characters of a number. Python limits the digits of integers it reads, by a setting that may be as low as 640."""

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"', "\\": "\\", "`": "`"}

_OPERATORS = {"<>": "!="}
"""Spellings of a comparison that the tree knows by another one."""


_NO_LISTS = "ask about the pattern instead, with EXISTS { (a)-->(b) WHERE ... }, or filter the result afterwards"


def name_of(token: str) -> str:
    """Return a name without its backticks."""
    return token[1:-1].replace("``", "`") if token.startswith("`") else str(token)


class _Hops(NamedTuple):
    """The bounds of a variable length."""

    fewest: int | None
    most: int | None


@v_args(meta=True)
class BuildTree(Transformer):  # type: ignore[misc]
    """Turn lark's tree of a text into a CypherQuery, with a span on every part."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def _span(self, at: Meta | Token) -> Span:
        return Span(self.text, at.start_pos, at.end_pos)

    def start(self, _: Meta, clauses: list[Any]) -> tree.CypherQuery:
        return query_of(self.text, [clause for clause in clauses if isinstance(clause, ClauseText)])

    # Clauses

    def _clause(self, meta: Meta, keyword: str, parts: list[Any]) -> ClauseText:
        words = len(keyword)
        return ClauseText(keyword, tuple(parts), self._span(meta), Span(self.text, meta.start_pos, meta.start_pos + words))

    def match(self, meta: Meta, parts: list[Any]) -> ClauseText:
        optional = isinstance(parts[0], Token)
        return self._clause(meta, "OPTIONAL MATCH" if optional else "MATCH", parts[optional:])

    def where(self, meta: Meta, parts: list[Any]) -> ClauseText:
        return self._clause(meta, "WHERE", parts)

    def returns(self, meta: Meta, parts: list[Any]) -> ClauseText:
        return self._clause(meta, "RETURN", [self._projection(meta, parts)])

    def _projection(self, meta: Meta, parts: list[Any]) -> tree.ReturnClause:
        kinds = [part.type for part in parts if isinstance(part, Token)]
        items = tuple(part for part in parts if isinstance(part, tree.ReturnItem))
        return tree.ReturnClause(items, star="STAR" in kinds, distinct="DISTINCT" in kinds, span=self._span(meta))

    def passed_on(self, meta: Meta, parts: list[Any]) -> ClauseText:
        return self._clause(meta, "WITH", [self._projection(meta, parts)])

    def order(self, meta: Meta, parts: list[tree.SortItem]) -> ClauseText:
        return self._clause(meta, "ORDER BY", parts)

    def skip(self, meta: Meta, parts: list[Any]) -> ClauseText:
        return self._clause(meta, parts[0].upper(), parts[1:])

    def limit(self, meta: Meta, parts: list[Any]) -> ClauseText:
        return self._clause(meta, "LIMIT", parts)

    def refused(self, meta: Meta, parts: list[Token]) -> ClauseText:
        word = re.match(r"\w+", parts[0])
        return self._clause(meta, word[0].upper() if word else "", [])

    def written(self, meta: Meta, parts: list[Any]) -> tuple[Any, str]:
        return parts[0], self.text[meta.start_pos : meta.end_pos]

    def item(self, meta: Meta, parts: list[Any]) -> tree.ReturnItem:
        (expression, text), *alias = parts
        return tree.ReturnItem(expression, name_of(alias[0]) if alias else None, text, span=self._span(meta))

    def sort(self, meta: Meta, parts: list[Any]) -> tree.SortItem:
        descending = len(parts) > 1 and parts[1].type == "DESCENDING"
        return tree.SortItem(parts[0], descending, span=self._span(meta))

    # Patterns

    def pattern(self, meta: Meta, parts: list[Any]) -> tree.PathPattern:
        names = {token.type: token for token in parts[:-1]}
        variable = name_of(names["VARIABLE"]) if "VARIABLE" in names else None
        function = str(names["SHORTEST"]) if "SHORTEST" in names else None
        if function is not None:
            function = "shortestPath" if function.casefold() == "shortestpath" else "allShortestPaths"
        path: tree.PathPattern = parts[-1]
        return replace(path, variable=variable, function=function, span=self._span(meta))

    def path(self, meta: Meta, parts: list[Any]) -> tree.PathPattern:
        return tree.PathPattern(tuple(parts[::2]), tuple(parts[1::2]), span=self._span(meta))

    inner_path = path

    def node(self, meta: Meta, parts: list[Any]) -> tree.NodePattern:
        node = tree.NodePattern(span=self._span(meta))
        for part in parts:
            if isinstance(part, Token):
                node = replace(node, variable=name_of(part)) if part.type == "VARIABLE" else node
            elif isinstance(part, tuple):
                node = replace(node, labels=part[0], any_label=part[1])
            else:
                node = replace(node, properties=self._properties(part))
        return node

    inner_node = node

    def labels(self, meta: Meta, tokens: list[Token]) -> tuple[tuple[str, ...], bool]:
        """Return the labels, and whether one of them is enough."""
        between = "".join(" " if token.type == "NAME" else token for token in tokens).split()
        bars = [separator for separator in between if "|" in separator]
        if bars and len(bars) < len(between):
            raise QueryError(
                "labels are joined both by '|' and by ':' or '&'",
                self._span(meta),
                "write (a:A:B) for nodes with all of them, and ask for the others by themselves",
            )
        return tuple(name_of(token) for token in tokens if token.type == "NAME"), bool(bars)

    def relationship(self, meta: Meta, parts: list[Any]) -> tree.RelationshipPattern:
        heads = {part.type for part in parts if isinstance(part, Token)} & {"LEFT", "RIGHT"}
        direction: tree.Direction = "either" if len(heads) != 1 else "in" if "LEFT" in heads else "out"
        relationship = tree.RelationshipPattern(direction=direction, span=self._span(meta))
        for part in parts:
            if isinstance(part, Token):
                relationship = replace(relationship, variable=name_of(part)) if part.type == "VARIABLE" else relationship
            elif isinstance(part, _Hops):
                relationship = replace(relationship, hops=(part.fewest, part.most))
            elif isinstance(part, tuple):
                relationship = replace(relationship, types=part)
            else:
                relationship = replace(relationship, properties=self._properties(part))
        return relationship

    def types(self, _: Meta, tokens: list[Token]) -> tuple[str, ...]:
        return tuple(map(name_of, tokens))

    def hops(self, meta: Meta, tokens: list[Token]) -> _Hops:
        dots = [at for at, token in enumerate(tokens) if token.type == "DOTS"]
        numbers = [self._integer(token) for token in tokens if token.type == "INTEGER"]
        if not dots:
            return _Hops(numbers[0], numbers[0]) if numbers else _Hops(None, None)
        fewest, most = numbers[0] if dots[0] else None, numbers[-1] if dots[0] < len(tokens) - 1 else None
        if fewest is not None and most is not None and fewest > most:
            raise QueryError(
                f"no path has at least {fewest} and at most {most} edges", self._span(meta), f"write *{most}..{fewest}"
            )
        return _Hops(fewest, most)

    def _properties(self, part: tree.MapLiteral | tree.Parameter) -> tuple[tuple[str, tree.CypherExpression], ...]:
        if isinstance(part, tree.Parameter):
            hint = f"write the properties one by one: {{name: ${part.name}}}"
            raise QueryError("a parameter cannot stand for all properties of a pattern", part.span, hint)
        return part.entries

    # Expressions

    def or_(self, meta: Meta, parts: list[Any]) -> tree.Or:
        return tree.Or(tuple(parts), span=self._span(meta))

    def xor(self, meta: Meta, parts: list[Any]) -> tree.Xor:
        return tree.Xor(tuple(parts), span=self._span(meta))

    def and_(self, meta: Meta, parts: list[Any]) -> tree.And:
        return tree.And(tuple(parts), span=self._span(meta))

    def negation(self, meta: Meta, parts: list[Any]) -> tree.Not:
        return tree.Not(parts[0], span=self._span(meta))

    def compare(self, meta: Meta, parts: list[Any]) -> tree.Compare | tree.And:
        pairs = tuple(
            tree.Compare(left, _OPERATORS.get(operator, str(operator)), right, span=self._around(left, right))
            for left, operator, right in zip(parts[::2], parts[1::2], parts[2::2], strict=False)
        )
        return replace(pairs[0], span=self._span(meta)) if len(pairs) == 1 else tree.And(pairs, span=self._span(meta))

    def _around(self, left: tree.CypherExpression, right: tree.CypherExpression) -> Span | None:
        return Span(self.text, left.span.start, right.span.end) if left.span and right.span else None

    def is_null(self, meta: Meta, parts: list[Any]) -> tree.IsNull:
        return tree.IsNull(parts[0], span=self._span(meta))

    def is_not_null(self, meta: Meta, parts: list[Any]) -> tree.IsNull:
        return tree.IsNull(parts[0], negated=True, span=self._span(meta))

    def is_in(self, meta: Meta, parts: list[Any]) -> tree.In:
        return tree.In(*parts, span=self._span(meta))

    def starts_with(self, meta: Meta, parts: list[Any]) -> tree.StringMatch:
        return tree.StringMatch(parts[0], "STARTS WITH", parts[1], span=self._span(meta))

    def ends_with(self, meta: Meta, parts: list[Any]) -> tree.StringMatch:
        return tree.StringMatch(parts[0], "ENDS WITH", parts[1], span=self._span(meta))

    def contains(self, meta: Meta, parts: list[Any]) -> tree.StringMatch:
        return tree.StringMatch(parts[0], "CONTAINS", parts[1], span=self._span(meta))

    def matches(self, meta: Meta, parts: list[Any]) -> tree.StringMatch:
        return tree.StringMatch(parts[0], "=~", parts[1], span=self._span(meta))

    def arithmetic(self, meta: Meta, parts: list[Any]) -> tree.Arithmetic:
        return tree.Arithmetic(parts[0], str(parts[1]), parts[2], span=self._span(meta))

    def negative(self, meta: Meta, parts: list[Any]) -> tree.Literal | tree.Negative:
        part = parts[-1]
        if isinstance(part, tree.Literal) and isinstance(part.value, int | float) and not isinstance(part.value, bool):
            return tree.Literal(-part.value, span=self._span(meta))
        return tree.Negative(part, span=self._span(meta))

    def positive(self, _: Meta, parts: list[Any]) -> Any:
        return parts[-1]

    def property_access(self, meta: Meta, parts: list[Any]) -> tree.PropertyAccess:
        return tree.PropertyAccess(parts[0], name_of(parts[1]), span=self._span(meta))

    def subscript(self, meta: Meta, parts: list[Any]) -> tree.Subscript:
        return tree.Subscript(*parts, span=self._span(meta))

    def bound(self, _: Meta, parts: list[Any]) -> list[Any]:
        return parts

    def sublist(self, meta: Meta, parts: list[Any]) -> tree.SubList:
        subject, start, _, stop = parts
        return tree.SubList(subject, start[0] if start else None, stop[0] if stop else None, span=self._span(meta))

    def has_labels(self, meta: Meta, parts: list[Any]) -> tree.HasLabels:
        return tree.HasLabels(parts[0], *parts[1], span=self._span(meta))

    def variable(self, meta: Meta, parts: list[Token]) -> tree.Variable:
        return tree.Variable(name_of(parts[0]), span=self._span(meta))

    def parameter(self, meta: Meta, parts: list[Token]) -> tree.Parameter:
        return tree.Parameter(name_of(parts[0][1:]), span=self._span(meta))

    def list_literal(self, meta: Meta, parts: list[Any]) -> tree.ListLiteral:
        return tree.ListLiteral(tuple(parts), span=self._span(meta))

    def entry(self, _: Meta, parts: list[Any]) -> tuple[str, tree.CypherExpression]:
        return name_of(parts[0]), parts[1]

    def map_literal(self, meta: Meta, entries: list[tuple[str, tree.CypherExpression]]) -> tree.MapLiteral:
        twice = [key for key, times in Tallies(key for key, _ in entries).items() if times > 1]
        if twice:
            raise QueryError(f"the key {twice[0]!r} stands twice in one map", self._span(meta), "give each key one value")
        return tree.MapLiteral(tuple(entries), span=self._span(meta))

    def call(self, meta: Meta, parts: list[Any]) -> tree.FunctionCall | tree.ExistsPattern:
        name, *arguments = parts
        if name.casefold() == "count" and not arguments:
            hint = "write count(*) to count the matches, or count(x) to count the values of x"
            raise QueryError("count() counts nothing", self._span(meta), hint)
        if name.casefold() == "exists" and len(arguments) == 1 and isinstance(arguments[0], tree.PatternPredicate):
            return tree.ExistsPattern((arguments[0].path,), span=self._span(meta))
        return self._call(meta, name_of(name), arguments)

    def dotted_call(self, meta: Meta, parts: list[Any]) -> tree.FunctionCall:
        subject, name, *arguments = parts
        names, at = [name_of(name)], subject
        while isinstance(at, tree.PropertyAccess):
            names, at = [at.name, *names], at.subject
        if not isinstance(at, tree.Variable):
            raise QueryError("only a function can be called", self._span(meta), "write f(x) rather than x.f()")
        return self._call(meta, ".".join([at.name, *names]), arguments)

    def _call(self, meta: Meta, name: str, arguments: list[Any]) -> tree.FunctionCall:
        distinct = bool(arguments) and isinstance(arguments[0], Token)
        return tree.FunctionCall(name, tuple(arguments[distinct:]), distinct, span=self._span(meta))

    def call_star(self, meta: Meta, parts: list[Token]) -> tree.CountStar:
        if parts[0].casefold() != "count":
            raise QueryError(f"{parts[0]}(*) has no meaning", self._span(meta), f"write count(*), or {parts[0]}(a.age)")
        return tree.CountStar(span=self._span(meta))

    def when(self, _: Meta, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def otherwise(self, _: Meta, parts: list[Any]) -> list[Any]:
        return parts

    def case(self, meta: Meta, parts: list[Any]) -> tree.Case:
        subject = None if isinstance(parts[0], tuple) else parts[0]
        otherwise = parts[-1][0] if isinstance(parts[-1], list) else None
        branches = tuple(part for part in parts if isinstance(part, tuple))
        return tree.Case(subject, branches, otherwise, span=self._span(meta))

    def exists(self, meta: Meta, parts: list[Any]) -> tree.ExistsPattern:
        patterns = tuple(part for part in parts if isinstance(part, tree.PathPattern))
        where = parts[-1].parts[0] if isinstance(parts[-1], ClauseText) else None
        return tree.ExistsPattern(patterns, where, span=self._span(meta))

    def pattern_predicate(self, meta: Meta, parts: list[Any]) -> tree.PatternPredicate:
        return tree.PatternPredicate(parts[0], span=self._span(meta))

    def quantifier(self, meta: Meta, parts: list[Any]) -> tree.Quantifier:
        name, members, where = parts
        kind = name.casefold()
        if kind not in ("all", "any", "none", "single"):
            raise QueryError(f"{name}(x IN list WHERE ...) is not supported yet", self._span(meta), _NO_LISTS)
        variable, of = self._each_of(members, f"{kind}(x IN list WHERE ...)")
        return tree.Quantifier(kind, variable, of, where, span=self._span(meta))

    def _each_of(self, members: Any, written: str) -> tuple[str, tree.CypherExpression]:
        """Return the variable and the list of `x IN list`."""
        match members:
            case tree.In(tree.Variable(name), of):
                return name, of
        raise QueryError("a variable goes through a list here", members.span, f"write {written}")

    def reduction(self, meta: Meta, parts: list[Any]) -> None:
        hint = "list the values, as in [r IN e | r.amount], and put them together in the result"
        raise QueryError(f"{parts[0]}(... | ...) is not supported yet", self._span(meta), hint)

    def comprehension(self, meta: Meta, parts: list[Any]) -> tree.Comprehension:
        variable, of = self._each_of(parts[0], "[x IN list | ...]")
        return tree.Comprehension(variable, of, parts[1], span=self._span(meta))

    def filtered_list(self, meta: Meta, _: list[Any]) -> None:
        hint = "write [x IN list | ...] without it, and filter the lists of the result"
        raise QueryError("list comprehensions with WHERE are not supported yet", self._span(meta), hint)

    def projection(self, meta: Meta, parts: list[Any]) -> None:
        if re.fullmatch("count|collect", parts[0], re.IGNORECASE):
            raise QueryError(f"{parts[0]} {{ ... }} is not supported yet", self._span(meta), _NO_LISTS)
        hint = f"list the properties as columns: RETURN {parts[0]}.name, {parts[0]}.age"
        raise QueryError("map projections are not supported yet", self._span(meta), hint)

    # Literals

    def integer(self, meta: Meta, parts: list[Token]) -> tree.Literal:
        return tree.Literal(self._integer(parts[0]), span=self._span(meta))

    def _integer(self, token: Token) -> int:
        if len(token) > MAX_NUMBER_LENGTH:
            message = f"a number can have at most {MAX_NUMBER_LENGTH} digits"
            raise QueryError(message, self._span(token), "no id is that long")
        return int(token, {"0x": 16, "0o": 8}.get(token[:2].lower(), 10))

    def decimal(self, meta: Meta, parts: list[Token]) -> tree.Literal:
        return tree.Literal(float(parts[0]), span=self._span(meta))

    def true(self, meta: Meta, _: list[Any]) -> tree.Literal:
        return tree.Literal(True, span=self._span(meta))

    def false(self, meta: Meta, _: list[Any]) -> tree.Literal:
        return tree.Literal(False, span=self._span(meta))

    def null(self, meta: Meta, _: list[Any]) -> tree.Literal:
        return tree.Literal(None, span=self._span(meta))

    def string(self, meta: Meta, parts: list[Token]) -> tree.Literal:
        return tree.Literal(self._unescaped(parts[0]), span=self._span(meta))

    def _unescaped(self, token: Token) -> str:
        def character(match: re.Match[str]) -> str:
            if match[1] in _ESCAPES:
                return _ESCAPES[match[1]]
            code = int(match[1][1:], 16) if len(match[1]) > 1 else -1
            if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
                return chr(code)
            at = token.start_pos + 1 + match.start()
            hint = f"write \\\\{match[1]} for a backslash; \\n, \\t, \\', \\\" and \\u00e9 are escapes"
            raise QueryError(f"'{match[0]}' is not an escape", Span(self.text, at, at + len(match[0])), hint)

        return re.sub(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", character, token[1:-1], flags=re.DOTALL)
