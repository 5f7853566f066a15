"""Numbers of the tutorials and of how-it-works, found again by brute force, which imports nothing of bigjoin's."""

from __future__ import annotations

import csv
import random
import re
from collections import defaultdict
from itertools import permutations, product
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def literal(page: str, line: str) -> object:
    """Return the value that a page says an expression has."""
    found = re.search(rf"^{re.escape(line)}  # (.+)$", (DOCS / f"{page}.md").read_text(), re.MULTILINE)
    assert found, f"{page} has no line {line!r} with a value"
    return eval(found[1], {})


@pytest.fixture(scope="module")
def payments(tmp_path_factory):
    """The payments of the rings tutorial: its first block, run."""
    folder = tmp_path_factory.mktemp("rings")
    block = re.search(r"```python\n(import random.*?)```", (DOCS / "tutorials" / "rings.md").read_text(), re.DOTALL)[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(block, {})
    with (folder / "payments.csv").open() as file:
        return [tuple(map(int, row)) for row in list(csv.reader(file))[1:]]


def rings_of(payments, lengths, *, least=0, days=None):
    """Return every ring of payments, each later than the one before: no account twice."""
    after = defaultdict(list)
    for row in payments:
        if row[2] > least:
            after[row[0]].append(row)

    def grow(path):
        if path[-1][1] == path[0][0]:
            if len(path) in lengths:
                yield path
        elif len(path) < max(lengths) and path[-1][1] not in {row[0] for row in path}:
            for row in after[path[-1][1]]:
                if row[3] > path[-1][3] and (days is None or row[3] - path[0][3] < days):
                    yield from grow([*path, row])

    return [path for rows in list(after.values()) for row in rows for path in grow([row])]


def test_rings_of_three(payments):
    assert len(rings_of(payments, {3})) == literal("tutorials/rings", "graph.count(ring)")
    large = [path for path in rings_of(payments, {3}) if path[0][2] > 1000]
    rows = [(*(row[0] for row in path), *(row[2] for row in path), path[-1][3]) for path in large]
    assert rows == literal("tutorials/rings", "[tuple(row) for row in large.collect()]")


def test_rings_of_any_length(payments):
    found = rings_of(payments, {3, 4, 5}, least=1000, days=10)
    rows = sorted(([*(row[0] for row in path), path[0][0]], [row[2] for row in path], path[-1][3]) for path in found)
    assert rows == [literal("tutorials/rings", f"found[{i}]") for i in range(literal("tutorials/rings", "len(found)"))]


def test_collectors(payments):
    payers = defaultdict(set)
    total = defaultdict(int)
    for payer, payee, amount, day in payments:
        if 20 <= day <= 26:
            payers[payee].add(payer)
            total[payee] += amount
    rows = [(account, len(found), total[account]) for account, found in payers.items() if len(found) >= 10]
    assert rows == literal("tutorials/rings", "[tuple(row) for row in graph.find(collectors).collect()]")


def test_offers_of_the_join():
    text = (DOCS / "tutorials" / "join.md").read_text()
    block = re.search(r"```python\n(import pyarrow.*?)```", text, re.DOTALL)[1]
    names: dict = {}
    exec(block, names)
    teaches, held, free, likes = (
        [tuple(r.values()) for r in names[n].to_pylist()] for n in ("teaches", "held", "free", "likes")
    )
    rows = sorted(
        (who, course, slot, room)
        for (who, course), (other, slot, room) in product(teaches, held)
        if course == other and (who, slot) in free and (who, room) in likes
    )
    told = "".join(" ".join(map(str, row)) + "\n" for row in rows)
    assert f"```text\n{told}```" in text
    assert len(rows) == literal("tutorials/join", "timetable.count(offers)")
    nowhere_blue = {who for who, _ in teaches} - {who for who, room in likes if room == "blue"}
    line = "timetable.count(\"q(l) := teaches(l, c), not likes(l, 'blue')\", deduplicate=True)"
    assert len(nowhere_blue) == literal("tutorials/join", line)


def test_skew_of_the_join():
    """The answer and the first join by formula, and by brute force for a small n."""
    n = 2000
    assert literal("tutorials/join", "sum(len(by_first[y]) for _, y in pairs)") == (n + 1) ** 2 + n
    assert literal("tutorials/join", "relations.count(triangle)") == 3 * n + 1
    n = 7
    pairs = {(0, i) for i in range(n + 1)} | {(i, 0) for i in range(1, n + 1)}
    assert sum(b == c for (_, b), (c, _) in product(pairs, pairs)) == (n + 1) ** 2 + n
    triangles = [t for t in product(range(n + 1), repeat=3) if {t[:2], t[1:], (t[2], t[0])} <= pairs]
    assert len(triangles) == 3 * n + 1


def test_matches_of_the_page_about_networkx():
    edges = {(1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (4, 5), (4, 6), (5, 6)}
    both = edges | {(b, a) for a, b in edges}
    triples = list(permutations(range(1, 7), 3))
    paths = [(a, b, c) for a, b, c in triples if {(a, b), (b, c)} <= both]
    page = "coming-from-networkx"
    assert len(paths) == literal(page, "graph.count(path, distinct=True)")
    is_open = [t for t in paths if (t[0], t[2]) not in both]
    assert len(is_open) == literal(page, "graph.count(path, induced=True)")
    walks = [t for t in product(range(1, 7), repeat=3) if {t[:2], t[1:]} <= both]
    assert len(walks) == literal(page, "graph.count(path)")
    weights = {(1, 2): 0.9, (1, 3): 0.2, (2, 3): 0.8, (2, 4): 0.7, (3, 4): 0.6, (4, 5): 0.3, (4, 6): 0.9}
    chains = [(a, b, c) for a, b, c in triples if weights.get((a, b), 0) >= 0.5 and (b, c) in weights and (a, c) not in weights]
    assert sorted(chains) == literal(page, "sorted(tuple(row) for row in found.collect())")


def test_a_growing_graph_of_the_page_about_the_paper():
    chance = random.Random(1)
    edges = {(chance.randrange(60), chance.randrange(60)) for _ in range(600)}
    out = defaultdict(set)
    for a, b in edges:
        out[a].add(b)
    cliques = sum(len(out[a] & out[b] & out[c]) for a in range(60) for b in out[a] for c in out[a] & out[b])
    assert (-(-len(edges) // 100), cliques) == literal("tutorials/paper", "epoch.number, epoch.count")
