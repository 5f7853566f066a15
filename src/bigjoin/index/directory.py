"""An index directory: immutable, memory-mappable files and one manifest, whose atomic replacement is the commit.

    DIR/manifest.json            format version, domains, relations, the size of every file
    DIR/build-<unique>/*.npy     offsets, values, ranks (NumPy)
    DIR/build-<unique>/*.arrow   ids (Arrow IPC, uncompressed)

Files of a build that never committed are not named by any manifest, and nobody reads them.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.errors import IndexFormatError
from bigjoin.index.dictionary import Dictionary
from bigjoin.index.trie import Level, Trie
from bigjoin.query.plan import Version
from bigjoin.query.statistics import ListStatistics, RelationStatistics, Statistics

MANIFEST = "manifest.json"
FORMAT = "bigjoin-index"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Index:
    """An opened index. Opening reads the manifest and checks every file's size; arrays are mapped when they are asked for."""

    path: Path
    manifest: dict[str, Any]
    _tries: dict[tuple[str, tuple[int, ...]], Trie] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, path: Path | str) -> Index:
        """Open a directory, or raise IndexFormatError that says what is wrong with it."""
        path = Path(path)
        index = cls(path, _read_manifest(path))
        for name, size in index.manifest["files"].items():
            file = path / name
            if not file.is_file():
                raise index.damaged(f"{name} is missing")
            if file.stat().st_size != size:
                raise index.damaged(f"{name} has {file.stat().st_size} bytes instead of {size}")
        return index

    def damaged(self, what: str) -> IndexFormatError:
        """Return the error that says what is wrong with this index."""
        return IndexFormatError(f"the index {self.path} is damaged: {what}; build the index again")

    def check(self) -> Index:
        """Return the index if no array leads outside another: kernels trust them blindly. Reads all of it."""
        for name, relation in self.statistics.relations.items():
            for columns in relation.lists:
                trie = self.extensions(name, columns)
                sizes = [self.statistics.domains[relation.domains[c]] for c in columns]
                if not trie.is_sound(sizes):
                    raise self.damaged(f"the lists of {name!r} in column order {columns} make no sense")
        for name, dictionary in self.dictionaries.items():
            size = self.statistics.domains[name]
            try:
                dictionary.ids.validate(full=True)
            except pa.ArrowInvalid:
                raise self.damaged(f"the ids of {name!r} cannot be read") from None
            if len(dictionary.ids) != size or len(dictionary.ranks) != size or (size and int(dictionary.ranks.max()) >= size):
                raise self.damaged(f"the dictionary of {name!r} makes no sense")
        return self

    def extensions(self, relation: str, columns: tuple[int, ...], version: Version = Version.NEW) -> Trie:
        """Return the trie of a relation in a column order, which may be shorter than the relation is wide."""
        del version  # an index that was never updated is the same at every version
        if (relation, columns) not in self._tries:
            self._tries[relation, columns] = self._map_trie(relation, columns)
        return self._tries[relation, columns]

    @cached_property
    def dictionaries(self) -> dict[str, Dictionary]:
        return {
            name: Dictionary(self._ids(domain["ids"]), self._array(domain["ranks"]))
            for name, domain in self.manifest["domains"].items()
        }

    @cached_property
    def statistics(self) -> Statistics:
        relations = {
            name: RelationStatistics(
                domains=tuple(relation["domains"]),
                tuples=relation["tuples"],
                symmetric=relation["symmetric"],
                loops=relation["loops"],
                lists={_columns(key): ListStatistics(**order["lists"]) for key, order in relation["orders"].items()},
            )
            for name, relation in self.manifest["relations"].items()
        }
        return Statistics(relations, {name: domain["size"] for name, domain in self.manifest["domains"].items()})

    @property
    def bytes(self) -> int:
        return sum(self.manifest["files"].values())

    def _map_trie(self, relation: str, columns: tuple[int, ...]) -> Trie:
        orders = {_columns(key): order for key, order in self.manifest["relations"][relation]["orders"].items()}
        order = next((c for c in sorted(orders) if c[: len(columns)] == columns), None)
        if order is None:
            raise IndexFormatError(f"the index {self.path} does not hold {relation!r} in column order {columns}")
        levels = tuple(Level(self._array(e["offsets"]), self._array(e["values"])) for e in orders[order]["levels"])
        trie = Trie(levels, keyed=len(order) > 1)
        if len(columns) == len(order):
            return trie
        return trie.roots() if len(columns) == 1 else trie.upper_levels(len(columns))

    def _array(self, name: str) -> NDArray[Any]:
        try:
            # np.memmap is slow to slice; a plain read-only view of the same pages is not.
            return np.asarray(np.load(self.path / name, mmap_mode="r", allow_pickle=False))
        except (ValueError, EOFError):
            raise self.damaged(f"{name} is no NumPy file") from None

    def _ids(self, name: str) -> pa.Array:
        try:
            with pa.memory_map(str(self.path / name)) as source:
                return pa.ipc.open_file(source).read_all()["id"].combine_chunks()
        except (pa.ArrowException, OSError, KeyError):
            raise self.damaged(f"{name} is no Arrow file of ids") from None


def is_index(path: Path) -> bool:
    """Tell whether a directory holds a manifest of ours, whole or not."""
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return _only_builds(path)  # cut off, or foreign: what lies beside it tells
    except OSError:
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


class Writer:
    """The files of one build, in a folder of their own until `commit` makes them the index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity = uuid.uuid4().hex[:12]
        self.folder = path / f"build-{self.identity}"
        self.folder.mkdir(parents=True)
        self.domains: dict[str, Any] = {}
        self.relations: dict[str, Any] = {}
        self.source: dict[str, int] = {}

    def name(self, file: Path) -> str:
        return str(file.relative_to(self.path))

    def array(self, name: str, array: NDArray[Any]) -> str:
        """Write an array and return its name in the manifest."""
        file = self.folder / f"{name}.npy"
        np.save(file, array, allow_pickle=False)
        return self.name(file)

    def domain(self, name: str, dictionary: Dictionary) -> None:
        """Write a dictionary."""
        file = self.folder / f"{name}.ids.arrow"
        table = pa.table({"id": dictionary.ids})
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self.domains[name] = {
            "size": len(dictionary),
            "type": str(dictionary.ids.type),
            "ids": self.name(file),
            "ranks": self.array(f"{name}.ranks", dictionary.ranks),
        }

    def relation(self, name: str, *, domains: tuple[str, ...], symmetric: bool, loops: int) -> None:
        """Begin a relation; its column orders follow."""
        entry = {"domains": domains, "tuples": 0, "symmetric": symmetric, "loops": loops, "orders": {}}
        self.relations[name] = entry

    def order(self, relation: str, columns: tuple[int, ...], trie: Trie) -> None:
        """Write a trie as one column order of a relation."""
        stem = f"{relation}.{'-'.join(map(str, columns))}"
        levels = [
            {
                "offsets": self.array(f"{stem}.offsets{depth}", level.offsets),
                "values": self.array(f"{stem}.values{depth}", level.values),
            }
            for depth, level in enumerate(trie.levels)
        ]
        self.add_order(relation, columns, levels, trie)

    def add_order(self, relation: str, columns: tuple[int, ...], levels: list[dict[str, str]], trie: Trie) -> None:
        """Enter a column order whose files are already written; in a symmetric relation both orders are the same."""
        entry = {"levels": levels, "lists": asdict(trie.statistics())}
        self.relations[relation]["tuples"] = len(trie)
        self.relations[relation]["orders"][_key(columns)] = entry
        if self.relations[relation]["symmetric"]:
            self.relations[relation]["orders"][_key(columns[::-1])] = entry

    def _named(self) -> set[str]:
        """Return the files that the domains and relations name."""
        levels = [e for r in self.relations.values() for order in r["orders"].values() for e in order["levels"]]
        return {d[part] for d in self.domains.values() for part in ("ids", "ranks")} | {
            level[part] for level in levels for part in ("offsets", "values")
        }

    def commit(self) -> Index:
        """Make the build durable, then make it the index, by replacing the manifest."""
        files = sorted(self.path / name for name in self._named())
        for stray in set(self.folder.iterdir()) - set(files):  # left by a task that ran twice
            stray.unlink()
        for file in files:
            _sync(file)
        _sync(self.folder)
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "identity": self.identity,
            "epoch": 0,
            "domains": self.domains,
            "relations": self.relations,
            "source": self.source,
            "files": {self.name(file): file.stat().st_size for file in files},
        }
        draft = self.path / f".{MANIFEST}.{self.identity}"
        draft.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        _sync(draft)
        draft.replace(self.path / MANIFEST)
        _sync(self.path)
        return Index.open(self.path)


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Give a writer; a build that fails leaves nothing behind."""
    check_target(path)
    created = not path.exists()
    writer = Writer(path)
    try:
        yield writer
    except BaseException:
        shutil.rmtree(writer.folder, ignore_errors=True)
        if created:
            shutil.rmtree(path, ignore_errors=True)
        raise


def check_target(path: Path) -> None:
    """Raise IndexFormatError if an index cannot be written there, because something else is."""
    vacant = not path.exists() or (not (path / MANIFEST).exists() and _only_builds(path))
    if not vacant and not is_index(path):
        raise IndexFormatError(f"{path} exists and is not an index; choose a new directory, or empty this one")


def _only_builds(path: Path) -> bool:
    """Tell whether a directory is empty but for builds, committed or cut off."""
    return path.is_dir() and all(p.name.startswith(("build-", f".{MANIFEST}")) or p.name == MANIFEST for p in path.iterdir())


def _read_manifest(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise IndexFormatError(f"there is no index at {path}")
    if not (path / MANIFEST).is_file():
        raise IndexFormatError(f"{path} is not an index: it has no {MANIFEST}; build one with 'bigjoin index SOURCE DIR'")
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        known = manifest["format"] == FORMAT
        version = int(manifest["version"])
    except (ValueError, KeyError, TypeError):
        raise IndexFormatError(f"{path / MANIFEST} is not a bigjoin manifest; build the index again") from None
    if not known:
        raise IndexFormatError(f"{path / MANIFEST} is not a bigjoin manifest")
    if version > FORMAT_VERSION:
        raise IndexFormatError(
            f"the index {path} has format version {version}, and this bigjoin reads up to {FORMAT_VERSION}: upgrade bigjoin"
        )
    if missing := {"domains", "relations", "files"} - manifest.keys():
        raise IndexFormatError(f"{path / MANIFEST} lacks {', '.join(sorted(missing))}; build the index again")
    if any(".." in Path(name).parts or Path(name).is_absolute() for name in manifest["files"]):
        raise IndexFormatError(f"{path / MANIFEST} names files outside its directory")
    return manifest


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _key(columns: tuple[int, ...]) -> str:
    return ",".join(map(str, columns))


def _columns(key: str) -> tuple[int, ...]:
    return tuple(map(int, key.split(",")))
