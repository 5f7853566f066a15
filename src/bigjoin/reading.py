"""How a user says that a source is to be read: which columns hold the ids, and what the lines of a text file are."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from bigjoin.errors import SourceError, did_you_mean

TAB_NAMES = ("\\t", "tab")
"""How a tab may be written on a command line."""
COMMON_ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "shift_jis", "gb18030", "big5")


@dataclass(frozen=True)
class ReadingOptions:
    """What is said about a source; what is None is judged by its content. Columns of ids are names, or positions from 1."""

    src: str | int | None = None
    dst: str | int | None = None
    id: str | int | None = None
    columns: Sequence[str] | None = None
    """Names for the columns of a file without a header, in order; or which columns of other sources are read."""
    header: bool | None = None
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        for end in ("src", "dst", "id"):
            given = getattr(self, end)
            if given is not None and (isinstance(given, bool) or not isinstance(given, (str, int))):
                raise SourceError(f"{end} is {given!r}; give the name of a column, or its position, counted from 1")
        if self.columns is not None:
            if isinstance(self.columns, str) or not all(isinstance(name, str) for name in self.columns):
                raise SourceError(f"columns is {self.columns!r}; give a list of names")
            object.__setattr__(self, "columns", tuple(self.columns))
        if self.header not in (None, True, False):
            raise SourceError(f"header is {self.header!r}; give True if the first line is one, False if it is not")
        self._check_delimiter()
        if self.encoding is not None:
            try:
                codecs.lookup(str(self.encoding))
                "".encode(self.encoding)
            except (LookupError, TypeError, ValueError):
                hint = did_you_mean(str(self.encoding), COMMON_ENCODINGS) or f"known are {', '.join(COMMON_ENCODINGS)}, ..."
                raise SourceError(f"there is no encoding {self.encoding!r}; {hint}") from None

    def _check_delimiter(self) -> None:
        if self.delimiter in TAB_NAMES:
            object.__setattr__(self, "delimiter", "\t")
        given = self.delimiter
        if given is None or (isinstance(given, str) and len(given) == 1 and given.isascii() and given not in '"\r\n\0'):
            return
        raise SourceError(f"the delimiter is {given!r}: it is one character, such as ';', '|', ',' or '\\t'")

    @property
    def is_positional(self) -> bool:
        """Whether a column of ids is given by its position."""
        return any(isinstance(given, int) or (given or "").isdigit() for given in (self.src, self.dst, self.id))

    @property
    def said_of_text(self) -> list[str]:
        """The options that are about lines of text."""
        return [name for name in ("header", "delimiter", "encoding") if getattr(self, name) is not None]

    def check_is_text(self, source: str, *, but: str | None = None) -> None:
        """Refuse options about lines of text for a source that has none, `but` one."""
        for name in self.said_of_text:
            if name != but:
                raise SourceError(f"{source} is no text, and --{name} ({name}=) is about lines of text: leave it out")


JUDGED = ReadingOptions()
"""Everything is judged by the content."""
