"""When the runs of an index are compacted into its tries: by its writer now and then, and before static queries."""

from __future__ import annotations

import os
from contextlib import suppress
from types import MappingProxyType

from bigjoin.errors import BigjoinError, IndexFormatError
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.manifest_file import read_manifest
from bigjoin.index.trust import notes_kept
from bigjoin.index.versions import Versions, versions_of
from bigjoin.index.writer import Writer, building, locked, remove_old, writing
from bigjoin.ingest.compact import PropertyTypeNames, compact, forgets_vertices
from bigjoin.storage import is_on_store
from bigjoin.storage.scratch import scratch_directory

COMPACTION_RATIO = 2
"""Runs are compacted when they have more tuples than the tries, divided by this number."""
MIN_COMPACTED_TUPLES = 1 << 18
"""Runs with fewer tuples than this can wait."""


def is_worn(index: Index) -> bool:
    """Tell whether an index should be compacted: its runs are large, or most of its rows or vertices are gone."""
    known = index.statistics
    edges = {name: relation for name, relation in known.relations.items() if relation.arity == 2}
    pairs = sum(relation.tuples for relation in edges.values())
    if sum(run.tuples for run in index.runs) > max(MIN_COMPACTED_TUPLES, pairs // COMPACTION_RATIO):
        return True
    for rows in (relation.rows for relation in edges.values() if relation.rows is not None):
        if known.domains[rows.domains[2]] > COMPACTION_RATIO * rows.tuples + MIN_COMPACTED_TUPLES:
            return True
    return forgets_vertices(known) and known.domains[VERTEX] > 2 * COMPACTION_RATIO * pairs + MIN_COMPACTED_TUPLES


def commit_compacted(index: Index, versions: Versions, types: PropertyTypeNames = MappingProxyType({})) -> Index:
    """Commit an index with its runs in its tries, and perhaps other types of properties; the caller holds the lock."""
    with building(index.path) as writer:
        return _commit(index, versions, writer, types)


def _commit(index: Index, versions: Versions, writer: Writer, types: PropertyTypeNames = MappingProxyType({})) -> Index:
    manifest = compact(index, versions, writer.folder, types)
    kept = manifest.in_use(index.manifest.files)
    if writer.path != index.path:
        with notes_kept(index):
            for name in kept:
                writer.storage.adopt(name, index.storage, name)
    return writer.commit(manifest, kept=kept, verified=index.verifies)


def without_runs(index: Index, versions: Versions | None = None) -> Index:
    """Return the same index without runs: compacted in place if it can be written, otherwise a copy in scratch.

    `versions` are those of the index, if the caller has them in memory; otherwise they are read from its files.
    """
    if not index.runs:
        return index
    if not index.is_past and (is_on_store(index.path) or os.access(index.path, os.W_OK)):
        with suppress(BigjoinError):  # another process is writing it, or has written it
            return compact_in_place(index, versions)
    with writing(scratch_directory("compacted") / "index") as writer:
        return _commit(index, versions or versions_of(index, index.runs), writer)


def compact_in_place(index: Index, versions: Versions | None = None) -> Index:
    """Return the same index without runs, compacted in place; refuse if another process writes it or has written it."""
    if not index.runs:
        return index
    with locked(index.path):
        if read_manifest(index.path).identity != index.manifest.identity:
            raise IndexFormatError(f"the index {index.path} has changed since it was opened: open it again")
        remove_old(index.path)  # what a killed process has left
        return commit_compacted(index, versions or versions_of(index, index.runs))
