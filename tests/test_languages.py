"""Text to Query, and every mistake answered with what, where and what to do."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations

import pytest

from bigjoin.errors import DisconnectedError, QueryError, UnknownQueryError
from bigjoin.languages import named, parse
from bigjoin.planner import plan
from bigjoin.query.query import Atom, Comparison
from bigjoin.query.statistics import assumed_graph
from bigjoin.query.terms import Constant, Property


def test_a_rule_is_its_head_atoms_and_filters():
    query = parse("q(b, a) :- edge(a,b), not edge(b,a), a <> -5, 'x\\'y' >= b, a == 2.5.")
    assert (query.name, query.head) == ("q", ("b", "a"))
    assert query.atoms == (Atom("edge", ("a", "b")), Atom("edge", ("b", "a"), negated=True))
    assert query.filters == (
        Comparison("a", "!=", Constant(-5)),
        Comparison(Constant("x'y"), ">=", "b"),
        Comparison("a", "=", Constant(Decimal("2.5"))),
    )


def test_where_adds_filters():
    assert parse("triangle", where="a1 < a2 AND a3 != 5").filters == (
        Comparison("a1", "<", "a2"),
        Comparison("a3", "!=", Constant(5)),
    )


def test_properties_are_operands_and_columns():
    query = parse('q(a, e.amount, b, e) := pays(a,b,e), e.amount >= 1.5, "x" = a.name, e."paid by" != b.name.', select="b.name")
    assert query.head == ("a", Property("e", "amount"), "b", "e", Property("b", "name"))
    assert query.columns == ("a", "e_amount", "b", "e", "b_name")
    assert query.filters == (
        Comparison(Property("e", "amount"), ">=", Constant(Decimal("1.5"))),
        Comparison(Constant("x"), "=", Property("a", "name")),
        Comparison(Property("e", "paid by"), "!=", Property("b", "name")),
    )
    assert query.filters[2].attributes == ("e", "b")
    assert parse(str(query)) == query


def test_select_adds_columns_to_any_query():
    assert parse("triangle", select="a1.name, a2.name").columns == ("a1", "a2", "a3", "a1_name", "a2_name")


def test_true_and_false_are_constants_unless_an_atom_binds_them():
    assert parse("q(a,b) := edge(a,b), a.flag = TRUE", where="False != b.flag").filters == (
        Comparison(Property("a", "flag"), "=", Constant(True)),
        Comparison(Constant(False), "!=", Property("b", "flag")),
    )
    assert parse("q(a,true) := edge(a,true), a = true").filters == (Comparison("a", "=", "true"),)


def test_named_queries_are_those_of_the_truth(truth):
    for name, text in truth["queries"].items():
        if name == "5-clique":
            wanted = set(combinations(["a1", "a2", "a3", "a4", "a5"], 2))
        else:
            wanted = {tuple(pair.strip("e()").split(",")) for pair in text.replace("),", ") ").split()}
        assert {atom.attributes for atom in parse(name).atoms} == wanted, name


@pytest.mark.parametrize("name", named.names())
def test_every_name_is_a_plan_and_its_own_rule(name):
    query = parse(name)
    assert parse(str(query).replace(f"{name}(", "q(", 1)).atoms == query.atoms
    assert len(plan(query, assumed_graph(symmetric=True)).attributes) == len(query.head)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("traingle", "there is no query named 'traingle'\nhint: did you mean 'triangle'?"),
        ("   ", "the query is empty\nhint: give a name such as 'triangle', or a rule: q(a,b) := edge(a,b)"),
        (
            "q(a,b) := edge(a,b",
            "the query cannot be read: the text ends too early\n"
            "  q(a,b) := edge(a,b\n"
            "                    ^\n"
            "hint: expected ')' or ','",
        ),
        (
            "edge(a,b), edge(b,c)",
            "the query cannot be read: unexpected ','\n"
            "  edge(a,b), edge(b,c)\n"
            "           ^\n"
            "hint: a rule has a head and ':=', for example tri(a,b,c) := edge(a,b), edge(b,c), edge(c,a), a < b",
        ),
        (
            "q(a,b) := edge(a,b+1)",
            "'edge' is given more than attributes\n"
            "  q(a,b) := edge(a,b+1)\n"
            "            ^^^^^^^^^^^\n"
            "hint: atoms take attributes and constants; for a property, write edge(a,b), a.name = 'x'",
        ),
        (
            "q(a,b) := edge(a,b),\n  zz < 5",
            "attribute 'zz' in 'zz < 5' is not bound by any atom\n    zz < 5\n    ^^^^^^\nhint: the atoms bind a, b",
        ),
        (
            "q(a,b) := edge(a,b), not edge(b,c)",
            "attribute 'c' in 'not edge(b, c)' is not bound by any atom\n"
            "  q(a,b) := edge(a,b), not edge(b,c)\n"
            "                       ^^^^^^^^^^^^^\n"
            "hint: the atoms bind a, b",
        ),
        (
            "q(a,b) := edge(a,b), 3 < 4",
            "'3 < 4' compares two constants\n"
            "  q(a,b) := edge(a,b), 3 < 4\n"
            "                       ^^^^^\n"
            "hint: compare an attribute",
        ),
        ("q(a,a) := edge(a,a)", "the head names an attribute twice\nhint: write q(a)"),
        (
            "q(a,b) := edge(a,b), true < false",
            "'true < false' compares two constants\n"
            "  q(a,b) := edge(a,b), true < false\n"
            "                       ^^^^^^^^^^^^\n"
            "hint: compare an attribute",
        ),
        (
            "q(a,b) := edge(a.x,b)",
            "'edge' is given more than attributes\n"
            "  q(a,b) := edge(a.x,b)\n"
            "            ^^^^^^^^^^^\n"
            "hint: atoms take attributes and constants; for a property, write edge(a,b), a.name = 'x'",
        ),
        (
            "q(a,b,z.x) := edge(a,b)",
            "attribute 'z' in 'z.x' is not bound by any atom\n"
            "  q(a,b,z.x) := edge(a,b)\n"
            "        ^^^\n"
            "hint: the atoms bind a, b",
        ),
        (
            "q(a,b,a.x) := edge(a,b), z.x < 5",
            "attribute 'z' in 'z.x < 5' is not bound by any atom\n"
            "  q(a,b,a.x) := edge(a,b), z.x < 5\n"
            "                           ^^^^^^^\n"
            "hint: the atoms bind a, b",
        ),
        (
            "q(a,a_x,a.x) := edge(a,a_x)",
            "'a.x' and 'a_x' both become column 'a_x'\n"
            "  q(a,a_x,a.x) := edge(a,a_x)\n"
            "          ^^^\n"
            "hint: list a property once, and give attributes other names",
        ),
        (
            "q(a,b) := not edge(a,b)",
            "a query needs at least one atom that is neither negated nor optional\nhint: for example edge(a, b)",
        ),
    ],
)
def test_mistakes_are_shown(text, message):
    with pytest.raises(QueryError) as error:
        parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "q(a,b) := edges(a,b)",
            "there is no relation 'edges'\n  q(a,b) := edges(a,b)\n            ^^^^^^^^^^\nhint: did you mean 'edge'?",
        ),
        (
            "q(a,b,c,d) := edge(a,b,c,d)",
            "'edge' has 2 columns, and an edge id as one more, not 4\n"
            "  q(a,b,c,d) := edge(a,b,c,d)\n"
            "                ^^^^^^^^^^^^^\n"
            "hint: write edge(a, b), or edge(a, b, e) to name the edge",
        ),
    ],
)
def test_relations_must_fit(text, message):
    with pytest.raises(QueryError) as error:
        plan(parse(text), assumed_graph(symmetric=False))
    assert str(error.value) == message


def test_a_disconnected_query_is_refused_unless_asked_for():
    text = "q(a,b,c,d) := edge(a,b), edge(c,d), a < c"
    with pytest.raises(DisconnectedError, match=r"no atom joins \{a, b\} and \{c, d\}"):
        plan(parse(text), assumed_graph(symmetric=False))
    assert plan(parse(text, cross_product=True), assumed_graph(symmetric=False)).attributes


def test_select_lists_properties():
    with pytest.raises(QueryError) as error:
        parse("triangle", select="a1.name, a2.")
    assert str(error.value) == (
        "the query cannot be read: unexpected '.'\n"
        "  a1.name, a2.\n"
        "             ^\n"
        "hint: list properties, for example a.name, b.name"
    )
    with pytest.raises(QueryError, match=r"'a1\.name' and 'a1\.name' both become column 'a1_name'"):
        parse("triangle", select="a1.name, a1.name")


def test_unknown_names_are_a_kind_of_query_error():
    with pytest.raises(UnknownQueryError):
        parse("13-clique")


def test_constants_and_blanks_are_attributes_that_the_head_does_not_list():
    query = parse("q(a) := edge(a, 5), edge(_, a), not edge(a, _), optional edge(a, x)")
    assert str(query) == "q(a) := edge(a, _1), edge(_2, a), not edge(a, _3), optional edge(a, x), _1 = 5"
    assert query.attributes == ("a", "_1", "_2")
    assert query.projects
    assert not parse("q(a) := edge(a, 5)").projects
    named = parse("q(n) := person(name: n, 'home city': 'Ghent')")
    assert named.atoms[0].columns == ("name", "home city")
    assert parse("q(a) := optional(a, b)").atoms[0].relation == "optional"
