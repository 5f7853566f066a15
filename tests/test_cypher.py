"""Cypher: random texts against brute force and Kuzu, and the paper's queries in three languages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin.compiled import source_text
from bigjoin.errors import QueryError
from bigjoin.indexing import build_index
from bigjoin.languages import read
from bigjoin.languages.translate import translated
from bigjoin.planner import meaning
from tests.drawn_cypher import KINDS, check, drawn_texts, in_spark, without_spark
from tests.drawn_motifs import Report
from tests.oracles import kuzu_twin
from tests.oracles.cypher_values import comparable
from tests.oracles.kuzu_text import render_kuzu
from tests.oracles.walks import CONDITIONS
from tests.statements import WAYS, answered, found, number
from tests.test_motifs import in_a_process

PAPER = ["triangle", "4-clique", "diamond", "house", "5-clique"]


@pytest.fixture
def batches(monkeypatch):
    """Nothing is compiled: texts of many shapes are asked of small graphs."""
    monkeypatch.setattr(source_text, "MAX_SOURCE_LINES", 0)


def along_every_path(seeds, texts, report, folder, *, paths=False):
    """Ask drawn texts of an index of each kind, along each path of execution."""
    for seed in seeds:
        drawn, asked = drawn_texts(seed, texts, paths=paths)
        find = without_spark(drawn, Path(folder) / str(seed), WAYS[seed // len(KINDS) % len(WAYS)])
        for text, query in asked:
            check(text, query, drawn, find, report)


def test_random_texts_along_every_path(tmp_path):
    """Without Spark: 10 graphs of five kinds, six texts each."""
    report = Report()
    along_every_path(range(10), 6, report, tmp_path)
    assert not report.differences, str(report)
    assert report.compared > 25


@pytest.mark.usefixtures("batches")
def test_random_relationships_of_several_hops(tmp_path):
    """Without Spark: 3 graphs of five kinds, four texts each."""
    report = Report()
    along_every_path(range(3), 4, report, tmp_path, paths=True)
    assert not report.differences, str(report)
    assert report.compared > 4


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("batches")
def test_random_texts(spark, tmp_path):
    """In Spark: find, count and exists of ten texts."""
    report = Report()
    in_spark(spark, range(40, 45), 2, report, tmp_path)
    assert not report.differences, str(report)
    assert report.compared > 3


@pytest.mark.slow
def test_thousands_of_random_texts_along_every_path(tmp_path):
    """Without Spark: 3,200 texts on 400 graphs, of which about two thirds can be asked."""
    program = "from tests.test_cypher import *; r = Report(); "
    program += f"along_every_path(range(1000, 1400), 8, r, {str(tmp_path)!r}); print(r)"
    assert ", 0 differ" in in_a_process(tmp_path, "-W", "ignore", "-c", program)


@pytest.mark.slow
def test_thousands_of_random_relationships_of_several_hops(tmp_path):
    """Without Spark: 3,000 texts on 500 graphs, of which about two thirds can be asked."""
    program = "from tests.test_cypher import *; r = Report(); "
    program += f"along_every_path(range(5000, 5500), 6, r, {str(tmp_path)!r}, paths=True); print(r)"
    assert ", 0 differ" in in_a_process(tmp_path, "-W", "ignore", "-c", program)


@pytest.mark.slow
@pytest.mark.spark
def test_thousands_of_random_texts(tmp_path):
    """In Spark: 1,000 texts on 100 graphs."""
    assert ", 0 differ" in in_a_process(tmp_path, "-m", "tests.drawn_cypher", "2000", "2100", "10")


@pytest.mark.slow
def test_kuzu_agrees(tmp_path):
    """On what Kuzu answers as openCypher says, on graphs with ids of relationships."""
    pytest.importorskip("kuzu")
    compared = 0
    for seed in range(3000, 3000 + 30 * len(KINDS), len(KINDS)):
        drawn, asked = drawn_texts(seed, 12)
        assert drawn.kind == "rows"
        find, database = without_spark(drawn, tmp_path / str(seed), "batches"), kuzu_twin.connection(drawn.graph)
        for text, query in asked:
            other = render_kuzu(query, drawn.graph)
            try:
                rows = None if other is None else find(text, query.parameters)[1]
            except QueryError:
                continue
            theirs = None if other is None else kuzu_twin.run(database, other, query.parameters)
            if theirs is not None:
                assert Counter(map(comparable, rows)) == Counter(map(comparable, theirs)), text
                compared += 1
    assert compared > 100


# Relationships of several hops

PAID = {"src": [1, 2, 3, 1, 3], "dst": [2, 3, 1, 3, 4], "amount": [50, 40, 30, 5, 9], "time": [1, 2, 3, 2, 9]}
"""1 pays 2 (row 0), 2 pays 3 (1), 3 pays 1 (2), 1 pays 3 (3), 3 pays 4 (4)."""


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("(a)-[e*2..3]->(a) RETURN id(a), e", [(1, [0, 1, 2]), (1, [3, 2]), (2, [1, 2, 0]), (3, [2, 0, 1]), (3, [2, 3])]),
        ("(a)<-[e*2]-(b) WHERE id(a) = 4 RETURN b, e", [(1, [4, 3]), (2, [4, 1])]),
        ("p = (a)<-[*2]-(b) WHERE id(a) = 4 RETURN nodes(p), relationships(p)", [([4, 3, 1], [4, 3]), ([4, 3, 2], [4, 1])]),
        ("(a)-[e*..2 {time: 2}]-(b) WHERE id(a) = 1 RETURN b, e", [(2, [3, 1]), (3, [3])]),
        ("(a)-[e:pays*1..2]->(b), (b)-[f]->(a) RETURN e, f", [([0, 1], 2), ([1, 2], 0), ([2, 0], 1), ([2], 3), ([3], 2)]),
        ("(a)-[e*3]->(b) WHERE all(r IN e WHERE r.amount >= 30) RETURN id(a)", [(1,), (2,), (3,)]),
        ("(a)-[e*2]->(b) WHERE none(r IN e WHERE r.amount >= 30) RETURN e", [([3, 4],)]),
        ("(a)-[e*2]->(b) WHERE NOT any(r IN e WHERE r.amount >= 30) RETURN e", [([3, 4],)]),
        (
            "(a)-[e*3]->(b) WHERE all(i IN range(0, size(e) - 2) WHERE e[i].time < e[i + 1].time) RETURN e",
            [([0, 1, 2],), ([0, 1, 4],)],
        ),
        (
            "(a)-[e*3]->(b) WHERE all(i IN range(1, size(e) - 1) WHERE e[i - 1].time < e[i].time) RETURN e",
            [([0, 1, 2],), ([0, 1, 4],)],
        ),
        (
            "(a)-[e*2..3]->(b) WHERE 0 < last(e).time - head(e).time <= 2 AND e[-1].amount < 40 RETURN e",
            [([0, 1, 2],), ([1, 2],), ([3, 2],)],
        ),
        ("p = (a)-[e*2]->(b) WHERE all(n IN nodes(p) WHERE id(n) <> 1) RETURN e", [([1, 4],)]),
        (
            "p = (a)-[e*1..2]->(b) WHERE id(a) = 2 RETURN length(p), size(e), [r IN e | r.amount]",
            [(1, 1, [40]), (2, 2, [40, 9]), (2, 2, [40, 30])],
        ),
        (
            "(a)-[e*1..3]->(b) WHERE id(a) = 2 RETURN [i IN range(0, size(e) - 2) | e[i + 1].time - e[i].time]",
            [([1, -2],), ([1, -1],), ([1],), ([7],), ([],)],
        ),
        ("p = (a)-[e]->()-[*2]->(b) WHERE id(a) = 2 AND e.time = 2 RETURN nodes(p)", [([2, 3, 1, 2],), ([2, 3, 1, 3],)]),
        ("(a)-[e*2]->(b) WHERE (size(e) - 5) % 2 = -1 AND id(a) = 2 RETURN id(b)", [(1,), (4,)]),
        ("(a)-[e*1..3]->(b) RETURN size(e) AS hops, count(*) AS number", [(1, 5), (2, 7), (3, 7)]),
        ("(a) WHERE NOT (a)-[*2..3]->() RETURN id(a)", [(4,)]),
        ("(a) WHERE EXISTS { (a)-[e*2]->(b) WHERE last(e).amount = 9 } RETURN id(a)", [(1,), (2,)]),
        (
            "(a) OPTIONAL MATCH (a)-[e*2]->(b) WHERE id(b) = 4 RETURN id(a), e, size(e)",
            [(1, [3, 4], 2), (2, [1, 4], 2), (3, None, None), (4, None, None)],
        ),
    ],
)
def test_relationships_of_several_hops(text, rows, paid):
    assert sorted(answered(read(f"MATCH {text}"), paid, "batches")[1], key=repr) == sorted(rows, key=repr)


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    return build_index({"pays": pa.table(PAID)}, tmp_path_factory.mktemp("paid") / "index")


@pytest.mark.parametrize("seed", range(12))
def test_paths_are_the_same_in_a_rule_and_in_cypher(seed, paid):
    random = Random(seed)
    low = random.randint(1, 2)
    asked = ["src(e) != 2", "length(e) != 2", "(length(e) - 4) % 3 != -1", *random.sample(list(CONDITIONS), 3)]
    body = [f"trail pays*{low}..{low + random.randint(0, 2)}(a, b, e)", *random.sample(asked, random.randint(0, 3))]
    text = f"q(a, b, e, nodes(e) as n, e.amount as amounts, length(e) as hops) := {', '.join(body)}"
    other = said(read(text), "cypher", paid.statistics)
    if other is None:
        assert " div " in text
        return
    again = said(read(other), "rule", paid.statistics)
    texts = [text, other] if again is None else [text, other, again]  # what is said of nodes by their places stays in Cypher
    rows = [sorted((tuple(row.values()) for row in found(read(one).query, paid, "batches")), key=repr) for one in texts]
    assert rows[1:] == rows[:-1], texts
    assert again is not None or "nodes(path_e)[" in other


# Three languages


def in_three_languages(edges):
    """A pattern, given as its edges: as a rule, as a motif, and as Cypher with a MATCH for each edge."""
    vertices = list(dict.fromkeys(vertex for edge in edges for vertex in edge))
    body = ", ".join(f"edge({a}, {b})" for a, b in edges)
    matches = " ".join(f"MATCH ({a})-[]->({b})" for a, b in edges)
    return (
        f"q({', '.join(vertices)}) := {body}",
        "; ".join(f"({a})-[]->({b})" for a, b in edges),
        f"{matches} RETURN {', '.join(vertices)}",
    )


def spellings(name):
    """A query of the paper by its name, and in three languages."""
    return name, *in_three_languages([atom.attributes for atom in read(name).query.atoms])


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_queries_in_three_languages(name, tmp_path):
    """They are one query; and on a random graph with hubs, one number."""
    random = Random(name)
    ends = [(int(random.paretovariate(0.7)) % 60, random.randrange(60)) for _ in range(400)]
    index = build_index(pa.table({"src": [a for a, _ in ends], "dst": [b for _, b in ends]}), tmp_path / "index")
    queries = [meaning(read(text).query, index.statistics)[0].query for text in spellings(name)]
    assert len({(query.atoms, query.filters, frozenset(query.head)) for query in queries}) == 1
    assert len({number(query, index, "loops") for query in queries}) == 1


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", ["triangle", "diamond", "4-clique"])
def test_the_same_counts_on_published_data(name, shared_data, spark):
    sources = sorted(shared_data.glob("*pinions*.txt*"))
    if not sources:
        pytest.skip("soc-Epinions1 is not at hand")
    graph = bj.Graph(str(sources[0]), spark=spark)
    assert len({int(graph.count(text)) for text in spellings(name)}) == 1


@pytest.mark.parametrize("target", ["rule", "motif", "cypher"])
def test_translations_mean_the_same(target, tmp_path):
    """300 random patterns: the text in another language, parsed again, is the same query or has the same matches."""
    compared = 0
    random = Random(target)
    ends = [(random.randrange(7), random.randrange(7)) for _ in range(22)]
    index = build_index(pa.table({"src": [a for a, _ in ends], "dst": [b for _, b in ends]}), tmp_path / "index")
    known = index.statistics
    for seed in range(300):
        random = Random(seed)
        edges = ["".join(random.choices("abcd", k=2)) for _ in range(random.randint(1, 4))]
        text = random.choice(in_three_languages(list(dict.fromkeys(edges))))
        if random.random() < 0.4 and len(set("".join(edges))) > 1:
            a, b = random.sample(sorted(set("".join(edges))), 2)
            if text.startswith("q("):
                text += random.choice([f", not edge({a}, {b})", f", {a} != {b}", f", {a} < {b}", f", {a} = 3"])
            elif text.startswith("("):
                text += f"; !({a})-[]->({b})"
            else:
                condition = random.choice([f"{a} <> {b}", f"NOT ({a})-->({b})", f"id({a}) < id({b})", f"id({a}) = 3"])
                text = text.replace(" RETURN", f" WHERE {condition} RETURN")
        flags = {"cross_product": True}
        statement = read(text, **flags)
        other = said(statement, target, known)
        if other is None:
            continue
        again = read(other, **flags)
        wanted, rows = (
            Counter(tuple(sorted(row.items())) for row in found(one.query, index, "batches")) for one in (statement, again)
        )
        assert wanted == rows, (text, other)
        compared += 1
    assert compared > 150


def said(statement, target, known):
    """A statement in another language; None if that cannot say it."""
    try:
        return translated(statement, target, known)
    except QueryError as error:
        if "cannot say" not in str(error):
            raise
        return None
