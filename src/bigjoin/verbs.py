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
from bigjoin.defaults import LOCAL, ListOptions, RunOptions, StrategyName, check_numbers, listing, run_of
from bigjoin.errors import BigjoinError, NeedsSparkError
from bigjoin.explained import explained
from bigjoin.forecasts import check_rows
from bigjoin.languages import Flags, Text
from bigjoin.limited import Keywords, taken_limits, within_limits
from bigjoin.local.matches import PartFile, arrow_batches, write_table
from bigjoin.local.pieces import publish, stream
from bigjoin.local.threads import Local
from bigjoin.notebook import shown_while_read, with_progress
from bigjoin.output import assemble, check_target, staging
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.quota import Quota, quota
from bigjoin.samples import sample_size
from bigjoin.seeds import with_members_as_seeds
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.held import Held
from bigjoin.spark.own_session import own_session
from bigjoin.spark.session import active_session, common_directory, has_master, is_local
from bigjoin.spark.store_options import place_with_options
from bigjoin.storage import is_on_store
from bigjoin.storage.scratch import scratch_directory
from bigjoin.table_answers import TableAnswers, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bigjoin.drawing.drawing import Drawing


class Verbs(CountingVerbs):
    """The questions that graphs and relations answer."""

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    @with_progress("finding", progress="share")
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
        progress: Callable[[float], None] | None = None,
        **flags: Unpack[Keywords],
    ) -> DataFrame:
        """Return the matches as a Spark DataFrame, with a column for each attribute of the head.

        The columns of a motif are structs, as in GraphFrames. The columns of Cypher and SQL are what the query returns.

        The frame is lazy: each action on it runs the join again. Persist the frame to keep the rows. Since it reads the index,
        use it before `close`. (After a `with` block it still works; then the files stay until Python exits.) To find
        matches without Spark, under the strategy `"local"`, use `arrow` or `write`.

        `"partitioned"`, `"heavy-light"` and `"balanced"` find the matches now. A small result becomes part of the frame, and a
        large one stays in scratch files until `close`, or until Python exits; `scratch_bytes` says how large it is.

        Examples:
            >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1), (3, 4)], directed=False)
            >>> frame = graph.find("q(a, b, c) := edge(a, b), edge(b, c), edge(a, c)", where="a < b and b < c")
            >>> [tuple(row) for row in frame.collect()]
            [(1, 2, 3)]

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            limit: Return at most this many rows. The join stops as soon as it has them.
            sample: Return this many matches, chosen uniformly and without replacement, in no particular order. If there are
                fewer, return all of them. Matches of a sample are found now, at the cost of a count under `"shared"`, and of
                listing all matches under other strategies.
            random_state: The same number chooses the same sample again.
            max_rows: Refuse a query that has more rows than this, by a forecast before it runs, and for certain while it runs.
                Without `max_rows` and `limit`, a forecast of more than 100 million rows is a warning (the environment variable
                BIGJOIN_MANY_ROWS sets another number).
            factorized: Return rows that each stand for many matches. Attributes that are independent of each other, once the
                others are known, become arrays, and the matches of a row are all combinations of their values.
            strategy: Where the query runs; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            progress: A function to call now and then with the share of the work that is done.
            **flags: The keywords that all questions share. See `Graph`.
        """
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        drawn = {"sample": sample, "random_state": random_state}
        options = listing(run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
        if strategy == LOCAL:
            raise BigjoinError("find returns a Spark DataFrame: under the strategy local, use graph.arrow, or write")
        from bigjoin.frame_answers import FrameAnswers

        statement = self._read(query, flags)
        check_rows(statement, options, self._index_for)
        frame = FrameAnswers(self, self._results, progress=progress).rows(statement, options)
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
        """Return the matches as Arrow record batches, which are found while you read them.

        `reader.read_all()` is an Arrow table, `reader.read_pandas()` is a pandas frame, and iterating gives batches. Polars and
        DuckDB read them as well. If you drop the reader, the search ends.

        This works under every strategy. `"local"` needs no Spark. `"auto"` chooses it if there is no session, no master is set
        in the environment, and the work should take no longer than starting Spark.

        Examples:
            >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1), (3, 4)], directed=False)
            >>> graph.arrow("triangle", by="a1", unique=True).read_all().to_pydict()
            {'a1': [1, 2, 3], 'count': [1, 1, 1]}

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            by: Return counts by group, as `count` does, the largest groups first.
            limit: Return at most this many rows, as for `find`.
            sample: Return this many matches, chosen uniformly, as for `find`.
            random_state: The same number chooses the same sample again.
            max_rows: Refuse a query that has more rows than this, as for `find`.
            factorized: Return rows that each stand for many matches, as for `find`.
            strategy: Where the query runs; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            progress: A function to call now and then with the share of the work that is done.
            **flags: The keywords that all questions share. See `Graph`.
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

        def found(report: Callable[[float], None] | None) -> Generator[Path, None, None]:
            return self._pieces(query, ".arrow", options, flags, Quota(**limits), report, may_stay=may_stay, written=written)

        files = shown_while_read("finding", found) if progress is None else found(progress)
        first = next(files, None)
        opening = [] if first is None else list(arrow_batches(first))
        schema = opening[0].schema if opening else written[0]

        def batches() -> Iterator[pa.RecordBatch]:
            with closing(files):
                yield from opening
                for file in files:
                    yield from arrow_batches(file)

        return pa.RecordBatchReader.from_batches(schema, batches())

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    @within_limits
    @with_progress("finding", progress="share")
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
        """Write the matches to one file, and return how many rows it has.

        The suffix of the file says whether it is Parquet, CSV or JSON lines. The tasks write the rows themselves. The file
        appears once it is complete, and replaces an existing one.

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            path: The file to write, or its URL on a store: `.parquet`, `.csv`, `.json`, `.jsonl` or `.ndjson`.
            limit: Write at most this many rows, as for `find`.
            sample: Write this many matches, chosen uniformly, as for `find`.
            random_state: The same number chooses the same sample again.
            max_rows: Refuse a query that has more rows than this, as for `find`.
            factorized: Write rows that each stand for many matches, as for `find`.
            strategy: Where the query runs; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            progress: A function to call now and then with the share of the work that is done.
            **flags: The keywords that all questions share. See `Graph`.
        """
        target = place_with_options(path)
        check_target(target, lists=factorized)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        drawn = {"sample": sample, "random_state": random_state}
        options = listing(run, limit=limit, factorized=factorized, max_rows=max_rows, **drawn)
        statement = self._read(query, flags)
        check_rows(statement, options, self._index_for)
        far = is_on_store(target) and not self._rows_are_local(statement, options) and not is_local(self.spark)
        with staging(target, far=far) as folder:
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
        """Yield files of matches as they are found.

        Each file lasts until you take the next one. To stop the work, close the iterator, or raise an error in `look`. Rows
        that have to be combined first, as for `deduplicate` or optional atoms, all come at the end.

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            suffix: The kind of files: `.csv` (without a header) or `.arrow`.
            limit: Find at most this many rows, as for `find`.
            sample: Find this many matches, chosen uniformly, as for `find`.
            random_state: The same number chooses the same sample again.
            max_rows: Refuse a query that has more rows than this, as for `find`.
            factorized: Find rows that each stand for many matches, as for `find`.
            strategy: Where the query runs; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            progress: A function to call now and then with the share of the work that is done.
            look: A function to call now and then.
            **flags: The keywords that all questions share. See `Graph`.
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
        counting = options["sample"] is not None
        limit = min((n for n in (options["limit"], statement.limit) if n is not None), default=None)
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
                frame = FrameAnswers(self, held, session, progress).rows(statement, options)
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
        """Return the plan of a query, as numbered rules with estimates of their sizes.

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            analyze: Also run the query, and show what each step really did. The figures are `stats` of the explanation.
            delta: Also show the delta queries, which find what updates change.
            strategy: Where the query runs; `"auto"` chooses. See `Graph`.
            workers: The number of tasks or threads, or of owners of keys.
            batch_size: How many matches or proposals to hold at once.
            **flags: The keywords that all questions share. See `Graph`.
        """
        statement = self._read(query, flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)
        asked = self._ask(statement.query, counting=True, may_stay=self.stays_here and needs_spark(statement) is None, **run)
        stats = self.count(statement, **run).stats if analyze else None
        known, chosen = self._index_for(statement.query).statistics, f"{asked.strategy} ({asked.why})"
        blocks = (replace(block, query=with_members_as_seeds(block.query, known)) for block in statement.blocks)
        statement = replace(statement, blocks=tuple(blocks))
        held = {one["relation"]: one["held"] for one in asked.parts[0].seeds}
        planned = explained(statement, known, delta=delta, strategy=chosen, stats=stats, held=held)
        return Explanation.of(planned, stats)

    @with_known_keywords(flags=Keywords)
    @with_plain_errors()
    def show(
        self,
        query: Text,
        limit: int = 12,
        *,
        strategy: StrategyName = "auto",
        workers: int | None = None,
        batch_size: int | None = None,
        **flags: Unpack[Keywords],
    ) -> Drawing:
        """Draw the first matches that a search finds, as small graphs.

        The first of them is the pattern itself. Vertices have their ids, and vertices and edges the properties that the query
        names. Without a session, no Spark is started for a small question.

        Examples:
            >>> graph = bj.Graph([(1, 2), (2, 3), (3, 1), (3, 4)], directed=False)
            >>> graph.show("triangle", unique=True)
            Drawing('triangle')

        Args:
            query: The pattern. A query whose rows are decided by more than patterns (`having`, `order by` with a limit, an
                `EXISTS` of several relationships) is refused.
            limit: How many matches to draw, at most 200.
            strategy: How the matches are found.
            workers: How many tasks, threads or workers find them.
            batch_size: How many matches a task holds at once.
            **flags: `where`, `seeds`, `unique`, `timeout` and the like, which all questions take.
        """
        from bigjoin.shown_matches import matches_drawn

        check_numbers(limit=limit)
        limits = taken_limits(flags)
        run = RunOptions(strategy=strategy, workers=workers, batch_size=batch_size)

        def find(part: Query, most: int) -> pa.Table:
            return self.arrow(part, limit=most, **run, **limits).read_all()

        return matches_drawn(self._read(query, flags), lambda part: self._index_for(part).statistics, find, limit)
