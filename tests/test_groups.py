"""Counts by groups: every plan gives the numbers of the definition, without Spark."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from dataclasses import replace
from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigjoin.compiled import group_loops, group_program, loops
from bigjoin.indexing import build_index
from bigjoin.languages import parse
from bigjoin.local.strategy import Ask
from bigjoin.local.threads import Local
from bigjoin.planner import group_plan, meaning
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.query.terms import Property, attribute_of
from tests.executions import interpreted
from tests.grouped import by_definition, by_plan
from tests.oracles import naive
from tests.questions import Question
from tests.test_properties import brief, index_of, questions, thorough


def drawn_keys(query, random) -> tuple[str, ...]:
    return tuple(random.sample(query.attributes, min(len(query.attributes), random.choice([1, 1, 1, 2, 2, 3]))))


@thorough
@given(questions(), st.randoms(use_true_random=False))
def test_groups_have_the_counts_of_the_definition(question, random):
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **flags)
    keys = drawn_keys(query, random)
    relations = {"edge": set(edges) if directed else naive.undirected(edges)}
    wanted = by_definition(query, keys, relations, directed=directed)
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(edges, directed, folder)
        (draft,) = meaning(query, index.statistics)
        plan = group_plan(draft, keys)
        with mock.patch.object(group_program, "MAX_ROWS_AT_ONCE", random.choice([1, 2, 1000])):
            assert by_plan(plan, index, parts=random.choice([1, 3]), tasks=random.choice([1, 2])) == wanted, str(plan)


@brief
@given(questions(), st.randoms(use_true_random=False))
def test_any_choice_of_the_planner_gives_the_same_groups(question, random):
    """Estimates that are drawn at random make the planner choose nests that it would never choose."""
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **flags)
    keys = drawn_keys(query, random)
    relations = {"edge": set(edges) if directed else naive.undirected(edges)}
    wanted = by_definition(query, keys, relations, directed=directed)
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(edges, directed, folder)
        (draft,) = meaning(query, index.statistics)
        drawn = {name: lambda *_: random.choice([0.1, 1.0, 10.0, 1e4]) for name in ("_prefixes", "_reading", "_extensions")}
        for _ in range(3):
            with mock.patch.multiple(SizeEstimate, **drawn):
                plan = group_plan(draft, keys)
            with mock.patch.object(group_program, "MAX_ROWS_AT_ONCE", random.choice([1, 2, 1000])):
                assert by_plan(plan, index, parts=random.choice([1, 3])) == wanted, str(plan)


@brief
@given(questions(), st.randoms(use_true_random=False))
def test_counts_beyond_64_bits_are_put_together_from_remainders(question, random):
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **flags)
    keys = drawn_keys(query, random)
    relations = {"edge": set(edges) if directed else naive.undirected(edges)}
    wanted = by_definition(query, keys, relations, directed=directed)
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(edges, directed, folder)
        (draft,) = meaning(query, index.statistics)
        plan = group_plan(draft, keys)
        with mock.patch.object(group_loops, "MAX_INT64_COUNT", 1), mock.patch.object(group_program, "MAX_INT64_COUNT", 1):
            assert by_plan(plan, index, parts=random.choice([1, 3])) == wanted, str(plan)


def test_groups_are_counted_in_this_process_too(tmp_path):
    """By an attribute, by several, and by a property, whose values many vertices share."""
    rng = np.random.default_rng(5)
    edges = [tuple(pair) for pair in rng.integers(0, 20, (60, 2)).tolist()]
    people = pa.table({"id": list(range(20)), "city": [None if i % 3 == 0 else f"c{i % 2}" for i in range(20)]})
    table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
    index = build_index(table, tmp_path / "index", vertices=people, directed=False)
    relations, cities = {"edge": naive.undirected(edges)}, dict(zip(*people.to_pydict().values(), strict=True))
    query = parse("triangle", unique=True)
    for head in (("a1",), ("a2", "a1"), (Property("a1", "city"),)):
        keys = tuple(attribute_of(term) for term in head)
        (draft,) = meaning(replace(query, head=head), index.statistics)
        with mock.patch.object(loops, "load", interpreted):
            found, _ = Local().count_by(Ask(replace(draft, keys=keys), index))
        wanted = by_definition(query, keys, relations, directed=False)
        if isinstance(head[0], Property):
            by_city = Counter()
            for (vertex,), count in wanted.items():
                by_city[(cities[vertex],)] += count
            wanted = by_city
        rows = list(zip(*found.to_pydict().values(), strict=True))
        assert len(rows) == len(wanted)
        assert Counter({row[:-1]: row[-1] for row in rows}) == wanted


@pytest.mark.parametrize("seed", range(60))
def test_edge_ids_constants_and_shards(seed, tmp_path):
    """Rules about rows, grouped by vertices and by ids of edges, over indices of one shard or several."""
    question, random = Question(3000 + seed), Random(seed)
    query = question.query
    index = build_index(question.table(), tmp_path / "index", directed=question.directed, shards=random.choice([1, 2, 3]))
    keys = tuple(random.sample(query.head, min(len(query.head), random.choice([1, 2, 2, 3]))))
    (draft,) = meaning(query, index.statistics)
    drawn = {name: lambda *_: random.choice([0.1, 1.0, 10.0, 1e4]) for name in ("_prefixes", "_reading", "_extensions")}
    wanted = question.grouped(keys)
    for patch in (contextlib.nullcontext(), mock.patch.multiple(SizeEstimate, **drawn)):
        with patch:
            plan = group_plan(draft, keys)
        if plan is None:  # nothing leads from edge ids to the rest
            assert any(draft.domain(key) != "vertex" for key in keys)
            continue
        with mock.patch.object(group_program, "MAX_ROWS_AT_ONCE", random.choice([1, 3, 1000])):
            assert by_plan(plan, index, parts=random.choice([1, 4])) == wanted, f"{question.text} {question.flags}\n{plan}"


@pytest.mark.parametrize("name", ["oregon1_010331", pytest.param("facebook_combined", marks=pytest.mark.slow)])
def test_groups_of_published_graphs_add_up_to_published_counts(name, shared_data, truth, tmp_path):
    index = build_index(shared_data / "static" / f"{name}.txt", tmp_path / "index", directed=False)
    known = truth["graphs"][name]["undirected_unique"]
    for query, corners in (("triangle", 3), ("4-clique", 4), ("diamond", 4)):
        for keys, orders in ((("a1",), corners), (("a1", "a2"), 2 * (6 if query == "4-clique" else corners))):
            (draft,) = meaning(replace(parse(query, unique=True), head=keys), index.statistics)
            found, _ = Local().count_by(Ask(replace(draft, keys=keys), index))
            if query in known:
                assert pc.sum(found["count"]).as_py() == orders * known[query]["count"]


def test_triangles_of_vertices_are_those_of_networkit(shared_data, tmp_path):
    networkit = pytest.importorskip("networkit")
    index = build_index(shared_data / "static" / "facebook_combined.txt", tmp_path / "index", directed=False)
    (draft,) = meaning(replace(parse("triangle", unique=True), head=("a1",)), index.statistics)
    table, _ = Local().count_by(Ask(replace(draft, keys=("a1",)), index))
    pairs = np.loadtxt(shared_data / "static" / "facebook_combined.txt", dtype=np.int64)
    graph = networkit.GraphFromCoo((pairs[:, 0].copy(), pairs[:, 1].copy()), n=int(pairs.max()) + 1, directed=False)
    graph.removeMultiEdges()
    graph.removeSelfLoops()
    scores = np.array(networkit.centrality.LocalClusteringCoefficient(graph, False).run().scores())
    degrees = np.array([graph.degree(v) for v in range(graph.numberOfNodes())])
    local = np.rint(scores * degrees * (degrees - 1) / 2).astype(np.int64)
    found = np.zeros_like(local)
    found[table["a1"].to_numpy()] = table["count"].to_numpy()
    assert (found == local).all()
