"""bigjoin: worst-case optimal subgraph search and multiway joins on Spark.

>>> import bigjoin as bj
>>> graph = bj.Graph("edges.txt", directed=False)
>>> graph.count("triangle", unique=True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bigjoin.defaults import StrategyName
from bigjoin.errors import (
    BigjoinError,
    DisconnectedError,
    GeneratorError,
    IndexFormatError,
    LostError,
    NeedsSparkError,
    OptionError,
    OutputError,
    QueryCancelledError,
    QueryError,
    QueryMemoryError,
    QueryTimeoutError,
    ReadingWarning,
    RowLimitError,
    RowsWarning,
    SessionError,
    SourceError,
    UnknownQueryError,
)

if TYPE_CHECKING:
    from bigjoin.answers import Count, Explanation
    from bigjoin.data_source import register
    from bigjoin.estimates import Estimate
    from bigjoin.graph import Graph
    from bigjoin.indexing import build_index
    from bigjoin.relations import Relations, join, sql
    from bigjoin.streaming.batches import StreamError
    from bigjoin.streaming.epoch import Epoch

__version__ = "0.1.0"
__all__ = [
    "BigjoinError",
    "Count",
    "DisconnectedError",
    "Epoch",
    "Estimate",
    "Explanation",
    "GeneratorError",
    "Graph",
    "IndexFormatError",
    "LostError",
    "NeedsSparkError",
    "OptionError",
    "OutputError",
    "QueryCancelledError",
    "QueryError",
    "QueryMemoryError",
    "QueryTimeoutError",
    "ReadingWarning",
    "Relations",
    "RowLimitError",
    "RowsWarning",
    "SessionError",
    "SourceError",
    "StrategyName",
    "StreamError",
    "UnknownQueryError",
    "__version__",
    "build_index",
    "join",
    "register",
    "sql",
]

_IMPORTED_ON_USE = {
    "Count": "bigjoin.answers",
    "Epoch": "bigjoin.streaming.epoch",
    "Estimate": "bigjoin.estimates",
    "Explanation": "bigjoin.answers",
    "Graph": "bigjoin.graph",
    "Relations": "bigjoin.relations",
    "StreamError": "bigjoin.streaming.batches",
    "build_index": "bigjoin.indexing",
    "join": "bigjoin.relations",
    "register": "bigjoin.data_source",
    "sql": "bigjoin.relations",
}
"""Names from modules that import Spark and numba: that takes a second, for which --help and errors should not wait."""


def __getattr__(name: str) -> Any:
    if name in _IMPORTED_ON_USE:
        return getattr(import_module(_IMPORTED_ON_USE[name]), name)
    raise AttributeError(f"module 'bigjoin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
