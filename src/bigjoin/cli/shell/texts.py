r"""Where a text ends that is typed, pasted or read from a script. Pure functions of lines: no terminal is needed.

- A line that begins with a backslash is a command, and ends with the line. If it asks something, it goes on while the question
  plainly does: a bracket or a quotation is open, or the line ends with a comma, an operator, `and`, ...
- SQL and Cypher end with a `;` at the end of a line.
- A rule, a motif or a name ends with the line that completes it: brackets are closed, a rule has its `:=`, and the line does
  not end with what has to go on (a comma, an operator, `and`, the `;` between two terms of a motif).
- A line that ends with a backslash goes on in the next, in any case.
- An empty line ends whatever was begun.
- What is pasted into a terminal is one text, so empty lines and ends of lines do not cut it, unless there is a command in it,
  or it holds several statements that end with `;`, or several rules or names.

Lines that hold nothing but a comment (`#`, `--`, `//`) are skipped before a text begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bigjoin.cli.shell.arguments import Syntax, command_of
from bigjoin.errors import QueryError
from bigjoin.languages import recognized

STATEMENTS = frozenset({"sql", "cypher"})
"""The languages whose texts end with a `;`."""

_FIRST_WORDS = frozenset({"select", "with", "match", "optional", "unwind", "return", "call"})
"""First words of statements, which alone on their line would be names."""

_RECOGNIZED_CHARACTERS = 2048
"""How much of a text may tell its language."""

_COMMENT = re.compile(r"\s*(#|--|//)")
_GOING_ON = re.compile(r"(?<=\S)\s*\\\s*$")
_NAME = re.compile(r"[\w-]+")
_NEW_RULE = re.compile(r"\s*[^\W\d]\w*\s*\(.*\)\s*(:=|:-|<-)")
_HEAD = re.compile(r"\s*[^\W\d]\w*\s*\(")
_BEFORE_WORDS = re.compile(r"(?:\s|\(|(?:--|//)[^\n]*\n|/\*.*?\*/)*", re.DOTALL)

_DEFINES = (":=", ":-", "<-")
_GOES_ON = frozenset(
    (
        *(*_DEFINES, ",", "->", "-", "<", ">", "=", "!", "+", "*", "/", "%", "|", "&", ":"),
        *("and", "or", "not", "in", "is", "like", "ilike", "rlike", "between", "by", "as", "having", "order", "where", "limit"),
        *("case", "when", "then", "else", "optional", "on", "join", "from", "select", "match", "with", "return"),
    )
)
"""Last tokens of a line that cannot be the last of a text."""

_REST = {quote: re.compile(rf"(?:\\.|[^{quote}\\])*{quote}", re.DOTALL) for quote in "\"'"}
_REST |= {"`": re.compile(r"[^`]*`"), "/*": re.compile(r".*?\*/", re.DOTALL)}
"""What ends something that is open, with everything before it."""


def _tokens(comment: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<comment>{comment})|(?P<opens>[\"'`]|/\*)|(?P<token>:=|:-|<-|->|\w+|\S)|\s+")


_TOKENS = {"sql": _tokens(r"--[^\n]*"), "cypher": _tokens(r"//[^\n]*")}
_OTHER_TOKENS = _tokens(r"\#[^\n]*")


@dataclass(frozen=True)
class Entry:
    """A command or a question, and the number of the line that it begins in."""

    text: str
    line: int


@dataclass
class _Reading:
    """What the lines of one text have told so far."""

    language: str
    on_one_line: bool = False
    """Whether a statement needs no `;`, as in a command."""
    before: str = ""
    """What comes before the question: a command and its options."""
    parts: list[str] = field(default_factory=list)
    """The lines, without comments that the language itself does not know."""
    depth: int = 0
    """Brackets that are open."""
    closed: int = 0
    """How often the last of them was closed."""
    opened: str = ""
    """The quotation or comment that is open."""
    last: str = ""
    """The last token."""
    defines: bool = False
    """Whether a rule's head has been followed by what defines it."""
    _semicolon: tuple[int, int] | None = None
    """If the last token is a `;`: its line, and how much comes before it there."""

    def add(self, line: str) -> None:
        """Read one more line."""
        line, at, kept = f"{line}\n", 0, ""
        tokens = _TOKENS.get(self.language, _OTHER_TOKENS)
        while at < len(line):
            if self.opened:
                found = _REST[self.opened].match(line, at)
                self.opened = self.opened if found is None else ""
                end = len(line) if found is None else found.end()
                kept, at = kept + line[at:end], end
                continue
            found = tokens.match(line, at)
            assert found is not None
            at = found.end()
            if found["comment"] and self.language not in STATEMENTS:
                kept += " " * len(found[0])
                continue
            if found["opens"]:
                self.opened, self.last, self._semicolon = found[0], found[0], None
            elif found["token"]:
                self._take(found[0])
                self._semicolon = (len(self.parts), len(kept)) if found[0] == ";" else None
            kept += found[0]
        self.parts.append(kept)

    def _take(self, token: str) -> None:
        if token in "([{":
            self.depth += 1
        elif token in ")]}":
            self.depth = max(0, self.depth - 1)
            self.closed += self.depth == 0
        self.defines = self.defines or token in _DEFINES
        self.last = token.casefold()

    @property
    def waits_for_semicolon(self) -> bool:
        """Whether only a `;` ends the text, besides an empty line."""
        return self.language in STATEMENTS and not self.on_one_line

    @property
    def is_complete(self) -> bool:
        """Whether the text may end with its last line."""
        if self.last == ";" and not self.opened and self.language != "motif":
            return True
        return not self.waits_for_semicolon and self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether nothing that was begun is left open."""
        if self.opened or self.depth or (self.last == ";" and self.language == "motif"):
            return False
        if self.last in _GOES_ON and not (self.last == "*" and self.language in STATEMENTS):
            return False
        is_head = self.language == "rule" and not self.defines and self.closed == 1 and self.last == ")"
        return not (is_head and _HEAD.match("".join(self.parts)))

    @property
    def text(self) -> str:
        """The text, without a `;` that ends it."""
        parts = self.parts
        if self._semicolon is not None:
            line, width = self._semicolon
            parts = [*parts[:line], parts[line][:width].rstrip("; ")]
        return (self.before + "".join(parts)).strip()


class Lines:
    """Takes lines, and gives the texts that they end."""

    def __init__(self, asking: Mapping[str, Syntax] = MappingProxyType({}), *, pasted: bool = False) -> None:
        self.asking, self.pasted = asking, pasted
        self._number = 0
        self._begun = 0
        self._lines: list[str] = []
        self._characters = 0
        self._goes_on = False
        """Whether the last line ended with a backslash."""
        self._reading: _Reading | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing waits for more lines."""
        return self._reading is None or (self._reading.is_complete and not self._goes_on)

    def add(self, line: str) -> Iterator[Entry]:
        """Take one more line, and give the texts that end before it or with it."""
        self._number += 1
        self._goes_on = _GOING_ON.search(line) is not None
        line = _GOING_ON.sub("", line)
        if not line.strip():
            if self._reading is not None and self._is_inside_paste(self._reading):
                self._take(line)
            else:
                yield from self.end()
            return
        if self._reading is None and _COMMENT.match(line):
            return
        if self._reading is not None and self.pasted and self._reading.is_closed and _NEW_RULE.match(line):
            yield from self.end()
        if self._ends_with(self._take(line)):
            yield from self.end()

    def end(self) -> Iterator[Entry]:
        """Give what was begun, as no line follows."""
        if self._reading is not None:
            text, begun = self._reading.text, self._begun
            self._lines, self._characters, self._reading = [], 0, None
            if text:
                yield Entry(text, begun)

    def _is_inside_paste(self, reading: _Reading) -> bool:
        """Tell whether an empty line is a part of what was pasted."""
        return self.pasted and (reading.waits_for_semicolon or not reading.is_closed)

    def _ends_with(self, reading: _Reading) -> bool:
        """Tell whether the line that was just read is the last of its text."""
        if not reading.is_complete or self._goes_on:
            return False
        return not self.pasted or reading.waits_for_semicolon or (reading.language == "name" and len(self._lines) == 1)

    def _take(self, line: str) -> _Reading:
        self._lines.append(line)
        self._characters += len(line) + 1
        if self._reading is None:
            self._begun = self._number
        if self._reading is None or self._characters <= _RECOGNIZED_CHARACTERS:
            self._reading = self._read_again()  # the language shows as the text grows
        else:
            self._reading.add(line)
        return self._reading

    def _read_again(self) -> _Reading:
        whole, start = "\n".join(self._lines), 0
        if (command := command_of(whole)) is not None:
            name, rest = command
            if name.removesuffix("+") not in self.asking:
                return _Reading("command", before=whole)
            start = len(whole) - len(rest) + self.asking[name.removesuffix("+")].split(rest).start
        reading = _Reading(language_of(whole[start:]), on_one_line=command is not None, before=whole[:start])
        for line in whole[start:].split("\n"):
            reading.add(line)
        return reading


def language_of(text: str) -> str:
    """Return the language of a text that may still go on."""
    start = text[:_RECOGNIZED_CHARACTERS].strip()
    if _NAME.fullmatch(start):
        return "cypher" if start.casefold() in _FIRST_WORDS else "name"
    try:
        found = recognized(start)
    except QueryError:  # a language that is not read
        return "rule"
    if found in STATEMENTS:
        before = _BEFORE_WORDS.match(start)
        first = re.match(r"\w*", start[0 if before is None else before.end() :])
        if first is None or first[0].casefold() not in _FIRST_WORDS:
            return "rule"  # it is refused, and need not wait for more
    return found


def entries(text: str, asking: Mapping[str, Syntax] = MappingProxyType({}), *, pasted: bool = False) -> list[Entry]:
    """Return the commands and questions in a text; those of a pasted one, unless it holds commands."""
    lines = text.split("\n")
    reading = Lines(asking, pasted=pasted and not any(map(command_of, lines)))
    return [*(entry for line in lines for entry in reading.add(line)), *reading.end()]


def is_complete(text: str, asking: Mapping[str, Syntax] = MappingProxyType({})) -> bool:
    """Tell whether a text that is being typed ends here, so that Enter hands it over instead of beginning another line."""
    lines = text.split("\n")
    reading = Lines(asking, pasted=not any(map(command_of, lines)))
    for line in lines:
        list(reading.add(line))
    return not lines[-1].strip() or reading.is_complete
