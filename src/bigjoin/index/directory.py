"""An opened index: the arrays that the manifest names, mapped when they are asked for.

DIR/manifest.json            format version, domains, relations, size and checksum of every file
DIR/build-<unique>/*.npy     offsets, values, ranks (NumPy)
DIR/build-<unique>/*.arrow   ids and properties (Arrow IPC, uncompressed)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError, QueryError
from bigjoin.index.arrays import map_array
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.manifest import read_manifest
from bigjoin.index.shards import Shards
from bigjoin.index.trie import Level, Trie, build_trie, single_list
from bigjoin.query.plan import Version
from bigjoin.query.query import Atom, Constant
from bigjoin.query.statistics import GRAPH, Definition, ListStatistics, RelationStatistics, Statistics
from bigjoin.query.view import View, view_of

VERTEX = "vertex"
"""The domain of a graph's vertices."""
EDGE = "edge"
"""The relation of a graph that has only one."""
KEPT = 4
"""Indices that a process of tasks keeps mapped."""


@dataclass(frozen=True)
class Index:
    """An opened index: one version, whatever is written beside it later.

    Opening reads the manifest and checks every file's size. An index travels to tasks as its path and its manifest, so that
    they read the version that the driver has planned for.
    """

    path: Path
    manifest: dict[str, Any]
    _tries: dict[tuple[str, tuple[int, ...]], Trie] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, path: Path | str) -> Index:
        """Open a directory, or raise IndexFormatError that says what is wrong with it."""
        path = Path(path)
        index = cls(path, read_manifest(path))
        for name, entry in index.manifest["files"].items():
            file = path / name
            if not file.is_file():
                raise index.damaged(f"{name} is missing")
            if file.stat().st_size != entry["bytes"]:
                raise index.damaged(f"{name} has {file.stat().st_size} bytes instead of {entry['bytes']}")
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.path.absolute(), self.manifest)

    def damaged(self, what: str) -> IndexFormatError:
        """Return the error that says what is wrong with this index."""
        return IndexFormatError(f"the index {self.path} is damaged: {what}; build the index again")

    def gone(self, name: str) -> IndexFormatError:
        """Return the error for a file that was there when the index was opened."""
        return IndexFormatError(
            f"{name} of the index {self.path} is gone: if another version was committed since, and the old one vacuumed, open "
            "the index again"
        )

    def check(self) -> Index:
        """Return the index if no array leads outside another: kernels trust them blindly. Reads all of it."""
        base = self.base
        for name, relation in base.statistics.relations.items():
            for reading in (relation, *([relation.rows] if relation.rows is not None else [])):
                for columns in self._files_once(reading, name):
                    trie = base.extensions(name, columns)
                    sizes = [base.statistics.domains[reading.domains[c]] for c in columns]
                    if not trie.is_sound(sizes):
                        raise self.damaged(f"the lists of {name!r} in column order {columns} make no sense")
        for name, dictionary in self.dictionaries.items():
            if isinstance(dictionary, Dictionary):
                self._check_dictionary(name, dictionary)
        for name in self.manifest["domains"]:
            size = self.statistics.domains[name]
            for column in self.properties(name).values():
                if len(column) != size:
                    raise self.damaged(f"the properties of {name!r} are {len(column)} instead of {size}")
        return self

    def _files_once(self, reading: RelationStatistics, name: str) -> list[tuple[int, ...]]:
        """Return the column orders of a relation, without those whose files another one has."""
        return list({self.files_of(name, columns): columns for columns in reading.lists}.values())

    def files_of(self, name: str, columns: tuple[int, ...]) -> str:
        """Return what tells column orders of a relation apart that have different files."""
        entry = self.manifest["relations"][name]
        orders = entry["orders"] if len(columns) == len(entry["domains"]) else entry["rows"]["orders"]
        return json.dumps(orders[key(columns)]["levels"])

    def _check_dictionary(self, name: str, dictionary: Dictionary) -> None:
        size = self.statistics.domains[name]
        try:
            dictionary.ids.validate(full=True)
        except pa.ArrowInvalid:
            raise self.damaged(f"the ids of {name!r} cannot be read") from None
        if len(dictionary.ids) != size or len(dictionary.ranks) != size or (size and int(dictionary.ranks.max()) >= size):
            raise self.damaged(f"the dictionary of {name!r} makes no sense")

    def extensions(self, relation: str, columns: tuple[int, ...], version: Version = Version.NEW, width: int = 0) -> Trie:
        """Return the trie of a relation in a column order, which may be shorter than the relation is wide."""
        del version, width  # what was compacted is the same at every version, and pairs are those that have rows
        assert not self.runs or self.statistics.relations[relation].arity == 1, "runs of updates are read through Versions"
        if (relation, columns) not in self._tries:
            view = view_of(relation)
            made = self._map_trie(relation, columns) if view is None else self._view(view, columns)
            self._tries[relation, columns] = made
        return self._tries[relation, columns]

    def _view(self, view: View, columns: tuple[int, ...]) -> Trie:
        """Return the trie of a view in a column order: one that the index holds, or part of one, or one made here and now."""
        entry = self.manifest["relations"][view.relation]
        wanted = tuple(view.kept[c] for c in columns)
        codes = {column: self.code(view.relation, column, constant) for column, constant in view.constants}
        with suppress(IndexFormatError):
            if view.equal:
                pass
            elif not codes:
                return self._map_trie(view.relation, wanted)
            elif len(wanted) == 1 and None not in codes.values():
                lists = self._map_trie(view.relation, (*codes, *wanted))
                node = int(lists.nodes([np.array([code]) for code in codes.values()], 1)[0])
                return single_list(
                    lists.values[lists.offsets[node] : lists.offsets[node + 1]] if node >= 0 else lists.values[:0]
                )
        order = max((_columns(text) for text in entry["orders"]), key=len)
        trie = self.extensions(view.relation, order)
        tuples = dict(zip(order, trie.tuples(np.arange(len(trie))), strict=True))
        chosen = np.ones(len(trie), np.bool_)
        for column, code in codes.items():
            chosen &= tuples[column] == code if code is not None else False
        for one, other in view.equal:
            chosen &= tuples[one] == tuples[other]
        return build_trie([tuples[c][chosen] for c in wanted], self.manifest["domains"][entry["domains"][wanted[0]]]["size"])

    def code(self, relation: str, column: int, constant: Constant) -> int | None:
        """Return the code of a constant in a column, None if it does not have it; raise QueryError if it never could."""
        dictionary = self.dictionaries[self.manifest["relations"][relation]["domains"][column]]
        if not dictionary.comparable(constant.value):
            raise QueryError(f"{constant} cannot be compared with values of {relation!r}, which are {dictionary.type}")
        return dictionary.code(constant.value)

    @cached_property
    def dictionaries(self) -> dict[str, Dictionary | RowNumbers]:
        return {
            name: Dictionary(self._table(domain["ids"])["id"], self._array(domain["ranks"]))
            if "ids" in domain
            else RowNumbers(domain["size"])
            for name, domain in self.manifest["domains"].items()
        }

    def properties(self, domain: str) -> Mapping[str, pa.ChunkedArray]:
        """Return the columns that a domain's values have beside their ids, as arrays by code."""
        entry = self.manifest["domains"][domain]
        if not entry.get("properties"):
            return {}
        table = self._table(entry["files"])
        missing = entry["size"] - len(table)
        return {name: _padded(table[name], missing) for name in entry["properties"]}

    @cached_property
    def statistics(self) -> Statistics:
        domains = self.manifest["domains"]
        return Statistics(
            {name: _statistics(relation) for name, relation in self.manifest["relations"].items()},
            {name: domain["size"] for name, domain in domains.items()},
            {name: domain["properties"] for name, domain in domains.items() if domain.get("properties")},
        )

    @property
    def epoch(self) -> int:
        """The number of the last epoch of updates that is in it."""
        return int(self.manifest["epoch"])

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Updates that are committed and not compacted, the oldest first."""
        return list(self.manifest.get("runs", ()))

    @cached_property
    def base(self) -> Index:
        """What was compacted: the index without its runs."""
        domains = {
            name: {**domain, "size": domain.get("stored", domain["size"])} for name, domain in self.manifest["domains"].items()
        }
        return Index(self.path, {**self.manifest, "domains": domains, "runs": []})

    @property
    def bytes(self) -> int:
        return sum(entry["bytes"] for entry in self.manifest["files"].values())

    @property
    def own_bytes(self) -> int:
        """The bytes without those of materialised relations, which queries may do without."""
        stored = [entry for entry in self.manifest["relations"].values() if "definition" in entry]
        levels = (level for entry in stored for order in entry["orders"].values() for level in order["levels"])
        files = {file for level in levels for file in level.values()}
        return self.bytes - sum(int(self.manifest["files"][file]["bytes"]) for file in files)

    @property
    def shards(self) -> int:
        return int(self.manifest["shards"])

    def _map_trie(self, relation: str, columns: tuple[int, ...]) -> Trie:
        entry = self.manifest["relations"][relation]
        orders = {_columns(text): order for text, order in entry["orders"].items()}
        if len(columns) > len(entry["domains"]) and "rows" in entry:
            orders = {_columns(text): order for text, order in entry["rows"]["orders"].items()}
        order = next((c for c in sorted(orders) if c[: len(columns)] == columns), None)
        if order is None:
            raise IndexFormatError(f"the index {self.path} does not hold {relation!r} in column order {columns}")
        shards = Shards(self.shards, self.manifest["domains"][entry["domains"][order[0]]]["size"])
        levels = tuple(self._level(level) for level in orders[order]["levels"])
        trie = Trie(levels, keyed=len(order) > 1, shards=shards)
        if len(columns) == len(order):
            return trie
        return trie.roots() if len(columns) == 1 else trie.upper_levels(len(columns))

    def _level(self, entry: dict[str, Any]) -> Level:
        values = self._array(entry["values"])
        if "range" in entry:
            first, last = entry["range"]
            values = values[first:last]
        offsets = self._array(entry["offsets"]) if "offsets" in entry else np.array([0, len(values)], np.int64)
        if int(offsets[-1]) != len(values):
            raise self.damaged(f"{entry.get('offsets', entry['values'])} and {entry['values']} do not fit together")
        return Level(offsets, values)

    def _array(self, name: str) -> NDArray[Any]:
        try:
            return map_array(self.path / name)
        except FileNotFoundError:
            raise self.gone(name) from None
        except (ValueError, EOFError):
            raise self.damaged(f"{name} is no NumPy file") from None

    def _table(self, names: list[str]) -> pa.Table:
        parts = []
        for name in names:
            try:
                with pa.memory_map(str(self.path / name)) as source:
                    parts.append(pa.ipc.open_file(source).read_all())
            except FileNotFoundError:
                raise self.gone(name) from None
            except (pa.ArrowException, OSError):
                raise self.damaged(f"{name} is no Arrow file") from None
        return pa.concat_tables(parts)


def _padded(column: pa.ChunkedArray, missing: int) -> pa.ChunkedArray:
    """Return a column with NULLs for values that came later, of which nobody said anything."""
    return column if missing <= 0 else pa.chunked_array([*column.chunks, pa.nulls(missing, column.type)])


_known: dict[tuple[Path, tuple[str, ...]], Index] = {}


def _received(path: Path, manifest: dict[str, Any]) -> Index:
    """Return the index that has travelled to a task: as this process mapped it for the task before, if it is the same one."""
    name = (path, tuple(manifest["files"]))  # names of files are unique to a version
    if name not in _known:
        while len(_known) >= KEPT:
            del _known[next(iter(_known))]
        _known[name] = Index(path, manifest)
    return _known[name]


def _statistics(entry: dict[str, Any]) -> RelationStatistics:
    """Return the statistics of a relation, and below it those of its rows, where each has an id."""
    return RelationStatistics(
        domains=tuple(entry["domains"]),
        tuples=entry["tuples"],
        symmetric=entry["symmetric"],
        loops=entry["loops"],
        lists={_columns(text): ListStatistics(**order["lists"]) for text, order in entry["orders"].items()},
        catalogue=entry.get("catalogue", {}),
        rows=_statistics(entry["rows"]) if "rows" in entry else None,
        columns=tuple(entry.get("columns", GRAPH if len(entry["domains"]) == 2 else ())),
        symmetries=tuple(tuple(columns) for columns in entry.get("symmetries", ())),
        materialized="definition" in entry,
        definition=_definition(entry.get("definition", {})),
    )


def _definition(entry: dict[str, Any]) -> Definition | None:
    """Return the query that a materialised relation is the result of, if plans can make use of it."""
    if "atoms" not in entry:
        return None
    return Definition(tuple(entry["head"]), tuple(Atom(name, tuple(attributes)) for name, *attributes in entry["atoms"]))


def key(columns: tuple[int, ...]) -> str:
    """Return a column order as the manifest spells it."""
    return ",".join(map(str, columns))


def _columns(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))
