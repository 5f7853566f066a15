"""bigjoin generate: the folder that Spark's tasks write, and the command."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import bigjoin as bj
from bigjoin.errors import GeneratorError, OutputError
from bigjoin.generators import Family, Theory, Uniform
from bigjoin.spark.generate import GeneratedGraph, _portions, generate
from tests.test_cli import refused, run, run_here
from tests.test_generators import PUBLISHED


@pytest.mark.spark
def test_files_hold_the_chunks_in_order(spark, tmp_path):
    graph = Uniform(2_000, 2_100_000, seed=4)
    shares = []
    done = generate(spark, graph, tmp_path / "graph.parquet", progress=shares.append)
    files = sorted((tmp_path / "graph.parquet").iterdir())
    assert [file.name for file in files] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert done.seconds > 0
    size = sum(file.stat().st_size for file in files)
    assert done == GeneratedGraph(2_000, 2_100_000, files=3, bytes=size, seconds=done.seconds)
    for chunk, file in enumerate(map(pq.ParquetFile, files)):
        assert file.schema_arrow.names == ["src", "dst"]
        assert file.schema_arrow.metadata[b"bigjoin.generated"] == graph.describe().encode()
        assert all(file.metadata.row_group(group).num_rows <= 1_000_000 for group in range(file.num_row_groups))
        table = file.read()
        assert all(np.array_equal(table[i], ends) for i, ends in enumerate(graph.edges(chunk)))
    assert all(0 <= share <= 1 for share in shares)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.parquet"]
    # A folder is a source, also with a name that a file might have.
    with bj.Graph(tmp_path / "graph.parquet", spark=spark) as read:
        assert (read.vertices, read.edges) == (2_000, 2_100_000)


@pytest.mark.spark
def test_text_ids_sort_as_their_numbers_do(spark, tmp_path):
    graph = Theory((3, 4))
    generate(spark, graph, tmp_path / "graph", ids="string")
    rows = [tuple(row.values()) for row in pq.read_table(tmp_path / "graph").to_pylist()]
    assert rows == [(f"v{a:02d}", f"v{b:02d}") for a, b in zip(*graph.edges(0), strict=True)]
    with bj.Graph(tmp_path / "graph", spark=spark) as read:
        assert {tuple(row) for row in read.find("q(a,b) := edge(a,b)").collect()} == set(rows)


@pytest.mark.spark
def test_a_run_that_fails_leaves_nothing(spark, tmp_path):
    class Broken(Family):
        vertices, edge_count = 10, 1_000_001

        def edges(self, chunk):
            if chunk == 1:
                raise RuntimeError("no luck")
            return np.zeros(10, dtype=np.int64), np.ones(10, dtype=np.int64)

        def describe(self):
            return "broken"

    with pytest.raises(Exception, match="no luck"):
        generate(spark, Broken(), tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_an_existing_target_is_left_alone(tmp_path, kind):
    target = tmp_path / "graph"
    {"file": target.touch, "folder": target.mkdir, "link": lambda: target.symlink_to("nowhere")}[kind]()
    with pytest.raises(OutputError, match="graph exists; name a folder that does not, or remove it first"):
        generate(None, Theory((3, 4)), target)  # no session: it is refused before one is needed
    assert list(tmp_path.iterdir()) == [target]


def test_ids_are_integers_or_text(tmp_path):
    with pytest.raises(GeneratorError, match="ids are int or string, not 'uuid'"):
        generate(None, Theory((3, 4)), tmp_path / "graph", ids="uuid")


@pytest.mark.parametrize(
    ("chunks", "files", "most"), [(1, 1, 1), (64, 64, 1), (65, 33, 2), (1000, 63, 16), (2048, 64, 32), (10_000, 313, 32)]
)
def test_files_are_few_and_hold_every_chunk_once(chunks, files, most):
    portions = [range(*portion) for portion in _portions(chunks)]
    assert [chunk for portion in portions for chunk in portion] == list(range(chunks))
    assert (len(portions), max(map(len, portions))) == (files, most)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rmat", "out"], "Missing option '--scale'"),
        (["rmat", "out", "--scale", "99"], "with a scale from 1 to 62, not 99"),
        (["rmat", "out", "--scale", "-5"], "with a scale from 1 to 62, not -5"),
        (["rmat", "out", "--scale", "5", "--edge-factor", "0"], "edges, not 0"),
        (["rmat", "out", "--scale", "5", "--edge-factor", "2", "--edges", "3"], "--edges and --edge-factor both say"),
        (
            ["rmat", "out", "--scale", "5", "--probabilities", "0.5,0.5"],
            "takes four numbers such as 0.57,0.19,0.19,0.05, not '0.5",
        ),
        (["rmat", "out", "--scale", "5", "--probabilities", "1,1,1,1"], "add up to 1"),
        (["rmat", "out", "--scale", "5", "--seed", "-1"], "a seed is from 0 to 2^63 - 1, not -1"),
        (["rmat", "out", "--scale", "5", "--ids", "uuid"], "'uuid' is not one of 'int', 'string'"),
        (["uniform", "out", "--vertices", "3", "--edges", "7"], "a uniform graph of 3 vertices has from 1 to 6 edges, not 7"),
        (["uniform", "out", "--vertices", "many", "--edges", "7"], "'many' is not a valid integer"),
        (["theory", "out", "--stars", "3-x"], "stars are numbers of leaves such as 3-4-5, not '3-x'"),
        (["skew", "out", "--vertices", "9", "--edges", "9", "--hubs", "2"], "--hubs goes with --kind hubs"),
        (["skew", "out", "--vertices", "9", "--edges", "9", "--kind", "hubs", "--hubs", "9"], "from 1 to 8 hubs, not 9"),
        (["theory", "there", "--stars", "3-4"], "there exists; name a folder that does not, or remove it first"),
        (["theory", "missing/out", "--stars", "3-4"], "there is no directory"),
        (["theory", "--stars", "3-4"], "Missing argument 'OUT'"),
        (["theory", "out", "--stars", "3-4", "--master", "nonsense"], "'nonsense' is not a Spark master"),
        (["ramt", "out"], "No such command 'ramt'"),
    ],
)
def test_mistakes_are_told_before_spark_starts(tmp_path, arguments, sentence):
    (tmp_path / "there").mkdir()
    assert refused(run("generate", *arguments, cwd=tmp_path, JAVA_HOME="/nowhere"), sentence)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("family", ["rmat", "uniform", "theory", "skew"])
def test_every_family_has_help(family):
    done = run("generate", family, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: bigjoin generate {family} [OPTIONS] OUT")


@pytest.mark.slow
@pytest.mark.spark
def test_a_generated_graph_is_a_source(spark, tmp_path):
    """The product of stars 3-4-5 has (7 * 9 * 11 - 1) / 2 edges and (10 * 13 * 16 - 3 * 4 * 5 * 6 + 2) / 6 triangles."""
    made = run("generate", "theory", "graph", "--stars", "3-4-5", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("346 edges over 120 vertices in ")
    assert made.stdout.endswith(" MB in graph, which is now a SOURCE\n")
    assert bj.Graph(tmp_path / "graph", directed=False, spark=spark).count("triangle", unique=True) == 287

    made = run_here(
        "generate", "skew", "graph.parquet", "--vertices", 50, "--edges", 249, "--ids", "string", "--json", cwd=tmp_path
    )
    facts = json.loads(made.stdout)
    assert facts.pop("seconds") > 0
    assert facts.pop("bytes") == (tmp_path / "graph.parquet" / "part-00000.parquet").stat().st_size
    assert facts == {"graph": "skew: funnel, 50 vertices, 249 edges, seed 1", "vertices": 50, "edges": 249, "files": 1}
    assert bj.Graph(tmp_path / "graph.parquet", spark=spark).count("triangle") == 249 - 49


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("stars", PUBLISHED, ids=str)
def test_theory_has_the_published_triangles(spark, tmp_path, stars):
    vertices, edges, triangles = PUBLISHED[stars]
    generate(spark, Theory(stars), tmp_path / "graph")
    with bj.Graph(tmp_path / "graph", directed=False, spark=spark) as graph:
        assert (graph.vertex_count, graph.edge_count) == (vertices, edges)
        assert graph.count("triangle", unique=True) == triangles
