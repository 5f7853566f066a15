"""The published counts, through Spark: the paper's queries on real graphs. The longer ones run with `make published`."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import as_file, files
from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin import indexing
from bigjoin.index.writer import verify
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.seeds import equal_ranges
from bigjoin.languages import parse
from bigjoin.planner import plan
from tests.executions import plain
from tests.oracles import duckdb as oracle

pytestmark = pytest.mark.spark

TRUTH = Path(__file__).parents[2] / "shared" / "data" / "truth.json"
LARGE = {"amazon0601", "twitter_combined", "facebook_combined", "Email-Enron", "soc-Epinions1"}
WORKERS = (1, 2, 7, 8, 64)
QUICK = {("soc-Epinions1", "triangle"), ("soc-Epinions1", "4-clique")}


def figures():
    if not TRUTH.is_file():
        return [pytest.param("", "", "", 0, marks=pytest.mark.skip(reason="the published graphs are not beside this checkout"))]
    found = []
    for graph, facts in json.loads(TRUTH.read_text())["graphs"].items():
        for meaning in ("undirected_unique", "directed_homomorphic"):
            for query, figure in facts[meaning].items():
                marks = [pytest.mark.slow] if graph in LARGE and (graph, query) not in QUICK else []
                found.append(pytest.param(graph, meaning, query, figure["count"], marks=marks, id=f"{graph}-{meaning}-{query}"))
    return found


@pytest.fixture(scope="module")
def graph_of(spark, truth, shared_data, tmp_path_factory):
    """Each graph and direction, indexed once: directed ones by Spark's tasks, undirected ones here, dealt to shards."""
    graphs = {}

    def get(name, meaning):
        if (name, meaning) not in graphs:
            source = shared_data / truth["graphs"][name]["file"]
            path = tmp_path_factory.mktemp("published") / "index"
            with pytest.MonkeyPatch.context() as patch:
                if meaning == "directed_homomorphic":
                    patch.setattr(indexing, "MAX_ROWS_INDEXED_HERE", 0)
                    patch.setattr(indexing, "can_hold", lambda _: False)
                    verify(build_index(source, path, spark=spark))
                else:
                    verify(build_index(source, path, directed=False, shards=3, spark=spark))
            graphs[name, meaning] = bj.Graph.open(path, spark=spark)
        return graphs[name, meaning]

    return get


@pytest.mark.parametrize(("name", "meaning", "query", "count"), figures())
def test_published_counts(graph_of, truth, name, meaning, query, count):
    graph = graph_of(name, meaning)
    if meaning == "undirected_unique":
        assert graph.edge_count == truth["graphs"][name]["undirected_edges"]
    else:
        loops = graph.index.statistics.relations["edge"].loops
        assert graph.edge_count - loops == truth["graphs"][name]["distinct_directed_edges_without_loops"]
    assert graph.count(query, **as_published(graph, meaning, query)) == count


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["partitioned", "balanced"])
@pytest.mark.parametrize(("name", "meaning", "query", "count"), figures())
def test_published_counts_in_rounds(graph_of, name, meaning, query, count, strategy):
    graph = graph_of(name, meaning)
    workers = WORKERS[len(name + query) % len(WORKERS)]
    how = {"strategy": strategy, "workers": workers, **as_published(graph, meaning, query)}
    assert graph.count(query, **how) == count


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["partitioned", "balanced"])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("query", ["triangle", "4-clique", "diamond", "house", "5-clique"])
def test_published_counts_whatever_the_number_of_workers(graph_of, truth, query, workers, strategy):
    count = truth["graphs"]["as-caida20071105"]["undirected_unique"][query]["count"]
    graph = graph_of("as-caida20071105", "undirected_unique")
    assert graph.count(query, unique=True, strategy=strategy, workers=workers) == count


def as_published(graph, meaning, query):
    """The published figures are about edges that are no loops; a directed graph keeps its loops (twitter_combined has 14)."""
    if meaning == "undirected_unique":
        return {"unique": True}
    atoms = parse(query).atoms if graph.index.statistics.relations["edge"].loops else ()
    return {"where": ", ".join(f"{a} != {b}" for a, b in (atom.attributes for atom in atoms)) or None}


@pytest.mark.parametrize(("query", "count"), [("triangle", 1_624_481), ("4-clique", 5_803_397)])
def test_published_counts_of_the_bundled_graph(spark, query, count):
    """Needs nothing beside the checkout."""
    with as_file(files("bigjoin") / "data" / "soc-Epinions1.txt.gz") as file:
        assert bj.Graph(file, directed=False, spark=spark).count(query, unique=True) == count


@pytest.mark.slow
def test_every_motif_of_citeseer(graph_of, truth):
    graph = graph_of("citeseer", "undirected_unique")
    motifs = truth["citeseer_all_motifs"]
    for meaning in ("not_induced", "induced"):
        for pattern, count in motifs[meaning]:
            edges = [part.strip("[").split("-") for part in pattern.split("(")[0].split("]") if part]
            vertices = sorted({v for edge in edges for v in edge})
            text = f"q({','.join('v' + v for v in vertices)}) := " + ", ".join(f"edge(v{a},v{b})" for a, b in edges)
            assert graph.count(parse(text, unique=True, induced=meaning == "induced")) == int(count), (meaning, pattern)


@pytest.mark.parametrize("name", ["p2p-Gnutella08", pytest.param("oregon1_010331", marks=pytest.mark.slow), "citeseer"])
def test_where_nothing_is_published_two_plans_and_duckdb_agree(shared_data, truth, tmp_path, name):
    lines = (shared_data / truth["graphs"][name]["file"]).read_text().splitlines()
    edges = {tuple(map(int, line.split()[:2])) for line in lines if line.strip() and not line.startswith("#")}
    src, dst = (pa.array([edge[i] for edge in sorted(edges)]) for i in (0, 1))
    index = build_index(pa.table({"src": src, "dst": dst}), tmp_path / "index")
    connection = duckdb.connect()
    connection.register("edge_2", pa.table({"c0": src, "c1": dst}))
    for query in (parse(text) for text in ("triangle", "3-cycle", "4-clique", "diamond", "house", "5-clique", "bi-fan")):
        counts = set()
        for order in (None, query.attributes[::-1]):
            bound = bind(plan(query, index.statistics, order=order), index)
            counts.add(GenericJoin(bound, counting=True).count(equal_ranges(bound, 1)))
        sql = oracle.sql(*plain(query))
        counts.add(connection.execute(f"SELECT count(*) FROM ({sql})").fetchone()[0])
        assert len(counts) == 1, (query, counts)


@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        (
            "q(a,b,c,e,f,g) := pays(a,b,e), pays(b,c,f), pays(c,a,g), e.time < f.time, f.time < g.time, a.isFraud = 1",
            "SELECT count(*) FROM pays e, pays f, pays g, nodes a WHERE e.dst = f.src AND f.dst = g.src AND g.dst = e.src "
            "AND e.time < f.time AND f.time < g.time AND a.nodeid = e.src AND a.isFraud = 1",
        ),
        (
            "q(a,b,e,f) := pays(a,b,e), pays(a,b,f), e.value < f.value, b.init_balance >= 190.5",
            "SELECT count(*) FROM pays e, pays f, nodes b WHERE e.src = f.src AND e.dst = f.dst AND e.value < f.value "
            "AND b.nodeid = e.dst AND b.init_balance >= 190.5",
        ),
        (
            "q(a,b,c,e) := pays(a,b,e), pays(b,c), not pays(c,a), e.value > 199",
            "SELECT count(*) FROM pays e, (SELECT DISTINCT src, dst FROM pays) f WHERE e.dst = f.src AND e.value > 199 "
            "AND NOT EXISTS (SELECT * FROM pays g WHERE g.src = f.dst AND g.dst = e.src)",
        ),
    ],
)
def test_payments_with_properties_as_duckdb_counts_them(spark, shared_data, tmp_path, rule, sql):
    folder = shared_data / "temporal" / "amlsim-20K-cycle200"
    payments, nodes = folder / "transactions.csv", folder / "nodes.csv"
    columns = ["sourceNodeId", "targetNodeId", "value", "time"]
    index = build_index({"pays": payments}, tmp_path / "index", vertices=nodes, id="nodeid", columns=columns, shards=2)
    connection = duckdb.connect()
    names = "sourceNodeId AS src, targetNodeId AS dst, value, time"
    connection.execute(f"CREATE TABLE pays AS SELECT {names} FROM read_csv('{payments}')")
    connection.execute(f"CREATE TABLE nodes AS FROM read_csv('{nodes}')")
    assert bj.Graph.open(index.path, spark=spark).count(rule) == connection.execute(sql).fetchone()[0] > 0


def test_rings_of_payments_as_duckdb_finds_them(spark, shared_data):
    """Three to five accounts that pay each other in turn, each payment later than the one before, all within 30 days."""
    payments = shared_data / "temporal" / "amlsim-20K-cycle200" / "transactions.csv"
    ring = """ring(a, nodes(e) as accounts, length(e) as length) :=
        simple edge*3..5(a, a, e), next(e).time > e.time, last(e).time - first(e).time < 30"""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE pays AS SELECT sourceNodeId AS a, targetNodeId AS b, time AS t FROM '{payments}'")
    wanted = Counter()
    for length in (3, 4, 5):
        tables = [f"pays p{i}" for i in range(length)]
        tests = [f"p{i}.b = p{(i + 1) % length}.a" for i in range(length)]
        tests += [f"p{i}.t < p{i + 1}.t" for i in range(length - 1)] + [f"p{length - 1}.t - p0.t < 30"]
        tests += [f"p{i}.a <> p{j}.a" for i, j in combinations(range(length), 2)]
        accounts = ", ".join(f"p{i}.a" for i in range(length))
        wanted.update(connection.execute(f"SELECT {accounts} FROM {', '.join(tables)} WHERE {' AND '.join(tests)}").fetchall())
    with bj.Graph(payments, src="sourceNodeId", dst="targetNodeId", spark=spark) as graph:
        assert graph.count(ring) == wanted.total() == 410
        rows = graph.find(ring).collect()
    assert Counter(tuple(row["accounts"][:-1]) for row in rows) == wanted
    assert all(row["a"] == row["accounts"][0] == row["accounts"][-1] for row in rows)
    assert all(len(set(row["accounts"])) == row["length"] for row in rows)


@pytest.mark.parametrize("name", ["lollipop", "barbell"])
def test_conjunctive_queries_that_only_a_factorized_count_can_answer(graph_of, truth, name):
    published = truth["facebook_conjunctive_queries"]
    wanted = next(count for rule, count in published.items() if rule.startswith(name))
    assert graph_of("facebook_combined", "undirected_unique").count(name) == wanted


def proteins():
    """The query graphs of the protein graph, as vertices with labels and edges, and their published answers."""
    folder = TRUTH.parent / "labelled" / "hprd"
    if not folder.is_dir():
        return [pytest.param("", 0, marks=pytest.mark.skip(reason="the published graphs are not beside this checkout"))]
    answers = dict(line.split(":") for line in (folder / "expected.txt").read_text().split())
    return [pytest.param(name, int(count), id=name) for name, count in answers.items()]


def labelled(file):
    """The vertices and edges of a graph in lines `v id label degree` and `e u v`."""
    lines = [line.split() for line in Path(file).read_text().splitlines()]
    return [(int(v), f"l{label}") for kind, v, label, *_ in lines if kind == "v"], [
        (int(line[1]), int(line[2])) for line in lines if line[0] == "e"
    ]


@pytest.fixture(scope="module")
def protein_graph(spark, shared_data):
    vertices, edges = labelled(shared_data / "labelled" / "hprd" / "HPRD.graph")
    ends = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
    labels = pa.table({"id": [v for v, _ in vertices], "label": [label for _, label in vertices]})
    with bj.Graph(ends, vertices=labels, directed=False, spark=spark) as graph:
        yield graph


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), proteins())
def test_patterns_of_sixteen_labelled_proteins(protein_graph, shared_data, name, count):
    vertices, edges = labelled(shared_data / "labelled" / "hprd" / "queries" / f"{name}.graph")
    body = [f"edge(x{a}, x{b})" for a, b in edges] + [f"{label}(x{v})" for v, label in vertices]
    assert protein_graph.count(f"q() := {', '.join(body)}", distinct=True) == count
