"""Where updates come from: batches of a streaming DataFrame, or files of a folder, one epoch each."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bigjoin.errors import BigjoinError, SourceError
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.entries import LedgerEntry
from bigjoin.ingest.columns import id_type
from bigjoin.ingest.delimited import read_delimited
from bigjoin.ingest.json_lines import line_of_row, read_json
from bigjoin.ingest.table import edge_columns
from bigjoin.paths import check_regular, is_remote
from bigjoin.query.query import Query
from bigjoin.spark.failures import meaning, told
from bigjoin.streaming.monitor import Epoch, Monitor, Watched
from bigjoin.streaming.updates import OP, read_updates
from bigjoin.streaming.window import Window

SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv", ".txt")
PAUSE = 0.5
"""Seconds between two looks into a folder."""


@dataclass
class Batches:
    """What a streaming query calls for each of its batches. It may travel to another process, so it says all that it needs."""

    path: str
    watched: dict[str, Watched]
    checkpoint: str
    counts: dict[str, tuple[int, int]]
    """By query: an epoch, and how many matches there were then."""
    output: str | None = None
    order: str | None = None
    window: tuple[str, str | float] | None = None
    strategy: str = "shared"
    workers: int | None = None
    batch_size: int | None = None
    adopt: bool = False
    function: Callable[[Epoch], None] | None = None
    verify: bool = True
    _monitor: Monitor | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_monitor": None}

    @told()
    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run a batch as an epoch, unless it is committed already."""
        spark = frame.sparkSession
        if self._monitor is None:
            self._monitor = self.monitor(lambda: spark)
        stream = stream_id(self.checkpoint, spark)
        if stream is None:
            raise BigjoinError(
                f"the id of the stream cannot be read from its checkpoint {self.checkpoint}: give a path of a file system"
            )
        entry = LedgerEntry(f"stream {stream}", batch)
        self._monitor.apply(frame.toArrow(), f"batch {batch}", ledger=entry, adopt=self.adopt, function=self.function)
        self.adopt = False

    def monitor(self, spark: Callable[[], SparkSession]) -> Monitor:
        """Return the monitor of the index."""
        return Monitor(
            Path(self.path),
            self.watched,
            spark=spark,
            initial=self._initial,
            output=None if self.output is None else Path(self.output),
            order=self.order,
            window=None if self.window is None else Window(*self.window),
            strategy=self.strategy,
            workers=self.workers,
            batch_size=self.batch_size,
            verify=self.verify,
        )

    def _initial(self, index: Index, query: Query) -> int:
        epoch, count = self.counts.get(str(query), (-1, 0))
        if epoch != index.epoch:
            raise BigjoinError(f"the index {index.path} has changed since the watch began: begin it again")
        return count


def telling(query: StreamingQuery) -> StreamingQuery:
    """Return a streaming query that fails with our sentence, where there is one: Spark's own text has it in its middle."""
    kind: Any = type(query)  # there is one for Spark Connect, too

    class Watching(kind):  # type: ignore[misc]
        def awaitTermination(self, *arguments: Any, **named: Any) -> bool | None:  # noqa: N802 - Spark's name
            with _stream_failures():
                return cast("bool | None", super().awaitTermination(*arguments, **named))

        def exception(self) -> StreamingQueryException | None:
            failure = super().exception()
            return failure if failure is None else (_meaning(failure) or failure)

    watching = Watching.__new__(Watching)
    watching.__dict__.update(query.__dict__)
    return cast("StreamingQuery", watching)


class StreamError(BigjoinError, StreamingQueryException):
    """A stream that ended with an error of ours, for whoever waits for Spark's; the cause has all that Spark says of it."""

    def __init__(self, message: str) -> None:
        StreamingQueryException.__init__(self, message)
        BigjoinError.__init__(self, message)


@contextmanager
def _stream_failures() -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        if (meant := _meaning(failure)) is None:
            raise
        raise meant from failure


def _meaning(failure: Exception) -> StreamError | None:
    meant = meaning(failure)
    if meant is None:
        return None
    told = StreamError(str(meant))
    told.__cause__ = failure
    return told


def stream_id(checkpoint: str, spark: SparkSession) -> str | None:
    """Return the id that a checkpoint gives its stream; None if it was never used."""
    local = local_path(checkpoint)
    if local is not None:
        file = local / "metadata"
        return str(json.loads(file.read_text(encoding="utf-8"))["id"]) if file.exists() else None
    try:
        row = spark.read.text(f"{checkpoint.rstrip('/')}/metadata").first()
    except AnalysisException:  # there is no such path
        return None
    return None if row is None else str(json.loads(row[0])["id"])


def local_path(checkpoint: str) -> Path | None:
    """Return a checkpoint's path if it is on this machine, in any spelling."""
    plain = re.sub("^file:(//(?=/))?", "", checkpoint)
    return None if is_remote(plain) else Path(plain)


def check_checkpoint(index: Index, checkpoint: str, spark: SparkSession) -> None:
    """Refuse a checkpoint that does not belong to an index, before a stream starts."""
    ledger, known = index.manifest.ledger, stream_id(checkpoint, spark)
    if ledger is not None and ledger.source != f"stream {known}":
        mine = f"is that of stream {known}" if known else "is new"
        raise BigjoinError(
            f"the index {index.path} follows {ledger.source}, until its batch {ledger.batch}, and the checkpoint "
            f"{checkpoint} {mine}: go on with the checkpoint that it was watched with, or begin anew from here with adopt=True"
        )
    local = local_path(checkpoint)
    if ledger is None and known is not None and local is not None:
        commits = local / "commits"
        done = [file for file in commits.glob("*") if file.name.isdigit()] if commits.is_dir() else []
        if done:
            raise BigjoinError(
                f"the checkpoint {checkpoint} has {len(done)} batches behind it, and the index {index.path} has none of them: "
                "it is another index's, or the index was built again; give a new checkpoint, or go on from here with adopt=True"
            )


def read_file(file: Path, index: Index | None = None) -> pa.Table:
    """Return the updates of a file; raise SourceError that says what is wrong with it.

    Columns that are text in an index are read as text, whatever they look like: 007 for one, or NA.
    """
    check_regular(file)
    suffix = _suffix(file)
    try:
        if suffix == ".parquet":
            return pq.read_table(file, partitioning=None)
        if suffix in (".json", ".jsonl", ".ndjson"):
            return _flat(read_json(file), file, index)
        if not file.stat().st_size:
            raise SourceError(f"{file} is empty: it needs at least the titles of its columns")
        separator = "\t" if suffix in (".tsv", ".txt") else ","
        return read_delimited(file, separator, texts=_texts(file, separator, index), nulls=[""])
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{file} cannot be read as updates: {str(error).splitlines()[0]}") from None


def _flat(table: pa.Table, file: Path, index: Index | None) -> pa.Table:
    """Return a table if the columns that an index has are flat; others are left out, or said to be, later."""
    known = {name for columns in index.statistics.properties.values() for name in columns} if index is not None else set()
    known |= {*(edge_columns(table.column_names) or ()), *(name for name in table.column_names if name.lower() == OP)}
    for field_ in table.schema:
        if field_.name in known and pa.types.is_nested(field_.type):
            row = int(np.argmax(table[field_.name].is_valid().to_numpy()))
            what = "a list" if pa.types.is_list(field_.type) else "an object"
            raise SourceError(
                f"line {line_of_row(file, row):,} of {file} has {what} for {field_.name!r}: give a number, text or true"
            )
    return table


def _texts(file: Path, separator: str, index: Index | None) -> list[str]:
    """Return the columns of a text file that are text in an index."""
    if index is None:
        return []
    with pa.input_stream(str(file), compression="detect") as source:
        titles = re.split(r"[\r\n]", source.read(1 << 16).decode("utf-8-sig", errors="replace"), maxsplit=1)[:1]
    ends = edge_columns(next(csv.reader(titles, delimiter=separator), []))
    names = [name for known in index.statistics.properties.values() for name, kind in known.items() if kind == "string"]
    return [*names, *((ends or ()) if pa.types.is_string(index.dictionaries[VERTEX].type) else ())]


def _suffix(file: Path) -> str:
    """Return how the name of a file ends, but for that of its compression."""
    return Path(file.name.lower().removesuffix(".gz")).suffix


def new_files(folder: Path, ledger: LedgerEntry | None) -> Iterator[tuple[Path, LedgerEntry]]:
    """Give the files of a folder that come after those that were applied, in the order of their names, with their entries."""
    source = f"the files of {folder.absolute()}"
    files = updates_in(folder)
    if ledger is not None and ledger.source == source and ledger.name is not None:
        later = [file for file in files if file.name > ledger.name]
        first = ledger.batch + 1
        if len(files) - len(later) > first:
            raise SourceError(
                f"{folder} has files that came late: {len(files) - len(later)} have names up to {ledger.name!r}, and "
                f"{first} of these were applied; give the others later names"
            )
    else:
        later, first = files, 0
    for number, file in enumerate(later):
        yield file, LedgerEntry(source, first + number, file.name)


def updates_in(folder: Path) -> list[Path]:
    """Return the files of updates in a folder, in the order of their names; refuse what stands among them and is no file."""
    named = [f for f in folder.iterdir() if _suffix(f) in SUFFIXES and not f.name.startswith((".", "_")) and not f.is_dir()]
    for other in (file for file in named if not file.is_file()):
        check_regular(other)
    return sorted((file for file in named if file.is_file()), key=lambda file: file.name)


def empty_like(file: Path, left_out: str | None = None) -> pa.Table:
    """Return a table of no edges with the columns of a file of updates, but for `op`, and perhaps what orders updates."""
    table = read_file(file)
    ends = edge_columns(table.column_names)
    if ends is None:
        raise SourceError(f"{file} has no columns src and dst; its columns are: {', '.join(table.column_names) or 'none'}")
    read_updates(table, id_type(table[ends[0]].type, ends[0], str(file)), str(file))  # or an index would be left behind
    further = [name for name in table.column_names if name not in (*ends, left_out) and name.lower() != OP]
    return table.select([*ends, *further]).slice(0, 0)


def watch_folder(
    monitor: Monitor,
    folder: Path,
    *,
    once: bool,
    adopt: bool = False,
    report: Callable[[Epoch, Path, int], None] = lambda *_: None,
) -> int:
    """Apply the files of a folder, and those that come, until stopped; once, those that are there. Return how many."""
    done = 0
    while True:
        with monitor.writing() as live:
            waiting = list(new_files(folder, live.index.manifest.ledger))
            index = live.index
        for number, (file, entry) in enumerate(waiting):
            epoch = monitor.apply(read_file(file, index), str(file), ledger=entry, adopt=adopt)
            adopt = False
            if epoch is not None:
                report(epoch, file, len(waiting) - number - 1)
                done += 1
        if once and not waiting:
            return done
        if not waiting:
            time.sleep(PAUSE)
