"""Every error that bigjoin raises on purpose: one tree, so that one `except BigjoinError` is enough.

BigjoinError
├── QueryError            the text of a query or filter: what, where (a caret), what to do
│   ├── UnknownQueryError a name that no named query has
│   └── DisconnectedError parts of a query that share no attribute
├── SourceError           edges that cannot be read: missing, empty, malformed, NULL ids
├── IndexFormatError      a directory that is no index, or one that is damaged or too new
├── GeneratorError        parameters that no graph can have
├── OutputError           a result that cannot be written
├── SessionError          Spark cannot start: Java is missing or too old, or the master does not answer
└── LostError             a process of Spark's that ended in the middle of its work

A message repeats of its input what helps to find the mistake, and no more: a query or a path may be as long as it likes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


LONGEST = 400
"""Characters of a message's line at most."""

LINES = 16
"""Lines of a message at most."""

WIDTH = 120
"""Characters of a query around the place that a caret points at."""


def shown(text: object, most: int = LONGEST) -> str:
    """Return a text on one line, or its two ends if it is too long."""
    said = str(text)
    half = (most - len(" ... ")) // 2
    return said if len(said) <= most else f"{said[:half]} ... {said[-half:]}"


def bounded(message: object) -> str:
    """Return a message with lines that are not too long, and not too many of them: its beginning and its end."""
    lines = str(message).split("\n")
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "...", *lines[1 - LINES // 2 :]]
    return "\n".join(map(shown, lines))


class BigjoinError(Exception):
    """Base of all errors that tell a user what to do differently."""

    def __init__(self, message: object = "") -> None:
        super().__init__(bounded(message))


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of query text, so that an error can point at it."""

    text: str
    start: int
    end: int

    def caret(self) -> str:
        """Return the line of text that holds the span, or what is near it in a long one, with carets under it."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        line = self.text[line_start : None if line_end < 0 else line_end].replace("\t", " ")
        at = self.start - line_start
        first = max(0, min(at - WIDTH // 2, len(line) - WIDTH)) if len(line) > WIDTH else 0
        before, after = "... " * (first > 0), " ..." * (len(line) > first + WIDTH)
        near = line[first : first + WIDTH]
        width = max(1, min(self.end - line_start, first + len(near)) - at)
        return f"  {before}{near}{after}\n  {' ' * (len(before) + at - first)}{'^' * width}"


class QueryError(BigjoinError):
    """A mistake in a query or filter; `span` says where, `hint` says what to do."""

    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.message, self.span, self.hint = bounded(message), span, hint
        parts = [self.message]
        if span is not None:
            parts.append(span.caret())
        if hint is not None:
            parts.append(bounded(f"hint: {hint}"))
        super().__init__("\n".join(parts))


class UnknownQueryError(QueryError):
    """A name that no named query has."""


class DisconnectedError(QueryError):
    """A query whose parts share no attribute: its answer is a cross product."""


class SourceError(BigjoinError):
    """Edges that cannot be read."""


class IndexFormatError(BigjoinError):
    """A directory that is not an index, or not one that this version can trust."""


class GeneratorError(BigjoinError):
    """Parameters from which no graph can be generated."""


class OutputError(BigjoinError):
    """A result that cannot be written where it was asked for."""


class SessionError(BigjoinError):
    """Spark cannot start: Java is missing or too old, or the master does not answer."""


class LostError(BigjoinError):
    """A process of Spark's that ended in the middle of its work."""


def reason(error: OSError) -> str:
    """Return what an error of the system says, and about which file; NumPy's own words for a full disk are not everybody's."""
    said = error.strerror or str(error)
    if re.search(r"\d+ requested and \d+ written|No space left|Errno 28", said):
        said = "No space left on device"
    return f"{said}: {error.filename}" if error.filename else said


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?` for the known word nearest to `word`, if one is near."""
    near = get_close_matches(word.casefold(), list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None
