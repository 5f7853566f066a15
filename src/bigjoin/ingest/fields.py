"""The fields that the kernel has found in some lines of text, as columns of the types that they allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.ingest.table import BATCH_ROWS
from bigjoin.kernels.text import BLANK, BREAK, EMPTY, INTEGER, MISSING, NEWLINE, QUOTED, copy_fields, find_fields

BLANKS = b" \t\v\f"
MAX_LINE_BYTES = 2**20
"""What has longer lines is not text."""

TYPES = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
"""What a column may be: the first of these that all its fields allow, or text. A set of them is an integer, a bit for each."""
ANY_TYPE = (2 << len(TYPES)) - 1
"""What empty fields allow: all types, and one more bit that says that no field had text."""

_SPELLINGS = {
    pa.float64(): r"^-?((0|[1-9]\d{0,14})(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$|^(nan|NaN|-?inf)$",
    pa.bool_(): r"^(?i:true|false)$",
}
"""Doubles have no leading zeros and at most 15 digits, so that neither a code like 007.0 nor a long number loses digits."""
_EXACT_IN_DOUBLES = 10**15
"""Smaller integers are exact as doubles."""
_FIRST_LOOK = 64
"""Fields that are tried before the others: they rule out most types."""


@dataclass(frozen=True)
class Fields:
    """The fields of some lines, by column: their bounds in the text, their kinds, and the values of integers."""

    text: bytes
    starts: NDArray[np.int32]
    stops: NDArray[np.int32]
    integers: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    wide: int
    """The first line with more fields than it may have, or NONE."""
    unclosed: int
    """The first line with quotes that open and do not close, or NONE."""

    def __len__(self) -> int:
        return len(self.kinds[0])

    def column(self, i: int, kind: pa.DataType) -> pa.Array:
        """Return a column as a type that all its fields allow; empty fields are NULL."""
        if kind != pa.int64():
            return self.strings(i).cast(kind)
        if self.kinds[i].max() > INTEGER:
            raise pa.ArrowInvalid("not all are integers")
        return pa.array(self.integers[i].copy(), mask=self.kinds[i] <= EMPTY if self.kinds[i].min() <= EMPTY else None)

    def strings(self, i: int) -> pa.Array:
        """Return a column as text."""
        starts, stops = self.starts[i], self.stops[i]
        offsets = np.empty(len(self) + 1, np.int32)
        copy = np.empty(int((stops - starts).sum(dtype=np.int64)), np.uint8)
        copy_fields(_bytes(self.text), starts, stops, self.kinds[i], offsets, copy)
        valid = np.packbits(self.kinds[i] > EMPTY, bitorder="little")
        return pa.Array.from_buffers(pa.string(), len(self), [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(copy)])

    def begin(self, row: int) -> int:
        """Return where a line begins in the text."""
        at = int(self.starts[0, row])
        return max(self.text.rfind(b"\n", 0, at), self.text.rfind(b"\r", 0, at)) + 1

    def line(self, row: int) -> str:
        """Return a line as it stands in the text."""
        begin = self.begin(row)
        return self.text[begin : begin + MAX_LINE_BYTES].splitlines()[0].strip(BLANKS).decode(errors="replace")


def find(text: bytes, separator: str | None, places: Sequence[int], width: int = 0, rows: int = 0) -> Iterator[Fields]:
    """Yield the fields at some places of every line, in batches whose arrays are reused: copy what is to be kept.

    A line has up to `width` fields, or any number if `width` is 0.
    """
    classes, limit = _classes(separator)
    slots = np.full(max(places) + 1, -1, np.int64)
    slots[list(places)] = np.arange(len(places))
    shape = (len(places), rows or BATCH_ROWS)
    starts, stops = np.empty(shape, np.int32), np.empty(shape, np.int32)
    integers, kinds = np.empty(shape, np.int64), np.empty(shape, np.uint8)
    at = 0
    while at < len(text):
        count, at, *faults = find_fields(_bytes(text), at, classes, limit, slots, width, starts, stops, integers, kinds)
        if count:
            yield Fields(text, starts[:, :count], stops[:, :count], integers[:, :count], kinds[:, :count], *faults)


def split_line(line: bytes, separator: str | None) -> list[str]:
    """Return the fields of one line."""
    (fields,) = find(line, separator, range(len(line)), rows=1)
    width = int(np.count_nonzero(fields.kinds[:, 0] != MISSING))
    texts = [line[a:b].decode(errors="replace") for a, b in zip(fields.starts[:width, 0], fields.stops[:width, 0], strict=True)]
    return [text.replace('""', '"') if kind == QUOTED else text for text, kind in zip(texts, fields.kinds[:, 0], strict=False)]


def possible_types(fields: Fields, i: int, *, is_key: bool) -> int:
    """Return the set of types that these fields of a column allow. Keys are integers or text."""
    kinds, integers = fields.kinds[i], fields.integers[i]
    if kinds.max() <= EMPTY:
        return ANY_TYPE
    if kinds.max() == INTEGER:
        exact = not is_key and int(integers.min()) > -_EXACT_IN_DOUBLES and int(integers.max()) < _EXACT_IN_DOUBLES
        return 0b11 if exact else 0b1
    if is_key:
        return 0
    strings = fields.strings(i)
    allowed = (kind for kind in TYPES[1:] if _allows(strings[:_FIRST_LOOK], kind) and _allows(strings, kind))
    return sum(1 << TYPES.index(kind) for kind in allowed)


def type_of(possible: int) -> pa.DataType:
    """Return the type of a column, given the set of those that all its fields allow."""
    if possible == ANY_TYPE:
        return pa.string()
    return next((kind for bit, kind in enumerate(TYPES) if possible >> bit & 1), pa.string())


def _allows(strings: pa.Array, kind: pa.DataType) -> bool:
    """Tell whether all strings are values of this type."""
    pattern = _SPELLINGS.get(kind)
    if pattern is not None and pc.all(pc.match_substring_regex(strings, pattern)).as_py() is False:
        return False
    try:
        strings.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _classes(separator: str | None) -> tuple[NDArray[np.uint8], int]:
    """Return the class of every byte, and the lowest class that ends a field."""
    classes: NDArray[Any] = np.zeros(256, np.uint8)
    classes[list(BLANKS)] = BLANK
    classes[ord(separator or ",")] = BREAK
    classes[list(b"\r\n")] = NEWLINE
    return classes, BREAK if separator else BLANK


def _bytes(text: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(text, np.uint8)
