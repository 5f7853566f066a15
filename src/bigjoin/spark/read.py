"""Rows that only Spark can read: DataFrames, and sources on other machines. Local files are read by the tasks themselves."""

from __future__ import annotations

import csv
import re
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import BigjoinError, SourceError
from bigjoin.ingest.ids import write_table
from bigjoin.ingest.relations import Chunked
from bigjoin.ingest.table import Kind, Table, choose, edge_columns, warn_left_out
from bigjoin.paths import COMPRESSED, UNREADABLE, format_suffix
from bigjoin.spark.tasks import settle

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_TEXTS = (T.StringType, T.VarcharType, T.CharType)
_OTHERS = (T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BinaryType)
_IDS = (*_INTEGERS, *_TEXTS, *_OTHERS)
_PROPERTIES = (*_IDS, T.BooleanType, T.FloatType, T.DoubleType)


def read_frame(spark: SparkSession, source: str) -> DataFrame:
    """Return the rows of a remote source: Parquet with all its columns, text as src and dst."""
    if Path(source).suffix.lower() in UNREADABLE:
        raise SourceError(
            f"{source}: bigjoin does not read {Path(source).suffix}; use {', '.join(COMPRESSED)} or no compression"
        )
    if format_suffix(source) in (".txt", ".csv", ".tsv"):
        return _read_text(spark, source, source)
    with reading(source):
        return spark.read.parquet(source)


def frame_schema(frame: DataFrame, source: str) -> pa.Schema:
    """Return the columns of a frame as Arrow has them; times are in UTC."""
    with reading(source):
        return to_arrow_schema(frame.schema, timezone="UTC")


def spool(frame: DataFrame, columns: Sequence[str], source: str, folder: Path) -> Chunked:
    """Write columns of a frame as Arrow files of at most a part's size, from the tasks: rows never come to the driver.

    Columns go by their places, whatever Spark would make of their names.
    """
    whole = frame_schema(frame, source)
    schema = pa.schema([whole.field(name) for name in columns])
    renamed = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    chosen = renamed.select(*(f"c{whole.names.index(name)}" for name in columns))

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        waiting: list[pa.RecordBatch] = []
        for batch in chain(batches, [None]):
            if batch is not None:
                waiting.append(batch.rename_columns(schema.names).cast(schema))
            rows = sum(part.num_rows for part in waiting)
            if rows >= PART_SIZE or (batch is None and rows):
                file = folder / f"rows-{uuid.uuid4().hex}.arrow"
                write_table(pa.Table.from_batches(waiting), file)
                waiting = []
                yield pa.RecordBatch.from_pydict({"file": [str(file)], "rows": [rows]})

    with reading(source):
        found = chosen.mapInArrow(write, "file string, rows long").toArrow()
    return Chunked(schema, tuple(found["file"].to_pylist()), sum(found["rows"].to_pylist()))


def frame_table(
    frame: DataFrame, source: str, kind: Kind, *, columns: Sequence[str] | None, properties: bool
) -> tuple[Table, DataFrame]:
    """Return what is known of a frame, and the frame with its ids first, of one type, and what can be properties."""
    names, others = choose(kind, frame.columns, source, columns=columns, properties=properties)
    lower = [name.lower() for name in frame.columns]
    if twice := next((name for name in (*names, *others) if lower.count(name.lower()) > 1), None):
        raise SourceError(f"{source} has two columns called {twice!r}, to Spark: rename one of them")
    types = [frame.schema[name].dataType for name in names]
    for name, found in zip(names, types, strict=True):
        if not isinstance(found, _IDS):
            raise SourceError(
                f"column {name!r} of {source} is {found.simpleString()}; "
                "ids are integers, text, decimals, dates or binary: cast it"
            )
    common = _common_type(types)
    if common is None:
        shown = ", ".join(found.simpleString() for found in types)
        raise SourceError(f"columns {names[0]!r} and {names[1]!r} of {source} differ in type ({shown}): cast one of them")
    simple = [name for name in others if isinstance(frame.schema[name].dataType, _PROPERTIES)]
    warn_left_out(source, [name for name in others if name not in simple], "its type is nested or unknown")
    chosen = [F.col(_quoted(name)).cast(common).alias(end) for name, end in zip(names, kind.ends, strict=True)]
    selected = frame.select(*chosen, *(F.col(_quoted(name)) for name in simple))
    schema = to_arrow_schema(selected.schema, timezone="UTC")
    return Table(source=source, keys=tuple(names), schema=schema, splits=(), rows=None, span=None), selected


def _common_type(kinds: list[T.DataType]) -> T.DataType | None:
    """Return the one type of ids: that of both ends, or the wider of two that are of a kind."""
    first, last = kinds[0], kinds[-1]
    if first == last:
        return first
    if isinstance(first, _INTEGERS) and isinstance(last, _INTEGERS):
        return max(kinds, key=lambda kind: _INTEGERS.index(type(kind)))
    if isinstance(first, T.DecimalType) and isinstance(last, T.DecimalType):
        scale = max(first.scale, last.scale)
        digits = max(first.precision - first.scale, last.precision - last.scale)
        return T.DecimalType(min(38, digits + scale), scale)
    return T.StringType() if isinstance(first, _TEXTS) and isinstance(last, _TEXTS) else None


def _read_text(spark: SparkSession, uri: str, source: str) -> DataFrame:
    """Read lines of two or more columns; lines that are blank or begin with # or % say nothing."""
    value = F.regexp_replace("value", r"^[\s\ufeff]+|\s+$", "")
    lines = spark.read.text(uri).select(value.alias("line"))
    lines = lines.where((F.col("line") != "") & ~F.col("line").startswith("#") & ~F.col("line").startswith("%"))
    with reading(source):
        head = [row.line for row in lines.limit(2).collect()]
    if not head:
        raise SourceError(f"{source} has no edges: it is empty, or holds only comments")
    separator = {".csv": ",", ".tsv": "\t"}.get(format_suffix(source))
    if separator is not None and separator not in head[0]:
        separator = None
    titles = _split(head[0], separator)
    named = edge_columns(titles)
    if named is not None or _are_titles(titles, head[1:], separator):
        if named is None:
            warnings.warn(f"{source}: the first line, {head[0]!r}, is taken for column titles", stacklevel=2)
        lines = lines.where(F.col("line") != head[0])
    src, dst = (titles.index(name) for name in named) if named else (0, 1)
    parts = _parts(separator, len(titles))
    pairs = lines.select("line", F.get(parts, F.lit(src)).alias("src"), F.get(parts, F.lit(dst)).alias("dst"))
    return _typed(pairs, source)


def _typed(pairs: DataFrame, source: str) -> DataFrame:
    """Return src and dst as long if every id is an integer; refuse lines without two ids, and say which."""
    short = F.col("src").isNull() | F.col("dst").isNull() | (F.col("src") == "") | (F.col("dst") == "")
    text = _is_text("src") | _is_text("dst")
    garbled = F.col("line").contains("\ufffd")
    with reading(source):
        found = pairs.agg(
            F.count("*").alias("lines"),
            F.count_if(short).alias("short"),
            F.first(F.when(short, F.col("line")), ignorenulls=True).alias("example"),
            F.count_if(text).alias("text"),
            F.count_if(garbled).alias("garbled"),
        ).collect()[0]
    if found.lines == 0:
        raise SourceError(f"{source} has no edges: nothing follows its column titles")
    if found.short:
        raise SourceError(
            f"{found.short} of {found.lines} lines of {source} do not have two columns, for example {found.example!r}; "
            "an edge is 'src dst', separated by spaces, a tab or a comma"
        )
    if found.garbled:
        raise SourceError(f"{found.garbled} lines of {source} are not UTF-8 text: convert the file, for example with iconv")
    kind = "string" if found.text else "long"
    return pairs.select(F.col("src").cast(kind).alias("src"), F.col("dst").cast(kind).alias("dst"))


def _parts(separator: str | None, width: int) -> Column:
    """Return the parts of a line as an array; with a separator, quotes protect it."""
    if separator is None:
        return F.split("line", r"[\s,]+")
    fields = ", ".join(f"c{i} string" for i in range(max(2, width)))
    parsed = F.from_csv("line", fields, {"sep": separator, "escape": '"'})
    return F.array(*(F.trim(parsed[f"c{i}"]) for i in range(max(2, width))))


def _split(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return re.split(r"[\s,]+", line)
    return [part.strip() for part in next(csv.reader([line], delimiter=separator))]


def _are_titles(titles: list[str], below: list[str], separator: str | None) -> bool:
    """Tell column titles from an edge: two words above two integers."""
    words = all(re.fullmatch(r"[^\W\d][\w .-]*", title) for title in titles[:2])
    return words and bool(below) and all(map(_is_integer, _split(below[0], separator)[:2]))


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", text) is not None


def _is_text(column: str) -> Column:
    """Tell ids that are no integers as Spark would print them: '007' stays text, so that it comes back as it was."""
    number = F.col(column).try_cast("long").cast("string")
    return number.isNull() | (number != F.col(column))


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
