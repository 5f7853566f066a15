"""The brute force for Cypher on answers that were computed by hand."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from random import Random

import pytest

from tests.oracles import kuzu_twin
from tests.oracles.cypher import NamedPath, Query, Returned, With, answer
from tests.oracles.cypher_text import Spelling, render
from tests.oracles.cypher_values import NoValueError, comparable
from tests.oracles.kuzu_text import render_kuzu
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


def by(*places):
    """An order by columns, each up or down."""
    return tuple((("column", place), is_ascending) for place, is_ascending in places)


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


def hops(name, fewest, most, *types, direction="out", **properties):
    name, types, direction, properties = edge(name, *types, direction=direction, **properties)
    return name, types, direction, (fewest, most), properties


def test_relationships_of_several_hops():
    a, b = node("a"), node("b")
    assert rows([match((a, hops("e", 2, 2, "KNOWS"), b))], ["e"]) == [((10, 13),), ((11, 13),), ((12, 10),), ((12, 11),)]
    back = match((a, hops("e", 2, 2, "KNOWS", direction="in"), b))
    assert rows([back], ["a", "e"]) == [(2, (10, 12)), (2, (11, 12)), (3, (13, 10)), (3, (13, 11))]
    longer = match((node("a", "Admin"), hops("e", 1, 2), b))
    assert rows([longer], ["b", "e"]) == [(1, (13, 14)), (3, (13,))]
    ring = match((a, hops("e", 3, 3), a))
    assert rows([ring], ["a", "e"]) == [
        *[(1, (10, 13, 14)), (1, (11, 13, 14)), (2, (13, 14, 10)), (2, (13, 14, 11)), (3, (14, 10, 13)), (3, (14, 11, 13))],
    ]
    both = match((a, hops("e", 1, 2, "KNOWS"), b), (a, edge("f", "KNOWS"), b))  # which differ from each other
    assert rows([both], ["e", "f"]) == [((10,), 11), ((11,), 10), ((12, 10), 11), ((12, 11), 10)]
    assert rows([match((a, hops("e", 1, 2, since=7), b))], ["e"]) == [((12,),)]
    assert rows([match((node("a", "Admin"), hops("e", 2, 2, direction="both"), b))], ["e"]) == [
        *[((10, 11),), ((10, 12),), ((10, 14),), ((11, 10),), ((11, 12),), ((11, 14),), ((13, 14),)],
    ]


def test_lists_of_paths():
    path = NamedPath.of("p", (node("a", "Admin"), hops("e", 1, 2), node("b")))
    listed = ("nodes", "p"), ("relationships", "p"), ("size", ("variable", "e")), ("each", "x", ("nodes", "p"), B_CITY)
    assert answer(Query((match(path),), listed), GRAPH) == [
        ((2, 3), (13,), 1, ("y", "x")),
        ((2, 3, 1), (13, 14), 2, ("y", "x", "x")),
    ]
    since = ("property", "x", "since")
    known = "quantified", "all", "x", ("variable", "e"), ("compare", ">", since, ("literal", 5))
    assert rows([match((node("a"), hops("e", 2, 2), node("b")), where=known)], ["e"]) == []
    some = "quantified", "any", "x", ("variable", "e"), ("missing", since)
    assert rows([match((node("a"), hops("e", 2, 2), node("b")), where=("not", some))], ["e"]) == [((10, 13),), ((12, 10),)]
    one, following = (("of", ("at", ("variable", "e"), at), "since") for at in (PLACE, ("call", "+", PLACE, ("literal", 1))))
    places = "range", ("literal", 0), ("call", "-", ("size", ("variable", "e")), ("literal", 2))
    rising = "quantified", "all", "i", places, ("compare", "<", one, following)
    found = rows([match((node("a"), hops("e", 1, 2, "KNOWS"), node("b")), where=rising)], ["e"])
    assert found == [((10, 13),), ((10,),), ((11,),), ((12,),), ((13,),)]


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
    grouped = Query((clause,), (("property", "b", "age"), ("count",)), order=by((1, False), (0, True)))
    assert answer(grouped, GRAPH) == [(20, 2), (30, 2), (None, 1)]
    ages = Query((match((node("a"),)),), (("property", "a", "age"), ("variable", "a")), order=by((0, True), (1, False)))
    assert answer(ages, GRAPH) == [(20, 4), (20, 2), (30, 1), (None, 3)]
    assert answer(ages._replace(order=by((0, False), (1, True)), limit=2), GRAPH) == [(None, 3), (30, 1)]
    wanted = ("compare", ">", ("property", "a", "age"), ("parameter", "least"))
    asked = Query((match((node("a"),), where=wanted),), (("variable", "a"),), parameters={"least": 20})
    assert answer(asked, GRAPH) == [(1,)]


A_AGE, B_AGE = ("property", "a", "age"), ("property", "b", "age")
B_CITY, PLACE = ("property", "x", "city"), ("variable", "i")
NULL, NAN = ("literal", None), ("literal", float("nan"))


def value(operand, **row):
    """What an operand comes to, given what variables are."""
    values = tuple(("literal", one) for one in row.values())
    passed = "with", With(tuple(row), Returned(values))
    return answer(Query((match((node("x", "Admin"),)), passed), (operand,)), GRAPH)[0][0]


def call(function, *arguments):
    return "call", function, *(one if isinstance(one, tuple) else ("literal", one) for one in arguments)


def test_numbers():
    assert [value(call("/", 7, 2)), value(call("/", -7, 2)), value(call("/", 7, 2.0))] == [3, -3, 3.5]
    assert [value(call("%", 7, -2)), value(call("%", -7, 2)), value(call("^", 2, 3))] == [1, -1, 8.0]
    assert value(call("/", 1, 0.0)) == float("inf")
    assert [value(call("round", x)) for x in (2.5, -2.5, 1.4)] == [3.0, -2.0, 1.0]
    assert [value(call("toInteger", x)) for x in ("12", "1.9", "x", -1.9)] == [12, 1, None, -1]
    assert [value(call("+", "a", 1)), value(call("+", "a", 1.5)), value(call("+", "a", NULL))] == ["a1", "a1.5", None]
    with pytest.raises(NoValueError):
        value(call("/", 1, 0))
    with pytest.raises(NoValueError):
        value(call("+", 2**63 - 1, 1))


def test_text_and_times():
    assert [value(call("substring", "abcd", 1, 2)), value(call("substring", "abcd", 9)), value(call("right", "abc", 2))] == [
        *["bc", "", "bc"],
    ]
    day = datetime(2024, 2, 29, 23)
    assert value(call("days between", day, datetime(2024, 3, 2, 22))) == 1
    assert value(call("weekDay", day)) == 4
    assert value(call("+", day, call("duration", 1))) == datetime(2024, 3, 1, 23)


def test_nan_equals_nothing():
    truths = {operator: value(("truth", ("compare", operator, NAN, ("literal", 1.0)))) for operator in ("=", "<>", "<", ">=")}
    assert truths == {"=": False, "<>": True, "<": False, ">=": False}
    assert value(("truth", ("not", ("compare", "<", NAN, NAN)))) is True
    assert value(("truth", ("compare", "=", NAN, NULL))) is None


def test_three_values():
    unknown, yes, no = (("compare", "=", NULL, NULL), ("compare", "=", *[("literal", 1)] * 2), ("missing", ("literal", 1)))
    assert value(("truth", ("or", unknown, yes))) is True
    assert value(("truth", ("or", unknown, no))) is None
    assert value(("truth", ("and", unknown, no))) is False
    assert value(("truth", ("xor", unknown, yes))) is None
    assert value(("truth", ("member", ("literal", 1), (("literal", 2), NULL)))) is None
    assert value(("truth", ("member", ("literal", 2), (("literal", 2), NULL)))) is True
    assert value(("truth", ("member", NULL, ()))) is False
    assert value(("case", ((unknown, ("literal", 1)),), ("literal", 2))) == 2
    assert value(("choice", NULL, ((NULL, ("literal", 1)),), None)) is None


def test_groups():
    clause = match((node("a"), edge("e"), node("b")))
    added = ("aggregate", "sum", False, B_AGE), ("aggregate", "avg", False, B_AGE), ("aggregate", "collect", False, B_AGE)
    grouped = Query((clause,), (("variable", "a"), *added, ("count",)), order=by((0, True)))
    assert answer(grouped, GRAPH) == [(1, 70, 70 / 3, [20, 20, 30], 3), (2, 0, None, [], 1), (3, 30, 30.0, [30], 1)]
    distinct = Query((clause,), (("aggregate", "count", True, B_AGE), ("aggregate", "sum", True, B_AGE)))
    assert answer(distinct, GRAPH) == [(2, 50)]
    both = Query((clause,), (A_AGE, call("+", A_AGE, ("count",))), order=by((1, False)))
    assert answer(both, GRAPH) == [(None, None), (30, 33), (20, 21)]


def test_what_is_passed_on():
    clause = match((node("a"), edge("e"), node("b")))
    number = Returned((("variable", "a"), ("count",)))
    many = "with", With(("a", "n"), number, ("compare", ">", ("variable", "n"), ("literal", 1)))
    assert answer(Query((clause, many), (A_AGE, ("variable", "n"))), GRAPH) == [(30, 3)]
    first = "with", With(("a", "n"), number._replace(order=by((1, False), (0, True)), limit=1), ("missing", A_AGE))
    assert answer(Query((clause, first), (("variable", "a"),)), GRAPH) == []  # the limit comes before the condition
    again = "with", With(("m",), Returned((("aggregate", "max", False, ("variable", "n")),)))
    assert answer(Query((clause, ("with", With(("a", "n"), number)), again), (("variable", "m"),)), GRAPH) == [(3,)]


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
    query = Query((clause,), returned("a", "b.x"), order=by((1, False), (0, True)), limit=2)
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
        for kind, *clause in query.clauses:
            if kind == "with":
                clauses.append((kind, *clause))
                continue
            patterns, where = clause
            patterns, conditions = Spelling(random).rewritten(list(patterns), [] if where is None else [where])
            clauses.append((kind, patterns, ("and", *conditions)))
        other = query._replace(clauses=clauses)
        assert Counter(map(comparable, answer(query, graph))) == Counter(map(comparable, answer(other, graph))), text


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
                found, wanted = kuzu_twin.run(database, other, query.parameters), answer(query, graph)
                is_refused = found is None
                assert is_refused or Counter(map(comparable, found)) == Counter(map(comparable, wanted)), f"{text}\n{other}"


def test_kuzu_agrees_on_trails():
    """Paths of one to three relationships, beside one that differs from theirs."""
    pytest.importorskip("kuzu")
    compared = 0
    for seed in range(12):
        random = Random(seed)
        graph = draw_cypher_graph(random)
        has_loops = any(source == target for _, source, target, *_ in graph[1])
        database = kuzu_twin.connection(graph)
        kinds = sorted({kind for *_, kind, _ in graph[1]})
        for _ in range(15):
            types = tuple(random.sample(kinds, k=random.randint(0, len(kinds))))
            direction = random.choice(["out", "in"] if has_loops else ["out", "in", "both"])  # it finds loops twice
            fewest = random.choice([1, 1, 2])
            most, least, is_beside = fewest + random.choice([0, 1]), random.choice([None, 0, 1]), random.random() < 0.4
            each = "quantified", "all", "r", ("variable", "e"), ("compare", ">=", ("property", "r", "w"), ("literal", least))
            patterns = [(node("a"), hops("e", fewest, most, *types, direction=direction), node("b"))]
            patterns += [(node("b"), edge("f"), node("c"))] if is_beside else []
            listed = ("variable", "a"), ("variable", "b"), ("variable", "e"), ("size", ("variable", "e"))
            query = Query((match(*patterns, where=None if least is None else each),), listed)
            left, right = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[direction]
            of = ":" + "|".join(types) if types else ""
            text = f"MATCH (a:N){left}[e{of}* TRAIL {fewest}..{most}]{right}(b:N)" + ", (b)-[f]->(:N)" * is_beside
            said = [f"all(r IN rels(e) WHERE r.w >= {least})"] * (least is not None)
            said += ["NOT list_contains(properties(rels(e), 'rid'), f.rid)"] * is_beside
            text += (
                " WHERE " + " AND ".join(said) if said else ""
            ) + " RETURN a.id, b.id, properties(rels(e), 'rid'), length(e)"
            found = [(*row[:2], tuple(row[2]), row[3]) for row in kuzu_twin.run(database, text, {})]
            assert Counter(found) == Counter(answer(query, graph)), text
            compared += bool(found)
    assert compared > 60
