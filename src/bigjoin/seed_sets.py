"""Seeds as users give them, in dictionaries, tables or files, become sets of tuples of ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bigjoin.errors import BigjoinError, SourceError
from bigjoin.index.ordered_tuples import ordered_tuples
from bigjoin.paths import is_remote
from bigjoin.query.seeds import Seeds, SeedsLike
from bigjoin.reading import JUDGED

if TYPE_CHECKING:
    from bigjoin.spark.sources import Session

MAX_EXCHANGED_COLUMNS = 4
"""Columns up to which it is found out whether exchanging some leaves a set unchanged."""

SEEDS_EXAMPLE = "seeds={'a1': [5, 7]}"

Columns = dict[str, pa.Array]
"""Ids by attribute, a row for each tuple."""


class AllOf(tuple[SeedsLike, ...]):
    """Several seeds, all of which restrict a query, as a command line may give them."""


def seed_sets(given: SeedsLike, spark: Session = None) -> tuple[Seeds, ...]:
    """Return the sets of tuples that a user gives: one for each attribute of a dictionary, and one for a table."""
    return tuple(set_of(columns, is_text=is_text) for columns, is_text in _tables(given, spark))


def _tables(given: SeedsLike, spark: Session) -> Iterator[tuple[Columns, bool]]:
    """Give the columns of each table of seeds by attribute, and whether they are as a text spells them."""
    if isinstance(given, AllOf):
        for one in given:
            yield from _tables(one, spark)
    elif isinstance(given, Mapping):
        if not given:
            raise BigjoinError(f"the seeds are empty: name an attribute and its ids, as in {SEEDS_EXAMPLE}")
        for attribute, ids in given.items():
            yield _of_attribute(attribute, ids, spark)
    else:
        table, is_text = _table(given, spark)
        if not table.num_columns:
            raise BigjoinError("the table of seeds has no columns: name them after attributes")
        yield {name: _ids(table[name], name) for name in table.column_names}, is_text


def _of_attribute(attribute: Any, ids: Any, spark: Session) -> tuple[Columns, bool]:
    if not isinstance(attribute, str):
        message = f"seeds has the key {attribute!r}: name an attribute, as in {SEEDS_EXAMPLE}"
        raise BigjoinError(f"{message}; to restrict several jointly, give a table")
    if isinstance(ids, Path):
        from bigjoin.ingest.seed_files import read_seeds

        table, is_text = read_seeds(str(ids), attribute)
        return {attribute: _ids(table[attribute], attribute)}, is_text
    if hasattr(ids, "mapInArrow") or isinstance(ids, pa.Table) or getattr(ids, "ndim", 1) == 2:
        table, _ = _table(ids, spark)
        if table.num_columns != 1:
            message = f"the seeds of {attribute!r} are a table of {table.num_columns} columns; give one column"
            raise BigjoinError(f"{message}, or the table itself, as in seeds=table, to restrict attributes jointly")
        return {attribute: _ids(table.column(0), attribute)}, False
    if hasattr(ids, "iloc"):
        values: Any = pa.array(ids, from_pandas=True)
    elif isinstance(ids, pa.Scalar):
        values = pa.array([ids.as_py()], ids.type)
    elif isinstance(ids, (pa.Array, pa.ChunkedArray, np.ndarray)) and getattr(ids, "ndim", 1) == 1:
        values = ids
    else:
        values = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, (str, bytes)) else [ids]
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
    from bigjoin.ingest.python_rows import from_python

    read = from_python({attribute: values}, f"the seeds of {attribute!r}", None, JUDGED)
    assert read is not None
    return {attribute: _ids(read[0][attribute], attribute)}, False


def _table(given: Any, spark: Session) -> tuple[pa.Table, bool]:
    """Return a table of seeds, and whether it is as a text spells it."""
    if isinstance(given, (str, Path)) and not is_remote(str(given)):
        from bigjoin.ingest.seed_files import read_seeds

        return read_seeds(str(given))
    if isinstance(given, (list, tuple, set, frozenset, range)) and not any(isinstance(row, Mapping) for row in given):
        message = "the seeds do not say which attributes they restrict"
        raise BigjoinError(f"{message}; name them, as in {SEEDS_EXAMPLE}, or give a table")
    from bigjoin.spark.sources import given_rows, session_of

    rows = given_rows(given, "seeds", lambda: session_of(spark))
    assert not isinstance(rows, str)
    return (rows if isinstance(rows, pa.Table) else rows.toArrow()), False


def _ids(column: pa.ChunkedArray, attribute: str) -> pa.Array:
    """Return ids in the types that ids have in an index, with NULL for what equals nothing."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.int64())
    from bigjoin.ingest.columns import cast, joined_type

    becomes = joined_type(column.type)
    if becomes is None:
        raise SourceError(f"the seeds of {attribute!r} are {column.type}; ids are numbers, text, dates, times or binary")
    wide = pa.int64() if pa.types.is_integer(becomes) else becomes
    chunks = [cast(chunk, wide, column=attribute, source="the seeds") for chunk in column.chunks]
    ids = pa.chunked_array(chunks, wide).combine_chunks()
    return _whole_numbers(ids) if pa.types.is_floating(wide) else ids


def _whole_numbers(ids: pa.Array) -> pa.Array:
    """Return floating numbers as integers if all of them are whole, as pandas stores integers where one is missing."""
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return ids


def set_of(columns: Columns, *, is_text: bool) -> Seeds:
    """Return the set of tuples that columns hold: without duplicates, and without tuples that have a NULL."""
    table = _ordered_set(pa.table(list(columns.values()), [f"c{i}" for i in range(len(columns))]).drop_null())
    several = table.num_columns > 1
    values = [_ordered_set(pa.table([column], ["c0"])).column(0) if several else column for column in table.columns]
    return Seeds(
        tuple(columns),
        table.num_rows,
        tuple(map(len, values)),
        _digest(table),
        tuple(_digest(pa.table([column], ["c0"])) for column in values),
        _symmetries(table, values),
        is_text,
        table.rename_columns(list(columns)),
    )


def _ordered_set(table: pa.Table) -> pa.Table:
    """Return the rows of a table, each once, in the order of their values."""
    names = table.column_names
    if all(pa.types.is_integer(kind) for kind in table.schema.types):
        return pa.table(ordered_tuples([column.to_numpy() for column in table.columns]), names)
    table = table.group_by(names, use_threads=False).aggregate([]).select(names)
    return table.sort_by([(name, "ascending") for name in names]).combine_chunks()


def _digest(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return blake2b(sink.getvalue(), digest_size=16).hexdigest()


def _symmetries(table: pa.Table, values: Sequence[pa.ChunkedArray]) -> tuple[tuple[int, ...], ...]:
    """Return the permutations of an ordered set's columns that leave it unchanged; `values` are those of each column."""
    width = table.num_columns

    def is_unchanged(columns: tuple[int, ...]) -> bool:
        if any(not values[c].equals(values[d]) for c, d in enumerate(columns)):
            return False
        return bool(_ordered_set(pa.table([table.column(c) for c in columns], table.column_names)).equals(table))

    every = permutations(range(width)) if 1 < width <= MAX_EXCHANGED_COLUMNS else iter(())
    return tuple(columns for columns in every if columns != tuple(range(width)) and is_unchanged(columns))
