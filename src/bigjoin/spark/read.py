"""Read edges with Spark: text in any of the usual forms, Parquet, or a DataFrame, always ending as columns src and dst."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bigjoin.errors import BigjoinError, SourceError
from bigjoin.index.build import edge_columns
from bigjoin.paths import COMPRESSED, UNREADABLE, format_suffix, is_remote
from bigjoin.spark.session import scratch_directory

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def read_edges(spark: SparkSession, source: str) -> DataFrame:
    """Return the edges of a file or folder as (src, dst): long ids if all are integers, else text."""
    is_local = not is_remote(source)
    path = Path(source).absolute()
    if path.suffix.lower() in UNREADABLE:
        raise SourceError(f"{source}: Spark does not read {path.suffix}; use {', '.join(COMPRESSED)} or no compression")
    if is_local and not path.exists():
        raise SourceError(f"there is no file {source}")
    uri = spark_path(path) if is_local else source
    if is_local and path.is_dir() and not list(path.rglob("*.parquet")):
        raise SourceError(f"{source} is neither an index (it has no manifest.json) nor a folder of Parquet files")
    if (is_local and path.is_dir()) or format_suffix(source) == ".parquet":
        return _read_parquet(spark, uri, source)
    return _read_text(spark, uri, source)


def edges_of(frame: DataFrame, source: str) -> DataFrame:
    """Return src and dst of a frame: the columns of that name (or source/target, from/to), else its first two."""
    chosen = edge_columns(frame.columns) or frame.columns[:2]
    if len(chosen) < 2:
        raise SourceError(f"{source} has {len(frame.columns)} column(s); edges need two, src and dst")
    kinds = [frame.schema[name].dataType for name in chosen]
    for name, kind in zip(chosen, kinds, strict=True):
        if not isinstance(kind, (*_INTEGERS, T.StringType)):
            raise SourceError(f"column {name!r} of {source} is {kind.simpleString()}; ids are integers or text: cast it")
    integers = [isinstance(kind, _INTEGERS) for kind in kinds]
    if integers[0] != integers[1]:
        raise SourceError(
            f"columns {chosen[0]!r} and {chosen[1]!r} of {source} differ in type "
            f"({kinds[0].simpleString()}, {kinds[1].simpleString()}): cast one of them"
        )
    target = "long" if all(integers) else "string"
    return frame.select(
        *(F.col(_quoted(name)).cast(target).alias(end) for name, end in zip(chosen, ("src", "dst"), strict=True))
    )


def _read_parquet(spark: SparkSession, uri: str, source: str) -> DataFrame:
    with reading(source):
        return edges_of(spark.read.parquet(uri), source)


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


def spark_path(path: Path) -> str:
    """Return a path as Spark takes it: by a link, if it has characters that mean something there, or a name that is skipped."""
    plain = re.fullmatch(r"[A-Za-z0-9_./-]+", str(path)) and not path.name.startswith(("_", "."))
    if not plain:
        suffixes = "".join(s for s in path.suffixes[-2:] if s.isascii() and s[1:].isalnum())
        link = scratch_directory("link") / f"source{suffixes}"
        link.symlink_to(path)
        path = link
    return path.as_uri()


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
