"""The verbs: those that count, and find, write, explain, over relations in an index. Graphs and relations share them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from bigjoin.answers import Explanation
from bigjoin.counting_verbs import CountingVerbs
from bigjoin.defaults import LOCAL, ListOptions, RunOptions, StrategyName, listing, run_of
from bigjoin.errors import BigjoinError, NeedsSparkError
from bigjoin.explain import explain
from bigjoin.forecasts import check_rows
from bigjoin.languages import Flags, Text
from bigjoin.limited import Keywords, taken_limits, within_limits
from bigjoin.local.matches import PartFile, arrow_batches, write_table
from bigjoin.local.pieces import publish, stream
from bigjoin.local.threads import Local
from bigjoin.output import assemble, check_target, staging
from bigjoin.query.statement import Statement
from bigjoin.quota import Quota, quota
from bigjoin.samples import sample_size
from bigjoin.seeds import with_members_as_seeds
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.held import Held
from bigjoin.spark.own_session import own_session
from bigjoin.spark.session import active_session, common_directory, has_master
from bigjoin.storage.scratch import scratch_directory
from bigjoin.table_answers import TableAnswers, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Verbs(CountingVerbs):
    """Relations in an index, ready for queries.

    Every verb takes `seeds`, which restrict attributes to ids: a dictionary of attributes and lists of ids restricts each
    attribute alone, and a table (or its path) restricts those that its columns name jointly, row by row. They are a filter,
    and the join starts from them.
    """

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    def find(
        self,
        query: Text,
        *,
        limit: int | None = None,
        sample: int | None = None,
        random_state: int | None = None,
        max_rows: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Keywords],
    ) -> DataFrame:
        """Return the matches as a Spark DataFrame with a column for each attribute of the head.

        If it is factorized, a row stands for many matches: attributes that are independent once the others are bound are
        arrays, and the matches of a row are all combinations of their values. A limit then counts rows.

        With `sample`, return so many matches, chosen uniformly and without replacement, in no order; all if there are fewer.
        They are found now: at the cost of a count under `shared`, of a listing otherwise. The same `random_state` gives the
        same matches.

        With `max_rows`, a query is refused that has more rows, by a forecast before it runs and for certain while it does. With
        neither that nor a limit, more than 100 million rows are worth a warning (BIGJOIN_MANY_ROWS sets another number).

        The columns of a motif are structs, as in GraphFrames; those of Cypher are what it returns.

        The frame is lazy: each action runs the join again (persist the frame to keep the rows) and reads this index, so use it
        before `close`; after a `with` block it still works, and files stay until Python exits. With a limit, the join stops as
        soon as it has that many matches. Strategies that work in rounds are different, as they find the matches now: a small
        result is part of the frame, and a large one lies in scratch files until `close`, or until Python exits. `scratch_bytes`
        says how much that is.
        """
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        drawn = {"sample": sample, "random_state": random_state}
        options = listing(run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
        if strategy == LOCAL:
            raise BigjoinError("find returns a Spark DataFrame: under the strategy local, use graph.arrow, or write")
        from bigjoin.frame_answers import FrameAnswers

        statement = self._read(query, flags)
        check_rows(statement, options, self._index_for)
        frame = FrameAnswers(self, self._results).rows(statement, options)
        self._has_frames = True
        return frame

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    def arrow(
        self,
        query: Text,
        *,
        by: str | Sequence[str] | None = None,
        limit: int | None = None,
        sample: int | None = None,
        random_state: int | None = None,
        max_rows: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Keywords],
    ) -> pa.RecordBatchReader:
        """Return the matches as Arrow record batches, which are found while they are read, under any strategy.

        Polars, pandas, DuckDB and NetworkX read them: `reader.read_all()` is a table, `reader.read_pandas()` a frame, and
        iterating gives batches. Options are those of `find`. Forgetting the reader ends the search.

        With `by`, return the number of matches for each value of attributes, as `count` does, the largest groups first.

        Under `local` no Spark is needed. `auto` chooses that if there is no session, no master is set in the environment, and
        the work should take no longer than a start of Spark.
        """
        may_stay = self.stays_here or ((self._spark or active_session()) is None and not has_master())
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        if by is not None:
            given = {"limit": limit, "sample": sample, "max_rows": max_rows, "factorized": factorized or None}
            if unfit := [name for name, value in given.items() if value is not None]:
                raise BigjoinError(f"{unfit[0]} is for matches, and by= gives groups; cut the table of groups instead")
            table = self.group_table(query, by, progress=progress, may_stay=may_stay, **run, **flags)
            if table is None:
                from bigjoin.group_frames import in_order

                table = in_order(self.count(query, by=by, progress=progress, **run, **flags)).toArrow()
            return table.to_reader()
        limits = taken_limits(flags)
        drawn = {"sample": sample, "random_state": random_state}
        options = listing(run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
        written: list[pa.Schema] = []
        files = self._pieces(query, ".arrow", options, flags, Quota(**limits), progress, may_stay=may_stay, written=written)
        first = next(files, None)
        opening = [] if first is None else list(arrow_batches(str(first)))
        schema = opening[0].schema if opening else written[0]

        def batches() -> Iterator[pa.RecordBatch]:
            with closing(files):
                yield from opening
                for file in files:
                    yield from arrow_batches(str(file))

        return pa.RecordBatchReader.from_batches(schema, batches())

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    def write(
        self,
        query: Text,
        path: str | Path,
        *,
        limit: int | None = None,
        sample: int | None = None,
        random_state: int | None = None,
        max_rows: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Keywords],
    ) -> int:
        """Write the matches to one Parquet, CSV or JSON lines file, by its suffix, and return how many rows it has.

        The tasks write the rows themselves. The file appears when it is complete, and replaces an existing one.
        """
        target = Path(path)
        check_target(target, lists=factorized)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        drawn = {"sample": sample, "random_state": random_state}
        options = listing(run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
        statement = self._read(query, flags)
        check_rows(statement, options, self._index_for)
        with staging(target) as folder:
            parts, columns = self._write(statement, options, folder, target.suffix.lower(), progress)
            assemble([file for file, _ in parts], columns, target, folder)
        return sum(rows for _, rows in parts)

    @with_known_keywords(flags=Keywords)
    def pieces(
        self,
        query: Text,
        suffix: str,
        *,
        limit: int | None = None,
        sample: int | None = None,
        random_state: int | None = None,
        max_rows: int | None = None,
        factorized: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[float], None] | None = None,
        look: Callable[[], None] = lambda: None,
        **flags: Unpack[Keywords],
    ) -> Generator[Path, None, None]:
        """Give files of matches as they are found: CSV without a header, or Arrow. Each file lasts until the next is taken.

        Close the iterator to stop the work, or raise an error in `look`, which is called now and then. Rows that have to be
        combined first, for `deduplicate` or optional atoms, all come at the end.
        """
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        drawn = {"sample": sample, "random_state": random_state}
        options = listing(run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
        limits = Quota(**taken_limits(flags))
        return self._pieces(query, suffix, options, flags, limits, progress, look=look)

    def _pieces(
        self,
        query: Text,
        suffix: str,
        options: ListOptions,
        flags: Flags,
        limits: Quota,
        progress: Callable[[float], None] | None,
        *,
        look: Callable[[], None] = lambda: None,
        may_stay: bool | None = None,
        written: list[pa.Schema] | None = None,
    ) -> Generator[Path, None, None]:
        """Do the same as `pieces`; in the end, the columns of the rows are added to `written`."""
        statement = self._read(query, flags)
        is_local = self._rows_are_local(statement, options, may_stay=may_stay)
        if sample_size(statement, options) is None and statement.is_query:
            self._ask_statement(statement, options, may_stay=is_local)  # refuse it before anything runs
        check_rows(statement, options, self._index_for)
        beside = self._index_for(statement.query).path
        folder = scratch_directory("found") if is_local else common_directory(self.spark, beside, "found")

        def work() -> None:
            with self._running.including(limits):
                _, columns = self._write(statement, options, folder, suffix, progress, in_pieces=True, is_local=is_local)
                if written is not None:
                    written.append(columns)

        return stream(folder, work, look, limits)

    def _rows_are_local(self, statement: Statement, options: ListOptions, *, may_stay: bool | None = None) -> bool:
        limit, counting = options["limit"], options["sample"] is not None
        return self._is_local(statement, run_of(options), limit=limit, counting=counting, may_stay=may_stay)

    def _write(
        self,
        statement: Statement,
        options: ListOptions,
        folder: Path,
        suffix: str,
        progress: Callable[[float], None] | None,
        *,
        in_pieces: bool = False,
        is_local: bool | None = None,
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the rows to files in a folder, and return the files with their rows, and the columns; publish pieces."""
        if self._rows_are_local(statement, options) if is_local is None else is_local:
            try:
                return self._write_here(statement, options, folder, suffix, progress, in_pieces=in_pieces)
            except NeedsSparkError:
                if options["strategy"] == LOCAL:
                    raise
        with own_session(self.spark) as session:
            if statement.is_query and options["sample"] is None:
                asked = self._ask_statement(statement, options, may_stay=False)
                strategy = self._spark_strategy(asked, session)
                first, *others = strategy.together(asked.parts, counting=False)
                if not (others or asked.is_distinct):
                    bounded = replace(first, max_rows=options["max_rows"])  # lengths of a path run, and are bounded, together
                    return strategy.write(bounded, folder, suffix, progress, in_pieces=in_pieces)
            from bigjoin.frame_answers import FrameAnswers
            from bigjoin.rows import flat as flat_frame
            from bigjoin.spark.frames import write_frame

            with Held() as held:
                frame = FrameAnswers(self, held, session).rows(statement, options)
                frame = frame.coalesce(1) if statement.order else frame  # the parts of an order stay in it
                frame = flat_frame(frame) if suffix == ".csv" else frame
                parts, columns = write_frame(frame, folder, suffix)
        if in_pieces:
            publish([file for file, _ in parts], folder)
        return parts, columns

    def _write_here(
        self,
        statement: Statement,
        options: ListOptions,
        folder: Path,
        suffix: str,
        progress: Callable[[float], None] | None,
        *,
        in_pieces: bool,
    ) -> tuple[list[PartFile], pa.Schema]:
        """Write the rows to files in a folder, from threads of this process."""
        if statement.is_query and options["sample"] is None:
            asked, local = self._ask_statement(statement, {**options, "strategy": LOCAL}), Local()
            first, *others = local.together(asked.parts, counting=False)
            if not (others or asked.is_distinct):
                bounded = replace(first, max_rows=options["max_rows"])
                return local.write(bounded, folder, suffix, progress, in_pieces=in_pieces)
        table = TableAnswers(self).rows(statement, options)
        table = table.flatten() if suffix == ".csv" else table
        quota().check()
        parts = write_table(table, folder, suffix)
        if in_pieces:
            publish([file for file, _ in parts], folder)
        return parts, table.schema

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    def explain(
        self,
        query: Text,
        *,
        analyze: bool = False,
        delta: bool = False,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Keywords],
    ) -> Explanation:
        """Return the plan as numbered rules with estimates and, with `analyze`, with what a run did (also as `stats`).

        With `delta`, include the delta queries that keep matches up to date while updates change the relations.
        """
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        asked = self._ask(statement.query, counting=True, may_stay=self.stays_here and needs_spark(statement) is None, **run)
        stats = self.count(statement, **run).stats if analyze else None
        known, chosen = self._index_for(statement.query).statistics, f"{asked.strategy} ({asked.why})"
        planned = (replace(block, query=with_members_as_seeds(block.query, known)) for block in statement.blocks)
        statement = replace(statement, blocks=tuple(planned))
        held = {one["relation"]: one["held"] for one in asked.parts[0].seeds}
        text = Explanation(explain(statement, known, delta=delta, strategy=chosen, stats=stats, held=held))
        text.stats = stats
        return text
