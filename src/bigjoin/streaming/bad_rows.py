"""Rows of updates that cannot be read: which they are, why, and what is left without them.

Good updates are not looked at here: `read_updates` and the casts of properties refuse a table as a whole. Only a table that was
refused, or whose properties have other types than the graph's, is looked at row by row. A column that cannot be cast as a whole
is halved until the values are found that cannot, so that they are those at which the whole cast fails.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError, did_you_mean, shown
from bigjoin.ingest.columns import cast
from bigjoin.streaming.update_columns import FoundColumns
from bigjoin.streaming.update_schema import ExpectedUpdates, check_schema
from bigjoin.streaming.updates import (
    RELATION_COLUMN,
    SIGNS,
    SIGNS_EXPECTED,
    WHOLE_NUMBER,
    DoubtfulRowsError,
    id_kind,
    read_ids,
)

BAD_ROWS_SCHEMA = pa.schema([("reason", pa.string()), ("row", pa.string()), ("source", pa.string()), ("number", pa.int64())])
"""What is written of bad rows: why, their columns as JSON, where they come from, and their numbers there, from 1."""
NO_INTEGER = r"[^0-9a-fA-FxX+\-\s]"
"""Found in text that cannot be cast to an integer, but not in all: Arrow takes hexadecimal ones, too."""
SHOWN_VALUE_CHARACTERS = 80
"""Of a bad value in a message."""

RowMask: TypeAlias = NDArray[np.bool_]
TextTest: TypeAlias = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class RowFault:
    """What is wrong with some rows: as a reason by itself, and as a message that names a source and a row."""

    rows: RowMask
    reason: Callable[[int], str]
    message: Callable[[int], str]


@dataclass
class SortedRows:
    """A table of updates with its bad rows told from the others."""

    table: pa.Table
    source: str
    faults: list[RowFault] = field(default_factory=list)
    wider: dict[str, set[str]] = field(default_factory=dict)
    """By relation: properties that have to become doubles, as good rows have such values."""

    @property
    def is_bad(self) -> RowMask:
        found = np.zeros(len(self.table), np.bool_)
        for fault in self.faults:
            found |= fault.rows
        return found

    @property
    def bad_count(self) -> int:
        return int(self.is_bad.sum())

    @property
    def good(self) -> pa.Table:
        """The rows that can be read, in their order."""
        return self.table.filter(pa.array(~self.is_bad)) if self.faults else self.table

    def without(self, doubtful: DoubtfulRowsError) -> SortedRows:
        """Return the same with further bad rows, which are given by their numbers among the good ones."""
        good = np.flatnonzero(~self.is_bad)
        reasons = {int(good[row]): why for row, why in doubtful.rows.items()}
        bad = np.zeros(len(self.table), np.bool_)
        bad[list(reasons)] = True
        fault = RowFault(
            bad, lambda row: f"the row {reasons[row]}", lambda row: f"row {row + 1:,} of {self.source} {reasons[row]}"
        )
        return replace(self, faults=[*self.faults, fault])

    def refusal(self, epoch: int) -> SourceError:
        """Return the error that names the first bad row, and says what to do."""
        row = int(np.flatnonzero(self.is_bad)[0])
        fault = next(fault for fault in self.faults if fault.rows[row])
        more = self.bad_count - 1
        others = f"; {more:,} more {'rows are' if more > 1 else 'row is'} bad" if more else ""
        return SourceError(
            f"{fault.message(row)}{others}; nothing of epoch {epoch:,} is applied: correct it, or leave out such rows with "
            "--on-bad-row skip or quarantine (on_bad_row=)"
        )

    def report(self) -> pa.Table:
        """Return the bad rows as they are written."""
        rows = np.flatnonzero(self.is_bad)
        reasons = [next(fault for fault in self.faults if fault.rows[row]).reason(int(row)) for row in rows]
        texts = _as_json(self.table.take(pa.array(rows)))
        return pa.table([reasons, texts, [self.source] * len(rows), rows + 1], schema=BAD_ROWS_SCHEMA)


def sort_rows(
    table: pa.Table, expected: ExpectedUpdates, source: str, *, exact: Callable[[str, str], Any] = lambda *_: None
) -> SortedRows:
    """Tell the bad rows of a table from the others; raise SourceError if it is malformed as a whole.

    `exact` returns a value of a relation's property that no double is equal to, if there is one; then the property stays what
    it is, and rows with other numbers are bad.
    """
    found = check_schema(table.schema, expected, source)
    rows = SortedRows(table, source)
    for fault in _faults(table, expected, found, source):
        if fault.rows.any():
            rows.faults.append(fault)
    _add_property_faults(rows, expected, found, exact)
    return rows


def may_have_bad_properties(table: pa.Table, expected: ExpectedUpdates) -> bool:
    """Tell whether properties are of other types than the graph's, and cannot all be cast to these."""
    for types in (*expected.properties.values(), expected.of_vertices):
        for name, kind in types.items():
            at = table.schema.get_field_index(name)
            if at >= 0 and table.schema.types[at] != kind and not _fits_whole(table.column(at), kind):
                return True
    return False


def _fits_whole(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        for chunk in column.chunks:
            cast(chunk, kind, column="", source="")
    except (SourceError, pa.ArrowException):
        return False
    return True


def _faults(table: pa.Table, expected: ExpectedUpdates, found: FoundColumns, source: str) -> Iterator[RowFault]:
    """Give what is wrong with ids, operations, relations and the order."""
    of_vertices = expected.about_vertices(table, found)
    for name in () if found.are_vertices else found.ends:
        yield _among(_null_fault(table, name, source, ": an edge has two ends"), ~of_vertices)
        yield _among(_id_fault(table, name, expected.ids, source), ~of_vertices)
    if found.id is not None and of_vertices.any():
        yield _among(_null_fault(table, found.id, source, ": it says which vertex is meant"), of_vertices)
        yield _among(_id_fault(table, found.id, expected.ids, source), of_vertices)
    if found.op is not None:
        yield _op_fault(table, found.op, source)
    if expected.names_relation(table.schema) and not found.are_vertices:
        yield _null_fault(table, RELATION_COLUMN, source)
        yield _among(_relation_fault(table, expected.properties, source), ~of_vertices)
        yield from (_type_fault(table, *typed, source) for typed in expected.types.items() if typed[1] in table.column_names)
    if expected.order is not None:
        yield _null_fault(table, expected.order, source, ": updates are ordered by it")


def _among(fault: RowFault, rows: RowMask) -> RowFault:
    """Return a fault of some of the rows alone."""
    return replace(fault, rows=fault.rows & rows)


def _null_fault(table: pa.Table, name: str, source: str, why: str = "") -> RowFault:
    return RowFault(
        _mask(table[name].is_null()),
        lambda _: f"column {name!r} is NULL{why}",
        lambda row: f"column {name!r} of {source} is NULL in row {row + 1:,}{why}",
    )


def _id_fault(table: pa.Table, name: str, ids: pa.DataType, source: str) -> RowFault:
    column = table[name]
    kind = id_kind(column.type, ids, name, source)
    is_spelled = pa.types.is_string(kind) and pa.types.is_integer(ids)
    never = (lambda values: pc.invert(pc.match_substring_regex(values, WHOLE_NUMBER))) if is_spelled else None
    bad = _unfit(column, lambda values: read_ids(values, kind, ids, name, source), never)
    return RowFault(
        bad,
        lambda row: f"column {name!r} is {_shown(column[row])}, and the ids of the graph are {ids}",
        lambda row: (
            f"column {name!r} of {source} is {column.type}, and the ids of the graph are {ids}: cast it; row {row + 1:,} has "
            f"{_shown(column[row])}"
        ),
    )


def _op_fault(table: pa.Table, name: str, source: str) -> RowFault:
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    written = pc.unique(column)
    spelled = pc.utf8_lower(pc.utf8_trim_whitespace(written.cast(pa.string())))
    known = _mask(pc.is_in(spelled, value_set=pa.array([sign for signs in SIGNS for sign in signs])))
    at = pc.index_in(column, value_set=written).to_numpy().astype(np.int64)
    return RowFault(
        ~known[at],
        lambda row: f"column {name!r} is {_shown(column[row])}; {SIGNS_EXPECTED}",
        lambda row: f"column {name!r} of {source} is {_shown(column[row])} in row {row + 1:,}; {SIGNS_EXPECTED}",
    )


def _relation_fault(table: pa.Table, relations: Collection[str], source: str) -> RowFault:
    column = table[RELATION_COLUMN].cast(pa.string())
    bad = _mask(pc.invert(pc.is_in(column, value_set=pa.array(list(relations), pa.string())))) & _mask(column.is_valid())

    def hint(row: int) -> str:
        return did_you_mean(str(column[row]), relations) or f"the graph has {', '.join(relations)}"

    return RowFault(
        bad,
        lambda row: f"the relation {_shown(column[row])} does not exist: {hint(row)}",
        lambda row: f"{source} names the relation {_shown(column[row])} in row {row + 1:,}, which does not exist: {hint(row)}",
    )


def _type_fault(table: pa.Table, relation: str, name: str, source: str) -> RowFault:
    """Return the rows of a relation of typed edges that say another type as well."""
    named = pc.fill_null(pc.equal(table[RELATION_COLUMN].cast(pa.string()), relation), False)
    other = pc.fill_null(pc.not_equal(table[name].cast(pa.string()), relation), False)

    def what(row: int) -> str:
        return f"names the relation {relation!r}, and its {name!r} is {_shown(table[name][row])}: both say the type of the edge"

    return RowFault(
        _mask(named) & _mask(other), lambda row: f"the row {what(row)}", lambda row: f"row {row + 1:,} of {source} {what(row)}"
    )


def _add_property_faults(
    rows: SortedRows, expected: ExpectedUpdates, found: FoundColumns, exact: Callable[[str, str], Any]
) -> None:
    """Add what is wrong with properties of rows that are good otherwise, or note which properties have to become doubles."""
    table, source = rows.table, rows.source
    of_vertices = expected.about_vertices(table, found)
    relations = {name: mine & ~of_vertices for name, mine in _relations(rows, expected).items()}
    every = [*((relation, types, relations[relation]) for relation, types in expected.properties.items())]
    for relation, types, are_mine in (*every, (None, expected.of_vertices, of_vertices)):
        for name, kind in types.items():
            if name not in table.column_names or name in (*found.ends, found.op) or table[name].type == kind:
                continue
            column, mine = table[name], np.flatnonzero(are_mine & ~rows.is_bad)
            never = partial(pc.match_substring_regex, pattern=NO_INTEGER) if pa.types.is_integer(kind) else None
            given, is_wider = column.take(pa.array(mine)), pa.types.is_integer(kind) and pa.types.is_floating(column.type)
            unfit = (
                _not_whole(given, kind)
                if is_wider
                else _unfit(given, partial(cast, kind=kind, column=name, source=source), never)
            )
            if not unfit.any():
                continue
            why = ""
            if is_wider and relation is not None:
                if (inexact := exact(relation, name)) is None:
                    rows.wider.setdefault(relation, set()).add(name)
                    continue
                why = f"; the column cannot become double, as an edge has {inexact}, which no double is equal to"
            bad = np.zeros(len(table), np.bool_)
            bad[mine[unfit]] = True
            rows.faults.append(_property_fault(column, bad, name, kind, source, why))


def _property_fault(column: pa.ChunkedArray, bad: RowMask, name: str, kind: pa.DataType, source: str, why: str) -> RowFault:
    return RowFault(
        bad,
        lambda row: f"column {name!r} is {_shown(column[row])}, which does not fit {kind}{why}",
        lambda row: f"column {name!r} of {source} does not fit {kind}: row {row + 1:,} has {_shown(column[row])}{why}",
    )


def _relations(rows: SortedRows, expected: ExpectedUpdates) -> Mapping[str, RowMask]:
    """Tell for each relation which rows are its updates."""
    if not expected.names_relation(rows.table.schema):
        everything, nothing = np.ones(len(rows.table), np.bool_), np.zeros(len(rows.table), np.bool_)
        return {name: everything if name == expected.only_relation else nothing for name in expected.properties}
    column = rows.table[RELATION_COLUMN].cast(pa.string())
    return {name: _mask(pc.equal(column, name).fill_null(False)) for name in expected.properties}


def _unfit(column: pa.ChunkedArray, read: Callable[[pa.Array], object], never: TextTest | None) -> RowMask:
    """Tell which values cannot be read, NULL aside; text for which `never` holds is known not to be."""
    found = np.zeros(len(column), np.bool_)
    at = 0
    for chunk in column.chunks:
        valid = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
        found[at + valid] = _unfit_values(chunk.take(pa.array(valid)), read, never)
        at += len(chunk)
    return found


def _not_whole(column: pa.ChunkedArray, kind: pa.DataType) -> RowMask:
    """Tell which numbers are no integers of a type, NULL aside."""
    values = column.cast(pa.float64()).combine_chunks()
    plain = np.asarray(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    limit = 2.0 ** (kind.bit_width - 1)
    return np.asarray(~((plain == np.floor(plain)) & (plain >= -limit) & (plain < limit)))


def _unfit_values(values: pa.Array, read: Callable[[pa.Array], object], never: TextTest | None) -> RowMask:
    if never is not None and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        bad = _mask(never(values)).copy()
        bad[~bad] = _unfit_values(values.filter(pa.array(~bad)), read, None)
        return bad
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        coded = values.dictionary_encode()
        return np.asarray(_unfit_pieces(coded.dictionary, read)[coded.indices.to_numpy()])
    if pa.types.is_dictionary(values.type):
        return np.asarray(_unfit_pieces(values.dictionary, read)[values.indices.to_numpy()])
    return _unfit_pieces(values, read)


def _unfit_pieces(values: pa.Array, read: Callable[[pa.Array], object]) -> RowMask:
    """Read pieces of values, and halves of those that cannot be read."""
    bad = np.zeros(len(values), np.bool_)
    waiting = [(0, len(values))]
    while waiting:
        first, last = waiting.pop()
        try:
            read(values.slice(first, last - first))
        except (SourceError, pa.ArrowException):
            if last - first == 1:
                bad[first] = True
            else:
                middle = (first + last) // 2
                waiting += [(first, middle), (middle, last)]
    return bad


def _mask(values: pa.Array | pa.ChunkedArray) -> RowMask:
    plain = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return np.asarray(plain.to_numpy(zero_copy_only=False), np.bool_)


def _shown(value: pa.Scalar) -> str:
    """Return a value as a message shows it."""
    if not value.is_valid:
        return "NULL"
    try:
        plain = value.as_py()
    except ValueError:  # a time that is finer than Python's
        plain = str(value.cast(pa.string()))
    return shown(repr(plain) if isinstance(plain, (str, bytes, int, float)) else plain, SHOWN_VALUE_CHARACTERS)


def _as_json(table: pa.Table) -> list[str]:
    """Return each row as a JSON object; what JSON has no word for is text."""
    columns = {}
    for name in table.column_names:
        try:
            columns[name] = table[name].to_pylist()
        except ValueError:
            columns[name] = table[name].cast(pa.string()).to_pylist()
    return [
        json.dumps({name: _in_json(values[row]) for name, values in columns.items()}, ensure_ascii=False)
        for row in range(len(table))
    ]


def _in_json(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _in_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_json(part) for part in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
