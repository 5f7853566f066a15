"""Stored results follow the relations that they are computed from: their tuples that an epoch deletes and inserts.

A stored result is a query that is watched by its index. Its delta queries find tuples of codes, which become a part of the
epoch's run, so queries over the stored result see it change like any other relation. A result whose head leaves attributes out
is not kept: how many matches stand behind each of its tuples is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bigjoin.compiled.loops_or_batches import ListProgram
from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.directory import Index
from bigjoin.index.runs import Delta, Reading
from bigjoin.index.trie import Codes
from bigjoin.index.versions import Versions
from bigjoin.joins.changes import Signed, changed
from bigjoin.joins.defined import defined
from bigjoin.planner.isomorphism import shape_of
from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.planner.symmetries import Symmetries
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.nest import nest_of
from bigjoin.query.query import Query
from bigjoin.streaming.find import Execution, Phases, execution_of, work_of
from bigjoin.streaming.watched import Watched

MAX_FORMS = 1000
"""Automorphisms of a stored `unique` query up to which the stored form of a match is looked for."""


@dataclass
class StoredResult:
    """A stored result that is kept: its delta queries."""

    name: str
    watched: Watched
    index: Index
    _plans: dict[bool, list[DeltaPlan]] = field(default_factory=dict)

    def delta(self, phases: Phases, replaced: Sequence[str]) -> Delta:
        """Return the tuples that an epoch deletes and inserts; it replaces some properties of vertices."""
        found: dict[bool, list[Codes]] = {False: [], True: []}
        for plan in self._plans_for(replaced):
            for signed in work_of(plan, phases):
                found[signed.insert] += self._tuples(signed, phases)
        width = len(self.watched.query.head)
        deleted, inserted = (
            np.concatenate([np.empty((width, 0), np.int64), *found[insert]], axis=1) for insert in (False, True)
        )
        if self.watched.query.unique:
            deleted = self._as_stored(deleted, phases[0].versions)
        return _net(deleted, inserted, self.index.manifest.codes)

    def _plans_for(self, replaced: Sequence[str]) -> list[DeltaPlan]:
        known = self.index.statistics
        variant = bool(replaced) and self.watched.reads(replaced, known)
        if variant not in self._plans:
            self._plans[variant] = self.watched.plans(known, replaced=variant)
        return self._plans[variant]

    def _tuples(self, signed: Signed, phases: Phases) -> Iterator[Codes]:
        """Give the tuples of a delta query in one phase."""
        plan, phase = signed.dq.plan, phases[signed.insert]
        is_batched = execution_of(signed.plan, phases) is Execution.BATCHED
        program = ListProgram(plan.query, nest_of(plan), steps=plan) if is_batched else ListProgram.of(plan, phase)
        listing = program.bind(phase)
        places = [plan.attributes.index(str(attribute)) for attribute in self.watched.query.head]
        for rows in listing.rows(listing.ranges(1), BATCH_SIZE):
            for matches in changed(signed.plan, signed.dq, rows.prefixes):
                yield matches[places].astype(np.int64)

    def _as_stored(self, tuples: Codes, versions: Versions) -> Codes:
        """Return matches in the forms in which they are stored."""
        found, left = tuples.copy(), np.ones(tuples.shape[1], np.bool_)
        for form in self._forms:
            columns = tuples[list(form)]
            is_stored = left & versions.holds((self.name, len(tuples)), [*columns])
            found[:, is_stored], left = columns[:, is_stored], left & ~is_stored
        return found

    @cached_property
    def _forms(self) -> list[tuple[int, ...]]:
        """The permutations of the head's columns that leave the query unchanged."""
        asked = resolve_relations(self.watched.query, self.index.statistics)
        head = [str(attribute) for attribute in asked.head]
        symmetries = Symmetries(shape_of(asked, self.index.statistics)).all
        return [tuple(head.index(names[a]) for a in head) for names in symmetries.elements()]

    @property
    def is_kept(self) -> bool:
        """Whether its tuples can be told from those of other matches."""
        query = self.watched.query
        if query.projects or query.deduplicate:
            return False
        asked = resolve_relations(query, self.index.statistics)
        return not query.unique or Symmetries(shape_of(asked, self.index.statistics)).all.order <= MAX_FORMS


def stored_results(index: Index) -> list[StoredResult]:
    """Return the stored results of an index that can be kept."""
    entries = index.manifest.relations.items()
    queries: dict[str, Query] = {name: defined(entry.definition) for name, entry in entries if entry.definition is not None}
    found = (StoredResult(name, Watched(query), index) for name, query in queries.items())
    return [result for result in found if result.is_kept]


def deltas_of(results: Sequence[StoredResult], phases: Phases, replaced: Sequence[str]) -> dict[Reading, Delta]:
    """Return how stored results change in an epoch."""
    found = {(result.name, len(result.watched.query.head)): result.delta(phases, replaced) for result in results}
    return {read: delta for read, delta in found.items() if len(delta)}


def _net(deleted: Codes, inserted: Codes, code_type: str) -> Delta:
    """Return a delta without tuples that are both deleted and inserted."""
    both = np.concatenate([deleted, inserted], axis=1)
    if not both.shape[1]:
        return Delta(deleted.astype(code_type), inserted.astype(code_type))
    _, number = np.unique(both, axis=1, return_inverse=True)
    number = number.reshape(-1)
    gone, come = number[: deleted.shape[1]], number[deleted.shape[1] :]
    kept = np.compress(~np.isin(gone, come), deleted, axis=1), np.compress(~np.isin(come, gone), inserted, axis=1)
    return Delta(*(tuples.astype(code_type) for tuples in kept))
