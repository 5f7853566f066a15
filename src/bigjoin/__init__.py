"""bigjoin: worst-case optimal subgraph search and multiway joins on Spark.

>>> import bigjoin as bj
>>> graph = bj.Graph("edges.txt", directed=False)
>>> graph.count("triangle", unique=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bigjoin.errors import BigjoinError, IndexFormatError, QueryError, SourceError

if TYPE_CHECKING:
    from bigjoin.graph import Count, Graph
    from bigjoin.indexing import build_index

__version__ = "0.1.0"
__all__ = ["BigjoinError", "Count", "Graph", "IndexFormatError", "QueryError", "SourceError", "__version__", "build_index"]


def __getattr__(name: str) -> Any:
    # Spark and numba take a second to import; what needs neither (--help, errors) does not wait for them.
    if name in ("Graph", "Count"):
        from bigjoin import graph

        return getattr(graph, name)
    if name == "build_index":
        from bigjoin import indexing

        return indexing.build_index
    raise AttributeError(f"module 'bigjoin' has no attribute {name!r}")
