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
├── LostError             a process of Spark that ended in the middle of its work
└── StreamError           a watch that ended with one of these errors (in streaming/batches.py, as it is also one of Spark's)

Queries and paths may be of any length, so a message repeats only as much of them as helps to find the mistake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


MAX_LINE_LENGTH = 400
"""Characters in a line of a message."""

MAX_LINES = 16
"""Lines of a message."""

CARET_WIDTH = 120
"""Characters of a long query that are shown around the place that a caret points at."""


def shown(text: object, most: int = MAX_LINE_LENGTH) -> str:
    """Return a line of text, or only its beginning and its end if it is too long."""
    line = str(text)
    half = (most - len(" ... ")) // 2
    return line if len(line) <= most else f"{line[:half]} ... {line[-half:]}"


def bounded(message: object) -> str:
    """Return a message without the middle of long lines, and of many lines."""
    lines = str(message).split("\n")
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES // 2], "...", *lines[1 - MAX_LINES // 2 :]]
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
        first = max(0, min(at - CARET_WIDTH // 2, len(line) - CARET_WIDTH)) if len(line) > CARET_WIDTH else 0
        before, after = "... " * (first > 0), " ..." * (len(line) > first + CARET_WIDTH)
        near = line[first : first + CARET_WIDTH]
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
    """A process of Spark that ended in the middle of its work."""


def reason(error: OSError) -> str:
    """Return what went wrong, and with which file; NumPy reports a full disk in words of its own."""
    words = error.strerror or str(error)
    if re.search(r"\d+ requested and \d+ written|No space left|Errno 28", words):
        words = "No space left on device"
    return f"{words}: {error.filename}" if error.filename else words


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?` for the known word nearest to `word`, if one is near."""
    near = get_close_matches(word.casefold(), list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None
