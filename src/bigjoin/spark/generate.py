"""Write a generated graph as a folder of Parquet files, from Spark's tasks; the folder appears only when it is complete."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bigjoin.errors import OutputError
from bigjoin.generators import Family
from bigjoin.generators.family import CHUNK_EDGES, EdgeNumbers, require
from bigjoin.paths import check_parent
from bigjoin.spark.tasks import run_tasks

ID_KINDS = ("int", "string")

MAX_FILES = 64
"""The most files of a graph, unless they would be too large. The contents of a file do not depend on which task writes it."""

MAX_CHUNKS_PER_FILE = 32
"""The most chunks of a file, which takes precedence over MAX_FILES."""


@dataclass(frozen=True)
class GeneratedGraph:
    """What was written, and how long it took."""

    vertices: int
    edges: int
    files: int
    bytes: int
    seconds: float


def generate(
    spark: SparkSession,
    family: Family,
    target: Path,
    *,
    ids: str = "int",
    progress: Callable[[float], None] | None = None,
) -> GeneratedGraph:
    """Write the edges of a graph to a new folder, which can then be used as a source; return what was written.

    Columns are src and dst: integers, or text of equal length such as v000123, which sorts like the integers.
    """
    require(ids in ID_KINDS, f"ids are {' or '.join(ID_KINDS)}, not {ids!r}")
    check_target(target)
    started = time.perf_counter()
    target = target.absolute()
    staging = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    # Tasks write to one folder, and the files they report move to another: a task that is still running does no harm.
    parts, whole = staging / "parts", staging / "whole"
    try:
        parts.mkdir(parents=True)
        whole.mkdir()
        write = partial(_write_part, family, str(parts), ids == "string")
        files = run_tasks(spark, write, _portions(family.chunks), progress=progress)
        for number, file in enumerate(files):
            (parts / file).rename(whole / f"part-{number:05d}.parquet")
        written = sum(file.stat().st_size for file in whole.iterdir())
        check_target(target)  # it may have appeared in the meantime
        whole.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return GeneratedGraph(family.vertices, family.edge_count, len(files), written, time.perf_counter() - started)


def check_target(target: Path) -> None:
    """Raise OutputError if the folder cannot be created, before a long run finds out."""
    if target.exists() or target.is_symlink():
        raise OutputError(f"{target} exists; name a folder that does not, or remove it first")
    check_parent(target)


def _portions(chunks: int) -> list[tuple[int, int]]:
    """Return the range of chunks of each file."""
    step = min(MAX_CHUNKS_PER_FILE, -(-chunks // MAX_FILES))
    return [(first, min(first + step, chunks)) for first in range(0, chunks, step)]


def _write_part(family: Family, folder: str, text: bool, portion: tuple[int, int]) -> str:
    """Write chunks as one file, with a row group for each; return its name, which is different in each attempt of the task."""
    file = f"{uuid.uuid4().hex}.parquet"
    kind = pa.string() if text else pa.int64()
    schema = pa.schema([("src", kind), ("dst", kind)], metadata={"bigjoin.generated": family.describe()})
    width = len(str(family.vertices - 1))
    with pq.ParquetWriter(Path(folder) / file, schema, use_dictionary=text) as writer:
        for chunk in range(*portion):
            columns = [_ids(ends, width if text else None) for ends in family.edges(chunk)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=CHUNK_EDGES)
    return file


def _ids(numbers: EdgeNumbers, width: int | None) -> pa.Array:
    """Return ids as integers, or as text of `width` digits."""
    array = pa.array(numbers)
    return array if width is None else pc.binary_join_element_wise("v", pc.utf8_lpad(array.cast("string"), width, "0"), "")
