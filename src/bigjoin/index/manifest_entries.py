"""What a manifest says, as a frozen tree of dataclasses. `docs/index-format.md` describes every field for other programs.

A field's type says what its value must be by itself, and `typed_json.py` refuses anything else. `manifest_checks.py` compares
the fields with each other before any file is read, `verification.py` compares them with the arrays. A commit makes a new tree
with `dataclasses.replace`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

from bigjoin.defaults import MAX_SHARDS
from bigjoin.errors import BigjoinError, shown
from bigjoin.index.typed_json import BigInt, between, matching
from bigjoin.query.statistics import ListStatistics

FORMAT_VERSION = 5
PLAIN_VERSION = 4
"""The version of an index that keeps no epochs, which older readers know."""
BUILD_PREFIX = "build-"
"""The folder of a build is this and twelve hexadecimal digits."""
SEAL_BLOCK_BYTES = 1 << 22
"""Every block of so many bytes has a checksum of its own, so that a slice of a file can be verified alone."""
MAX_COUNT = 2**48
"""No count of tuples, values or epochs exceeds this."""
RELATION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a rule can call a relation."""
RESERVED_NAMES = ("not", "optional")

_BUILD = rf"{BUILD_PREFIX}[0-9a-f]{{12}}"

ColumnOrder: TypeAlias = tuple[int, ...]
"""The columns of a relation in the order of a trie's levels."""
BoundedCount: TypeAlias = Annotated[int, between(0, MAX_COUNT)]
CodeType: TypeAlias = Annotated[str, matching("uint32|uint64", "uint32 or uint64")]
FileName: TypeAlias = Annotated[str, matching(rf"(?!.*\.\.){_BUILD}/[A-Za-z0-9_][A-Za-z0-9_. -]*", "a file of a build")]
BuildFolder: TypeAlias = Annotated[str, matching(_BUILD, "the folder of a build")]
EpochFolder: TypeAlias = Annotated[str, matching("([A-Za-z_0-9][A-Za-z0-9_-]*/)?epoch=[0-9]+", "the folder of an epoch")]
StagingFolder: TypeAlias = Annotated[str, matching("[0-9a-f]{12}", "the folder of a watch")]
RelationName: TypeAlias = Annotated[str, matching(RELATION_NAME.pattern, "the name of a relation")]
CountsLine: TypeAlias = Mapping[str, BigInt | Mapping[str, Mapping[str, BigInt]]]
"""A line of a watch's counts: figures by name and, if several queries are watched, figures by name for each of `queries`."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """The size and the checksums of a file."""

    bytes: Annotated[int, between(0, 2**60)]
    blocks: tuple[str, ...] = ()
    """The XXH3 checksum (64 bits) of each block of SEAL_BLOCK_BYTES."""
    sha256: str | None = None
    """The checksum of the whole file, which format version 2 has instead."""
    offset: BoundedCount | None = None
    """Where it begins in the log of epochs, if it is not a file of its own."""

    @property
    def checksum(self) -> str:
        """A text that tells its content from others."""
        return f"{self.bytes} {self.sha256 or ' '.join(self.blocks)}"

    @property
    def block_count(self) -> int:
        """How many checksums of blocks a file of this size has: at least one, but none in format version 2."""
        return 0 if self.sha256 is not None else max(1, -(-self.bytes // SEAL_BLOCK_BYTES))


@dataclass(frozen=True, slots=True)
class LevelEntry:
    """The files of one level of a trie; a single list has no offsets, and may be a range of its file."""

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
    """How many rows a relation's source had, and how many of them were dropped for each reason."""

    rows: int
    nulls: int
    loops: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class ReadingEntry:
    """How a source was read: which of its columns hold the ids, which are properties, and whether it has a header."""

    source: str
    keys: tuple[str, ...]
    """The columns of the ids, as the source calls them; c1, c2, ... by their places if it does not."""
    properties: tuple[str, ...] = ()
    header: bool | None = None
    """None if the source is no text."""
    by_place: bool = False
    """Whether the ids were taken by the places of their columns, and other columns might have been meant."""
    judged: str | None = None
    """The first line, if nothing but its looks decided whether it is a header."""
    separator: str | None = None
    """What separates the fields, if nothing but the first line told."""

    @property
    def is_guess(self) -> bool:
        """Whether a user may have meant something else."""
        return self.by_place or self.judged is not None

    def sentence(self, ends: Sequence[str]) -> str:
        """Return how the source was read, as a sentence without its name; `ends` are what the ids are called in an index."""
        parts = []
        if self.judged is not None and self.header:
            parts.append(f"the first line, {shown(self.judged, 80)!r}, is the header (if it is not: --no-header, header=False)")
        elif self.judged is not None:
            parts.append(f"the first line, {shown(self.judged, 80)!r}, is not a header (if it is one: --header, header=True)")
        elif self.header is not None:
            parts.append("the first line is the header" if self.header else "there is no header")
        if self.separator is not None:
            parts.append(f"fields are separated by {self.separator!r} (if not: --delimiter, delimiter=)")
        if len(ends) != len(self.keys):
            parts.append(f"columns: {', '.join(self.keys)}")
        elif tuple(name.lower() for name in self.keys) == tuple(ends):
            parts.append(f"{' and '.join(self.keys)} by name")
        else:
            parts.append(", ".join(f"{_place(key)} is {end}" for key, end in zip(self.keys, ends, strict=True)))
        return "; ".join([*parts, *([f"properties: {', '.join(self.properties)}"] if self.properties else [])])


def _place(column: str) -> str:
    """Return a column's name, or `column 3` for c3, which has none."""
    return f"column {column[1:]}" if re.fullmatch(r"c[1-9]\d*", column) else column


@dataclass(frozen=True, slots=True)
class DefinitionEntry:
    """The query that a materialised relation is the result of; head and atoms only if it consists of atoms alone."""

    query: str
    flags: tuple[str, ...]
    head: tuple[str, ...] | None = None
    atoms: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """Whose rows a relation has: those of another one that have the relation's name in a column."""

    relation: RelationName
    column: str


@dataclass(frozen=True, slots=True)
class RelationEntry:
    """A relation: the domains of its columns, its tuples in each column order, and where they come from."""

    domains: tuple[str, ...]
    tuples: BoundedCount
    symmetric: bool
    loops: BoundedCount
    orders: Mapping[ColumnOrder, OrderEntry]
    catalogue: Mapping[str, Annotated[float, between(0, 2**62)]] = field(default_factory=dict)
    source: SourceEntry | None = None
    reading: ReadingEntry | None = None
    rows: RelationEntry | None = None
    """The same relation with a third column, the number of the row, if rows are numbered."""
    columns: tuple[str, ...] = ()
    symmetries: tuple[tuple[int, ...], ...] = ()
    definition: DefinitionEntry | None = None
    type_of: TypeEntry | None = None

    @property
    def is_stored_result(self) -> bool:
        return self.definition is not None

    @property
    def files(self) -> list[str]:
        """The files of its tries and of its rows' tries, each once."""
        mine = [file for order in self.orders.values() for level in order.levels for file in level.files]
        return list(dict.fromkeys([*mine, *(self.rows.files if self.rows is not None else ())]))


@dataclass(frozen=True, slots=True)
class DomainEntry:
    """A set of values by code: ids with their ranks, or numbers of rows; and the properties of the values."""

    size: BoundedCount
    type: str
    ids: tuple[str, ...] | None = None
    ranks: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """The files of the properties, whose rows follow one another."""
    changes: tuple[str, ...] = ()
    """Files with values whose properties runs have replaced: their codes, and a column for each property. Later ones win."""
    labels: str | None = None
    """The property that labels are made of: a relation for each of its values."""
    stored: int | None = None
    """How many of the codes are in the tries, if runs have added more."""
    next: BoundedCount | None = None
    """The number that the next row gets."""
    reading: ReadingEntry | None = None
    """How the table of vertices was read, if there is one."""

    @property
    def stored_size(self) -> int:
        return self.size if self.stored is None else self.stored

    def part(self, name: str) -> tuple[str, ...]:
        """Return the files of one part, named as runs name it: `ids`, `files` for the properties, or `changes` of them."""
        return {"ids": self.ids or (), "files": self.files, "changes": self.changes}.get(name, ())

    def with_part(self, name: str, files: tuple[str, ...]) -> DomainEntry:
        """Return a copy with other files in one part."""
        if name == "changes":
            return replace(self, changes=files)
        return replace(self, ids=files) if name == "ids" else replace(self, files=files)

    @property
    def all_files(self) -> list[str]:
        return [*(self.ids or ()), *([self.ranks] if self.ranks is not None else ()), *self.files, *self.changes]


@dataclass(frozen=True, slots=True)
class RunEntry:
    """Updates that are committed but not yet compacted into the tries."""

    epochs: tuple[int, int]
    """The first and the last of its epochs."""
    tuples: BoundedCount
    deltas: str
    parts: Mapping[str, str]
    """Files with new values of domains, by `DOMAIN/ids` and `DOMAIN/files`, and with new properties, by `DOMAIN/changes`."""


@dataclass(frozen=True, slots=True)
class DegreesEntry:
    """How many vertices have a degree of 0, 1, 2 to 3, 4 to 7, ...; and the code and degree of the largest hubs."""

    histogram: tuple[BoundedCount, ...] = ()
    hubs: tuple[tuple[BoundedCount, BoundedCount], ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Where the last epoch of a watch came from."""

    source: str
    batch: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class WatchedEntry:
    """How many matches a query has at an epoch."""

    count: Annotated[str, matching("-?[0-9]+", "a number")]
    """Text, since JSON readers lose digits of large numbers."""
    epoch: int


@dataclass(frozen=True, slots=True)
class PublicationEntry:
    """The output of a committed epoch that may still be staged: folders to move into place, and a line to add to the counts."""

    output: str
    """The identity of the output folder; in format version 2, its path."""
    folders: tuple[EpochFolder, ...]
    line: CountsLine
    staged: StagingFolder | None = None
    """On a store, where two watches may stage the same epoch, the folder of the one that has committed it."""


@dataclass(frozen=True, slots=True)
class ClockEntry:
    """The latest time that a window has seen in a relation's column, in the unit of that column."""

    relation: str
    column: str
    at: float


@dataclass(frozen=True, slots=True)
class SupersededEntry:
    """A folder of an earlier version: when it was replaced (seconds since 1970), and for how many seconds it stays."""

    folder: BuildFolder
    at: float
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An earlier version that stays readable: its manifest as it was, and with its log the epochs after it."""

    manifest: FileName
    content: FileEntry
    """The size and the checksums of that file, which is none of the files of the index."""
    epochs: tuple[int, int]
    """The first and the last epoch that are readable from it."""
    folders: tuple[BuildFolder, ...]
    """All that it needs."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of an index. A build decides the first fields; the commit and epochs of updates fill in the others."""

    codes: CodeType
    shards: Annotated[int, between(1, MAX_SHARDS)]
    domains: Mapping[str, DomainEntry]
    relations: Mapping[RelationName, RelationEntry]
    degrees: DegreesEntry = DegreesEntry()
    identity: str = ""
    created: str = ""
    epoch: BoundedCount = 0
    origin: str = ""
    """The identity of the first version of this index, which all later versions keep."""
    previous: str | None = None
    runs: tuple[RunEntry, ...] = ()
    ledger: LedgerEntry | None = None
    watched: Mapping[str, WatchedEntry] = field(default_factory=dict)
    publications: tuple[PublicationEntry, ...] = ()
    clock: ClockEntry | None = None
    version: int = FORMAT_VERSION
    files: Mapping[FileName, FileEntry] = field(default_factory=dict)
    log: FileName | None = None
    """The log to which further epochs are appended: its last record has a newer manifest than this one."""
    superseded: tuple[SupersededEntry, ...] = ()
    keep_epochs: BoundedCount = 0
    """How many epochs before the last one stay readable."""
    kept: tuple[KeptEntry, ...] = ()
    """The earlier versions that these are read from, the oldest first."""
    number: BoundedCount | None = None
    """On a store, the number that it was committed with, by which the next commit knows that nothing came in between."""

    def named_files(self) -> Iterator[str]:
        """Yield the files that domains, relations and runs name, possibly some of them twice."""
        for domain in self.domains.values():
            yield from domain.all_files
        for relation in self.relations.values():
            yield from relation.files
        for run in self.runs:
            yield run.deltas
            yield from run.parts.values()

    @property
    def added_files(self) -> set[str]:
        """The files with values of domains that runs have added."""
        return {file for run in self.runs for file in run.parts.values()}

    def has_additions(self, domain: str) -> bool:
        """Tell whether runs have added values to a domain, in files."""
        return bool(self.runs) and not self.added_files.isdisjoint(self.domains[domain].all_files)

    def without_runs(self) -> Manifest:
        """Return the manifest of what is compacted; its relations still count the tuples of the runs."""
        added = self.added_files
        domains = {
            name: replace(
                domain,
                size=domain.stored_size,
                stored=None,
                ids=None if domain.ids is None else tuple(file for file in domain.ids if file not in added),
                files=tuple(file for file in domain.files if file not in added),
                changes=(),
            )
            for name, domain in self.domains.items()
        }
        return replace(self, domains=domains, runs=())

    @property
    def folders(self) -> set[str]:
        """The folders of builds that hold its files, and its log."""
        return {name.partition("/")[0] for name in (*self.files, *([self.log] if self.log is not None else ()))}

    @property
    def all_folders(self) -> set[str]:
        """The folders of builds that it needs, or that an earlier version needs which it keeps."""
        return self.folders.union(*(entry.folders for entry in self.kept))

    def in_use(self, files: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
        """Return the given files that this manifest names."""
        return {name: files[name] for name in dict.fromkeys(self.named_files()) if name in files}


def is_build(name: str) -> bool:
    """Tell whether a name is that of a build's folder."""
    return re.fullmatch(_BUILD, name) is not None


def check_name(name: str, others: Sequence[str]) -> None:
    """Raise BigjoinError if no rule could use a name for a relation, or another relation has it."""
    if not RELATION_NAME.fullmatch(name) or name.lower() in RESERVED_NAMES:
        raise BigjoinError(f"{name!r} cannot name a relation: use letters, digits and _")
    if name in others:
        raise BigjoinError(f"there would be two relations {name!r}: rename one, or the type of edges with that name")
