"""Random graphs and queries against the brute-force oracle, and what must hold between one answer and another."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.languages import parse
from bigjoin.planner import count_plan, plan
from bigjoin.planner.agm import agm_bound
from bigjoin.planner.estimate import SizeEstimate
from tests.executions import factorized, locally, plain, total
from tests.oracles import duckdb, naive

NAMES = "abcdef"
OPERATORS = ("<", "<=", ">", ">=", "=", "!=")

thorough = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
brief = settings(thorough, max_examples=40)


@st.composite
def graphs(draw):
    """Edges with loops and duplicates; ids that are not dense, or text."""
    ids = draw(st.sampled_from([[-3, 0, 7, 12, 100], ["a", "B", "é", "zz", "10"], [1, 2]]))
    ends = st.sampled_from(ids)
    return draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=14)), ids


@st.composite
def rules(draw, ids, *, negation=True):
    """A connected rule of 1 to 6 attributes, with repeated atoms, loops, negated atoms and filters."""
    size = draw(st.integers(1, 6))
    names = NAMES[:size]
    pairs = []
    for i in range(1, size):
        pair = [names[i], names[draw(st.integers(0, i - 1))]]
        pairs.append(tuple(reversed(pair)) if draw(st.booleans()) else tuple(pair))
    any_pair = st.tuples(st.sampled_from(names), st.sampled_from(names))
    pairs += draw(st.lists(any_pair, min_size=0 if pairs else 1, max_size=3))
    body = [f"edge({a},{b})" for a, b in pairs]
    if negation:
        body += [f"not edge({a},{b})" for a, b in draw(st.lists(any_pair, max_size=1))]
    bound = sorted({a for pair in pairs for a in pair})
    constants = st.sampled_from(ids).map(lambda v: f'"{v}"' if isinstance(v, str) else str(v))
    comparison = st.tuples(st.sampled_from(bound), st.sampled_from(OPERATORS), st.one_of(st.sampled_from(bound), constants))
    body += [" ".join(c) for c in draw(st.lists(comparison, max_size=2))]
    return f"q({','.join(bound)}) := {', '.join(body)}"


@st.composite
def questions(draw):
    edges, ids = draw(graphs())
    text = draw(rules(ids))
    flags = draw(st.sampled_from([(), ("distinct",), ("unique",), ("induced",), ("unique", "induced")]))
    return edges, draw(st.booleans()), text, dict.fromkeys(flags, True)


def index_of(edges, directed, folder):
    table = pa.table({name: [edge[i] for edge in edges] for i, name in enumerate(("src", "dst"))})
    return build_index(table, Path(folder) / "index", directed=directed)


def ordered(query, rows, directed):
    """Rows up to the choice of a class's representative."""
    if query.unique:
        group = naive.automorphisms(*plain(query), symmetric=not directed, induced=query.induced)
        rows = [min(tuple(row[i] for i in image) for image in group) for row in rows]
    return sorted(rows)


@thorough
@given(questions(), st.sampled_from([1, 2, 5, 1000]), st.sampled_from([1, 3]))
def test_rows_are_those_of_the_definition(question, batch_size, parts):
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **flags)
    relations = {"edge": set(edges) if directed else naive.undirected(edges)}
    wanted = naive.matches(relations, *plain(query), **flags, symmetric=not directed)
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(edges, directed, folder)
        found = locally(bind(plan(query, index.statistics), index), index, batch_size=batch_size, parts=parts)
        assert len(set(found)) == len(found)
        assert ordered(query, found, directed) == sorted(wanted)
        rows = factorized(query, index, size=batch_size, parts=parts)
        assert len(set(rows)) == len(rows)
        assert ordered(query, rows, directed) == sorted(wanted)
        if not flags:
            assert len(found) <= agm_bound(query, index.statistics) + 1e-6


@brief
@given(questions())
def test_duckdb_agrees_with_the_definition(question):
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **{flag: on for flag, on in flags.items() if flag != "unique"})
    relations = {"edge": set(edges) if directed else naive.undirected(edges)}
    if not relations["edge"]:
        return
    options = {"induced": query.induced, "symmetric": not directed}
    found = duckdb.matches(relations, *plain(query), distinct=query.injective, **options)
    assert found == sorted(naive.matches(relations, *plain(query), distinct=query.injective, **options))


@brief
@given(questions(), st.randoms(use_true_random=False))
def test_every_attribute_order_gives_the_same_rows(question, random):
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **flags)
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(edges, directed, folder)
        wanted = locally(bind(plan(query, index.statistics), index), index, batch_size=1000, parts=1)
        for _ in range(3):
            order = tuple(random.sample(query.attributes, len(query.attributes)))
            found = locally(bind(plan(query, index.statistics, order=order), index), index, batch_size=1000, parts=1)
            assert ordered(query, found, directed) == ordered(query, wanted, directed)


@brief
@given(questions(), st.randoms(use_true_random=False))
def test_every_way_to_count_gives_the_same_number(question, random):
    """Estimates that are drawn at random make the planner choose nests that it would never choose."""
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **flags)
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(edges, directed, folder)
        wanted = total(count_plan(query, index.statistics), index)
        drawn = {name: lambda *_: random.choice([0.1, 1.0, 10.0, 1e4]) for name in ("_prefixes", "_reading", "_extensions")}
        for _ in range(3):
            with mock.patch.multiple(SizeEstimate, **drawn):
                strange = count_plan(query, index.statistics)
            assert total(strange, index, random.choice([1, 3])) == wanted, str(strange)


@brief
@given(questions())
def test_unique_times_automorphisms_is_distinct(question):
    edges, directed, text, flags = question
    flags = {flag: on for flag, on in flags.items() if flag == "induced"}
    with tempfile.TemporaryDirectory() as folder:
        index = index_of(edges, directed, folder)
        counts = {}
        for flag in ("distinct", "unique"):
            query = parse(text, cross_product=True, **flags, **{flag: True})
            counts[flag] = len(locally(bind(plan(query, index.statistics), index), index, batch_size=1000, parts=1))
        group = naive.automorphisms(*plain(query), symmetric=not directed, induced=query.induced)
        assert counts["unique"] * len(group) == counts["distinct"]
