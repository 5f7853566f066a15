"""Delta queries: what they find is the difference of two full results, however they are run, whatever the update."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigjoin.compiled import loops
from bigjoin.compiled.loops import Counting, Listing
from bigjoin.index.runs import Delta, UntrueRunsError, combined, to_merge
from bigjoin.index.versions import Versions
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind, result_columns
from bigjoin.joins.changes import Signed, changed
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.phase import Phase
from bigjoin.joins.seeds import equal_ranges
from bigjoin.languages import parse
from bigjoin.planner import delta_plan, plan
from bigjoin.query.nest import nest_of
from bigjoin.query.read import Version
from bigjoin.query.statistics import assumed_graph
from tests.dataflow import Balanced, Simulated
from tests.executions import interpreted, plain
from tests.oracles import naive
from tests.test_properties import ordered, rules

brief = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
FLAGS = [(), ("distinct",), ("unique",), ("induced",), ("unique", "induced")]
IDS = [[-3, 0, 7, 12, 100], ["a", "B", "é", "zz", "10"], [1, 2]]


@dataclass
class History:
    """A graph, what each epoch deletes and inserts, and a question."""

    ids: list
    directed: bool
    states: list[set]
    text: str
    flags: dict

    def result(self, state):
        relations = {"edge": state if self.directed else naive.undirected(state)}
        return Counter(naive.matches(relations, *plain(self.query), **self.flags, symmetric=not self.directed))

    def change(self, before, after):
        """The signed rows of an epoch, by definition."""
        wanted = self.result(after)
        wanted.subtract(self.result(before))
        return {row: change for row, change in wanted.items() if change}

    @property
    def query(self):
        return parse(self.text, cross_product=True, **self.flags)


def pairs_of(drawn, directed):
    """Pairs as a graph has them: unordered, and without loops, if it is undirected."""
    return {p if directed or str(p[0]) <= str(p[1]) else p[::-1] for p in drawn if directed or p[0] != p[1]}


@st.composite
def histories(draw):
    ids, directed = draw(st.sampled_from(IDS)), draw(st.booleans())
    pairs = st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=6)
    states = [pairs_of(draw(pairs) + draw(pairs), directed)]
    for deleted, inserted in draw(st.lists(st.tuples(pairs, pairs), min_size=1, max_size=3)):
        states.append(states[-1] - pairs_of(deleted, directed) | pairs_of(inserted, directed))
    return History(ids, directed, states, draw(rules(ids)), dict.fromkeys(draw(st.sampled_from(FLAGS)), True))


class Epochs:
    """Runs the epochs of a history over versions in memory."""

    def __init__(self, history, folder):
        self.history = history
        table = pa.table(
            {name: [pair[i] for pair in sorted(history.states[0], key=str)] for i, name in enumerate(("src", "dst"))}
        )
        if not history.states[0]:
            table = table.cast(pa.schema([(name, pa.array(history.ids).type) for name in ("src", "dst")]))
        path = Path(folder) / "index"
        self.index = build_index(table, path, directed=history.directed, vertices=pa.table({"id": history.ids}))
        self.versions = Versions(self.index)

    def __iter__(self):
        dictionary = self.index.dictionaries["vertex"]
        code = {value: dictionary.code(value) for value in self.history.ids}
        for before, after in zip(self.history.states, self.history.states[1:], strict=False):
            delta = [sorted(part, key=str) for part in (before - after, after - before)]
            columns = [np.array([[code[pair[i]] for pair in part] for i in (0, 1)], np.uint32) for part in delta]
            self.versions.begin({("edge", 2): Delta(*columns)}, self.index.statistics)
            yield before, after
            self.versions.commit()

    def phases(self, plans):
        """Each delta query in each phase, as it is reported."""
        for insert in (False, True):
            phase = Phase(self.versions, self.index, insert)
            yield from ((Signed(plans, dq, insert), phase) for dq in plans.queries)


def on_batches(dq, phase, size, *, listing):
    bound = bind(dq.plan, phase)
    if not listing:
        return GenericJoin(bound, counting=True, batch_size=size).count(equal_ranges(bound, 2))
    return list(GenericJoin(bound, counting=False, batch_size=size).matches(equal_ranges(bound, 2)))


def by_loops(dq, phase, size, *, listing):
    term = nest_of(dq.plan)
    with mock.patch.object(loops, "load", interpreted):
        if not listing:
            counting = Counting(term, dq.plan.query, phase)
            return counting.count(counting.ranges(3))
        found = Listing(term, dq.plan.query, phase)
        return [rows.prefixes.copy() for rows in found.rows(found.ranges(3), size)]


def by_nests(counted, epochs):
    """What delta queries come to by the nests that count them, which are divided together."""
    found: Counter = Counter()
    with mock.patch.object(loops, "load", interpreted):
        for signed, phase in epochs.phases(counted):
            for term in signed.dq.nests.terms:
                counting = Counting(term, signed.dq.nests.query, phase)
                number = term.times * counting.count(counting.ranges(3))
                found[signed.dq.nests.divisor] += signed.sign * signed.each * number
    assert all(number % divisor == 0 for divisor, number in found.items()), (found, str(counted))
    return sum(number // divisor for divisor, number in found.items())


def spread(dq, phase, size, *, listing):
    return on_a_cluster(Simulated, dq, phase, size, listing)


def balanced(dq, phase, size, *, listing):
    return on_a_cluster(Balanced, dq, phase, size, listing)


def on_a_cluster(cluster, dq, phase, size, listing):
    with tempfile.TemporaryDirectory() as folder:
        simulated = cluster(dq.plan, phase, folder, workers=5, tasks=2, batch_size=size, counting=not listing).run()
    if not listing:
        return simulated.count
    rows = simulated.rows()
    return [np.array(rows, np.uint32).T] if rows else []


@brief
@given(histories(), st.sampled_from([1, 3, 1000]), st.sampled_from([on_batches, by_loops, spread, balanced]))
def test_delta_queries_find_the_difference_of_two_results(history, size, run):
    check(history, size, run)


@pytest.mark.slow
@settings(brief, max_examples=3000)
@given(histories(), st.sampled_from([1, 3, 1000]), st.sampled_from([on_batches, by_loops, spread, balanced]))
def test_delta_queries_of_thousands_of_histories(history, size, run):
    check(history, size, run)


def check(history, size, run):
    with tempfile.TemporaryDirectory() as folder:
        epochs = Epochs(history, folder)
        listed, counted = (delta_plan(history.query, epochs.index.statistics, listing=way) for way in (True, False))
        for states in epochs:
            wanted = history.change(*states)
            assert by_nests(counted, epochs) == sum(wanted.values()), str(counted)
            number = sum(s.sign * s.each * run(s.dq, phase, size, listing=False) for s, phase in epochs.phases(counted))
            assert number == sum(wanted.values()), str(counted)
            found: Counter = Counter()
            for signed, phase in epochs.phases(listed):
                for bindings in run(signed.dq, phase, size, listing=True):
                    for rows in changed(listed, signed.dq, bindings):
                        columns = result_columns(listed.query, signed.dq.plan.attributes, phase)
                        for row in zip(*(c.decode(rows).to_pylist() for c in columns), strict=True):
                            found[row] += signed.sign
            assert all(abs(change) == 1 for change in found.values()), (found, str(listed))
            classes: Counter = Counter()
            for row, change in found.items():
                classes[ordered(history.query, [row], history.directed)[0]] += change
            assert {row: change for row, change in classes.items() if change} == wanted, str(listed)


@pytest.mark.parametrize("name", ["triangle", "4-clique", "diamond", "house", "5-clique"])
@pytest.mark.parametrize("directed", [True, False])
def test_all_epochs_together_explore_no_more_than_one_static_run(name, directed, tmp_path):
    """Theorem 3.2: over insertions alone, the prefixes of each dQ_i add up to at most those of a static run in its order."""
    random = np.random.default_rng(7)
    drawn = {tuple(pair) for pair in random.integers(0, 14, (90, 2)).tolist()}
    edges = sorted(pairs_of(drawn, directed))
    random.shuffle(edges)
    states = [set(map(tuple, edges[:n])) for n in range(0, len(edges) + 1, 9)]
    history = History(list(range(14)), directed, states, name, {})
    epochs = Epochs(history, tmp_path)
    plans = delta_plan(parse(name), epochs.index.statistics, listing=False)
    explored = [np.zeros(len(dq.plan.steps) + 1, np.int64) for dq in plans.queries]
    for _ in epochs:
        for number, dq in enumerate(plans.queries):
            bound = bind(dq.plan, Phase(epochs.versions, epochs.index, True))
            join = GenericJoin(bound, counting=True)
            join.count(equal_ranges(bound, 1))
            tally = join.tally
            explored[number] += tally.prefixes
    whole = build_index(
        pa.table({"src": [a for a, _ in states[-1]], "dst": [b for _, b in states[-1]]}), tmp_path / "whole", directed=directed
    )
    for number, dq in enumerate(plans.queries):
        bound = bind(plan(parse(name), whole.statistics, order=dq.plan.attributes), whole)
        join = GenericJoin(bound, counting=True)
        join.count(equal_ranges(bound, 1))
        tally = join.tally
        assert (explored[number] <= tally.prefixes).all(), (dq.plan, explored[number], tally.prefixes)


def test_atoms_before_read_the_new_version_and_atoms_after_the_old_one():
    plans = delta_plan(parse("q(a,b,c) := edge(a,b), edge(b,c), edge(a,c)"), assumed_graph(symmetric=False), listing=False)
    versions = [[e.atom.version for step in dq.plan.steps for e in step.extenders] for dq in plans.queries]
    assert versions == [[Version.OLD] * 2, [Version.NEW, Version.OLD], [Version.NEW] * 2]
    assert all(dq.plan.seed.extender.atom.version is Version.DELTA for dq in plans.queries)


@pytest.mark.parametrize(("name", "orbits"), [("triangle", 1), ("4-clique", 1), ("5-clique", 1), ("diamond", 1), ("house", 4)])
def test_symmetric_atoms_share_a_delta_query(name, orbits):
    plans = delta_plan(parse(name, unique=True), assumed_graph(symmetric=True))
    assert plans.by_updates
    assert len(plans.queries) == orbits


def test_a_query_with_very_many_symmetries_has_a_delta_query_for_each_atom():
    star = "s(x,a,b,c,d,e,f,g,h) := " + ", ".join(f"edge(x,{leaf})" for leaf in "abcdefgh")
    plans = delta_plan(parse(star, unique=True), assumed_graph(symmetric=True))
    assert not plans.by_updates
    assert len(plans.queries) == 8


def test_a_negated_atom_has_a_delta_query_and_reads_epochs_the_other_way_round():
    plans = delta_plan(parse("q(a,b,c) := edge(a,b), edge(b,c), not edge(c,a)"), assumed_graph(symmetric=False))
    assert [dq.plan.seed.extender.atom.version for dq in plans.queries] == [Version.DELTA, Version.DELTA, Version.NOT_DELTA]
    negated = [e.atom.version for dq in plans.queries for step in dq.plan.steps for e in (*step.excluders, *step.checks)]
    assert set(negated) == {Version.NOT_OLD}
    assert "dQ3, seeded with the delta of not edge(c, a)" in str(plans)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("q(a,b) := edge(a,b), not edge(b,_)", lambda state, a, b: not any(s == b for s, _ in state)),
        ("q(a,b) := edge(a,b), not edge(_,a)", lambda state, a, b: not any(d == a for _, d in state)),
        ("q(a,b) := edge(a,b), not edge(b,3)", lambda state, a, b: (b, 3) not in state),
        ("q(a,b) := edge(a,b), not edge(2,a)", lambda state, a, b: (2, a) not in state),
        ("q(a,b) := edge(a,b), edge(src: b)", lambda state, a, b: any(s == b for s, _ in state)),
    ],
)
def test_views_change_with_their_relation(text, holds, directed, tmp_path):
    """Atoms that leave a column open, or have a constant under `not`: their deltas are not those of the relation."""
    random = np.random.default_rng(5)
    states = [pairs_of(map(tuple, random.integers(0, 5, (n, 2)).tolist()), directed) for n in (4, 9, 3, 7, 0, 6)]
    history = History(list(range(5)), directed, states, text, {})
    epochs = Epochs(history, tmp_path)
    plans = delta_plan(history.query, epochs.index.statistics)

    def result(state):
        whole = state if directed else naive.undirected(state)
        return Counter(pair for pair in whole if holds(whole, *pair))

    for before, after in epochs:
        wanted = result(after)
        wanted.subtract(result(before))
        for run in (on_batches, by_loops, spread):
            found: Counter = Counter()
            for signed, phase in epochs.phases(plans):
                for bindings in run(signed.dq, phase, 3, listing=True):
                    for rows in changed(plans, signed.dq, bindings):
                        columns = result_columns(plans.query, signed.dq.plan.attributes, phase)
                        for row in zip(*(c.decode(rows).to_pylist() for c in columns), strict=True):
                            found[row] += signed.sign
            assert {k: v for k, v in found.items() if v} == {k: v for k, v in wanted.items() if v}, str(plans)


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=8), min_size=2, max_size=4))
def test_runs_that_are_merged_come_to_the_same(batches):
    state: set = set()
    runs = []
    for batch in batches:
        wanted = {(a, b): insert for a, b, insert in batch}
        deleted = [pair for pair, insert in wanted.items() if not insert and pair in state]
        inserted = [pair for pair, insert in wanted.items() if insert and pair not in state]
        state = state - set(deleted) | set(inserted)
        columns = [np.array([[p[i] for p in part] for i in (0, 1)], np.uint32) for part in (deleted, inserted)]
        runs.append({("edge", 2): Delta(*columns)})
    delta = combined(runs)["edge", 2]
    assert set(zip(*(c.tolist() for c in delta.inserted), strict=True)) == state
    assert not len(delta.deleted[0])


def test_runs_that_insert_what_is_there_are_refused():
    pair, none = np.array([[1], [2]], np.uint32), np.empty((2, 0), np.uint32)
    with pytest.raises(UntrueRunsError):
        combined([{("edge", 2): Delta(none, pair)}] * 2)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=300))
def test_there_are_as_many_runs_as_a_logarithm_says(sizes):
    runs: list[int] = []
    written = 0
    for size in sizes:
        runs.append(size)
        count = to_merge(runs)
        runs[-count:] = [sum(runs[-count:])]
        written += runs[-1] if count > 1 else size
    assert len(runs) <= np.log2(sum(sizes)) + 2
    assert written <= sum(sizes) * (np.log2(sum(sizes)) + 2)
