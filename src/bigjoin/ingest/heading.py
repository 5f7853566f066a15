"""The heading of a text, judged by its first lines: what separates fields, whether there are titles, and how many fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bigjoin.errors import SourceError, shown
from bigjoin.ingest.fields import BLANKS, split_line
from bigjoin.ingest.table import EDGES, Kind
from bigjoin.paths import format_suffix
from bigjoin.reading import JUDGED, ReadingOptions

OTHER_SEPARATORS = (";", "|")
"""What may separate the fields of a text if the user says so; a first line with one of them is not read otherwise."""
LINES_COMPARED = 64
"""Lines at the beginning of a text that suggest which of its columns hold the ids."""

IS_VALUE = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|\d{4}-\d\d-\d\d([T ].*)?|(?i:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
"""A number, a date or a UUID: no column is called that."""
_INDENT = re.compile(rb"^([ \t\v\f]|\xef\xbb\xbf)+")


@dataclass(frozen=True)
class Heading:
    """The format of a text, by its first lines: what separates fields, whether there is a header, and how many fields."""

    separator: str | None
    first: list[str]
    titled: bool
    width: int
    judged: str | None = None
    """The first line, if it might be a header and might not, and only its looks decided."""

    @classmethod
    def of(cls, lines: Sequence[bytes], source: str, kind: Kind, said: ReadingOptions = JUDGED) -> Heading:
        """Judge by the first two lines that are neither empty nor comments, unless the user has said what they are."""
        if not lines:
            raise SourceError(f"{source} has no {kind.noun}: it is empty, or holds only comments")
        separator = _separator(lines, source, kind, said)
        first, *below = (split_line(line, separator) for line in lines[:2])
        text = trimmed(lines[0]).decode(errors="replace")
        width = max(len(first), len(kind.ends))  # a line that is too short is counted, and shown
        titled, judged = _is_header(source, kind, first, below, said)
        return cls(separator, first, titled, width, text if judged else None)

    @property
    def names(self) -> list[str]:
        """The names of the columns: their titles, or c1, c2, ..."""
        return _names(self.first if self.titled else [], len(self.first) if self.titled else self.width)


def _separator(lines: Sequence[bytes], source: str, kind: Kind, said: ReadingOptions) -> str | None:
    """Return what separates fields; None for any sequence of blanks and commas."""
    line, suffix = trimmed(lines[0]), format_suffix(source)
    if (asked := said.delimiter) is not None:
        if asked.encode() not in line and (kind is EDGES or any(other in line for other in b",;|\t")):
            raise SourceError(
                f"{source} has no {asked!r} in its first line, {shown(line.decode(errors='replace'), 80)!r}: "
                f"give the delimiter that it has{_likely(lines)}"
            )
        return asked
    separator = {".csv": ",", ".tsv": "\t"}.get(suffix)
    if kind is EDGES and separator is not None and separator.encode() not in line:
        separator = "\t" if b"\t" in line else None
    first = split_line(lines[0], separator)
    for other in OTHER_SEPARATORS:
        if all(other.encode() in trimmed(one) for one in lines[:2]):
            divided = split_line(lines[0], other)
            is_table = separator is not None or suffix in (".csv", ".tsv")
            hidden = any(other in field for field in first[: len(kind.ends)]) and len(divided) > len(first)
            if (is_table and hidden) or len(first) < min(len(kind.ends), len(divided)):
                own = "" if separator is None else f", or, if it is not, --delimiter {_spelled(separator)}"
                raise SourceError(
                    f"{source} seems to be separated by {other!r}, not by {_said(separator)}: "
                    f"say --delimiter {_spelled(other)}{own}"
                )
    return separator


def _said(separator: str | None) -> str:
    return {None: "blanks or commas", ",": "commas", "\t": "tabs"}[separator]


def _spelled(separator: str) -> str:
    """Return a separator as a command line takes it, and as Python does."""
    return f"{separator!r} (delimiter={separator!r})"


def _likely(lines: Sequence[bytes]) -> str:
    """Return a suggestion of the delimiter that the first lines have, if one is in all of them."""
    for other in (",", "\t", *OTHER_SEPARATORS):
        if all(other.encode() in trimmed(line) for line in lines[:2]):
            return f", such as --delimiter {_spelled(other)}"
    return ""


def _is_header(source: str, kind: Kind, first: list[str], below: list[list[str]], said: ReadingOptions) -> tuple[bool, bool]:
    """Tell whether the first line is the header, and whether only its looks tell."""
    if said.header is not None:
        return said.header, False
    asked = [*(said.columns or ()), said.src, said.dst] if kind is EDGES else [said.id]
    names = [name for name in asked if isinstance(name, str) and not name.isdigit()]
    if kind.named(first) is not None or (names and set(names) <= set(first)):
        return True, False
    if any(IS_VALUE.fullmatch(field) for field in first) or not all(first[: len(kind.ends)]):
        return False, False
    return format_suffix(source) in (".csv", ".tsv") or are_titles(kind, first, below), True


def are_titles(kind: Kind, first: list[str], below: list[list[str]]) -> bool:
    """Tell titles from a row: for edges two words above two integers, for vertices words above a line with an integer."""
    words = first[: len(kind.ends)] if kind is EDGES else first
    if not below or not all(re.fullmatch(r"[^\W\d][\w .-]*", word) for word in words):
        return False
    integers = [re.fullmatch(r"[+-]?\d+", text) is not None for text in below[0]]
    return all(integers[:2]) if kind is EDGES else any(integers)


def is_significant(line: bytes) -> bool:
    """Tell whether a line is neither empty nor a comment."""
    return bool(trimmed(line)) and not trimmed(line).startswith((b"#", b"%"))


def trimmed(line: bytes) -> bytes:
    """Return a line without blanks around it, and without a byte order mark."""
    return _INDENT.sub(b"", line).rstrip(BLANKS)


def _names(titles: list[str], width: int) -> list[str]:
    """Return a name for each column: its title, or, if it has none or shares it with another, its place."""
    names: list[str] = []
    for i in range(width):
        title = titles[i] if i < len(titles) else ""
        name = title if title and title not in names else f"c{i + 1}"
        while name in names:
            name += "_"
        names.append(name)
    return names
