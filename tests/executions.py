"""Run a plan along every path of execution: on batches, by generated loops, and on a cluster in one process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import product
from unittest import mock

import numpy as np

from bigjoin.compiled import loops
from bigjoin.compiled.loops import Counting, Listing
from bigjoin.compiled.loops_or_batches import as_loops
from bigjoin.index.directory import Index
from bigjoin.joins.bind import BoundPlan, ResultColumn, result_columns
from bigjoin.joins.blocks import Proposals
from bigjoin.joins.dataflow_primitive import WORTH_COUNTING
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.seeds import equal_ranges
from bigjoin.planner import count_plan, factorized_plan
from bigjoin.query.nest import CountPlan, Nest, nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.terms import Constant, Property
from tests.dataflow import Balanced, Simulated


def plain(query: Query) -> tuple:
    """The query as the oracles take it, without the properties of its head."""

    def side(operand):
        if isinstance(operand, Property):
            return ("property", operand.attribute, operand.name)
        return ("const", operand.value) if isinstance(operand, Constant) else operand

    atoms = [(atom.relation, atom.attributes, atom.negated) for atom in query.atoms]
    filters = [(side(f.left), f.op, side(f.right)) for f in query.filters]
    return tuple(term for term in query.head if isinstance(term, str)), atoms, filters


def on_batches(bound: BoundPlan, *, batch_size: int, parts: int) -> list[tuple]:
    """The rows on batches of B' proposals, with their count found once more without listing them."""
    rows: list[tuple] = []
    ranges = equal_ranges(bound, parts)
    for batch in GenericJoin(bound, counting=False, batch_size=batch_size).matches(ranges):
        assert 0 < batch.shape[1] <= batch_size
        rows += decoded(bound.columns, batch)
    counting = GenericJoin(bound, counting=True, batch_size=batch_size)
    with flattening_at_most(batch_size):
        assert counting.count(ranges) == len(rows)
    assert counting.tally.prefixes[-1] == len(rows)
    assert counting.peak <= 2 * batch_size
    return rows


def decoded(columns: Sequence[ResultColumn], matches: np.ndarray) -> list[tuple]:
    """The rows of matches in codes; those of an empty head are empty."""
    found = [column.decode(matches).to_pylist() for column in columns]
    return list(zip(*found, strict=True)) if found else [()] * matches.shape[1]


def locally(bound: BoundPlan, index: Index, *, batch_size: int, parts: int, every: bool = False) -> list[tuple]:
    """The rows by the join alone, with the counts checked against them: on batches, and by loops in two ways."""
    rows = on_batches(bound, batch_size=batch_size, parts=parts)
    assert counted(bound.plan, index, parts=parts) == (len(rows), len(rows))
    assert sorted(map(repr, listed(bound.plan, index, size=batch_size, parts=parts))) == sorted(map(repr, rows))  # NaN
    spread(bound, index, len(rows), batch_size=batch_size, every=every)
    return rows


def spread(bound: BoundPlan, index: Index, count: int, *, batch_size: int, every: bool) -> None:
    """Check the strategies that work in rounds (every one, or one of them), on a cluster in this process."""
    ranges = equal_ranges(bound, 1)
    batches = GenericJoin(bound, counting=False).matches(ranges)
    wanted = sorted(row for batch in batches for row in zip(*batch.tolist(), strict=True))
    assert len(wanted) == count
    workers, tasks = [(1, 1), (2, 2), (7, 3), (64, 4)][count % 4]
    options = {"workers": workers, "tasks": tasks, "batch_size": batch_size}
    strategies = [partitioned, heavy_light, balanced]
    every = every and not os.environ.get("BIGJOIN_NESTED")  # without the JIT, one of them takes long enough
    chosen = strategies if every else [strategies[(count // 4 + len(bound.steps) + batch_size) % 3]]
    with tempfile.TemporaryDirectory() as folder:
        for strategy in chosen:
            strategy(bound.plan, index, folder, options, wanted)


def partitioned(plan: Plan, index: Index, folder: str, options: dict, wanted: list[tuple]) -> None:
    options = {**options, "enough": (0, 2, WORTH_COUNTING)[len(wanted) % 3]}
    counting = Simulated(plan, index, folder, **options).run()
    assert counting.count == len(wanted)
    if not any(counting.itinerary.checks):
        assert counting.sent <= counting.most()
    assert Simulated(plan, index, folder, **options, counting=False).run().rows() == wanted


def heavy_light(plan: Plan, index: Index, folder: str, options: dict, wanted: list[tuple]) -> None:
    options = {**options, "enough": (0, 2, WORTH_COUNTING)[len(wanted) % 3], "spreading": len(wanted) % 5}
    if len(wanted) % 2:
        assert Simulated(plan, index, folder, **options).run().count == len(wanted)
    else:
        assert Simulated(plan, index, folder, **options, counting=False).run().rows() == wanted


def balanced(plan: Plan, index: Index, folder: str, options: dict, wanted: list[tuple]) -> None:
    options = {**options, "workers": min(options["workers"], 11)}
    assert Balanced(plan, index, folder, **options).run().count == len(wanted)
    assert Balanced(plan, index, folder, **options, counting=False).run().rows() == wanted


def listed(chosen: Plan, index: Index, *, size: int, parts: int) -> list[tuple]:
    """The rows of a plan by loops, at most `size` at a time."""
    return _listed(nest_of(chosen), chosen.query, index, size, parts, factorized=False)


def factorized(query: Query, index: Index, *, size: int = 1000, parts: int = 1) -> list[tuple]:
    """The rows by loops with tails, each row's lists multiplied out."""
    return _listed(factorized_plan(query, index.statistics), query, index, size, parts, factorized=True)


def _listed(nest: Nest, query: Query, index: Index, size: int, parts: int, *, factorized: bool) -> list[tuple]:
    found = []
    with mock.patch.object(loops, "load", interpreted):
        listing = Listing(nest, query, index, factorized=factorized)
        for rows in listing.rows(listing.ranges(parts), size):
            assert 0 < rows.prefixes.shape[1] <= size
            tails = [np.split(codes, np.cumsum(lengths)[:-1]) for lengths, codes in rows.tails]
            for i, prefix in enumerate(rows.prefixes.T.tolist()):
                assert all(len(tail[i]) for tail in tails)
                found += [(*prefix, *ends) for ends in product(*(tail[i].tolist() for tail in tails))]
    matches = np.array(found, np.uint32).reshape(-1, len(nest.attributes)).T
    return decoded(result_columns(query, nest.attributes, index), matches)


@contextmanager
def flattening_at_most(batch_size: int):
    """Fail where a step writes more prefixes than B', also one that only counts."""

    def flattened(block):
        assert block.tuples <= batch_size
        return original(block)

    original = Proposals.flattened
    with mock.patch.object(Proposals, "flattened", flattened):
        yield


def counted(chosen: Plan, index: Index, *, parts: int = 1) -> tuple[int, int]:
    """The count by loops: by those of a plan, and by the cheapest nests."""
    return total(as_loops(chosen), index, parts), total(count_plan(chosen.query, index.statistics), index, parts)


def interpreted(source: str):
    """The generated function as plain Python, which need not be compiled; that it compiles is seen where Spark runs it."""
    names: dict = {}
    exec(source.replace("@kernel", ""), names)
    return names["run"]


def total(plan: CountPlan, index: Index, parts: int = 1) -> int:
    found = 0
    with mock.patch.object(loops, "load", interpreted):
        for term in plan.terms:
            counting = Counting(term, plan.query, index)
            found += term.times * counting.count(counting.ranges(parts))
    assert found % plan.divisor == 0
    return found // plan.divisor
