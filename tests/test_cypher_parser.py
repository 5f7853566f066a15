"""Cypher to its tree, and every mistake answered with what, where and what to do (golden/cypher_*.txt)."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

from bigjoin.errors import QueryError
from bigjoin.languages import read
from bigjoin.languages.cypher import parse_cypher
from bigjoin.languages.cypher_tree import (
    And,
    Arithmetic,
    Case,
    Compare,
    CountStar,
    CypherQuery,
    ExistsPattern,
    FunctionCall,
    HasLabels,
    In,
    IsNull,
    ListLiteral,
    Literal,
    MapLiteral,
    MatchClause,
    Negative,
    NodePattern,
    Not,
    Or,
    Parameter,
    PathPattern,
    PatternPredicate,
    PropertyAccess,
    RelationshipPattern,
    ReturnClause,
    ReturnItem,
    SortItem,
    StringMatch,
    SubList,
    Subscript,
    Variable,
    Xor,
)

GOLDEN = Path(__file__).parent / "golden" / "cypher_errors.txt"
REFUSALS = Path(__file__).parent / "golden" / "cypher_refusals.txt"
PARAMETERS = {"x": "text", "list": [1, 2]}

A, B, C, NOBODY = NodePattern("a"), NodePattern("b"), NodePattern("c"), NodePattern()
OUT, IN, EITHER = (RelationshipPattern(direction=direction) for direction in ("out", "in", "either"))
X, Y, Z = (PropertyAccess(Variable("a"), name) for name in "xyz")
ONE, TWO, THREE = Literal(1), Literal(2), Literal(3)


def path(*parts, **fields):
    return PathPattern(tuple(parts[::2]), tuple(parts[1::2]), **fields)


def errors(golden):
    """Each text of a golden file, indented by four spaces, and the message that follows it."""
    for block in golden.read_text().split("\n\n"):
        lines = block.strip("\n").split("\n")
        text = list(takewhile(lambda line: line.startswith("    "), lines))
        yield "\n".join(line[4:] for line in text), "\n".join(lines[len(text) :])


@pytest.mark.parametrize(
    ("pattern", "tree"),
    [
        ("(a)", path(A)),
        ("(a), (b)", (path(A), path(B))),
        ("(a:P:Q)", path(NodePattern("a", ("P", "Q")))),
        ("(a:P&Q)", path(NodePattern("a", ("P", "Q")))),
        ("(a:P|Q)", path(NodePattern("a", ("P", "Q"), any_label=True))),
        ("(a:P|:Q)", path(NodePattern("a", ("P", "Q"), any_label=True))),
        ("(:Match)", path(NodePattern(None, ("Match",)))),
        ("(`a b`:`Big ``City`)", path(NodePattern("a b", ("Big `City",)))),
        ("(a {k: 1, order: 'x'})", path(NodePattern("a", (), properties=(("k", ONE), ("order", Literal("x")))))),
        ("(a)-->(b)<--(c)", path(A, OUT, B, IN, C)),
        ("(a)--(b)<-->(c)", path(A, EITHER, B, EITHER, C)),
        ("(a) - [ ] -> (b) <-[]- (c)", path(A, OUT, B, IN, C)),
        ("(a)-[]-(b)<-[]->(c)", path(A, EITHER, B, EITHER, C)),
        ("(a)-[e:S|T]->()", path(A, RelationshipPattern("e", ("S", "T")), NOBODY)),
        (
            "(a)-[:S|:T {k: [1, 2]}]-()",
            path(A, RelationshipPattern(None, ("S", "T"), "either", (("k", ListLiteral((ONE, TWO))),)), NOBODY),
        ),
        ("(a)-[*]->(b)", path(A, RelationshipPattern(hops=(None, None)), B)),
        ("(a)-[*2]->(b)", path(A, RelationshipPattern(hops=(2, 2)), B)),
        ("(a)-[e:T*1..3]->(b)", path(A, RelationshipPattern("e", ("T",), hops=(1, 3)), B)),
        ("(a)-[*..3]->(b)", path(A, RelationshipPattern(hops=(None, 3)), B)),
        ("(a)<-[*2..]-(b)", path(A, RelationshipPattern(direction="in", hops=(2, None)), B)),
        ("p = (a)-->(b)", path(A, OUT, B, variable="p")),
        ("p = shortestpath((a)-->(b))", path(A, OUT, B, variable="p", function="shortestPath")),
        ("allShortestPaths((a)-->(b))", path(A, OUT, B, function="allShortestPaths")),
        ("(a) // a comment\n, /* another\n one */ (b)", (path(A), path(B))),
    ],
)
def test_patterns(pattern, tree):
    query = parse_cypher(f"MATCH {pattern} RETURN count(*)")
    assert query.clauses == (MatchClause(tree if isinstance(tree, tuple) else (tree,)),)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a.x = 1", Compare(X, "=", ONE)),
        ("a.x <> 1 AND a.y != 2", And((Compare(X, "!=", ONE), Compare(Y, "!=", TWO)))),
        ("1 < a.x <= 3", And((Compare(ONE, "<", X), Compare(X, "<=", THREE)))),
        ("a.x<-1", Compare(X, "<", Literal(-1))),
        ("a.x OR a.y AND a.z XOR NOT a.x", Or((X, Xor((And((Y, Z)), Not(X)))))),
        ("(a.x OR a.y) AND a.z", And((Or((X, Y)), Z))),
        ("NOT a.x = 1", Not(Compare(X, "=", ONE))),
        ("a.x IS NULL OR a.y is not null", Or((IsNull(X), IsNull(Y, negated=True)))),
        ("a.x + 1 IN [1, 2]", In(Arithmetic(X, "+", ONE), ListLiteral((ONE, TWO)))),
        ("a.x STARTS WITH 'x' + 'y'", StringMatch(X, "STARTS WITH", Arithmetic(Literal("x"), "+", Literal("y")))),
        ("a.x ENDS WITH 'x' = true", Compare(StringMatch(X, "ENDS WITH", Literal("x")), "=", Literal(True))),
        (
            "a.x contains 'x' AND a.y =~ '.*'",
            And((StringMatch(X, "CONTAINS", Literal("x")), StringMatch(Y, "=~", Literal(".*")))),
        ),
        ("a.x - a.y - a.z", Arithmetic(Arithmetic(X, "-", Y), "-", Z)),
        ("a.x + a.y * -a.z ^ 2", Arithmetic(X, "+", Arithmetic(Y, "*", Arithmetic(Negative(Z), "^", TWO)))),
        ("a.x % 2 / (1 - +3)", Arithmetic(Arithmetic(X, "%", TWO), "/", Arithmetic(ONE, "-", THREE))),
        ("a.`first name`.order", PropertyAccess(PropertyAccess(Variable("a"), "first name"), "order")),
        ("a.x[1][2]", Subscript(Subscript(X, ONE), TWO)),
        (
            "a.x[1..2] + a.y[..] + a.z[..-1]",
            Arithmetic(Arithmetic(SubList(X, ONE, TWO), "+", SubList(Y, None, None)), "+", SubList(Z, None, Literal(-1))),
        ),
        (
            "size(a.x) > f.g(DISTINCT a.y, $p)",
            Compare(FunctionCall("size", (X,)), ">", FunctionCall("f.g", (Y, Parameter("p")), distinct=True)),
        ),
        ("{k: $1, m: {}} = []", Compare(MapLiteral((("k", Parameter("1")), ("m", MapLiteral(())))), "=", ListLiteral(()))),
        ("[0x1F, 0o17, 1.5, .5, 1e3, 7]", ListLiteral(tuple(Literal(value) for value in (31, 15, 1.5, 0.5, 1000.0, 7)))),
        (
            r"""['it\'s', "\"\n\u00e9", NULL, True, fALSE]""",
            ListLiteral(tuple(Literal(v) for v in ("it's", '"\né', None, True, False))),
        ),
        ("CASE WHEN a.x THEN 1 END", Case(None, ((X, ONE),), None)),
        ("CASE a.x WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 1 END", Case(X, ((ONE, TWO), (TWO, THREE)), ONE)),
        ("a:P:Q AND a:P|Q", And((HasLabels(Variable("a"), ("P", "Q")), HasLabels(Variable("a"), ("P", "Q"), any_label=True)))),
        ("(a)-->(:P)", PatternPredicate(path(A, OUT, NodePattern(None, ("P",))))),
        (
            "NOT (a)<-[:T {k: ']'}]-() AND a.x",
            And((Not(PatternPredicate(path(A, RelationshipPattern(None, ("T",), "in", (("k", Literal("]")),)), NOBODY))), X)),
        ),
        (
            "((a)--(a)) = ((a.x)) - [1][0]",
            Compare(PatternPredicate(path(A, EITHER, A)), "=", Arithmetic(X, "-", Subscript(ListLiteral((ONE,)), Literal(0)))),
        ),
        ("exists((a)-->())", ExistsPattern((path(A, OUT, NOBODY),))),
        ("exists(a.x)", FunctionCall("exists", (X,))),
        ("EXISTS { (a)-->(b), (b)-->(c) }", ExistsPattern((path(A, OUT, B), path(B, OUT, C)))),
        (
            "exists {MATCH (a)-->(b) WHERE b.x = a.x}",
            ExistsPattern((path(A, OUT, B),), Compare(PropertyAccess(Variable("b"), "x"), "=", X)),
        ),
    ],
)
def test_expressions(text, tree):
    (clause,) = parse_cypher(f"MATCH (a) WHERE {text} RETURN a").clauses
    assert clause == MatchClause((path(A),), tree)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("*", ReturnClause((), star=True)),
        ("*, a.x AS limit", ReturnClause((ReturnItem(X, "limit", "a.x"),), star=True)),
        ("DISTINCT a.x, (a.y)", ReturnClause((ReturnItem(X, None, "a.x"), ReturnItem(Y, None, "(a.y)")), distinct=True)),
        (
            "a.x as n, count( * ) ORDER BY n, a.y DESC, a.z ASCENDING SKIP 2 LIMIT $top;",
            ReturnClause(
                (ReturnItem(X, "n", "a.x"), ReturnItem(CountStar(), None, "count( * )")),
                order=(SortItem(Variable("n")), SortItem(Y, descending=True), SortItem(Z)),
                skip=TWO,
                limit=Parameter("top"),
            ),
        ),
        ("a.x OFFSET 1", ReturnClause((ReturnItem(X, None, "a.x"),), skip=ONE)),
    ],
)
def test_what_is_returned(text, tree):
    assert parse_cypher(f"MATCH (a) RETURN {text}") == CypherQuery((MatchClause((path(A),)),), tree)


def test_each_match_has_its_where():
    text = "match (a) where a.x = 1 OPTIONAL MATCH (a)-->(b) WHERE b.x = a.x match (b)-->(c) return a"
    first, second, third = parse_cypher(text).clauses
    assert first == MatchClause((path(A),), Compare(X, "=", ONE))
    assert second == MatchClause((path(A, OUT, B),), Compare(PropertyAccess(Variable("b"), "x"), "=", X), optional=True)
    assert third == MatchClause((path(B, OUT, C),))


def test_keywords_can_be_names_where_nothing_else_can_stand():
    query = parse_cypher("MATCH (limit:Order)-[set:IN]->(end1 {match: limit.where}) RETURN limit, set.return AS order LIMIT 5")
    assert [item.alias for item in query.returns.items] == [None, "order"]
    assert query.returns.limit == Literal(5)


def test_every_part_knows_where_it_stands():
    text = "MATCH (a:P)-[e]->(b) WHERE a.x = 1 AND (b)-->() RETURN a.x AS n ORDER BY n"
    waiting, seen = [parse_cypher(text)], []
    while waiting:
        part = waiting.pop()
        seen.append(text[part.span.start : part.span.end])
        waiting += part.children
    assert {text, "(a:P)", "-[e]->", "a.x = 1", "(b)-->()", "a.x AS n", "n", "1", "a.x = 1 AND (b)-->()"} < set(seen)


def test_literals_of_different_types_differ():
    assert len({Literal(1), Literal(1.0), Literal(True), Literal("1")}) == 4


def test_depth_and_length_have_bounds():
    parse_cypher(f"MATCH (a) WHERE {'(' * 2000}a.x{')' * 2000} RETURN a")
    parse_cypher(f"MATCH (a) WHERE {' AND '.join(['a.x'] * 2000)} RETURN a")
    parse_cypher(f"MATCH (a) WHERE ({' ' * 20000}a.x) RETURN a")
    with pytest.raises(QueryError, match="nested too deeply"):
        parse_cypher(f"MATCH (a) WHERE {'NOT ' * 5000}a.x RETURN a")
    with pytest.raises(QueryError, match="at most 600 digits"):
        parse_cypher(f"MATCH (a) WHERE a.x = {'1' * 601} RETURN a")


@pytest.mark.parametrize(("text", "message"), errors(GOLDEN))
def test_errors_say_what_where_and_what_to_do(text, message):
    with pytest.raises(QueryError) as caught:
        parse_cypher(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(("text", "message"), errors(REFUSALS))
def test_what_has_no_meaning_here_is_refused_by_name(text, message):
    """The grammar reads these, and there may be no source yet."""
    with pytest.raises(QueryError) as caught:
        read(text, parameters={name: value for name, value in PARAMETERS.items() if f"${name}" in text})
    assert str(caught.value) == message


def test_an_empty_text_is_an_error():
    with pytest.raises(QueryError, match="the query is empty\nhint: for example MATCH"):
        parse_cypher("  // nothing\n")
