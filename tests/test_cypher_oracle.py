"""The brute force for Cypher on answers that were computed by hand."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.oracles import kuzu_twin
from tests.oracles.cypher import Query, answer
from tests.oracles.cypher_text import Spelling, render, render_kuzu
from tests.oracles.random_cypher import draw_cypher, draw_cypher_graph

# 1 knows 2 twice (10, 11) and itself (12); 2 knows 3 (13); 3 likes 1 (14). Nobody knows what 4 does.
GRAPH = (
    {
        1: ({"Person"}, {"age": 30, "city": "x"}),
        2: ({"Person", "Admin"}, {"age": 20, "city": "y"}),
        3: ({"Person"}, {"city": "x"}),
        4: (set(), {"age": 20}),
    },
    [
        (10, 1, 2, "KNOWS", {"since": 5}),
        (11, 1, 2, "KNOWS", {}),
        (12, 1, 1, "KNOWS", {"since": 7}),
        (13, 2, 3, "KNOWS", {"since": 6}),
        (14, 3, 1, "LIKES", {}),
    ],
)
ANY = (None, (), ())


def node(name, *labels, **properties):
    return name, labels, tuple((key, ("literal", value)) for key, value in properties.items())


def edge(name=None, *types, direction="out", **properties):
    return name, types, direction, tuple((key, ("literal", value)) for key, value in properties.items())


def match(*patterns, where=None, kind="match"):
    return kind, patterns, where


def returned(*names):
    return tuple(("property", *name.split(".")) if "." in name else ("variable", name) for name in names)


def compare(left, operator, right):
    sides = [returned(side)[0] if isinstance(side, str) else ("literal", side) for side in (left, right)]
    return "compare", operator, *sides


def rows(clauses, returns, **options):
    graph_options = {name: options.pop(name) for name in ("pairs", "undirected") if name in options}
    return sorted(answer(Query(tuple(clauses), returned(*returns), **options), GRAPH, **graph_options), key=repr)


def test_labels_types_and_properties():
    a, b = node("a"), node("b")
    assert rows([match((node("a", "Admin"),))], ["a"]) == [(2,)]
    assert rows([match((node("a", "Person", "Admin", age=20),))], ["a"]) == [(2,)]
    assert rows([match((a, edge("e", "LIKES", "OTHER"), b))], ["a", "e", "b"]) == [(3, 14, 1)]
    assert rows([match((a, edge("e", since=6), b))], ["a", "e", "b"]) == [(2, 13, 3)]
    assert rows([match((a, edge("e", "KNOWS", direction="in"), b))], ["a", "b"]) == [(1, 1), (2, 1), (2, 1), (3, 2)]


def test_an_undirected_pattern_matches_both_directions_and_a_loop_once():
    pattern = node("a"), edge("e", "KNOWS", direction="both"), node("b")
    assert rows([match(pattern)], ["e", "a", "b"]) == [
        *[(10, 1, 2), (10, 2, 1), (11, 1, 2), (11, 2, 1), (12, 1, 1), (13, 2, 3), (13, 3, 2)],
    ]


def test_relationships_differ_within_a_clause_only():
    first, second = (node("a"), edge("e"), node("b")), (node("a"), edge("f"), node("c"))
    only = compare("a", "<>", "b")
    together = rows([match(first, second, where=only)], ["e", "f"])
    assert together == [(10, 11), (10, 12), (11, 10), (11, 12)]
    apart = rows([match(first, where=only), match(second)], ["e", "f"])
    assert apart == [(10, 10), (10, 11), (10, 12), (11, 10), (11, 11), (11, 12), (13, 13), (14, 14)]
    assert rows([match(first), match((node("c"), edge("e"), node("d")))], ["c", "d"]) == [
        (1, 1),
        (1, 2),
        (1, 2),
        (2, 3),
        (3, 1),
    ]


def test_nodes_may_repeat():
    path = node("a"), edge(), node("b"), edge(), node("c")
    assert rows([match(path)], ["a", "b", "c"]) == [
        *[(1, 1, 2), (1, 1, 2), (1, 2, 3), (1, 2, 3), (2, 3, 1), (3, 1, 1), (3, 1, 2), (3, 1, 2)],
    ]


def test_unknown_is_not_true():
    assert rows([match((node("a"),), where=compare("a.age", "<", 30))], ["a"]) == [(2,), (4,)]
    assert rows([match((node("a"),), where=("not", compare("a.age", "<", 30)))], ["a"]) == [(1,)]
    assert rows([match((node("a"),), where=compare("a.city", "<>", "a.age"))], ["a"]) == [(1,), (2,)]
    assert rows([match((node("a"),), where=compare("a.city", "<", "a.age"))], ["a"]) == []
    both = "or", compare("a.age", ">", 25), compare("a.city", "<>", "b.city")
    assert rows([match((node("a"),), (node("b", "Admin"),), where=both)], ["a"]) == [(1,), (3,)]


def test_optional_patterns():
    a = match((node("a"),))
    out = node("a"), edge("e", "KNOWS"), node("b")
    assert rows([a, match(out, kind="optional")], ["a", "e"]) == [(1, 10), (1, 11), (1, 12), (2, 13), (3, None), (4, None)]
    where = compare("e.since", ">", 5)
    assert rows([a, match(out, where=where, kind="optional")], ["a", "b"]) == [(1, 1), (2, 3), (3, None), (4, None)]
    further = match((node("b"), edge("f"), node("c")), kind="optional")
    assert rows([match((node("a", city="x"),)), match(out, where=where, kind="optional"), further], ["a", "b", "c"]) == [
        *[(1, 1, 1), (1, 1, 2), (1, 1, 2), (3, None, None)],
    ]
    assert rows([a, match(out, kind="optional"), match((node("b"),))], ["a", "b"]) == [(1, 1), (1, 2), (1, 2), (2, 3)]
    assert rows([a, match(out, kind="optional", where=compare("a.age", "<", 25))], ["a", "b"])[:2] == [(1, None), (2, 3)]
    assert rows([a, match(out, kind="optional")], ["a", "b.age"])[-2:] == [(3, None), (4, None)]


def test_patterns_as_conditions():
    loop = "pattern", (node("a"), edge(), node("a"))
    assert rows([match((node("a"),), where=loop)], ["a"]) == [(1,)]
    assert rows([match((node("a"),), where=("not", loop))], ["a"]) == [(2,), (3,), (4,)]
    two = ((node("a"), edge(), node("x")), (node("a"), edge(), node("y")))
    assert rows([match((node("a"),), where=("exists", two, None))], ["a"]) == [(1,)]  # inside, relationships differ
    older = "exists", ((node("a"), edge(), node("x")),), compare("x.age", "<", "a.age")
    assert rows([match((node("a"),), where=older)], ["a"]) == [(1,)]
    again = match((node("a"), edge("e"), node("b")), where=("pattern", (node("a"), edge(None, "KNOWS"), node("b"))))
    assert rows([again], ["e"]) == [(10,), (11,), (12,), (13,)]  # outside, they need not


def test_what_is_returned():
    clause = match((node("a"), edge("e"), node("b")))
    assert rows([clause], ["a"], distinct=True) == [(1,), (2,), (3,)]
    counted = Query((clause,), (("count",),))
    assert answer(counted, GRAPH) == [(5,)]
    assert answer(counted._replace(clauses=(match((node("a", "Nobody"),)),)), GRAPH) == [(0,)]
    grouped = Query((clause,), (("property", "b", "age"), ("count",)), order=((1, False), (0, True)))
    assert answer(grouped, GRAPH) == [(20, 2), (30, 2), (None, 1)]
    ages = Query((match((node("a"),)),), (("property", "a", "age"), ("variable", "a")), order=((0, True), (1, False)))
    assert answer(ages, GRAPH) == [(20, 4), (20, 2), (30, 1), (None, 3)]
    assert answer(ages._replace(order=((0, False), (1, True)), limit=2), GRAPH) == [(None, 3), (30, 1)]
    wanted = ("compare", ">", ("property", "a", "age"), ("parameter", "least"))
    asked = Query((match((node("a"),), where=wanted),), (("variable", "a"),), parameters={"least": 20})
    assert answer(asked, GRAPH) == [(1,)]


def test_pairs_and_undirected_graphs():
    path = node("a"), edge("e", "KNOWS"), node("b")
    assert rows([match(path)], ["e"], pairs=True) == [((1, 1),), ((1, 2),), ((2, 3),)]
    assert rows([match(path)], ["a", "b"], undirected=True) == [(1, 1), (1, 2), (1, 2), (2, 1), (2, 1), (2, 3), (3, 2)]
    two = (*path, edge("f"), node("c"))
    assert rows([match(two)], ["a", "b", "c"], pairs=True, undirected=True) == [
        *[(1, 1, 2), (1, 1, 3), (1, 2, 3), (2, 1, 1), (2, 1, 3), (2, 3, 1), (3, 2, 1)],
    ]


def test_one_seed_draws_one_query():
    for seed in range(20):
        one, other = ((random := Random(seed), draw_cypher_graph(random)) for _ in range(2))
        assert one[1] == other[1]
        assert draw_cypher(*one) == draw_cypher(*other)


def test_a_query_has_many_spellings():
    a, b = node("a", "A", x=1), node("b")
    clause = match((a, edge("e", "R", "S", direction="in"), b, edge(), ANY), where=compare("a", "<>", "b"))
    query = Query((clause,), returned("a", "b.x"), order=((1, False), (0, True)), limit=2)
    texts = {render(query, Random(seed)) for seed in range(200)}
    assert len(texts) > 150
    plain = "MATCH (a:A {x: 1})<-[e:R|S]-(b)-[]->() WHERE a <> b RETURN a, b.x ORDER BY b.x DESC, a LIMIT 2"
    split = "MATCH (b)-->(), (a:A)<-[e:R|S]-(b) WHERE 1 = a.x AND a <> b RETURN a, b.x ORDER BY b.x DESC, a LIMIT 2"
    upper = {render(query, _Upper(seed)).replace("\n", " ") for seed in range(10_000)}
    assert {plain, split} <= upper


def test_rewrites_mean_the_same():
    for seed in range(300):
        random = Random(seed)
        graph = draw_cypher_graph(random)
        text, query = draw_cypher(random, graph)
        clauses = []
        for kind, patterns, where in query.clauses:
            patterns, conditions = Spelling(random).rewritten(list(patterns), [] if where is None else [where])
            clauses.append((kind, patterns, ("and", *conditions)))
        other = query._replace(clauses=clauses)
        assert Counter(answer(query, graph)) == Counter(answer(other, graph)), text


class _Upper(Random):
    """Keywords as they are in most texts."""

    def choice(self, few):
        return few[0] if isinstance(few, list) and isinstance(few[0], str) else super().choice(few)


def test_kuzu_agrees():
    pytest.importorskip("kuzu")
    for seed in range(20):
        random = Random(seed)
        graph = draw_cypher_graph(random)
        database = kuzu_twin.connection(graph)
        for _ in range(20):
            text, query = draw_cypher(random, graph)
            other = render_kuzu(query, graph)
            if other is not None:
                assert Counter(kuzu_twin.run(database, other, query.parameters)) == Counter(answer(query, graph)), text
