"""An opened index: its relations as tries, its domains as dictionaries and properties, each verified before it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from bigjoin.errors import IndexFormatError, QueryError
from bigjoin.html_tables import titled
from bigjoin.index.contents import contents_line, contents_table, number_of
from bigjoin.index.dictionary import Dictionary, RowNumbers, code_type
from bigjoin.index.files import RANK_TYPES, IndexFiles
from bigjoin.index.manifest_entries import ColumnOrder, LevelEntry, Manifest, RelationEntry, RunEntry
from bigjoin.index.replaced_columns import CODE, ReplacedColumns
from bigjoin.index.statistics import statistics_of
from bigjoin.index.trie import Trie, build_trie, single_list
from bigjoin.index.trust import verify_domain, verify_relation
from bigjoin.memory import shown_size
from bigjoin.paths import shown_path
from bigjoin.query.read import Read, View
from bigjoin.query.statistics import VERTEX as VERTEX
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Constant
from bigjoin.storage import Place, is_on_store

EDGE = "edge"
"""The relation of a graph that has only one."""
MAX_MAPPED_INDICES = 4
"""Indices that a process of tasks keeps mapped."""


@dataclass(frozen=True)
class Index(IndexFiles):
    """One version of an index: what `build_index` returns, and the `index` of a graph.

    It stays this version, whatever is committed after it was opened. To ask it something, open its path with `Graph.open`.

    A relation or a domain is verified when it is first asked for, once on each machine. An index travels to tasks as its path
    and its manifest, so that they read the version that the driver has planned for.
    """

    def __repr__(self) -> str:
        return f"Index {shown_path(self.path)}: {contents_line(self.statistics, self.epoch)}"

    def _repr_html_(self) -> str:
        runs = f"; {number_of(len(self.runs), 'run', 'runs')} of updates" if self.runs else ""
        more = f"{shown_path(self.path)}, {shown_size(self.bytes)}, epoch {self.epoch:,}{runs}"
        return titled("Index", more, contents_table(self.statistics))

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.path.absolute(), self.manifest, self.verifies, self.held)

    def followed_by(self, manifest: Manifest, held: Mapping[str, bytes]) -> Index:
        """Return the index after an epoch of this process: what is mapped and verified stays so, and what is new is its own.

        `held` are files that are not on disk. Both share what they know of files, which never change. The cost does not depend
        on the number of runs.
        """
        if not manifest.runs:
            return replace(self, manifest=manifest, held=held)
        before, verified, of_base = self.manifest, self.verified, self._verified_base
        if not before.runs:
            verified, of_base = set(), self.verified
        for name, domain in manifest.domains.items():
            if domain is not before.domains.get(name) and ("domain", name) not in verified and not before.has_additions(name):
                verified.add(("domain", name))
        return replace(self, manifest=manifest, held=held, verified=verified, _verified_base=of_base)

    def keep(self, names: Iterable[str]) -> None:
        """Keep files in memory that will be on disk."""
        for name in names:
            self.file(name)

    @property
    def is_gone(self) -> bool:
        """Whether its folder was removed; on a store, that is not asked."""
        return not is_on_store(self.path) and not self.path.exists()

    @property
    def identity(self) -> str:
        """A text that tells this version from all others, of this index and of any."""
        return self.manifest.identity

    @property
    def epoch(self) -> int:
        """The number of the last epoch of updates that it contains."""
        return self.manifest.epoch

    @property
    def runs(self) -> tuple[RunEntry, ...]:
        """The runs of updates that are committed but not compacted, the oldest first."""
        return self.manifest.runs

    @property
    def shards(self) -> int:
        """The number of workers that its lists are divided among."""
        return self.manifest.shards

    @property
    def bytes(self) -> int:
        """The bytes of its files."""
        return sum(entry.bytes for entry in self.manifest.files.values())

    @property
    def own_bytes(self) -> int:
        """The bytes without those of materialised relations, which most queries do not read."""
        stored = {file for entry in self.manifest.relations.values() if entry.is_stored_result for file in entry.files}
        return self.bytes - sum(self.manifest.files[file].bytes for file in stored)

    @cached_property
    def statistics(self) -> Statistics:
        return statistics_of(self.manifest)

    @cached_property
    def dictionaries(self) -> dict[str, Dictionary | RowNumbers]:
        return {name: self._dictionary(name) for name in self.manifest.domains}

    def _dictionary(self, name: str) -> Dictionary | RowNumbers:
        domain = self.manifest.domains[name]
        if domain.ids is None or domain.ranks is None:
            return RowNumbers(domain.size)
        verify_domain(self, name)
        return Dictionary(self.table(domain.ids, "id")["id"], self.array(domain.ranks, RANK_TYPES))

    def properties(self, domain: str, *, before: bool = False) -> Mapping[str, pa.ChunkedArray]:
        """Return the properties of a domain's values, as arrays by code; values that runs added without any have NULL.

        `before` leaves out what the last run has replaced.
        """
        entry = self.manifest.domains[domain]
        if not entry.properties:
            return {}
        verify_domain(self, domain)
        table = self.table(entry.files, *entry.properties)
        columns = {name: padded(table[name], entry.size - len(table)) for name in entry.properties}
        last = self._last_replaced(domain) if before else None
        replaced = [file for file in entry.changes if file != last]
        return ReplacedColumns(columns, self.table(replaced, CODE, *entry.properties)) if replaced else columns

    def replaced(self, domain: str) -> pa.Table | None:
        """Return the properties that the last epoch has replaced, with the codes of their values; None if there are none."""
        file = self._last_replaced(domain)
        if file is None:
            return None
        verify_domain(self, domain)
        return self.table([file], CODE, *self.manifest.domains[domain].properties)

    def _last_replaced(self, domain: str) -> str | None:
        """Return the file of the properties that the last epoch has replaced, if it is the last run and there are any."""
        last = self.runs[-1] if self.runs else None
        return None if last is None or last.epochs[1] != self.epoch else last.parts.get(f"{domain}/changes")

    def code(self, relation: str, column: int, constant: Constant) -> int | None:
        """Return the code of a constant in a column, None if it is not there; raise QueryError if its type does not fit."""
        dictionary = self.dictionaries[self.manifest.relations[relation].domains[column]]
        if not dictionary.comparable(constant.value):
            raise QueryError(f"{constant} cannot be compared with values of {relation!r}, which are {dictionary.type}")
        return dictionary.code(constant.value)

    def files_of(self, relation: str, columns: ColumnOrder) -> tuple[LevelEntry, ...]:
        """Return the files of a column order; orders that share a trie have the same."""
        return self._entry(relation, len(columns)).orders[columns].levels

    def extensions(self, read: Read, columns: ColumnOrder) -> Trie:
        """Return the lists that an extender reads; in an index without runs all versions are the same."""
        return self.trie(read.relation, columns, read.view)

    def trie(self, relation: str, columns: ColumnOrder, view: View | None = None) -> Trie:
        """Return the trie of a relation, or of a view of it, in a column order that may leave out the last columns."""
        key = (relation, view, columns)
        if key not in self._tries:
            if relation == VERTEX and relation not in self.manifest.relations:
                size = self.manifest.domains[VERTEX].size
                self._tries[key] = single_list(np.arange(size, dtype=code_type(size)))
                return self._tries[key]
            assert not self.runs, "runs of updates are read through Versions"
            self._tries[key] = self._relation(relation, columns) if view is None else self._view(relation, view, columns)
        return self._tries[key]

    @cached_property
    def _tries(self) -> dict[tuple[str, View | None, ColumnOrder], Trie]:
        return {}

    def _entry(self, relation: str, width: int) -> RelationEntry:
        """Return the entry of a relation, or of its rows if more columns are read than it has."""
        entry = self.manifest.relations[relation]
        return entry.rows if entry.rows is not None and width > len(entry.domains) else entry

    def _stored_order(self, relation: str, columns: ColumnOrder) -> ColumnOrder | None:
        """Return a stored column order that begins with some columns, if there is one."""
        orders = self._entry(relation, len(columns)).orders
        return min((order for order in orders if order[: len(columns)] == columns), default=None)

    def _relation(self, relation: str, columns: ColumnOrder) -> Trie:
        entry, order = self._entry(relation, len(columns)), self._stored_order(relation, columns)
        if order is None:
            raise IndexFormatError(f"the index {self.path} does not hold {relation!r} in column order {columns}")
        verify_relation(self, relation)
        trie = self.stored_trie(entry, order)
        if not self.leaves_out_runs and len(trie) != entry.tuples:
            raise self.damaged(f"the relation {relation!r} has {len(trie)} tuples, and {entry.tuples} by the manifest")
        if not self.leaves_out_runs:  # a verified figure, which would otherwise be found from all lists for every question
            trie = replace(trie, most=entry.orders[order].lists.longest)
        return trie.first_columns(len(columns))

    def _view(self, relation: str, view: View, columns: ColumnOrder) -> Trie:
        """Return the trie of a view in a column order: a stored one, a list of a stored one, or one built for the purpose."""
        wanted = tuple(view.kept[column] for column in columns)
        codes = {column: self.code(relation, column, constant) for column, constant in view.constants}
        known = {column: code for column, code in codes.items() if code is not None}
        is_slice = not view.equal and (not codes or (len(wanted) == 1 and len(known) == len(codes)))
        if is_slice and self._stored_order(relation, (*known, *wanted)):
            trie = self._relation(relation, (*known, *wanted))
            return single_list(trie.list_of(list(known.values()))) if known else trie
        entry = self.manifest.relations[relation]
        order = next(iter(entry.orders))
        trie = self.trie(relation, order)
        tuples = dict(zip(order, trie.tuples(np.arange(len(trie))), strict=True))
        chosen = np.ones(len(trie), np.bool_)
        for column, code in codes.items():
            chosen &= tuples[column] == code if code is not None else False
        for one, other in view.equal:
            chosen &= tuples[one] == tuples[other]
        return build_trie([tuples[c][chosen] for c in wanted], self.manifest.domains[entry.domains[wanted[0]]].size)


def padded(column: pa.ChunkedArray, missing: int) -> pa.ChunkedArray:
    """Return a column with NULL for further values."""
    return column if missing <= 0 else pa.chunked_array([*column.chunks, pa.nulls(missing, column.type)])


_mapped: dict[tuple[Place, str, bool, bool], Index] = {}
"""The indices that tasks in this process have read, the latest last.

Spark sends the index with every job but keeps its Python processes, and to map and verify an index again would take longer
than a small task. Indices never change, so one that is found here by path and identity is as good as a new one.
"""


def _received(path: Place, manifest: Manifest, verifies: bool, held: Mapping[str, bytes]) -> Index:
    """Return the index that has travelled to a task."""
    if not is_on_store(path) and not path.exists():
        raise IndexFormatError(f"there is no index {path} any more: the graph was closed, or its folder removed; make it again")
    key = (path, manifest.identity, bool(manifest.runs), verifies)
    _mapped[key] = _mapped.pop(key) if key in _mapped else Index(path, manifest, verifies, held=held)
    while len(_mapped) > MAX_MAPPED_INDICES:
        del _mapped[next(iter(_mapped))]
    return _mapped[key]
