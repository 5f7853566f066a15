"""One half of an epoch as plans read it: which tries stand for the old, the new and the delta version of a relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from bigjoin.index.changing import Moment
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.directory import Index, padded
from bigjoin.index.trie import Trie, single_list
from bigjoin.index.version_cache import WORKER_VERSIONS
from bigjoin.index.versions import Versions
from bigjoin.joins.replaced import replaced_between, replaced_by_last, replaced_codes
from bigjoin.query.plan import Extender
from bigjoin.query.read import Read, ReplacedView, Version, View
from bigjoin.query.statistics import RelationStatistics, Statistics
from bigjoin.storage import Place

_DELTAS = {Version.DELTA: (Version.OLD, Version.NEW), Version.NOT_DELTA: (Version.NOT_OLD, Version.NOT_NEW)}
"""The versions in which tuples are different, and the two that they are different in."""


@dataclass(frozen=True)
class Phase:
    """The deletions of an epoch, or the insertions that follow them.

    A phase that is pickled for a task takes its index along; the task finds the versions in its own process.
    """

    versions: Versions
    index: Index
    """The index with the epoch as its last run, which knows the sizes of domains."""
    insert: bool
    before: Index | None = None
    """The version before the epoch, if that is not the index without its last run."""
    _tries: dict[tuple[Read, tuple[int, ...]], Trie] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def statistics(self) -> Statistics:
        """Those of the index, where a relation has the tuples of the old and of the new version."""
        known = self.index.statistics
        if not any(self.versions.deleted_tuples.values()):
            return known
        relations = {}
        for name, relation in known.relations.items():
            relations[name] = self._with_deleted(name, relation)
        return replace(known, relations=relations)

    def _with_deleted(self, name: str, relation: RelationStatistics) -> RelationStatistics:
        """Return the statistics of a relation, and of its rows, with the tuples that the epoch deletes."""
        deleted = self.versions.deleted_tuples.get((name, relation.arity), 0) * (2 if relation.symmetric else 1)
        rows = None if relation.rows is None else self._with_deleted(name, relation.rows)
        return replace(relation, tuples=relation.tuples + deleted, rows=rows)

    @property
    def dictionaries(self) -> Mapping[str, Dictionary | RowNumbers]:
        return self.index.dictionaries

    def __reduce__(self) -> tuple[Callable[[Index, bool], Phase], tuple[Index, bool]]:
        return _received, (self.index, self.insert)

    @property
    def path(self) -> Place:
        return self.index.path

    def properties(self, domain: str) -> Mapping[str, pa.ChunkedArray]:
        """Return the columns of properties that the values of a domain have."""
        if self.before is not None and not self.insert:
            size = self.index.statistics.domains[domain]
            return {name: padded(column, size - len(column)) for name, column in self.before.properties(domain).items()}
        return self.index.properties(domain, before=not self.insert)

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        """Return the lists that an extender reads.

        The delta of pairs is kept apart from that of rows, because a new row may be the second one of its pair.
        """
        asked = read, columns
        if asked not in self._tries:  # what is asked for again is found at once, in the very arrays
            self._tries[asked] = self._extensions(read, columns)
        return self._tries[asked]

    def _extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        if isinstance(read.view, ReplacedView):
            return self._replaced(read, read.view)
        arity = self.index.statistics.relations[read.relation].arity
        if (read.relation, arity) not in self.versions.readings:
            return self.index.extensions(read, columns)
        version = Version.DELTA if read.version is Version.LATER else read.version
        width = max(arity, len(columns), read.width)
        if version is not read.version or width != read.width:
            read = replace(read, version=version, width=width)
        if (read, columns) not in self._tries:
            self._tries[read, columns] = self._trie(read, columns) if read.view is None else self._view(read, read.view)
        return self._tries[read, columns]

    def seeds(self, extender: Extender) -> Trie:
        """Return the tuples that seed a plan."""
        return self.extensions(extender.atom.read, extender.columns)

    def _trie(self, read: Read, columns: tuple[int, ...]) -> Trie:
        of_list = self.versions.lists.get(read.relation)
        changing = of_list or self.versions.order((read.relation, read.width), columns)
        if read.version in _DELTAS:
            trie = changing.deltas[self.insert is (read.version is Version.DELTA)]
        else:
            trie = changing.trie(self._moment(read.version))
        return trie.first_columns(len(columns))

    def _view(self, read: Read, view: View) -> Trie:
        """Return the one column of a view of pairs: the values that have any pair, or one with a constant."""
        (kept,) = view.kept
        other, arity = 1 - kept, self.statistics.relations[read.relation].arity
        assert arity == 2, "views are of pairs"
        constants = dict(view.constants)
        code = self.index.code(read.relation, other, constants[other]) if other in constants else None
        pairs = replace(read, view=None, width=arity)
        if read.version not in _DELTAS:
            lists = self.extensions(pairs, (other, kept) if constants else (kept, other))
            if not constants:
                return lists.roots()
            return single_list(lists.list_of([code]) if code is not None else lists.values[:0])
        delta = self.extensions(pairs, (kept, other))
        values, others = delta.tuples(np.arange(len(delta)))
        if constants:
            return single_list(np.unique(values[others == code]) if code is not None else values[:0])
        values = np.unique(values)
        has_pair = []
        for version in _DELTAS[read.version]:
            lists = self.extensions(replace(pairs, version=version), (kept, other))
            nodes = lists.nodes([values], len(values)).astype(np.int64)
            has_pair.append(lists.offsets[nodes + 1] > lists.offsets[nodes])
        return single_list(values[has_pair[0] != has_pair[1]])

    def _replaced(self, read: Read, view: ReplacedView) -> Trie:
        """Return the vertices of which the epoch replaces properties: nothing but half way, and in the deltas."""
        if (read, ()) not in self._tries:
            changes = replaced_by_last(self.index) if self.before is None else replaced_between(self.before, self.index)
            gone, came = replaced_codes(view, self.index, changes)
            at_half = self._moment(read.version) is Moment.UNITED
            found = (came if self.insert else gone) if read.version in _DELTAS else np.union1d(gone, came)
            codes = found if at_half or read.version in _DELTAS else found[:0]
            self._tries[read, ()] = single_list(codes.astype(self.index.manifest.codes))
        return self._tries[read, ()]

    def _moment(self, version: Version) -> Moment:
        if version is Version.EITHER or (version in (Version.NEW, Version.NOT_NEW)) is self.insert:
            return Moment.AFTER if self.insert else Moment.BEFORE
        return Moment.BETWEEN if version in (Version.OLD, Version.NEW) else Moment.UNITED


def _received(index: Index, insert: bool) -> Phase:
    """Return a phase that has arrived in a task."""
    return Phase(WORKER_VERSIONS.begun(index), index, insert)
