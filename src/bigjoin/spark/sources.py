"""The one place that recognizes what users pass as rows: a DataFrame, an Arrow table, a pandas frame, or a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.errors import BigjoinError
from bigjoin.ingest.memory import from_pandas
from bigjoin.paths import check_regular, is_remote
from bigjoin.spark.read import read_frame
from bigjoin.spark.session import get_session

if TYPE_CHECKING:
    import pandas as pd

TableLike: TypeAlias = "DataFrame | pa.Table | pd.DataFrame | str | Path"
"""Anything that holds rows: a DataFrame, an Arrow table, a pandas frame, or a path."""

Session: TypeAlias = "SparkSession | Callable[[], SparkSession] | None"
"""The session to use, or a function that starts it when one is needed."""


def given_rows(rows: TableLike, what: str, spark: Session) -> DataFrame | pa.Table | str:
    """Return rows as a DataFrame, an Arrow table, or a local path; a remote path becomes a DataFrame."""
    if isinstance(rows, (str, Path)):
        check_regular(rows)
        return read_frame(session_of(spark), str(rows)) if is_remote(str(rows)) else str(rows)
    if isinstance(rows, pa.Table) or hasattr(rows, "mapInArrow"):  # a DataFrame of any kind of session
        return rows
    if hasattr(rows, "dtypes"):
        return from_pandas(rows)
    raise BigjoinError(f"{what} is a {type(rows).__name__}; give a DataFrame, an Arrow table, a pandas frame or a path")


def session_of(spark: Session) -> SparkSession:
    """Return the session to use, and start it if necessary."""
    if spark is None:
        return get_session()
    return spark() if callable(spark) else spark
