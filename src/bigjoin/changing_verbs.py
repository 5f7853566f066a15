"""The verbs of a graph that changes: apply updates, watch a stream of them, find again what kept epochs did."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import pyarrow as pa

from bigjoin.defaults import (
    LOCAL,
    BadRowName,
    RunOptions,
    StrategyName,
    SyncName,
    check_numbers,
    check_on_bad_row,
    check_strategy,
    check_sync,
)
from bigjoin.errors import BigjoinError
from bigjoin.index.directory import Index
from bigjoin.languages import Flags
from bigjoin.local.threads import count_here
from bigjoin.notebook import with_progress
from bigjoin.planner import meaning
from bigjoin.query.query import Query
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.storage.place import Place, place_like
from bigjoin.verbs import Verbs

if TYPE_CHECKING:  # most programs change no index, and what does that takes a while to import
    from pyspark.sql import DataFrame, SparkSession

    from bigjoin.spark.sources import TableLike
    from bigjoin.streaming.epoch import Epoch
    from bigjoin.streaming.monitor import Monitor, Observer
    from bigjoin.streaming.update_columns import UpdateColumns
    from bigjoin.streaming.watch_facts import Watch
    from bigjoin.streaming.watched import Watchable, Watched
    from bigjoin.streaming.window import Window


class ChangingVerbs(Verbs):
    """What changes a graph, and tells what that changed in the results of queries."""

    index: Index
    _monitor: tuple[Any, Monitor] | None = None
    """The options of the last `apply`, and the monitor made for them."""
    _is_watched: bool = False
    """Whether a stream changes the index, so that queries have to open it again."""

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    @with_progress("applying updates")
    def apply(
        self,
        updates: TableLike | Watchable,
        queries: Watchable | TableLike | None = None,
        *,
        by: str | Sequence[str] | None = None,
        listing: bool = True,
        order: str | None = None,
        key: str | None = None,
        src: str | None = None,
        dst: str | None = None,
        op: str | None = None,
        on_bad_row: BadRowName = "fail",
        sync: SyncName = "epoch",
        keep_epochs: int | None = None,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Epoch:
        """Apply a table of updates as one epoch, and return how it changed the results of queries.

        Pass the same queries with every epoch: a query that the previous epoch did not have is counted from scratch. You can
        give updates and queries in either order; if both are strings, the first is the path of the updates.

        Examples:
            >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1)], directed=False)
            >>> epoch = graph.apply([{"src": 3, "dst": 1, "op": "-"}], "triangle", unique=True)
            >>> epoch.created, epoch.destroyed, epoch.count
            (0, 1, 0)

        Args:
            updates: A table, or the path of one, with the columns `src`, `dst` and `op` (`+` or `-`, `insert` or `delete`, 1
                or -1). Without a column `op`, every row is an insertion.
            queries: A query, or a mapping of names to queries.
            by: Attributes, properties or expressions to count the matches by, as in `count`: rows that change are reported.
            listing: Whether to list the matches that were created and destroyed. If not, they are only counted, which is
                cheaper.
            order: The column whose order updates follow. Without it, deletions come first, and replacements last.
            key: The column that tells parallel edges apart: an update of an edge is about the one with the same value.
            src: The column of the sources of edges, if it has another name.
            dst: The column of the targets of edges, if it has another name.
            op: The column that says what an update does, if it has another name.
            on_bad_row: What to do with rows that cannot be read: `"fail"` refuses the epoch, `"skip"` leaves them out, and
                counts them as `bad` in the epoch's `fate`.
            sync: When the epoch survives a power failure: `"epoch"`, before it is returned; `"group"`, within a tenth of a
                second, together with others; `"none"`, when you call `flush`. `epoch.durable` says whether it does.
            keep_epochs: How many epochs before the last one stay readable, with `Graph.open(path, epoch=N)` and `replay`. The
                index remembers the number; 0 ends it.
            strategy: Where the queries run; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        from bigjoin.streaming.update_columns import UpdateColumns
        from bigjoin.streaming.watched import watchable

        check_sync(sync)
        check_on_bad_row(on_bad_row, has_output=False)
        columns = UpdateColumns(src, dst, op)
        rows, asked = _updates_and_queries(updates, queries)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        grouped = by if isinstance(by, str | None) else [*by]
        settings = (copy(asked), _copied(flags), grouped, listing, order, key, run, sync, columns, on_bad_row, keep_epochs)
        with self._lock:  # an epoch is one thread's, and the next one begins with the index that it leaves
            if self._monitor is None or self._monitor[0] != settings:
                watched = watchable(asked, flags, listing=listing, by=by)
                self.flush()
                made = monitor_of(
                    self,
                    watched,
                    run,
                    order=order,
                    key=key,
                    sync=sync,
                    columns=columns,
                    on_bad_row=on_bad_row,
                    keep_epochs=keep_epochs,
                )
                self._monitor = settings, made
            monitor = self._monitor[1]
            epoch = monitor.apply(_table(rows, self.index, columns))
            assert epoch is not None
            assert monitor.live is not None
            self.index = monitor.live.index
            return epoch

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    @with_progress("replaying epochs")
    def replay(self, queries: Watchable, *, output: str | Place, first: int, **flags: Unpack[Flags]) -> list[Epoch]:
        """Find again what the last epochs created and destroyed, for queries that may be new, and return these epochs.

        The index has to keep the epochs (`keep_epochs` of `apply` and `watch`). It is not changed, and may be watched
        meanwhile. Of the updates, only those are known that changed the graph.

        Args:
            queries: A query, or a mapping of names to queries.
            output: A new folder for the matches, which are written as `watch` would have written them.
            first: The first epoch to replay. The last is the last one of the index.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        from bigjoin.streaming.replay import Replay
        from bigjoin.streaming.watched import watchable

        check_numbers(first=first)
        watched = watchable(queries, flags, listing=True)
        self.flush()
        initial = partial(self._counted, spark=lambda: self.spark)
        path, verify = self.index.path.absolute(), self.index.verifies
        return Replay(path, watched, place_like(output, path).absolute(), first, initial, verify).run()

    @with_plain_errors()
    def flush(self) -> None:
        """Wait until all epochs that `apply` has returned would survive a power failure."""
        with self._lock:
            if self._monitor is not None:
                self._monitor[1].flush()

    @with_known_keywords(flags=Flags)
    @with_plain_errors()
    @with_progress("counting what is watched")
    def watch(
        self,
        queries: Watchable | DataFrame,
        updates: DataFrame | Watchable,
        *,
        by: str | Sequence[str] | None = None,
        output: str | Place | None = None,
        function: Observer | None = None,
        checkpoint: str | None = None,
        order: str | None = None,
        key: str | None = None,
        src: str | None = None,
        dst: str | None = None,
        op: str | None = None,
        on_bad_row: BadRowName = "fail",
        window: str | float | None = None,
        time: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        adopt: bool = False,
        keep_epochs: int | None = None,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Flags],
    ) -> Watch:
        """Watch queries while a stream of updates changes the graph, and return Spark's streaming query, which is running.

        Each batch of the stream is an epoch. If there is neither `output` nor `function`, only the counts of matches are kept.
        You can give queries and updates in either order. The guide to graphs that change explains the guarantees.

        Besides what every streaming query of Spark has, the result has the `epoch` that was committed last, the `counts` after
        it, the `queries` and the `output`.

        Args:
            queries: A query, or a mapping of names to queries.
            updates: A streaming DataFrame with the columns `src`, `dst` and `op` (`+` or `-`, `insert` or `delete`, 1 or -1).
                Without a column `op`, every row is an insertion. Columns that cannot fit the graph are refused at once.
            by: Attributes, properties or expressions to count the matches by, as in `count`: rows that change are reported.
            output: A folder for the matches that each epoch creates and destroys. They are written exactly once, as
                `epoch=N/*.parquet` (in a folder for each query, if queries have names), and their counts to `_counts.jsonl`.
            function: A function to call with every `Epoch` before it is committed. It is called at least once, each time with
                the same number and rows.
            checkpoint: Where Spark records its progress; by default, inside the output folder.
            order: The column whose order the updates of a batch follow. Without it, deletions come first, and replacements
                last.
            key: The column that tells parallel edges apart: an update of an edge is about the one with the same value.
            src: The column of the sources of edges, if it has another name.
            dst: The column of the targets of edges, if it has another name.
            op: The column that says what an update does, if it has another name.
            on_bad_row: What to do with rows that cannot be read: `"fail"` stops the stream; `"skip"` leaves them out, and
                counts them as `bad`; `"quarantine"` writes them to `_quarantine` in the output folder as well.
            window: How long edges live: a number in the unit of the column `time`, or a duration such as `"7 days"`. An edge
                expires once its time is this far behind the latest.
            time: The column with the times of edges, for `window`.
            trigger: The arguments of Spark's `trigger`.
            adopt: Whether to accept a checkpoint that the index was not watched with before.
            keep_epochs: How many epochs before the last one stay readable, as for `apply`.
            strategy: Where the queries run; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        from bigjoin.streaming.batches import Batches, KnownCounts, as_watch, check_checkpoint, columns_of
        from bigjoin.streaming.update_columns import UpdateColumns
        from bigjoin.streaming.watch_facts import WatchBeginning
        from bigjoin.streaming.watched import watchable
        from bigjoin.streaming.window import Window

        rows, asked = _updates_and_queries(updates, queries)
        if not hasattr(rows, "writeStream"):
            raise BigjoinError(f"updates is a {type(rows).__name__}; give a streaming DataFrame")
        frame = cast("DataFrame", rows)
        if (window is None) != (time is None):
            raise BigjoinError("a window is a length and the column it is about: give both window= and time=")
        self._check_present()
        check_numbers(workers=workers, batch_size=batch_size)
        check_on_bad_row(on_bad_row, has_output=output is not None)
        watched = watchable(asked, flags, listing=output is not None or function is not None, by=by)
        folder = None if output is None else place_like(output, self.index.path).absolute()
        where = checkpoint or (f"{self.index.path}.checkpoint" if folder is None else f"{folder}/_checkpoint")
        self.index = Index.open(self.index.path, verify=self.index.verifies)
        if not adopt:
            check_checkpoint(self.index, where, frame.sparkSession)
        self._spark = self._spark or frame.sparkSession
        monitor = monitor_of(
            self,
            watched,
            RunOptions(strategy=strategy, workers=workers, batch_size=batch_size),
            output=folder,
            order=order,
            key=key,
            window=None if window is None or time is None else Window(time, window),
            columns=UpdateColumns(src, dst, op),
            on_bad_row=on_bad_row,
            keep_epochs=keep_epochs,
        )
        monitor.check(columns_of(frame), "the stream")
        with monitor.writing() as live:  # so that mistakes are errors here, and do not make the stream fail later
            self.index = live.index
        counts = {one.text: monitor.counts[name] for name, one in watched.items()}
        monitor.initial = KnownCounts(self.index.epoch, counts)
        self._is_watched = True
        batches = Batches(monitor, where, adopt=adopt, function=function)
        stream = frame.writeStream.foreachBatch(batches).option("checkpointLocation", where)
        texts = {name: one.text for name, one in watched.items()}
        beginning = WatchBeginning(self.index.path.absolute(), texts, folder, self.index.epoch, dict(monitor.counts))
        return as_watch((stream.trigger(**trigger) if trigger else stream).start(), beginning)

    @abstractmethod
    def _counted(self, index: Index, query: Query, spark: Callable[[], SparkSession]) -> int:
        """Return the number of matches of a query in an index of this graph, without Spark if the index is small."""

    def _strategy_for_updates(self, strategy: StrategyName, watched: Mapping[str, Watched], workers: int | None) -> str:
        """Return the strategy of delta queries: that of the first query, since delta queries take the same steps."""
        check_strategy(strategy)
        first = next((one.query for one in watched.values()), None)
        if strategy != "auto" or first is None:
            return "shared" if strategy == "auto" else strategy
        return self._choose(meaning(first, self.index.base.statistics)[0], self.index.base, strategy, workers=workers)[0]

    def _check_present(self) -> None:
        """Refuse to change a graph as it was after an earlier epoch."""
        if self.index.is_past:
            raise BigjoinError(
                f"this is the graph of {self.index.path} as it was after epoch {self.index.epoch:,}, which nobody can change: "
                "open it without epoch="
            )


def monitor_of(
    graph: ChangingVerbs,
    watched: Mapping[str, Watched],
    run: RunOptions,
    *,
    output: Place | None = None,
    order: str | None = None,
    key: str | None = None,
    window: Window | None = None,
    sync: SyncName = "epoch",
    columns: UpdateColumns | None = None,
    on_bad_row: BadRowName = "fail",
    keep_epochs: int | None = None,
    spark: Callable[[], SparkSession] | None = None,
) -> Monitor:
    """Return the monitor of queries over a graph's index; `spark` is called only if a session is needed."""
    from bigjoin.streaming.monitor import Monitor
    from bigjoin.streaming.update_columns import UpdateColumns

    graph._check_present()
    check_numbers(workers=run["workers"], batch_size=run["batch_size"], keep_epochs=keep_epochs)
    session = spark or (lambda: graph.spark)
    return Monitor(
        graph.index.path.absolute(),
        watched,
        spark=session,
        initial=count_here if run["strategy"] == LOCAL else partial(graph._counted, spark=session),
        output=output,
        order=order,
        key=key,
        window=window,
        strategy=graph._strategy_for_updates(run["strategy"], watched, run["workers"]),
        workers=run["workers"],
        batch_size=run["batch_size"],
        verify=graph.index.verifies,
        sync=sync,
        columns=columns or UpdateColumns(),
        on_bad_row=on_bad_row,
        keep_epochs=keep_epochs,
    )


def _copied(flags: Flags) -> Flags:
    """Return a copy of flags, which nobody changes; what cannot be copied will be refused."""
    try:
        return deepcopy(flags)
    except Exception:  # of a generator, a frame or whatever else was given
        return flags


def _updates_and_queries(
    updates: TableLike | Watchable, queries: Watchable | TableLike | None
) -> tuple[TableLike, Watchable | None]:
    """Return updates and queries, swapped if their types show that they were given in the other order."""
    is_text_before_rows = isinstance(updates, str) and not isinstance(queries, (str, Query, Mapping, type(None)))
    if isinstance(updates, (Query, Mapping)) or is_text_before_rows:
        updates, queries = queries, updates
    return updates, cast("Watchable | None", queries)


def _table(updates: TableLike, index: Index, columns: UpdateColumns) -> pa.Table:
    """Return updates of a graph as an Arrow table."""
    if updates is None:
        raise BigjoinError("there are no updates: give a DataFrame, an Arrow table, a pandas frame or a path")
    from bigjoin.spark.sources import given_rows

    rows = given_rows(updates, "updates", None)
    if isinstance(rows, str):
        from bigjoin.streaming.update_files import read_file

        return read_file(Path(rows), index, columns)
    return rows if isinstance(rows, pa.Table) else rows.toArrow()
