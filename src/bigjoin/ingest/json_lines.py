"""Read a whole file of JSON objects as one table; how deeply they nest is checked before Arrow's parser sees them."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from bigjoin.errors import MAX_LINE_LENGTH, SourceError, shown
from bigjoin.ingest.delimited import check_utf8, line_at, whole_content
from bigjoin.kernels.json_brackets import NOWHERE, blank_list, find_objects

MAX_NESTING = 64
"""Levels of objects and lists: Arrow's parser recurses into them, and tens of thousands would crash the process."""


MAX_PARSED_BYTES = (1 << 31) - 1
"""Bytes that Arrow's parser takes at once. Its errors count rows within a block, so a smaller file is one block."""

UPDATE_EXAMPLE = '{"src": 1, "dst": 2, "op": "+"}'
EDGE_EXAMPLE = '{"src": 1, "dst": 2}'
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")

_BYTE_ORDER_MARK = codecs.BOM_UTF8
_MIXED = re.compile(r"Column\(/(.*)\) changed from (?:number|string|boolean) to (?:number|string|boolean)")
_SPACE = re.compile(r"\s*")


def read_json(path: Path, source: str | None = None, example: str = UPDATE_EXAMPLE, *, mixed_as_text: bool = False) -> pa.Table:
    """Return the objects of a file as rows: one after another, or in one list. Messages call the file `source`.

    A column that has numbers in some rows and text in others is refused, or becomes text.
    """
    source = source or str(path)
    content = whole_content(path)
    check_utf8(content, source)
    original, content = content, _objects(content, source)
    deep, stray, _ = _scan(content)
    if deep != NOWHERE:
        raise SourceError(
            f"line {line_at(content, deep):,} of {source} nests objects or lists deeper than {MAX_NESTING} levels: "
            "rows are flat"
        )
    if stray != NOWHERE:  # Arrow's parser accepts some of it silently, and crashes on a lone null
        line = original[stray : stray + MAX_LINE_LENGTH].decode(errors="replace").splitlines()[0]
        raise SourceError(
            f"line {line_at(content, stray):,} of {source} has {shown(line, 60)!r} outside an object: every row is one, "
            f"such as {example}, and nothing stands between them"
        )
    parsed = content
    while True:
        try:
            options = pyarrow.json.ReadOptions(block_size=min(len(parsed) + 1, MAX_PARSED_BYTES))
            return pyarrow.json.read_json(pa.BufferReader(parsed), read_options=options)
        except pa.ArrowInvalid as error:
            said = re.fullmatch(r"(?:JSON parse error: )?(.*?)\.? in row (\d+)", str(error).splitlines()[0])
            if said is None or len(parsed) >= MAX_PARSED_BYTES:
                raise
            mixed = _MIXED.fullmatch(said[1]) if mixed_as_text else None
            if mixed is None or not (written := _with_text(parsed, mixed[1])):
                where = f"line {_line_of(content, int(said[2])):,} of {source}"
                raise SourceError(f"{where} cannot be read: {said[1]}") from None
            parsed = written


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """The names and values of an object, as it has them: perhaps one of them twice."""


def _with_text(content: bytes, column: str) -> bytes | None:
    """Return rows with the numbers, true and false of one column as text; None if no row has that column itself."""
    decoder = json.JSONDecoder(parse_float=_Number, parse_int=_Number, object_pairs_hook=_Object)
    text, rows, is_found = content.decode("utf-8-sig"), [], False
    place = _SPACE.match(text).end()  # type: ignore[union-attr]
    while place < len(text):
        row, end = decoder.raw_decode(text, place)
        for at, (name, value) in enumerate(row):
            if name == column and isinstance(value, (_Number, bool)):
                row[at], is_found = (name, _dumped(value)), True
        rows.append(_dumped(row))
        place = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return "\n".join(rows).encode() if is_found else None


def _dumped(value: object) -> str:
    """Return a value as JSON, with numbers as they were."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Object):
        return "{" + ",".join(f"{json.dumps(name)}:{_dumped(part)}" for name, part in value) + "}"
    return f"[{','.join(map(_dumped, value))}]" if isinstance(value, list) else json.dumps(value)


def line_of_row(path: Path, row: int) -> int:
    """Return the number, from 1, of the line in which a row of a file begins."""
    return _line_of(_objects(whole_content(path), str(path)), row)


def _objects(content: bytes, source: str) -> bytes:
    """Return JSON without the brackets and commas of a list around all objects, in the same places."""
    begin = len(_BYTE_ORDER_MARK) if content.startswith(_BYTE_ORDER_MARK) else 0
    if not content[begin : begin + MAX_LINE_LENGTH].lstrip().startswith(b"["):
        return content
    text = np.frombuffer(bytearray(content), np.uint8)
    if not blank_list(text):
        raise SourceError(f"{source} begins with a list of objects that does not end with ']': it is cut off")
    return text.tobytes()


def _line_of(content: bytes, row: int) -> int:
    *_, begin = _scan(content, row)
    return line_at(content, max(0, begin))


def _scan(content: bytes, row: int = NOWHERE) -> tuple[int, int, int]:
    """Return what `find_objects` finds in a text, ignoring a byte order mark."""
    skipped = len(_BYTE_ORDER_MARK) if content.startswith(_BYTE_ORDER_MARK) else 0
    found = find_objects(np.frombuffer(content, np.uint8)[skipped:], MAX_NESTING, row)
    deep, stray, begin = (NOWHERE if place == NOWHERE else int(place) + skipped for place in found)
    return deep, stray, begin
