"""What a record of the log says: what an epoch changes in the manifest, and nothing that stays as it was.

So the size of a record does not depend on what came before it. The newest manifest is `manifest.json` after the changes of all
records, one after another. A commit takes the same way: the manifest that a process goes on with is what a reader makes of the
record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bigjoin.index.manifest_entries import (
    BoundedCount,
    ClockEntry,
    DomainEntry,
    FileEntry,
    FileName,
    LedgerEntry,
    Manifest,
    PublicationEntry,
    RelationEntry,
    RelationName,
    RunEntry,
    WatchedEntry,
)
from bigjoin.index.typed_json import WrongFieldError


@dataclass(frozen=True, slots=True)
class DomainChange:
    """What becomes of a domain; the files with its new values are the parts of the run."""

    size: BoundedCount
    stored: BoundedCount | None = None
    next: BoundedCount | None = None


@dataclass(frozen=True, slots=True)
class RelationChange:
    """How many tuples a relation has after the epoch, and how many rows."""

    tuples: BoundedCount
    rows: BoundedCount | None = None


@dataclass(frozen=True, slots=True)
class PublicationsChange:
    """Which publications are taken off the list, from `first` on and before `last`, and which are added at its end."""

    first: BoundedCount
    last: BoundedCount
    added: tuple[PublicationEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """What makes a manifest the next one. What is not given stays as it was."""

    after: str
    """The identity of the version that is changed."""
    identity: str
    created: str
    epoch: BoundedCount
    run: RunEntry | None = None
    """It follows the others, and its parts follow the files of their domains."""
    files: Mapping[FileName, FileEntry] = field(default_factory=dict)
    """The files that the record holds."""
    domains: Mapping[str, DomainChange] = field(default_factory=dict)
    relations: Mapping[RelationName, RelationChange] = field(default_factory=dict)
    dropped: tuple[RelationName, ...] = ()
    """Relations that are out of date, with the files that nothing else names."""
    ledger: LedgerEntry | None = None
    watched: Mapping[str, WatchedEntry] | None = None
    publications: PublicationsChange | None = None
    clock: ClockEntry | None = None


def change_between(old: Manifest, new: Manifest, files: Mapping[str, FileEntry]) -> ManifestChange:
    """Return what makes a manifest the next one, which adds at most one run, and some files."""
    assert len(new.runs) <= len(old.runs) + 1
    return ManifestChange(
        after=old.identity,
        identity=new.identity,
        created=new.created,
        epoch=new.epoch,
        run=new.runs[-1] if len(new.runs) > len(old.runs) else None,
        files=files,
        domains={
            name: DomainChange(entry.size, entry.stored, entry.next)
            for name, entry in new.domains.items()
            if entry is not old.domains[name]
        },
        relations={
            name: RelationChange(entry.tuples, None if entry.rows is None else entry.rows.tuples)
            for name, entry in new.relations.items()
            if entry is not old.relations[name]
        },
        dropped=tuple(name for name in old.relations if name not in new.relations),
        ledger=None if new.ledger is old.ledger else new.ledger,
        watched=None if new.watched is old.watched else new.watched,
        publications=publications_change(old.publications, new.publications),
        clock=None if new.clock is old.clock else new.clock,
    )


def publications_change(old: Sequence[PublicationEntry], new: Sequence[PublicationEntry]) -> PublicationsChange | None:
    """Return what makes a list the next one, which has usually lost entries in one place and gained some at its end."""
    first = 0
    while first < min(len(old), len(new)) and old[first] is new[first]:
        first += 1
    if first == len(old) == len(new):
        return None
    last = next((at for at in range(first, len(old)) if first < len(new) and old[at] is new[first]), len(old))
    kept = list(map(id, old[last:]))
    if kept != list(map(id, new[first : first + len(kept)])):
        last, kept = len(old), []
    return PublicationsChange(first, last, tuple(new[first + len(kept) :]))


def changed(manifest: Manifest, change: ManifestChange) -> Manifest:
    """Return the next manifest; raise WrongFieldError if the change is not one of this manifest."""
    _must(change.after == manifest.identity, "after", f"{change.after!r}, and the version before is {manifest.identity!r}")
    for name, known in (("domains", manifest.domains), ("relations", manifest.relations)):
        for unknown in getattr(change, name).keys() - known.keys():
            _must(False, name, f"about {unknown!r}, which is not there")
    _must(change.files.keys().isdisjoint(manifest.files), "files", "about files that are there already")
    domains = dict(manifest.domains)
    for name, domain in change.domains.items():
        domains[name] = replace(domains[name], size=domain.size, stored=domain.stored, next=domain.next)
    if change.run is not None:
        _add_parts(domains, change.run)
    relations = {name: entry for name, entry in manifest.relations.items() if name not in change.dropped}
    for name, relation in change.relations.items():
        _must(name in relations, "dropped", f"about {name!r}, which is changed as well")
        relations[name] = _with_tuples(name, relations[name], relation)
    after = replace(
        manifest,
        identity=change.identity,
        created=change.created,
        epoch=change.epoch,
        previous=manifest.previous if change.identity == manifest.identity else manifest.identity,
        runs=manifest.runs if change.run is None else (*manifest.runs, change.run),
        files={**manifest.files, **change.files},
        domains=domains,
        relations=relations,
        ledger=change.ledger or manifest.ledger,
        watched=manifest.watched if change.watched is None else change.watched,
        publications=publications_after(manifest.publications, change.publications),
        clock=change.clock or manifest.clock,
    )
    return replace(after, files=after.in_use(after.files)) if change.dropped else after


def _add_parts(domains: dict[str, DomainEntry], run: RunEntry) -> None:
    """Add the parts of a run to the files of their domains."""
    for place, file in run.parts.items():
        name, _, part = place.rpartition("/")
        _must(
            name in domains and part in ("ids", "files", "changes"),
            "run.parts",
            f"about {place!r}, which is no part of a domain",
        )
        domains[name] = domains[name].with_part(part, (*domains[name].part(part), file))


def _with_tuples(name: str, entry: RelationEntry, change: RelationChange) -> RelationEntry:
    _must((entry.rows is None) == (change.rows is None), f"relations.{name}.rows", "not what the relation has")
    rows = entry.rows if entry.rows is None or change.rows is None else replace(entry.rows, tuples=change.rows)
    return replace(entry, tuples=change.tuples, rows=rows)


def publications_after(known: tuple[PublicationEntry, ...], change: PublicationsChange | None) -> tuple[PublicationEntry, ...]:
    """Return the list after a change, if there is one."""
    if change is None:
        return known
    _must(change.first <= change.last <= len(known), "publications", f"about more than the {len(known)} that there are")
    return (*known[: change.first], *known[change.last :], *change.added)


def _must(holds: bool, field: str, problem: str) -> None:
    if not holds:
        raise WrongFieldError(f"{field} is {problem}")
