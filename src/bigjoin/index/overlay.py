"""An index with more in it for one question: relations in memory, such as seeds.

The index itself is not touched. An overlay answers whatever an index answers, so plans and strategies do not know which of the
two they read. It travels to tasks with every question, as the codes of its relations; tries are built where they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeAlias

import pyarrow as pa

from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.directory import Index
from bigjoin.index.trie import Codes, Trie, sparse_trie
from bigjoin.query.read import Read
from bigjoin.query.statistics import RelationStatistics, Statistics
from bigjoin.storage import Place


@dataclass(frozen=True)
class Overlay:
    """An index, or another overlay, with further relations."""

    base: Index | Overlay
    relations: Mapping[str, Sequence[Codes]] = field(default_factory=dict)
    """By name: the columns of each relation, as codes, a row for each tuple; no name is that of a relation below."""
    described: Mapping[str, RelationStatistics] = field(default_factory=dict)
    """What the planner knows of these relations."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Overlay, (self.base, self.relations, self.described)  # without what is kept beside the fields

    @cached_property
    def statistics(self) -> Statistics:
        """Those of the index, with the further relations."""
        return replace(self.base.statistics, relations={**self.base.statistics.relations, **self.described})

    @cached_property
    def identity(self) -> str:
        """A text that tells what can be read here from everything else."""
        seen = blake2b(self.base.identity.encode(), digest_size=16)
        for name in sorted(self.relations):
            seen.update(repr((name, self.described[name].domains)).encode())
            for codes in self.relations[name]:
                seen.update(codes.tobytes())
        return seen.hexdigest()

    @property
    def path(self) -> Place:
        return self.base.path

    @property
    def shards(self) -> int:
        return self.base.shards

    @property
    def own_bytes(self) -> int:
        """The bytes of the index: what is added to it is small."""
        return self.base.own_bytes

    @property
    def dictionaries(self) -> Mapping[str, Dictionary | RowNumbers]:
        return self.base.dictionaries

    def properties(self, domain: str) -> Mapping[str, pa.ChunkedArray]:
        """Return the properties of a domain's values, as arrays by code."""
        return self.base.properties(domain)

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        """Return the lists that an extender reads."""
        if read.relation not in self.relations:
            return self.base.extensions(read, columns)
        assert read.view is None, "an atom over a relation of an overlay names all of its columns"
        if (read.relation, columns) not in self._tries:
            rows, domain = self.relations[read.relation], self.described[read.relation].domains[columns[0]]
            self._tries[read.relation, columns] = sparse_trie([rows[c] for c in columns], self.statistics.domains[domain])
        return self._tries[read.relation, columns]

    @cached_property
    def _tries(self) -> dict[tuple[str, tuple[int, ...]], Trie]:
        return {}


AskedIndex: TypeAlias = Index | Overlay
"""What a question is asked to."""
