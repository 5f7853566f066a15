"""Find fields of a manifest that contradict each other, before any file is read.

The types in `entries.py` say what each field must be by itself. The functions here yield checks about several fields. They are
evaluated one at a time and the first that fails ends the reading, so a check may rely on those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bigjoin.errors import shown
from bigjoin.index.manifest_entries import (
    ColumnOrder,
    DefinitionEntry,
    DomainEntry,
    LevelEntry,
    Manifest,
    OrderEntry,
    PublicationEntry,
    RelationEntry,
)
from bigjoin.index.typed_json import SHOWN_CHARACTERS, WrongFieldError


class Check(NamedTuple):
    """Whether something holds, the field and the value that it is about, and what to say if it does not."""

    holds: bool
    field: str
    value: object
    problem: str


def check_entries(manifest: Manifest) -> None:
    """Raise WrongFieldError if fields of a manifest contradict each other, or name files that it does not list."""
    for check in _checks(manifest):
        if not check.holds:
            raise WrongFieldError(f"{check.field} is {shown(repr(check.value), SHOWN_CHARACTERS)}: {check.problem}")


def _checks(manifest: Manifest) -> Iterator[Check]:
    for name, entry in manifest.files.items():
        wanted = entry.block_count
        yield Check(len(entry.blocks) == wanted, f"files.{name}.blocks", len(entry.blocks), f"its size makes {wanted} blocks")
        has_place = entry.offset is None or (manifest.log is not None and entry.sha256 is None)
        yield Check(has_place, f"files.{name}.offset", entry.offset, "there is no log that it could lie in")
    yield Check(manifest.log not in manifest.files, "log", manifest.log, "it is a file of the index as well")
    for name in manifest.named_files():
        yield Check(name in manifest.files, "files", name, "it is named elsewhere, but not listed here")
    for name, domain in manifest.domains.items():
        yield from _below(f"domains.{name}", _domain_checks(domain, manifest.codes))
    for name, relation in manifest.relations.items():
        yield from _below(f"relations.{name}", _relation_checks(relation, manifest))
    yield from _run_checks(manifest)
    codes = max((domain.size for domain in manifest.domains.values()), default=0)
    for code, _ in manifest.degrees.hubs:
        yield Check(code < codes, "degrees.hubs", code, "there is no such code")
    yield from _kept_checks(manifest)
    for publication in manifest.publications:
        yield from _below("publications", _publication_checks(publication, manifest.epoch))


def _below(where: str, checks: Iterator[Check]) -> Iterator[Check]:
    """Yield checks with the full names of their fields."""
    return (check._replace(field=f"{where}.{check.field}") for check in checks)


def _domain_checks(domain: DomainEntry, codes: str) -> Iterator[Check]:
    yield Check(codes == "uint64" or domain.size < 2**32, "size", domain.size, f"codes of {codes} are fewer")
    yield Check(0 <= domain.stored_size <= domain.size, "stored", domain.stored, f"the size is {domain.size}")
    yield Check(domain.next is None or domain.next >= domain.size, "next", domain.next, f"the size is {domain.size}")
    yield Check((domain.ids is None) == (domain.ranks is None), "ranks", domain.ranks, "ids and ranks go together")
    yield Check(bool(domain.files) or not domain.properties, "files", domain.files, "properties need files")
    yield Check(bool(domain.properties) or not domain.changes, "changes", domain.changes, "there are no properties to change")
    is_named = domain.labels is None or domain.labels in domain.properties
    yield Check(is_named, "labels", domain.labels, "there is no such property")


def _relation_checks(relation: RelationEntry, manifest: Manifest) -> Iterator[Check]:
    width, domains = len(relation.domains), relation.domains
    yield Check(width > 0, "domains", domains, "a relation has at least one column")
    for domain in domains:
        yield Check(domain in manifest.domains, "domains", domain, "there is no such domain")
    yield Check(bool(relation.orders), "orders", (), "a relation has at least one column order")
    shared: dict[tuple[LevelEntry, ...], list[str]] = {}
    for columns, order in relation.orders.items():
        yield from _below(f"orders.{','.join(map(str, columns))}", _order_checks(order, columns, width))
        meaning = [domains[column] for column in columns]
        is_same = shared.setdefault(order.levels, meaning) == meaning  # then one trie may serve several orders
        yield Check(is_same, "orders", columns, "it has the files of an order of other domains")
    yield Check(len(relation.columns) in (0, width), "columns", relation.columns, f"the relation has {width} columns")
    for image in relation.symmetries:
        yield Check(sorted(image) == list(range(width)), "symmetries", image, "it does not permute the columns")
    exchangeable = width in (2, 3) and domains[0] == domains[1]
    yield Check(exchangeable or not relation.symmetric, "symmetric", True, "its columns have different domains")
    if width == 2 and not relation.is_stored_result:
        orders = relation.orders
        yield Check({(0, 1), (1, 0)} == orders.keys(), "orders", tuple(orders), "pairs are stored in both column orders")
        is_shared = orders[0, 1].levels == orders[1, 0].levels
        yield Check(is_shared == relation.symmetric, "symmetric", relation.symmetric, "only then do both orders share files")
    if relation.rows is not None:
        yield Check(width == 2 and not relation.is_stored_result, "rows", width, "only pairs of a source have rows")
        yield from _rows_checks(relation, relation.rows)
        yield from _below("rows", _relation_checks(relation.rows, manifest))
    if relation.type_of is not None:
        whole = manifest.relations.get(relation.type_of.relation)
        is_typed = whole is not None and whole.rows is not None and relation.rows is not None and whole.type_of is None
        yield Check(is_typed, "type_of", relation.type_of.relation, "there is no such relation with rows")
        assert whole is not None
        assert whole.rows is not None
        known = manifest.domains[whole.rows.domains[2]].properties
        yield Check(relation.type_of.column in known, "type_of", relation.type_of.column, "there is no such column")
    if relation.definition is not None:
        yield from _below("definition", _definition_checks(relation.definition, width))


def _definition_checks(definition: DefinitionEntry, width: int) -> Iterator[Check]:
    head, atoms = definition.head, definition.atoms
    yield Check((head is None) == (atoms is None), "atoms", atoms, "head and atoms go together")
    yield Check(head is None or len(head) == width, "head", head, f"the relation has {width} columns")
    for atom in atoms or ():
        yield Check(len(atom) > 1, "atoms", atom, "an atom has a relation and attributes")


def _order_checks(order: OrderEntry, columns: ColumnOrder, width: int) -> Iterator[Check]:
    yield Check(len(columns) == width, "columns", columns, f"the relation has {width} columns")
    yield Check(len(order.levels) == max(1, width - 1), "levels", len(order.levels), f"the relation has {width} columns")
    for level in order.levels:
        yield Check((level.offsets is None) == (width == 1), "offsets", level.offsets, "only a single list has no offsets")
        first, last = level.range or (0, 0)
        yield Check(level.range is None or width == 1, "range", level.range, "only a single list is a range of its file")
        yield Check(0 <= first <= last, "range", level.range, "it does not begin before it ends")


def _rows_checks(relation: RelationEntry, rows: RelationEntry) -> Iterator[Check]:
    fits = rows.domains[:2] == relation.domains and len(rows.domains) == 3 and rows.rows is None
    yield Check(fits, "rows.domains", rows.domains, "rows are pairs with a number")
    yield Check(rows.symmetric == relation.symmetric, "rows.symmetric", rows.symmetric, "its pairs differ")
    yield Check(tuple(rows.orders) == ((0, 1, 2),), "rows.orders", tuple(rows.orders), "rows have one column order")
    levels, pairs = rows.orders[0, 1, 2].levels, relation.orders.get((0, 1))
    is_below = pairs is not None and levels[:1] == pairs.levels
    yield Check(is_below, "rows.orders", levels, "its first level is not that of the pairs")


def _run_checks(manifest: Manifest) -> Iterator[Check]:
    """Yield the checks that runs follow each other, and that domains list what runs add last, in the same order as runs do."""
    added: dict[str, list[str]] = {}
    last_epoch = 0
    for number, run in enumerate(manifest.runs):
        first, last = run.epochs
        follows = last_epoch < first <= last <= manifest.epoch
        yield Check(follows, f"runs[{number}].epochs", run.epochs, "they do not follow those before")
        last_epoch = last
        for place, file in run.parts.items():
            added.setdefault(place, []).append(file)
    for place, files in added.items():  # codes follow the order of these files
        name, _, part = place.rpartition("/")
        listed = manifest.domains[name].part(part) if name in manifest.domains else ()
        yield Check(list(listed[-len(files) :]) == files, f"runs.parts.{place}", files, "that domain does not list them last")


def _kept_checks(manifest: Manifest) -> Iterator[Check]:
    """Yield the checks that kept versions follow each other, up to this one."""
    last_epoch, kept = 0, manifest.kept
    for number, entry in enumerate(kept):
        first, last = entry.epochs
        follows = first <= last <= manifest.epoch and (first in (last_epoch, last_epoch + 1) or not number)
        yield Check(follows and first >= 0, f"kept[{number}].epochs", entry.epochs, "they do not follow those before")
        folder, blocks = entry.manifest.partition("/")[0], entry.content.blocks
        yield Check(folder in entry.folders, f"kept[{number}].folders", entry.folders, "its manifest is not among them")
        has_blocks = len(blocks) == entry.content.block_count > 0
        yield Check(has_blocks, f"kept[{number}].content.blocks", len(blocks), "its size makes others")
        last_epoch = last


def _publication_checks(publication: PublicationEntry, last_epoch: int) -> Iterator[Check]:
    line = publication.line
    epoch = line.get("epoch")
    yield Check(isinstance(epoch, int) and 0 < epoch <= last_epoch, "line", epoch, "it is not an epoch of this index")
    for name, figure in line.items():
        yield Check(isinstance(figure, int) == (name != "queries"), "line", name, "only queries have figures of their own")
    for folder in publication.folders:
        yield Check(folder.endswith(f"epoch={epoch}"), "folders", folder, f"it is not the folder of epoch {epoch}")
