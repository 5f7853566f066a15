"""Tables in memory: Arrow tables and pandas frames, brought to the same columns and types as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import SourceError
from bigjoin.ingest.columns import cast, common_type, id_type, property_type
from bigjoin.ingest.table import Kind, Table, choose, warn_left_out

BATCH = 1 << 20
TABLE = "the table"
"""What a table is called that has no path."""


def open_table(rows: Any, kind: Kind, *, columns: Sequence[str] | None, properties: bool) -> tuple[Table, list[pa.RecordBatch]]:
    """Return what is known of an Arrow table or a pandas frame, and its rows."""
    table = rows if isinstance(rows, pa.Table) else from_pandas(rows)
    keys, others = choose(kind, table.column_names, TABLE, columns=columns, properties=properties)
    types = [id_type(table.schema.field(name).type, name, TABLE) for name in keys]
    common = types[0] if len(types) == 1 else common_type(types[0], types[1])
    if common is None:
        raise SourceError(f"columns {keys[0]!r} and {keys[1]!r} differ in type ({types[0]}, {types[1]}): cast one of them")
    wanted = {name: property_type(table.schema.field(name).type) for name in others}
    warn_left_out(TABLE, [name for name, becomes in wanted.items() if becomes is None], "its type is nested or unknown")
    fields = [*((name, end, common) for name, end in zip(keys, kind.ends, strict=True))]
    fields += [(name, name, becomes) for name, becomes in wanted.items() if becomes is not None]
    schema = pa.schema([(end, becomes) for _, end, becomes in fields])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(max_chunksize=BATCH):
            arrays = [cast(batch.column(name), becomes, column=name, source=TABLE) for name, _, becomes in fields]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    held = list(batches())
    span = _span(held, len(keys)) if pa.types.is_integer(common) else None
    return Table(source=TABLE, keys=keys, schema=schema, splits=(), rows=table.num_rows, span=span), held


def _span(batches: list[pa.RecordBatch], keys: int) -> tuple[int, int] | None:
    """Return the smallest and the largest id."""
    ends = [pc.min_max(batch.column(i)).as_py() for batch in batches for i in range(keys)]
    ends = [end for end in ends if end["min"] is not None]
    return (min(end["min"] for end in ends), max(end["max"] for end in ends)) if ends else None


def from_pandas(frame: Any) -> pa.Table:
    """Return a pandas frame as a table, with UUIDs as text."""
    uuids = {name for name in frame.columns if frame[name].dtype == object and isinstance(_first(frame[name]), UUID)}
    if uuids:
        frame = frame.assign(**{name: frame[name].map(str, na_action="ignore") for name in uuids})
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SourceError(f"the pandas frame cannot be read: {error}") from None


def _first(column: Any) -> Any:
    known = column.dropna()
    return known.iloc[0] if len(known) else None
