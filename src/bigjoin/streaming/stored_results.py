"""Stored results follow the relations that they are computed from: their tuples that an epoch deletes and inserts.

A stored result is a query that is watched by its index. Its delta queries find tuples of codes, which become a part of the
epoch's run, so queries over the stored result see it change like any other relation.

If the head leaves attributes out, several matches may stand behind a tuple. How many is not stored: a tuple that loses a match
is looked up in the new version, where any other match keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bigjoin.compiled.loops_or_batches import ListProgram
from bigjoin.defaults import BATCH_SIZE
from bigjoin.index.directory import Index
from bigjoin.index.runs import Delta, Reading
from bigjoin.index.trie import Codes, Trie, single_list, sparse_trie
from bigjoin.index.versions import Versions
from bigjoin.joins.changes import Signed, changed
from bigjoin.joins.defined import defined
from bigjoin.joins.phase import Phase
from bigjoin.planner import delta_plan, meaning
from bigjoin.planner.foresee_updates import foreseen
from bigjoin.planner.isomorphism import shape_of
from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.planner.symmetries import Symmetries
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.nest import nest_of
from bigjoin.query.query import Atom, Query
from bigjoin.query.read import Read, Version
from bigjoin.streaming.find import Execution, Phases, execution_of, work_of
from bigjoin.streaming.watched import Watched

MAX_FORMS = 1000
"""Automorphisms of a stored `unique` query up to which the stored form of a match is looked for."""
LOOKED_UP_AT_ONCE = 1024
"""Tuples that are looked up together, until each has a match: one of them may have very many."""


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
        if self.watched.query.projects:
            return self._distinct_delta(deleted, inserted, phases)
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

    def _distinct_delta(self, lost: Codes, won: Codes, phases: Phases) -> Delta:
        """Return the tuples that go and come, given those that lose and get a match, as often as they do."""
        lost, won = np.unique(lost, axis=1), np.unique(won, axis=1)
        is_new = ~phases[0].versions.holds((self.name, len(won)), [*won])
        gone, code_type = ~self._has_match(lost, phases[1]), self.index.manifest.codes
        return Delta(*(t.astype(code_type) for t in (np.compress(gone, lost, axis=1), np.compress(is_new, won, axis=1))))

    def _has_match(self, tuples: Codes, after: Phase) -> NDArray[np.bool_]:
        """Tell which tuples have a match after the epoch."""
        found = np.zeros(tuples.shape[1], np.bool_)
        for plan in self._lookups if len(found) else ():
            (dq,) = plan.queries
            program = ListProgram(dq.plan.query, nest_of(dq.plan), steps=dq.plan)
            places = [dq.plan.attributes.index(str(attribute)) for attribute in self.watched.query.head]
            for left in _pieces(np.flatnonzero(~found)):
                asked = tuples[:, left]
                listing = program.bind(_Looking(after.versions, after.index, True, relation=self.name, tuples=asked))
                for rows in listing.rows(listing.ranges(1), BATCH_SIZE):
                    found[left] |= _holds(rows.prefixes[places], asked)
                    if found[left].all():
                        break
        return found

    @cached_property
    def _lookups(self) -> list[DeltaPlan]:
        """The query seeded with tuples of its result, for each query that it is the sum of."""
        asked = replace(self.watched.query, unique=False, distinct=self.watched.query.injective)
        plans = []
        for draft in meaning(asked, foreseen(self.index.statistics)):
            mine = Atom(self.name, tuple(str(attribute) for attribute in self.watched.query.head))
            query = replace(draft.query, head=draft.query.attributes, atoms=(*draft.query.atoms, mine))
            plans.append(delta_plan(replace(draft, query=query, atoms=(*draft.atoms, mine)), changing=[self.name]))
        return plans

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
        if not query.unique:
            return True
        asked = resolve_relations(query, self.index.statistics)
        symmetries = Symmetries(shape_of(asked, self.index.statistics)).all
        if not query.projects:
            return symmetries.order <= MAX_FORMS
        return all(names[str(attribute)] == str(attribute) for names in symmetries.generators for attribute in asked.head)


@dataclass(frozen=True)
class _Looking(Phase):
    """The version after an epoch, in which the delta of a stored result are tuples that are looked up."""

    relation: str = ""
    tuples: Codes = field(default_factory=lambda: np.empty((0, 0), np.int64), compare=False, repr=False)

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        """Return the lists that an extender reads."""
        if read.relation != self.relation or read.version is not Version.DELTA:
            return super().extensions(read, columns)
        wanted = [self.tuples[c].astype(self.index.manifest.codes) for c in columns]
        if len(wanted) == 1:
            return single_list(np.unique(wanted[0]))
        return sparse_trie(wanted, self.statistics.domains[self.statistics.relations[self.relation].domains[columns[0]]])


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


def _pieces(numbers: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for first in range(0, len(numbers), LOOKED_UP_AT_ONCE):
        yield numbers[first : first + LOOKED_UP_AT_ONCE]


def _holds(tuples: Codes, asked: Codes) -> NDArray[np.bool_]:
    """Tell which of the tuples that are asked for, each once, are among others."""
    both = np.concatenate([asked, tuples.astype(np.int64)], axis=1)
    _, number = np.unique(both, axis=1, return_inverse=True)
    number = number.reshape(-1)
    return np.isin(number[: asked.shape[1]], number[asked.shape[1] :])


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
