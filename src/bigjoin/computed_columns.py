"""Columns that are computed from those of rows, and the rows for which a condition is true.

Expressions over rows are evaluated as everywhere else (`joins/evaluate.py`), so that they mean the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bigjoin.joins.evaluate import Evaluation
from bigjoin.planner.type_expressions import kind_of, typed
from bigjoin.query.expressions import Expression
from bigjoin.query.query import Dialect
from bigjoin.query.terms import Property


@dataclass(frozen=True)
class Computation:
    """What is computed of batches of rows."""

    terms: Mapping[str, Expression]
    condition: Expression | None
    schema: pa.Schema
    """The columns that come of it."""
    dialect: Dialect
    zone: str

    @classmethod
    def of(
        cls,
        rows: pa.Schema,
        columns: Sequence[tuple[str, Expression]],
        where: Expression | None,
        dialect: Dialect,
        zone: str,
    ) -> Computation:
        """Return what computes columns, by their names, from rows with certain columns."""
        types = {field.name: str(field.type) for field in rows}

        def ready(term: Expression) -> Expression:
            return typed(term, lambda part: kind_of(types[str(part)]), dialect)[0]

        condition = None if where is None else ready(where)
        terms = {name: ready(term) for name, term in columns}
        empty = Evaluation(_columns_of(rows.empty_table(), zone), 0, dialect)
        schema = pa.schema([(name, _shown(empty.of(term).type)) for name, term in terms.items()])
        return cls(terms, condition, schema, dialect, zone)

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the rows for which the condition is true."""
        kept = rows
        if self.condition is not None:
            holds = Evaluation(_columns_of(rows, self.zone), rows.num_rows, self.dialect).where(self.condition)
            kept = rows.filter(pa.array(holds))
        found = Evaluation(_columns_of(kept, self.zone), kept.num_rows, self.dialect)
        arrays = [found.of(term).cast(field.type) for term, field in zip(self.terms.values(), self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _columns_of(batch: pa.RecordBatch | pa.Table, zone: str) -> Callable[[str | Property], pa.Array]:
    """Return the columns by name; times that have a zone are in that of the session."""
    arrays: Mapping[str, pa.Array] = {
        field.name: column.cast(pa.timestamp("us", zone)) if str(field.type).startswith("timestamp[us, tz=") else column
        for field, column in zip(batch.schema, batch.columns, strict=True)
    }
    return lambda term: arrays[str(term)]


def _shown(kind: pa.DataType) -> pa.DataType:
    """Return a type that Spark has."""
    return pa.string() if pa.types.is_null(kind) else kind
