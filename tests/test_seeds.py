"""Seeds: filters that are applied before expansion, compared with brute force under every strategy."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from importlib.resources import files
from itertools import permutations, product
from pathlib import Path

import duckdb
import hypothesis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import bigjoin as bj
from bigjoin.errors import BigjoinError, QueryError
from bigjoin.explain import explain
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.languages import read
from bigjoin.planner import count_plan, delta_plan, factorized_plan, meaning, plan
from bigjoin.relations import Relations
from bigjoin.seed_sets import AllOf
from bigjoin.seeds import overlaid, seeded
from tests.executions import _listed, locally, total
from tests.oracles import naive
from tests.oracles import seeds as oracle
from tests.strategies import STRATEGIES
from tests.test_cli import refused, run, run_here
from tests.test_joins import ARITY, Atom, questions, sql, table_of

IDS = [3, 1, 20, 5, 8, 13, 2]
FLAGS = ("distinct", "unique", "induced")


@dataclass
class Drawn:
    """A graph, a query over it, and seeds, as plain data."""

    edges: list
    """Pairs, or rows with an id, which is their number."""
    undirected: bool
    has_rows: bool
    head: tuple
    atoms: list
    filters: list
    flags: dict
    seeds: list

    @property
    def text(self):
        body = [f"{'not ' * negated}edge({', '.join(names)})" for _, names, negated in self.atoms]
        return f"q({', '.join(self.head)}) := {', '.join([*body, *(f'{a} {op} {b}' for a, op, b in self.filters)])}"

    @property
    def given(self):
        """The seeds as users give them: each list of ids alone, others as tables."""
        parts = []
        for names, rows in self.seeds:
            if len(names) == 1:
                parts.append({names[0]: [row[0] for row in rows]})
            else:
                columns = [pa.array([row[i] for row in rows], pa.int64()) for i in range(len(names))]
                parts.append(pa.table(dict(zip(names, columns, strict=True))))
        return AllOf(parts)

    @property
    def relations(self):
        pairs = naive.undirected(self.edges) if self.undirected else {*self.edges}
        if not self.has_rows:
            return {"edge": pairs}
        ends = [{(a, b), (b, a)} if self.undirected else {(a, b)} for a, b in self.edges]
        return {"edge": pairs | {(*pair, number) for number, both in enumerate(ends) for pair in both}}

    @property
    def domains(self):
        rows = {names[2] for _, names, _ in self.atoms if len(names) > 2}
        return {name: "edge" if name in rows else "vertex" for name in self.head}


def draw(number):
    """Draw a question; the same one for the same number."""
    chance = random.Random(number)
    undirected, has_rows = chance.random() < 0.5, chance.random() < 0.3
    vertices = IDS[: chance.randint(3, 7)]
    pairs = [pair for pair in product(vertices, repeat=2) if not (undirected and pair[0] == pair[1])]
    edges = sorted(chance.sample(pairs, max(2, int(len(pairs) * chance.uniform(0.2, 0.8)))))
    edges += chance.choices(edges, k=3) if has_rows else []
    head = tuple("abcd"[: chance.randint(1, 4)])
    atoms = []
    for i, name in enumerate(head[1:], start=1):
        ends = [head[chance.randrange(i)], name]
        atoms.append(("edge", tuple(chance.sample(ends, 2)), False))
    for _ in range(chance.randint(0 if atoms else 1, 3)):
        ends = chance.sample(head, 2) if len(head) > 1 else [head[0]] * 2
        atoms.append(("edge", tuple(ends), False))
    if chance.random() < 0.2 and len(head) > 1:
        atoms.append(("edge", tuple(chance.sample(head, 2)), True))
    filters = [(*chance.sample(head, 1), chance.choice(["<", "!="]), *chance.sample(head, 1))] if chance.random() < 0.2 else []
    flags = {chance.choice(FLAGS): True} if chance.random() < 0.7 else {}
    rows = 0
    for i, (relation, names, negated) in enumerate(atoms):
        if has_rows and not negated and chance.random() < 0.6:
            atoms[i] = relation, (*names, f"e{rows}"), negated
            head, rows = (*head, f"e{rows}"), rows + 1
    values = {name: [*range(len(edges))] if name.startswith("e") else vertices for name in head}
    return Drawn(edges, undirected, has_rows, head, atoms, filters, flags, _seeds(chance, head, values))


def _seeds(chance, head, values):
    more = [99, None] if chance.random() < 0.4 else []
    found = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        width = min(chance.choice([1, 1, 2, 2, 3]), len(head))
        names = tuple(chance.sample(head, width))
        rows = [tuple(chance.choice(values[name] + more) for name in names) for _ in range(chance.choice([0, 1, 2, 4, 9]))]
        if chance.random() < 0.5:  # a set that exchanging columns leaves as it is
            rows = [tuple(row[i] for i in image) for row in rows for image in permutations(range(width))]
        found.append((names, rows + rows[:2]))
        if width == 1 and chance.random() < 0.5 and len(head) > 1:  # the same ids for another attribute
            found.append(((chance.choice([a for a in head if a != names[0]]),), chance.sample(rows, len(rows))))
    return found


def check(number, folder, *, every=False):
    drawn = draw(number)
    columns = {name: [pair[i] for pair in drawn.edges] for i, name in enumerate(("src", "dst"))}
    options = {"directed": not drawn.undirected, "shards": (1, 3)[number % 2], "parallel": drawn.has_rows}
    index = build_index(pa.table(columns), folder / f"{number}", **options)
    statement = seeded(read(drawn.text, **drawn.flags), drawn.given)
    wanted, group = oracle.matches(
        drawn.relations,
        drawn.head,
        drawn.atoms,
        drawn.filters,
        seeds=drawn.seeds,
        symmetric=drawn.undirected,
        domains=drawn.domains,
        **drawn.flags,
    )
    (part,) = meaning(statement.query, index.statistics)
    over = overlaid(index, part)
    bound = bind(plan(part), over)
    rows = locally(bound, over, batch_size=(1, 7, 64)[number % 3], parts=1 + number % 3, every=every)
    _compare(rows, wanted, group, f"{number}: {statement.query}\n{bound.plan}")
    counted = count_plan(part)
    assert total(counted, over, parts=2) == len(wanted), f"{number}: {statement.query}\n{counted}"
    nest = factorized_plan(part)
    found = _listed(nest, part.query, over, 5, 2, factorized=True)
    _compare(found, wanted, group, f"{number}: {statement.query}\n{nest}")


def _compare(rows, wanted, group, what):
    if group is not None:
        rows = [oracle.representative(row, group) for row in rows]
    assert Counter(rows) == Counter(wanted), what


@pytest.mark.parametrize("ten", range(12))
def test_seeds_are_filters(ten, tmp_path):
    for number in range(10 * ten, 10 * ten + 10):
        check(number, tmp_path, every=number % 10 == 0)


def test_a_root_that_seeds_only_check_is_not_read_beyond_its_codes(tmp_path):
    check(1489, tmp_path, every=True)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(40))
def test_thousands_of_seeds_are_filters(hundred, tmp_path):
    for number in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        check(number, tmp_path, every=True)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@hypothesis.given(questions(), st.lists(st.sampled_from([1, 2, 3, 5, 8]), max_size=4), st.sampled_from([1, 7, 1000]))
def test_seeds_of_relations_are_conditions_of_sql(question, ids, batch_size):
    tables, head, atoms, filters, _ = question
    attribute = next(a for one in atoms if not one.sign for a in one.arguments if isinstance(a, str))
    body = [*map(str, atoms), *(f"{a} {op} {b}" for a, op, b in filters)]
    statement = seeded(read(f"q({', '.join(head)}) := {', '.join(body)}", cross_product=True), {attribute: ids})
    arrow = {name: table_of(tuples, ARITY[name]) for name, tuples in tables.items()}
    arrow["given"] = pa.table({"c0": pa.array(ids, pa.int64())})
    connection = duckdb.connect()
    for name, table in arrow.items():
        connection.register(name, table)
    wanted = connection.execute(
        sql(head, [*atoms, Atom("given", [attribute], columns=["c0"])], filters, distinct=False)
    ).fetchall()
    found = []
    with Relations(arrow) as relations:
        index = relations._index_for(statement.query)
        for part in meaning(statement.query, index.statistics):
            over = overlaid(index, part)
            bound = bind(plan(part), over)
            columns = [output.name for output in bound.columns]
            rows = locally(bound, over, batch_size=batch_size, parts=2)
            found += [tuple(dict(zip(columns, row, strict=True)).get(name) for name in head) for row in rows]
    assert Counter(found) == Counter(wanted), str(statement.query)


# What plans do with seeds


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Every pair of 40 vertices whose numbers differ by 1, 2 or 3, with ids that are ten times as large."""
    pairs = [(10 * a, 10 * b) for a in range(40) for b in range(a) if a - b <= 3]
    edges = pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]})
    return build_index(edges, tmp_path_factory.mktemp("seeds") / "index", directed=False, parallel=True)


def planned(index, text, given, **flags):
    (part,) = meaning(seeded(read(text, **flags), given).query, index.statistics)
    return plan(part), part


def counted(index, text, given, **flags):
    _, part = planned(index, text, given, **flags)
    return total(count_plan(part), overlaid(index, part))


def test_a_plan_starts_from_its_seeds(graph):
    chosen, part = planned(graph, "triangle", {"a3": [10, 20]})
    assert str(chosen).startswith("1. p1(a3) := seeds(a3)\n")
    assert chosen.steps[0].extenders[0].atom.relation == "edge"
    joint, _ = planned(graph, "4-cycle", pa.table({"a1": [10], "a3": [30]}))
    assert str(joint).startswith("1. p1(a1, a3) := seeds(a1, a3)\n")
    counting = count_plan(part)
    assert "over a3: seeds(a3)" in str(counting).splitlines()[1]


def test_ids_of_edges_lead_to_their_ends(graph):
    chosen, part = planned(graph, "q(a,b,c,e) := edge(a,b,e), edge(b,c), edge(c,a)", {"e": [7, 8]})
    assert "seeded_edge(" in str(chosen).splitlines()[0]
    over = overlaid(graph, part)
    assert {name: len(columns[0]) for name, columns in over.relations.items()} == {"seeds": 2, "seeded_edge": 4}


def test_equal_seeds_are_one_relation_and_keep_a_symmetry(graph):
    near = {10 * a: {10 * b for b in range(40) if 0 < abs(a - b) <= 3} for a in range(40)}
    some = [10, 20, 30]
    pairs = [(a, b) for a in some for b in some if a < b]
    both = sum(len(near[a] & near[b]) for a, b in pairs)
    assert counted(graph, "triangle", dict.fromkeys(("a1", "a2", "a3"), some), unique=True) == 1
    assert counted(graph, "triangle", {"a1": some, "a2": [30, 20, 10, 10, None]}, unique=True) == both
    one_way = pa.table({"a1": [a for a, _ in pairs], "a2": [b for _, b in pairs]})
    two_ways = pa.concat_tables([one_way, one_way.select(["a2", "a1"]).rename_columns(["a1", "a2"])])
    assert counted(graph, "triangle", one_way, unique=True) == both
    assert counted(graph, "triangle", two_ways, unique=True) == both
    assert counted(graph, "triangle", two_ways, distinct=True) == 2 * both
    alone = sum(b < c and c in near[b] for a in some for b in near[a] for c in near[a])
    assert counted(graph, "triangle", {"a1": some}, unique=True) == alone


def test_what_an_index_lacks_matches_nothing(graph):
    for given in ({"a1": []}, {"a1": [5]}, {"a1": [None]}, {"a1": 5.5}, {"a1": 2**70 * 1.0}, {"a1": [10], "a2": [11]}):
        assert counted(graph, "triangle", given) == 0
    every = [10 * a for a in range(40)]
    everything = counted(graph, "triangle", {"a1": every})
    assert everything > 0
    assert counted(graph, "triangle", {"a1": [*every[1:], 1]}) < everything  # as many ids as vertices, but not all of them


def test_many_seeds_of_many_attributes(graph):
    every = [10 * a for a in range(40)]
    wide = pa.table({f"a{i + 1}": every[i : 36 + i] for i in range(5)})
    assert counted(graph, "q(a1,a2,a3,a4,a5) := edge(a1,a2), edge(a2,a3), edge(a3,a4), edge(a4,a5)", wide) == 36
    thousands = {"a1": range(100_000), "a2": np.arange(100_000)}
    assert counted(graph, "triangle", thousands) == counted(graph, "triangle", {"a1": every})


def test_seeds_are_given_in_many_forms(graph, tmp_path):
    wanted = counted(graph, "triangle", {"a1": [10, 30]})
    (tmp_path / "ids.txt").write_text("10\n30\n30\n")
    (tmp_path / "titled.csv").write_text("# ids\na1\n 10\n30\n\n")
    (tmp_path / "wide.csv").write_text("name,a1\nx,10\ny,30\n")
    (tmp_path / "ids.json").write_text('{"a1": 10}\n{"a1": 30}\n')
    pq.write_table(pa.table({"a1": pa.array([10, 30], pa.int32())}), tmp_path / "ids.parquet")
    for ids in (
        [30, 10, 10],
        (10, 30),
        {10, 30},
        iter([10, 30]),
        np.array([10, 30], np.uint8),
        [np.int64(10), np.int64(30)],
        pd.Series([10, None, 30]),
        pd.Series([10, 30], dtype="category"),
        pd.Index([10, 30]),
        pd.DataFrame({"any": [10, 30]}),
        pa.array([10, 30]).dictionary_encode(),
        pa.chunked_array([[10], [30, None]]),
        pa.table({"any": [10, 30]}),
        [Decimal(10), Decimal(30)],
        [10.0, 30.0, float("nan")],
        tmp_path / "ids.txt",
        tmp_path / "titled.csv",
        tmp_path / "wide.csv",
        tmp_path / "ids.parquet",
        tmp_path / "ids.json",
    ):
        assert counted(graph, "triangle", {"a1": ids}) == wanted, ids
    for given in (
        pa.table({"a1": [10, 30, 30]}),
        pa.RecordBatch.from_pydict({"a1": [10, 30]}),
        pd.DataFrame({"a1": [10, 30]}),
        [{"a1": 10}, {"a1": 30}],
        tmp_path / "titled.csv",
        str(tmp_path / "ids.parquet"),
        AllOf([{"a1": [10, 30, 50]}, tmp_path / "titled.csv"]),
    ):
        assert counted(graph, "triangle", given) == wanted, given
    for one in (10, np.int64(10), pa.scalar(10)):
        assert counted(graph, "triangle", {"a1": one}) == counted(graph, "triangle", {"a1": [10]})
    assert counted(graph, "triangle", pa.table({"a1": [10, 20], "a2": [20, 40]})) == 6


@pytest.mark.parametrize("kind", [pa.string(), pa.timestamp("us"), pa.date32(), pa.decimal128(9, 2), pa.binary()])
def test_ids_of_any_type(tmp_path, kind):
    days = [date(2024, 1, day) for day in range(1, 8)]
    spelled = {
        pa.string(): [f"0{day.day}" for day in days],
        pa.timestamp("us"): [datetime(2024, 1, day.day, 12) for day in days],
        pa.date32(): days,
        pa.decimal128(9, 2): [Decimal(day.day) / 4 for day in days],
        pa.binary(): [bytes([day.day]) for day in days],
    }[kind]
    edges = pa.table({"src": pa.array(spelled[:6], kind), "dst": pa.array(spelled[1:], kind)})
    index = build_index(edges, tmp_path / "index")
    rule = "q(a,b,c) := edge(a,b), edge(b,c)"
    assert counted(index, rule, {"b": [spelled[1], spelled[3], spelled[0]]}) == 2
    assert counted(index, rule, pa.table({"a": pa.array(spelled[:2], kind), "c": pa.array(spelled[2:4], kind)})) == 2
    if kind != pa.binary():
        (tmp_path / "ids.csv").write_text("b\n" + "".join(f"{value}\n" for value in (spelled[1], spelled[3], spelled[0])))
        assert counted(index, rule, tmp_path / "ids.csv") == 2


def test_ids_that_are_no_integers_but_floats(tmp_path):
    values = [0.0, 0.5, float("inf"), float("nan"), 2.0, *map(float, range(10, 60))]
    with Relations({"r": pa.table({"x": list(range(55)), "y": values})}) as relations:
        for ids, many in [
            ([-0.0], 1),
            ([0], 1),
            ([0.5, float("inf"), 7.5], 2),
            ([float("nan"), 2], 2),
            (np.arange(60), 52),
            (pd.Series([2.0, None]), 1),
        ]:
            query = seeded(read("q(x, y) := r(x, y)"), {"y": ids}).query
            index = relations._index_for(query)
            (part,) = meaning(query, index.statistics)
            assert total(count_plan(part), overlaid(index, part)) == many, ids


def test_ids_that_updates_have_added_are_seeds_too():
    graph = bj.Graph([(i, i + 1) for i in range(100)])
    graph.apply(pa.table({"src": [100, 5000, 5], "dst": [5000, 1, 7], "op": ["+"] * 3}), "triangle")
    assert counted(graph._without_runs(), "q(a,b,c) := edge(a,b), edge(b,c)", {"b": [5000, 5, 6000]}) == 3
    graph.close()


def test_seeds_meet_optional_atoms_and_sums_of_queries(tmp_path):
    likes, knows = [(1, 2), (2, 3), (3, 1), (4, 1)], [(1, 3), (4, 4)]
    tables = {
        name: pa.table({"src": [a for a, _ in rows], "dst": [b for _, b in rows]})
        for name, rows in {"likes": likes, "knows": knows}.items()
    }
    index = build_index(tables, tmp_path / "index")

    def rows(text, given):
        found = []
        for block in seeded(read(text), given).blocks:
            for part in meaning(block.query, index.statistics):
                over = overlaid(index, part)
                bound = bind(plan(part), over)
                columns = [column.name for column in bound.columns]
                for row in locally(bound, over, batch_size=7, parts=1, every=True):
                    found.append(tuple(dict(zip(columns, row, strict=True)).get(name) for name in block.query.columns))
        return sorted(found, key=repr)

    assert rows("q(a, b, c) := likes(a, b), optional knows(b, c)", {"a": [3, 2]}) == [(2, 3, None), (3, 1, 3)]
    either = rows("MATCH (a)-[:likes|knows]-(b) RETURN a, b", {"a": [1]})
    assert either == [(1, 2), (1, 3), (1, 3), (1, 4)]
    assert rows("MATCH (a)-[]->(b) RETURN a, b", pa.table({"a": [1, 1, 4], "b": [3, 4, 4]})) == [(1, 3), (4, 4)]


# Mistakes

MISTAKES = {
    "another name": ({"A1": [1]}, "there are seeds for 'A1', which the query does not have\nhint: did you mean 'a1'?"),
    "none of its names": (
        {"a9": [1]},
        "there are seeds for 'a9', which the query does not have\nhint: its attributes are a1, a2, a3",
    ),
    "no such name": (
        pa.table({"a1": [1], "price": [2]}),
        "there are seeds for 'price', which the query does not have\nhint: its attributes are a1, a2, a3",
    ),
    "text for numbers": (
        {"a1": ["x"]},
        "the seeds of 'a1' are text (string), and the ids that they are compared with are numbers (int64)",
    ),
    "truth values": ({"a1": [True]}, "the seeds of 'a1' are bool, and the ids that they are compared with are numbers (int64)"),
    "both": ({"a1": [1, "x"]}, "the seeds of 'a1': column 'a1' holds both int and str: make them one type"),
    "lists": ({"a1": [[1], [2]]}, "the seeds of 'a1': a mapping holds columns of one length by name"),
    "ids alone": (
        [5, 7],
        "the seeds do not say which attributes they restrict; name them, as in seeds={'a1': [5, 7]}, or give a table",
    ),
    "pairs alone": ([(5, 7)], "the seeds do not say which attributes they restrict"),
    "nothing": ({}, "the seeds are empty: name an attribute and its ids, as in seeds={'a1': [5, 7]}"),
    "a number for a name": ({5: [1]}, "seeds has the key 5: name an attribute, as in seeds={'a1': [5, 7]}"),
    "two columns for one": (
        {"a1": pa.table({"x": [1], "y": [2]})},
        "the seeds of 'a1' are a table of 2 columns; give one column, or the table itself, as in seeds=table",
    ),
    "no file": ("nowhere.csv", "there is no file or directory nowhere.csv"),
    "no table": (5, "seeds is a int; give a DataFrame, an Arrow table, a pandas frame"),
    "no columns": (pa.table({}), "the table of seeds has no columns: name them after attributes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(graph, mistake):
    given, message = MISTAKES[mistake]
    with pytest.raises(BigjoinError) as error:
        counted(graph, "triangle", given)
    assert str(error.value).startswith(message), str(error.value)


def test_mistakes_in_files(graph, tmp_path):
    (tmp_path / "ids.txt").write_text("10\n30\n")
    (tmp_path / "bad.csv").write_text("a1\n10\nten\n")
    (tmp_path / "wide.csv").write_text("x,y\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    for given, message in [
        (tmp_path / "ids.txt", "names attributes, and a list of ids alone is a1=FILE"),
        (tmp_path / "bad.csv", "the seeds of 'a1' include 'ten', and the ids that they are compared with are numbers (int64)"),
        (tmp_path / "empty.csv", "is empty: its first line names attributes, and the lines below hold their ids"),
        ({"a1": tmp_path / "wide.csv"}, "has 2 columns, and none is called 'a1'"),
    ]:
        with pytest.raises(BigjoinError) as error:
            counted(graph, "triangle", given)
        assert message in str(error.value)
    assert counted(graph, "triangle", {"a1": tmp_path / "empty.csv"}) == 0


def test_what_has_no_ids_has_no_seeds(graph, tmp_path):
    pairs = build_index(pa.table({"src": [1, 2], "dst": [2, 3]}), tmp_path / "pairs")
    with pytest.raises(QueryError, match="'e' has no ids in this source, so there are no seeds for it"):
        planned(pairs, "(a)-[e]->(b)", {"e": [0]})
    with pytest.raises(QueryError, match="'c' may be NULL"):
        planned(graph, "q(a,b,c) := edge(a,b), optional edge(b,c,e)", {"c": [10]})
    with pytest.raises(QueryError, match="'d' may be NULL, or belongs to a further pattern"):
        seeded(read("MATCH (a)-->(b) OPTIONAL MATCH (b)-->(c)-->(d) RETURN a, d"), {"d": [1]})
    with pytest.raises(QueryError, match="delta queries have no seeds"):
        delta_plan(seeded(read("triangle"), {"a1": [1]}).query, graph.statistics)
    with pytest.raises(QueryError, match="delta queries have no seeds"):
        explain(seeded(read("triangle"), {"a1": [1]}), delta=True)
    with pytest.raises(QueryError, match="seeds restrict one question, not a query that is stored or watched"):
        bj.Graph.over(graph).materialize("tri", "triangle", seeds={"a1": [1]})


def test_the_example_by_brute_force():
    near = {}
    for line in gzip.decompress((files("bigjoin.data") / "soc-Epinions1.txt.gz").read_bytes()).decode().splitlines():
        if not line.startswith("#"):
            a, b = map(int, line.split()[:2])
            near.setdefault(a, set()).add(b), near.setdefault(b, set()).add(a)
    some = [18, 143, 645]
    one = sum(len(near[a] & near[b] - {a, b}) for a in some for b in near[a] - {a}) // 2
    two = sum(len(near[a] & near[b] - {a, b}) for a in some for b in some if a < b and b in near[a])
    pairs = sum(len(near[a] & near[b] - {a, b}) for a, b in [(18, 645), (143, 645)] if b in near[a])
    lines = (Path(__file__).parents[1] / "examples" / "seeds.out").read_text().splitlines()
    assert [int(line.rpartition(" ")[2]) for line in lines[1:4]] == [one, two, pairs]


# Through Spark

CHAINS = [(a, b) for a in range(12) for b in range(12) if a != b and (a * b + a) % 5 < 2]
"""The edges of a small graph that no exchange of vertices leaves as it is."""


def triangles(keep):
    edges = set(CHAINS)
    return sorted(((a, b, c) for a, b in edges for c in range(12) if {(a, c), (b, c)} <= edges and keep(a, b, c)), key=repr)


def rows_of(frame):
    return sorted(map(tuple, frame.collect()), key=repr)


@pytest.fixture(scope="module")
def chains(spark):
    with bj.Graph(CHAINS, parallel=True, spark=spark) as graph:
        yield graph


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_verb_of_every_strategy_takes_seeds(spark, chains, tmp_path, strategy):
    run = {"strategy": strategy, "workers": 3}
    wanted = triangles(lambda a, b, c: a in (1, 4, 6))
    counted = chains.count("triangle", seeds={"a1": [1, 4, 6, 99, 4]}, **run)
    assert counted == len(wanted) > 0
    assert chains.count("triangle", seeds={"a1": [1]}, **run) == len(triangles(lambda a, b, c: a == 1)) < len(wanted)
    assert chains.count("triangle", **run) == len(triangles(lambda a, b, c: True)) > len(wanted)
    assert counted.stats["seeds"] == [{"relation": "seeds", "tuples": 4, "held": 3}]
    assert rows_of(chains.find("triangle", seeds={"a1": pd.Series([1, 4, 6])}, **run)) == wanted
    pairs = spark.createDataFrame([(4, 9), (6, 4), (6, 5), (6, 5), (99, 1), (None, 4)], "a1 long, a3 long")
    jointly = triangles(lambda a, b, c: (a, c) in {(4, 9), (6, 4), (6, 5)})
    assert jointly
    assert rows_of(chains.find("triangle", seeds=pairs, **run)) == jointly
    assert chains.find("triangle", seeds=pairs, limit=1, **run).count() == 1
    assert chains.exists("triangle", seeds=pairs, **run)
    assert not chains.exists("triangle", seeds={"a1": []}, **run)
    assert chains.write("triangle", tmp_path / "out.parquet", seeds=pairs, **run) == len(jointly)
    written = [tuple(row.values()) for row in pq.read_table(tmp_path / "out.parquet").to_pylist()]
    assert sorted(written, key=repr) == jointly
    lines = [line for piece in chains.pieces("triangle", ".csv", seeds=pairs, **run) for line in piece.read_text().split()]
    assert sorted((tuple(map(int, line.split(","))) for line in lines), key=repr) == jointly


TEXTS = {
    "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)": ("a", "b"),
    "MATCH (a)-[e]->(b)-[]->(c) WHERE NOT EXISTS { (c)-[]->(d)-[]->(a) } RETURN a, b, e": ("a", "b"),
    "MATCH (a)-[]->(b) WHERE EXISTS { (b)-[]->(c)-[]->(a) } RETURN a, b": ("a", "b"),
    "MATCH (a)-[]-(b) OPTIONAL MATCH (b)-[]->(c)-[]->(a) RETURN a, b, c": ("b",),
    "MATCH (a)-[e]->(b) RETURN DISTINCT a, e": ("a", "e"),
}
"""Texts in other languages, and the names that are restricted."""


@pytest.mark.spark
@pytest.mark.parametrize("text", [pytest.param(text, marks=pytest.mark.slow if i % 4 else ()) for i, text in enumerate(TEXTS)])
def test_motifs_and_cypher_take_seeds(chains, text):
    names, every = TEXTS[text], chains.find(text)
    rows, places = rows_of(every), [every.columns.index(name) for name in names]
    keys = [tuple(_id(row[i]) for i in places) for row in rows]
    some = sorted(set(keys))[::3]
    seeds = pa.table({name: [key[i] for key in some] for i, name in enumerate(names)})
    wanted = [row for row, key in zip(rows, keys, strict=True) if key in some]
    assert 0 < len(wanted) < len(rows)
    assert rows_of(chains.find(text, seeds=seeds)) == wanted
    assert chains.count(text, seeds=seeds) == len(wanted)


@pytest.mark.spark
def test_explanations_show_seeds(chains):
    assert "seeds(a)" in chains.explain("MATCH (a)-[]->(b) RETURN a, b", seeds={"a": [1, 99]})
    explained = chains.explain("triangle", seeds={"a1": [1, 99]}, analyze=True)
    assert "seeds: 2 ids, of which the source has 1" in explained
    assert explained.stats["seeds"][0]["held"] == 1


def _id(value):
    """The id of a vertex, which in the rows of a motif is part of a struct."""
    return value["id"] if hasattr(value, "asDict") else value


@pytest.mark.spark
def test_relations_and_joins_take_seeds(spark):
    tables = {"r": pa.table({"x": ["a", "b", "c"], "y": [1, 2, 2]}), "s": pa.table({"y": [1, 2], "z": [0.5, 1.5]})}
    rule = "q(x, y, z) := r(x, y), s(y, z)"
    with Relations(tables, spark=spark) as relations:
        assert relations.count(rule, seeds={"y": [2, 3]}) == 2
        assert relations.count(rule, seeds={"x": "a"}) == 1
        assert relations.count(rule, seeds={"z": [1.5, 7.5]}, strategy="partitioned") == 2
        assert relations.count(rule, seeds=[{"x": "b", "z": 1.5}, {"x": "c", "z": 0.5}]) == 1
    assert rows_of(bj.join(rule, **tables, seeds={"x": ["b"]}, spark=spark)) == [("b", 2, 1.5)]
    named = bj.join("q(x, y) := r(x, y), seeds(x)", r=tables["r"], seeds=pa.table({"x": ["c", "d"]}), spark=spark)
    assert rows_of(named) == [("c", 2)]


@pytest.mark.spark
def test_the_command_takes_seeds(spark, tmp_path):
    (tmp_path / "g.txt").write_text("".join(f"{a} {b}\n" for a, b in CHAINS))
    (tmp_path / "ids.txt").write_text("1\n4\n")
    (tmp_path / "pairs.csv").write_text("a1,a3\n4,9\n6,4\n")
    found = run_here("count", "triangle", "g.txt", "--seeds", "a1=ids.txt", cwd=tmp_path)
    assert int(found.stdout) == len(triangles(lambda a, b, c: a in (1, 4)))
    found = run_here("find", "triangle", "g.txt", "--seeds", "pairs.csv", "--seeds", "a1=ids.txt", cwd=tmp_path)
    wanted = triangles(lambda a, b, c: (a, c) == (4, 9))
    assert sorted((tuple(map(int, line.split(","))) for line in found.stdout.split()[1:]), key=repr) == wanted
    assert "p1(a1) := seeds(a1)" in run_here("explain", "triangle", "g.txt", "--seeds", "a1=ids.txt", cwd=tmp_path).stdout


def test_the_command_refuses_seeds_that_fit_no_query(tmp_path):
    (tmp_path / "g.txt").write_text("1 2\n")
    (tmp_path / "ids.txt").write_text("1\n4\n")
    for seeds, message in [
        ("b=ids.txt", "there are seeds for 'b', which the query does not have"),
        ("ids.txt", "the first line of a text names attributes, and a list of ids alone is a1=FILE"),
        ("a1=", "write ATTRIBUTE=FILE"),
        ("a1=nowhere.txt", "there is no file or directory nowhere.txt"),
    ]:
        arguments = ["count", "triangle", "g.txt", "--seeds", seeds]
        assert refused(run(*arguments, cwd=tmp_path, JAVA_HOME="/nowhere"), message)
    explained = run("explain", "triangle", "--seeds", "a1=ids.txt", cwd=tmp_path, JAVA_HOME="/nowhere").stdout
    assert "seeds(a1)" in explained
