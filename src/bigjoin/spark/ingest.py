"""Build a graph's index with Spark: drop duplicates, rank vertices by degree, sort coded edges, write pieces and join them.

Edges stay in Spark until they are sorted pieces on disk; only vertices come to the driver. A task writes files of its own names
and reports them, so that a task that runs twice does no harm.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib import format as npy
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bigjoin.errors import SourceError
from bigjoin.index.build import EDGE, VERTEX
from bigjoin.index.dictionary import Dictionary, code_type, ranks_of
from bigjoin.index.directory import Index, Writer, writing
from bigjoin.index.trie import Level, Trie
from bigjoin.spark.read import reading, spark_path
from bigjoin.spark.session import parallelism

FRAME = "the DataFrame"
"""What a source is called that has no path; it may be empty."""

_PIECE = "first long, loops long, keys string, counts string, values string"


def ingest(
    edges: DataFrame, path: Path, *, directed: bool, source: str, progress: Callable[[str], None] = lambda _: None
) -> Index:
    """Build the index of a frame of (src, dst) at `path`; an undirected graph loses its loops and gains both directions."""
    spark = edges.sparkSession
    progress("reading edges")
    found = _survey(edges, source)
    pairs = edges if directed else _both_directions(edges)
    pairs = pairs.distinct().persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with writing(path) as writer:
            progress("ranking vertices")
            vertices = _vertices(pairs, directed=directed)
            writer.domain(VERTEX, vertices)
            writer.relation(EDGE, domains=(VERTEX, VERTEX), symmetric=not directed, loops=0)
            coded = _coded(spark, pairs, vertices, writer.folder / "codes.parquet")
            for columns in ((0, 1), (1, 0)) if directed else ((0, 1),):
                progress("sorting edges" if columns == (0, 1) else "sorting edges in reverse")
                _write_order(writer, coded, columns, vertices)
            (writer.folder / "codes.parquet").unlink()
            tuples = writer.relations[EDGE]["tuples"]
            kept = tuples if directed else tuples // 2
            dropped = 0 if directed else found["loops"]
            writer.source = {**found, "duplicates": found["rows"] - dropped - kept}
            progress("committing")
            return writer.commit()
    finally:
        pairs.unpersist()


def _survey(edges: DataFrame, source: str) -> dict[str, int]:
    """Count the edges and their loops; refuse NULL ids."""
    null = F.col("src").isNull() | F.col("dst").isNull()
    loop = F.col("src") == F.col("dst")
    counts = edges.agg(F.count("*").alias("rows"), F.count_if(null).alias("nulls"), F.count_if(loop).alias("loops"))
    with reading(source):
        row = counts.collect()[0]
    if not row.rows and source != FRAME:
        raise SourceError(f"{source} has no edges: it is empty")
    if row.nulls:
        raise SourceError(f"{row.nulls} of the {row.rows} edges of {source} have a NULL id: drop them first")
    return {"rows": row.rows, "loops": row.loops}


def _both_directions(edges: DataFrame) -> DataFrame:
    proper = edges.where(F.col("src") != F.col("dst"))
    return proper.union(proper.select(F.col("dst").alias("src"), F.col("src").alias("dst")))


def _vertices(pairs: DataFrame, *, directed: bool) -> Dictionary:
    """Return the dictionary: ids by descending degree, ties by id."""
    ends = pairs.select(F.col("src").alias("id"))
    if directed:
        ends = ends.union(pairs.select("dst"))
    degrees = ends.groupBy("id").agg(F.count("*").alias("degree")).toArrow()
    ids = degrees["id"].combine_chunks()
    degree = degrees["degree"].to_numpy()
    order = np.lexsort((ranks_of(ids), -degree))
    ids = ids.take(pa.array(order))
    return Dictionary(ids, ranks_of(ids))


def _coded(spark: SparkSession, pairs: DataFrame, vertices: Dictionary, file: Path) -> DataFrame:
    """Return the pairs as codes c0, c1."""
    pq.write_table(pa.table({"id": vertices.ids, "code": np.arange(len(vertices), dtype=np.int64)}), file)
    codes = spark.read.parquet(spark_path(file.absolute()))
    src = codes.select(F.col("id").alias("src"), F.col("code").alias("c0"))
    dst = codes.select(F.col("id").alias("dst"), F.col("code").alias("c1"))
    return pairs.join(src, "src").join(dst, "dst").select("c0", "c1")


def _write_order(writer: Writer, coded: DataFrame, columns: tuple[int, int], vertices: Dictionary) -> None:
    """Sort the coded pairs by one column order, in pieces, and join the pieces into the relation's trie."""
    kind = np.dtype(code_type(len(vertices)))
    key, value = (F.col(f"c{c}").alias(name) for c, name in zip(columns, ("key", "value"), strict=True))
    pieces = (
        coded.select(key, value)
        .repartitionByRange(parallelism(coded.sparkSession), "key")
        .sortWithinPartitions("key", "value")
        .mapInArrow(_piece_writer(str(writer.folder.absolute()), kind.name), _PIECE)
        .toArrow()
        .sort_by("first")
        .to_pylist()
    )
    lengths = np.zeros(len(vertices), np.int64)
    for piece in pieces:
        lengths[np.load(piece["keys"])] = np.load(piece["counts"])
    offsets = np.zeros(len(vertices) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    stem = f"{EDGE}.{columns[0]}-{columns[1]}"
    values = writer.folder / f"{stem}.values0.npy"
    _join_pieces([Path(piece["values"]) for piece in pieces], values, kind, int(offsets[-1]))
    for piece in pieces:
        for name in ("keys", "counts", "values"):
            Path(piece[name]).unlink()
    levels = [{"offsets": writer.array(f"{stem}.offsets0", offsets), "values": writer.name(values)}]
    writer.relations[EDGE]["loops"] = sum(piece["loops"] for piece in pieces)
    writer.add_order(EDGE, columns, levels, Trie((Level(offsets, np.load(values, mmap_mode="r")),)))


def _piece_writer(folder: str, kind: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the task that writes its sorted pairs to files, and reports one row about them."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stem = Path(folder) / f"piece-{uuid.uuid4().hex}"
        files = {name: stem.with_suffix(f".{name}") for name in ("values", "keys", "counts")}
        runs: list[tuple[NDArray[Any], NDArray[np.int64]]] = []
        rows = loops = 0
        with files["values"].open("wb") as sink:
            for batch in batches:
                key, value = (batch.column(i).to_numpy() for i in range(2))
                sink.write(value.astype(kind).tobytes())
                runs.append(np.unique(key.astype(kind), return_counts=True))
                rows += len(key)
                loops += int(np.count_nonzero(key == value))
        if not rows:
            files["values"].unlink()
            return
        keys, counts = (np.concatenate(part) for part in zip(*runs, strict=True))
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))  # a key may go on in the next batch
        distinct, counts = keys[starts], np.add.reduceat(counts, starts)
        for name, array in (("keys", distinct), ("counts", counts)):
            with files[name].open("wb") as sink:
                np.save(sink, array)
        yield pa.RecordBatch.from_pylist(
            [{"first": int(distinct[0]), "loops": loops} | {name: str(file) for name, file in files.items()}],
            schema=pa.schema(
                [(n, pa.int64()) for n in ("first", "loops")] + [(n, pa.string()) for n in ("keys", "counts", "values")]
            ),
        )

    return write


def _join_pieces(pieces: list[Path], target: Path, kind: np.dtype[Any], rows: int) -> None:
    """Write raw pieces, one after another, as one NumPy file."""
    with target.open("wb") as sink:
        npy.write_array_header_1_0(sink, {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": (rows,)})
        for piece in pieces:
            with piece.open("rb") as part:
                shutil.copyfileobj(part, sink, 1 << 22)
