"""The ways in which a case can be answered: each takes a question and a spelling, and gives rows in the order of the head."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa

from bigjoin.compiled.loops import Counting, Listing
from bigjoin.index.directory import Index
from bigjoin.indexing import build_index
from bigjoin.join import blocks, compiled
from bigjoin.join.bind import BoundPlan, bind, result_columns
from bigjoin.join.generic_join import GenericJoin
from bigjoin.join.operators import WORTH_COUNTING
from bigjoin.join.seeds import equal_ranges
from bigjoin.languages import parse
from bigjoin.planner import count_plan, factorized_plan, plan
from bigjoin.query.nest import CountPlan, Nest, nest_of
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.terms import Constant, Property
from tests.case_file import Question
from tests.dataflow import Balanced, Simulated
from tests.oracles import duckdb, naive


def parsed(question: Question, spelling: str) -> Query:
    return parse(spelling, where=question.where, **question.flags)


def plain(query: Query) -> tuple:
    """The query as the oracles take it, without the properties of its head."""

    def side(operand):
        if isinstance(operand, Property):
            return ("property", operand.attribute, operand.name)
        return ("const", operand.value) if isinstance(operand, Constant) else operand

    atoms = [(atom.relation, atom.attributes, atom.negated) for atom in query.atoms]
    filters = [(side(f.left), f.op, side(f.right)) for f in query.filters]
    return tuple(term for term in query.head if isinstance(term, str)), atoms, filters


def edges_of(question: Question) -> set[tuple]:
    return set(question.edges) if question.directed else naive.undirected(question.edges)


def by_naive(question: Question, spelling: str) -> list[tuple]:
    flags = {flag: value for flag, value in question.flags.items() if flag != "cross_product"}
    relations = {"edge": edges_of(question)}
    return naive.matches(relations, *plain(parsed(question, spelling)), **flags, symmetric=not question.directed)


def by_duckdb(question: Question, spelling: str) -> list[tuple]:
    query = parsed(question, spelling)
    distinct, induced = query.injective, query.induced
    relations = {"edge": edges_of(question)}
    return duckdb.matches(relations, *plain(query), distinct=distinct, induced=induced, symmetric=not question.directed)


def index_of(question: Question, folder: Path) -> Index:
    edges = pa.table({name: [edge[i] for edge in question.edges] for i, name in enumerate(("src", "dst"))})
    return build_index(edges, folder / "index", directed=question.directed)


def locally(bound: BoundPlan, index: Index, *, batch_size: int, parts: int, every: bool = False) -> list[tuple]:
    """The rows by the join alone, with the counts checked against them: on batches, and by loops in two ways."""
    rows = []
    ranges = equal_ranges(bound, parts)
    for batch in GenericJoin(bound, counting=False, batch_size=batch_size).matches(ranges):
        assert 0 < batch.shape[1] <= batch_size
        columns = [output.decode(batch).to_pylist() for output in bound.columns]
        rows += zip(*columns, strict=True)
    counting = GenericJoin(bound, counting=True, batch_size=batch_size)
    with flattening_at_most(batch_size):
        assert counting.count(ranges) == len(rows)
    assert counting.tally.prefixes[-1] == len(rows)
    assert counting.peak <= 2 * batch_size
    assert counted(bound.plan, index, parts=parts) == (len(rows), len(rows))
    assert sorted(map(repr, listed(bound.plan, index, size=batch_size, parts=parts))) == sorted(map(repr, rows))  # NaN
    spread(bound, index, len(rows), batch_size=batch_size, every=every)
    return rows


def spread(bound: BoundPlan, index: Index, count: int, *, batch_size: int, every: bool) -> None:
    """Check the strategies that work in rounds (every one, or one of them), on a cluster in this process."""
    ranges = equal_ranges(bound, 1)
    wanted = sorted(
        row for batch in GenericJoin(bound, counting=False).matches(ranges) for row in zip(*batch.tolist(), strict=True)
    )
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


def _listed(term: Nest, query: Query, index: Index, size: int, parts: int, *, factorized: bool) -> list[tuple]:
    found = []
    with mock.patch.object(compiled, "load", interpreted):
        listing = Listing(term, query, index, factorized=factorized)
        for rows in listing.rows(listing.ranges(parts), size):
            assert 0 < rows.prefixes.shape[1] <= size
            tails = [np.split(codes, np.cumsum(lengths)[:-1]) for lengths, codes in rows.tails]
            for i, prefix in enumerate(rows.prefixes.T.tolist()):
                assert all(len(tail[i]) for tail in tails)
                found += [(*prefix, *ends) for ends in product(*(tail[i].tolist() for tail in tails))]
    matches = np.array(found, np.uint32).reshape(-1, len(term.attributes)).T
    columns = [output.decode(matches).to_pylist() for output in result_columns(query, term.attributes, index)]
    return list(zip(*columns, strict=True))


@contextmanager
def flattening_at_most(batch_size: int):
    """Fail where a step writes more prefixes than B', also one that only counts."""

    def flattened(block):
        assert block.tuples <= batch_size
        return original(block)

    original = blocks.Proposals.flattened
    with mock.patch.object(blocks.Proposals, "flattened", flattened):
        yield


def local(question: Question, spelling: str, index: Index, *, batch_size: int = 1 << 18, parts: int = 1) -> list[tuple]:
    bound = bind(plan(parsed(question, spelling), index.statistics), index)
    return locally(bound, index, batch_size=batch_size, parts=parts, every=True)


def counted(chosen: Plan, index: Index, *, parts: int = 1) -> tuple[int, int]:
    """The count by loops: by those of a plan, and by the cheapest nests."""
    as_planned = CountPlan(chosen.query, (nest_of(chosen),))
    return total(as_planned, index, parts), total(count_plan(chosen.query, index.statistics), index, parts)


def interpreted(source: str):
    """The generated function as plain Python, which need not be compiled; that it compiles is seen where Spark runs it."""
    names: dict = {}
    exec(source.replace("@kernel", ""), names)
    return names["run"]


def total(plan: CountPlan, index: Index, parts: int = 1) -> int:
    found = 0
    with mock.patch.object(compiled, "load", interpreted):
        for term in plan.terms:
            counting = Counting(term, plan.query, index)
            found += term.times * counting.count(counting.ranges(parts))
    assert found % plan.divisor == 0
    return found // plan.divisor


def canonical(question: Question, rows: list[tuple], spelling: str) -> list[tuple]:
    """The rows sorted; for `unique`, each as the smallest of its class, so that representatives may differ."""
    query = parsed(question, spelling)
    if query.unique:
        group = naive.automorphisms(*plain(query), symmetric=not question.directed, induced=query.induced)
        rows = [min(tuple(row[i] for i in image) for image in group) for row in rows]
    return sorted(rows)
