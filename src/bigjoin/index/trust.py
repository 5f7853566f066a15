"""Nothing of an index is trusted before it was verified once on this machine: checksums first, then whether it makes sense.

What is verified together is a relation with all its tries, or a domain with its ids and properties; each without what runs of
updates have brought, so that an epoch verifies what is new and nothing else. What this process has just sealed counts as
verified. `records.py` keeps notes of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bigjoin.errors import IndexFormatError
from bigjoin.index.checksums import damaged_files
from bigjoin.index.degrees import degree_files, degrees_entry, degrees_of
from bigjoin.index.records import claim_of, is_noted, note, revoke
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import in_threads
from bigjoin.index.typed_json import to_json
from bigjoin.index.verification import (
    UnsoundError,
    check_column,
    check_degrees,
    check_ids,
    check_late_ids,
    check_relation,
)

if TYPE_CHECKING:
    from bigjoin.index.directory import Index

OFFSET_TYPES = ("int64",)
RANK_TYPES = ("uint32", "uint64")


def verify_relation(index: Index, name: str, *, again: bool = False) -> None:
    """Raise IndexFormatError unless the tries of a relation can be trusted; `again`, whatever was verified before."""
    base = index.base

    def check() -> None:
        relation = base.manifest.relations[name]
        sizes = {domain: entry.size for domain, entry in base.manifest.domains.items()}
        for reading in (relation, *([relation.rows] if relation.rows is not None else [])):
            check_relation(reading, base.raw_tries(reading), sizes)

    files = base.manifest.relations[name].files
    _verify(base, ("relation", name), files, lambda: _relation_claim(base, name), check, again=again)


def verify_domain(index: Index, name: str, *, again: bool = False) -> None:
    """Raise IndexFormatError unless the ids and properties of a domain can be trusted."""
    base = index.base

    def check() -> None:
        entry = base.manifest.domains[name]
        if entry.ids is not None and entry.ranks is not None:
            check_ids(entry, base.table(entry.ids, "id")["id"], base.array(entry.ranks, RANK_TYPES))
        if entry.properties:
            table = base.table(entry.files, *entry.properties)
            for column, kind in entry.properties.items():
                check_column(f"properties.{column}", table[column], kind, entry.size)

    files = base.manifest.domains[name].all_files
    _verify(base, ("domain", name), files, lambda: _domain_claim(base, name), check, again=again)


def verify_late(index: Index, name: str) -> None:
    """Raise IndexFormatError unless the ids and properties of a domain, with what runs have brought, can be trusted."""
    verify_domain(index, name)
    entry = index.manifest.domains[name]
    brought = {file for run in index.manifest.runs for file in run.parts.values()}
    if not brought.intersection(entry.all_files):
        return

    def check() -> None:
        if entry.ids is not None:
            check_late_ids(index.table(entry.ids, "id")["id"], entry.type, entry.size)
        if entry.properties:
            table = index.table(entry.files, *entry.properties)
            if len(table) > entry.size:
                raise UnsoundError(f"its properties are {len(table)} instead of {entry.size}")
            for column, kind in entry.properties.items():
                check_column(f"properties.{column}", table[column], kind, len(table))

    _verify(index, ("domain with updates", name), entry.all_files, lambda: _late_claim(index, name), check, again=False)


def verify_files(index: Index, names: Sequence[str], *, again: bool = False) -> None:
    """Raise IndexFormatError unless files are what was written, by their checksums."""
    if not index.verifies and not again:
        return
    known = index.manifest.files
    wanted = [name for name in names if name in known and (again or not is_noted(_claim(index, None, [name])))]
    if wrong := damaged_files({name: index.file(name).content for name in wanted}, {name: known[name] for name in wanted}):
        for name in wrong:
            revoke(_claim(index, None, [name]))
        raise index.damaged(f"{wrong[0]} is not what was written: its checksum differs")
    for name in wanted:
        _note(index, _claim(index, None, [name]), [name])


def verify_degrees(index: Index, domain: str) -> None:
    """Raise IndexFormatError unless the degrees that the manifest names, by code of a domain, are those of the lists."""
    base = index.base
    pairs = {name: e for name, e in base.manifest.relations.items() if len(e.domains) == 2 and not e.is_stored_result}
    for name in pairs:
        verify_relation(base, name)
    offsets = (base.array(file, OFFSET_TYPES) for file in degree_files(pairs))
    degrees = degrees_of(offsets, Shards(base.manifest.shards, base.manifest.domains[domain].size))
    try:
        check_degrees(base.manifest.degrees, degrees_entry(degrees))
    except UnsoundError as error:
        raise base.damaged(str(error)) from None


def verify_all(index: Index, *, again: bool = False) -> None:
    """Raise IndexFormatError unless all files of an index can be trusted, but for what runs do to the tries."""

    def verify_values(name: str) -> None:
        verify_domain(index, name, again=again)
        verify_late(index, name)

    parts = [partial(verify_relation, index, name, again=again) for name in index.manifest.relations]
    parts += [partial(verify_values, name) for name in index.manifest.domains]
    in_threads(lambda part: part(), parts)
    verify_files(index, list(index.manifest.files), again=again)


def note_sealed(index: Index, sealed: Collection[str]) -> None:
    """Take for verified what this process has just made of what it had verified: files, and what consists of such files."""
    base = index.base

    def is_made_here(name: str) -> bool:
        return name in sealed or is_noted(_claim(index, "made here", [name]))

    for name in sealed:
        note(_claim(index, "made here", [name]), 0)  # for this process alone
        _note(index, _claim(index, None, [name]), [name])
    for name, relation in base.manifest.relations.items():
        if not set(relation.files).isdisjoint(sealed) and all(map(is_made_here, relation.files)):
            _note(base, _relation_claim(base, name), relation.files)
    for name, domain in base.manifest.domains.items():
        if not set(domain.all_files).isdisjoint(sealed) and all(map(is_made_here, domain.all_files)):
            _note(base, _domain_claim(base, name), domain.all_files)
    for name, domain in index.manifest.domains.items():
        if index.manifest.runs and not set(domain.all_files).isdisjoint(sealed):  # an epoch numbers ids that it did not know
            _note(index, _late_claim(index, name), domain.all_files)


@contextmanager
def notes_kept(index: Index) -> Iterator[None]:
    """Keep what is known of an index while its files get further names, which the system counts as a change of them."""
    claims = dict(_claims(index.base))
    held = [what for what, (claim, _) in claims.items() if is_noted(claim)]
    yield
    fresh = type(index)(index.path, index.manifest, index.verifies).base
    again = dict(_claims(fresh))
    for what in held:
        _note(fresh, *again[what])


def _claims(base: Index) -> Iterator[tuple[tuple[str, str], tuple[str, Sequence[str]]]]:
    """Give what can be noted of an index, with the files that it is about."""
    for name in base.manifest.files:
        yield ("file", name), (_claim(base, None, [name]), [name])
    for name, relation in base.manifest.relations.items():
        yield ("relation", name), (_relation_claim(base, name), relation.files)
    for name, domain in base.manifest.domains.items():
        yield ("domain", name), (_domain_claim(base, name), domain.all_files)


def _verify(
    base: Index,
    what: tuple[str, str],
    files: Sequence[str],
    claim_of_it: Callable[[], str],
    check: Callable[[], None],
    *,
    again: bool,
) -> None:
    """Verify files and what is made of them, unless this machine has done so before, or nobody wants it."""
    sealed = [name for name in files if name in base.manifest.files]
    if not again and (what in base.verified or not base.verifies or not sealed):
        return
    if again or not is_noted(claim_of_it()):
        try:
            verify_files(base, sealed, again=again)
            check()
        except IndexFormatError:
            revoke(claim_of_it())
            raise
        except (UnsoundError, pa.ArrowException) as error:
            revoke(claim_of_it())
            raise base.damaged(f"the {what[0]} {what[1]!r} makes no sense: {error}") from None
        _note(base, claim_of_it(), files)  # of the files as they were when they were mapped
    base.verified.add(what)


def _relation_claim(base: Index, name: str) -> str:
    """Return the claim that a relation's tries are sound: with what that depends on, and nothing that epochs change."""
    entry = base.manifest.relations[name]
    rows = None if entry.rows is None else replace(entry.rows, tuples=0)
    sizes = {domain: base.manifest.domains[domain].size for domain in (entry.rows or entry).domains}
    about = to_json(replace(entry, tuples=0, catalogue={}, source=None, rows=rows))
    return _claim(base, [about, sizes, base.manifest.shards, base.manifest.codes], entry.files)


def _domain_claim(base: Index, name: str) -> str:
    entry = base.manifest.domains[name]
    return _claim(base, [to_json(replace(entry, next=None)), base.manifest.codes], entry.all_files)


def _late_claim(index: Index, name: str) -> str:
    entry = index.manifest.domains[name]
    return _claim(index, ["with updates", to_json(replace(entry, next=None))], entry.all_files)


def _claim(index: Index, about: Any, names: Iterable[str]) -> str:
    files, address = index.manifest.files, index.storage.address
    return claim_of(about, [(address(name), str(to_json(files.get(name))), index.status(name)) for name in names])


def _note(index: Index, claim: str, files: Sequence[str]) -> None:
    note(claim, sum(index.status(name).bytes for name in files))
