"""Read what a watch has reported, whole epochs only, wherever its output lies.

An epoch is whole once the counts have it, as its line is written after all of its files. On a store, a reader of the folder
itself never sees matches that were not committed, but it may see the last epoch while its files are still being put in place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bigjoin.errors import BigjoinError, OutputError, reason
from bigjoin.spark.store_options import place_with_options
from bigjoin.spark.tasks import run_numbered
from bigjoin.storage import Place, Storage, storage_at
from bigjoin.storage.arrays import read_parquet
from bigjoin.streaming.output import COUNTS, COUNTS_FOLDER, told_epochs
from bigjoin.streaming.status import entry_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_TASKS = 64
"""How many tasks read an output at most."""


@dataclass(frozen=True)
class WatchedEpochs:
    """The epochs that a watch has reported of a query: what `read_output` returns."""

    path: Place
    query: str
    """The name of the query."""
    folders: Mapping[int, str]
    """The folder of each epoch in the output, the oldest first."""

    def __repr__(self) -> str:
        span = f"{min(self.folders)} to {max(self.folders)}" if self.folders else "none yet"
        return f"WatchedEpochs of {self.query} in {self.path}: {span}"

    @property
    def epochs(self) -> list[int]:
        """The numbers of the epochs."""
        return list(self.folders)

    @property
    def files(self) -> list[str]:
        """The paths or URLs of the Parquet files."""
        return [str(file) for _, file in self._files()]

    def table(self) -> pa.Table:
        """Return the signed matches as an Arrow table: the epoch, the change (+1 or -1), and the columns of the query."""
        tables = [_with_epoch(epoch, file) for epoch, file in self._files()]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def frame(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the same as a DataFrame, whose tasks read the files themselves: Spark need not know the store.

        Args:
            spark: The session; by default the active one, or a local one.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        from bigjoin.spark.session import get_session

        files = list(self._files())
        if not files:
            raise BigjoinError(f"{self.path} has no epoch of {self.query} yet, and so no columns")
        columns = _with_epoch(*files[-1]).schema
        tasks = min(len(files), MAX_TASKS)

        def read(number: int) -> Iterator[pa.RecordBatch]:
            for epoch, file in files[number::tasks]:
                yield from _with_epoch(epoch, file).cast(columns).to_batches()

        return run_numbered(spark or get_session(), read, tasks, from_arrow_schema(columns))

    def _files(self) -> Iterator[tuple[int, Place]]:
        storage = storage_at(self.path)
        for epoch, folder in self.folders.items():
            for name in storage.list(folder):
                if name.endswith(".parquet"):
                    yield epoch, self.path / folder / name


def read_output(
    path: str | Place,
    query: str | None = None,
    *,
    first: int = 1,
    last: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> WatchedEpochs:
    """Return the epochs that a watch has reported of a query, as far as they are whole.

    For example, `bj.read_output("s3://bucket/out", "rings", first=120).table()` has the signed matches as an Arrow table.

    Args:
        path: The output folder of the watch, or its URL on a store.
        query: The name of the query, if the output has several.
        first: The first epoch to read.
        last: The last epoch to read; by default, the last whole one.
        storage_options: What fsspec needs to open the store, as for `Graph.open`.
    """
    place = place_with_options(path, storage_options).absolute()
    entry = entry_of(place)
    if query is None:
        if len(entry.queries) != 1:
            raise OutputError(f"{place} has several queries: name one of {', '.join(entry.queries)}")
        (query,) = entry.queries
    if query not in entry.queries:
        raise OutputError(f"{place} has no query {query!r}: it has {', '.join(entry.queries)}")
    known = entry.queries[query]
    storage = storage_at(place)

    def is_reported(epoch: int) -> bool:
        spans = ((span.first or 0, span.last) for span in known.spans)
        return any(begin <= epoch and (end is None or epoch <= end) for begin, end in spans)

    try:
        whole = [epoch for epoch in _whole_epochs(storage) if first <= epoch and (last is None or epoch <= last)]
    except OSError as error:
        raise OutputError(f"the output folder {place} cannot be read: {reason(error)}") from None
    inside = f"{known.folder}/" if known.folder else ""
    return WatchedEpochs(place, query, {epoch: f"{inside}epoch={epoch}" for epoch in whole if is_reported(epoch)})


def _whole_epochs(storage: Storage) -> list[int]:
    """Return the epochs that the counts have."""
    if storage.is_store:
        return told_epochs(storage) if storage.is_folder(COUNTS_FOLDER) else []
    if not storage.exists(COUNTS):
        return []
    lines = storage.read(COUNTS).rpartition(b"\n")[0].splitlines()  # the last one may be cut off
    return [int(json.loads(line)["epoch"]) for line in lines]


def _with_epoch(epoch: int, file: Place) -> pa.Table:
    rows = read_parquet(file)
    return rows.add_column(0, "epoch", pa.array([epoch] * len(rows), pa.int64()))
