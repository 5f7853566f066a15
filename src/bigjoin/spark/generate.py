"""Write a generated graph as a folder of Parquet files, from Spark's tasks: complete under its name, or not there at all."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bigjoin.errors import OutputError
from bigjoin.generators import Family
from bigjoin.generators.family import CHUNK_EDGES, EdgeNumbers, require
from bigjoin.spark.tasks import run_tasks

IDS = ("int", "string")

FILES = 64
"""Files of a graph at most, as long as that leaves none too large. Like chunks, they do not depend on who writes them."""

FILE_CHUNKS = 32
"""Chunks of a file at most."""


def generate(
    spark: SparkSession,
    family: Family,
    target: Path,
    *,
    ids: str = "int",
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Write the edges of a graph to a new folder, which is then a source; return what was written.

    Columns are src and dst: integers, or text of equal length such as v000123, whose order is that of the integers.
    """
    require(ids in IDS, f"ids are {' or '.join(IDS)}, not {ids!r}")
    check_target(target)
    started = time.perf_counter()
    target = target.absolute()
    staging = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    # Tasks write to one folder, and what they report moves to another: a task that still runs elsewhere harms nothing.
    parts, whole = staging / "parts", staging / "whole"
    try:
        parts.mkdir(parents=True)
        whole.mkdir()
        write = partial(_write_part, family, str(parts), ids == "string")
        files = run_tasks(spark, write, _portions(family.chunks), progress=progress)
        for number, file in enumerate(files):
            (parts / file).rename(whole / f"part-{number:05d}.parquet")
        written = sum(file.stat().st_size for file in whole.iterdir())
        check_target(target)  # it may have appeared meanwhile
        whole.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return {
        "vertices": family.vertices,
        "edges": family.edge_count,
        "files": len(files),
        "bytes": written,
        "seconds": time.perf_counter() - started,
    }


def check_target(target: Path) -> None:
    """Raise OutputError if a new folder cannot be made there, before a long run finds out."""
    folder = target.absolute().parent
    if target.exists() or target.is_symlink():
        raise OutputError(f"{target} exists; name a folder that does not, or remove it first")
    if not folder.is_dir():
        raise OutputError(f"there is no directory {folder} to write {target.name} in")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"the directory {folder} cannot be written to")


def _portions(chunks: int) -> list[tuple[int, int]]:
    """Return the first chunk of each file, and the first that is no longer in it."""
    step = min(FILE_CHUNKS, -(-chunks // FILES))
    return [(first, min(first + step, chunks)) for first in range(0, chunks, step)]


def _write_part(family: Family, folder: str, text: bool, portion: tuple[int, int]) -> str:
    """Write some chunks as one file, a row group each; return its name, which no other attempt has."""
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
    """Return ids as integers, or as text with so many digits."""
    array = pa.array(numbers)
    return array if width is None else pc.binary_join_element_wise("v", pc.utf8_lpad(array.cast("string"), width, "0"), "")
