"""Paths of several lengths: as brute force and DuckDB's recursive tables find them, under every way to run a plan."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from unittest import mock

import pyarrow as pa
import pytest

from bigjoin.compiled import loops
from bigjoin.compiled.loops import Counting, Listing, TreeListing
from bigjoin.indexing import build_index
from bigjoin.joins.bind import bind, result_columns
from bigjoin.languages import read
from bigjoin.planner import meaning, plan
from bigjoin.planner.share_prefixes import share_prefixes
from bigjoin.query.nest import nest_of
from bigjoin.streaming.monitor import Monitor
from bigjoin.streaming.watched import Watched
from tests.executions import decoded, interpreted, locally, on_batches, spread
from tests.oracles import walks as oracle

MODES = ("walk", "trail", "simple", "acyclic")


@dataclass
class Drawn:
    """A graph and a path in it, as plain data."""

    edges: list
    undirected: bool
    named: bool
    low: int
    high: int
    mode: str
    ring: bool
    conditions: list

    @property
    def text(self):
        word = "" if self.mode == "walk" else f"{self.mode} "
        star = f"*{self.low}" if self.low == self.high else f"*{self.low}..{self.high}"
        end = "a" if self.ring else "b"
        body = [f"{word}edge{star}(a, {end}{', e' * (self.named or bool(self.conditions))})", *self.conditions]
        listed = ", edges(e) as ids" * self.named + ", nodes(e) as nodes" * (self.named or bool(self.conditions))
        return f"q(a{', b' * (not self.ring)}{listed}) := {', '.join(body)}"

    def wanted(self, answer):
        steps = oracle.tuples(self.edges, undirected=self.undirected, named=self.named)
        options = {"ring": self.ring, "undirected": self.undirected, "named": self.named}
        found = answer(steps, self.low, self.high, self.mode, self.conditions, **options)
        return Counter(self.row(*path) for path in found)

    def row(self, nodes, ids):
        listed = [str(list(ids))] * self.named + [str(list(nodes))] * (self.named or bool(self.conditions))
        return (nodes[0], *([] if self.ring else [nodes[-1]]), *listed)

    @property
    def watched(self):
        """The same path with columns that do not depend on the numbers of rows."""
        amounts = ", e.amount as amounts" * self.named
        body = self.text.partition(":=")[2].replace("(a, b)", "(a, b, e)").replace("(a, a)", "(a, a, e)")
        return f"q(a, nodes(e) as nodes{amounts}) :={body}"

    def shown(self):
        """Its rows by brute force."""
        steps = oracle.tuples(self.edges, undirected=self.undirected, named=self.named)
        options = {"ring": self.ring, "undirected": self.undirected, "named": self.named}
        found = oracle.answer(steps, self.low, self.high, self.mode, self.conditions, **options)
        paid = {edge[2]: edge[3] for edge in self.edges}
        return Counter((n[0], str(list(n)), *[str([paid.get(i) for i in ids])] * self.named) for n, ids in found)

    def identity(self, edge):
        """What a deletion says of an edge."""
        ends = tuple(sorted(edge[:2])) if self.undirected else edge[:2]
        return (*ends, *edge[3:]) if self.named else ends

    def index(self, folder):
        columns = ("src", "dst", "id", "amount", "time") if self.named else ("src", "dst")
        table = pa.table({name: pa.array([e[i] for e in self.edges], pa.int64()) for i, name in enumerate(columns)})
        return build_index(table.drop_columns("id") if self.named else table, folder, directed=not self.undirected)


def draw(seed):
    chance = random.Random(seed)
    vertices, named = chance.randint(2, 6), chance.random() < 0.6
    pairs = [(chance.randrange(vertices), chance.randrange(vertices)) for _ in range(chance.randint(1, 10))]
    edges = [(src, dst, i, chance.randint(0, 6), chance.randint(0, 9)) for i, (src, dst) in enumerate(pairs)]
    low = chance.randint(1, 3)
    high = low + chance.randint(0, 2)
    mode, ring = chance.choice(MODES), chance.random() < 0.35
    if ring and mode == "acyclic":
        mode = "simple"
    usable = [text for text in oracle.CONDITIONS if named or ("amount" not in text and "time" not in text)]
    conditions = chance.sample(usable, min(len(usable), chance.choice((0, 0, 1, 2, 3))))
    undirected = chance.random() < 0.4
    if undirected:  # an undirected graph keeps no loops, and rows keep their numbers
        edges = [(a, b if a != b else (b + 1) % vertices, *rest) for a, b, *rest in edges]
    return Drawn(edges, undirected, named, low, high, mode, ring, conditions)


@pytest.mark.parametrize("seed", range(40))
def test_paths_are_those_of_brute_force_and_of_recursive_tables(seed, tmp_path):
    check_paths_of(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_two_thousand_paths_are_those_of_brute_force_and_of_recursive_tables(hundred, tmp_path):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        check_paths_of(seed, tmp_path / str(seed))


def check_paths_of(seed, folder):
    """Compare the rows of a drawn path with what brute force and recursive tables find."""
    drawn = draw(seed)
    wanted = drawn.wanted(oracle.answer)
    assert drawn.wanted(oracle.answer_in_sql) == wanted, drawn
    index = drawn.index(folder / "index")
    query = read(drawn.text).query
    found = Counter()
    for part in meaning(query, index.statistics):
        bound = bind(plan(part), index)
        columns = [column.name for column in bound.columns]
        rows = executed(bound, index, batch_size=(3, 64)[seed % 2], parts=1 + seed % 2, every=seed % 10 == 0)
        found.update(tuple(_cell(dict(zip(columns, row, strict=True))[name]) for name in query.columns) for row in rows)
    assert found == wanted, drawn


@pytest.mark.parametrize("seed", range(40))
def test_lengths_that_share_their_prefixes_find_the_same(seed, tmp_path):
    """Every tree of plans, cheap or not, lists and counts what the plans of its queries do, a few rows at a time."""
    check_tree_of(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_two_thousand_trees_of_lengths_find_the_same(hundred, tmp_path):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        check_tree_of(seed, tmp_path / str(seed))


def check_tree_of(seed, folder):
    """Compare what the tree of a drawn path's lengths lists and counts with brute force."""
    drawn = draw(seed)
    index = drawn.index(folder / "index")
    query = read(drawn.text).query
    drafts = meaning(query, index.statistics)
    tree = share_prefixes(drafts, lambda draft, order: plan(draft, order=order or None))
    if tree is None:  # one length, or a loop and longer rings, which begin differently
        assert len(drafts) == 1 or drawn.ring, drawn
        return
    wanted = drawn.wanted(oracle.answer)
    with mock.patch.object(loops, "load", interpreted):
        counting = Counting(tree.nest, tree.scope, index)
        if counting.is_too_large:
            return
        assert counting.count(counting.ranges(1 + seed % 3)) == wanted.total(), drawn
        listing, found = TreeListing(tree, index), Counter()
        for number, rows in listing.rows(listing.ranges(1 + seed % 3), (1, 2, 50)[seed % 3]):
            columns = result_columns(tree.queries[number], tree.orders[number], index)
            cells = [dict(zip([c.name for c in columns], row, strict=True)) for row in decoded(columns, rows.prefixes)]
            found.update(tuple(_cell(row[name]) for name in query.columns) for row in cells)
    assert found == wanted, drawn


@pytest.mark.parametrize("seed", range(100, 112))
def test_paths_that_come_and_go_are_those_of_brute_force(seed, tmp_path):
    """Paths of several lengths, with lists of what is on them, before and after an epoch that deletes and inserts edges."""
    drawn = draw(seed)
    first, last = drawn.edges[:-3], drawn.edges[-3:]
    before, gone = replace(drawn, edges=first), {drawn.identity(edge) for edge in first[:2]}
    after = replace(drawn, edges=[edge for edge in first if drawn.identity(edge) not in gone] + last)
    before.index(tmp_path / "index")
    watched = {"paths": Watched(read(drawn.watched).query)}
    monitor = Monitor(tmp_path / "index", watched, spark=None, initial=lambda *_: before.shown().total())
    columns = ("src", "dst", "id", "amount", "time") if drawn.named else ("src", "dst")
    changes = [(edge, "-") for edge in first[:2]] + [(edge, "+") for edge in last]
    table = {name: pa.array([edge[i] for edge, _ in changes], pa.int64()) for i, name in enumerate(columns) if name != "id"}
    epoch = monitor.apply(pa.table({**table, "op": pa.array([op for _, op in changes], pa.string())}))
    wanted, found = after.shown(), Counter()
    wanted.subtract(before.shown())
    for row in epoch.table.to_pylist():
        found[tuple(_cell(row[name]) for name in epoch.table.column_names[2:])] += row["change"]
    assert {row: times for row, times in found.items() if times} == {row: times for row, times in wanted.items() if times}
    assert epoch.count == after.shown().total()


def executed(bound, index, **options):
    """The rows of a plan along every path of execution that it can take: what loops cannot decide runs on batches alone."""
    if Listing(nest_of(bound.plan), bound.plan.query, index).is_too_large:
        every, batch_size = options.pop("every"), options["batch_size"]
        rows = on_batches(bound, **options)
        spread(bound, index, len(rows), batch_size=batch_size, every=every)
        return rows
    return locally(bound, index, **options)


def _cell(value):
    return str(value) if isinstance(value, list) else value
