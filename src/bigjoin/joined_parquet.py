"""Join Parquet files of one schema without decoding them: pages are copied, and only the footer is written anew.

A Parquet file is pages, then a footer (a Thrift structure in the compact protocol) that says where they are. So files are
joined by copying the pages of one after those of another, and adding to every position in a footer how far its pages moved.
A structure is read as fields of raw bytes, and only the fields that lead to positions are decoded, so that whatever a newer
writer puts there is kept.
See https://parquet.apache.org/docs/file-format/metadata/ and Thrift's compact protocol.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12

# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_CHUNK_OFFSET, _META_DATA = 2, 3
_PAGE_INDEX = (4, 5, 6, 7)  # optional, and full of positions of its own
_PAGE_OFFSETS = (9, 10, 11, 14)

ThriftFields = dict[int, tuple[int, bytes]]
"""The fields of a structure by number: the type of each, and its bytes. A boolean is its type, and has none."""


def join_parquet(parts: Sequence[Path], whole: Path) -> None:
    """Make one file of the row groups of all parts, which have the same columns; the first part becomes the whole."""
    parts[0].replace(whole)
    with whole.open("r+b") as sink:
        footer, end = _footer(sink)
        groups, rows = _structs(footer[_ROW_GROUPS][1]), _number(footer[_NUM_ROWS][1])
        sink.seek(end)
        sink.truncate()
        for part in parts[1:]:
            with part.open("rb") as source:
                read, end = _footer(source)
                moved = sink.tell() - len(MAGIC)
                _copy(source, sink, len(MAGIC), end)
            groups += [_moved(group, moved) for group in _structs(read[_ROW_GROUPS][1])]
            rows += _number(read[_NUM_ROWS][1])
        for ordinal, group in enumerate(groups):
            if group.pop(_ORDINAL, None) and ordinal < 1 << 15:  # it is optional, and has 16 bits
                group[_ORDINAL] = (_I16, _signed(ordinal))
        footer |= {_NUM_ROWS: (_I64, _signed(rows)), _ROW_GROUPS: (_LIST, _list(groups))}
        written = _struct(footer)
        sink.write(written + len(written).to_bytes(4, "little") + MAGIC)


def _footer(file: BinaryIO) -> tuple[ThriftFields, int]:
    """Return what a file's footer says, and where the pages before it end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(size - 8)
    length = int.from_bytes(file.read(4), "little")
    end = size - 8 - length
    file.seek(end)
    return _Thrift(file.read(length)).fields(), end


def _copy(source: BinaryIO, sink: BinaryIO, first: int, last: int) -> None:
    """Append a range of one file to another, without copying it through this process."""
    sink.flush()
    os.lseek(sink.fileno(), 0, os.SEEK_END)
    while first < last:
        first += os.sendfile(sink.fileno(), source.fileno(), first, last - first)
    sink.seek(0, os.SEEK_END)


def _moved(group: ThriftFields, by: int) -> ThriftFields:
    """Return a row group with all positions moved."""
    chunks = []
    for chunk in _structs(group[_COLUMNS][1]):
        pages = _shifted(_Thrift(chunk[_META_DATA][1]).fields(), _PAGE_OFFSETS, by)
        kept = {field: value for field, value in chunk.items() if field not in _PAGE_INDEX}
        chunks.append({**_shifted(kept, (_CHUNK_OFFSET,), by), _META_DATA: (_STRUCT, _struct(pages))})
    return {**_shifted(group, (_GROUP_OFFSET,), by), _COLUMNS: (_LIST, _list(chunks))}


def _shifted(struct: ThriftFields, fields: Iterable[int], by: int) -> ThriftFields:
    """Return a structure with some of its fields, positions unless they are missing or zero, moved."""
    found = {field: _number(struct[field][1]) for field in fields if field in struct}
    return {**struct, **{field: (_I64, _signed(position + by)) for field, position in found.items() if position}}


class _Thrift:
    """Bytes in Thrift's compact protocol, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self) -> ThriftFields:
        """Read a structure."""
        fields: ThriftFields = {}
        number = 0
        while header := self.byte():
            kind, step = header & 15, header >> 4
            number = number + step if step else self.signed()
            first = self.at
            if kind not in (_TRUE, _FALSE):
                self.skip(kind)
            fields[number] = kind, self.data[first : self.at]
        return fields

    def skip(self, kind: int) -> None:
        """Pass over a value."""
        if kind in (_I16, _I32, _I64):
            self.unsigned()
        elif kind in (_LIST, _SET):
            kind, size = self.list_header()
            for _ in range(size):
                self.skip(kind)
        elif kind == _MAP:
            size = self.unsigned()
            kinds = self.byte() if size else 0
            for _ in range(size):
                self.skip(kinds >> 4)
                self.skip(kinds & 15)
        elif kind == _STRUCT:
            self.fields()
        elif kind == _BINARY:
            size = self.unsigned()
            self.at += size
        else:  # a boolean within a list or a map is a byte, too
            self.at += 8 if kind == _DOUBLE else 1

    def list_header(self) -> tuple[int, int]:
        """Read the type of a list's values, and how many there are."""
        header = self.byte()
        return header & 15, header >> 4 if header >> 4 < 15 else self.unsigned()

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def signed(self) -> int:
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)


def _structs(data: bytes) -> list[ThriftFields]:
    """Return the structures of a list."""
    thrift = _Thrift(data)
    return [thrift.fields() for _ in range(thrift.list_header()[1])]


def _number(data: bytes) -> int:
    return _Thrift(data).signed()


def _struct(fields: ThriftFields) -> bytes:
    """Return a structure as bytes."""
    out, before = bytearray(), 0
    for number, (kind, value) in sorted(fields.items()):
        step = number - before
        out += (bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _signed(number)) + value
        before = number
    return bytes(out) + b"\0"


def _list(structs: Sequence[ThriftFields]) -> bytes:
    """Return a list of structures as bytes."""
    size = len(structs)
    header = bytes([size << 4 | _STRUCT]) if size < 15 else bytes([15 << 4 | _STRUCT]) + _unsigned(size)
    return header + b"".join(map(_struct, structs))


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _signed(value: int) -> bytes:
    return _unsigned(value << 1 if value >= 0 else (-value << 1) - 1)
