"""What a manifest says, as values with types. `docs/index-format.md` describes every field, for programs that are not this one.

A frozen tree: a commit makes a new one with `dataclasses.replace`. `check_entries` is what its fields must have to do with each
other before anything is read; `verification.py` is what they must have to do with the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bigjoin.errors import BigjoinError
from bigjoin.index.typed_json import WrongFieldError
from bigjoin.query.statistics import ListStatistics

Columns = tuple[int, ...]
"""A column order: the columns of a relation, as a trie has them from its first level to its last."""

BUILD = "build-"
"""How the folders begin that hold the files of one build; twelve digits follow."""
FORMAT_VERSION = 3
CODES = ("uint32", "uint64")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a rule can call a relation."""

_FOLDER = re.compile(rf"{BUILD}[0-9a-f]{{12}}")
_FILE = re.compile(rf"{BUILD}[0-9a-f]{{12}}/[^/\0]+")
_EPOCH = re.compile(r"([A-Za-z_0-9][A-Za-z0-9_-]*/)?epoch=[0-9]+")
_WORDS = ("not", "optional")
BLOCK = 1 << 22
"""Bytes of a file that have a checksum of their own."""
_MOST = 2**48
"""What no count of tuples or values exceeds."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the index: its size, and what its bytes add up to."""

    bytes: int
    blocks: tuple[str, ...] = ()
    """The XXH3 checksum (64 bits) of each block of BLOCK bytes, so that a slice can be verified alone."""
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
    orders: Mapping[Columns, OrderEntry]
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
    """The staged output of a committed epoch: folders to be renamed and a line to be added, in the folder with an identity."""

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


def is_build(name: str) -> bool:
    """Tell the folder of a build from anybody else's."""
    return _FOLDER.fullmatch(name) is not None


def check_name(name: str, others: Sequence[str]) -> None:
    """Refuse a name that no rule could use for a relation, or that another has."""
    if not NAME.fullmatch(name) or name.lower() in _WORDS:
        raise BigjoinError(f"{name!r} cannot name a relation: use letters, digits and _")
    if name in others:
        raise BigjoinError(f"there would be two relations {name!r}: rename one, or the type of edges with that name")


def check_entries(manifest: Manifest) -> None:
    """Raise WrongFieldError if the fields of a manifest contradict each other, or lead anywhere outside its index."""
    _require(manifest.codes in CODES, "codes", manifest.codes, f"is not {' or '.join(CODES)}")
    _within("shards", manifest.shards, 1, 2**31)
    _within("epoch", manifest.epoch, 0, _MOST)
    for name, entry in manifest.files.items():
        _require(_FILE.fullmatch(name) is not None and ".." not in name, "files", name, "is no file of a build")
        _within(f"files.{name}.bytes", entry.bytes, 0, 2**60)
        blocks = 0 if entry.sha256 is not None else max(1, -(-entry.bytes // BLOCK))
        _require(len(entry.blocks) == blocks, f"files.{name}.blocks", len(entry.blocks), f"are not {blocks}")
    for name in manifest.named_files():
        _require(name in manifest.files, "files", name, "is not among them, and is named elsewhere")
    for name, domain in manifest.domains.items():
        _check_domain(f"domains.{name}", domain, manifest.codes)
    for name, relation in manifest.relations.items():
        _require(NAME.fullmatch(name) is not None, "relations", name, "names no relation")
        _check_relation(f"relations.{name}", relation, manifest)
    _check_runs(manifest)
    for code, degree in manifest.degrees.hubs:
        _require(0 <= code < max((d.size for d in manifest.domains.values()), default=0), "degrees.hubs", code, "is no code")
        _within("degrees.hubs", degree, 0, _MOST)
    for count in manifest.degrees.histogram:
        _within("degrees.histogram", count, 0, _MOST)
    for query, watched in manifest.watched.items():
        digits = watched.count.removeprefix("-")
        _require(digits.isascii() and digits.isdigit(), f"watched.{query[:40]}.count", watched.count[:40], "is no number")
    for publication in manifest.publications:
        for folder in publication.folders:
            _require(_EPOCH.fullmatch(folder) is not None, "publications", folder, "is no folder of an epoch")
        epoch = publication.line.get("epoch")
        _require(isinstance(epoch, int) and not isinstance(epoch, bool), "publications.line", epoch, "is no epoch")
    for older in manifest.superseded:
        _require(is_build(older.folder), "superseded", older.folder, "is no folder of a build")


def _check_domain(where: str, domain: DomainEntry, codes: str) -> None:
    _within(f"{where}.size", domain.size, 0, _MOST if codes == "uint64" else 2**32 - 1)
    if domain.stored is not None:
        _within(f"{where}.stored", domain.stored, 0, domain.size)
    if domain.next is not None:
        _within(f"{where}.next", domain.next, domain.size, _MOST)
    _require((domain.ids is None) == (domain.ranks is None), f"{where}.ranks", domain.ranks, "do not go with its ids")
    _require(bool(domain.files) or not domain.properties, f"{where}.files", domain.files, "hold no properties")


def _check_relation(where: str, relation: RelationEntry, manifest: Manifest, upper: RelationEntry | None = None) -> None:
    width = len(relation.domains)
    _require(width > 0, f"{where}.domains", relation.domains, "are no columns")
    for domain in relation.domains:
        _require(domain in manifest.domains, f"{where}.domains", domain, "is no domain")
    _within(f"{where}.tuples", relation.tuples, 0, _MOST)
    _within(f"{where}.loops", relation.loops, 0, _MOST)
    _require(bool(relation.orders), f"{where}.orders", relation.orders, "are none")
    for columns, order in relation.orders.items():
        at = f"{where}.orders.{','.join(map(str, columns))}"
        _require(len(columns) == width, at, columns, f"is not an order of {width} columns")
        _require(len(order.levels) == max(1, width - 1), at, len(order.levels), "is not its number of levels")
        for level in order.levels:
            _require((level.offsets is None) == (width == 1), at, level.offsets, "are not its offsets")
            _require(level.range is None or width == 1, at, level.range, "is a range of a file with several lists")
            if level.range is not None:
                _require(0 <= level.range[0] <= level.range[1], at, level.range, "is no range")
    _require(not relation.columns or len(relation.columns) == width, f"{where}.columns", relation.columns, "are not as many")
    for image in relation.symmetries:
        _require(sorted(image) == list(range(width)), f"{where}.symmetries", image, "is no exchange of columns")
    for name, average in relation.catalogue.items():
        _require(average >= 0, f"{where}.catalogue.{name[:40]}", average, "is below zero")
    if relation.symmetric:
        _require(
            width in (2, 3) and relation.domains[0] == relation.domains[1], f"{where}.symmetric", True, "fits no such columns"
        )
    if width == 2:
        _check_pairs(where, relation)
    if relation.rows is not None:
        _require(width == 2 and upper is None and not relation.is_stored_result, f"{where}.rows", width, "has no rows")
        _check_rows(where, relation, relation.rows)
        _check_relation(f"{where}.rows", relation.rows, manifest, relation)
    if relation.definition is not None:
        _check_definition(f"{where}.definition", relation)


def _check_pairs(where: str, relation: RelationEntry) -> None:
    """Check what orders of pairs have to do with each other: both share their files if, and only if, they are the same."""
    one, other = (relation.orders.get(columns) for columns in ((0, 1), (1, 0)))
    if one is None or other is None or relation.is_stored_result:
        return
    same = one.levels == other.levels
    _require(same == relation.symmetric, f"{where}.symmetric", relation.symmetric, "is not what its files say")


def _check_rows(where: str, relation: RelationEntry, rows: RelationEntry) -> None:
    _require(rows.domains[:2] == relation.domains and len(rows.domains) == 3, f"{where}.rows.domains", rows.domains, "differ")
    _require(rows.symmetric == relation.symmetric, f"{where}.rows.symmetric", rows.symmetric, "differs from its pairs'")
    order, pairs = rows.orders.get((0, 1, 2)), relation.orders.get((0, 1))
    _require(order is not None and pairs is not None, f"{where}.rows.orders", tuple(rows.orders), "lacks an order")
    assert order is not None
    assert pairs is not None
    _require(order.levels[:1] == pairs.levels, f"{where}.rows.orders", order.levels[0].values, "is not below its pairs")


def _check_definition(where: str, relation: RelationEntry) -> None:
    definition = relation.definition
    assert definition is not None
    _require((definition.head is None) == (definition.atoms is None), f"{where}.atoms", definition.atoms, "have no head")
    for head in () if definition.head is None else (definition.head,):
        _require(len(head) == len(relation.domains), f"{where}.head", head, "is not its columns")
    for atom in definition.atoms or ():
        _require(len(atom) > 1, f"{where}.atoms", atom, "is no atom")


def _check_runs(manifest: Manifest) -> None:
    """Check that runs follow each other, and that what they bring is what domains list last."""
    before = 0
    for number, run in enumerate(manifest.runs):
        where, (first, last) = f"runs[{number}]", run.epochs
        _require(before < first <= last <= manifest.epoch, f"{where}.epochs", run.epochs, "do not follow those before")
        _within(f"{where}.tuples", run.tuples, 0, _MOST)
        before = last
        for place, file in run.parts.items():
            name, _, part = place.rpartition("/")
            domain = manifest.domains.get(name)
            _require(
                domain is not None and file in domain.part(part), f"{where}.parts.{place}", file, "is no file of that domain"
            )


def _within(where: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise WrongFieldError(f"{where} is {str(value)[:40]}; it must lie between {least} and {most}")


def _require(holds: bool, where: str, value: Any, what: str) -> None:
    if not holds:
        raise WrongFieldError(f"{where}: {str(value)[:100]!r} {what}")
