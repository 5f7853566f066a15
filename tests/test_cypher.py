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
from tests.oracles.cypher_text import render_kuzu
from tests.statements import WAYS, found, number
from tests.test_motifs import in_a_process

PAPER = ["triangle", "4-clique", "diamond", "house", "5-clique"]


@pytest.fixture
def batches(monkeypatch):
    """Nothing is compiled: texts of many shapes are asked of small graphs."""
    monkeypatch.setattr(source_text, "MAX_SOURCE_LINES", 0)


def along_every_path(seeds, texts, report, folder):
    """Ask drawn texts of an index of each kind, along each path of execution."""
    for seed in seeds:
        drawn, asked = drawn_texts(seed, texts)
        find = without_spark(drawn, Path(folder) / str(seed), WAYS[seed // len(KINDS) % len(WAYS)])
        for text, query in asked:
            check(text, query, drawn, find, report)


def test_random_texts_along_every_path(tmp_path):
    """Without Spark: 10 graphs of five kinds, six texts each."""
    report = Report()
    along_every_path(range(10), 6, report, tmp_path)
    assert not report.differences, str(report)
    assert report.compared > 25


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
            if other is not None:
                assert Counter(rows) == Counter(kuzu_twin.run(database, other, query.parameters)), text
                compared += 1
    assert compared > 100


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
