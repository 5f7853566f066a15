"""What a manifest says, as values with types. `docs/index-format.md` describes every field, for programs that are not this one.

A frozen tree: a commit makes a new one with `dataclasses.replace`. `entry_checks.py` says what its fields must have to do with
each other before anything is read, `verification.py` what they must have to do with the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bigjoin.errors import BigjoinError
from bigjoin.query.statistics import ListStatistics

ColumnOrder = tuple[int, ...]
"""A column order: the columns of a relation, as a trie has them from its first level to its last."""

BUILD_PREFIX = "build-"
"""How the folders begin that hold the files of one build; twelve digits follow."""
FORMAT_VERSION = 3
RELATION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a rule can call a relation."""

_FOLDER = re.compile(rf"{BUILD_PREFIX}[0-9a-f]{{12}}")
_WORDS = ("not", "optional")
BLOCK_BYTES = 1 << 22
"""Bytes of a file that have a checksum of their own."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the index: its size, and what its bytes add up to."""

    bytes: int
    blocks: tuple[str, ...] = ()
    """The XXH3 checksum (64 bits) of each block of BLOCK_BYTES bytes, so that a slice can be verified alone."""
    sha256: str | None = None
    """The checksum of the whole, in an index of format version 2."""


@dataclass(frozen=True, slots=True)
class LevelEntry:
    """The files of one level of a trie; a single list has no offsets, and may be a part of its file."""

    values: str
    offsets: str | None = None
    range: tuple[int, int] | None = None

    @property
    def files(self) -> list[str]:
        return [self.values] if self.offsets is None else [self.offsets, self.values]


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """A relation's tuples in one column order."""

    levels: tuple[LevelEntry, ...]
    lists: ListStatistics


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """What became of the rows of a relation's source."""

    rows: int
    nulls: int
    loops: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class DefinitionEntry:
    """The query whose result a materialised relation is; head and atoms if it is atoms alone."""

    query: str
    flags: tuple[str, ...]
    head: tuple[str, ...] | None = None
    atoms: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class RelationEntry:
    """A relation: what its columns hold, its tuples in each column order, and where they come from."""

    domains: tuple[str, ...]
    tuples: int
    symmetric: bool
    loops: int
    orders: Mapping[ColumnOrder, OrderEntry]
    catalogue: Mapping[str, float] = field(default_factory=dict)
    source: SourceEntry | None = None
    rows: RelationEntry | None = None
    """The relation with one column more, the number of the row, where rows have numbers."""
    columns: tuple[str, ...] = ()
    symmetries: tuple[tuple[int, ...], ...] = ()
    definition: DefinitionEntry | None = None

    @property
    def is_stored_result(self) -> bool:
        return self.definition is not None

    @property
    def files(self) -> list[str]:
        """The files of its tries, and of those of its rows."""
        mine = [file for order in self.orders.values() for level in order.levels for file in level.files]
        return list(dict.fromkeys([*mine, *(self.rows.files if self.rows is not None else ())]))


@dataclass(frozen=True, slots=True)
class DomainEntry:
    """The values that columns hold, by code: ids with their ranks, or the numbers of rows; and their properties."""

    size: int
    type: str
    ids: tuple[str, ...] | None = None
    ranks: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Of the properties, one after another."""
    stored: int | None = None
    """How many of its codes the tries know, where runs have brought more."""
    next: int | None = None
    """The number that the next row gets."""

    @property
    def stored_size(self) -> int:
        return self.size if self.stored is None else self.stored

    def part(self, name: str) -> tuple[str, ...]:
        """Return the files of its `ids`, or of its properties (`files`), as parts of runs name them."""
        return (self.ids or ()) if name == "ids" else self.files if name == "files" else ()

    def with_part(self, name: str, files: tuple[str, ...]) -> DomainEntry:
        """Return the domain with other files in a part."""
        return replace(self, ids=files) if name == "ids" else replace(self, files=files)

    @property
    def all_files(self) -> list[str]:
        return [*(self.ids or ()), *([self.ranks] if self.ranks is not None else ()), *self.files]


@dataclass(frozen=True, slots=True)
class RunEntry:
    """Updates that are committed and not part of the tries."""

    epochs: tuple[int, int]
    tuples: int
    deltas: str
    parts: Mapping[str, str]
    """Files with new values of domains, by `DOMAIN/ids` and `DOMAIN/files`."""


@dataclass(frozen=True, slots=True)
class DegreesEntry:
    """How many vertices have a degree of 0, 1, 2 to 3, 4 to 7, ...; and the largest hubs, code and degree."""

    histogram: tuple[int, ...] = ()
    hubs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Where the last epoch of a watch came from."""

    source: str
    batch: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class WatchedEntry:
    """How many matches a query has at an epoch; as text, however many."""

    count: str
    epoch: int


@dataclass(frozen=True, slots=True)
class PublicationEntry:
    """The staged output of a committed epoch: folders to be renamed and a line to be added, in the folder with an identity.

    In an index of format version 2, `output` is the path of the folder.
    """

    output: str
    folders: tuple[str, ...]
    line: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClockEntry:
    """The latest time that a window over a relation's column has seen, in the unit of the column."""

    relation: str
    column: str
    at: float


@dataclass(frozen=True, slots=True)
class SupersededEntry:
    """A folder of an earlier version: when it was replaced, and for how many seconds it is to stay."""

    folder: str
    at: float
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of an index. What a build decides comes first; the rest is entered by the commit and by epochs."""

    codes: str
    shards: int
    domains: Mapping[str, DomainEntry]
    relations: Mapping[str, RelationEntry]
    degrees: DegreesEntry = DegreesEntry()
    identity: str = ""
    created: str = ""
    epoch: int = 0
    origin: str = ""
    """The identity of the version that an index began with: what it and all that becomes of it have in common."""
    previous: str | None = None
    runs: tuple[RunEntry, ...] = ()
    ledger: LedgerEntry | None = None
    watched: Mapping[str, WatchedEntry] = field(default_factory=dict)
    publications: tuple[PublicationEntry, ...] = ()
    clock: ClockEntry | None = None
    version: int = FORMAT_VERSION
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    superseded: tuple[SupersededEntry, ...] = ()

    def named_files(self) -> Iterator[str]:
        """Give the files that domains, relations and runs name, some perhaps twice."""
        for domain in self.domains.values():
            yield from domain.all_files
        for relation in self.relations.values():
            yield from relation.files
        for run in self.runs:
            yield run.deltas
            yield from run.parts.values()

    def in_use(self, files: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
        """Return those of some files that this manifest names."""
        return {name: files[name] for name in dict.fromkeys(self.named_files()) if name in files}


def block_count(size: int) -> int:
    """Return how many blocks a file of so many bytes has: one at least."""
    return max(1, -(-size // BLOCK_BYTES))


def is_build(name: str) -> bool:
    """Tell the folder of a build from anybody else's."""
    return _FOLDER.fullmatch(name) is not None


def check_name(name: str, others: Sequence[str]) -> None:
    """Refuse a name that no rule could use for a relation, or that another has."""
    if not RELATION_NAME.fullmatch(name) or name.lower() in _WORDS:
        raise BigjoinError(f"{name!r} cannot name a relation: use letters, digits and _")
    if name in others:
        raise BigjoinError(f"there would be two relations {name!r}: rename one, or the type of edges with that name")
