"""When runs become part of an index's tries: by its writer now and then, and for static queries, which read tries alone."""

from __future__ import annotations

import os
from contextlib import suppress

from bigjoin.errors import BigjoinError, IndexFormatError
from bigjoin.index.directory import Index
from bigjoin.index.manifest import read_manifest
from bigjoin.index.trust import notes_kept
from bigjoin.index.versions import Versions, forget, opened, versions_of
from bigjoin.index.writer import building, locked, remove_old, writing
from bigjoin.ingest.compact import compact
from bigjoin.spark.session import scratch_directory


def compacted(index: Index, versions: Versions) -> Index:
    """Commit an index whose runs are part of its tries; the caller holds the lock."""
    with building(index.path) as writer:
        manifest = compact(index, versions, writer.folder)
        return writer.commit(manifest, kept=manifest.in_use(index.manifest.files), verified=index.verifies)


def settled(index: Index) -> Index:
    """Return an index without runs that says the same: itself, compacted, if that can be written, else a copy in scratch."""
    if not index.runs:
        return index
    if os.access(index.path, os.W_OK):
        with suppress(BigjoinError):  # somebody else writes it, or has
            return settled_in_place(index)
    versions = versions_of(index, index.runs)  # not those in memory, which a writer may be changing
    scratch = scratch_directory("compacted") / "index"
    with writing(scratch) as writer:
        manifest = compact(index, versions, writer.folder)
        kept = manifest.in_use(index.manifest.files)
        with notes_kept(index):
            for name in kept:
                writer.storage.adopt(name, index.storage, name)
        return writer.commit(manifest, kept=kept, verified=index.verifies)


def settled_in_place(index: Index) -> Index:
    """Return an index without runs that says the same: itself, compacted; refuse if somebody else writes it, or has."""
    if not index.runs:
        return index
    with locked(index.path):
        if read_manifest(index.path).identity != index.manifest.identity:
            raise IndexFormatError(f"the index {index.path} has changed since it was opened: open it again")
        remove_old(index.path)  # one that was killed before this one, above all
        versions = opened(index)
        forget(index.path)
        return compacted(index, versions)
