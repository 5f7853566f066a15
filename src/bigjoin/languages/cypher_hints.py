"""What to do about a text that the grammar cannot read: common slips, by what stands before and after the place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from bigjoin.errors import QueryError, Span, did_you_mean, shown
from bigjoin.languages.cypher_clauses import CYPHER_EXAMPLE

MAX_LOOK_BACK = 1000
"""Characters before a mistake that tell which slip it is."""

_ARROWS = "arrows are -->, <--, --, -[:TYPE]->, <-[:TYPE]- and -[:TYPE]-"
_ANY_LENGTH = "write each relationship: (a)-[:TYPE]->()-[:TYPE]->(b)"
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`"""
_CLAUSES = "match|optional|where|return|order|skip|limit|distinct|with|unwind|union|create"
_OPERATORS = "and|or|xor|not|contains|starts|ends|is|in|as|asc|desc|by"

_EXPECTED = {
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "LPAR": "'('",
    "LSQB": "'['",
    "MINUS": "'-'",
    "NAME": "a name",
    "RBRACE": "'}'",
    "RPAR": "')'",
    "RSQB": "']'",
    "INTEGER": "a whole number",
    "VARIABLE": "a name",
    "_BY": "BY",
    "_WITH": "WITH",
    "_NULL": "NULL",
    "_THEN": "THEN",
    "_END": "END",
    "_WHEN": "WHEN",
    "_MATCH": "MATCH",
}
"""What to call what may follow."""

_DOUBLED = {
    "==": "write = for 'is equal to'",
    "&&": "write AND",
    "||": "write OR",
    "=>": "write >= to compare, or --> for a relationship",
    "=<": "write <= to compare, or <-- for a relationship",
    ":=": "write = rather than :=; a rule with := is Datalog, which has no MATCH",
    "<<": _ARROWS,
    ">>": _ARROWS,
}
"""Operators of other languages. The parser may have read their first character already."""


class _Place(NamedTuple):
    """Where the text cannot be read. Comments before it, and text between quotes, are blanked out."""

    before: str
    after: str
    unclosed: str
    """The brackets that are open there."""


def syntax_error(text: str, error: UnexpectedInput) -> QueryError:
    """Return the error for a text that the grammar does not know: what is unexpected, where, and what to do."""
    at_end = isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
    start = len(text.rstrip()) if at_end or error.pos_in_stream is None else error.pos_in_stream
    before = re.sub(f"{_QUOTED}|{_COMMENT}", _blanked, text[:start], flags=re.DOTALL)
    place = _Place(before.rstrip()[-MAX_LOOK_BACK:], text[start:], _unclosed(before))
    if at_end:
        hint = _hint(place) or _unclosed_hint(place) or _expected(error)
        return QueryError("the query cannot be read: the text ends too early", Span(text, start, start + 1), hint)
    for doubled, meaning in _DOUBLED.items():
        at = next((at for at in (start - 1, start) if at >= 0 and text.startswith(doubled, at)), None)
        if at is not None:
            return _unexpected(text, at, doubled, meaning)
    token = re.match(rf"\w+|{_QUOTED}|.", place.after, re.DOTALL)
    what = token[0] if token else place.after[:1]
    return _unexpected(text, start, what, _hint(place) or _unclosed_hint(place) or _misspelled(what) or _expected(error))


def _unexpected(text: str, start: int, what: str, hint: str) -> QueryError:
    quoted = len(what) > 1 and what[0] in "'\"`"
    named = f'"{what}"' if what == "'" else shown(what, 60) if quoted else f"'{shown(what, 60)}'"
    return QueryError(f"the query cannot be read: unexpected {named}", Span(text, start, start + len(what)), hint)


def _blanked(found: re.Match[str]) -> str:
    quote = "" if found[0].startswith("/") else found[0][0]
    return quote + " " * (len(found[0]) - 2 * len(quote)) + quote


def _unclosed(before: str) -> str:
    """Return the brackets of a text, without quoted parts, that are not closed."""
    opened = ""
    for character in before:
        if character in _CLOSING:
            opened += character
        elif opened and character == _CLOSING[opened[-1]]:
            opened = opened[:-1]
    return opened


_Answer = str | Callable[[re.Match[str], re.Match[str]], str]

_CLAUSE_FOLLOWS = r"(match|optional\s+match|where|return|order\s+by|skip|limit)\b"
_PLAIN = r"(?!(?:match|where|return|order|skip|limit|optional|and|or|xor|in|is|as|not|contains|starts|ends)\b)[^\W\d]\w*"

_SLIPS: list[tuple[str, str, _Answer]] = [
    # Characters
    (r"", r"[\u201c\u201d\u2018\u2019\u00ab\u00bb]", "use straight quotes: 'text'"),
    (r"", r"(['\"`])((?!\1).)*$", lambda _, after: f"the quote is not closed: add another {after[1]} where it ends"),
    (r"'$", r"\w+'", "write \\' for a quote within quotes, or use the other kind: \"it's\""),
    (r"", r"/\*", "the comment is not closed: end it with */"),
    (r"", r"#", "a comment starts with //"),
    (r"", r"[\u2192\u2190\u2013\u2014\u2212]", f"use plain characters: {_ARROWS}"),
    (r":$", r"!", "a pattern cannot say which label is missing: write WHERE NOT a:Label"),
    (r"", r"!", "write NOT before a condition, or <> for 'differs from'"),
    (r"", r"&", "write AND between conditions"),
    (r"", r"\|", "write OR between conditions"),
    (r"", r"\?|@", "a parameter is written $name"),
    (r"", r"\$", "a parameter has a name or a number: $name or $1"),
    (r"", r"\d+[^\W\d]", "a name starts with a letter: put others in backticks, as in `2nd`"),
    (r";$", r"", "ask one query at a time: remove what follows the ';'"),
    # Other languages
    (r"^$", r"-|<|\(", "a query begins with MATCH: MATCH (a)-->(b) RETURN a, b"),
    (r"^$", r"\w+\s*\(.*(:=|:-|<-\s*\w+\()", "this is a rule of Datalog; a Cypher query is MATCH (a)-->(b) RETURN a, b"),
    (r"", r"(select|from|join|insert|update)\b", f"this is SQL; Cypher reads {CYPHER_EXAMPLE}"),
    (r"", r"(group\s+by|having)\b", "leave it out: RETURN a.city, count(*) has one row for each city"),
    (r"", r"like\b", "write CONTAINS 'x', STARTS WITH 'x' or ENDS WITH 'x'"),
    (r"", r"between\b", "write 1 <= a.age <= 5"),
    (r"\bin$|\bin\s*\([^()]*$", r"[(,]", "a list has square brackets: IN [1, 2]"),
    (r"", r"not\s+in\b", "NOT comes first: NOT a.age IN [1, 2]"),
    (r"", r"not\s+(contains|starts|ends|like)\b", "NOT comes first: NOT a.name CONTAINS 'x'"),
    (r"\bis(\s+not)?$", r"", "IS NULL and IS NOT NULL are the only tests with IS; write = to compare"),
    (r"\b(starts|ends)$", r"", lambda before, _: f"write {before[1].upper()} WITH"),
    (r"\border$", r"", "write ORDER BY"),
    # Arrows
    (r"\)\s*-$", r">", "an arrow without brackets has two dashes: -->"),
    (r"\)\s*-$", r"\(", "a relationship without brackets has two dashes: --, --> or <--"),
    (r"\)\s*<\s*-$", r"\(", "an arrow without brackets has two dashes: <--"),
    (r"\)\s*-$", r"\w", "a relationship is in square brackets: -[e:TYPE]->"),
    (r"\]$", r">", "the arrow lacks a dash: write ]->"),
    (r"\)\s*<$", r"\[", "the arrow lacks a dash: write <-["),
    (r"\]$", r"\(", "the relationship lacks its end: write ]->( or ]-("),
    (r"\]\s*-$", r"-", "one dash follows a bracket: write ]->"),
    (r"\)\s*<?\s*-\s*-$", r"\[", "one dash stands before a bracket: write -["),
    (r"\)$", r"\[", "a relationship begins with a dash: write -[...]->"),
    (r"\)$", r">", _ARROWS),
    (r"(-\s*-|\]\s*-)\s*>?$", _PLAIN, lambda _, after: f"a node needs parentheses: ({after[0]})"),
    (r"\*\s*\d*$", r"-|,", "a range of lengths is written *1..3"),
    # Patterns
    (r"\b(match|exists\s*\{)\s*(\w+)$", r"[-<]", lambda before, _: f"a node needs parentheses: ({before[2]})"),
    (r"\bmatch\s*(\w+)$", r"\(", "a pattern is made of nodes and arrows: MATCH (a)-[:TYPE]->(b)"),
    (r"\b(match|exists\s*\{)\s*(\w+)$", r"", lambda before, _: f"a node needs parentheses: ({before[2]})"),
    (r"\b(match|exists\s*\{)$", r"", "MATCH needs a pattern: MATCH (a)-->(b)"),
    (
        r"[\[(]\s*\w*\s*:\s*(\w+)$",
        _PLAIN,
        lambda before, after: f"put a name with a space in backticks: `{before[1]} {after[0]}`",
    ),
    (r"[\[(]\s*\w*(\s*:\s*\w+)?$", r"where\b", "write the condition after the pattern: MATCH (a)-->(b) WHERE a.age > 30"),
    (r"\}$", r"where\b", "close the pattern first, and write the condition after it"),
    (r"\(\s*(\w+)$", _PLAIN, lambda before, after: f"a label follows a colon: ({before[1]}:{after[0]})"),
    (r"\[\s*(\w+)$", _PLAIN, lambda before, after: f"a type follows a colon: [{before[1]}:{after[0]}]"),
    (r"[(\[].*\}$", r":", "labels and types come before properties: (a:Label {name: 'x'})"),
    (r"\{[^{}]*$", r"=", "a map has colons: {name: 'x'}"),
    (r"[{,]$", r"['\"]", "a key has no quotes: {name: 'x'}"),
    (r"\{\s*(\w+)$", r"\}", lambda before, _: f"a map has colons, {{{before[1]}: 'x'}}; a parameter is written ${before[1]}"),
    (r"\)$", r"\(\s*\(", _ANY_LENGTH),
    (r"(-|>)$", r"[+*{]", _ANY_LENGTH),
    (
        r"\b(count|collect)\s*\{$",
        r"",
        "COUNT { } is not supported yet: MATCH the pattern and RETURN count(*), or ask EXISTS { }",
    ),
    (r"\bmatch\s*\($", r"\(", "a pattern has no parentheses around it: MATCH (a)-->(b)"),
    (r":$", r"['\"]", "a label or type has no quotes; with a space in it, put it in backticks"),
    (r"\)$", r"\(", "put a comma between two patterns, or an arrow: (a)-->(b)"),
    (r"\)$", r"\{\s*\d*\s*,|[+*]\s*\(", _ANY_LENGTH),
    # Commas and clauses
    (r",$", _CLAUSE_FOLLOWS, lambda _, after: f"remove the comma before {after[1].upper()}"),
    (r"\breturn(\s+distinct)?$", r"", "say what to return: RETURN a, or RETURN count(*)"),
    (r"\bwhere$", r"", "WHERE needs a condition: WHERE a.age > 30"),
    (r"\border\s+by$", r"", "say what to sort by: ORDER BY a.age"),
    (r"\b(skip|limit|offset)$", r"", lambda before, _: f"{before[1].upper()} needs a number: {before[1].upper()} 10"),
    (r"\bas$", r"['\"]", "an alias has no quotes; with a space in it, put it in backticks"),
    (r"\b(skip|limit|offset)\s+\d+$", r",", "write SKIP 5 LIMIT 10 rather than two numbers"),
    (r"\bwhere\b((?!\b(return|match)\b)[^\[{(])*$", r",", "join conditions with AND"),
    (r"\breturn\s*\([^()]*$", r",", "columns have no parentheses around them: RETURN a, b"),
    (r"\bmatch\b((?!\b(where|return)\b).)*\)$", r"and\b", "put a comma between two patterns: MATCH (a)-->(b), (b)-->(c)"),
    (r"\bmatch\b((?!\b(where|return)\b).)*\)$", r"\w+\s*[.=<>]", "conditions follow WHERE: MATCH (a)-->(b) WHERE a.age > 30"),
    (r"\bas$", r"", "a name follows AS: RETURN count(*) AS total"),
    (r"\bas\s+\w+$", r"\w+", "an alias is one word, or in backticks: AS `two words`"),
    (r"\b(and|or|xor|not)$", r"$|" + _CLAUSE_FOLLOWS, lambda before, _: f"a condition is missing after {before[1].upper()}"),
    (r"(<>|<=|>=|!=|[=<>+*/%^])$", r"$|" + _CLAUSE_FOLLOWS, lambda before, _: f"a value is missing after {before[1]}"),
    (r"\.$", r"", "the name of a property follows the '.'"),
    (r",$", r"$|[,)\]}]", "remove the comma, or write what follows it"),
]
"""A slip, by the end of the text before the place and the beginning of the text after it, and what to say. The first counts."""


def _hint(place: _Place) -> str | None:
    for ends, begins, answer in _SLIPS:
        before = re.search(ends, place.before, re.IGNORECASE | re.DOTALL)
        after = re.match(begins, place.after, re.IGNORECASE | re.DOTALL)
        if before and after and (ends or begins):
            return answer if isinstance(answer, str) else answer(before, after)
    if re.match(r"[^\W\d]\w*", place.after) and re.search(
        r"\breturn\b(?!.*\b(limit|skip)\b)[^;]*[\w)]$", place.before, re.I | re.S
    ):
        word = re.match(r"\w+", place.after)
        if word and not place.unclosed and not _misspelled(word[0]):
            return f"write AS before an alias: AS {word[0]}; put a comma between two columns"
    return None


def _unclosed_hint(place: _Place) -> str | None:
    closer = place.after[:1]
    if closer in _CLOSING.values() and (not place.unclosed or _CLOSING[place.unclosed[-1]] != closer):
        if not place.unclosed:
            return f"nothing is open here that '{closer}' could close: remove it"
        return f"close the '{place.unclosed[-1]}' first, with '{_CLOSING[place.unclosed[-1]]}'"
    if place.unclosed and re.match(rf"\s*($|;|[-<]|{_CLAUSE_FOLLOWS})", place.after, re.IGNORECASE):
        return f"close the '{place.unclosed[-1]}' with '{_CLOSING[place.unclosed[-1]]}'"
    return None


def _misspelled(word: str) -> str | None:
    known = f"{_CLAUSES}|{_OPERATORS}".split("|")
    if len(word) < 4 or word.casefold() in known:
        return None
    near = did_you_mean(word, known)
    return near.upper().replace("DID YOU MEAN", "did you mean") if near else None


def _expected(error: UnexpectedInput) -> str:
    names: set[str] = set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        names = set(error.allowed or ())
    expected = sorted({word for name in names if (word := _EXPECTED.get(name))})
    few = expected and len(names) <= 8
    return f"expected {' or '.join(expected)}" if few else f"a query reads {CYPHER_EXAMPLE}"
