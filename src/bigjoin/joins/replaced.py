"""Which vertices a query loses and gets back because an epoch replaces properties that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.replaced_columns import CODE, values_of
from bigjoin.index.values import Column
from bigjoin.joins.bounds_and_filters import constrain
from bigjoin.joins.properties import Mask
from bigjoin.query.query import Comparison
from bigjoin.query.read import THIS, ReplacedView
from bigjoin.query.terms import Property, Term


@dataclass(frozen=True)
class ReplacedProperties:
    """The vertices whose properties an epoch replaces, and what these were and are."""

    codes: NDArray[np.int64]
    before: Mapping[str, pa.Array]
    after: Mapping[str, pa.Array]


def replaced_by_last(index: Index) -> ReplacedProperties | None:
    """Return what the last run of an index has replaced, if that is the last epoch's."""
    changes = index.replaced(VERTEX)
    if changes is None:
        return None
    codes, known = changes[CODE].to_numpy(), index.properties(VERTEX, before=True)
    before = {name: values_of(known, name, codes) for name in known}
    return ReplacedProperties(codes, before, {name: changes[name].combine_chunks() for name in known})


def replaced_between(before: Index, after: Index) -> ReplacedProperties | None:
    """Return what was replaced between two versions whose codes are the same; of some of it, the values may be equal."""
    entry, known = after.manifest.domains[VERTEX], before.manifest.domains[VERTEX].changes
    files = [file for file in entry.changes if file not in known]
    if not files:
        return None
    codes = np.unique(after.table(files, CODE)[CODE].to_numpy())
    was, now = before.properties(VERTEX), after.properties(VERTEX)
    is_known = codes < before.statistics.domains[VERTEX]
    rows = pa.array(np.cumsum(is_known) - 1, mask=~is_known)
    values = {name: values_of(was, name, codes[is_known]).take(rows) for name in was}
    return ReplacedProperties(codes, values, {name: values_of(now, name, codes) for name in now})


def replaced_codes(
    view: ReplacedView, index: Index, replaced: ReplacedProperties | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the vertices of a view that satisfied its conditions before an epoch, and those that do after it."""
    if replaced is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    codes, before, after = replaced.codes, replaced.before, replaced.after
    held, holds = (_holds(view, index, codes, values) for values in (before, after))
    if held is None or holds is None:
        return codes, codes
    differs = np.zeros(len(codes), np.bool_)
    for name in view.shown:
        differs |= ~same_values(before[name], after[name])
    return codes[held & (~holds | differs)], codes[holds & (~held | differs)]


def same_values(one: pa.Array, other: pa.Array) -> Mask:
    """Tell for each row whether two columns have the same value; NULL and NaN are values like any other."""
    both = pa.concat_arrays([one, other]).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    return np.asarray(both[: len(one)] == both[len(one) :])


def _holds(view: ReplacedView, index: Index, codes: NDArray[np.int64], values: Mapping[str, pa.Array]) -> Mask | None:
    """Tell for each vertex whether its properties satisfy the conditions; None if that cannot be decided by arrays."""
    dictionary = index.dictionaries[VERTEX]

    def column(term: Term) -> Column:
        is_property = isinstance(term, Property) and not index.statistics.is_id(VERTEX, term.name)
        return pa.chunked_array([values[term.name] if is_property and isinstance(term, Property) else dictionary.decode(codes)])

    mine = [condition.led_by(THIS) if isinstance(condition, Comparison) else condition for condition in view.conditions]
    found = constrain(THIS, (), mine, order=(THIS,), dictionary=lambda: dictionary, columns=column, dialect=view.dialect)
    if found.row_filters:  # what would be an error for one of them is left to whoever asks
        return None
    rows, nothing = np.arange(len(codes)), np.empty((0, len(codes)), np.int64)
    holds = np.full(len(codes), not found.bounds.empty)
    for each in found.filters:
        holds &= each.allows(rows, nothing)
    return holds
