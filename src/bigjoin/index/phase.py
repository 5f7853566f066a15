"""One half of an epoch as plans read it: which tries stand for the old, the new and the delta version of a relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from bigjoin.index.changing import Moment
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.directory import Index
from bigjoin.index.trie import Trie, single_list
from bigjoin.index.version_cache import WORKER_VERSIONS
from bigjoin.index.versions import Versions
from bigjoin.query.plan import Extender
from bigjoin.query.read import Read, Version, View
from bigjoin.query.statistics import Statistics


@dataclass(frozen=True)
class Phase:
    """The deletions of an epoch, or the insertions that follow them.

    A phase that is pickled for a task takes its index along; the task finds the versions in its own process.
    """

    versions: Versions
    index: Index
    """The index with the epoch as its last run, which knows the sizes of domains."""
    insert: bool
    _tries: dict[tuple[Read, tuple[int, ...]], Trie] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def statistics(self) -> Statistics:
        """Those of the index, where a relation has the tuples of the old and of the new version."""
        known = self.index.statistics
        relations = {}
        for name, relation in known.relations.items():
            deleted = self.versions.deleted_tuples.get((name, relation.arity), 0) * (2 if relation.symmetric else 1)
            relations[name] = replace(relation, tuples=relation.tuples + deleted)
        return replace(known, relations=relations)

    @property
    def dictionaries(self) -> Mapping[str, Dictionary | RowNumbers]:
        return self.index.dictionaries

    def __reduce__(self) -> tuple[Callable[[Index, bool], Phase], tuple[Index, bool]]:
        return _received, (self.index, self.insert)

    @property
    def path(self) -> Path:
        return self.index.path

    def properties(self, domain: str) -> Mapping[str, pa.ChunkedArray]:
        """Return the columns of properties that the values of a domain have."""
        return self.index.properties(domain)

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        """Return the lists that an extender reads.

        The delta of pairs is kept apart from that of rows, because a new row may be the second one of its pair.
        """
        arity = self.statistics.relations[read.relation].arity
        if (read.relation, arity) not in self.versions.orders:
            return self.index.extensions(read, columns)
        version = Version.DELTA if read.version is Version.LATER else read.version
        read = replace(read, version=version, width=max(arity, len(columns), read.width))
        if (read, columns) not in self._tries:
            self._tries[read, columns] = self._trie(read, columns) if read.view is None else self._view(read, read.view)
        return self._tries[read, columns]

    def seeds(self, extender: Extender) -> Trie:
        """Return the tuples that seed a plan."""
        return self.extensions(extender.atom.read, extender.columns)

    def _trie(self, read: Read, columns: tuple[int, ...]) -> Trie:
        changing = self.versions.order((read.relation, read.width), columns)
        trie = changing.deltas[self.insert] if read.version is Version.DELTA else changing.trie(self._moment(read.version))
        return trie.first_columns(len(columns))

    def _view(self, read: Read, view: View) -> Trie:
        """Return the one column of a view of pairs: the values that have any pair, or one with a constant."""
        (kept,) = view.kept
        other, arity = 1 - kept, self.statistics.relations[read.relation].arity
        assert arity == 2, "views are of pairs"
        constants = dict(view.constants)
        code = self.index.code(read.relation, other, constants[other]) if other in constants else None
        pairs = replace(read, view=None, width=arity)
        if read.version is not Version.DELTA:
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
        for version in (Version.OLD, Version.NEW):
            lists = self.extensions(replace(pairs, version=version), (kept, other))
            nodes = lists.nodes([values], len(values)).astype(np.int64)
            has_pair.append(lists.offsets[nodes + 1] > lists.offsets[nodes])
        return single_list(values[has_pair[0] != has_pair[1]])

    def _moment(self, version: Version) -> Moment:
        if version is not Version.EITHER and (version is Version.NEW) != self.insert:
            return Moment.BETWEEN
        return Moment.AFTER if self.insert else Moment.BEFORE


def _received(index: Index, insert: bool) -> Phase:
    """Return a phase that has arrived in a task."""
    return Phase(WORKER_VERSIONS.begun(index), index, insert)
