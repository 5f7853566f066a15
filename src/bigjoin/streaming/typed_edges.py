"""Relations of typed edges are kept in step with the relation of all edges, of which they have the rows of one type.

A typed relation has row numbers of its own. But the rows of a pair have the same order in both relations, so the rows of a type
in one of them are, one by one, the rows in the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError
from bigjoin.index.changing import Moment
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import TypeEntry
from bigjoin.index.replaced_columns import values_of
from bigjoin.index.runs import Delta
from bigjoin.index.versions import Versions
from bigjoin.streaming.deltas import CodedUpdates, Integers, RelationDelta, changed_pairs, keys_of, rows_of
from bigjoin.streaming.row_changes import UpdatesOfTypes
from bigjoin.streaming.updates import RELATION_COLUMN, Fate


def types_of(index: Index) -> dict[str, TypeEntry]:
    """Return the relations of typed edges, each with whose rows it has."""
    return {name: entry.type_of for name, entry in index.manifest.relations.items() if entry.type_of is not None}


def as_updates_of_all(coded: CodedUpdates, types: Mapping[str, TypeEntry], source: str) -> CodedUpdates:
    """Return updates of typed relations as updates of the relation of all edges, with their type."""
    if not types or RELATION_COLUMN not in coded.properties.column_names:
        return coded
    names = coded.properties[RELATION_COLUMN].combine_chunks()
    if not pa.types.is_string(names.type):
        return coded
    table, of_types = coded.properties, coded.of_types
    for name, of in types.items():
        mine = pc.fill_null(pc.equal(names, name), False)
        if not pc.any(mine).as_py():
            continue
        known = table[of.column] if of.column in table.column_names else pa.chunked_array([pa.nulls(len(coded), pa.string())])
        known = known.combine_chunks().cast(pa.string())
        other = pc.and_(mine, pc.fill_null(pc.not_equal(known, name), False))
        if pc.any(other).as_py():
            row = int(np.flatnonzero(other.to_numpy(zero_copy_only=False))[0])
            said = f"whose {of.column!r} is {known[row].as_py()!r}: both say the type, so they have to agree"
            raise SourceError(f"{source} has a row of the relation {name!r} {said}")
        values = pc.if_else(mine, name, known)
        places = {column: at for at, column in enumerate(table.column_names)}
        if of.column in places:
            table = table.set_column(places[of.column], of.column, values)
        else:
            table = table.append_column(of.column, values)
        table = table.set_column(
            table.column_names.index(RELATION_COLUMN), RELATION_COLUMN, pc.if_else(mine, of.relation, names)
        )
        names = table[RELATION_COLUMN].combine_chunks()
        are_mine = np.asarray(mine.to_numpy(zero_copy_only=False), np.bool_)
        are_mine = are_mine if of_types is None else are_mine | of_types.are_mine
        of_types = UpdatesOfTypes(of.column, of.column in coded.properties.column_names, are_mine)
    return replace(coded, properties=table, of_types=of_types)


def typed_delta(index: Index, versions: Versions, name: str, of: TypeEntry, whole: RelationDelta) -> RelationDelta | None:
    """Return how a typed relation changes with the relation of all edges; None if it does not."""
    assert whole.rows is not None
    assert whole.properties is not None
    entry = index.manifest.relations[name].rows
    rows_of_all = index.manifest.relations[of.relation].rows
    assert entry is not None
    assert rows_of_all is not None
    column = index.properties(rows_of_all.domains[2])
    of_all, mine = (versions.order((relation, 3), (0, 1, 2)).trie(Moment.BEFORE) for relation in (of.relation, name))

    def has_type(values: pa.Array) -> NDArray[np.bool_]:
        return np.asarray(pc.fill_null(pc.equal(values.cast(pa.string()), name), False).to_numpy(zero_copy_only=False))

    deleted = np.compress(has_type(values_of(column, of.column, whole.rows.deleted[2])), whole.rows.deleted, axis=1)
    comes = has_type(whole.properties[of.column].combine_chunks())
    if not deleted.shape[1] and not comes.any():
        return None
    pairs = np.take(deleted[:2], np.unique(keys_of(deleted), return_index=True)[1], axis=1)
    which, rows = rows_of(of_all, pairs)
    same_type = has_type(values_of(column, of.column, rows))
    there, numbers = rows_of(mine, pairs)
    if not np.array_equal(which[same_type], there):
        raise index.damaged(f"the relation {name!r} does not have the rows of {of.relation!r} with its type")
    number_of = dict(zip(rows[same_type].tolist(), numbers.tolist(), strict=True))
    gone: Integers = np.array([number_of[row] for row in deleted[2].tolist()], np.int64)
    first = index.statistics.domains[entry.domains[2]]
    inserted = np.compress(comes, whole.rows.inserted, axis=1)
    inserted[2] = np.arange(first, first + inserted.shape[1])
    deleted = np.concatenate([deleted[:2], gone[None]])
    new = whole.properties.filter(pa.array(comes))
    return RelationDelta(Fate(), changed_pairs(mine, deleted, inserted), Delta(deleted, inserted), new)
