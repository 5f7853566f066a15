"""Matches as they leave a strategy: their columns, and the files that tasks write."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

import pyarrow as pa

from bigjoin.errors import BigjoinError
from bigjoin.joins.bind import OutputColumn
from bigjoin.storage import Place

PartFile: TypeAlias = tuple[Place, int]
"""A file of matches, and how many rows it has."""

ARROW_SUFFIX = ".arrow"
"""The suffix of files that only bigjoin's own DataFrames read."""

JSON_ROWS = 1 << 14
"""Rows that are Python objects at once while they are written as JSON."""

GATHERED_ROWS = 1 << 18
"""Rows of a row group, if matches come in blocks of any size."""


def schema_of(outputs: Iterable[OutputColumn], width: int) -> pa.Schema:
    """Return the columns of matches: values at positions below `width`, lists at those beyond, which are tails.

    Times in seconds become milliseconds, since Parquet has no seconds.
    """
    fields = []
    for output in outputs:
        kind = in_unit(output.type, "ms", only="s")
        fields.append((output.name, pa.list_(kind) if output.position >= width else kind))
    return pa.schema(fields)


def in_microseconds(schema: pa.Schema) -> pa.Schema:
    """Return the columns with Spark's types: its times are in microseconds."""
    return pa.schema([(field.name, in_unit(field.type, "us")) for field in schema])


def in_unit(kind: pa.DataType, unit: str, only: str | None = None) -> pa.DataType:
    """Return a type with another unit, if it is a time (`only` in a certain unit, if given) or a list of times."""
    if pa.types.is_list(kind):
        return pa.list_(in_unit(kind.value_type, unit, only))
    return pa.timestamp(unit, kind.tz) if pa.types.is_timestamp(kind) and only in (None, kind.unit) else kind


class _ToStore:
    """What writes batches to an object, which exists once this is closed."""

    def __init__(self, file: Place, schema: pa.Schema, suffix: str) -> None:
        self._sink = file.open("wb")
        self._writer = _file_writer(self._sink, schema, suffix)
        self.write_batch, self.write_table = self._writer.write_batch, self._writer.write_table

    def close(self) -> None:
        """Finish the object."""
        self._writer.close()
        self._sink.close()

    def __enter__(self) -> _ToStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def file_writer(file: Place, schema: pa.Schema, suffix: str) -> Any:
    """Return what writes batches of matches to a file: Parquet, CSV without a header, JSON lines, or Arrow."""
    return _file_writer(file, schema, suffix) if isinstance(file, Path) else _ToStore(file, schema, suffix)


def _file_writer(file: Path | IO[bytes], schema: pa.Schema, suffix: str) -> Any:
    if suffix == ARROW_SUFFIX:
        return pa.ipc.new_file(str(file) if isinstance(file, Path) else file, schema)
    from bigjoin.ingest.json_lines import JSON_SUFFIXES

    if suffix == ".csv":
        import pyarrow.csv

        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        return pyarrow.csv.CSVWriter(file, schema, write_options=options)
    if suffix in JSON_SUFFIXES:
        return JsonLinesWriter(file)
    import pyarrow.parquet as pq

    return pq.ParquetWriter(file, schema)


class JsonLinesWriter:
    """Writes matches as JSON lines: an object for each row, whose integers are exact and whose other types are text."""

    def __init__(self, file: Path | IO[bytes]) -> None:
        self._sink: IO[str] = file.open("w", encoding="utf-8") if isinstance(file, Path) else TextIOWrapper(file, "utf-8")

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self._sink.writelines(json_line(row) for row in batch.to_pylist())

    def write_table(self, table: pa.Table) -> None:
        """Add the rows of a table, a batch at a time."""
        for batch in table.to_batches(max_chunksize=JSON_ROWS):
            self.write_batch(batch)

    def close(self) -> None:
        """Finish the file."""
        self._sink.close()

    def __enter__(self) -> JsonLinesWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def json_line(row: Mapping[str, object]) -> str:
    """Return a row as a line of JSON; numbers that JSON does not have are text, and so are times, decimals and bytes (hex)."""
    try:
        return json.dumps(row, default=_text, allow_nan=False, ensure_ascii=False) + "\n"
    except ValueError:  # NaN or an infinity
        return json.dumps({name: _finite(value) for name, value in row.items()}, default=_text, ensure_ascii=False) + "\n"


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: object) -> object:
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_batches(batches: Iterator[pa.RecordBatch], file: Place, suffix: str) -> int:
    """Write batches to a file, and return how many rows they have; without any batch there is no file."""
    first, rows = next(batches, None), 0
    if first is not None:
        with file_writer(file, first.schema, suffix) as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows


def write_table(table: pa.Table, folder: Place, suffix: str) -> list[PartFile]:
    """Write the rows of a table to a file in a folder, if there are any."""
    file = folder / f"part-{uuid.uuid4().hex}{suffix}"
    rows = write_batches(iter(table.to_batches(max_chunksize=GATHERED_ROWS)), file, suffix)
    return [(file, rows)] if rows else []


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Give batches until they have `limit` rows; all of them if it is None."""
    left = limit
    for batch in batches if limit != 0 else ():
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= min(left, batch.num_rows)
            if left == 0:
                return


def arrow_batches(file: Place | bytes) -> Iterator[pa.RecordBatch]:
    """Give the batches of an Arrow file, or of its contents."""
    try:
        if isinstance(file, Path):
            source = pa.memory_map(str(file))
        else:
            source = pa.BufferReader(file if isinstance(file, bytes) else file.read_bytes())
    except FileNotFoundError:
        raise BigjoinError("the files of this result are gone, as its graph was closed: find it again") from None
    with source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


class MatchFile:
    """A file of matches that is being written; rows are gathered until they fill a row group."""

    def __init__(self, path: Place, schema: pa.Schema, suffix: str) -> None:
        self.path, self.schema = path, schema
        self.rows = 0
        self._writer = file_writer(path, schema, suffix)
        self._gathered: list[pa.RecordBatch] = []
        self._waiting = 0
        self._closed = False

    def put(self, columns: list[pa.Array]) -> None:
        """Add matches, column by column."""
        batch = pa.RecordBatch.from_arrays(columns, names=self.schema.names).cast(self.schema)
        self._gathered.append(batch)
        self.rows += batch.num_rows
        self._waiting += batch.num_rows
        if self._waiting >= GATHERED_ROWS:
            self._write()

    def close(self) -> None:
        """Finish the file, unless it is finished already."""
        if not self._closed:
            self._closed = True
            self._write()
            self._writer.close()

    def _write(self) -> None:
        if self._gathered:
            self._writer.write_table(pa.Table.from_batches(self._gathered).combine_chunks())
        self._gathered, self._waiting = [], 0
