"""Nothing in an index is trusted before it was verified once on this machine: first its checksums, then whether it makes sense.

A part that is verified as a whole is a relation with all its tries, or a domain with its ids and properties. Both are verified
without what runs of updates have added, so that an epoch verifies only what is new; a domain with additions is a part of its
own. What this process has just sealed counts as verified. `records.py` remembers the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from bigjoin.errors import IndexFormatError
from bigjoin.index.checksums import damaged_files
from bigjoin.index.degrees import degree_files, degrees_entry, degrees_of
from bigjoin.index.files import OFFSET_TYPES, RANK_TYPES, IndexFiles
from bigjoin.index.records import claim_of, is_noted, note, revoke
from bigjoin.index.replaced_columns import CODE
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import in_threads
from bigjoin.index.typed_json import to_json
from bigjoin.index.verification import UnsoundError, check_column, check_distinct_ids, check_ids, check_relation, check_replaced


@dataclass(frozen=True, slots=True)
class TrustedPart:
    """Files that are verified together, and the check that their content makes sense."""

    index: IndexFiles
    kind: str
    name: str
    files: Sequence[str]
    about: tuple[Any, ...] = ()
    """All that the check depends on except the files: entries, or anything else that JSON can say."""
    check: Callable[[], None] | None = None

    @property
    def claim(self) -> str:
        """What is noted once the part is verified: about these files as they are now or, if they are mapped, were then."""
        return claim_of(to_json(self.about), [_file_claim(self.index, name) for name in self.files])

    def note(self) -> None:
        """Remember that the part is sound."""
        note(self.claim, sum(self.index.status(name).bytes for name in self.files))


def _file(index: IndexFiles, name: str) -> TrustedPart:
    return TrustedPart(index, "file", name, [name])


def _relation(index: IndexFiles, name: str) -> TrustedPart:
    """Return the part of a relation; epochs change neither its files nor what its soundness depends on."""
    base = index.base
    entry = base.manifest.relations[name]
    readings = [entry] if entry.rows is None else [entry, entry.rows]
    sizes = {domain: base.manifest.domains[domain].size for domain in readings[-1].domains}

    def check() -> None:
        for reading in readings:
            check_relation(reading, base.tries(reading), sizes)

    rows = None if entry.rows is None else replace(entry.rows, tuples=0)
    about = (replace(entry, tuples=0, catalogue={}, source=None, rows=rows), sizes, base.manifest.shards, base.manifest.codes)
    return TrustedPart(base, "relation", name, entry.files, about, check)


def _domain(index: IndexFiles, name: str) -> TrustedPart:
    """Return the part of a domain, with what the runs of the given index have added."""
    entry, has_runs = index.manifest.domains[name], bool(index.manifest.runs)

    def check() -> None:
        if entry.ids is not None and entry.ranks is not None:
            ids = index.table(entry.ids, "id")["id"]
            check_column("ids", ids, entry.type, entry.size)
            if has_runs:  # the ranks are those of the ids before the runs
                check_distinct_ids(ids)
            else:
                check_ids(ids, index.array(entry.ranks, RANK_TYPES))
        if entry.properties:
            table = index.table(entry.files, *entry.properties)
            if len(table) > entry.size:
                raise UnsoundError(f"it has properties of {len(table)} values, but {entry.size} codes")
            for column, kind in entry.properties.items():
                check_column(f"properties.{column}", table[column], kind, len(table) if has_runs else entry.size)

        if entry.changes:
            check_replaced(index.table(entry.changes, CODE, *entry.properties), entry)

    about = (replace(entry, next=None), index.manifest.codes, has_runs)
    return TrustedPart(index, "domain", name, entry.all_files, about, check)


def _parts(index: IndexFiles) -> Iterator[TrustedPart]:
    """Yield everything that can be verified: files by their checksums, relations and domains by what is in them."""
    for name in index.manifest.files:
        yield _file(index, name)
    for name in index.manifest.relations:
        yield _relation(index, name)
    for name in index.manifest.domains:
        yield from _domain_parts(index, name)


def _domain_parts(index: IndexFiles, name: str) -> Iterator[TrustedPart]:
    """Yield the part of a domain without what runs have added and, if they have added something, the part with it."""
    yield _domain(index.base, name)
    entry = index.manifest.domains[name]
    if entry.size > entry.stored_size or index.manifest.has_additions(name):
        yield _domain(index, name)


def _file_claim(index: IndexFiles, name: str) -> tuple[str, Any, tuple[int, ...]]:
    return index.storage.address(name), to_json(index.manifest.files.get(name)), index.status(name).version


def verify_relation(index: IndexFiles, name: str) -> None:
    """Raise IndexFormatError unless the tries of a relation, without runs, can be trusted."""
    _verify(_relation(index, name))


def verify_domain(index: IndexFiles, name: str) -> None:
    """Raise IndexFormatError unless the ids and properties of a domain, with what runs have added, can be trusted."""
    for part in _domain_parts(index, name):
        _verify(part)


def verify_files(index: IndexFiles, names: Sequence[str], *, again: bool = False) -> None:
    """Raise IndexFormatError unless files match their checksums; `again` ignores what was verified before.

    What this process has written, and still has in memory, is what was written.
    """
    if not index.verifies and not again:
        return
    known = index.manifest.files
    parts = {name: _file(index, name) for name in names if name in known and (again or not index.is_held(name))}
    wanted = [name for name, part in parts.items() if again or not is_noted(part.claim)]
    if wrong := damaged_files({name: index.file(name).content for name in wanted}, known):
        for name in wrong:
            revoke(parts[name].claim)
        raise index.damaged(f"{wrong[0]} is not what was written: its checksum differs")
    for name in wanted:
        parts[name].note()


def verify_degrees(index: IndexFiles, domain: str) -> None:
    """Raise IndexFormatError unless the degrees in the manifest are those of the lists, by code of a domain."""
    base = index.base
    pairs = {name: e for name, e in base.manifest.relations.items() if len(e.domains) == 2 and not e.is_stored_result}
    for name in pairs:
        verify_relation(base, name)
    offsets = (base.array(file, OFFSET_TYPES) for file in degree_files(pairs))
    found = degrees_entry(degrees_of(offsets, Shards(base.manifest.shards, base.manifest.domains[domain].size)))
    if found != base.manifest.degrees:
        raise base.damaged(f"degrees is {str(base.manifest.degrees)[:200]}, and {str(found)[:200]} by the lists")


def verify_all(index: IndexFiles, *, again: bool = False) -> None:
    """Raise IndexFormatError unless every file can be trusted; what runs do to tries is checked when they are applied."""
    in_threads(partial(_verify, again=again), [part for part in _parts(index) if part.check is not None])
    verify_files(index, list(index.manifest.files), again=again)


def _verify(part: TrustedPart, *, again: bool = False) -> None:
    """Verify the files of a part and then their content, unless that was done before or is not wanted."""
    index, key = part.index, (part.kind, part.name)
    sealed = [name for name in part.files if name in index.manifest.files]
    if not again and (key in index.verified or not index.verifies or not sealed):
        return
    if again or not is_noted(part.claim):
        try:
            verify_files(index, sealed, again=again)
            assert part.check is not None
            part.check()
        except (IndexFormatError, UnsoundError, pa.ArrowException) as error:
            revoke(part.claim)
            if isinstance(error, IndexFormatError):
                raise
            raise index.damaged(f"the {part.kind} {part.name!r} makes no sense: {error}") from None
        part.note()
    index.verified.add(key)


def note_sealed(index: IndexFiles, sealed: Collection[str]) -> None:
    """Take for verified what this process has just written from verified input: the files, and parts that consist of them."""

    def made_here(name: str) -> str:
        return claim_of("made here", [_file_claim(index, name)])

    for name in sealed:
        note(made_here(name), 0)  # for this process alone
    for part in _parts(index):
        is_new = not set(part.files).isdisjoint(sealed)
        has_additions = bool(part.index.manifest.runs) and part.kind == "domain"  # an epoch only adds ids that it did not find
        if is_new and (has_additions or all(is_noted(made_here(name)) for name in part.files)):
            part.note()


@contextmanager
def notes_kept(index: IndexFiles) -> Iterator[None]:
    """Keep the notes about an index while its files get further names, which the file system counts as a change."""
    held = {(part.kind, part.name) for part in _parts(index.base) if is_noted(part.claim)}
    yield
    for part in _parts(type(index)(index.path, index.manifest, index.verifies).base):
        if (part.kind, part.name) in held:
            part.note()
