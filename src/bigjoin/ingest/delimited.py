"""Read a whole CSV file as one table, for relations and updates; lines that would be lost or misread are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bigjoin.errors import SourceError, shown
from bigjoin.kernels.json_brackets import NOWHERE, find_open_quote


def read_delimited(
    path: Path,
    separator: str,
    *,
    titled: bool = True,
    skipped: int = 0,
    texts: Iterable[str] = (),
    nulls: Iterable[str] | None = None,
    source: str | None = None,
) -> pa.Table:
    """Return the rows of a file, after `skipped` lines and, if it is titled, its titles; `texts` are columns to read as text.

    A column with integers that are not spelled as they print, like 007, is text, so that 7 and 007 stay two ids. `nulls` are
    the spellings of NULL, for text too; without them Arrow's own apply, and text is never NULL. Messages call it `source`.
    """
    source = source or str(path)
    content = whole_content(path)
    if (zero := content.find(b"\0")) >= 0:
        raise SourceError(f"{source} has a zero byte in line {line_at(content, zero):,}: it is no text, or not UTF-8")
    if b'"' in content:
        opened = int(find_open_quote(np.frombuffer(content, np.uint8), ord(separator)))
        if opened != NOWHERE:
            raise SourceError(f"line {line_at(content, opened):,} of {source} has a quote that opens and never closes")
    if not content.endswith((b"\n", b"\r")):
        content += b"\n"  # Arrow's parser ignores titles without a line end
    wrong: list[str] = []

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        wrong.append(row.text)
        return "error"

    parsing = pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=b'"' in content, invalid_row_handler=refuse)
    reading = pyarrow.csv.ReadOptions(skip_rows=skipped, autogenerate_column_names=not titled)
    known = {"null_values": list(nulls), "strings_can_be_null": True} if nulls is not None else {}

    def read(types: dict[str, pa.DataType]) -> pa.Table:
        options = pyarrow.csv.ConvertOptions(column_types=types, **known)
        return pyarrow.csv.read_csv(
            pa.BufferReader(content), read_options=reading, parse_options=parsing, convert_options=options
        )

    types = dict.fromkeys(texts, pa.string())
    try:
        table = read(types)
        if odd := _oddly_spelled(content, table):
            table = _as_spelled(table, read(types | dict.fromkeys(odd, pa.string())), odd)
    except pa.ArrowInvalid as error:
        check_utf8(content, source)
        if wrong:
            first = min(wrong, key=lambda text: content.find(text.encode()))
            at = re.search(rb"^" + re.escape(first.encode()) + rb"\r?$", content, re.MULTILINE)
            line = line_at(content, at.start() if at else 0)
            what = re.sub("^CSV parse error: |(Row #.*?: )", "", str(error).splitlines()[0]).partition(", got")[0]
            raise SourceError(f"line {line:,} of {source} cannot be read: {what}, and it is {shown(first, 120)!r}") from None
        raise
    if any(pa.types.is_binary(kind) for kind in table.schema.types):
        check_utf8(content, source)
    return table


def whole_content(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in that of a compression."""
    with pa.input_stream(str(path)) as stream:
        content: bytes = stream.read()
    return content


def check_utf8(content: bytes, source: str) -> None:
    """Refuse content that is not UTF-8, naming the first such line."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = line_at(content, error.start)
        raise SourceError(
            f"line {line:,} of {source} is not UTF-8 text: say which encoding it has, as in --encoding latin-1 "
            "(encoding='latin-1'), or convert it"
        ) from None


def line_at(content: bytes, position: int) -> int:
    """Return the number, from 1, of the line that contains a position; a line ends with LF, CR, or both."""
    return 1 + content.count(b"\n", 0, position) + len(re.findall(rb"\r(?!\n)", content[:position]))


def _oddly_spelled(content: bytes, table: pa.Table) -> list[str]:
    """Return the integer columns if any field of the file may have a zero in front, or be -0; otherwise none."""
    columns = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    return columns if columns and re.search(rb"(?<![\w.])-?0\d|(?<![\w.])-0(?![\w.])", content) else []


def _as_spelled(table: pa.Table, spelled: pa.Table, columns: list[str]) -> pa.Table:
    """Return a table in which columns are text if not all of their integers are spelled as they print."""
    for name in columns:
        text = pc.utf8_trim_whitespace(spelled[name])
        if pc.all(pc.equal(table[name].cast(pa.string()), text)).as_py() is False:
            table = table.set_column(table.column_names.index(name), name, spelled[name])
    return table
