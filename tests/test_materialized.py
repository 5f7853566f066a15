"""Materialised subqueries: stored as relations, read where they cover atoms, and never older than the edges beside them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bigjoin as bj
from bigjoin.compiled import loops
from bigjoin.errors import IndexFormatError, QueryError
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_turn
from bigjoin.index.writer import vacuum, verify
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.languages import parse
from bigjoin.materialize import materialize
from bigjoin.planner import count_plan, plan
from tests.executions import factorized, interpreted, locally, plain
from tests.oracles import naive
from tests.test_cli import refused, run_here
from tests.test_properties import index_of, ordered, questions, thorough

materializing = sys.modules["bigjoin.materialize"]

DEFINITIONS = (
    "triangle",
    "2-path",
    "2-cycle",
    "chordal-4-cycle",
    "3-star",
    "bi-fan",
    "m(a, b) := edge(a, b)",
    "m(a) := edge(a, a)",
    "m(c, a, b) := edge(a, b), edge(c, b), edge(c, c)",
    "m(b, a) := edge(a, b), edge(b, a), edge(a, a)",
)
"""Definitions that plans can make use of: some with symmetries, some where attributes are not joined to each other."""

OTHERS = (
    ("m(a, c) := edge(a, b), edge(b, c)", {}),
    ("m(a, b, c) := edge(a, b), edge(b, c), not edge(a, c)", {}),
    ("m(a, b, c) := edge(a, b), edge(b, c), a != c", {}),
    ("triangle", {"distinct": True}),
    ("2-path", {"unique": True}),
)
"""Definitions that only a query which names the relation can make use of."""


def stored(index, name, text, part=1000, **flags):
    """The index with a materialised relation, made without compiling anything."""
    with mock.patch.object(loops, "load", interpreted), mock.patch.object(materializing, "SEED_RANGES", 3):
        return materialize(index, {name: parse(text, **flags)}, in_turn, part=part)


@settings(thorough, max_examples=30)
@given(questions(), st.lists(st.sampled_from(DEFINITIONS), min_size=1, max_size=2, unique=True), st.sampled_from([1, 3]))
def test_rows_are_the_same_whatever_is_materialised(question, definitions, shards):
    edges, directed, text, flags = question
    query = parse(text, cross_product=True, **flags)
    relations = {"edge": set(edges) if directed else naive.undirected(edges)}
    wanted = sorted(naive.matches(relations, *plain(query), **flags, symmetric=not directed))
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(index_of(edges, directed, folder).path, Path(folder) / "dealt", directed=directed, shards=shards)
        for number, definition in enumerate(definitions):
            index = stored(index, f"m{number}", definition, part=5)
        verify(index)
        found = locally(bind(plan(query, index.statistics), index), index, batch_size=5, parts=2)
        assert len(set(found)) == len(found)
        assert ordered(query, found, directed) == wanted
        assert ordered(query, factorized(query, index, size=5, parts=2), directed) == wanted


@settings(thorough, max_examples=45)
@given(questions(), st.one_of(st.sampled_from([(text, {}) for text in DEFINITIONS]), st.sampled_from(OTHERS)))
def test_a_relation_holds_the_rows_of_its_query(question, definition):
    edges, directed, *_ = question
    text, flags = definition
    query = parse(text, **flags)
    relations = {"edge": set(edges) if directed else naive.undirected(edges)}
    _, atoms, filters = plain(query)
    rows = naive.matches(relations, query.attributes, atoms, filters, **flags, symmetric=not directed)
    wanted = {tuple(row[query.attributes.index(a)] for a in query.head) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        index = stored(index_of(edges, directed, folder), "m", text, **flags)
        relation = index.statistics.relations["m"]
        for order in relation.lists:
            trie = index.trie("m", order)
            columns = trie.tuples(np.arange(len(trie)))
            decoded = [index.dictionaries["vertex"].decode(columns[order.index(c)]).to_pylist() for c in range(len(order))]
            rows = set(zip(*decoded, strict=True))
            assert len(rows) == relation.tuples == len(trie)
            if query.unique:
                assert ordered(query, rows, directed) == ordered(query, wanted, directed)
            else:
                assert rows == wanted
        asked = parse(f"q({', '.join(query.head)}) := m({', '.join(query.head)})")
        found = locally(bind(plan(asked, index.statistics), index), index, batch_size=5, parts=1)
        assert set(found) == rows
        assert len(found) == len(rows)


@pytest.fixture
def clustered(tmp_path):
    """Three cliques on a ring: 8 vertices each, the last of one joined to the first of the next."""
    edges = [(8 * k + i, 8 * k + j) for k in range(3) for i in range(8) for j in range(i)]
    edges += [(8 * k + 7, (8 * k + 8) % 24) for k in range(3)]
    return build_index(
        pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]}), tmp_path / "index", directed=False
    )


def test_the_paper_s_rewriting(clustered):
    index = stored(clustered, "tri", "triangle")
    text = str(plan(parse("4-clique", unique=True), index.statistics))
    assert text == (
        "1. p1(a1, a2, a3) := tri(a1, a2, a3), code(a2) < code(a1), code(a3) < code(a2)\n"
        "2. p2(a1, a2, a3, a4) := p1(a1, a2, a3), tri(a1, a2, a4), tri(a1, a3, a4), code(a4) < code(a3)"
    )
    for name, many in (("5-clique", 6), ("house", 4)):
        atoms = {str(e.atom) for s in plan(parse(name, unique=True), index.statistics).steps for e in s.extenders}
        assert all(atom.startswith("tri(") for atom in atoms)
        assert len(atoms) + 1 == many
    assert "tri(a1, a2, a3)" in str(count_plan(parse("triangle", unique=True), index.statistics))


def test_explain_shows_the_rewriting_and_what_is_stored(clustered):
    graph = bj.Graph.open(stored(clustered, "tri", "triangle").path)
    said = graph.explain("4-clique", unique=True)
    assert "rewritten: 4-clique(a1, a2, a3, a4) := tri(a1, a2, a3), tri(a1, a2, a4), tri(a1, a3, a4)" in said
    assert "with the stored tri(a1, a2, a3) := edge(a1, a2), edge(a1, a3), edge(a2, a3): 1,008 tuples" in said
    assert "rewritten" not in graph.explain("diamond")


def test_what_saves_nothing_is_not_read(clustered):
    index = stored(clustered, "hop", "2-path")
    assert "hop" not in str(count_plan(parse("4-path"), index.statistics))


def test_an_atom_of_a_materialised_relation_means_its_definition(clustered):
    index = stored(clustered, "tri", "triangle")
    query = parse("q(a, b, c) := tri(a, b, c)", unique=True)
    assert len(locally(bind(plan(query, index.statistics), index), index, batch_size=100, parts=1)) == 3 * 56
    without = parse("q(a, b) := edge(a, b), not tri(a, b, _)")
    assert len(locally(bind(plan(without, index.statistics), index), index, batch_size=100, parts=1)) == 6
    for text in ("q(a, b) := edge(a, b), not tri(a, b, _)", "q(a, b) := edge(a, b), not tri(b, _, a)"):
        once = bind(plan(parse(text, unique=True), index.statistics), index)
        assert len(locally(once, index, batch_size=100, parts=1)) == 3
    paths = parse("q(a, b, c) := edge(a, b), edge(b, c), not tri(c, a, b)", unique=True)
    ways = len(locally(bind(plan(paths, index.statistics), index), index, batch_size=100, parts=1))
    assert ways == len({(min(a, c), b, max(a, c)) for a, b, c in open_paths(index)})


def open_paths(index):
    """Paths of three vertices whose ends are not joined."""
    trie = index.trie("edge", (0, 1))
    edges = set(zip(*(column.tolist() for column in trie.tuples(np.arange(len(trie)))), strict=True))
    return [(a, b, d) for a, b in edges for c, d in edges if b == c and a != d and (a, d) not in edges]


def test_a_relation_that_is_not_plain_leads_on_from_any_column(clustered):
    index = stored(clustered, "m", "m(a, b, c) := edge(a, b), edge(b, c), a != c")
    steps = plan(parse("q(a, b, c, d, e) := m(a, b, c), m(d, e, c)"), index.statistics).steps
    assert all(any(e.key for e in step.extenders) for step in steps)


def test_a_view_of_a_stored_relation_is_read_from_it(tmp_path):
    edges = pa.table({"src": [1, 1, 2, 3], "dst": [2, 3, 3, 4]})
    index = stored(build_index(edges, tmp_path / "directed"), "tri", "triangle")
    for text in ("q(a, b) := edge(a, b), not tri(a, b, _)", "q(a, b, c) := edge(c, b), edge(b, a), not tri(a, b, _)"):
        bind(plan(parse(text), index.statistics), index)
        assert not any(name == "tri" and view is None for name, view, _ in index._tries)  # to make another order


def test_the_text_of_a_constant_comes_back():
    query = parse("q(a) := edge(a, b)", where=r"""a = 'it\'s a \\ tab	here'""")
    assert parse(str(query)) == query


def test_a_version_that_was_opened_stays_as_it_is(clustered):
    index = stored(clustered, "tri", "triangle")
    assert "tri" not in clustered.statistics.relations
    assert Index.open(clustered.path).manifest == index.manifest
    assert verify(clustered) == clustered.bytes
    with pytest.raises(IndexFormatError, match="has changed since it was opened"):
        stored(clustered, "tri", "triangle")
    again = stored(index, "tri", "2-path")
    assert again.statistics.relations["tri"].tuples != index.statistics.relations["tri"].tuples
    assert vacuum(clustered.path) > 0
    assert verify(again) == again.bytes


def test_a_copy_finds_what_was_stored_again(clustered, tmp_path):
    index = stored(stored(clustered, "tri", "triangle"), "m", "m(a, b) := edge(a, b), a < 5", distinct=True)
    with mock.patch.object(loops, "load", interpreted):
        dealt = build_index(index.path, tmp_path / "dealt", shards=3)
    tuples = {name: relation.tuples for name, relation in index.statistics.relations.items()}
    assert {name: relation.tuples for name, relation in dealt.statistics.relations.items()} == tuples
    verify(dealt)


def test_a_cross_product_is_stored_and_read(clustered):
    index = stored(clustered, "pair", "p(a, b) := edge(a, c), edge(b, d), a < 2, b < 2, c < 2, d < 2", cross_product=True)
    found = bind(plan(parse("q(a, b) := pair(a, b)"), index.statistics), index)
    assert len(locally(found, index, batch_size=100, parts=1)) == 4


def test_a_new_build_starts_without(clustered):
    stored(clustered, "tri", "triangle")
    built = build_index(pa.table({"src": [1, 2], "dst": [2, 3]}), clustered.path)
    assert list(built.statistics.relations) == ["edge"]
    with pytest.raises(QueryError, match="there is no relation 'tri'"):
        plan(parse("q(a, b, c) := tri(a, b, c)"), built.statistics)


def test_what_cannot_be_materialised(clustered):
    index = stored(clustered, "path", "p(a, c) := edge(a, b), edge(b, c)")
    for text, message in (
        ("q(a) := edge(a, b), optional edge(b, c)", "optional atoms cannot be materialised"),
        ("q() := edge(a, b)", "has to list attributes"),
        ("q(a, a.id) := edge(a, b)", "has to list attributes"),
        ("q(a, c) := path(a, b), edge(b, c)", "'path' is materialised itself"),
        ("q(a, c) := edge(a, b), not path(a, b), edge(b, c)", "'path' is materialised itself"),
        ("path(a, c) := path(a, b), edge(b, c)", "'path' is materialised itself"),
        ("q(a, b) := nothing(a, b)", "there is no relation 'nothing'"),
        ("q(a, b) := edge(a, c), edge(b, d)", "disconnected"),
    ):
        with pytest.raises(QueryError, match=message):
            stored(index, "m", text)
    with pytest.raises(bj.BigjoinError, match="two relations 'edge'"):
        stored(index, "edge", "triangle")
    with pytest.raises(bj.BigjoinError, match="cannot name a relation"):
        stored(index, "not", "triangle")
    assert verify(Index.open(clustered.path)) == index.bytes


KILLED = """
import sys
from bigjoin.index.directory import Index
from bigjoin.index.stage_runner import in_threads
from bigjoin.languages import parse
from bigjoin.materialize import materialize
materialize(Index.open(sys.argv[1]), {"warm": parse("triangle")}, in_threads)
print("ready", flush=True)
while True:
    materialize(Index.open(sys.argv[1]), {"tri": parse("triangle")}, in_threads, part=50)
"""


@pytest.mark.slow
def test_a_killed_materialisation_leaves_a_whole_index(clustered):
    for kill in range(5):
        command = [sys.executable, "-c", KILLED, str(clustered.path)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.05 * kill)
        writer.kill()
        writer.wait()
        index = Index.open(clustered.path)
        verify(index)
        for relation in index.statistics.relations.values():
            assert relation.tuples == (1008 if relation.arity == 3 else 2 * (3 * 28 + 3))


@pytest.mark.spark
def test_a_graph_materialises_and_counts_by_either_strategy(spark, tmp_path):
    edges = [(i, (i * k) % 101) for i in range(101) for k in (2, 3, 5, 7, 11)]
    table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
    for directed in (True, False):
        with bj.Graph(table, directed=directed, spark=spark) as graph:
            names = ("triangle", "4-clique", "house", "5-clique", "diamond")
            wanted = {name: int(graph.count(name)) for name in names}
            assert graph.materialize("tri", "triangle") == wanted["triangle"]
            for name in names:
                assert graph.count(name) == wanted[name]
                assert graph.count(name, strategy="partitioned", workers=5) == wanted[name]
            assert graph.find("4-clique").count() == wanted["4-clique"]
            assert graph.edge_count == graph.count("1-path", unique=not directed)


@pytest.mark.spark
def test_the_command_line_materialises(spark, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("src,dst\n" + "".join(f"{i},{j}\n" for i in range(6) for j in range(i)))
    index = tmp_path / "i"
    run = partial(run_here, cwd=tmp_path)
    made = run("index", edges, index, "--undirected", "--materialize", "tri=triangle", "--verify")
    assert "tri: 120 tuples of tri(a1, a2, a3) := edge(a1, a2), edge(a1, a3), edge(a2, a3)" in made.stdout
    assert "rewritten: 4-clique" in run("explain", "4-clique", index, "--unique").stdout
    assert run("count", "4-clique", index, "--unique").stdout.strip() == "15"
    assert run("index", index, index, "--materialize", "far=f(a, c) := edge(a, b), edge(b, c), a != c").returncode == 0
    assert "far: 30 tuples" in run("info", index).stdout
    assert "tri: 120 tuples" in run("index", index, tmp_path / "dealt", "--shards", "3").stdout
    assert run("count", "4-clique", tmp_path / "dealt", "--unique", "--strategy", "partitioned").stdout.strip() == "15"
    assert "tri: 120 tuples" in run("index", index, index, "--undirected", "--materialize", "two=2-path").stdout
    refused(
        run("index", index, index, "--materialize", "m=2-path", "--types", "kind"), "is an index: only its shards can change"
    )
    refused(run("index", index, index, "--materialize", "n=2-path", "--materialize", "m=q(a) := nope(a)"), "no relation 'nope'")
    assert "n: " not in run("info", index).stdout
    refused(run("index", edges, tmp_path / "no", "--materialize", "m=q(a) := nope(a)"), "there is no relation 'nope'")
    refused(run("index", edges, tmp_path / "no", "--materialize", "edge=triangle"), "two relations 'edge'")
    refused(run("index", edges, tmp_path / "no", "--materialize", "triangle"), "write NAME=QUERY")
    refused(run("index", edges, tmp_path / "no", "--materialize", "tri=trinagle"), "did you mean 'triangle'")
    assert not (tmp_path / "no").exists()
