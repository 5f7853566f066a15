"""Motifs as bigjoin finds them, and as the stand-in for GraphFrames joins them: the same columns and the same bag of rows."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from bigjoin.graphframes import GraphFrame
from bigjoin_bench.graphs import LABELLED, MULTIGRAPH, TABLES, Library
from bigjoin_bench.motifs import COMPARED, PRODUCTS
from bigjoin_bench.peers.left_deep import LeftDeep
from bigjoin_bench.peers.motifs import read, same_rows
from tests.oracles.motif_table import EDGES, TABLE, VERTICES, written

FEW = (
    "(a)-[e]->(b); (b)-[]->(c); (c)-[]->(a)",
    "(a)-[]->(b); (b)-[]->(c); !(c)-[]->(a); (c)-[f]->(d)",
    "()-[e]->(b); (b)-[]->()",
    "(a)<-[e]->(b); (c)",
    "(a)-[e*1..2]-(b)",
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def both(spark, request):
    """Both sides of a graph by its name."""
    data = request.config.rootpath.parent / "shared" / "data" / "static"
    library, known = Library(data if data.is_dir() else None), {}

    def get(name):
        if name not in known:
            vertices, edges = (frame.cache() for frame in read(spark, library.get(name, TABLES)))
            known[name] = GraphFrame(vertices, edges), LeftDeep(vertices, edges)
        return known[name]

    yield get
    library.close()


def compared(sides, motif):
    """How many rows both sides have."""
    ours, theirs = (side.find(motif) for side in sides)
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    return same_rows(ours, theirs)


@pytest.mark.parametrize("motif", FEW)
@pytest.mark.parametrize("graph", [MULTIGRAPH, pytest.param(LABELLED, marks=pytest.mark.slow)])
def test_a_few_motifs(both, graph, motif):
    assert compared(both(graph), motif) > 0


@pytest.mark.slow
@pytest.mark.parametrize("motif", FEW)
def test_wide_vertices(both, motif):
    graph, _ = both(MULTIGRAPH)
    numbers = {f"int_{n}": F.when(F.col("born") % 3 > 0, F.col("id") * n) for n in range(30)}
    texts = {f"text_{n}": F.concat(F.lit("number "), "id") for n in range(28)}
    vertices = graph.vertices.withColumns({**numbers, **texts})
    assert compared((GraphFrame(vertices, graph.edges), LeftDeep(vertices, graph.edges)), motif) > 0


@pytest.mark.slow
@pytest.mark.parametrize("motif", COMPARED + PRODUCTS)
@pytest.mark.parametrize("graph", [MULTIGRAPH, LABELLED])
def test_many_motifs(both, graph, motif):
    compared(both(graph), motif)


@pytest.mark.slow
@pytest.mark.parametrize("motif", COMPARED)
def test_a_published_graph(both, shared_data, motif):
    compared(both("citeseer"), motif)


@pytest.mark.slow
@pytest.mark.parametrize("expected", TABLE, ids=lambda expected: expected.pattern)
def test_the_stand_in_satisfies_the_table(spark, expected):
    vertices = spark.createDataFrame([tuple(v.values()) for v in VERTICES], "id long, attr string")
    edges = spark.createDataFrame(
        [tuple(e.values()) for e in EDGES + expected.more_edges], "src long, dst long, relationship string"
    )
    found = LeftDeep(vertices, edges).find(expected.pattern)
    assert found.columns == expected.columns.split()
    if expected.only:
        name, value = expected.only
        found = found.where(f"{name}.id = {value}")
    rows = [[cell.asDict() if hasattr(cell, "asDict") else cell for cell in row] for row in found.collect()]
    if expected.rows is None:
        assert len(rows) == expected.count
    else:
        assert sorted(map(written, rows)) == sorted(expected.rows.split())


def test_a_difference_is_found(spark):
    rows = [spark.createDataFrame([(n,) for n in numbers], "a long") for numbers in ([1, 1, 2], [1, 2, 2])]
    with pytest.raises(AssertionError, match="bigjoin has a row more"):
        same_rows(*rows)
    assert same_rows(rows[0], rows[0]) == 3
