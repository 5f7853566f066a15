"""Every error that bigjoin raises on purpose: one tree, so that one `except BigjoinError` is enough.

BigjoinError
├── QueryError            the text of a query or filter: what, where (a caret), what to do
│   ├── UnknownQueryError a name that no named query has
│   └── DisconnectedError parts of a query that share no attribute
├── SourceError           edges that cannot be read: missing, empty, malformed, NULL ids
├── IndexFormatError      a directory that is no index, or one that is damaged or too new
├── GeneratorError        parameters that no graph can have
├── OutputError           a result that cannot be written
└── SessionError          Spark cannot start: Java is missing or too old, or the master does not answer
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class BigjoinError(Exception):
    """Base of all errors that tell a user what to do differently."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of query text, so that an error can point at it."""

    text: str
    start: int
    end: int

    def caret(self) -> str:
        """Return the line of text that holds the span, with carets under it."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        line = self.text[line_start : None if line_end < 0 else line_end].replace("\t", " ")
        width = max(1, min(self.end, line_start + len(line)) - self.start)
        return f"  {line}\n  {' ' * (self.start - line_start)}{'^' * width}"


class QueryError(BigjoinError):
    """A mistake in a query or filter; `span` says where, `hint` says what to do."""

    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.message, self.span, self.hint = message, span, hint
        parts = [message]
        if span is not None:
            parts.append(span.caret())
        if hint is not None:
            parts.append(f"hint: {hint}")
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


def reason(error: OSError) -> str:
    """Return what an error of the system says, and about which file; NumPy's own words for a full disk are not everybody's."""
    said = error.strerror or str(error)
    if re.search(r"\d+ requested and \d+ written|No space left|Errno 28", said):
        said = "No space left on device"
    return f"{said}: {error.filename}" if error.filename else said


def shown(text: str, most: int = 200) -> str:
    """Return a text as a message shows it: of a long one, the beginning."""
    return text if len(text) <= most else f"{text[:most]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?` for the known word nearest to `word`, if one is near."""
    near = get_close_matches(word.casefold(), list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None
