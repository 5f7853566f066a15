"""What the planner finds out about queries of any size: their symmetries, and plans within a budget of work."""

from __future__ import annotations

import gc
from itertools import combinations, permutations
from math import factorial, prod
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigjoin.errors import QueryError
from bigjoin.languages import parse
from bigjoin.planner import count_plan, delta_plan, meaning, pairing, plan
from bigjoin.planner.break_symmetry import break_symmetry
from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.isomorphism import Shape
from bigjoin.planner.order_attributes import in_cheapest_order, order_attributes
from bigjoin.planner.pairing import renaming
from bigjoin.planner.search_nest import NestSearch
from bigjoin.planner.seed_with_deltas import MAX_DELTA_QUERIES
from bigjoin.planner.share_of_orders import share_of_orders
from bigjoin.planner.sum_nests import MAX_SEARCHED_PARTS, Sums, cheapest
from bigjoin.planner.symmetries import Symmetries
from bigjoin.query.plan import Restriction
from bigjoin.query.query import MAX_ATOMS, MAX_ATTRIBUTES
from bigjoin.query.statistics import RelationStatistics, Statistics, assumed_graph
from tests.oracles import naive
from tests.questions import plain

NAMES = "abcdef"


def known(*, symmetric: bool) -> Statistics:
    """Return a graph with edges, rows, labels and a property of vertices."""
    graph = assumed_graph(symmetric=symmetric, properties=["age"])
    label = RelationStatistics(("vertex",), 1000)
    return Statistics({**graph.relations, "red": label, "blue": label}, graph.domains, graph.properties)


def draft_of(text: str, *, symmetric: bool, **flags: bool) -> Draft:
    (draft,) = meaning(parse(text, **flags), known(symmetric=symmetric))
    return draft


def rule(pairs, *more: str) -> str:
    """Return a rule of edges between numbered attributes."""
    return f"q(a0) := {', '.join([*(f'edge(a{a}, a{b})' for a, b in pairs), *more])}"


def path(size):
    return rule((i, i + 1) for i in range(size))


def cycle(size):
    return rule((i, (i + 1) % size) for i in range(size))


def star(size):
    return rule((0, i + 1) for i in range(size))


@st.composite
def drawn_queries(draw):
    """Draw a connected query of edges and loops, with labels, negated edges, and comparisons of ids and properties."""
    size = draw(st.integers(2, 6))
    names = NAMES[:size]
    tree = [(draw(st.sampled_from(names[:i])), names[i]) for i in range(1, size)]
    more = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=6))
    edges = [pair if draw(st.booleans()) else pair[::-1] for pair in tree] + more
    parts = [f"edge({a}, {b})" for a, b in edges]
    parts += [f"{draw(st.sampled_from(['red', 'blue']))}({a})" for a in draw(st.lists(st.sampled_from(names), max_size=2))]
    absent = [pair for pair in combinations(names, 2) if pair not in edges and pair[::-1] not in edges]
    parts += [f"not edge({a}, {b})" for a, b in (draw(st.lists(st.sampled_from(absent), max_size=2)) if absent else [])]
    two = st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True)
    for _ in range(draw(st.integers(0, 2))):
        (a, b), op = draw(two), draw(st.sampled_from(["<", "!=", "<=", "="]))
        parts.append(draw(st.sampled_from([f"{a} {op} {b}", f"{a}.age {op} {b}.age", f"{a}.age > 30"])))
    return f"q({', '.join(names)}) := {', '.join(parts)}"


@settings(max_examples=80, deadline=None)
@given(drawn_queries(), st.booleans(), st.randoms(use_true_random=False))
def test_symmetries_are_those_of_brute_force(text, symmetric, random):
    """Order, elements and orbits of the group and of its stabilisers, against all permutations that keep what is asked."""
    draft = draft_of(text, symmetric=symmetric, distinct=True)
    shape = Shape(draft)
    asked = set(shape.all)
    every = [dict(zip(shape.attributes, image, strict=True)) for image in permutations(shape.attributes)]
    group = [names for names in every if {shape.said(part, names) for part in shape.parts} == asked]
    base = random.sample(shape.attributes, len(shape.attributes))
    symmetries = Symmetries(shape, base)
    found = [*symmetries.all.elements()]
    assert len(found) == symmetries.all.order
    assert sorted(sorted(names.items()) for names in found) == sorted(sorted(names.items()) for names in group)
    for i, fixing in enumerate(symmetries.along(base)):
        left = [names for names in group if all(names[a] == a for a in base[:i])]
        assert fixing.order == len(left)
        assert {base[i], *fixing.images(base[i])} == {names[base[i]] for names in left}
    a, b = random.sample(shape.attributes, 2)
    assert symmetries.are_exchanged(a, b) == any(names[a] == b and names[b] == a for names in group)


@settings(max_examples=50, deadline=None)
@given(drawn_queries(), st.booleans())
def test_there_are_as_many_symmetries_as_the_definition_of_unique_has(text, symmetric):
    query = parse(text, unique=True)
    (draft,) = meaning(query, known(symmetric=symmetric))
    group = naive.automorphisms(*plain(query), symmetric=symmetric)
    assert Symmetries(Shape(draft)).all.order == len(group)


@settings(max_examples=50, deadline=None)
@given(drawn_queries(), st.booleans())
def test_restrictions_leave_one_of_each_class(text, symmetric):
    """Of all ways to give the attributes different codes, each class has exactly one that the restrictions allow."""
    draft = break_symmetry(order_attributes(draft_of(text, symmetric=symmetric, unique=True)))
    group = [*Symmetries(Shape(draft_of(text, symmetric=symmetric, unique=True))).all.elements()]
    classes: dict[frozenset[tuple[int, ...]], int] = {}
    for values in permutations(range(len(draft.attributes))):
        codes = dict(zip(draft.attributes, values, strict=True))
        alike = frozenset(tuple(codes[names[a]] for a in draft.attributes) for names in group)
        kept = all(codes[r.smaller] < codes[r.larger] for r in draft.restrictions)
        classes[alike] = classes.get(alike, 0) + kept
    assert set(classes.values()) == {1}


@settings(max_examples=40, deadline=None)
@given(drawn_queries(), st.booleans(), st.randoms(use_true_random=False))
def test_a_renamed_query_is_recognized(text, symmetric, random):
    shape = Shape(draft_of(text, symmetric=symmetric))
    attributes = shape.attributes
    names = dict(zip(attributes, random.sample(attributes, len(attributes)), strict=True))
    other = Shape(shape.draft.with_parts([part.renamed(names) for part in random.sample(shape.parts, len(shape.parts))]))
    found = renaming(shape, other)
    assert found is not None
    assert {other.said(part, found) for part in shape.parts} == set(other.all)
    fewer = Shape(shape.draft.with_parts(shape.parts[:-1]))
    assert renaming(fewer, other) is None


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("12-clique", factorial(12)),
        (cycle(25), 50),
        (path(60), 2),
        (star(30), factorial(30)),
        (star(127), factorial(127)),
        ("k33", 72),
        ("octahedron", 48),
        ("prism", 12),
    ],
)
def test_symmetries_of_large_queries_are_found_in_few_looks(text, order):
    symmetries = Symmetries(Shape(draft_of(text, symmetric=True)))
    assert symmetries.all.order == order
    assert symmetries.looks < 60_000


def test_symmetries_that_are_too_hard_to_find_are_refused():
    """The group itself is needed for `unique`, so there is nothing to fall back to; other queries do not ask for it."""
    with mock.patch.object(pairing, "MAX_LOOKS", 50):
        with pytest.raises(QueryError, match="symmetries of this query") as refused:
            plan(parse("octahedron", unique=True), known(symmetric=True))
        plan(parse("octahedron"), known(symmetric=True))
    assert "distinct=True" in str(refused.value)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.data())
def test_the_share_of_orders_is_that_of_all_orders(size, data):
    values = NAMES[:size]
    ordered = [(a, b) for a, b in combinations(values, 2)]
    pairs = data.draw(st.lists(st.sampled_from(ordered), unique=True))
    items = {value for pair in pairs for value in pair}
    orders = [{value: place for place, value in enumerate(order)} for order in permutations(items)]
    kept = [at for at in orders if all(at[smaller] < at[larger] for smaller, larger in pairs)]
    assert share_of_orders(pairs) == pytest.approx(len(kept) / len(orders))


def test_the_share_of_a_long_order_is_found_without_counting():
    below_one = [(f"b{i}", "a") for i in range(60)]
    assert share_of_orders(below_one) == pytest.approx(1 / 61)
    chain = [(f"a{i}", f"a{i + 1}") for i in range(40)]
    assert share_of_orders(chain) == pytest.approx(1 / factorial(41))


class Looked:
    """How often parts are searched, and how often a partial order is grown."""

    def __init__(self) -> None:
        self.searches: list[NestSearch] = []
        self.grown = 0


@pytest.fixture
def looked(monkeypatch):
    """Count the work of planning."""
    found = Looked()
    search, work = Sums._search, SizeEstimate.work

    def searched(self, *arguments):
        before = self.searched
        result = search(self, *arguments)
        found.searches.append(self.searched - before)
        return result

    def worked(self, *arguments):
        found.grown += 1
        return work(self, *arguments)

    monkeypatch.setattr(Sums, "_search", searched)
    monkeypatch.setattr(SizeEstimate, "work", worked)
    return found


LARGE = {
    "9-clique": "9-clique",
    "12-clique": "12-clique",
    "25-cycle": cycle(25),
    "60-path": path(60),
    "30-star": star(30),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("flags", [{}, {"unique": True}, {"distinct": True}])
def test_plans_of_large_queries_stay_within_a_budget(name, flags, looked):
    query, graph = parse(LARGE[name], **flags), known(symmetric=True)
    found = plan(query, graph)
    assert len(found.attributes) == len(query.attributes)
    assert looked.grown < 60_000
    count_plan(query, graph)
    assert sum(looked.searches) < 2 * MAX_SEARCHED_PARTS


@pytest.mark.parametrize("name", ["9-clique", "12-clique", "25-cycle", "30-star"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_delta_queries_share_a_budget(name, symmetric, looked):
    query, graph = parse(LARGE[name], unique=True), known(symmetric=symmetric)
    found = delta_plan(query, graph)
    assert looked.grown < 60_000
    assert len(found.queries) <= len(query.atoms)
    delta_plan(query, graph, listing=False)
    assert sum(looked.searches) < 2 * MAX_SEARCHED_PARTS


def test_a_spent_budget_still_gives_a_nest_of_all_attributes():
    draft = draft_of(path(11), symmetric=True)
    search = NestSearch(draft, SizeEstimate(draft), budget=0)
    found = search.best()
    assert found.loop is not None
    assert search.searched < 100
    cheaper = cheapest([([draft], 1)], Sums())
    assert cheaper[0] <= found.cost * (1 + 1e-9)


def test_a_narrow_beam_still_orders_all_attributes():
    draft = draft_of(cycle(12), symmetric=True)
    ordered = in_cheapest_order(draft, SizeEstimate(draft), plans=1_000_000)
    assert sorted(ordered.order) == sorted(draft.attributes)


def test_a_query_with_too_many_attributes_is_refused():
    with pytest.raises(QueryError, match=f"at most {MAX_ATTRIBUTES} can be planned") as refused:
        parse(path(1000))
    assert "hint" in str(refused.value)


def test_a_query_with_too_many_atoms_is_refused():
    pairs = [(a, b) for a in range(60) for b in range(60) if a != b]
    with pytest.raises(QueryError, match=f"3,540 atoms; at most {MAX_ATOMS:,} can be planned") as refused:
        parse(rule(pairs))
    assert "hint" in str(refused.value)


def test_a_watch_with_too_many_delta_queries_is_refused():
    pairs = [(a, b) for a in range(20) for b in range(20) if a != b]
    with pytest.raises(QueryError, match=f"380 delta queries.*at most {MAX_DELTA_QUERIES} are planned"):
        delta_plan(parse(rule(pairs)), known(symmetric=False), listing=False)


def test_restrictions_of_a_star_are_a_chain():
    """Not one for each two leaves: what others imply is left out."""
    draft = break_symmetry(order_attributes(draft_of(star(30), symmetric=True, unique=True)))
    assert len(draft.restrictions) == 29
    assert all(isinstance(r, Restriction) for r in draft.restrictions)
    assert prod(range(1, 31)) == Symmetries(Shape(draft_of(star(30), symmetric=True))).all.order


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_while_a_query_is_planned(enabled):
    seen, was_enabled = [], gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        looking = mock.patch("bigjoin.planner.through", side_effect=lambda _, draft: seen.append(gc.isenabled()) or draft)
        with looking, pytest.raises(AssertionError):  # no pass has made a plan
            plan(parse("triangle"), known(symmetric=True))
        assert (seen, gc.isenabled()) == ([False], enabled)
    finally:
        (gc.enable if was_enabled else gc.disable)()
