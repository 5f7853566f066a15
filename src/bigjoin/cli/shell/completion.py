"""What Tab completes: a pure function of the text on both sides of the cursor, and of what is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bigjoin.cli.shell.arguments import Syntax, command_of

_ATOM = re.compile(r"\b(\w+)(?:\*[\d.]*)?\s*\(([^()]*)\)")
_NAME = re.compile(r"[^\W\d]\w*")
_IN_QUOTES = re.compile(r"""("[^"\n]*"|'[^'\n]*')""")
_AFTER_DOT = re.compile(r"([^\W\d]\w*)\.(\w*)$")
_AFTER_COLON = re.compile(r"[\[(]\s*\w*\s*:\s*(\w*)$")
_FIRST_WORD = re.compile(r"\s*[\w-]*")
_LAST_NAME = re.compile(r"\w*$")

MAX_WORD_CHARACTERS = 256
"""How far back from the cursor a word may begin."""
STARTS = ("MATCH", "SELECT", "WITH")
"""Words that statements begin with."""
KEYWORDS = {
    "cypher": ("WHERE", "RETURN", "MATCH", "OPTIONAL", "DISTINCT", "ORDER BY", "LIMIT", "SKIP", "AND", "OR", "NOT", "count("),
    "sql": ("FROM", "JOIN", "LEFT", "ON", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "count("),
    "rule": ("and", "or", "not", "optional", "order by", "having", "limit", "count(", "sum(", "simple", "trail", "acyclic"),
}
"""Words that may follow, by language."""


@dataclass(frozen=True)
class RelationColumns:
    """A relation as completion sees it."""

    columns: tuple[str, ...]
    """Those that an atom names by position."""
    properties: tuple[str, ...] = ()
    """Those of its rows."""


@dataclass(frozen=True)
class Known:
    """What can be completed."""

    commands: Mapping[str, str] = field(default_factory=dict)
    """The names of commands, and what the first word behind each is."""
    asking: Mapping[str, Syntax] = field(default_factory=dict)
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The names of settings, and the values of those that have few."""
    queries: Sequence[str] = ()
    relations: Mapping[str, RelationColumns] = field(default_factory=dict)
    vertex: Sequence[str] = ()
    """The properties of vertices."""


@dataclass(frozen=True)
class CompletedWord:
    """Something that the word before the cursor may become."""

    text: str
    typed: int
    """How many characters of it are there already."""
    about: str = ""


def candidates(before: str, after: str, known: Known) -> Iterator[CompletedWord]:
    """Give what the word before the cursor may become."""
    line = before.rpartition("\n")[2]
    found = command_of(line)
    if found is None:
        yield from _in_question(before, after, known)
        return
    name, rest = found
    if not rest and not line.endswith(" "):
        typed = line.strip()
        yield from _beginning(typed, (f"\\{command}" for command in known.commands), "command")
    elif name in known.commands:
        yield from _in_command(name, rest, after, known)


def _in_command(name: str, rest: str, after: str, known: Known) -> Iterator[CompletedWord]:
    """Give what may stand behind the name of a command."""
    words = rest.split()
    typed = "" if not rest or rest[-1].isspace() else words.pop()
    kind, syntax = known.commands[name], known.asking.get(name)
    if syntax is not None and typed.startswith("-"):
        yield from _beginning(typed, syntax.options, "option")
    elif (words and words[-1] in ("-o", "--output", "--seeds", "--html")) or (kind == "file" and not words):
        yield from _files(typed)
    elif kind == "relation":
        yield from _files(typed) if len(words) == 1 else ()
    elif kind == "command" and not words:
        yield from _beginning(typed.removeprefix("\\"), known.commands, "command")
    elif kind == "switch" and not words:
        yield from _beginning(typed, ("on", "off"), "")
    elif kind == "setting":
        of_one = known.settings.get(words[0].replace("-", "_"), ()) if len(words) == 1 else ()
        yield from _beginning(typed, of_one if words else known.settings, "" if words else "setting")
    elif syntax is not None and not (words and syntax.options.get(words[-1])):
        given = syntax.split(rest)
        if len(given.words) == syntax.words and rest[given.start :].endswith(typed):
            yield from _in_question(rest[given.start :], after, known)


def _in_question(before: str, after: str, known: Known) -> Iterator[CompletedWord]:
    """Give what may stand in a question."""
    if _is_quoted(before):
        return
    whole, near = before + after, before[-MAX_WORD_CHARACTERS:]
    if (dotted := _AFTER_DOT.search(near)) is not None:
        yield from _beginning(dotted[2], properties_of(dotted[1], whole, known), "property")
    elif (labelled := _AFTER_COLON.search(near)) is not None:
        yield from _beginning(labelled[1], known.relations, "relation")
    elif _FIRST_WORD.fullmatch(before):
        yield from _beginning(before.strip(), known.queries, "query")
        yield from _beginning(before.strip(), STARTS, "")
    elif (last := _LAST_NAME.search(near)) is not None:
        yield from _with_columns(last[0], known)
        yield from _beginning(last[0], _attributes(whole, last[0], known), "attribute")
        yield from _beginning(last[0], KEYWORDS[_language(whole)], "") if last[0] else ()


def properties_of(name: str, text: str, known: Known) -> list[str]:
    """Return the properties of what a text calls by a name; all that there are if it does not say what that is."""
    found: dict[str, None] = {}
    for relation, arguments in _ATOM.findall(text):
        of_rows = known.relations.get(relation)
        for place, argument in enumerate(arguments.split(",")):
            if argument.strip() == name and (of_rows is not None or relation == "vertex"):
                is_row = of_rows is not None and place >= len(of_rows.columns)
                found |= dict.fromkeys(of_rows.properties if of_rows is not None and is_row else known.vertex)
    quoted = re.escape(name)
    for types in re.findall(rf"\[\s*{quoted}\b\s*(?::\s*([\w|`]+))?", text):
        for relation in types.replace("`", "").split("|") if types else known.relations:
            found |= dict.fromkeys(known.relations[relation].properties if relation in known.relations else ())
    node = rf"\(\s*{quoted}\s*[:){{]"
    if re.search(rf"(?:^|[^\w\s])\s*{node}|\b(?:match|optional)\s*{node}", text, re.IGNORECASE):
        found |= dict.fromkeys(known.vertex)
    for table in re.findall(rf"(?:\b(?:from|join)\s|,)\s*(\w+)\s+(?:as\s+)?{quoted}\b", text, re.IGNORECASE):
        found |= dict.fromkeys(_columns_of(table, known))
    if not found and _language(text) == "sql":
        found |= dict.fromkeys(_columns_of(name, known))
    if not found:
        found = dict.fromkeys([*known.vertex, *(p for one in known.relations.values() for p in one.properties)])
    return list(found)


def _columns_of(table: str, known: Known) -> Sequence[str]:
    """Return the columns of a table of SQL."""
    if table in known.relations:
        return (*known.relations[table].columns, *known.relations[table].properties)
    return ("id", *known.vertex) if table == "vertex" else ()


def _with_columns(typed: str, known: Known) -> Iterator[CompletedWord]:
    for name, relation in known.relations.items():
        if name.startswith(typed):
            yield CompletedWord(name, len(typed), f"relation ({', '.join((*relation.columns, *relation.properties))})")


def _attributes(text: str, typed: str, known: Known) -> list[str]:
    """Return the names in a text that are neither relations nor keywords, but for the one that is being typed."""
    words = _NAME.findall(_IN_QUOTES.sub(" ", text))
    keywords = {word.casefold().split(" ")[0].rstrip("(") for words in (STARTS, *KEYWORDS.values()) for word in words}
    keywords |= {typed.casefold(), *map(str.casefold, known.relations)}
    return [word for word in dict.fromkeys(words) if word.casefold() not in keywords]


def _language(text: str) -> str:
    first = _NAME.search(text)
    word = "" if first is None else first[0].casefold()
    return "sql" if word == "select" else "cypher" if word in ("match", "optional", "with", "unwind") else "rule"


def _is_quoted(before: str) -> bool:
    """Tell whether the cursor is in a quotation."""
    rest = _IN_QUOTES.sub("", before)
    return "'" in rest or '"' in rest


def _beginning(typed: str, words: Iterable[str], about: str) -> Iterator[CompletedWord]:
    for word in words:
        if word.casefold().startswith(typed.casefold()):
            yield CompletedWord(word, len(typed), about)


def _files(typed: str) -> Iterator[CompletedWord]:
    """Give the files and folders whose names begin as typed; a folder ends with a slash."""
    plain = typed.strip("\"'").replace("\\", "")
    folder, _, start = plain.rpartition("/")
    shown = f"{folder}/" if "/" in plain else ""
    try:
        entries = sorted(Path(shown or ".").expanduser().iterdir())
    except (OSError, RuntimeError):
        return
    for entry in entries:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            name = re.sub(r"([\s\"'\\])", r"\\\1", shown + entry.name)
            yield CompletedWord(name + "/" * entry.is_dir(), len(typed))
