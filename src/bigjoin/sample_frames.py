"""The rows of a sample as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bigjoin.query.query import Query
from bigjoin.query.statement import Statement
from bigjoin.query.statistics import Statistics
from bigjoin.rows import Rows
from bigjoin.spark.arrow_files import frame_of_files
from bigjoin.spark.held import Held
from bigjoin.spark.read import quoted
from bigjoin.spark.session import common_directory
from bigjoin.storage import Place, writable


def queries_of(statement: Statement, statistics: Statistics, spark: SparkSession) -> list[Query]:
    """Return the queries whose matches the rows of a statement are made of, in order."""
    if statement.is_query:
        return [statement.query]
    found: list[Query] = []

    def note(query: Query) -> DataFrame:
        found.append(query)
        return spark.range(0).select(*(F.lit(None).alias(name) for name in query.columns))

    Rows(note, statistics).of(statement)
    return found


def frame_of(tables: Sequence[pa.Table], columns: Sequence[str], path: Place, spark: SparkSession, held: Held) -> DataFrame:
    """Return a DataFrame of the rows of tables, NULL where a table has no such column."""
    folder = common_directory(spark, path, "sample")

    def write() -> tuple[list[Place], pa.Schema]:
        table = pa.concat_tables(tables, promote_options="permissive").select(list(columns))
        with writable(folder / "rows.arrow") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1 << 16)
        return [folder / "rows.arrow"], table.schema

    return frame_of_files(spark, folder, held, 1, write)


def sample_of_rows(frame: DataFrame, size: int, state: int) -> DataFrame:
    """Return rows that are chosen uniformly from those of a frame, no two of which are equal: by a hash of each."""
    return frame.orderBy(F.xxhash64(F.lit(state), *map(quoted, frame.columns))).limit(size)
