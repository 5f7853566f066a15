"""Integers that become doubles: a property of edges that was whole numbers meets one that is not.

The index is written anew with the wider column, by a compaction, which is a commit of its own before that of the epoch. It
changes no number: a column with an integer that no double is equal to is never widened. So a process that is killed between
the two commits leaves the same graph, and the epoch is applied to it as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.index.directory import Index
from bigjoin.index.statistics import statistics_of
from bigjoin.query.statistics import Statistics

DOUBLE = str(pa.float64())


def inexact_value(index: Index, relation: str, name: str) -> int | None:
    """Return an integer among a relation's properties that no double is equal to, if there is one."""
    rows = index.manifest.relations[_in_step(index, relation)[0]].rows  # which has the values of all that are in step
    assert rows is not None
    for chunk in index.properties(rows.domains[2])[name].chunks:
        whole = pc.drop_null(chunk).cast(pa.int64()).to_numpy()
        back = whole.astype(np.float64)
        is_back = back < 2.0**63  # the largest integers become this, which is none of them
        is_back[is_back] = back[is_back].astype(np.int64) == whole[is_back]
        if not is_back.all():
            return int(whole[~is_back][0])
    return None


def widened_types(index: Index, wider: Mapping[str, Collection[str]]) -> dict[str, dict[str, str]]:
    """Return the types that properties get, by domain, if some of them, by their relation, become doubles."""
    found: dict[str, dict[str, str]] = {}
    for relation, names in wider.items():
        for mine in _in_step(index, relation):
            rows = index.manifest.relations[mine].rows
            assert rows is not None
            domain = rows.domains[2]  # relations may share one
            known = found.get(domain, index.manifest.domains[domain].properties)
            found[domain] = {**known, **{name: DOUBLE for name in names if name in known}}
    return found


def _in_step(index: Index, relation: str) -> list[str]:
    """Return the relations whose rows are also those of a relation: all edges and those of each type, or it alone."""
    types = {name: entry.type_of.relation for name, entry in index.manifest.relations.items() if entry.type_of is not None}
    whole = types.get(relation, relation)
    return [whole, *(name for name, of in types.items() if of == whole)]


def with_types(index: Index, types: Mapping[str, Mapping[str, str]]) -> Statistics:
    """Return the statistics of an index whose properties had other types."""
    domains = {name: replace(index.manifest.domains[name], properties=properties) for name, properties in types.items()}
    return statistics_of(replace(index.manifest, domains={**index.manifest.domains, **domains}))
