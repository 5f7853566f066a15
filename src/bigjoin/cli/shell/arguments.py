r"""What stands on the line of a command: its name, options, words, and the question that may follow. Pure functions of text.

\find --limit 5 q(a, b) := edge(a, b)       options, and a question, which is taken as it is
\output pairs.csv q(a, b) := edge(a, b)     a word before the question
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import click

_COMMAND = re.compile(r"\s*\\(\?|[\w-]*\+*)")
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"[^"]*"|'[^']*')+""")
_QUOTED = re.compile(r""""([^"]*)"|'([^']*)'|\\(.)""")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_NAME = re.compile(r"[\w-]+")
_EQUALS = re.compile(r"\s*=(?!=)")


@dataclass(frozen=True)
class Arguments:
    """The parts of what follows a command's name."""

    options: list[str]
    """Options, and the values of those that take one, without quotes."""
    words: list[str]
    question: str
    start: int
    """Where the question begins."""
    without_value: str | None = None
    """The last option, if its value is missing."""


@dataclass(frozen=True)
class Syntax:
    """How what follows a command's name is taken apart."""

    options: Mapping[str, bool] = field(default_factory=dict)
    """The options, and whether each takes a value."""
    words: int = 0
    """How many words come before the question."""
    equals: bool = False
    """Whether a `=` may stand before the question."""

    def split(self, text: str) -> Arguments:
        """Return the parts of a text; an option that does not exist is left for whoever knows what to say about it."""
        options: list[str] = []
        words: list[str] = []
        at, wants_value = _after_space(text, 0), False
        while (found := _WORD.match(text, at)) is not None:
            option = _OPTION.match(found[0])
            if wants_value:
                wants_value = False
                options.append(unquoted(found[0]))
            elif option is not None:
                options.append(unquoted(found[0]))
                wants_value = option[0] == found[0] and self.options.get(option[0], False)
            elif len(words) < self.words:
                name = _NAME.match(text, at) if self.equals else None
                found = name or found  # a `=` ends it
                words.append(unquoted(found[0]))
            else:
                break
            at = _after_space(text, found.end())
        equals = _EQUALS.match(text, at) if self.equals else None
        at = at if equals is None else _after_space(text, equals.end())
        return Arguments(options, words, text[at:].strip(), at, options[-1] if wants_value else None)


def command_of(text: str) -> tuple[str, str] | None:
    """Return the name of a command and what follows it; None if a text is no command."""
    found = _COMMAND.match(text)
    return None if found is None else (found[1].casefold(), text[found.end() :])


def words_of(text: str) -> list[str]:
    """Return the words of a text; quotes hold together what has spaces in it."""
    try:
        return shlex.split(text)
    except ValueError:
        raise click.UsageError("a quotation is not closed") from None


def unquoted(word: str) -> str:
    """Return a word without its quotes, and without what protects a space."""
    return _QUOTED.sub(lambda found: next(part for part in found.groups() if part is not None), word)


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
