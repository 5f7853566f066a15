"""A whole file of JSON objects as one table: flat rows, which Arrow's parser gets only after a look at how deep they nest."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json

from bigjoin.errors import SourceError
from bigjoin.ingest.delimited import check_utf8, line_at, whole_content
from bigjoin.kernels.brackets import NOWHERE, find_depth

DEEPEST = 64
"""Levels of objects and lists; Arrow's parser follows them by recursion, and a few ten thousand end the process."""


def read_json(path: Path) -> pa.Table:
    """Return the objects of a file as rows."""
    content = whole_content(path)
    check_utf8(content, path)
    deep, _ = _scan(content, NOWHERE)
    if deep != NOWHERE:
        raise SourceError(
            f"line {line_at(content, deep):,} of {path} nests objects or lists deeper than {DEEPEST} levels: rows are flat"
        )
    try:
        return pyarrow.json.read_json(pa.BufferReader(content))
    except pa.ArrowInvalid as error:
        said = re.fullmatch(r"(?:JSON parse error: )?(.*?)\.? in row (\d+)", str(error).splitlines()[0])
        if said is None:
            raise
        raise SourceError(f"line {_line_of(content, int(said[2])):,} of {path} cannot be read: {said[1]}") from None


def line_of_row(path: Path, row: int) -> int:
    """Return the number of the line in which a row of a file begins, from 1."""
    return _line_of(whole_content(path), row)


def _line_of(content: bytes, row: int) -> int:
    _, begin = _scan(content, row)
    return line_at(content, max(0, begin))


def _scan(content: bytes, row: int) -> tuple[int, int]:
    deep, begin = find_depth(np.frombuffer(content, np.uint8), DEEPEST, row)
    return int(deep), int(begin)
