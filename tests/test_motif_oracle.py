"""The interpreter of motifs against the table of what they mean, and on graphs that are not simple."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.oracles.motif_table import EDGES, EMPTY, ERRORS, SAME, TABLE, VERTICES, written
from tests.oracles.motifs import MotifError, interpret
from tests.oracles.random_motifs import draw_motif, draw_property_graph


def dictionaries(row):
    return [dict(cell) if isinstance(cell, tuple) else cell for cell in row]


def ids(pattern, vertices, edges):
    """A bag of rows, as the table writes them."""
    return sorted(written(dictionaries(row)) for row in interpret(pattern, vertices, edges)[1])


@pytest.mark.parametrize("expected", TABLE, ids=lambda expected: expected.pattern)
def test_the_table(expected):
    columns, rows = interpret(expected.pattern, VERTICES, EDGES + expected.more_edges)
    rows = list(map(dictionaries, rows))
    if expected.only:
        name, value = expected.only
        rows = [row for row in rows if row[columns.index(name)]["id"] == value]
    assert columns == expected.columns.split()
    if expected.rows is None:
        assert len(rows) == expected.count
    else:
        assert sorted(map(written, rows)) == sorted(expected.rows.split())


@pytest.mark.parametrize(("left", "right"), SAME, ids=lambda pattern: pattern)
def test_rewrites(left, right):
    one, other = interpret(left, VERTICES, EDGES), interpret(right, VERTICES, EDGES)
    assert one[0] == other[0]
    assert Counter(one[1]) == Counter(other[1])
    assert one[1]


@pytest.mark.parametrize("pattern", EMPTY)
def test_nothing_is_asked(pattern):
    assert interpret(pattern, VERTICES, EDGES) == ([], [])


@pytest.mark.parametrize("pattern", ERRORS)
def test_errors(pattern):
    with pytest.raises(MotifError):
        interpret(pattern, VERTICES, EDGES)


def test_a_cell_has_the_whole_schema():
    vertices = [{"id": 1, "name": "x"}, {"id": 2}]
    columns, rows = interpret("(a)-[e]->(b)", vertices, [{"src": 1, "dst": 2, "weight": 0.5}])
    assert columns == ["a", "e", "b"]
    assert rows == [
        ((("id", 1), ("name", "x")), (("src", 1), ("dst", 2), ("weight", 0.5)), (("id", 2), ("name", None))),
    ]


def test_duplicate_ids_multiply_and_dangling_edges_drop_at_named_ends():
    vertices = [{"id": 1, "name": "x"}, {"id": 1, "name": "y"}, {"id": 2, "name": "z"}, {"id": 2, "name": "z"}]
    edges = [{"src": 1, "dst": 2}, {"src": 1, "dst": 9}]
    assert ids("(a)-[]->(b)", vertices, edges) == ["12"] * 4
    assert ids("(a)-[]->()", vertices, edges) == ["1"] * 4
    assert ids("()-[e]->()", vertices, edges) == ["12", "19"]
    assert ids("(a)-[]->(b);(a)-[]->()", vertices, edges) == ["12"] * 8  # an anonymous edge has its multiplicity
    assert ids("(a)-[]->(b);!(b)-[]->()", vertices, edges) == ["12"] * 2  # and a negation removes duplicates
    assert ids("(a)-[]->(b);!(b)-[]->();(a)-[]->()", vertices, edges) == ["12"] * 4


def test_null_is_no_id_but_a_row():
    vertices, edges = [{"id": None}, {"id": 1}], [{"src": 1, "dst": None}, {"src": None, "dst": None}]
    assert ids("(a)", vertices, edges) == ["1", "None"]
    assert ids("(a)-[]->()", vertices, edges) == ["1"]
    assert ids("(a)-[]->(b)", vertices, edges) == []
    assert ids("()-[e]->()", vertices, edges) == ["1None", "NoneNone"]
    assert ids("!(a)-[]->()", vertices, edges) == ["None"]


def test_undirected_loops_appear_twice_and_the_last_term_names_the_direction():
    vertices, edges = [{"id": 1}, {"id": 2}], [{"src": 1, "dst": 1}, {"src": 1, "dst": 2}]
    assert ids("(a)-[]-(a)", vertices, edges) == ["1/(a)-[]->(a)/out", "1/(a)<-[]-(a)/in"]
    columns, rows = interpret("(a)-[]-(b);(b)-[]-();(b)-[]->(c)", vertices, edges)
    assert columns == ["a", "b", "_pattern", "_direction", "c"]
    assert {row[2] for row in rows} == {"(b)-[]->()", "(b)<-[]-()"}
    assert ids("(a)-[]-(b);!(a)-[]-(b)", vertices, edges) == []
    assert len(ids("(a)-[]-(b);!(b)-[]-(a)", vertices, edges)) == 4  # the text of _pattern is compared as well


def test_numbers_and_texts_are_compared_as_numbers():
    assert ids("(a)-[]->(b)", [{"id": 1}, {"id": 2}], [{"src": "1", "dst": "2"}]) == ["12"]


def test_a_path_without_any_name_shows_its_middles():
    columns, rows = interpret("()-[*2]->()", VERTICES, EDGES)
    assert (columns, len(rows)) == (["__tmpv1"], 6)


def test_about_a_tenth_of_the_drawn_motifs_are_wrong():
    outcomes = Counter()
    for seed in range(500):
        random = Random(seed)
        graph = draw_property_graph(random)
        pattern = draw_motif(random)
        try:
            outcomes["found" if interpret(pattern, *graph)[1] else "empty"] += 1
        except MotifError:
            outcomes["wrong"] += 1
    assert 25 < outcomes["wrong"] < 75
    assert outcomes["found"] > 200
