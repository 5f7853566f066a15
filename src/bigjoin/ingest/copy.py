"""Write the relations of an index again, with the same codes: dealt to other shards, or made undirected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bigjoin.defaults import PART_SIZE
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.entries import DomainEntry, Manifest, RelationEntry
from bigjoin.index.shards import Shards
from bigjoin.index.stage_runner import StageRunner
from bigjoin.index.trust import notes_kept, verify_all
from bigjoin.ingest.assembly import Assembly, Chunks
from bigjoin.ingest.edges import Code, Dedupe
from bigjoin.ingest.runs import write_run
from bigjoin.ingest.scan import edge_keys, write_ranks
from bigjoin.storage import storage_at


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
    """Write an index into a folder, and return what its manifest says about the files; materialised relations are left out.

    Nothing damaged is copied: its copy would have checksums of its own.
    """
    verify_all(index)
    assembly = Assembly(folder, run, progress, directed=directed, shards=shards, part=part)
    size = index.statistics.domains[VERTEX]
    kind = np.dtype(index.manifest.codes)
    with assembly.exchanging(), notes_kept(index):
        progress("reading tuples")
        chunks: dict[str, Chunks] = {}
        stored = {name: relation for name, relation in index.statistics.relations.items() if not relation.materialized}
        for name, relation in stored.items():
            if relation.arity == 2:
                tuples = relation.rows.tuples if relation.rows is not None else relation.tuples
                items = [(first, min(first + part, tuples)) for first in range(0, tuples, part)]
                chunks[name] = run(ReadTuples(assembly.exchange, index, name, directed), items)
        code = Code(assembly.exchange, None, Shards(shards, size))
        assembly.domains = {name: _link_domain(assembly, index, domain) for name, domain in index.manifest.domains.items()}
        assembly.write_tries(assembly.dedupe(chunks, Dedupe(assembly.exchange, size)), code, kind)
        for name in stored:
            entry = index.manifest.relations[name]
            if name not in chunks:
                assembly.relations[name] = _link_list(assembly, index, entry)
                continue
            if (source := entry.source) is not None:
                assembly.enter_fate(name, rows=source.rows, nulls=source.nulls, loops=source.loops)
            if entry.rows is not None:
                assembly.write_rows(name, chunks[name], code, kind, index.statistics.domains[entry.rows.domains[2]])
        return assembly.manifest(kind)


@dataclass(frozen=True)
class ReadTuples:
    """Stage: read a range of a relation's tuples, or rows, as a chunk whose ranks are codes."""

    folder: str
    index: Index
    relation: str
    directed: bool

    def __call__(self, bounds: tuple[int, int]) -> dict[str, Any]:
        statistics = self.index.statistics.relations[self.relation]
        columns = (0, 1) if statistics.rows is None else (0, 1, 2)
        tuples = self.index.trie(self.relation, columns).tuples(np.arange(*bounds))
        if statistics.symmetric:  # each edge is there in both directions
            once = tuples[0] < tuples[1]
            tuples = [column[once] for column in tuples]
        size = self.index.statistics.domains[VERTEX]
        keys = edge_keys(tuples[0], tuples[1], directed=self.directed, size=size)
        chunk: dict[str, Any] = {"rows": len(tuples[0]), "run": write_run(keys, self.folder)}
        return chunk if statistics.rows is None else chunk | {"ranks": write_ranks(tuples, self.folder)}


def _link_domain(assembly: Assembly, index: Index, domain: DomainEntry) -> DomainEntry:
    """Return a domain's entry for the copy, with its files linked."""
    return replace(
        domain,
        ids=None if domain.ids is None else tuple(_link(assembly, index, name) for name in domain.ids),
        ranks=None if domain.ranks is None else _link(assembly, index, domain.ranks),
        files=tuple(_link(assembly, index, name) for name in domain.files),
    )


def _link_list(assembly: Assembly, index: Index, entry: RelationEntry) -> RelationEntry:
    """Return a unary relation's entry for the copy: its one list is the same, however others are dealt."""
    order = entry.orders[0,]
    levels = tuple(replace(level, values=_link(assembly, index, level.values)) for level in order.levels)
    return replace(entry, orders={(0,): replace(order, levels=levels)})


def _link(assembly: Assembly, index: Index, name: str) -> str:
    """Have a file of another index here too."""
    here = assembly.name(Path(name))
    storage = storage_at(assembly.folder.parent)
    if not storage.exists(here):
        storage.adopt(here, index.storage, name)
    return here
