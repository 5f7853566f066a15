"""The one place that recognizes what users pass as rows: a DataFrame, an Arrow table, a pandas frame, or a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa

from bigjoin.errors import BigjoinError, NeedsSparkError, SourceError
from bigjoin.paths import check_regular, is_remote
from bigjoin.reading import JUDGED, ReadingOptions
from bigjoin.spark.session import get_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from bigjoin.ingest.table import Kind

TableLike: TypeAlias = (
    "DataFrame | pa.Table | pd.DataFrame | str | Path | Sequence[Any] | Mapping[str, Any] | np.ndarray[Any, Any] | ArrowStream"
)
"""Anything that holds rows: a DataFrame, a table of Arrow, pandas or another library, Python's or NumPy's rows, or a path."""

Session: TypeAlias = "SparkSession | Callable[[], SparkSession] | None"
"""The session to use, or a function that starts it when one is needed."""


class ArrowStream(Protocol):
    """A table of any library that hands out its rows as Arrow's."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows, as Arrow's C interface defines them."""


def given_rows(rows: TableLike, what: str, spark: Session) -> DataFrame | pa.Table | str:
    """Return rows as a DataFrame, an Arrow table, or a local path; a remote path becomes a DataFrame."""
    return read_rows(rows, what, spark, None, JUDGED)[0]


def read_rows(
    rows: TableLike, what: str, spark: Session, kind: Kind | None, said: ReadingOptions
) -> tuple[DataFrame | pa.Table | str, ReadingOptions]:
    """Return rows as a DataFrame, an Arrow table, or a local path, and what is left to say of them."""
    if isinstance(rows, (str, Path)):
        check_regular(rows)
        if is_remote(str(rows)):
            from bigjoin.spark.read import read_frame

            return read_frame(session_of(spark), str(rows), said)
        return rows if isinstance(rows, str) else str(rows), said
    if hasattr(rows, "mapInArrow"):  # a DataFrame of any kind of session
        return cast("DataFrame", rows), said
    if isinstance(rows, pa.Table):
        return rows, said
    from bigjoin.ingest.memory import from_pandas
    from bigjoin.ingest.python_rows import from_python

    if hasattr(rows, "iloc"):
        return from_pandas(rows), said
    if hasattr(rows, "collect") and hasattr(rows, "collect_schema"):
        raise SourceError(f"{what}: the {type(rows).__name__} is lazy: collect it first, as in frame.collect()")
    if (found := from_python(rows, what, kind, said)) is not None:
        return found
    raise BigjoinError(
        f"{what} is a {type(rows).__name__}; give a DataFrame, an Arrow table, a pandas frame, a list of tuples or of "
        "dictionaries, or a path"
    )


def column_names(rows: object) -> list[str] | None:
    """Return the names of the columns of a table, without reading it; None if it has none, or is a file."""
    if isinstance(rows, Mapping):
        return [str(name) for name in rows]
    if isinstance(rows, Sequence) and not isinstance(rows, str) and rows and isinstance(rows[0], Mapping):
        return [str(name) for name in rows[0]]
    kind = type(rows)  # a frame of Spark Connect has an attribute of any name
    if isinstance(rows, np.ndarray):
        return None if rows.dtype.names is None else list(rows.dtype.names)
    for name in ("column_names", "columns"):
        if hasattr(kind, name) and not callable(found := getattr(rows, name)):
            return [str(column) for column in found]
    return None


def no_session() -> SparkSession:
    """Stand for a session where there is none, as under the strategy local: this process does what tasks do otherwise."""
    raise NeedsSparkError("reading this source")


def session_of(spark: Session) -> SparkSession:
    """Return the session to use, and start it if necessary."""
    if spark is None:
        return get_session()
    return spark() if callable(spark) else spark
