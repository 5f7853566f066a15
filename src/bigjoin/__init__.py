"""bigjoin finds, counts and watches patterns in large graphs, with worst-case optimal joins, on Spark or without it.

>>> import bigjoin as bj
>>> graph = bj.Graph("edges.txt", directed=False)
>>> graph.count("triangle", unique=True)

Public are the names below, `bigjoin.graphframes` (the drop-in) and `bigjoin.generators` (graphs to try things on).
"""

from typing import TYPE_CHECKING

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
    from bigjoin.answers import Count, Explanation, Stats
    from bigjoin.data_source import register
    from bigjoin.drawing.draw import draw
    from bigjoin.drawing.drawing import Drawing
    from bigjoin.estimates import Estimate
    from bigjoin.graph import Graph
    from bigjoin.index.directory import Index
    from bigjoin.indexing import build_index
    from bigjoin.query.query import Query
    from bigjoin.relations import Relations, join, sql
    from bigjoin.spark.session import get_session as session
    from bigjoin.streaming.batches import StreamError
    from bigjoin.streaming.epoch import Epoch
    from bigjoin.streaming.read_output import WatchedEpochs, read_output

__version__ = "0.2.0"
__all__ = [
    "BigjoinError",
    "Count",
    "DisconnectedError",
    "Drawing",
    "Epoch",
    "Estimate",
    "Explanation",
    "GeneratorError",
    "Graph",
    "Index",
    "IndexFormatError",
    "LostError",
    "NeedsSparkError",
    "OptionError",
    "OutputError",
    "Query",
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
    "Stats",
    "StrategyName",
    "StreamError",
    "UnknownQueryError",
    "WatchedEpochs",
    "__version__",
    "build_index",
    "draw",
    "join",
    "read_output",
    "register",
    "session",
    "sql",
]

_IMPORTED_ON_USE = {
    "Count": "bigjoin.answers",
    "Drawing": "bigjoin.drawing.drawing",
    "Epoch": "bigjoin.streaming.epoch",
    "Estimate": "bigjoin.estimates",
    "Explanation": "bigjoin.answers",
    "Graph": "bigjoin.graph",
    "Index": "bigjoin.index.directory",
    "Query": "bigjoin.query.query",
    "Relations": "bigjoin.relations",
    "Stats": "bigjoin.answers",
    "StreamError": "bigjoin.streaming.batches",
    "WatchedEpochs": "bigjoin.streaming.read_output",
    "build_index": "bigjoin.indexing",
    "draw": "bigjoin.drawing.draw",
    "join": "bigjoin.relations",
    "read_output": "bigjoin.streaming.read_output",
    "register": "bigjoin.data_source",
    "session": "bigjoin.spark.session",
    "sql": "bigjoin.relations",
}
"""Names from modules that import Spark and numba: that takes a second, for which --help and errors should not wait."""

_DEFINED_AS = {"session": "get_session"}
"""What such a name is called in its module, if not the same."""

if not TYPE_CHECKING:  # a type checker knows all names, and should complain about others

    def __getattr__(name: str) -> object:
        if name in _IMPORTED_ON_USE:
            from importlib import import_module

            return getattr(import_module(_IMPORTED_ON_USE[name]), _DEFINED_AS.get(name, name))
        raise AttributeError(f"module 'bigjoin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
