"""Read what only Spark can read: DataFrames, and sources on other machines. Tasks read local files themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from bigjoin.defaults import PART_SIZE
from bigjoin.errors import BigjoinError, SourceError, warn_of_reading
from bigjoin.ingest.columns import property_type
from bigjoin.ingest.heading import Heading
from bigjoin.ingest.json_lines import JSON_SUFFIXES
from bigjoin.ingest.scan import Scan, ScannedChunk, ScannedTable, gathered
from bigjoin.ingest.table import EDGES, ArrowFile, Kind, Table, choose, typed_columns
from bigjoin.ingest.text import Fault, Findings, TextSplit, unreadable
from bigjoin.paths import COMPRESSED_SUFFIXES, TABLE_PREFIX, UNREADABLE_SUFFIXES, format_suffix
from bigjoin.reading import JUDGED, ReadingOptions
from bigjoin.spark.frames import arrow_schema, arrow_type
from bigjoin.spark.session import common_directory, is_local
from bigjoin.spark.tasks import decode, encode, freeze_modules
from bigjoin.storage import Place, is_on_store, remove_folder, storage_at
from bigjoin.storage.arrays import new_file, write_table

_REPLACEMENT = "\ufffd".encode()
_BLANK_ENDS = r"^[\s\ufeff]+|\s+$"
"""White space around a line, and a byte order mark."""


def read_frame(spark: SparkSession, source: str, said: ReadingOptions = JUDGED) -> tuple[DataFrame, ReadingOptions]:
    """Return the rows of a URL or table, and what is left to say of them: text is read as src and dst alone."""
    if source.startswith(TABLE_PREFIX):
        said.check_is_text(source)
        with reading(source):
            table = spark.table(source.removeprefix(TABLE_PREFIX))
            _ = table.schema  # Spark Connect would only look for it when it is read
            return table, said
    if Path(source).suffix.lower() in UNREADABLE_SUFFIXES:
        raise SourceError(
            f"{source}: bigjoin does not read {Path(source).suffix}; use {', '.join(COMPRESSED_SUFFIXES)} or no compression"
        )
    if said.encoding is not None:
        raise SourceError(f"{source} is a URL, and Spark reads UTF-8 text alone: copy the file to this machine, or convert it")
    if format_suffix(source) in (".txt", ".csv", ".tsv"):
        return _read_text(spark, source, said), JUDGED
    said.check_is_text(source)
    with reading(source):
        return (spark.read.json(source) if format_suffix(source) in JSON_SUFFIXES else spark.read.parquet(source)), said


def frame_schema(frame: DataFrame, source: str) -> pa.Schema:
    """Return the columns of a frame as an Arrow schema, with times in UTC."""
    with reading(source):
        return arrow_schema(frame.schema)


def spool(frame: DataFrame, columns: Sequence[str], source: str, folder: Path) -> Table:
    """Write columns of a frame as Arrow files of limited size, from the tasks: rows never come to the driver.

    Columns are selected by place, since Spark may consider two of their names equal.
    """
    whole = frame_schema(frame, source)
    schema = pa.schema([whole.field(name) for name in columns])
    renamed = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    chosen = renamed.select(*(f"c{whole.names.index(name)}" for name in columns))

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        for table in gathered((batch.rename_columns(schema.names).cast(schema) for batch in batches), PART_SIZE):
            file = new_file(str(folder), "rows", ".arrow")
            write_table(table, file)
            yield pa.RecordBatch.from_pydict({"file": [file], "rows": [table.num_rows]})

    with reading(source):
        found = chosen.mapInArrow(write, "file string, rows long").toArrow()
    splits = [ArrowFile(file) for file in found["file"].to_pylist()]
    return Table(source, tuple(columns), schema, splits, sum(found["rows"].to_pylist()))


def frame_table(
    frame: DataFrame, source: str, kind: Kind, said: ReadingOptions = JUDGED, *, properties: bool
) -> tuple[Table, DataFrame]:
    """Return the table of edges or vertices that a frame holds, and its rows: ids first, then possible properties."""
    choice, schema = typed_columns(
        kind, frame.columns, source, lambda name: arrow_type(frame.schema[name].dataType), said, properties=properties
    )
    names = (*choice.keys, *choice.others)
    lower = [name.lower() for name in frame.columns]
    if twice := next((name for name in names if lower.count(name.lower()) > 1), None):
        raise SourceError(f"{source} has two columns called {twice!r}, to Spark: rename one of them")
    selected = frame.select(*(F.col(quoted(name)).alias(end) for name, end in zip(names, schema.names, strict=True)))
    return Table(source, choice.keys, schema, (), may_be_empty=True, reading=choice.entry(source)), selected


def scan_frame(scan: Scan, table: ScannedTable, frame: DataFrame, schema: pa.Schema, target: Place) -> list[ScannedChunk]:
    """Scan a DataFrame partition by partition, in tasks of its own session: its rows never come to the driver's memory.

    `target` is where the index will be. If that is on a store, executors may share no disk with the driver: then files travel
    through the store, and get the same paths on both sides.
    """
    spark = frame.sparkSession
    folder = common_directory(spark, target, "scanned") if is_on_store(target) and not is_local(spark) else None
    relay = None if folder is None else storage_at(folder)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark gives times in the session's zone, and text with 32-bit or 64-bit offsets.
        if relay is not None:
            Path(scan.folder).mkdir(parents=True, exist_ok=True)
        for chunk in scan.chunks(table, (batch.cast(schema) for batch in batches)):
            if relay is not None:
                for file in map(Path, chunk.files):  # other tasks of the machine write into the folder, too
                    relay.put(file.name, file)
                    file.unlink()
            yield pa.RecordBatch.from_pydict({"chunk": [encode(chunk)]})

    try:
        with reading(table.source):
            rows = frame.mapInArrow(write, "chunk string").toArrow()
        chunks = [decode(ScannedChunk, chunk) for chunk in rows["chunk"].to_pylist()]
        if relay is not None:
            for name in dict.fromkeys(file for chunk in chunks for file in chunk.files):
                relay.copy_to(Path(name).name, Path(name))
    finally:
        if folder is not None:
            remove_folder(folder)
    return chunks


def can_be_property(field: T.StructField) -> bool:
    """Tell whether an index can hold a column, and give it back as it is."""
    kind = arrow_type(field.dataType)
    return bool(property_type(kind) == kind)


def _read_text(spark: SparkSession, source: str, said: ReadingOptions) -> DataFrame:
    """Read the two columns that are the ends of an edge, chosen as in local files, from lines that Spark provides."""
    lines = spark.read.text(source).select(F.regexp_replace("value", _BLANK_ENDS, "").alias("line"))
    lines = lines.where((F.col("line") != "") & ~F.col("line").startswith("#") & ~F.col("line").startswith("%"))
    with reading(source):
        head = [row.line.encode() for row in lines.limit(2).collect()]
    heading = Heading.of(head, source, EDGES, said)
    if heading.titled:
        lines = lines.where(F.col("line") != head[0].decode())
    names = list(said.columns) if said.columns is not None and not heading.titled else heading.names
    chosen = choose(
        EDGES, names, source, said if heading.titled else replace(said, columns=None), properties=False, titled=heading.titled
    )
    entry = chosen.entry(source, header=heading.titled, judged=heading.judged)
    if entry.is_guess:
        warn_of_reading(f"{source}: {entry.sentence(EDGES.ends)}")
    places = tuple(names.index(name) for name in chosen.keys)
    layout = TextSplit(source, "", heading.separator, places, 2, heading.width)

    def look(text: bytes) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"found": [encode(layout.look(text, 0, _unreadable(text)))]})

    with reading(source):
        pieces = _mapped(lines, look, "found string").toArrow()["found"].to_pylist()
    found = reduce(Findings.__add__, (decode(Findings, piece) for piece in pieces), Findings())
    found.check(source, EDGES, heading, lambda fault: _line_number(spark, source, fault.first))
    kind = found.key_type(2)
    typed = replace(layout, schema=pa.schema([("src", kind), ("dst", kind)]))
    return _mapped(lines, typed.parse, from_arrow_schema(typed.schema))


def _mapped(lines: DataFrame, function: Callable[[bytes], Iterator[pa.RecordBatch]], schema: T.StructType | str) -> DataFrame:
    """Return the rows that a function makes of lines of text."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        for batch in batches:
            yield from function("\n".join(batch.column(0).to_pylist()).encode())

    return lines.mapInArrow(run, schema)


def _unreadable(text: bytes) -> dict[str, Fault]:
    """Return the lines that cannot be read. Spark has replaced what is not UTF-8 with a replacement character."""
    marked = [line.decode() for line in text.split(b"\n") if _REPLACEMENT in line] if _REPLACEMENT in text else []
    return unreadable(text) | ({"garbled": Fault(len(marked), 0, marked[0])} if marked else {})


def _line_number(spark: SparkSession, source: str, line: str) -> str:
    """Return the number and the file of the first occurrence of a line."""
    with reading(source):
        lines = spark.read.text(source).select(
            F.regexp_replace("value", _BLANK_ENDS, "").alias("line"),
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("place"),
        )
        first = lines.where(F.col("line").contains(line)).orderBy("file", "block", "place").first()
        assert first is not None, "the line was found before"
        earlier = (F.col("block") < first.block) | ((F.col("block") == first.block) & (F.col("place") < first.place))
        number = lines.where((F.col("file") == first.file) & earlier).count() + 1
    return f"line {number:,} of {first.file.rsplit('/', 1)[-1]}"


def quoted(column: str) -> str:
    """Return the name of a column as Spark parses it."""
    return "`" + column.replace("`", "``") + "`"


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Turn Spark's errors about an unreadable source into one sentence."""
    try:
        yield
    except BigjoinError:
        raise
    except Exception as error:  # PySpark's own, Py4J's or gRPC's: which one depends on the kind of session
        causes = re.findall(r"^\s*Caused by: [\w.$]+: (.+)$", str(error), re.MULTILINE)
        reason = causes[-1] if causes else str(error).strip().splitlines()[0]
        if raised := re.findall(r"^(\w*(?:Error|Exception): .+)$", str(error), re.MULTILINE):
            reason = raised[-1]
        if "ModuleNotFoundError" in reason or "ImportError" in reason:
            reason += ": Spark's workers run another Python; set PYSPARK_PYTHON to the one that has bigjoin, before the session"
        raise SourceError(f"{source} cannot be read: {reason.strip()}") from error
