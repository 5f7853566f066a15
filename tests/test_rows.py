"""Sets as bits: rows of lists inside a universe, what they cost, and that whole counts and lists agree with sets as lists."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations
from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from bigjoin.compiled import row_source, stages
from bigjoin.compiled.loops import Counting
from bigjoin.compiled.universes import Universes
from bigjoin.indexing import build_index
from bigjoin.kernels import rows as kernels
from bigjoin.languages import parse
from bigjoin.planner import count_plan, plan
from bigjoin.query import statistics
from tests.executions import interpreted, listed, total

NOTHING = np.zeros(0, np.uint64)


class World:
    """A universe of some members among codes below `codes`, and what kernels ask of it."""

    def __init__(self, random: Random, codes: int, members: int) -> None:
        self.codes = codes
        self.members = np.array(sorted(random.sample(range(codes), members)), np.uint32)
        self.places = np.zeros(codes, np.int32)
        kernels.settle(self.places, self.members, 0, members)
        self.words = (members >> 6) + 1
        self.within = (self.places, self.members, 0, members)

    def as_set(self, codes) -> tuple[np.ndarray, np.ndarray, int]:
        """Some members as a set."""
        words: dict[int, int] = {}
        for code in codes:
            place = int(self.places[code])
            words[place >> 6] = words.get(place >> 6, 0) | 1 << (place & 63)
        at = sorted(words)
        return np.array([words[w] for w in at], np.uint64), np.array(at, np.int32), len(at)

    def codes_of(self, bits, at, kept) -> list[int]:
        """The members of a set, which has no word that is zero and none twice."""
        assert all(bits[:kept])
        assert list(at[:kept]) == sorted(set(at[:kept].tolist()))
        places = [int(at[i]) * 64 + bit for i in range(kept) for bit in range(64) if int(bits[i]) >> bit & 1]
        return [int(self.members[place - 1]) for place in places]

    def space(self) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(self.words + 1, np.uint64), np.empty(self.words + 1, np.int32)


def drawn(random: Random) -> tuple[World, list[int], np.ndarray]:
    """A universe, some of its members, and a sorted list: short, long, or with nothing in common."""
    codes = random.choice([1, 64, 200, 3000])
    world = World(random, codes, random.randint(1, codes))
    some = random.sample(world.members.tolist(), random.randint(0, len(world.members)))
    length = random.choice([0, 1, codes // 20, codes // 2, codes])
    return world, sorted(some), np.array(sorted(random.sample(range(codes), min(length, codes))), np.uint32)


@pytest.mark.parametrize("seed", range(60))
def test_a_set_meets_a_row_and_a_list_alike(seed):
    random = Random(seed)
    world, some, values = drawn(random)
    row = np.empty(world.words, np.uint64)
    kernels.make_row(row, 0, world.words, *world.within, values, 0, len(values))
    assert int(row[0]) & 1 == 0
    shared = sorted(set(world.members.tolist()) & set(values.tolist()))
    for found in (
        lambda out: kernels.meet_row(None, None, 0, row, 0, world.words, kernels.ZERO, *out),
        lambda out: kernels.meet_list(None, None, 0, 0, *world.within, values, 0, len(values), kernels.ZERO, *out),
        lambda out: kernels.members_in_list(np.empty_like(row), world.words, *world.within, values, 0, len(values), *out),
    ):
        out = world.space()
        kept, size = found(out)
        assert (world.codes_of(*out, kept), size) == (shared, len(shared))
    bits = world.as_set(some)
    for flip, wanted in ((kernels.ZERO, set(some) & set(shared)), (kernels.ONES, set(some) - set(shared))):
        for found in (
            lambda out, flip=flip: kernels.meet_row(*bits, row, 0, world.words, flip, *out),
            lambda out, flip=flip: kernels.meet_list(*bits, len(some), *world.within, values, 0, len(values), flip, *out),
        ):
            out = world.space()
            kept, size = found(out)
            assert (world.codes_of(*out, kept), size) == (sorted(wanted), len(wanted))
            assert found((None, None))[1] == len(wanted)


@pytest.mark.parametrize("seed", range(20))
def test_a_set_is_cut_between_places_and_knows_what_it_holds(seed):
    random = Random(seed)
    world, some, _ = drawn(random)
    out = world.space()
    kept, size = kernels.all_members(world.words, len(world.members), *out)
    assert (world.codes_of(*out, kept), size) == (world.members.tolist(), len(world.members))
    bits = world.as_set(some)
    low, high = sorted(random.randint(0, len(world.members) + 1) for _ in range(2))
    kept, size = kernels.meet_places(*bits, low, high, *out)
    wanted = [code for code in some if low <= world.places[code] < high]
    assert (world.codes_of(*out, kept), size) == (wanted, len(wanted))
    for code in range(0, world.codes, 1 + world.codes // 50):
        assert kernels.holds_place(*bits, int(world.places[code])) == (code in some)


COUNTED_READS = """
import numpy as np
from bigjoin.kernels import rows as kernels

class Counted:
    def __init__(self, values): self.values, self.reads = values, 0
    def __len__(self): return len(self.values)
    def __getitem__(self, i): self.reads += 1; return self.values[i]
    def __setitem__(self, i, value): self.reads += 1; self.values[i] = value

hub, universe = 1 << 17, 1 << 13
members = Counted(np.arange(0, 8 * universe, 8))
places = Counted(np.zeros(8 * universe + hub, np.int32))
places.values[members.values] = np.arange(1, universe + 1)
words = (universe >> 6) + 1
values = Counted(np.arange(hub))
rows, ready, spent = Counted(np.zeros(2 * words, np.uint64)), np.zeros(2, np.int64), np.zeros(2, np.int64)
bits, at = Counted(np.array([1 << 5, 1 << 60], np.uint64)), Counted(np.array([3, 90]))
out, out_at = Counted(np.zeros(words + 1, np.uint64)), Counted(np.zeros(words + 1, np.int64))
total, met = [], []
for visit in range(600):
    for each in (members, places, values, rows, bits, at, out, out_at): each.reads = 0
    if ready[1] != 7:
        kernels.make_row_if_paid(rows, ready, spent, 1, 7, words, places, members, 0, universe, values, 0, hub, 2)
    if ready[1] == 7:
        met.append(kernels.meet_row(bits, at, 2, rows, words, words, kernels.ZERO, out, out_at))
    else:
        met.append(kernels.meet_list(bits, at, 2, 2, places, members, 0, universe, values, 0, hub, kernels.ZERO, out, out_at))
    total.append(sum(each.reads for each in (members, places, values, rows, bits, at, out, out_at)))
assert set(met) == {(2, 2)}
print(total[0], total[-1], sum(total), int(ready[1]))
"""


def test_a_small_set_that_meets_a_hub_costs_a_logarithm_and_a_row_is_made_once_it_is_paid_for():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", COUNTED_READS]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert found.returncode == 0, found.stderr
    first, last, together, era = map(int, found.stdout.split())
    assert first < 2 * 4 * 17, "two members gallop through the list of a hub"
    assert last < 20, "in the end there is a row"
    assert era == 7
    assert together < 2 * kernels.MAX_ROW_COST * 600 * first, (
        "all visits cost a constant times what lists alone would have cost"
    )


def test_rows_beyond_the_space_are_never_made():
    world = World(Random(1), 100, 90)
    rows, ready, spent = np.zeros(3 * world.words, np.uint64), np.zeros(9, np.int64), np.zeros(9, np.int64)
    values = np.arange(50, dtype=np.uint32)
    for q in (2, 3, 8):
        kernels.make_row_if_paid(rows, ready, spent, q, 4, world.words, *world.within, values, 0, 50, 90)
    assert ready.tolist() == [0, 0, 4, 0, 0, 0, 0, 0, 0]


# Whole queries


def graph(tmp_path, seed: int, *, vertices: int, share: float, directed: bool):
    """A dense graph, with labels for a third of its vertices."""
    random = Random(seed)
    pairs = [(a, b) for a in range(vertices) for b in range(vertices) if a != b and random.random() < share]
    table = pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]})
    members = pa.table({"id": list(range(vertices)), "label": ["many" if v % 3 else "few" for v in range(vertices)]})
    return build_index(table, tmp_path / "index", directed=directed, vertices=members, labels="label")


CLIQUES = {
    "4-clique": {},
    "5-clique": {},
    "house": {},
    "q(a,b,c,d,e) := edge(a,b), edge(a,c), edge(b,c), edge(a,d), edge(b,d), edge(c,d), edge(a,e), edge(b,e), edge(d,e)": {},
    "q(a,b,c,d) := edge(a,b), edge(b,c), edge(a,c), edge(a,d), edge(b,d), !edge(c,d), c != d": {},
    "q(a,b,c,d) := edge(a,b), edge(a,c), edge(a,d), !edge(b,c), !edge(c,d), !edge(b,d), b < c, c < d": {},
    "q(a,b,c,d) := edge(a,b), edge(b,c), edge(a,c), edge(a,d), edge(b,d), edge(c,d), few(d), few(b)": {},
    "q(a,b,c,d) := edge(a,b), edge(c,a), edge(c,b), edge(a,d), edge(d,b), edge(c,d)": {},
    "q(a,b,c,d,e) := edge(a,b), edge(a,c), edge(b,c), edge(a,d), edge(c,d), edge(b,d), edge(a,e), edge(d,e), e != b": {},
}


def clique(names: str) -> str:
    return ", ".join(f"edge({x}, {y})" for x, y in combinations(names, 2))


def test_loops_whose_sum_is_kept_share_a_universe_with_those_beside_them(tmp_path):
    index = graph(tmp_path, 3, vertices=8, share=0.7, directed=True)
    for text in (
        f"q(a,b,c,d,e,f,g,h,i) := edge(a,b), {clique('bcde')}, {clique('bfghi')}, edge(a,h), edge(a,g)",
        f"q(a,z,b,c,d,e,f,g,h) := edge(a,b), edge(z,a), edge(b,z), {clique('bcde')}, {clique('bfgh')}, edge(a,h), edge(z,g)",
    ):
        counted = count_plan(parse(text), index.statistics)
        assert "kept for each value" in str(counted)
        with without_universes():
            wanted = total(counted, index)
        assert total(counted, index) == wanted


def without_universes():
    return mock.patch.object(Universes, "_consider", return_value=None)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("text", CLIQUES)
def test_counts_and_lists_by_bits_are_those_by_lists(tmp_path, text, directed):
    index = graph(tmp_path, 5, vertices=12, share=0.6, directed=directed)
    for flags in ({}, {"unique": True}, {"induced": True}):
        query = parse(text, **flags)
        counted, steps = count_plan(query, index.statistics), plan(query, index.statistics)
        with without_universes():
            wanted = total(counted, index, 3)
            rows = sorted(listed(steps, index, size=7, parts=2))
        assert total(counted, index, 3) == wanted == len(rows)
        assert sorted(listed(steps, index, size=7, parts=2)) == rows
        with mock.patch.object(row_source, "MAX_ROW_WORDS", 3):
            assert total(counted, index, 3) == wanted


def test_universes_of_several_words(tmp_path):
    """Compiled, on 170 vertices: the truth is that of matrices."""
    random = np.random.default_rng(3)
    upper = np.triu(random.random((170, 170)) < 0.5, 1)
    matrix = upper | upper.T
    a, b = np.nonzero(upper)
    index = build_index(pa.table({"src": a, "dst": b}), tmp_path / "index", directed=False)
    wanted = sum(
        int(np.triu(matrix[np.ix_(s, s)], 1).sum())
        for s in (np.flatnonzero(matrix[x] & matrix[y]) for x, y in zip(a, b, strict=True))
    )
    counted = count_plan(parse("4-clique", unique=True), index.statistics)
    for budget in (row_source.MAX_ROW_WORDS, 100):
        with mock.patch.object(row_source, "MAX_ROW_WORDS", budget):
            counting = Counting(counted.terms[0], counted.query, index)
        assert 6 * counting.count(counting.ranges(5)) == wanted
        assert "meet_row" in counting.source


@pytest.mark.parametrize(("text", "expected"), [("triangle", False), ("4-cycle", False), ("3-path", False), ("4-clique", True)])
def test_bits_are_for_queries_in_which_rows_are_met_again(tmp_path, text, expected):
    index = graph(tmp_path, 5, vertices=12, share=0.6, directed=False)
    counted = count_plan(parse(text, unique=True), index.statistics)
    sources = [Counting(term, counted.query, index).source for term in counted.terms]
    assert any("meet_row" in source for source in sources) == expected


def test_bits_are_for_long_lists_that_share_much(tmp_path, monkeypatch):
    index = graph(tmp_path, 5, vertices=60, share=0.9, directed=False)
    counted = count_plan(parse("4-clique", unique=True), index.statistics)

    def has_bits() -> bool:
        return "meet_row" in Counting(counted.terms[0], counted.query, index).source

    monkeypatch.setattr(stages, "has_dense_lists", statistics.has_dense_lists)
    monkeypatch.setattr(statistics, "MIN_TYPICAL_LENGTH", 55)
    monkeypatch.setattr(statistics, "MIN_SHARED_VALUES", 40)
    assert has_bits()
    monkeypatch.setattr(statistics, "MIN_TYPICAL_LENGTH", 61)
    assert not has_bits()
    monkeypatch.setattr(statistics, "MIN_TYPICAL_LENGTH", 55)
    monkeypatch.setattr(statistics, "MIN_SHARED_VALUES", 60)
    assert not has_bits()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_drawn_patterns_on_dense_graphs(tmp_path, seed):
    random = Random(seed)
    directed, names = random.random() < 0.6, "abcdef"[: random.randint(4, 6)]
    index = graph(tmp_path, seed, vertices=9 if len(names) == 6 else 14, share=0.7, directed=directed)
    atoms = []
    for x, y in combinations(names, 2):
        x, y = (x, y) if random.random() < 0.6 else (y, x)
        draw = random.random()
        atoms += [f"edge({x}, {y})"] if draw < 0.75 else [f"!edge({x}, {y})"] if draw < 0.85 else []
    atoms += [f"few({random.choice(names)})"] if random.random() < 0.3 else []
    atoms += [f"{x} {random.choice(['<', '!=', '>='])} {y}" for x, y in [random.sample(names, 2)] if random.random() < 0.4]
    bound = {
        name for atom in atoms if atom.startswith(("edge", "few")) for name in names if f"{name}," in atom or f"{name})" in atom
    }
    if bound != set(names):
        pytest.skip("an attribute is only in a negated atom")
    query = parse(f"q({', '.join(names)}) := {', '.join(atoms)}", cross_product=True, unique=random.random() < 0.3)
    counted = count_plan(query, index.statistics)
    with without_universes(), mock.patch("bigjoin.compiled.loops.load", interpreted):
        wanted = total(counted, index, 2)
    assert total(counted, index, 2) == wanted
