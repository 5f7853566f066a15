"""Count by groups along every path of execution, and by definition."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np

from bigjoin.compiled import loops
from bigjoin.compiled.group_program import CodeCountProgram, GroupRowProgram, divided, program_of
from bigjoin.index.directory import Index
from bigjoin.planner import meaning
from bigjoin.query.groups import GroupPlan
from bigjoin.query.query import Query
from tests.executions import interpreted, plain
from tests.oracles import naive


def by_definition(query: Query, keys: tuple[str, ...], relations: dict, *, directed: bool) -> Counter:
    """The matches of each group: for `unique`, the distinct ones divided by the symmetries that fix the keys."""
    head, atoms, filters = plain(query)
    flags = {"distinct": query.injective, "induced": query.induced}
    rows = naive.matches(relations, head, atoms, filters, **flags, symmetric=not directed)
    places = [head.index(key) for key in keys]
    counts = Counter(tuple(row[i] for i in places) for row in rows)
    if query.unique:
        group = naive.automorphisms(head, atoms, filters, symmetric=not directed, induced=query.induced)
        fixing = sum(all(image[i] == i for i in places) for image in group)
        assert not any(count % fixing for count in counts.values())
        counts = Counter({values: count // fixing for values, count in counts.items()})
    return counts


def by_plan(plan: GroupPlan, index: Index, *, parts: int = 1, tasks: int = 1) -> Counter:
    """The counts of a plan by generated loops, as plain Python."""
    found: Counter = Counter()
    (draft,) = meaning(plan.query, index.statistics)
    ids = [index.dictionaries[draft.domain(key)] for key in plan.keys]
    with mock.patch.object(loops, "load", interpreted):
        program = program_of(plan, index)
        if isinstance(program, CodeCountProgram):
            pieces = program.pieces(index, parts)
            counts = divided(sum(program.count(index, pieces[task::tasks]) for task in range(tasks)), plan.divisor)
            codes = np.flatnonzero(counts).astype(np.uint32)
            for value, count in zip(ids[0].decode(codes).to_pylist(), counts[codes].tolist(), strict=True):
                found[(value,)] = count
            return found
        assert isinstance(program, GroupRowProgram)
        for rows in program.rows(index, program.pieces(index, parts)):
            values = [dictionary.decode(codes).to_pylist() for dictionary, codes in zip(ids, rows.keys, strict=True)]
            for *key, count in zip(*values, rows.counts.tolist(), strict=True):
                assert tuple(key) not in found, "a group has two rows"
                found[tuple(key)] = count
    return found
