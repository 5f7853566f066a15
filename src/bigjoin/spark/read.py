"""Rows that only Spark can read: DataFrames, and sources on other machines. Local files are read by the tasks themselves."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import BigjoinError, SourceError, shown
from bigjoin.ingest.fields import Fields, split_line
from bigjoin.ingest.fields import find as find_fields
from bigjoin.ingest.scan import gathered
from bigjoin.ingest.table import EDGES, ArrowFile, Kind, Table, edge_columns, typed_columns
from bigjoin.ingest.text import FAULTS, Fault, are_titles, refused
from bigjoin.kernels.text import EMPTY, INTEGER, NONE
from bigjoin.paths import COMPRESSED, UNREADABLE, format_suffix
from bigjoin.spark.tasks import settle
from bigjoin.storage.arrays import new_file, write_table

_AROUND = r"^[\s\ufeff]+|\s+$"
"""What stands around a line and says nothing."""


def read_frame(spark: SparkSession, source: str) -> DataFrame:
    """Return the rows of a remote source: Parquet with all its columns, text as src and dst."""
    if Path(source).suffix.lower() in UNREADABLE:
        raise SourceError(
            f"{source}: bigjoin does not read {Path(source).suffix}; use {', '.join(COMPRESSED)} or no compression"
        )
    if format_suffix(source) in (".txt", ".csv", ".tsv"):
        return _read_text(spark, source)
    with reading(source):
        return spark.read.parquet(source)


def frame_schema(frame: DataFrame, source: str) -> pa.Schema:
    """Return the columns of a frame as Arrow has them; times are in UTC."""
    with reading(source):
        return to_arrow_schema(frame.schema, timezone="UTC")


def spool(frame: DataFrame, columns: Sequence[str], source: str, folder: Path) -> Table:
    """Write columns of a frame as Arrow files of at most a part's size, from the tasks: rows never come to the driver.

    Columns go by their places, whatever Spark would make of their names.
    """
    whole = frame_schema(frame, source)
    schema = pa.schema([whole.field(name) for name in columns])
    renamed = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    chosen = renamed.select(*(f"c{whole.names.index(name)}" for name in columns))

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for table in gathered((batch.rename_columns(schema.names).cast(schema) for batch in batches), PART_SIZE):
            file = new_file(str(folder), "rows", ".arrow")
            write_table(table, file)
            yield pa.RecordBatch.from_pydict({"file": [file], "rows": [table.num_rows]})

    with reading(source):
        found = chosen.mapInArrow(write, "file string, rows long").toArrow()
    splits = [ArrowFile(file) for file in found["file"].to_pylist()]
    return Table(source, tuple(columns), schema, splits, sum(found["rows"].to_pylist()))


def frame_table(
    frame: DataFrame, source: str, kind: Kind, *, columns: Sequence[str] | None, properties: bool
) -> tuple[Table, DataFrame]:
    """Return a frame as edges or vertices, and its rows: ids first, then what can be properties."""
    names, schema = typed_columns(
        kind, frame.columns, source, lambda name: _arrow_type(frame.schema[name]), columns=columns, properties=properties
    )
    lower = [name.lower() for name in frame.columns]
    if twice := next((name for name in names if lower.count(name.lower()) > 1), None):
        raise SourceError(f"{source} has two columns called {twice!r}, to Spark: rename one of them")
    selected = frame.select(*(F.col(_quoted(name)).alias(end) for name, end in zip(names, schema.names, strict=True)))
    return Table(source, names[: len(kind.ends)], schema, (), may_be_empty=True), selected


def _arrow_type(field: T.StructField) -> pa.DataType:
    """Return the type of a column in Arrow; one without fields stands for what Arrow does not know."""
    try:
        return to_arrow_schema(T.StructType([field]), timezone="UTC").field(0).type
    except PySparkException:
        return pa.struct([])


def _read_text(spark: SparkSession, source: str) -> DataFrame:
    """Read the first two columns of lines, or those with the names of an edge's ends; Spark brings lines, and we read them."""
    lines = spark.read.text(source).select(F.regexp_replace("value", _AROUND, "").alias("line"))
    lines = lines.where((F.col("line") != "") & ~F.col("line").startswith("#") & ~F.col("line").startswith("%"))
    with reading(source):
        head = [row.line.encode() for row in lines.limit(2).collect()]
    if not head:
        raise SourceError(f"{source} has no edges: it is empty, or holds only comments")
    separator = {".csv": ",", ".tsv": "\t"}.get(format_suffix(source))
    if separator is not None and separator.encode() not in head[0]:
        separator = None
    first, *below = (split_line(line, separator) for line in head)
    named = edge_columns(first)
    titled = named is not None or are_titles(EDGES, first, below)
    if titled:
        if named is None:
            warnings.warn(f"{source}: the first line, {head[0].decode()!r}, is taken for column titles", stacklevel=2)
        lines = lines.where(F.col("line") != head[0].decode())
    places = [first.index(name) for name in named] if named else [0, 1]
    width = max(2, len(first))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            text = "\n".join(batch.column(0).to_pylist()).encode()
            for fields in find_fields(text, separator, places, width):
                yield _pairs(fields)

    frame = lines.mapInArrow(read, "src string, dst string, is_integer boolean, fault string, line string")
    return _typed(spark, frame, source, f"{'titles' if titled else 'fields in its first line'} ({width})")


def _pairs(fields: Fields) -> pa.RecordBatch:
    """Return the ends of some lines' edges as text, whether both are integers, and lines that are wrong, with what is."""
    faults = np.full(len(fields), None, object)
    lines = faults.copy()
    wrong: dict[str, Any] = {
        "short": np.flatnonzero((fields.kinds <= EMPTY).any(axis=0)),
        "wide": [fields.wide],
        "unclosed": [fields.unclosed],
    }
    wrong["garbled"] = [r for r in range(len(fields)) if "\ufffd" in fields.line(r)] if "\ufffd".encode() in fields.text else []
    wrong["binary"] = [r for r in range(len(fields)) if "\0" in fields.line(r)] if b"\0" in fields.text else []
    for name, rows in wrong.items():
        for row in rows:
            if row != NONE and faults[row] is None:
                faults[row], lines[row] = name, fields.line(int(row))
    integers = pa.array((fields.kinds == INTEGER).all(axis=0))
    columns = [fields.strings(0), fields.strings(1), integers, pa.array(faults, pa.string()), pa.array(lines, pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["src", "dst", "is_integer", "fault", "line"])


def _typed(spark: SparkSession, pairs: DataFrame, source: str, width: str) -> DataFrame:
    """Return src and dst as long if every id is an integer; refuse lines that would be misread, and say which."""
    with reading(source):
        rows, texts = pairs.agg(F.count("*"), F.count_if(~F.col("is_integer"))).collect()[0]
        wrong = pairs.where("fault is not null").groupBy("fault").agg(F.count("*"), F.first("line")).collect()
    if rows == 0:
        raise SourceError(f"{source} has no edges: nothing follows its column titles")
    found = {name: Fault(lines, 0, line) for name, lines, line in wrong}
    for name in FAULTS:
        if name in found:
            where = _line_number(spark, source, found[name].first)
            shortened = replace(found[name], first=shown(found[name].first))
            raise refused(name, source, EDGES, shortened, where=where, rows=rows, width=width)
    kind = "string" if texts else "long"
    return pairs.select(F.col("src").cast(kind).alias("src"), F.col("dst").cast(kind).alias("dst"))


def _line_number(spark: SparkSession, source: str, line: str) -> str:
    """Return where a line is found first: its number, and the file if there may be several."""
    with reading(source):
        lines = spark.read.text(source).select(
            F.regexp_replace("value", _AROUND, "").alias("line"),
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("place"),
        )
        first = lines.where(F.col("line").contains(line)).orderBy("file", "block", "place").first()
        assert first is not None, "it was there a moment ago"
        earlier = (F.col("block") < first.block) | ((F.col("block") == first.block) & (F.col("place") < first.place))
        number = lines.where((F.col("file") == first.file) & earlier).count() + 1
    return f"line {number:,} of {first.file.rsplit('/', 1)[-1]}"


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Turn whatever Spark says about a source that it cannot read into one sentence."""
    try:
        yield
    except BigjoinError:
        raise
    except Exception as error:  # PySpark's own, Py4J's or gRPC's: which one depends on the kind of session
        causes = re.findall(r"^\s*Caused by: [\w.$]+: (.+)$", str(error), re.MULTILINE)
        reason = causes[-1] if causes else str(error).strip().splitlines()[0]
        raise SourceError(f"{source} cannot be read: {reason.strip()}") from error
