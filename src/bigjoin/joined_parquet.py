"""One Parquet file from several of the same schema, without decoding anything: pages are copied, and only the footer is new.

A Parquet file is pages, then a footer (a Thrift structure in the compact protocol) that says where they are. So files are
joined by copying the pages of one after those of another, and adding to every position in a footer how far its pages moved.
The footer is read and written as a tree of fields, so that whatever a newer writer puts there stays as it is.
https://parquet.apache.org/docs/file-format/metadata/ and Thrift's compact protocol are the whole of what is used here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12

# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_CHUNK_OFFSET, _META_DATA = 2, 3
_PAGE_INDEX = (4, 5, 6, 7)  # optional, and full of positions of its own
_PAGE_OFFSETS = (9, 10, 11, 14)

Struct = dict[int, tuple[int, Any]]
"""Fields by number: the type of each, and its value."""


def join_parquet(parts: Sequence[Path], whole: Path) -> None:
    """Make one file of the row groups of all parts, which have the same columns; the first part becomes the whole."""
    parts[0].replace(whole)
    with whole.open("r+b") as sink:
        footer, end = _footer(sink)
        groups = footer[_ROW_GROUPS][1][1]
        sink.seek(end)
        sink.truncate()
        for part in parts[1:]:
            with part.open("rb") as source:
                read, end = _footer(source)
                moved = sink.tell() - len(MAGIC)
                _copy(source, sink, len(MAGIC), end)
            groups += [_moved(group, moved) for group in read[_ROW_GROUPS][1][1]]
            footer[_NUM_ROWS] = (_I64, footer[_NUM_ROWS][1] + read[_NUM_ROWS][1])
        for ordinal, group in enumerate(groups):
            if _ORDINAL in group and ordinal < 1 << 15:
                group[_ORDINAL] = (_I16, ordinal)
            else:
                group.pop(_ORDINAL, None)  # it is optional, and has 16 bits
        written = _Writer().struct(footer)
        sink.write(written + len(written).to_bytes(4, "little") + MAGIC)


def _footer(file: BinaryIO) -> tuple[Struct, int]:
    """Return what a file's footer says, and where the pages before it end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(size - 8)
    length = int.from_bytes(file.read(4), "little")
    end = size - 8 - length
    file.seek(end)
    return _Reader(file.read(length)).struct(), end


def _copy(source: BinaryIO, sink: BinaryIO, first: int, last: int) -> None:
    """Append a stretch of one file to another, within the kernel."""
    sink.flush()
    os.lseek(sink.fileno(), 0, os.SEEK_END)
    while first < last:
        first += os.sendfile(sink.fileno(), source.fileno(), first, last - first)
    sink.seek(0, os.SEEK_END)


def _moved(group: Struct, by: int) -> Struct:
    """Return a row group with all positions moved."""
    chunks = []
    for chunk in group[_COLUMNS][1][1]:
        pages = _shifted(chunk[_META_DATA][1], _PAGE_OFFSETS, by)
        kept = {field: value for field, value in chunk.items() if field not in _PAGE_INDEX}
        chunks.append({**_shifted(kept, (_CHUNK_OFFSET,), by), _META_DATA: (_STRUCT, pages)})
    return {**_shifted(group, (_GROUP_OFFSET,), by), _COLUMNS: (_LIST, (_STRUCT, chunks))}


def _shifted(struct: Struct, fields: Sequence[int], by: int) -> Struct:
    moved = {field: (struct[field][0], struct[field][1] + by) for field in fields if field in struct and struct[field][1]}
    return {**struct, **moved}


class _Reader:
    """Reads a structure in Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> Struct:
        fields: Struct = {}
        number = 0
        while header := self.byte():
            kind, step = header & 15, header >> 4
            number = number + step if step else self.signed()
            fields[number] = (kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind))
        return fields

    def value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):  # within a list, where a type byte says true and each value is a byte
            return self.byte() == _TRUE
        if kind == _BYTE:
            return self.byte()
        if kind in (_I16, _I32, _I64):
            return self.signed()
        if kind == _DOUBLE:
            return self.take(8)
        if kind == _BINARY:
            return self.take(self.unsigned())
        if kind in (_LIST, _SET):
            header = self.byte()
            size = header >> 4 if header >> 4 < 15 else self.unsigned()
            return header & 15, [self.value(header & 15) for _ in range(size)]
        if kind == _MAP:
            size = self.unsigned()
            kinds = self.byte() if size else 0
            return kinds, [(self.value(kinds >> 4), self.value(kinds & 15)) for _ in range(size)]
        return self.struct()

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def unsigned(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def signed(self) -> int:
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)


class _Writer:
    """Writes a structure in Thrift's compact protocol."""

    def struct(self, fields: Struct) -> bytes:
        out, before = bytearray(), 0
        for number, (kind, value) in sorted(fields.items()):
            kind = (_TRUE if value else _FALSE) if kind in (_TRUE, _FALSE) else kind
            step = number - before
            out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + self.signed(number)
            out += b"" if kind in (_TRUE, _FALSE) else self.value(kind, value)
            before = number
        return bytes(out) + b"\0"

    def value(self, kind: int, value: Any) -> bytes:
        if kind in (_TRUE, _FALSE):
            return bytes([_TRUE if value else _FALSE])
        if kind == _BYTE:
            return bytes([value])
        if kind in (_I16, _I32, _I64):
            return self.signed(value)
        if kind == _DOUBLE:
            return bytes(value)
        if kind == _BINARY:
            return self.unsigned(len(value)) + bytes(value)
        if kind in (_LIST, _SET):
            of, items = value
            header = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([15 << 4 | of]) + self.unsigned(len(items))
            return header + b"".join(self.value(of, item) for item in items)
        if kind == _MAP:
            kinds, pairs = value
            content = b"".join(self.value(kinds >> 4, key) + self.value(kinds & 15, item) for key, item in pairs)
            return self.unsigned(len(pairs)) + (bytes([kinds]) if pairs else b"") + content
        return self.struct(value)

    @staticmethod
    def unsigned(value: int) -> bytes:
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    def signed(self, value: int) -> bytes:
        return self.unsigned(value << 1 if value >= 0 else (-value << 1) - 1)
