"""From the signed matches of an epoch to the signed rows of groups, and the groups that a watch begins with.

Without a condition on groups, a group whose row changes is reported as -1 with its row before the epoch, and +1 with its row
after it. With a condition, a group is reported when it begins to satisfy it, with its row after the epoch, and when it ends to,
with its row before the epoch. In between, its figures may change without being reported.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import NeedsSparkError, QueryError
from bigjoin.index.directory import Index
from bigjoin.joins.changes import CHANGE_COLUMN, with_change
from bigjoin.languages.keys import GROUP_COUNT
from bigjoin.local.matches import in_microseconds
from bigjoin.local.strategy import Ask
from bigjoin.local.threads import Local
from bigjoin.planner import meaning
from bigjoin.planner.draft import Draft
from bigjoin.planner.without_collection import without_collection
from bigjoin.query.expressions import attributes_of
from bigjoin.query.grouping import Grouping
from bigjoin.storage import Place
from bigjoin.storage.arrays import read_parquet, write_parquet
from bigjoin.streaming.find import FoundChanges
from bigjoin.streaming.group_state import GroupChange, GroupKey, GroupRow, GroupState
from bigjoin.streaming.grouped_query import GroupedQuery
from bigjoin.streaming.python_values import in_arrow, in_python
from bigjoin.streaming.running_aggregates import PythonValue, RunningAggregate, running
from bigjoin.table_rows import counted, grouped, summed

_CARRIED = "what is carried"
"""A column that rows carry along: how often they come or go, or the number of their group. No query can name it."""

PythonRow: TypeAlias = "tuple[PythonValue, ...]"
"""A row in Python, to look things up by."""

SAFE_COUNT = float(1 << 62)
"""Counts whose sum is below this are added up in 64 bits."""


class GroupChanges:
    """Follows the groups of one watched query from epoch to epoch."""

    def __init__(self, query: GroupedQuery, matches: pa.Schema, divisor: int) -> None:
        self.query, self.divisor = query, divisor
        self.matches = matches
        """The columns of the signed matches."""
        self.identity: str | None = None
        """The version of the index that the groups are those of."""
        rows = self._prepared(matches.empty_table().append_column(_CARRIED, pa.array([], pa.int64())))
        grouping = query.grouping
        if grouping is None:
            self._keys: list[str] = [name for name in rows.column_names if name != _CARRIED]
            self._arguments: list[str | None] = []
            self._kept = pa.schema([rows.schema.field(name) for name in self._keys])
            self._makers: list[Callable[[], RunningAggregate] | None] = []
        else:
            self._keys = [name for name, _ in grouping.keys]
            self._arguments = [name if one.argument is not None else None for name, one in grouping.aggregates]
            self._kept = _types_of(rows, grouping, query)
            kinds = [pa.null() if name is None else rows.schema.field(name).type for name in self._arguments]
            self._makers = [
                running(one, k, query.query.dialect) for (_, one), k in zip(grouping.aggregates, kinds, strict=True)
            ]
        self._state = self._empty_state()
        self.schema = with_change(self._shown(self._table([], [])).drop_columns(_CARRIED).schema)
        """The columns of the signed rows."""

    def __len__(self) -> int:
        return len(self._state)

    @without_collection()
    def begin(self, index: Index) -> int:
        """Put the matches that an index without runs has into groups; return how many groups are in the result."""
        self.identity, self._state = None, self._empty_state()
        tables = [self._wanted(self._prepared(rows)) for rows in _distinct_matches(self.query, self.matches, index)]
        self._state.load(list(self._changes(tables, 1)))
        self.identity = index.manifest.identity
        if not self.query.has_bound:
            return len(self._state)
        rows = [(key, row) for key in self._state.keys if (row := self._state.row(key)) is not None]
        return int(self._shown(self._table(rows, range(len(rows)))).num_rows)

    @without_collection()
    def stage(self, files: Iterable[Place]) -> pa.Table:
        """Apply the signed matches of an epoch, which are in files, and return the signed rows of groups that come of it."""
        tables = [self._wanted(self._prepared(self._read(file))) for file in files]
        rows: list[tuple[GroupKey, GroupRow]] = []
        numbers: list[int] = []  # twice that of the group, and one more for its row after the epoch
        for number, (key, before, after) in enumerate(self._state.stage(list(self._changes(tables, self.divisor)))):
            if before == after:
                continue
            for row, place in ((before, 2 * number), (after, 2 * number + 1)):
                if row is not None:
                    rows.append((key, row))
                    numbers.append(place)
        shown = self._shown(self._table(rows, numbers))
        return self._signed(shown)

    def changes(self, matches: FoundChanges, folder: Place | None) -> FoundChanges:
        """Apply the signed matches of an epoch, and write the signed rows of groups that come of it to a folder."""
        signed = self.stage(matches.files)
        change = signed[CHANGE_COLUMN].to_numpy()
        files = [] if folder is None or not len(signed) else [self.write(signed, folder)]
        return FoundChanges(int(np.count_nonzero(change > 0)), int(np.count_nonzero(change < 0)), files, groups=len(self))

    def commit(self, identity: str) -> None:
        """Keep what was staged: the groups are those of another version of the index now."""
        self._state.commit()
        self.identity = identity

    def undo(self) -> None:
        """Take back what was staged, or begin anew where that was interrupted."""
        known, self.identity = self.identity, None
        self._state.undo()
        self.identity = known if self._state.is_whole else None

    def write(self, rows: pa.Table, folder: Place) -> Place:
        """Write signed rows to a file in a folder."""
        file = folder / f"part-{uuid.uuid4().hex}.parquet"
        write_parquet(rows, file)
        return file

    def _empty_state(self) -> GroupState:
        return GroupState(self._makers, has_keys=self.query.grouping is None or bool(self.query.grouping.keys))

    def _read(self, file: Place) -> pa.Table:
        signed = read_parquet(file)
        columns = [
            signed[field.name].cast(field.type) if field.name in signed.column_names else pa.nulls(len(signed), field.type)
            for field in self.matches
        ]
        times = signed[CHANGE_COLUMN].cast(pa.int64())
        return pa.table([*columns, times], [*self.matches.names, _CARRIED])

    def _prepared(self, rows: pa.Table) -> pa.Table:
        """Return matches as they are grouped: with the types that `find` gives them, and what is computed of them."""
        if self.query.grouping is not None or self.query.before:
            rows = rows.cast(in_microseconds(rows.schema), safe=False)
        for step in self.query.before:
            rows = step.of(rows, _CARRIED, self.query.query)
        return rows

    def _wanted(self, rows: pa.Table) -> pa.Table:
        """Return what groups want to know of rows, with equal rows added up where Arrow can do that."""
        columns = [rows[name] for name in self._keys]
        if self.query.grouping is not None:
            for name, (_, aggregate) in zip(self._arguments, self.query.grouping.aggregates, strict=True):
                if name is not None:  # of a count, it only matters whether values are there
                    columns.append(pc.is_valid(rows[name]) if aggregate.function == "count" else rows[name])
        table = pa.table([*columns, rows[_CARRIED]], [*(f"c{place}" for place in range(len(columns))), _CARRIED])
        return summed(table) if _can_be_summed(table) else table

    def _changes(self, tables: Sequence[pa.Table], divisor: int) -> Iterator[GroupChange]:
        """Give what tables say together, each combination of values once."""
        width, places = len(self._keys), self._places()
        for row, times in _net_rows(tables):
            if times:
                values = row[width:]
                yield row[:width], tuple([None if at is None else values[at] for at in places]), times // divisor

    def _places(self) -> list[int | None]:
        """Return for each aggregate the place of its argument among all arguments; None if it has none."""
        found: list[int | None] = []
        for name in self._arguments:
            found.append(None if name is None else sum(place is not None for place in found))
        return found

    def _table(self, rows: Sequence[tuple[GroupKey, GroupRow]], numbers: Sequence[int]) -> pa.Table:
        """Return groups as a table of keys and aggregates, each with a number that it carries along."""
        kept = [(*key, *row) for key, row in rows]
        columns = [in_arrow([row[place] for row in kept], field.type) for place, field in enumerate(self._kept)]
        return pa.table([*columns, pa.array(numbers, pa.int64())], [*self._kept.names, _CARRIED])

    def _shown(self, groups: pa.Table) -> pa.Table:
        """Return the rows of groups as they are reported, of those groups that are in the result."""
        for step in self.query.after:
            groups = step.of(groups, _CARRIED, self.query.query)
        return groups.select([*self.query.columns, _CARRIED])

    def _signed(self, shown: pa.Table) -> pa.Table:
        """Return the rows that are reported, of groups as they were and as they are."""
        numbers = shown[_CARRIED].to_pylist()
        rows = shown.drop_columns(_CARRIED)
        signs: list[int] = []
        taken: list[int] = []
        if self.query.has_bound:
            there = set(numbers)
            for place, number in enumerate(numbers):
                if number ^ 1 not in there:  # it was outside before the epoch, or is outside after it
                    taken.append(place)
                    signs.append(1 if number % 2 else -1)
        else:
            net: dict[PythonRow, int] = {}
            first: dict[PythonRow, int] = {}
            for place, (number, row) in enumerate(zip(numbers, _rows(rows), strict=True)):
                net[row] = net.get(row, 0) + (1 if number % 2 else -1)
                first.setdefault(row, place)
            for row, times in net.items():
                taken += [first[row]] * abs(times)
                signs += [1 if times > 0 else -1] * abs(times)
        found = rows.take(pa.array(taken, pa.int64()))
        return found.add_column(0, CHANGE_COLUMN, pa.array(signs, pa.int8())).cast(self.schema)


def _types_of(rows: pa.Table, grouping: Grouping, query: GroupedQuery) -> pa.Schema:
    """Return the types of keys and aggregates, which are those of a static query; refuse those that groups cannot follow."""
    names = [name for name, _ in (*grouping.keys, *grouping.aggregates)]
    as_they_are = replace(grouping, columns=tuple((name, name) for name in names), having=None)
    try:
        return grouped(rows, as_they_are, query.query.dialect, query.query.zone).schema
    except NeedsSparkError as error:
        what = str(error).partition(" is Spark's work")[0]
        raise QueryError(f"{what} cannot be watched", hint="watch the matches, and group what the epochs report") from None


def _distinct_matches(query: GroupedQuery, schema: pa.Schema, index: Index) -> Iterator[pa.Table]:
    """Give the matches that an index has, with the columns of the head, and how many are equal."""
    local, inner = Local(refuses_long=True), query.query
    inner = replace(inner, names=tuple(f"_c{place}" for place in range(len(inner.head))))  # none is that of the count
    has_lists = any(pa.types.is_nested(field.type) for field in schema)
    for part in meaning(inner, index.statistics):
        keys = dict.fromkeys(attribute for term in part.query.head for attribute in attributes_of(term))
        if not query.attributes or not keys or {*part.query.columns}.isdisjoint(inner.columns):
            found = pa.table({GROUP_COUNT: _as_column(local.count(Ask(part, index)).matches)})
        else:
            found = _counted(local, replace(part, keys=tuple(keys)), index, listing=has_lists)
        names = found.column_names
        columns = [
            found[name].cast(field.type, safe=False) if name in names else pa.nulls(len(found), field.type)
            for name, field in zip(inner.columns, schema, strict=True)
        ]
        yield pa.table([*columns, found[GROUP_COUNT]], [*schema.names, _CARRIED])


def _counted(local: Local, part: Draft, index: Index, *, listing: bool) -> pa.Table:
    """Return the rows of matches, each with how often it is there; where they are to be listed, rows may repeat."""
    if not listing and (found := local.count_by(Ask(part, index))) is not None:
        return found[0]
    rows = local.table(Ask(replace(part, keys=()), index))  # loops are too large to compile, or Arrow groups by no list
    return rows.append_column(GROUP_COUNT, pa.array(np.ones(len(rows), np.int64))) if listing else counted(rows, GROUP_COUNT)


def _as_column(count: int) -> pa.Array:
    return pa.array([count], pa.int64() if count < 1 << 63 else pa.decimal256(len(str(count))))


def _can_be_summed(table: pa.Table) -> bool:
    """Tell whether Arrow can add up equal rows: it groups by no list, and counts have to fit into 64 bits."""
    *columns, times = table.columns
    if not columns or not pa.types.is_integer(times.type) or any(pa.types.is_nested(one.type) for one in columns):
        return False
    return float(pc.sum(pc.abs(times.cast(pa.float64(), safe=False))).as_py() or 0.0) < SAFE_COUNT


def _net_rows(tables: Sequence[pa.Table]) -> Iterator[tuple[PythonRow, int]]:
    """Give the rows of tables, each once, with the sum of what they carry."""
    if (
        len(tables) > 1
        and len({str(table.schema) for table in tables}) == 1
        and _can_be_summed(whole := pa.concat_tables(tables))
    ):
        tables = [summed(whole)]
    if len(tables) == 1 and _can_be_summed(tables[0]):
        yield from _carrying_rows(tables[0])
        return
    found: dict[PythonRow, int] = {}
    for table in tables:
        for row, times in _carrying_rows(table):
            found[row] = found.get(row, 0) + times
    yield from found.items()


def _carrying_rows(table: pa.Table) -> Iterator[tuple[PythonRow, int]]:
    times = map(int, table[_CARRIED].to_pylist())
    yield from zip(_rows(table.drop_columns(_CARRIED)), times, strict=True)


def _rows(table: pa.Table) -> Iterator[PythonRow]:
    columns = [in_python(column) for column in table.columns]
    yield from zip(*columns, strict=True) if columns else iter([()] * table.num_rows)
