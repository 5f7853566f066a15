"""A whole file of JSON objects as one table: flat rows, which Arrow's parser gets only after a look at how deep they nest."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json

from bigjoin.errors import MAX_LINE_LENGTH, SourceError, shown
from bigjoin.ingest.delimited import check_utf8, line_at, whole_content
from bigjoin.kernels.brackets import NOWHERE, find_objects

DEEPEST = 64
"""Levels of objects and lists; Arrow's parser follows them by recursion, and a few ten thousand end the process."""


LARGEST = (1 << 31) - 1
"""Bytes that Arrow's parser takes at once. What it says of rows counts from there, so a smaller file is given as a whole."""

_MARK = codecs.BOM_UTF8


def read_json(path: Path) -> pa.Table:
    """Return the objects of a file as rows."""
    content = whole_content(path)
    check_utf8(content, path)
    deep, stray, _ = _scan(content)
    if deep != NOWHERE:
        raise SourceError(
            f"line {line_at(content, deep):,} of {path} nests objects or lists deeper than {DEEPEST} levels: rows are flat"
        )
    if stray != NOWHERE:  # Arrow's parser has no words for some of it, and a null alone ends the process
        line = content[stray : stray + MAX_LINE_LENGTH].decode(errors="replace").splitlines()[0]
        raise SourceError(
            f"line {line_at(content, stray):,} of {path} has {shown(line, 60)!r} outside an object: every row is one, such as "
            '{"src": 1, "dst": 2, "op": "+"}, and nothing stands between them'
        )
    try:
        options = pyarrow.json.ReadOptions(block_size=min(len(content) + 1, LARGEST))
        return pyarrow.json.read_json(pa.BufferReader(content), read_options=options)
    except pa.ArrowInvalid as error:
        said = re.fullmatch(r"(?:JSON parse error: )?(.*?)\.? in row (\d+)", str(error).splitlines()[0])
        if said is None or len(content) >= LARGEST:
            raise
        raise SourceError(f"line {_line_of(content, int(said[2])):,} of {path} cannot be read: {said[1]}") from None


def line_of_row(path: Path, row: int) -> int:
    """Return the number of the line in which a row of a file begins, from 1."""
    return _line_of(whole_content(path), row)


def _line_of(content: bytes, row: int) -> int:
    *_, begin = _scan(content, row)
    return line_at(content, max(0, begin))


def _scan(content: bytes, row: int = NOWHERE) -> tuple[int, int, int]:
    """Return what `find_objects` says of a text, behind the mark of its encoding if it has one."""
    skipped = len(_MARK) if content.startswith(_MARK) else 0
    found = find_objects(np.frombuffer(content, np.uint8)[skipped:], DEEPEST, row)
    deep, stray, begin = (NOWHERE if place == NOWHERE else int(place) + skipped for place in found)
    return deep, stray, begin
