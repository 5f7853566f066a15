"""Build a graph's index from edges that are already in memory, and copy the graph of another index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.index.dictionary import Dictionary, code_type, ranks_of
from bigjoin.index.directory import Index, writing
from bigjoin.index.trie import Trie, build_trie

VERTEX = "vertex"
EDGE = "edge"
COLUMNS = (("src", "dst"), ("source", "target"), ("from", "to"))
"""What the two columns of an edge may be called, in any case."""


def edge_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two of these columns that are an edge by their names, if two are."""
    lower = {name.lower(): name for name in names}
    return next(((lower[a], lower[b]) for a, b in COLUMNS if a in lower and b in lower), None)


def build_from_table(table: pa.Table, path: Path, *, directed: bool) -> Index:
    """Build the index of an Arrow table: of its columns src and dst (or source/target, from/to), else of its first two."""
    if len(table.column_names) < 2:
        raise SourceError(f"the table has {len(table.column_names)} column(s); edges need two, src and dst")
    first, second = edge_columns(table.column_names) or table.column_names[:2]
    src, dst = _ids(table[first], first), _ids(table[second], second)
    if src.type != dst.type:
        raise SourceError(f"columns {first!r} and {second!r} differ in type ({src.type}, {dst.type}): cast one of them")
    return build_graph(src, dst, path, directed=directed)


def _ids(column: pa.ChunkedArray, name: str) -> pa.Array:
    kind = column.type
    try:
        if pa.types.is_integer(kind):
            return column.cast(pa.int64()).combine_chunks()
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return column.cast(pa.string()).combine_chunks()
    except pa.ArrowInvalid as error:
        raise SourceError(f"column {name!r}: {error}") from None
    raise SourceError(f"column {name!r} is {kind}; ids are integers or text: cast it")


def build_graph(src: pa.Array, dst: pa.Array, path: Path, *, directed: bool) -> Index:
    """Build the index of the edges src[i] -> dst[i] at `path`: a set, without loops if the graph is undirected."""
    if nulls := src.null_count + dst.null_count:
        raise SourceError(f"{nulls} ids are NULL; drop those edges first")
    both = pa.chunked_array([src, dst]).combine_chunks().dictionary_encode()
    ids = both.dictionary
    ranks = ranks_of(ids)
    ends = ranks[both.indices.to_numpy(zero_copy_only=False)].astype(np.int64)
    sources, targets = ends[: len(src)], ends[len(src) :]
    if not directed:
        proper = sources != targets
        sources, targets = sources[proper], targets[proper]
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    pairs = np.unique(sources * max(1, len(ids)) + targets) if len(ids) < 2**31 else None
    if pairs is None:
        raise SourceError("more than 2^31 vertices do not fit in memory: read the edges with Spark")
    sources, targets = np.divmod(pairs, max(1, len(ids)))
    degrees = np.bincount(sources, minlength=len(ids)) + (np.bincount(targets, minlength=len(ids)) if directed else 0)
    order = np.lexsort((np.arange(len(ids)), -degrees))  # ranks by descending degree, ties by id
    order = order[degrees[order] > 0]
    codes = np.empty(len(ids), code_type(len(order)))
    codes[order] = np.arange(len(order), dtype=codes.dtype)
    by_rank = ids.take(pc.sort_indices(ids))
    coded = by_rank.take(pa.array(order))
    return write_graph(codes[sources], codes[targets], Dictionary(coded, ranks_of(coded)), path, directed=directed)


def write_graph(src: NDArray[Any], dst: NDArray[Any], vertices: Dictionary, path: Path, *, directed: bool) -> Index:
    """Write the index of distinct coded edges; an undirected graph has both directions of each."""
    with writing(path) as writer:
        writer.domain(VERTEX, vertices)
        loops = int(np.count_nonzero(src == dst))
        writer.relation(EDGE, domains=(VERTEX, VERTEX), symmetric=not directed, loops=loops)
        writer.order(EDGE, (0, 1), build_trie((src, dst), len(vertices)))
        if directed:
            writer.order(EDGE, (1, 0), build_trie((dst, src), len(vertices)))
        return writer.commit()


def copy_graph(index: Index, path: Path, *, directed: bool) -> Index:
    """Write the graph of an index again at `path`, with the same codes and ids, and made undirected if that is asked for."""
    forward: Trie = index.extensions(EDGE, (0, 1))
    src, dst = forward.tuples(np.arange(len(forward)))
    directed = directed and not index.statistics.relations[EDGE].symmetric
    if not directed:
        proper = src != dst
        src, dst = src[proper], dst[proper]
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    return write_graph(src, dst, index.dictionaries[VERTEX], path, directed=directed)
