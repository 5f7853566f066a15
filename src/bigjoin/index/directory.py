"""An opened index: the arrays that the manifest names, mapped when they are asked for.

DIR/manifest.json            format version, domains, relations, size and checksum of every file
DIR/build-<unique>/*.npy     offsets, values, ranks (NumPy)
DIR/build-<unique>/*.arrow   ids and properties (Arrow IPC, uncompressed)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError, QueryError
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.entries import Columns, DefinitionEntry, DomainEntry, LevelEntry, Manifest, RelationEntry, RunEntry
from bigjoin.index.manifest import read_manifest
from bigjoin.index.shards import Shards
from bigjoin.index.trie import Level, Trie, build_trie, single_list
from bigjoin.index.trust import OFFSETS, RANKS, verify_late, verify_relation
from bigjoin.query.query import Atom
from bigjoin.query.read import Read, View
from bigjoin.query.statistics import EDGE_COLUMNS, Definition, RelationStatistics, Statistics
from bigjoin.query.terms import Constant
from bigjoin.storage import FileStatus, Storage, StoredFile, storage_at
from bigjoin.storage.arrays import array_in, table_in

VERTEX = "vertex"
"""The domain of a graph's vertices."""
EDGE = "edge"
"""The relation of a graph that has only one."""
KEPT = 4
"""Indices that a process of tasks keeps mapped."""


@dataclass(frozen=True)
class Index:
    """An opened index: one version, whatever is written beside it later.

    Opening reads the manifest and checks every file's size. A relation or a domain is verified when it is first asked for, once
    on each machine. An index travels to tasks as its path and its manifest, so that they read the version that the driver has
    planned for. Files that the manifest does not list yet are those of a build, which reads what it has written itself.
    """

    path: Path
    manifest: Manifest
    verifies: bool = True
    """Whether arrays are verified before anybody reads them; if not, a damaged file may end the process."""
    _tries: dict[tuple[str, View | None, tuple[int, ...]], Trie] = field(default_factory=dict, compare=False, repr=False)
    _files: dict[str, StoredFile] = field(default_factory=dict, compare=False, repr=False)
    verified: set[tuple[str, str]] = field(default_factory=set, compare=False, repr=False)
    _leaves_out_runs: bool = False
    """Whether the manifest's numbers of tuples count runs that are left out here."""

    @classmethod
    def open(cls, path: Path | str, *, verify: bool = True) -> Index:
        """Open a directory, or raise IndexFormatError that says what is wrong with it."""
        path = Path(path)
        index = cls(path, read_manifest(path), verify)
        for name, entry in index.manifest.files.items():
            try:
                size = index.storage.status(name).bytes
            except OSError:
                raise index.damaged(f"{name} is missing") from None
            if size != entry.bytes:
                raise index.damaged(f"{name} has {size} bytes instead of {entry.bytes}")
        return index

    @cached_property
    def storage(self) -> Storage:
        """Where its files are."""
        return storage_at(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.path.absolute(), self.manifest, self.verifies)

    def damaged(self, what: str) -> IndexFormatError:
        """Return the error that says what is wrong with this index."""
        return IndexFormatError(f"the index {self.path} is damaged: {what}; build the index again")

    def gone(self, name: str) -> IndexFormatError:
        """Return the error for a file that was there when the index was opened."""
        return IndexFormatError(
            f"{name} of the index {self.path} is gone: the graph was closed, or another version was committed and the old one "
            "vacuumed; open the index again"
        )

    def raw_tries(self, entry: RelationEntry) -> dict[Columns, Trie]:
        """Return all tries of a relation, those that share files once; what is in them is not verified."""
        made: dict[Any, Trie] = {}
        return {
            columns: made.setdefault(order.levels, self.raw_trie(entry, columns)) for columns, order in entry.orders.items()
        }

    def raw_trie(self, entry: RelationEntry, columns: Columns) -> Trie:
        """Return a relation's trie in a column order; what is in it is not verified."""
        shards = Shards(self.shards, self.manifest.domains[entry.domains[columns[0]]].size)
        levels = tuple(self._level(level) for level in entry.orders[columns].levels)
        return Trie(levels, keyed=len(columns) > 1, shards=shards)

    def files_of(self, name: str, columns: tuple[int, ...]) -> tuple[LevelEntry, ...]:
        """Return what tells column orders of a relation apart that have different files."""
        return self._reading(name, len(columns)).orders[columns].levels

    def _reading(self, name: str, width: int) -> RelationEntry:
        """Return a relation, or its rows, if so many columns are read."""
        entry = self.manifest.relations[name]
        return entry.rows if entry.rows is not None and width > len(entry.domains) else entry

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        """Return the lists of what an extender reads; without runs, versions are the same, and pairs are those with rows."""
        return self.trie(read.relation, columns, read.view)

    def trie(self, relation: str, columns: tuple[int, ...], view: View | None = None) -> Trie:
        """Return the trie of a relation, or of a view, in a column order, which may be shorter than the relation is wide."""
        assert not self.runs or self.statistics.relations[relation].arity == 1, "runs of updates are read through Versions"
        key = (relation, view, columns)
        if key not in self._tries:
            self._tries[key] = self._map_trie(relation, columns) if view is None else self._view(relation, view, columns)
        return self._tries[key]

    def _view(self, relation: str, view: View, columns: tuple[int, ...]) -> Trie:
        """Return the trie of a view in a column order: one that the index holds, or part of one, or one made here and now."""
        entry = self.manifest.relations[relation]
        wanted = tuple(view.kept[c] for c in columns)
        codes = {column: self.code(relation, column, constant) for column, constant in view.constants}
        with suppress(IndexFormatError):
            if view.equal:
                pass
            elif not codes:
                return self._map_trie(relation, wanted)
            elif len(wanted) == 1 and None not in codes.values():
                lists = self._map_trie(relation, (*codes, *wanted))
                node = int(lists.nodes([np.array([code]) for code in codes.values()], 1)[0])
                return single_list(
                    lists.values[lists.offsets[node] : lists.offsets[node + 1]] if node >= 0 else lists.values[:0]
                )
        order = max(entry.orders, key=len)
        trie = self.trie(relation, order)
        tuples = dict(zip(order, trie.tuples(np.arange(len(trie))), strict=True))
        chosen = np.ones(len(trie), np.bool_)
        for column, code in codes.items():
            chosen &= tuples[column] == code if code is not None else False
        for one, other in view.equal:
            chosen &= tuples[one] == tuples[other]
        return build_trie([tuples[c][chosen] for c in wanted], self.manifest.domains[entry.domains[wanted[0]]].size)

    def code(self, relation: str, column: int, constant: Constant) -> int | None:
        """Return the code of a constant in a column, None if it does not have it; raise QueryError if it never could."""
        dictionary = self.dictionaries[self.manifest.relations[relation].domains[column]]
        if not dictionary.comparable(constant.value):
            raise QueryError(f"{constant} cannot be compared with values of {relation!r}, which are {dictionary.type}")
        return dictionary.code(constant.value)

    @cached_property
    def dictionaries(self) -> dict[str, Dictionary | RowNumbers]:
        return {name: self._dictionary(name, domain) for name, domain in self.manifest.domains.items()}

    def _dictionary(self, name: str, domain: DomainEntry) -> Dictionary | RowNumbers:
        if domain.ids is None or domain.ranks is None:
            return RowNumbers(domain.size)
        verify_late(self, name)
        ids = self.table(domain.ids, "id")["id"]
        return Dictionary(ids, self.array(domain.ranks, RANKS))

    def properties(self, domain: str) -> Mapping[str, pa.ChunkedArray]:
        """Return the columns that a domain's values have beside their ids, as arrays by code."""
        entry = self.manifest.domains[domain]
        if not entry.properties:
            return {}
        verify_late(self, domain)
        table = self.table(entry.files, *entry.properties)
        return {name: _padded(table[name], entry.size - len(table)) for name in entry.properties}

    def _late_files(self, names: Iterable[str]) -> list[str]:
        """Return those of a domain's files that runs have brought."""
        brought = {file for run in self.manifest.runs for file in run.parts.values()}
        return [name for name in names if name in brought]

    @cached_property
    def statistics(self) -> Statistics:
        domains = self.manifest.domains
        return Statistics(
            {name: _statistics(relation) for name, relation in self.manifest.relations.items()},
            {name: domain.size for name, domain in domains.items()},
            {name: domain.properties for name, domain in domains.items() if domain.properties},
        )

    @property
    def epoch(self) -> int:
        """The number of the last epoch of updates that is in it."""
        return self.manifest.epoch

    @property
    def runs(self) -> tuple[RunEntry, ...]:
        """Updates that are committed and not compacted, the oldest first."""
        return self.manifest.runs

    @cached_property
    def base(self) -> Index:
        """What was compacted: the index without its runs."""
        if not self.manifest.runs:
            return self
        late = set(self._late_files(name for domain in self.manifest.domains.values() for name in domain.all_files))
        domains = {
            name: replace(
                domain,
                size=domain.stored_size,
                stored=None,
                ids=None if domain.ids is None else tuple(file for file in domain.ids if file not in late),
                files=tuple(file for file in domain.files if file not in late),
            )
            for name, domain in self.manifest.domains.items()
        }
        return Index(
            self.path,
            replace(self.manifest, domains=domains, runs=()),
            self.verifies,
            _files=self._files,
            _leaves_out_runs=True,
        )

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.manifest.files.values())

    @property
    def own_bytes(self) -> int:
        """The bytes without those of materialised relations, which queries may do without."""
        stored = {file for entry in self.manifest.relations.values() if entry.is_stored_result for file in entry.files}
        return self.bytes - sum(self.manifest.files[file].bytes for file in stored)

    @property
    def shards(self) -> int:
        return self.manifest.shards

    def _map_trie(self, relation: str, columns: tuple[int, ...]) -> Trie:
        entry = self._reading(relation, len(columns))
        order = next((c for c in sorted(entry.orders) if c[: len(columns)] == columns), None)
        if order is None:
            raise IndexFormatError(f"the index {self.path} does not hold {relation!r} in column order {columns}")
        verify_relation(self, relation)
        trie = self.raw_trie(entry, order)
        if not self._leaves_out_runs and len(trie) != entry.tuples:
            raise self.damaged(f"the relation {relation!r} has {len(trie)} tuples, and {entry.tuples} by the manifest")
        if len(columns) == len(order):
            return trie
        return trie.roots() if len(columns) == 1 else trie.upper_levels(len(columns))

    def _level(self, entry: LevelEntry) -> Level:
        values = self.array(entry.values, (self.manifest.codes,))
        if entry.range is not None:
            first, last = entry.range
            if last > len(values):
                raise self.damaged(f"{entry.values} ends before {entry.range}")
            values = values[first:last]
        offsets = np.array([0, len(values)], np.int64) if entry.offsets is None else self.array(entry.offsets, OFFSETS)
        if not len(offsets) or int(offsets[-1]) != len(values):
            raise self.damaged(f"{entry.offsets or entry.values} and {entry.values} do not fit together")
        return Level(offsets, values)

    def file(self, name: str) -> StoredFile:
        """Return a file, mapped once; what is in it is not verified."""
        if name not in self._files:
            try:
                self._files[name] = self.storage.map(name)
            except FileNotFoundError:
                raise self.gone(name) from None
            except OSError as error:
                raise self.damaged(f"{name} cannot be read ({error.strerror})") from None
        return self._files[name]

    def status(self, name: str) -> FileStatus:
        """Return the status of a file: of the one that is mapped, if it is."""
        try:
            return self._files[name].status if name in self._files else self.storage.status(name)
        except OSError:
            raise self.gone(name) from None

    def array(self, name: str, kinds: Sequence[str]) -> NDArray[Any]:
        """Return the array of a file, if it has one of some types; what is in it is not verified."""
        try:
            array = array_in(self.file(name).content)
        except Exception:  # whatever NumPy makes of a header that it did not write
            raise self.damaged(f"{name} is no NumPy file") from None
        if array.dtype.name not in kinds or not array.dtype.isnative:
            raise self.damaged(f"{name} holds {array.dtype} instead of {' or '.join(kinds)}")
        return array

    def table(self, names: Iterable[str], *columns: str) -> pa.Table:
        """Return columns of the tables of files, one after another; what is in them is not verified."""
        parts = []
        for name in names:
            content = self.file(name).content
            try:
                parts.append(table_in(content).select(list(columns)))
            except (pa.ArrowException, OSError, KeyError, ValueError):
                raise self.damaged(f"{name} is no Arrow file with {', '.join(columns)}") from None
        try:
            return pa.concat_tables(parts)
        except pa.ArrowException:
            raise self.damaged(f"{', '.join(names) or 'no files at all'} do not fit together") from None


def _padded(column: pa.ChunkedArray, missing: int) -> pa.ChunkedArray:
    """Return a column with NULLs for values that came later, of which nobody said anything."""
    return column if missing <= 0 else pa.chunked_array([*column.chunks, pa.nulls(missing, column.type)])


_known: dict[tuple[Path, str, bool, bool], Index] = {}


def _received(path: Path, manifest: Manifest, verifies: bool) -> Index:
    """Return the index that has travelled to a task: as this process mapped it for the task before, if it is the same one."""
    name = (path, manifest.identity, bool(manifest.runs), verifies)
    if name not in _known:
        while len(_known) >= KEPT:
            del _known[next(iter(_known))]
        _known[name] = Index(path, manifest, verifies)
    return _known[name]


def _statistics(entry: RelationEntry) -> RelationStatistics:
    """Return the statistics of a relation, and below it those of its rows, where each has an id."""
    return RelationStatistics(
        domains=entry.domains,
        tuples=entry.tuples,
        symmetric=entry.symmetric,
        loops=entry.loops,
        lists={columns: order.lists for columns, order in entry.orders.items()},
        catalogue=entry.catalogue,
        rows=None if entry.rows is None else _statistics(entry.rows),
        columns=entry.columns or (EDGE_COLUMNS if len(entry.domains) == 2 else ()),
        symmetries=entry.symmetries,
        materialized=entry.is_stored_result,
        definition=_definition(entry.definition),
    )


def _definition(entry: DefinitionEntry | None) -> Definition | None:
    """Return the query that a materialised relation is the result of, if plans can make use of it."""
    if entry is None or entry.head is None or entry.atoms is None:
        return None
    return Definition(entry.head, tuple(Atom(name, tuple(attributes)) for name, *attributes in entry.atoms))
