"""What can be asked: relations in an index, the session that answers, and what a text means there."""

from __future__ import annotations

import threading
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from bigjoin.defaults import LOCAL, ListOptions, RunOptions, StrategyName, check_numbers, check_strategy, run_of
from bigjoin.elements import check_relations, flat_columns
from bigjoin.errors import BigjoinError, QueryError
from bigjoin.index.directory import Index
from bigjoin.index.overlay import AskedIndex
from bigjoin.joins.bind import bind
from bigjoin.languages import Flags, Text, read
from bigjoin.limited import RunningQueries
from bigjoin.local.kept import Kept
from bigjoin.local.strategy import Ask, Strategy, strategy_named
from bigjoin.local.threads import Local
from bigjoin.local.worth import SPARK_SECONDS, counting_seconds, listing_seconds
from bigjoin.planner import count_plan, drops_duplicates, meaning, plan
from bigjoin.planner.draft import Draft
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Property
from bigjoin.quota import quota
from bigjoin.seeds import overlaid, seeded, with_members_as_seeds
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.choose import choose
from bigjoin.spark.held import Held
from bigjoin.spark.session import active_session, get_session, time_zone, zone_of_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.spark.strategy import SparkStrategy


HIDDEN_NAMES = frozenset(
    {
        *("completed", "flat_columns", "group_table", "stay_here", "stays_here", "why_spark", "zone"),  # for the command line
        *("over",),  # for this library
        *("edges", "vertices"),  # old names of a graph's figures
    }
)
"""What `dir`, and so the Tab key, leaves out of a graph or of relations."""


class ShowsPublicNames(ABCMeta):
    """The kind of classes of which `dir` shows public names: IPython looks at the class of an object, too."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name not in HIDDEN_NAMES]


class Queryable(metaclass=ShowsPublicNames):
    """Relations in an index, ready for queries."""

    _spark: SparkSession | None
    _lock: threading.RLock
    """Held while an index is made or changed, so that only one thread does that."""
    _zone_here: str = "UTC"
    """The time zone if there is no session."""
    stays_here: bool = False
    """Whether `auto` answers in this process what takes no longer there than Spark's start: so does the command line."""
    why_spark: str | None = None
    """What says that questions are for a Spark somewhere, and not for this process, if something does."""
    _start: Callable[[], SparkSession] = staticmethod(get_session)
    """Gives the session, if one is needed and none was given."""
    _has_frames: bool = False
    """Whether `find` has given out a frame, which may still read the files after a `with` block."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = super().__new__(cls)
        self._lock = threading.RLock()
        self._begin()
        return self

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in HIDDEN_NAMES]

    def _begin(self) -> None:
        """Start with what belongs to one session."""
        self._strategies: dict[str, SparkStrategy] = {}
        """The strategies that have been used; they keep what they have planned in this session."""
        self._results = Held()
        """The files that frames of results read."""
        self._count_plans = Kept[tuple[str, str], CountPlan]()
        """By an index and a query in it: the plans of counts in this process."""
        self._running = RunningQueries()

    @abstractmethod
    def close(self) -> None:
        """Stop the queries that other threads run, and remove the files of results and of the scratch index."""

    def __exit__(self, *_: object) -> None:
        if not self._has_frames:
            self.close()

    @abstractmethod
    def _index_for(self, query: Query) -> Index:
        """Return an index with the relations that a query reads."""

    @abstractmethod
    def _number_of_rows(self, statement: Statement, run: RunOptions) -> int:
        """Return how many rows a statement has."""

    @abstractmethod
    def _complete(self, statement: Statement) -> Statement:
        """Return what a SELECT means, whose tables these relations are."""

    def _read(self, query: Text, flags: Flags) -> Statement:
        """Return what a query asks for, if these relations can answer it."""
        seeds = flags.pop("seeds", None)
        statement = read(query, **flags)
        if statement.unread is not None:
            if seeds is not None:
                raise QueryError("seeds are not for SQL", hint="give them as a table, and join it")
            statement = self._complete(statement)
        if seeds is not None:
            statement = seeded(statement, seeds, lambda: self.spark)
        if statement.has_structs:
            check_relations(statement, self._index_for(statement.query).statistics)
        return statement.in_zone(lambda: self.zone)

    @property
    def zone(self) -> str:
        """The time zone of times and dates: that of the session."""
        session = self._spark or active_session()
        return self._zone_here if session is None else time_zone(session)

    def stay_here(self, start: Callable[[], SparkSession], *, stays: bool = True) -> None:
        """Have `auto` answer in this process what takes no longer there than Spark's start; `start` gives a session.

        Without `stays`, only say where the session comes from.
        """
        self.stays_here, self._start, self._zone_here = stays, start, zone_of_machine()

    @property
    def spark(self) -> SparkSession:
        """The session that runs queries. If none was given and none is active, a local one starts now."""
        if self._spark is None:
            with quota().paused():  # what Spark takes to start is not the query's time
                self._spark = self._start()
        return self._spark

    @property
    def scratch_bytes(self) -> int:
        """How many bytes of scratch files the results of `find` keep until `close`."""
        return self._results.bytes

    @with_known_keywords(flags=Flags)
    def plan(self, query: Text, **flags: Unpack[Flags]) -> Plan:
        """Return the plan that finds the matches of a query, as a value.

        A query that does not fit the relations is a `QueryError`.

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        plans = []
        for block in self._read(query, flags).everything:
            index = self._index_for(block.query)
            for part in meaning(block.query, index.statistics):
                plans.append(plan(part))
                _ = bind(plans[-1], overlaid(index, part)).columns  # where a head may turn out not to fit
        return plans[0]

    def completed(self, statement: Statement) -> Statement:
        """Return a statement with its queries: a SELECT has none until its tables are known."""
        return self._read(statement, {})

    @with_known_keywords(flags=Flags)
    def flat_columns(self, query: Text, **flags: Unpack[Flags]) -> list[str]:
        """Return the columns of a query's rows as a CSV file has them: a struct is a column for each of its fields."""
        statement = self._read(query, flags)
        return flat_columns(statement, self._index_for(statement.query).statistics)

    @with_known_keywords(flags=Flags)
    def statistics_for(self, query: Text, **flags: Unpack[Flags]) -> Statistics:
        """Return what the planner knows about the relations that a query reads: sizes and lengths of lists.

        Args:
            query: A name, a rule, a motif, Cypher or SQL.
            **flags: What counts as a match, and conditions: `distinct`, `unique`, `induced`, `where` and so on.
        """
        return self._index_for(self._read(query, flags).query).statistics

    def _ask_statement(self, statement: Statement, options: ListOptions, *, may_stay: bool | None = None) -> AskedQuery:
        """Do the same as `_ask_listed` for a statement that is a query, perhaps with a limit of its own."""
        limits = [n for n in (options["limit"], statement.limit) if n is not None]
        check_numbers(limit=options["limit"])
        return self._ask_listed(statement.query, {**options, "limit": min(limits, default=None)}, may_stay=may_stay)

    def _ask_listed(self, query: Query, options: ListOptions, *, may_stay: bool | None = None) -> AskedQuery:
        """Do the same as `_ask` for a query whose matches are listed; refuse heads that make this impossible."""
        _check_head(query, factorized=options["factorized"])
        run = run_of(options)
        return self._ask(
            query,
            factorized=options["factorized"],
            limit=options["limit"],
            max_rows=options["max_rows"],
            may_stay=may_stay,
            **run,
        )

    def _ask(
        self,
        query: Query,
        *,
        strategy: StrategyName,
        workers: int | None,
        batch_size: int | None,
        limit: int | None = None,
        max_rows: int | None = None,
        factorized: bool = False,
        counting: bool = False,
        may_stay: bool | None = None,
    ) -> AskedQuery:
        """Return what a query means in an index, and the strategy that will answer it.

        `counting` says that matches are not listed. `may_stay` says whether `auto` may answer in this process.
        """
        check_strategy(strategy, factorized=factorized)
        check_numbers(workers=workers, batch_size=batch_size, limit=limit)
        index = self._index_for(query)
        if index.is_gone:
            raise BigjoinError("this graph is closed, and its index is gone; make it again")
        parts = meaning(with_members_as_seeds(query, index.statistics), index.statistics)
        indices = [overlaid(index, part) for part in parts]
        is_distinct = drops_duplicates(query, parts, index.statistics)
        if factorized and (len(parts) > 1 or parts[0].query.projects):
            raise QueryError("factorized matches need one query with every attribute in its head", hint="name all edges, too")
        wanted, most = None if is_distinct else limit, None if is_distinct or len(parts) > 1 else max_rows
        asks = tuple(
            Ask(part, mine, workers, batch_size, wanted, factorized, most) for part, mine in zip(parts, indices, strict=True)
        )
        largest = max(asks, key=lambda ask: len(ask.query.positive))
        chosen, why = self._choose(largest.meaning, largest.index, strategy, workers=workers, factorized=factorized)
        if strategy == "auto" and chosen == "shared" and (self.stays_here if may_stay is None else may_stay):
            asks = self._with_count_plans(asks) if counting else asks
            seconds = sum(_seconds(ask) for ask in asks)
            if seconds <= SPARK_SECONDS:  # a cost rather than a sample has told most of them, and costs are high
                about = f"at most about {seconds:.1f} s of work" if seconds >= 0.1 else "less than 0.1 s of work"
                chosen, why = LOCAL, f"{about}, and Spark takes {SPARK_SECONDS:g} s to start"
            else:
                why = f"about {seconds:.2g} s of work, more than the {SPARK_SECONDS:g} s that Spark takes to start; {why}"
        if counting and chosen == LOCAL and len(asks) == 1:  # several may be counted together, by another plan
            asks = self._with_count_plans(asks)
        return AskedQuery(query, asks, chosen, why, limit, is_distinct)

    def _with_count_plans(self, asks: tuple[Ask, ...]) -> tuple[Ask, ...]:
        """Return questions with the plans that count their matches, which are made once for as long as the index stays."""

        def counted(ask: Ask) -> CountPlan:
            asked = (ask.index.identity, repr(ask.queries))  # text, as 1 == True in Python
            return self._count_plans.get(asked) or self._count_plans.keep(asked, count_plan(ask.meaning))

        return tuple(ask if ask.counted else replace(ask, counted=counted(ask)) for ask in asks)

    def _choose(
        self, part: Draft, index: AskedIndex, strategy: StrategyName, *, workers: int | None, factorized: bool = False
    ) -> tuple[StrategyName, str]:
        """Return the strategy for a query, and the reason."""
        if strategy != "auto":
            return strategy, "as asked for"
        if factorized:
            return "shared", "which alone finds factorized matches with Spark"
        session = self._spark or active_session()  # none is started only to choose
        chosen, why = choose(session, index, partial(plan, part), workers)
        return chosen, why if self.why_spark is None else f"with Spark, as {self.why_spark}; {why}"

    def _strategy(self, asked: AskedQuery, session: SparkSession | None = None) -> Strategy:
        """Return the strategy that answers a query, in the user's session or in another, or without any."""
        return Local() if asked.strategy == LOCAL else self._spark_strategy(asked, session)

    def _spark_strategy(self, asked: AskedQuery, session: SparkSession | None = None) -> SparkStrategy:
        """Return the strategy that answers a query with DataFrames."""
        named = cast("type[SparkStrategy]", strategy_named(asked.strategy))
        if session is not None and session is not self.spark:
            return named(session)
        if asked.strategy not in self._strategies:
            self._strategies.setdefault(asked.strategy, named(self.spark))
        return self._strategies[asked.strategy]


@dataclass(frozen=True)
class AskedQuery:
    """A query, the queries that it is the sum of in an index, and the strategy that answers them."""

    query: Query
    parts: tuple[Ask, ...]
    strategy: StrategyName
    why: str
    limit: int | None
    is_distinct: bool
    """Whether equal rows count once."""


def _seconds(ask: Ask) -> float:
    """Return about how many seconds a question takes in this process."""
    return listing_seconds(ask) if ask.counted is None else counting_seconds(ask, ask.counted)


def _check_head(query: Query, *, factorized: bool) -> None:
    """Refuse heads with which matches cannot be listed."""
    if not query.head:
        raise QueryError(f"the head of {query.name!r} is empty, so matches have no columns", hint="list attributes, or count")
    if factorized and not all(isinstance(term, str | Property) for term in query.head):
        raise QueryError("factorized matches have no computed columns", hint="list attributes and properties")
    if factorized and (query.projects or query.optional):
        hint = f"list every attribute: {query.name}({', '.join(query.attributes)})"
        raise QueryError("factorized matches need a head with every attribute, and no optional atoms", hint=hint)
