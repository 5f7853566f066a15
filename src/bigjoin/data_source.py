"""Spark's data source `bigjoin`: the matches of a query in an index, as a table that SQL can read.

    spark.read.format("bigjoin").option("query", "triangle").option("unique", True).load("graph.index")
    CREATE TEMPORARY VIEW triangles USING bigjoin OPTIONS (query 'triangle', unique 'true', path '/data/graph.index')

Spark asks for the columns, and later for the partitions, in Python processes of its own, where there is no session. The tasks
are those of `shared`. Conditions of SQL do not become part of the query: Spark can pass them on (`pushFilters`), but remembers
them with the view, so that the next query over the same view would get the same rows. The option `where` is for that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import datasource as api
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from bigjoin.defaults import ListOptions, RunOptions, listing
from bigjoin.errors import BigjoinError, OptionError, did_you_mean
from bigjoin.graph import Graph
from bigjoin.languages import Flags, parameter_value, read
from bigjoin.match_table import MatchTable
from bigjoin.paths import is_remote
from bigjoin.query.flags import FLAGS
from bigjoin.query.statement import Statement
from bigjoin.quota import Quota, within
from bigjoin.spark.frames import arrow_schema
from bigjoin.spark.session import parallelism, time_zone
from bigjoin.streaming.compaction import compact_in_place

SOURCE_FORMAT = "bigjoin"
"""The name of the data source."""

PARAMETER_PREFIX = "param."
"""What options begin with that are parameters of a Cypher text."""

_NUMBERS = ("limit", "workers", "batch_size")


def register(spark: SparkSession) -> None:
    """Register the data source `bigjoin` in a session, so that `spark.read.format("bigjoin")` works.

    If bigjoin is installed in the Python environment of a session, Spark finds the data source by itself. Registering it also
    tells it the time zone of the session (otherwise UTC), and how many tasks the cluster can run at once (otherwise as many as
    the driver has cores). Spark 4.0 keeps the source that it has found, and is not told.

    Args:
        spark: The session.
    """
    told = {"task_count": parallelism(spark), "zone": time_zone(spark)}
    try:
        spark.dataSource.register(type("RegisteredPatterns", (PatternSource,), told))
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark 4.0 keeps what it has found by itself
            raise


class PatternSource(api.DataSource):
    """The matches of a query, as a table."""

    task_count: ClassVar[int | None] = None
    """Partitions, unless the option `workers` says how many; None means as many as this machine has cores."""
    zone: ClassVar[str] = "UTC"

    @classmethod
    def name(cls) -> str:
        """Return what follows USING, and what `format` takes."""
        return SOURCE_FORMAT

    def schema(self) -> StructType:
        """Return the columns of the query."""
        with _in_one_sentence():
            return from_arrow_schema(self._question().table().schema)

    def reader(self, schema: StructType) -> api.DataSourceReader:
        """Return what reads the matches."""
        with _in_one_sentence():
            asked = self._question()
            table = asked.table()
            for name in schema.names:
                if name not in table.schema.names:
                    hint = f"its columns are {', '.join(table.schema.names)}"
                    raise OptionError(f"the query has no column {name!r}; {hint}")
            return PatternReader(table, schema, asked.numbers)

    def _question(self) -> Question:
        tasks = self.task_count or os.cpu_count() or 1
        return question(dict(self.options), self.zone, tasks)


@dataclass(frozen=True)
class Question:
    """What the options of a table ask for."""

    path: str
    statement: Statement
    options: ListOptions
    tasks: int
    numbers: tuple[float | None, int | None] = (None, None)
    """Seconds and bytes that each task may take."""

    def graph(self) -> Graph:
        """Return the graph; updates that are not in its tries yet are brought there first."""
        graph = Graph.open(self.path)
        try:
            graph.index = compact_in_place(graph.index)
        except (BigjoinError, OSError) as error:
            message = f"the index {self.path} has updates that are not compacted, and cannot be compacted now"
            raise BigjoinError(f"{message} ({error}): query it with a Graph") from None
        return graph

    def table(self) -> MatchTable:
        """Return the matches, ready to be read."""
        return MatchTable.of(self.graph(), self.statement, self.options, self.tasks)


class PatternReader(api.DataSourceReader):
    """Reads matches: a partition is a task of `shared`.

    Spark pickles the reader for its tasks before it asks for partitions, so the table is known from the beginning.
    """

    def __init__(self, table: MatchTable, schema: StructType, numbers: tuple[float | None, int | None]) -> None:
        self.table, self.schema, self.numbers = table, schema, numbers

    def partitions(self) -> list[api.InputPartition]:
        """Return the tasks."""
        return [api.InputPartition(task) for task in self.table.tasks()]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the matches of a task."""
        part, task = partition.value
        with within(Quota(*self.numbers)):
            yield from self.table.batches(part, task, arrow_schema(self.schema))


def question(given: Mapping[str, str], zone: str, tasks: int) -> Question:
    """Return what options ask for; raise an error for those that do not exist or make no sense."""
    left = {key.casefold(): value for key, value in given.items()}
    known = ["query", "path", "where", "select", *(flag.name for flag in FLAGS), *_NUMBERS, "factorized", "timeout", "memory"]

    def take(name: str, read: Callable[[str, str], Any], default: Any = None) -> Any:
        return read(name, left.pop(name)) if name in left else default

    path, text, strategy = (take(name, _text, "") for name in ("path", "query", "strategy"))
    parameters = {
        name: parameter_value(name, left.pop(PARAMETER_PREFIX + name))
        for name in [key.removeprefix(PARAMETER_PREFIX) for key in left if key.startswith(PARAMETER_PREFIX)]
    }
    flags = Flags(where=take("where", _text), select=take("select", _text), parameters=parameters or None)
    flags.update({flag.name: take(flag.name, _truth, False) for flag in FLAGS})  # type: ignore[typeddict-item]
    limit, workers, batch_size = (take(name, _whole_number) for name in _NUMBERS)
    is_factorized, timeout, memory = take("factorized", _truth, False), take("timeout", _number), take("memory", _text)
    for key in left:
        hint = did_you_mean(key, known) or f"it has {', '.join(known)} and {PARAMETER_PREFIX}NAME"
        raise OptionError(f"the data source bigjoin has no option {key!r}; {hint}")
    if not text.strip():
        raise OptionError("the data source bigjoin needs a query: option('query', 'triangle'), or OPTIONS (query 'triangle')")
    if not path:
        raise OptionError("the data source bigjoin needs an index: load('graph.index'), or OPTIONS (path 'graph.index')")
    if is_remote(path.removeprefix("file://")):
        raise OptionError(f"{path} is a URL, and an index is a directory that all executors see: name its path")
    if strategy not in ("", "auto", "shared"):
        raise OptionError(f"the data source bigjoin is always read by the strategy shared, not {strategy!r}: leave it out")
    numbers = Quota(timeout, memory).numbers  # refuses what makes no sense
    run = RunOptions(strategy="shared", workers=workers, batch_size=batch_size)
    options = listing(run, limit=limit, factorized=is_factorized)
    statement = read(text, **flags).in_zone(lambda: zone)
    return Question(str(Path(path.removeprefix("file:")).absolute()), statement, options, workers or tasks, numbers)


def _text(_: str, value: str) -> str:
    return value


def _truth(name: str, value: str) -> bool:
    if value.casefold() not in ("true", "false"):
        raise OptionError(f"the option {name} is {value!r}; it is true or false")
    return value.casefold() == "true"


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise OptionError(f"the option {name} is {value!r}; it must be a number") from None


def _whole_number(name: str, value: str) -> int:
    number = _number(name, value)
    if not number.is_integer():
        raise OptionError(f"the option {name} is {value!r}; it must be a whole number")
    return int(number)


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Have Spark show an error of ours without a traceback: it starts a Python process for each question, which ends then."""
    try:
        yield
    except BigjoinError:
        if any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
