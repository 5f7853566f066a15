"""A list that changes: the values of a relation with one column, such as a label, at all moments of an epoch.

It is copied by each epoch that changes it, so such an epoch costs as much as the list is long; others cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bigjoin.index.changing import Moment, UntrueDeltaError
from bigjoin.index.trie import Codes, Trie, single_list


class ChangingList:
    """The values of a relation with one column, with the verbs of `ChangingTrie`."""

    def __init__(self, values: Codes) -> None:
        self._none = values[:0]
        self.lists = dict.fromkeys((Moment.BEFORE, Moment.BETWEEN, Moment.AFTER), values)
        self._delta: dict[bool, Codes] = {}

    def grow(self, size: int) -> None:
        """Do nothing: a list has no place for codes that it does not hold."""

    def trie(self, moment: Moment) -> Trie:
        """Return the relation at a moment."""
        if moment is Moment.UNITED:
            inserted = self._delta.get(True, self._none)
            return single_list(np.union1d(self.lists[Moment.BEFORE], inserted) if len(inserted) else self.lists[Moment.BEFORE])
        return single_list(self.lists[moment])

    @property
    def deltas(self) -> dict[bool, Trie]:
        """What the epoch deletes, and what it inserts."""
        return {insert: single_list(self._delta.get(insert, self._none)) for insert in (False, True)}

    @property
    def longest(self) -> int:
        """The length of the list."""
        return max(map(len, self.lists.values()))

    def change(self, columns: Sequence[Codes], *, insert: bool) -> None:
        """Insert sorted values that are not there, or delete values that are; raise UntrueDeltaError otherwise."""
        (values,) = columns
        self._delta[insert] = values
        if not len(values):
            return
        known = self.lists[Moment.AFTER]
        if (values[1:] == values[:-1]).any() or (np.isin(values, known, assume_unique=True) == insert).any():
            raise UntrueDeltaError
        changed = np.union1d(known, values) if insert else np.setdiff1d(known, values, assume_unique=True)
        for moment in (Moment.AFTER,) if insert else (Moment.BETWEEN, Moment.AFTER):
            self.lists[moment] = changed.astype(known.dtype)

    def commit(self) -> None:
        """Make the list after an epoch the one before the next, and drop the delta."""
        self.lists = dict.fromkeys(self.lists, self.lists[Moment.AFTER])
        self._delta = {}

    def live(self) -> int:
        """Return how many values there are."""
        return len(self.lists[Moment.BEFORE])
