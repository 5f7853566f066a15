"""All errors that bigjoin raises on purpose. They form one tree, so one `except BigjoinError` catches them all.

BigjoinError
├── QueryError             a mistake in a query or filter: what, where (a caret), what to do
│   ├── UnknownQueryError  a name that is not the name of a query
│   └── DisconnectedError  a query whose parts share no attribute
├── SourceError            a source that cannot be read: missing, empty, malformed, NULL ids
├── IndexFormatError       a directory that is not an index, or is damaged, locked, or of a newer format
├── GeneratorError         parameters from which no graph can be generated
├── OutputError            a result or an index that cannot be written
├── RowLimitError          a result with more rows than max_rows allows
├── OptionError            a keyword that a function does not have (a TypeError, too)
├── SessionError           Spark cannot start: Java is missing or too old, or the master does not answer
├── NeedsSparkError        a question that only Spark can answer, and the strategy is local
├── LostError              a process of Spark ended in the middle of its work
├── QueryTimeoutError      a query took longer than its timeout
├── QueryMemoryError       a query took, or would take, more memory than it may
├── QueryCancelledError    a query was cancelled while it ran
└── StreamError            a watch ended with one of these errors (defined in streaming/batches.py, because it is Spark's too)

There are also two warnings. `ReadingWarning`: bigjoin had to guess which columns or which header a source has. `RowsWarning`: a
result is about to have very many rows.

`WrongFieldError` (index/typed_json.py) is internal: readers of an index turn it into an IndexFormatError that names the index.

Queries and paths may be of any length, so a message repeats only as much of them as helps to find the mistake.
"""

from __future__ import annotations

import re
import sys
import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


MAX_LINE_LENGTH = 400
"""Characters of a line of a message."""

MAX_LINES = 16
"""Lines of a message."""

CARET_WIDTH = 120
"""Characters of a long query that are shown around a caret."""


def shown(text: object, most: int = MAX_LINE_LENGTH) -> str:
    """Return a line of text, without its middle if it is too long."""
    line = str(text)
    half = (most - len(" ... ")) // 2
    return line if len(line) <= most else f"{line[:half]} ... {line[-half:]}"


def bounded(message: object) -> str:
    """Return a message, without the middle of lines that are too long, and without middle lines if there are too many."""
    lines = str(message).split("\n")
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES // 2], "...", *lines[1 - MAX_LINES // 2 :]]
    return "\n".join(map(shown, lines))


class BigjoinError(Exception):
    """The base class of all errors that bigjoin raises on purpose. The message says what is wrong and what you can do."""

    def __init__(self, message: object = "") -> None:
        super().__init__(bounded(message))


@dataclass(frozen=True, slots=True)
class Span:
    """A range of query text that an error can point at."""

    text: str
    start: int
    end: int

    def caret(self) -> str:
        """Return the line of text that holds the span, or the part around it if the line is long, with carets under it."""
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
    """There is a mistake in a query or a filter. `span` says where it is, and `hint` says what to do."""

    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.message, self.span, self.hint = bounded(message), span, hint
        parts = [self.message]
        if span is not None:
            parts.append(span.caret())
        if hint is not None:
            parts.append(bounded(f"hint: {hint}"))
        super().__init__("\n".join(parts))


class UnknownQueryError(QueryError):
    """There is no query of this name."""


class DisconnectedError(QueryError):
    """The parts of a query share no attribute, so its answer would be a cross product."""


class SourceError(BigjoinError):
    """A source of edges, vertices or rows cannot be read."""


class IndexFormatError(BigjoinError):
    """A directory is not an index, or the index in it is damaged, locked, or of a newer format."""


class GeneratorError(BigjoinError):
    """No graph can be generated from these parameters."""


class OutputError(BigjoinError):
    """A result or an index cannot be written to its target."""


class RowLimitError(BigjoinError):
    """A result has more rows than `max_rows` allows."""


class OptionError(BigjoinError, TypeError):
    """A function has no such keyword. This is a `TypeError`, too."""


class SessionError(BigjoinError):
    """Spark cannot start: Java is missing or too old, or the master does not answer."""


class NeedsSparkError(BigjoinError):
    """Only Spark can answer the question, but the strategy is `"local"`."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is Spark's work: leave out the strategy local, or use another")


class LostError(BigjoinError):
    """A process of Spark ended in the middle of its work."""


class QueryTimeoutError(BigjoinError):
    """A query took longer than its timeout, and was stopped."""


class QueryMemoryError(BigjoinError):
    """A query took more memory than it may and was stopped, or would have taken more and was refused."""


class QueryCancelledError(BigjoinError):
    """A query was cancelled from another thread, and stopped."""


class ReadingWarning(UserWarning):
    """A source was read by guessing: its columns by their position, or whether its first line is a header."""


class RowsWarning(UserWarning):
    """A result is about to have very many rows."""


def warn_of_reading(message: str) -> None:
    """Warn how a source was read, at the line of the program that asked for it."""
    warn_caller(message, ReadingWarning)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the program that called bigjoin."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("bigjoin", "contextlib"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def reason(error: OSError) -> str:
    """Return what went wrong and with which file; a full disk is named as such, which NumPy does not do."""
    words = error.strerror or str(error)
    if re.search(r"\d+ requested and \d+ written|No space left|Errno 28", words):
        words = "No space left on device"
    return f"{words}: {error.filename}" if error.filename else words


def first_line(error: Exception) -> str:
    """Return the first line of an error of another library, or its kind if it has none."""
    return shown((str(error).strip().splitlines() or [type(error).__name__])[0])


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?` with the known word that is most similar to `word`, if there is a similar one."""
    by_case = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), list(by_case), n=1, cutoff=0.6)
    return f"did you mean {by_case[near[0]]!r}?" if near else None
