"""How counts are planned, and what nests do that plans do not: tails, counters, cached counts, large numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import permutations
from math import comb, perm
from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from bigjoin.compiled import loops, set_source
from bigjoin.compiled.count_source import CountSource
from bigjoin.compiled.loops import Counting
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.seeds import equal_ranges
from bigjoin.languages import parse
from bigjoin.planner import count_plan, factorized_plan, plan
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.sum_nests import MAX_SEARCHED_PARTS, Sums
from bigjoin.query.statistics import assumed_graph
from tests.executions import factorized, interpreted, listed, total

sum_nests = sys.modules["bigjoin.planner.sum_nests"]
DIRECTED, UNDIRECTED = assumed_graph(symmetric=False), assumed_graph(symmetric=True)


def test_the_paper_s_diamond_is_two_counters():
    assert str(count_plan(parse("diamond"), DIRECTED)) == (
        "the sum\n"
        "  over a1: edge(a1, _)\n"
        "    counter0(a3) is the sum\n"
        "      over a2: edge(a1, a2)\n"
        "        over a3: edge(a2, a3), added to counter0(a3)\n"
        "    counter1(a3) is the sum\n"
        "      over a4: edge(a4, a1)\n"
        "        over a3: edge(a4, a3), added to counter1(a3)\n"
        "    over a3: counter0(a3), counter1(a3)"
    )


def test_an_undirected_diamond_fills_one_counter_for_both_sides():
    text = str(count_plan(parse("diamond", unique=True), UNDIRECTED))
    assert "over a3: code(a3) < code(a1), counter0(a3), counter0(a3)" in text
    assert "counter1" not in text
    assert text.endswith("divided by 2")


def test_the_house_s_tail_is_multiplied_and_leaves_out_what_is_taken():
    assert str(count_plan(parse("house", unique=True), UNDIRECTED)) == (
        "the sum\n"
        "  over a2: edge(_, a2)\n"
        "    over a3: edge(a2, a3), code(a3) < code(a2)\n"
        "      over a1: edge(a1, a2), edge(a1, a3)\n"
        "        over a4: edge(a1, a4), edge(a2, a4), edge(a3, a4), code(a4) < code(a1)\n"
        "      over a5: edge(a2, a5), edge(a3, a5), but for 2 that are taken"
    )


def test_a_star_s_leaves_are_counted_by_themselves():
    plan = count_plan(parse("4-star", unique=True), UNDIRECTED)
    assert (len(plan.terms), plan.divisor, len(plan.terms[0].root.inner)) == (1, 24, 4)


def test_a_barbell_s_far_triangles_are_kept_for_each_value():
    assert "kept for each value" in str(count_plan(parse("barbell"), UNDIRECTED))


def test_cliques_keep_their_restrictions():
    for name in ("triangle", "4-clique", "5-clique"):
        plan = count_plan(parse(name, unique=True), UNDIRECTED)
        assert (len(plan.terms), plan.divisor) == (1, 1)


def test_generated_source_holds_nothing_of_the_query(tmp_path):
    table = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1], "amount": [5, 6, 7]})
    index = build_index(table, tmp_path / "index")
    query = parse(
        'secret(password, "token"."x y") := edge(password, other)'.replace(', "token"."x y"', ", other"), where="other < 31337"
    )
    counting = Counting(count_plan(query, index.statistics).terms[0], query, index)
    assert not any(word in counting.source for word in ("password", "other", "secret", "31337", "amount"))


def test_the_function_that_the_documentation_shows_is_the_one_that_is_written(tmp_path):
    """All but its tallies, which the documentation leaves out."""
    index, query = scattered(False, tmp_path), parse("triangle", unique=True)
    counting = Counting(count_plan(query, UNDIRECTED).terms[0], query, index)
    written = [line for line in counting.source.splitlines() if "tally" not in line]
    shown = [line.partition("#")[0].rstrip() for line in set_source.__doc__.splitlines() if line.startswith("    ")]
    assert len(shown) > 10
    assert "\n".join(shown) in "\n".join(written)


def test_compiled_functions_are_found_by_later_processes(tmp_path):
    """The second process compiles nothing, neither the plan nor what it calls."""
    build_index(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}), tmp_path / "index")
    program = (
        "import sys; from bigjoin.index.directory import Index; from bigjoin.languages import parse\n"
        "from bigjoin.compiled.loops import Counting; from bigjoin.kernels.jit import compilations\n"
        "from bigjoin.planner import count_plan\n"
        "index, query = Index.open(sys.argv[1]), parse('3-cycle')\n"
        "counting = Counting(count_plan(query, index.statistics).terms[0], query, index)\n"
        "print(counting.count(counting.ranges(2)), compilations())"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", program, str(tmp_path / "index")]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)
    )
    assert first[0] == second[0] == "3"
    assert int(first[1]) > 0
    assert second[1] == "0"


def star(leaves: int, tmp_path) -> tuple:
    """A hub with leaves, and a triangle apart."""
    edges = [(0, i) for i in range(1, leaves + 1)] + [(-1, -2), (-2, -3), (-3, -1)]
    table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
    return build_index(table, tmp_path / "index", directed=False), [leaves, *[1] * leaves, 2, 2, 2]


@pytest.mark.parametrize("k", [2, 3, 5, 8, 12])
def test_stars_are_counted_however_large_the_number(k, tmp_path):
    index, degrees = star(2000, tmp_path)
    for flags, wanted in [({}, [d**k for d in degrees]), ({"distinct": True}, [perm(d, k) for d in degrees])]:
        assert total(count_plan(parse(f"{k}-star", **flags), index.statistics), index, 3) == sum(wanted)
    assert total(count_plan(parse(f"{k}-star", unique=True), index.statistics), index) == sum(comb(d, k) for d in degrees)


def test_counts_beyond_64_bits_are_those_of_the_plain_way(tmp_path):
    index, degrees = star(50, tmp_path)
    query = parse("8-star")
    plan = count_plan(query, index.statistics)
    counting = Counting(plan.terms[0], query, index)
    with mock.patch.object(loops, "load", interpreted):
        assert counting._count_by_primes(counting.ranges(2), 10**30) == counting.count(counting.ranges(2))
        assert counting.count(counting.ranges(2)) == sum(d**8 for d in degrees)
    assert "prime" in CountSource(plan.terms[0], counting.binder, modular=True).function()


@pytest.mark.parametrize("name", ["diamond", "house", "5-cycle", "6-cycle", "bowtie"])
def test_the_bound_on_a_count_is_close_enough_to_add_up_in_64_bits(name, tmp_path):
    """A hub of 2,000 leaves: a bound of (vertices x paths x paths) would send all of these to the slower arithmetic."""
    index, _ = star(2000, tmp_path)
    for query in (parse(name), parse(name, unique=True)):
        for term in count_plan(query, index.statistics).terms:
            assert Counting(term, query, index)._bounds()[0] < loops.MAX_INT64_COUNT


def test_the_bound_on_cliques_is_that_of_sets_and_not_of_lists(tmp_path):
    """The vertices of a clique are ever smaller members of one list, of which only the part below its own vertex counts."""
    edges = list(permutations(range(40), 2))
    table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
    index, query = build_index(table, tmp_path / "index", directed=False), parse("12-clique", unique=True)
    (term,) = count_plan(query, index.statistics).terms
    assert Counting(term, query, index)._bounds()[0] == comb(39, 11)  # as many as the last vertex really has below it


def test_a_long_path_is_counted_by_values_that_are_kept(tmp_path):
    """12 steps of a walk on a complete graph of 40 vertices: far too many to list, and more than 64 bits hold."""
    edges = list(permutations(range(40), 2))
    table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
    index = build_index(table, tmp_path / "index")
    assert total(count_plan(parse("12-path"), index.statistics), index) == 40 * 39**12


def test_factorized_rows_stand_for_products(tmp_path):
    index, degrees = star(30, tmp_path)
    query = parse("3-star")
    term = factorized_plan(query, index.statistics)
    assert len(term.root.inner) == 3
    rows = factorized(query, index, size=2)
    assert Counter(row[0] for row in rows)[0] == 30**3
    assert len(rows) == sum(d**3 for d in degrees)


NAMED = [
    "triangle",
    "diamond",
    "house",
    "4-path",
    "5-path",
    "4-star",
    "5-cycle",
    "6-cycle",
    "bowtie",
    "bull",
    "barbell",
    "lollipop",
]
NAMED += ["chordal-4-cycle", "bi-fan", "5-house", "gem", "4-wheel", "prism", "k33", "tailed-triangle", "double"]
DOUBLE = "double(a,b,c,d,e,f) := edge(a,b), edge(a,c), edge(a,d), edge(d,e), edge(d,f)"
"""Two stars whose centres are joined."""


def scattered(directed: bool, tmp_path, vertices: int = 24, edges: int = 60):
    """A random graph in which six attributes have distinct values often enough."""
    rng = np.random.default_rng(7)
    src, dst = rng.integers(0, vertices, (2, edges))
    return build_index(pa.table({"src": src, "dst": dst}), tmp_path / "index", directed=directed)


def batch_count(query, index) -> int:
    bound = bind(plan(query, index.statistics), index)
    return GenericJoin(bound, counting=True).count(equal_ranges(bound, 1))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("name", NAMED)
def test_named_queries_are_counted_as_they_are_listed(name, directed, tmp_path):
    index = scattered(directed, tmp_path)
    for flags in ({}, {"distinct": True}, {"unique": True}, {"induced": True}):
        query = parse(DOUBLE if name == "double" else name, **flags)
        chosen = count_plan(query, index.statistics)
        assert total(chosen, index, 2) == batch_count(query, index), str(chosen)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(
    "name", ["diamond", "house", "4-path", "4-star", "5-cycle", "6-cycle", "bowtie", "bull", "lollipop", "double"]
)
def test_any_choice_of_the_planner_counts_the_same(name, directed, tmp_path):
    """Estimates are drawn, and so is the choice between restrictions kept or divided out, joined or merged attributes."""
    index = scattered(directed, tmp_path, vertices=12, edges=30)
    random = Random(name)

    def choose(*choices, **_):
        found = list(choices[0]) if len(choices) == 1 else list(choices)
        return random.choice([choice for choice in found if choice[-1]])

    drawn = {each: lambda *_: random.choice([0.1, 1.0, 10.0, 1e4]) for each in ("_prefixes", "_reading", "_extensions")}
    for flags in ({"distinct": True}, {"unique": True}):
        query = parse(DOUBLE if name == "double" else name, **flags)
        wanted = batch_count(query, index)
        for _ in range(4):
            with mock.patch.object(sum_nests, "min", choose, create=True), mock.patch.multiple(SizeEstimate, **drawn):
                chosen = count_plan(query, index.statistics)
            assert total(chosen, index, 3) == wanted, str(chosen)
            for term in chosen.terms:
                counting = Counting(term, query, index)
                with mock.patch.object(loops, "load", interpreted):
                    each, whole = counting._bounds()
                    counts = [counting.count([(n, n + 1, 0, 1 << 60)]) for n in range(12)]
                    assert max(counts) <= each, str(chosen)
                    assert counting.count(counting.ranges(1)) <= whole, str(chosen)


@pytest.mark.parametrize("name", ["8-cycle", "10-path", "12-path", "12-star", "9-clique", "octahedron", "prism", "barbell"])
def test_planning_looks_at_few_choices(name):
    for flags in ({}, {"distinct": True}, {"unique": True}):
        sums = Sums()
        with mock.patch.object(sum_nests, "Sums", return_value=sums):
            assert count_plan(parse(name, **flags), UNDIRECTED).terms
        assert sums.searched < 4 * MAX_SEARCHED_PARTS


def test_ranges_cut_hubs_and_cover_all_seeds_once(tmp_path):
    rng = np.random.default_rng(3)
    dst = rng.integers(0, 400, 3000)
    table = pa.table({"src": np.concatenate([np.zeros(2000, np.int64), rng.integers(0, 400, 1000)]), "dst": dst})
    index = build_index(table, tmp_path / "index", shards=3)
    query = parse("triangle")
    counting = Counting(count_plan(query, index.statistics).terms[0], query, index)
    with mock.patch.object(loops, "load", interpreted):
        whole = counting.count(counting.ranges(1))
        for parts in (2, 5, 64):
            ranges = counting.ranges(parts)
            assert len(ranges) > parts // 2
            assert counting.count(ranges) == whole


QUESTIONS = [
    # A tail that is filtered leaves out what is taken too.
    ("q(a,b,c) := edge(a,b), edge(a,c), edge(b,b), edge(c,c)", {"distinct": True}, 2),
    # Attributes whose names occur in the names of properties or in constants are as alike as any.
    ("q(a,b) := edge(a,b), edge(b,a), a.age > 0, b.age > 0", {"unique": True}, 1),
    ("q(a,b,c) := person(a), edge(a,b), edge(a,c), a = 1", {"distinct": True}, 6),
    ("q(a) := person(a), a = 2", {}, 1),
    ("q(a,b,e) := edge(a,b,e)", {}, 8),
    ("q(a,b,e,f) := edge(a,b,e), edge(a,b,f)", {}, 8),
]


@pytest.mark.parametrize(("text", "flags", "wanted"), QUESTIONS)
def test_odd_questions_have_plain_answers(text, flags, wanted, tmp_path):
    edges = [(1, 2), (1, 3), (1, 4), (2, 2), (3, 3), (4, 5), (5, 6), (6, 5)]
    table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges], "amount": list(range(8))})
    people = pa.table({"id": [1, 2, 3, 4, 5, 6], "age": [5] * 6, "label": ["person"] * 6})
    index = build_index(table, tmp_path / "index", vertices=people)
    query = parse(text, **flags)
    for parts in (1, 8):
        assert total(count_plan(query, index.statistics), index, parts) == wanted
        assert len(factorized(query, index, size=2, parts=parts)) == wanted
        assert len(listed(plan(query, index.statistics), index, size=2, parts=parts)) == wanted


def test_the_catalogue_knows_how_clustered_a_graph_is(tmp_path):
    """In a complete graph, any two neighbours are neighbours, and a third list holds all that two others share."""
    edges = list(permutations(range(30), 2))
    table = pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]})
    catalogue = build_index(table, tmp_path / "index").statistics.relations["edge"].catalogue
    assert (catalogue["length.0.0"], catalogue["shared.0.0"], catalogue["continued.0.0.0"]) == (29, 28, 27)
    assert catalogue["wedge.1.0.0.0"] == pytest.approx(28, abs=0.5)
