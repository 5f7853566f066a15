"""bigjoin: worst-case optimal subgraph search and multiway joins on Spark.

>>> import bigjoin as bj
>>> graph = bj.Graph("edges.txt", directed=False)
>>> graph.count("triangle", unique=True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bigjoin.errors import BigjoinError, IndexFormatError, QueryError, SourceError

if TYPE_CHECKING:
    from bigjoin.graph import Graph
    from bigjoin.indexing import build_index
    from bigjoin.relations import Relations, join
    from bigjoin.verbs import Count

__version__ = "0.1.0"
__all__ = [
    "BigjoinError",
    "Count",
    "Graph",
    "IndexFormatError",
    "QueryError",
    "Relations",
    "SourceError",
    "__version__",
    "build_index",
    "join",
]

_LATER = {
    "Graph": "bigjoin.graph",
    "Count": "bigjoin.verbs",
    "Relations": "bigjoin.relations",
    "build_index": "bigjoin.indexing",
    "join": "bigjoin.relations",
}
"""Spark and numba take a second to import; what needs neither (--help, errors) does not wait for them."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'bigjoin' has no attribute {name!r}")
