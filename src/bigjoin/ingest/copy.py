"""Copy an index with the same codes, but dealt to other shards or made undirected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bigjoin.defaults import PART_SIZE
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.manifest_entries import DomainEntry, Manifest, RelationEntry
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.trust import notes_kept, verify_all
from bigjoin.ingest.assembly import Assembly
from bigjoin.ingest.scan import ScannedChunk, edge_keys
from bigjoin.ingest.sorting import run_in_groups, write_sorted
from bigjoin.ingest.tries import TrieWriter, exchange_in
from bigjoin.storage import storage_at
from bigjoin.storage.arrays import save_new


def copy(
    index: Index,
    folder: Path,
    run: StageRunner,
    *,
    directed: bool,
    shards: int,
    part: int = PART_SIZE,
    progress: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Write an index into a folder, without its materialised relations, and return the manifest.

    The index is verified first: the copy of a damaged file would have a valid checksum of its own.
    """
    verify_all(index)
    assembly = Assembly(folder, run, progress, directed=directed, shards=shards, part=part)
    kind = np.dtype(index.manifest.codes)
    tries = TrieWriter(assembly.folder, assembly.exchange, run, kind, shards, part)
    with exchange_in(assembly.folder), notes_kept(index):
        progress("reading tuples")
        stored = {name: entry for name, entry in index.manifest.relations.items() if not entry.is_stored_result}
        edges = [name for name, entry in stored.items() if len(entry.domains) == 2]
        ranges = [[(name, *bounds) for bounds in _ranges(stored[name], part)] for name in edges]
        found = run_in_groups(run, ReadTuples(assembly.exchange, index, directed), ranges)
        chunks: dict[str, list[ScannedChunk]] = dict(zip(edges, found, strict=True))
        assembly.domains = {name: _link_domain(assembly, index, domain) for name, domain in index.manifest.domains.items()}
        assembly.write_edges(assembly.distinct_edges(chunks, index.statistics.domains[VERTEX]), None, tries)
        for name, entry in stored.items():
            if name not in chunks:
                assembly.relations[name] = _link_list(assembly, index, entry)
                continue
            if (source := entry.source) is not None:
                assembly.enter_source(name, rows=source.rows, nulls=source.nulls, loops=source.loops, reading=entry.reading)
            if entry.rows is not None:
                tuples = [replace(c.tuples(()), both_ways=not directed) for c in chunks[name] if c.rows]
                assembly.write_rows(name, tuples, index.statistics.domains[entry.rows.domains[2]], tries)
                assembly.relations[name] = replace(assembly.relations[name], type_of=entry.type_of)
        return assembly.manifest(kind)


def _ranges(entry: RelationEntry, part: int) -> list[tuple[int, int]]:
    tuples = (entry.rows or entry).tuples
    return [(first, min(first + part, tuples)) for first in range(0, tuples, part)]


@dataclass(frozen=True)
class ReadTuples:
    """Stage: read a range of a relation's tuples, or rows, as a chunk whose keys are codes."""

    folder: str
    index: Index
    directed: bool

    def __call__(self, item: tuple[str, int, int]) -> ScannedChunk:
        name, first, last = item
        statistics = self.index.statistics.relations[name]
        columns = (0, 1) if statistics.rows is None else (0, 1, 2)
        tuples = self.index.trie(name, columns).tuples(np.arange(first, last))
        if statistics.symmetric:  # which stores each edge in both directions
            once = tuples[0] < tuples[1]
            tuples = [column[once] for column in tuples]
        size = self.index.statistics.domains[VERTEX]
        edges = write_sorted(edge_keys(tuples[0], tuples[1], directed=self.directed, size=size), self.folder)
        keys = None if statistics.rows is None else save_new(np.asarray(tuples), self.folder, "keys")
        return ScannedChunk(0, last - first, len(tuples[0]), edges=edges, keys=keys)


def _link_domain(assembly: Assembly, index: Index, domain: DomainEntry) -> DomainEntry:
    """Return a domain's entry for the copy, with its files linked."""
    return replace(
        domain,
        ids=None if domain.ids is None else tuple(_link(assembly, index, name) for name in domain.ids),
        ranks=None if domain.ranks is None else _link(assembly, index, domain.ranks),
        files=tuple(_link(assembly, index, name) for name in domain.files),
    )


def _link_list(assembly: Assembly, index: Index, entry: RelationEntry) -> RelationEntry:
    """Return a unary relation's entry for the copy, with its file linked: its only list does not depend on shards."""
    order = entry.orders[0,]
    levels = tuple(replace(level, values=_link(assembly, index, level.values)) for level in order.levels)
    return replace(entry, orders={(0,): replace(order, levels=levels)})


def _link(assembly: Assembly, index: Index, name: str) -> str:
    """Link a file of the index into the copy, and return its name there."""
    here = assembly.name(Path(name))
    storage = storage_at(assembly.folder.parent)
    if not storage.exists(here):
        storage.adopt(here, index.storage, name)
    return here
