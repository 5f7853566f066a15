"""Read a whole file of JSON objects as one table; how deeply they nest is checked before Arrow's parser sees them."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json

from bigjoin.errors import MAX_LINE_LENGTH, SourceError, shown
from bigjoin.ingest.delimited import check_utf8, line_at, whole_content
from bigjoin.kernels.json_brackets import NOWHERE, find_objects

MAX_NESTING = 64
"""Levels of objects and lists: Arrow's parser recurses into them, and tens of thousands would crash the process."""


MAX_PARSED_BYTES = (1 << 31) - 1
"""Bytes that Arrow's parser takes at once. Its errors count rows within a block, so a smaller file is one block."""

_BYTE_ORDER_MARK = codecs.BOM_UTF8


def read_json(path: Path) -> pa.Table:
    """Return the objects of a file as rows."""
    content = whole_content(path)
    check_utf8(content, path)
    deep, stray, _ = _scan(content)
    if deep != NOWHERE:
        raise SourceError(
            f"line {line_at(content, deep):,} of {path} nests objects or lists deeper than {MAX_NESTING} levels: rows are flat"
        )
    if stray != NOWHERE:  # Arrow's parser accepts some of it silently, and crashes on a lone null
        line = content[stray : stray + MAX_LINE_LENGTH].decode(errors="replace").splitlines()[0]
        raise SourceError(
            f"line {line_at(content, stray):,} of {path} has {shown(line, 60)!r} outside an object: every row is one, such as "
            '{"src": 1, "dst": 2, "op": "+"}, and nothing stands between them'
        )
    try:
        options = pyarrow.json.ReadOptions(block_size=min(len(content) + 1, MAX_PARSED_BYTES))
        return pyarrow.json.read_json(pa.BufferReader(content), read_options=options)
    except pa.ArrowInvalid as error:
        said = re.fullmatch(r"(?:JSON parse error: )?(.*?)\.? in row (\d+)", str(error).splitlines()[0])
        if said is None or len(content) >= MAX_PARSED_BYTES:
            raise
        raise SourceError(f"line {_line_of(content, int(said[2])):,} of {path} cannot be read: {said[1]}") from None


def line_of_row(path: Path, row: int) -> int:
    """Return the number, from 1, of the line in which a row of a file begins."""
    return _line_of(whole_content(path), row)


def _line_of(content: bytes, row: int) -> int:
    *_, begin = _scan(content, row)
    return line_at(content, max(0, begin))


def _scan(content: bytes, row: int = NOWHERE) -> tuple[int, int, int]:
    """Return what `find_objects` finds in a text, ignoring a byte order mark."""
    skipped = len(_BYTE_ORDER_MARK) if content.startswith(_BYTE_ORDER_MARK) else 0
    found = find_objects(np.frombuffer(content, np.uint8)[skipped:], MAX_NESTING, row)
    deep, stray, begin = (NOWHERE if place == NOWHERE else int(place) + skipped for place in found)
    return deep, stray, begin
