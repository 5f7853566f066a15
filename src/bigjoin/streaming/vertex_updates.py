"""Updates of vertices: which properties they replace, and which labels vertices get and lose by that.

A vertex is one row: its label and its properties, all of them NULL if nothing is known of it. An insertion gives it a row, a
deletion takes it away, and a replacement changes the columns that the table has. Edges are not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.index.dictionary import NO_CODE
from bigjoin.index.directory import VERTEX, Index
from bigjoin.index.replaced_columns import CODE, values_of
from bigjoin.index.runs import Delta
from bigjoin.ingest.columns import cast
from bigjoin.joins.replaced import same_values
from bigjoin.streaming.updates import DELETE, REPLACE, Fate, Updates

LABEL = "label"
"""The property that labels were made of before an index said so."""


@dataclass(frozen=True)
class VertexDelta:
    """How vertices change."""

    fate: Fate
    replaced: pa.Table | None
    """The vertices whose properties change, by code, with what they are then; None if there are none."""
    labels: Mapping[str, Delta]
    """By label: the vertices that lose it and those that get it."""


def vertex_delta(index: Index, codes: NDArray[np.int64], updates: Updates, source: str) -> VertexDelta:
    """Return what updates do to vertices; NO_CODE stands for ids that the graph does not have and does not get."""
    fate = Fate(updates=len(updates))
    known = codes != NO_CODE
    fate.absent += int((~known).sum())
    rows = np.flatnonzero(known)
    order = rows[np.argsort(codes[rows], kind="stable")]
    codes = codes[order]
    if not len(codes):
        return VertexDelta(fate, None, {})
    first = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    last = np.append(first[1:], len(codes)) - 1
    vertices, ops = codes[first], updates.ops[order]
    size = index.statistics.domains[VERTEX]
    is_new = vertices >= size
    before = _values_before(index, vertices, size)
    after = _after(before, _given(updates.properties.take(pa.array(order)), before, source), ops, first, last)
    changed = np.zeros(len(vertices), np.bool_)
    was_empty, is_empty = np.ones(len(vertices), np.bool_), np.ones(len(vertices), np.bool_)
    for name in before:
        changed |= ~same_values(before[name], after[name])
        was_empty &= before[name].is_null().to_numpy(zero_copy_only=False)
        is_empty &= after[name].is_null().to_numpy(zero_copy_only=False)
    fate.cancelled += len(codes) - len(vertices)
    inserted = is_new | (changed & was_empty)
    deleted = changed & is_empty & ~inserted
    same = ~(changed | is_new)
    fate.inserted += int(inserted.sum())
    fate.deleted += int(deleted.sum())
    fate.replaced += int((changed & ~inserted & ~deleted).sum())
    fate.absent += int((same & (ops[last] == DELETE)).sum())
    fate.present += int((same & (ops[last] != DELETE)).sum())
    labels = _labels(index, vertices, before, after)
    if not changed.any():
        return VertexDelta(fate, None, labels)
    at = pa.array(np.flatnonzero(changed))
    columns = {name: after[name].take(at) for name in after}
    return VertexDelta(fate, pa.table({CODE: pa.array(vertices[changed]), **columns}), labels)


def _values_before(index: Index, vertices: NDArray[np.int64], size: int) -> dict[str, pa.Array]:
    """Return the properties of vertices before an epoch, NULL for new ones."""
    columns, known = index.properties(VERTEX), vertices < size
    rows = pa.array(np.cumsum(known) - 1, mask=~known)
    return {name: values_of(columns, name, vertices[known]).take(rows) for name in columns}


def _given(table: pa.Table, before: Mapping[str, pa.Array], source: str) -> dict[str, pa.Array]:
    """Return the columns of updates that vertices have, with the types of their properties."""
    names = (name for name in before if name in table.column_names)
    return {name: cast(table[name].combine_chunks(), before[name].type, column=name, source=source) for name in names}


def _after(
    before: Mapping[str, pa.Array],
    given: Mapping[str, pa.Array],
    ops: NDArray[np.int8],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
) -> dict[str, pa.Array]:
    """Return the properties of vertices after an epoch, whose updates of each vertex lie between `first` and `last`.

    The last update decides. What the table has no column for is kept if all updates of a vertex are replacements.
    """
    starts_anew = np.add.reduceat((ops != REPLACE).astype(np.int64), first) > 0
    found = {}
    for name, values in before.items():
        if name in given:
            found[name] = given[name].take(pa.array(last, mask=ops[last] == DELETE))
        else:
            found[name] = values.take(pa.array(np.arange(len(values)), mask=starts_anew))
    return found


def _labels(
    index: Index, vertices: NDArray[np.int64], before: Mapping[str, pa.Array], after: Mapping[str, pa.Array]
) -> dict[str, Delta]:
    """Return which vertices lose each label, and which get it; a value that had no vertices is no label of this index."""
    relations = index.manifest.relations
    labels = [name for name, entry in relations.items() if entry.domains == (VERTEX,) and not entry.is_stored_result]
    if not labels:
        return {}
    column = index.manifest.domains[VERTEX].labels or next((name for name in before if name.lower() == LABEL), None)
    if column is None:
        raise SourceError(f"the index {index.path} does not say which property its labels are made of: build it again")
    had, has = (values[column].cast(pa.string()) for values in (before, after))
    found = {}
    for label in labels:
        was, is_now = (np.asarray(pc.fill_null(pc.equal(values, label), False)) for values in (had, has))
        if (was != is_now).any():
            found[label] = Delta(vertices[None, was & ~is_now], vertices[None, is_now & ~was])
    return found
