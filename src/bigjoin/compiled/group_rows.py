"""Groups as rows of codes with counts, and how rows of the same group become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes

GroupCounts = NDArray[Any]
"""Counts of groups: 64-bit integers, or Python's where these may not suffice."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Groups, as a row of codes for each key and a column for each group, and their counts."""

    keys: Codes
    counts: GroupCounts

    def __len__(self) -> int:
        return len(self.counts)


def joined(rows: Sequence[GroupRows]) -> GroupRows:
    """Return rows one after another."""
    return GroupRows(np.concatenate([one.keys for one in rows], axis=1), np.concatenate([one.counts for one in rows]))


def added(terms: Sequence[GroupRows]) -> GroupRows:
    """Return rows with one for each group, whose count is the sum of those of the terms; without those that come to zero.

    Each term has one row for a group. Usually the first has all groups, and the loops of all terms give them in the same order.
    """
    first, *others = terms
    total = _added_in_order(first, others)
    if total is None:
        keys, counts = joined(terms).keys, joined(terms).counts
        order, group = same_groups(keys)
        total = GroupRows(keys[:, order], np.zeros(len(order), counts.dtype))
        np.add.at(total.counts, group, counts)
    kept = total.counts != 0
    return total if kept.all() else GroupRows(total.keys[:, kept], total.counts[kept])


def _added_in_order(first: GroupRows, others: Sequence[GroupRows]) -> GroupRows | None:
    """Return the sum of terms that are sorted by their keys, in one order of these, and of which the first has all groups."""
    numbers = _numbers([first, *others])
    if numbers is None or not all((mine[1:] > mine[:-1]).all() for mine in numbers):
        return None
    known, counts = numbers[0], first.counts.copy()
    for mine, term in zip(numbers[1:], others, strict=True):
        places = np.searchsorted(known, mine)
        if len(mine) and (places[-1] == len(known) or (known[places] != mine).any()):
            return None
        counts[places] += term.counts
    return GroupRows(first.keys, counts)


def _numbers(terms: Sequence[GroupRows]) -> list[NDArray[np.uint64]] | None:
    """Return the two keys of each row as one number, in the order of keys in which the first term is sorted."""
    keys = terms[0].keys
    if len(keys) != 2 or any(int(term.keys.max(initial=0)) >> 32 for term in terms):
        return None
    high = 0 if (keys[0][1:] >= keys[0][:-1]).all() else 1
    return [term.keys[high].astype(np.uint64) << np.uint64(32) | term.keys[1 - high] for term in terms]


def same_groups(keys: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the first of all equal groups, and for each place the number of its group among these."""
    order = np.lexsort(keys[::-1])
    ordered = keys[:, order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(is_first) - 1
    return order[is_first], group
