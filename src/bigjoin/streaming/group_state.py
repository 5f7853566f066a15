"""The groups of a watched query in memory: how many matches each has, and its aggregates.

The state is a function of the index at an epoch. It follows the signed matches of each epoch, and goes back if the epoch is not
committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeAlias

from bigjoin.errors import BigjoinError, shown
from bigjoin.streaming.running_aggregates import PythonValue, RunningAggregate

MAX_GROUP_ENTRIES = 10_000_000
"""How many groups, and values of groups that are kept by themselves, there may be: some gigabytes of memory."""

MAX_GROUP_ENTRIES_VARIABLE = "BIGJOIN_MOST_GROUPS"
"""The environment variable that sets another limit."""

GroupKey: TypeAlias = "tuple[PythonValue, ...]"
GroupRow: TypeAlias = "tuple[PythonValue, ...]"
"""The aggregates of a group."""
GroupChange: TypeAlias = "tuple[GroupKey, tuple[PythonValue, ...], int]"
"""Matches that come, or go if their number is below zero: their group, and what its aggregates are about."""


class GroupState:
    """Groups by their keys. Each has the number of its matches, followed by its running aggregates."""

    def __init__(self, aggregates: Sequence[Callable[[], RunningAggregate] | None], *, has_keys: bool) -> None:
        self._aggregates = tuple(aggregates)
        self._kept: dict[GroupKey, list[PythonValue]] = {}
        self._values = 0
        self._staged: list[GroupChange] = []
        self._most = most_entries()
        self._has_keys = has_keys
        if not has_keys:  # all matches are one group, even if there are none
            self._kept[()] = self._new()
        self.is_whole = True
        """Whether no change was interrupted half way."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def keys(self) -> list[GroupKey]:
        """The keys of all groups."""
        return list(self._kept)

    def row(self, key: GroupKey) -> GroupRow | None:
        """Return the aggregates of a group; None if it has no matches."""
        kept = self._kept.get(key)
        return None if kept is None else tuple([kept[0] if one is None else one.value for one in kept[1:]])

    def stage(self, changes: Sequence[GroupChange]) -> list[tuple[GroupKey, GroupRow | None, GroupRow | None]]:
        """Apply changes that are not committed yet; return the groups that they are about, as they were and as they are.

        Changes of the same matches have been added up, so that no group ever has less than none.
        """
        self.undo()
        before = {key: self.row(key) for key in dict.fromkeys(key for key, _, _ in changes)}
        self._apply(changes)
        self._staged = list(changes)
        return [(key, row, self.row(key)) for key, row in before.items()]

    def commit(self) -> None:
        """Keep what was staged."""
        self._staged = []

    def undo(self) -> None:
        """Take back what was staged."""
        staged, self._staged = self._staged, []
        if self.is_whole:
            self._apply([(key, values, -times) for key, values, times in reversed(staged)])

    def load(self, changes: Sequence[GroupChange]) -> None:
        """Begin with the matches that there are."""
        self._apply(changes)

    def _apply(self, changes: Sequence[GroupChange]) -> None:
        kept, self.is_whole = self._kept, False
        for number, (key, values, times) in enumerate(changes):
            group = kept.get(key)
            if group is None:
                group = kept[key] = self._new()
            group[0] += times
            for place, value in enumerate(values, start=1):
                aggregate = group[place]
                if value is not None and aggregate is not None:
                    self._values += aggregate.add(value, times)
            if not group[0] and self._has_keys:
                del kept[key]
            if not number % 1024:
                self._check()
        self._check()
        self.is_whole = True

    def _new(self) -> list[PythonValue]:
        return [0, *(None if make is None else make() for make in self._aggregates)]

    def _check(self) -> None:
        if len(self._kept) + self._values > self._most:
            values = f" and {self._values:,} values of theirs" if self._values else ""
            raise BigjoinError(
                f"the query has {len(self._kept):,} groups or distinct rows{values} to keep in memory, and the limit is "
                f"{self._most:,}: group by something with fewer values, or allow more with {MAX_GROUP_ENTRIES_VARIABLE} in the "
                "environment"
            )


def most_entries() -> int:
    """Return how many groups, and values of theirs, may be kept."""
    given = os.environ.get(MAX_GROUP_ENTRIES_VARIABLE)
    try:
        return MAX_GROUP_ENTRIES if given is None else int(float(given))
    except (ValueError, OverflowError):
        raise BigjoinError(
            f"{MAX_GROUP_ENTRIES_VARIABLE} is a number of groups, such as 1e8, and not {shown(given or '', 60)!r}"
        ) from None
