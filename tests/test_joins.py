"""Any multiway equi-join, of relations of any arity and type, compared with DuckDB, whose SQL is made without ours."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bigjoin as bj
from bigjoin.errors import BigjoinError, QueryError, SourceError
from bigjoin.ingest.files import read_whole
from bigjoin.joins.bind import bind
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.planner.agm import agm_bound, cover_number, packing_number
from bigjoin.planner.resolve_relations import resolve_relations
from bigjoin.query.optional import branches
from bigjoin.query.statistics import RelationStatistics, Statistics
from bigjoin.relations import Relations
from tests.executions import locally
from tests.test_cli import refused, run, run_here

ARITY = {"u": 1, "r": 2, "s": 2, "t": 3, "w": 4}
VALUES = [3, 1, 2, 5]


@dataclass
class Atom:
    """An atom as the tests know it: arguments are names, integers, or None for `_`."""

    relation: str
    arguments: list
    sign: str = ""
    columns: list = field(default_factory=list)

    def __str__(self):
        shown = ["_" if a is None else str(a) for a in self.arguments]
        named = [f"{c}: {a}" for c, a in zip(self.columns, shown, strict=True)] if self.columns else shown
        return f"{self.sign} {self.relation}({', '.join(named)})".strip()

    def conditions(self, alias, places):
        columns = self.columns or [f"c{i}" for i in range(len(self.arguments))]
        known = {}
        for column, argument in zip(columns, self.arguments, strict=True):
            at = f"{alias}.{column}"
            if isinstance(argument, int):
                yield f"{at} = {argument}"
            elif argument in places or argument in known:
                yield f"{at} = {places.get(argument) or known[argument]}"
            elif argument is not None:
                known[argument] = at

    def source(self):
        return f"(SELECT DISTINCT {', '.join(self.columns)} FROM {self.relation})" if self.columns else self.relation


def sql(head, atoms, filters, *, distinct):
    places, tables, where, joins = {}, [], [], []
    for number, atom in enumerate(atoms):
        alias = f"t{number}"
        columns = atom.columns or [f"c{i}" for i in range(len(atom.arguments))]
        if atom.sign == "not":
            where.append(f"NOT EXISTS (SELECT 1 FROM {atom.source()} {alias} WHERE {_all(atom.conditions(alias, places))})")
        elif atom.sign == "optional":
            joins.append(f"LEFT JOIN {atom.source()} {alias} ON {_all(atom.conditions(alias, places))}")
        else:
            where += list(atom.conditions(alias, places))
            tables.append(f"{atom.source()} {alias}")
        if atom.sign != "not":
            for column, argument in zip(columns, atom.arguments, strict=True):
                if isinstance(argument, str):
                    places.setdefault(argument, f"{alias}.{column}")
    where += [f"{places[a]} {op} {places[b]}" for a, op, b in filters]
    chosen = ", ".join(places[name] for name in head)
    text = f"SELECT {'DISTINCT ' if distinct else ''}{chosen} FROM {' CROSS JOIN '.join(tables)} {' '.join(joins)}"
    return text + (f" WHERE {_all(where)}" if where else "")


def _all(conditions):
    return " AND ".join(conditions) or "true"


@st.composite
def questions(draw):
    tables = {
        name: draw(st.sets(st.tuples(*[st.sampled_from(VALUES)] * arity), min_size=1, max_size=10))
        for name, arity in ARITY.items()
    }
    names = "abcde"[: draw(st.integers(1, 5))]

    def atom(relation, choices, sign=""):
        arity = ARITY[relation]
        columns = []
        if draw(st.integers(0, 4)) == 0:
            columns = [f"c{i}" for i in sorted(draw(st.sets(st.integers(0, arity - 1), min_size=1)))]
        return Atom(relation, [draw(st.sampled_from(choices)) for _ in range(len(columns) or arity)], sign, columns)

    usual = [*names, *names, *names, None, draw(st.sampled_from(VALUES))]
    atoms = [atom(relation, usual) for relation in draw(st.lists(st.sampled_from(sorted(ARITY)), min_size=1, max_size=4))]
    bound = sorted({a for one in atoms for a in one.arguments if isinstance(a, str)})
    if not bound:
        atoms[0].arguments[0] = "a"
        bound = ["a"]
    if draw(st.booleans()):
        negated = atom(draw(st.sampled_from(sorted(ARITY))), [*bound, *bound, None, 3, 7], "not")
        if any(isinstance(a, str) for a in negated.arguments):
            atoms.append(negated)
    if draw(st.integers(0, 3)) == 0:
        for fresh in "xy"[: draw(st.integers(1, 2))]:
            optional = atom(draw(st.sampled_from(["r", "t"])), [*bound, fresh, fresh, None, 1], "optional")
            if set(optional.arguments) & set(bound):
                atoms.append(optional)
    listed = sorted({a for one in atoms if one.sign != "not" for a in one.arguments if isinstance(a, str)})
    head = draw(st.lists(st.sampled_from(listed), min_size=1, unique=True))
    filters = []
    if draw(st.booleans()):
        filters.append(
            (draw(st.sampled_from(bound)), draw(st.sampled_from(["<", "=", "!=", ">="])), draw(st.sampled_from(bound)))
        )
    return tables, head, atoms, filters, draw(st.booleans())


def table_of(tuples, arity):
    return pa.table({f"c{i}": pa.array([t[i] for t in sorted(tuples)], pa.int64()) for i in range(arity)})


brief = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@brief
@given(questions(), st.sampled_from([1, 7, 1000]))
def test_joins_are_those_of_duckdb(question, batch_size):
    joins_as_duckdb_does(question, batch_size)


@pytest.mark.slow
@settings(brief, max_examples=3000)
@given(questions(), st.sampled_from([1, 7, 1000]))
def test_thousands_of_joins_are_those_of_duckdb(question, batch_size):
    joins_as_duckdb_does(question, batch_size)


def joins_as_duckdb_does(question, batch_size):
    tables, head, atoms, filters, deduplicate = question
    body = [*map(str, atoms), *(f"{a} {op} {b}" for a, op, b in filters)]
    text = f"q({', '.join(head)}) := {', '.join(body)}"
    query = parse(text, cross_product=True, deduplicate=deduplicate)
    arrow = {name: table_of(tuples, ARITY[name]) for name, tuples in tables.items()}
    connection = duckdb.connect()
    for name, table in arrow.items():
        connection.register(name, table)
    wanted = connection.execute(sql(head, atoms, filters, distinct=deduplicate)).fetchall()
    with Relations(arrow) as relations:
        index = relations._index_for(query)
        found = []
        for branch in branches(query):
            bound = bind(plan(resolve_relations(branch, index.statistics), index.statistics), index)
            columns = [output.name for output in bound.columns]
            rows = locally(bound, index, batch_size=batch_size, parts=2)
            found += [tuple(dict(zip(columns, row, strict=True)).get(name) for name in head) for row in rows]
    assert Counter(set(found) if deduplicate else found) == Counter(wanted), text


# What a rule means


def test_the_example_of_the_papers_appendix():
    query = parse(
        "q(a1,a2,a3,b1,b2,b3) := r(a1,a2,a3), s1(a1,b1), s2(a2,b2), s3(a3,b3), t(b1,b2,b3)",
    )
    assert cover_number(query) == pytest.approx(2)
    assert packing_number(query) == pytest.approx(3)
    ternary, binary = RelationStatistics(("v",) * 3, 100), RelationStatistics(("v",) * 2, 100)
    relations = {"r": ternary, "t": ternary, "s1": binary, "s2": binary, "s3": binary}
    assert agm_bound(query, Statistics(relations, {"v": 10})) == pytest.approx(100**2)


def test_cover_and_packing_of_cliques_and_stars():
    assert cover_number(parse("triangle")) == packing_number(parse("triangle")) == pytest.approx(1.5)
    assert cover_number(parse("3-star")) == pytest.approx(3)
    assert packing_number(parse("3-star")) == pytest.approx(1)


def test_relations_answer_after_a_query_that_was_refused():
    relations = Relations({"r": pa.table({"x": [1, None], "y": [1, 1]})})
    for _ in range(2):
        with pytest.raises(SourceError, match="1 of the 2 rows of 'r' have a NULL"):
            relations.plan("q(a,b) := r(a,b)")
    assert relations.plan("q(b) := r(y: b)")


def test_a_name_that_no_rule_can_use():
    with pytest.raises(BigjoinError, match="cannot name a relation"):
        Relations({"not": pa.table({"x": [1]})})
    with pytest.raises(BigjoinError, match="there are no relations"):
        Relations({})


def test_what_is_no_table_is_refused():
    for rows, message in [
        (pa.table([[1], [2]], names=["x", "x"]), "has two columns called 'x'"),
        (pa.table({}), "has no columns"),
        ([1, 2], "the list holds 1, and a row is a tuple"),
    ]:
        with pytest.raises(BigjoinError, match=message):
            Relations({"r": rows}).plan("q(a) := r(a, b)")


def test_truth_values_and_repeated_constants_in_atoms():
    assert str(parse("q(a) := r(a, true)").filters[0]) == "_1 = true"
    with Relations({"r": pa.table({"x": [1, 2, 5], "y": [5, 5, 1]})}) as relations:
        plan_text = str(relations.plan("q(a, b) := r(a, 5), r(b, 5), r(5, b)", distinct=True))
        assert "_1 = 5" in plan_text
        assert "_2" not in plan_text


def test_indices_of_different_questions_do_not_meet():
    columns = {name: [i % k for i in range(12)] for name, k in (("w", 2), ("x", 3), ("y", 4), ("z", 5))}
    with Relations({"t": pa.table(columns)}) as relations:
        first, second = (f"q(a,b,c) := t(w: a, x: b, {c}: c)" for c in "yz")
        paths = [relations._index_for(parse(rule)).path for rule in (first, second, f"{first}, c = 3, t(w: b)", first)]
        assert paths[0] != paths[1]
        assert paths[3] != paths[1]


def test_tries_are_shared_between_queries():
    with Relations({"t": pa.table({"x": [1, 2], "y": [2, 3], "z": [3, 1]})}) as relations:
        first = relations._index_for(parse("q(a,b,c) := t(a,b,c), t(b,c,a)"))
        again = relations._index_for(parse("p(a,b,c) := t(a,b,c), t(b,c,a), a < b"))
        assert again is first
        other = relations._index_for(parse("q(a,b,c) := t(a,b,c)"))
        assert other.path != first.path  # its columns have domains of their own
        assert set(first.manifest.domains) == {"t.x"}
        assert len(other.manifest.domains) == 3


# Through Spark


@pytest.fixture
def frames(spark):
    people = spark.createDataFrame([("ann", "Ghent"), ("bob", "Ghent"), ("eve", "Bruges")], ["name", "city"])
    knows = spark.createDataFrame([("ann", "bob"), ("bob", "eve"), ("eve", "ann")], ["one", "other"])
    return {"person": people, "knows": knows}


@pytest.mark.spark
def test_frames_are_joined(frames):
    rows = bj.join("q(a, b, c) := person(a, c), person(b, c), knows(a, b)", **frames).collect()
    assert [tuple(row) for row in rows] == [("ann", "bob", "Ghent")]
    named = bj.join("q(a) := person(name: a, city: 'Bruges'), not knows(_, a)", **frames)
    assert named.columns == ["a"]
    assert named.collect() == []
    assert sorted(r["c"] for r in bj.join("q(c) := person(_, c)", **frames).collect()) == ["Bruges", "Ghent", "Ghent"]
    cities = bj.join("q(c) := person(_, c)", deduplicate=True, **frames)
    assert sorted(row["c"] for row in cities.collect()) == ["Bruges", "Ghent"]
    assert bj.join("q(c) := person(_, c)", deduplicate=True, limit=1, **frames).count() == 1


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("strategy", ["shared", "partitioned", "balanced"])
def test_relations_are_asked_more_than_once(frames, tmp_path, strategy):
    with Relations(frames) as relations:
        options = {"strategy": strategy}
        assert relations.count("q(a,b,c) := knows(a,b), knows(b,c)", **options) == 3
        assert relations.count("q(c) := person(_, c)", **options) == 3
        assert relations.count("q(c) := person(_, c)", deduplicate=True, **options) == 2
        assert relations.count("q() := person(_, c)", deduplicate=True, **options) == 1
        assert relations.exists("q() := person(_, 'Ghent')", **options)
        assert not relations.exists("q(a) := knows(a, a)", **options)
        lonely = "q(p, f) := person(p, 'Ghent'), optional knows(f, p)"
        assert relations.count(lonely, **options) == 2
        assert relations.write(lonely, tmp_path / "out.parquet", **options) == 2
        assert sorted(pq.read_table(tmp_path / "out.parquet")["f"].to_pylist()) == ["ann", "eve"]
        assert "AGM bound" in relations.explain(lonely)
        with pytest.raises(QueryError, match="is empty"):
            relations.find("q() := person(_, _)")


@pytest.mark.spark
def test_absent_parts_are_null(spark, tmp_path):
    tables = {"r": pa.table({"x": [1, 2], "y": [10, 20]}), "s": pa.table({"x": [10], "z": ["ten"]})}
    with Relations(tables, spark=spark) as relations:
        rule = "q(a, b, c) := r(a, b), optional s(b, c)"
        assert sorted(map(tuple, relations.find(rule).collect())) == [(1, 10, "ten"), (2, 20, None)]
        only = relations.find("q(c) := r(a, b), optional s(b, c)")
        assert sorted(map(tuple, only.collect()), key=repr) == [("ten",), (None,)]
        assert relations.write(rule, tmp_path / "out.csv") == 2
        with (tmp_path / "out.csv").open() as file:
            assert sorted(csv.reader(file)) == [["1", "10", "ten"], ["2", "20", ""], ["a", "b", "c"]]
        assert relations.find(rule, limit=1).count() == 1


@pytest.mark.spark
def test_values_of_many_types(spark):
    columns = {
        "day": [date(2024, 1, 1), date(2024, 1, 2)],
        "price": [Decimal("1.50"), Decimal("2.50")],
        "share": [0.0, -0.0],
        "open": [True, False],
        "raw": [b"x", b"y"],
    }
    for name, values in columns.items():
        table = pa.table({"key": [1, 2], name: values})
        found = bj.join("q(k, v) := r(k, v), s(v), k = 2", r=table, s=pa.table({name: values}), spark=spark).collect()
        assert [row["v"] for row in found] == [values[1]]


@pytest.mark.spark
def test_files_and_indices_are_relations(spark, tmp_path):
    (tmp_path / "likes.csv").write_text("who|what\nann|tea\nbob|tea\nbob|milk\n")
    pq.write_table(pa.table({"what": ["tea"], "price": [3]}), tmp_path / "price.parquet")
    bj.build_index(pa.table({"src": ["ann"], "dst": ["bob"]}), tmp_path / "knows.index")
    paths = {"likes": tmp_path / "likes.csv", "price": str(tmp_path / "price.parquet"), "knows": tmp_path / "knows.index"}
    rule = "q(a, b, x, p) := knows(a, b), likes(a, x), likes(b, x), price(x, p)"
    assert [tuple(row) for row in bj.join(rule, spark=spark, **paths).collect()] == [("ann", "bob", "tea", 3)]


@pytest.mark.spark
def test_the_command_takes_relations(spark, tmp_path):
    (tmp_path / "r.csv").write_text("x,y\n1,2\n2,3\n3,1\n")
    (tmp_path / "s.csv").write_text("1,a\n2,a\n3,b\n")
    relations = ["--relation", "r=r.csv", "--relation", "s=s.csv"]
    rule = "q(l) := r(a, b), s(a, l), s(b, l)"
    assert run_here("count", rule, *relations, cwd=tmp_path).stdout == "1\n"
    assert run_here("count", rule, "--exists", *relations, cwd=tmp_path).stdout == "true\n"
    assert json.loads(run_here("find", rule, "--json", "--deduplicate", *relations, cwd=tmp_path).stdout) == {"l": "a"}


@pytest.mark.slow
def test_mistakes_with_relations_are_told_before_spark_starts(tmp_path):
    (tmp_path / "r.csv").write_text("x,y\n1,2\n2,3\n3,1\n")
    rule, relation = "q(a, b) := r(a, b)", ["--relation", "r=r.csv"]
    assert "edge packing number 1" in run("explain", rule, *relation, cwd=tmp_path, JAVA_HOME="/nowhere").stdout
    for arguments, message in [
        (["count", rule], "Missing argument 'SOURCE'"),
        (["count", rule, "x.txt", *relation], "give either SOURCE or --relation"),
        (["count", rule, "--relation", "r"], "write NAME=PATH"),
        (["count", rule, *relation, *relation], "there are two relations 'r'"),
        (["count", rule, "--relation", "r=nowhere.csv"], "there is no file or directory nowhere.csv"),
        (["count", "q(a) := r(a)", *relation], "'r' has 2 columns, not 1"),
        (["count", rule, "--undirected", *relation], "relations have no direction"),
    ]:
        assert refused(run(*arguments, cwd=tmp_path, JAVA_HOME="/nowhere"), message)


LSQB = {
    "q1": "city_ispartof_country(ci,co), person_islocatedin_city(p,ci), forum_hasmember_person(f,p), "
    "forum_containerof_post(f,po), comment_replyof_post(c,po), comment_hastag_tag(c,t), tag_hastype_tagclass(t,k)",
    "q2": "knows(p,q), comment_hascreator_person(c,p), comment_replyof_post(c,po), post_hascreator_person(po,q)",
    "q3": "knows(p,q), knows(q,r), knows(r,p), person_islocatedin_city(p,x), person_islocatedin_city(q,y), "
    "person_islocatedin_city(r,z), city_ispartof_country(x,co), city_ispartof_country(y,co), city_ispartof_country(z,co)",
    "q4": "m_tag(m,t), m_creator(m,p), likes(l,m), reply(c,m)",
    "q5": "m_tag(m,t), reply(c,m), comment_hastag_tag(c,u), t != u",
    "q6": "knows(p,q), knows(q,r), person_hasinterest_tag(r,t), p != r",
    "q7": "m_tag(m,t), m_creator(m,p), optional likes(l,m), optional reply(c,m)",
    "q8": "m_tag(m,t), reply(c,m), comment_hastag_tag(c,u), t != u, not comment_hastag_tag(c,t)",
    "q9": "knows(p,q), knows(q,r), person_hasinterest_tag(r,t), p != r, not knows(p,r)",
}
"""LDBC's labelled subgraph queries as rules; each counts bindings, so nothing is in the head."""


@pytest.fixture(scope="module")
def lsqb(shared_data, spark):
    """The relations of the smallest scale factor; posts and comments are messages, whose ids say which they are."""

    def read(name, *kinds):
        table = read_whole(str(shared_data / "labelled" / "lsqb-sfexample" / f"{name}.csv"))
        ids = [table.column(c).to_pylist() for c in range(2)]
        return [
            tuple(f"{kind}{i}" if kind else i for kind, i in zip(kinds or ("", ""), row, strict=True))
            for row in zip(*ids, strict=True)
        ]

    names = [
        *("City_isPartOf_Country", "Person_isLocatedIn_City", "Forum_hasMember_Person", "Forum_containerOf_Post"),
        *("Comment_replyOf_Post", "Comment_hasTag_Tag", "Tag_hasType_TagClass", "Comment_hasCreator_Person"),
        *("Post_hasCreator_Person", "Person_hasInterest_Tag"),
    ]
    tuples = {name.lower(): read(name) for name in names}
    knows = read("Person_knows_Person")
    tuples["knows"] = knows + [pair[::-1] for pair in knows]
    tuples["m_tag"] = read("Post_hasTag_Tag", "p", "") + read("Comment_hasTag_Tag", "c", "")
    tuples["m_creator"] = read("Post_hasCreator_Person", "p", "") + read("Comment_hasCreator_Person", "c", "")
    tuples["likes"] = read("Person_likes_Post", "", "p") + read("Person_likes_Comment", "", "c")
    tuples["reply"] = read("Comment_replyOf_Post", "", "p") + read("Comment_replyOf_Comment", "", "c")
    arrow = {n: pa.table({"one": [str(a) for a, _ in rows], "other": [str(b) for _, b in rows]}) for n, rows in tuples.items()}
    with Relations(arrow, spark=spark) as relations:
        yield relations


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", [pytest.param(q, marks=() if q in ("q1", "q3", "q6", "q8") else pytest.mark.slow) for q in LSQB]
)
def test_the_labelled_subgraph_queries(lsqb, truth, name):
    wanted = truth["lsqb_example"]["counts"][int(name[1:]) - 1]
    for strategy in ("shared", "partitioned", "balanced"):
        assert lsqb.count(f"q() := {LSQB[name]}", strategy=strategy) == wanted


@pytest.mark.parametrize("edges", [12, *(pytest.param(count, marks=pytest.mark.slow) for count in (20, 30))])
def test_a_pattern_too_large_for_loops_to_be_compiled_is_found_and_counted_all_the_same(spark, edges):
    graph = bj.Graph({"edge": pa.table({"src": [1, 2, 3, 4, 5, 1, 3], "dst": [2, 3, 1, 5, 6, 4, 4]})}, spark=spark)
    matrix = np.zeros((7, 7), np.int64)
    matrix[[1, 2, 3, 4, 5, 1, 3], [2, 3, 1, 5, 6, 4, 4]] = 1
    walks = int(np.linalg.matrix_power(matrix, edges).sum())
    body = ", ".join(f"edge(x{i}, x{i + 1})" for i in range(edges))
    rule = f"q({', '.join(f'x{i}' for i in range(edges + 1))}) := {body}"
    with graph:
        assert graph.count(rule) == walks
        assert graph.find(rule).count() == walks
        assert graph.count(rule, strategy="partitioned") == walks


@pytest.mark.spark
@pytest.mark.parametrize("names", [("a", "A"), ("a.b", "c"), ("a`b", "c d"), ("src", "task")])
def test_columns_of_frames_may_have_any_name(spark, names):
    frame = spark.createDataFrame([(1, 2), (2, 3)], names)
    found = bj.join("q(x, y, z) := r(x, y), r(y, z)", r=frame).collect()
    assert [tuple(row) for row in found] == [(1, 2, 3)]


@pytest.mark.spark
def test_a_relation_with_the_name_of_an_option(spark):
    table = pa.table({"x": [1]})
    with pytest.raises(BigjoinError, match="'limit' is an option of join"):
        bj.join("q(x) := limit(x)", limit=table, spark=spark)
    assert bj.Relations({"limit": table}, spark=spark).count("q(x) := limit(x)") == 1


@pytest.mark.spark
def test_cliques_too_large_for_one_job_take_several(spark):
    edges = [(i, j) for i in range(14) for j in range(i)]
    with bj.Graph(pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]}), directed=False, spark=spark) as graph:
        counted = graph.count("8-clique", unique=True, strategy="partitioned", workers=3)
        assert counted == 3003
        assert counted.stats["rounds"] > 1
