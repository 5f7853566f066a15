"""Whether the fields of a manifest contradict each other, or lead anywhere outside its index: told before anything is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bigjoin.defaults import MAX_SHARDS
from bigjoin.index.entries import BUILD_PREFIX, RELATION_NAME, DomainEntry, Manifest, RelationEntry, block_count, is_build
from bigjoin.index.typed_json import WrongFieldError

CODE_TYPES = ("uint32", "uint64")
_FILE = re.compile(rf"{BUILD_PREFIX}[0-9a-f]{{12}}/[A-Za-z0-9_][A-Za-z0-9_. -]*")
_EPOCH = re.compile(r"([A-Za-z_0-9][A-Za-z0-9_-]*/)?epoch=[0-9]+")
MAX_COUNT = 2**48
"""What no count of tuples or values exceeds."""


def check_entries(manifest: Manifest) -> None:
    """Raise WrongFieldError if the fields of a manifest contradict each other, or lead anywhere outside its index."""
    _require(manifest.codes in CODE_TYPES, "codes", manifest.codes, f"is not {' or '.join(CODE_TYPES)}")
    _within("shards", manifest.shards, 1, MAX_SHARDS)
    _within("epoch", manifest.epoch, 0, MAX_COUNT)
    for name, entry in manifest.files.items():
        _require(_FILE.fullmatch(name) is not None and ".." not in name, "files", name, "is no file of a build")
        _within(f"files.{name}.bytes", entry.bytes, 0, 2**60)
        blocks = 0 if entry.sha256 is not None else block_count(entry.bytes)
        _require(len(entry.blocks) == blocks, f"files.{name}.blocks", len(entry.blocks), f"are not {blocks}")
    for name in manifest.named_files():
        _require(name in manifest.files, "files", name, "is not among them, and is named elsewhere")
    for name, domain in manifest.domains.items():
        _check_domain(f"domains.{name}", domain, manifest.codes)
    for name, relation in manifest.relations.items():
        _require(RELATION_NAME.fullmatch(name) is not None, "relations", name, "names no relation")
        _check_relation(f"relations.{name}", relation, manifest)
    _check_runs(manifest)
    _check_parts(manifest)
    for code, degree in manifest.degrees.hubs:
        _require(0 <= code < max((d.size for d in manifest.domains.values()), default=0), "degrees.hubs", code, "is no code")
        _within("degrees.hubs", degree, 0, MAX_COUNT)
    for count in manifest.degrees.histogram:
        _within("degrees.histogram", count, 0, MAX_COUNT)
    for query, watched in manifest.watched.items():
        digits = watched.count.removeprefix("-")
        _require(digits.isascii() and digits.isdigit(), f"watched.{query[:40]}.count", watched.count[:40], "is no number")
    for publication in manifest.publications:
        for folder in publication.folders:
            _require(_EPOCH.fullmatch(folder) is not None, "publications", folder, "is no folder of an epoch")
        epoch = publication.line.get("epoch")
        known = isinstance(epoch, int) and not isinstance(epoch, bool) and 0 < epoch <= manifest.epoch
        _require(known, "publications.line", epoch, "is no epoch of this index")
        _require(_is_line(publication.line), "publications.line", epoch, "has something that is no figure")
        for folder in publication.folders:
            _require(folder.endswith(f"epoch={epoch}"), "publications.folders", folder, "is that of another epoch")
    for older in manifest.superseded:
        _require(is_build(older.folder), "superseded", older.folder, "is no folder of a build")


def _is_line(line: Mapping[str, Any]) -> bool:
    """Tell whether a line of counts has figures alone, or those of queries by name."""
    figures = [value for name, value in line.items() if name != "queries"]
    of_queries = line.get("queries", {})
    if not isinstance(of_queries, dict) or not all(isinstance(query, dict) for query in of_queries.values()):
        return False
    figures += [value for query in of_queries.values() for value in query.values()]
    return all(isinstance(value, int) for value in figures)


def _check_domain(where: str, domain: DomainEntry, codes: str) -> None:
    _within(f"{where}.size", domain.size, 0, MAX_COUNT if codes == "uint64" else 2**32 - 1)
    if domain.stored is not None:
        _within(f"{where}.stored", domain.stored, 0, domain.size)
    if domain.next is not None:
        _within(f"{where}.next", domain.next, domain.size, MAX_COUNT)
    _require((domain.ids is None) == (domain.ranks is None), f"{where}.ranks", domain.ranks, "do not go with its ids")
    _require(bool(domain.files) or not domain.properties, f"{where}.files", domain.files, "hold no properties")


def _check_relation(where: str, relation: RelationEntry, manifest: Manifest, upper: RelationEntry | None = None) -> None:
    width = len(relation.domains)
    _require(width > 0, f"{where}.domains", relation.domains, "are no columns")
    for domain in relation.domains:
        _require(domain in manifest.domains, f"{where}.domains", domain, "is no domain")
    _within(f"{where}.tuples", relation.tuples, 0, MAX_COUNT)
    _within(f"{where}.loops", relation.loops, 0, MAX_COUNT)
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
    shared: dict[Any, tuple[str, ...]] = {}
    for columns, order in relation.orders.items():  # one trie may serve several orders, if its columns mean the same in all
        named = tuple(relation.domains[c] for c in columns)
        _require(shared.setdefault(order.levels, named) == named, f"{where}.orders", columns, "has the files of another order")
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
    if relation.is_stored_result:
        return
    _require({(0, 1), (1, 0)} == relation.orders.keys(), f"{where}.orders", tuple(relation.orders), "are not both orders")
    same = relation.orders[0, 1].levels == relation.orders[1, 0].levels
    _require(same == relation.symmetric, f"{where}.symmetric", relation.symmetric, "is not what its files say")


def _check_rows(where: str, relation: RelationEntry, rows: RelationEntry) -> None:
    _require(rows.domains[:2] == relation.domains and len(rows.domains) == 3, f"{where}.rows.domains", rows.domains, "differ")
    _require(rows.symmetric == relation.symmetric, f"{where}.rows.symmetric", rows.symmetric, "differs from its pairs'")
    _require(tuple(rows.orders) == ((0, 1, 2),), f"{where}.rows.orders", tuple(rows.orders), "is not the one order of rows")
    levels, pairs = rows.orders[0, 1, 2].levels, relation.orders.get((0, 1))
    _require(
        pairs is not None and levels[:1] == pairs.levels, f"{where}.rows.orders", levels[0].values, "is not below its pairs"
    )


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
        _within(f"{where}.tuples", run.tuples, 0, MAX_COUNT)
        before = last
        for place, file in run.parts.items():
            name, _, part = place.rpartition("/")
            domain = manifest.domains.get(name)
            _require(
                domain is not None and file in domain.part(part), f"{where}.parts.{place}", file, "is no file of that domain"
            )


def _check_parts(manifest: Manifest) -> None:
    """Check that what runs bring is what domains list last, in the same order: codes follow it."""
    brought: dict[tuple[str, str], list[str]] = {}
    for run in manifest.runs:
        for place, file in run.parts.items():
            name, _, part = place.rpartition("/")
            brought.setdefault((name, part), []).append(file)
    for name, domain in manifest.domains.items():
        for part in ("ids", "files"):
            late = brought.get((name, part), [])
            listed = domain.part(part)
            _require(
                list(listed[len(listed) - len(late) :]) == late,
                f"domains.{name}.{part}",
                listed,
                "are not as runs brought them",
            )


def _within(where: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise WrongFieldError(f"{where} is {str(value)[:40]}; it must lie between {least} and {most}")


def _require(holds: bool, where: str, value: Any, what: str) -> None:
    if not holds:
        raise WrongFieldError(f"{where}: {str(value)[:100]!r} {what}")
