"""Tables in memory: Arrow tables and pandas frames, with the same columns and types as files would have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import SourceError
from bigjoin.ingest.columns import cast
from bigjoin.ingest.table import InMemory, Kind, Table, typed_columns
from bigjoin.reading import JUDGED, ReadingOptions

TABLE = "the table"
"""How messages refer to a table that has no path."""


def open_table(table: pa.Table, kind: Kind, said: ReadingOptions = JUDGED, *, properties: bool, source: str = TABLE) -> Table:
    """Return an Arrow table as edges or vertices."""
    given = table.schema
    choice, schema = typed_columns(kind, given.names, source, lambda name: given.field(name).type, said, properties=properties)
    found = []
    for name, field in zip((*choice.keys, *choice.others), schema, strict=True):
        chunks = [cast(chunk, field.type, column=name, source=source) for chunk in table[name].chunks]
        found.append(pa.chunked_array(chunks, field.type))
    rows = pa.table(found, schema=schema)
    keys = choice.keys
    span = _span(rows.columns[: len(keys)]) if pa.types.is_integer(schema.field(0).type) else None
    return Table(
        source, keys, schema, InMemory.splits(rows), rows.num_rows, span, may_be_empty=True, reading=choice.entry(source)
    )


def _span(columns: Sequence[pa.ChunkedArray]) -> tuple[int, int] | None:
    """Return the smallest and the largest id."""
    ends = [end for end in map(pc.min_max, columns) if end["min"].is_valid]
    return (min(end["min"].as_py() for end in ends), max(end["max"].as_py() for end in ends)) if ends else None


def from_pandas(frame: Any) -> pa.Table:
    """Return a pandas frame as an Arrow table, with UUIDs as text."""
    if getattr(frame, "ndim", 2) != 2:
        raise SourceError("the pandas Series is one column: give a frame, with a column for each end")
    names = [str(name) for name in frame.columns]
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise SourceError(f"the pandas frame has two columns called {twice!r}: rename one of them")
    uuids = {name for name in frame.columns if frame[name].dtype == object and isinstance(_first(frame[name]), UUID)}
    if uuids:
        frame = frame.assign(**{name: frame[name].map(str, na_action="ignore") for name in uuids})
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SourceError(f"the pandas frame cannot be read: {str(error).splitlines()[0]}") from None


def _first(column: Any) -> Any:
    known = column.dropna()
    return known.iloc[0] if len(known) else None
