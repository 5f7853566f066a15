"""The example notebooks: executed in one kernel, their numbers compared with published ones and with brute force.

What is stored is what was printed: a run prints the same text again, apart from seconds, megabytes and shares of time.
"""

from __future__ import annotations

import re
import sys
from itertools import combinations
from pathlib import Path

import nbformat
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import notebooks  # noqa: E402

SECONDS = re.compile(r"\d[\d,.]*(?= s\b)")
MEMORY = re.compile(r"\d[\d,.]*(?= [MG]B\b)")
SHARES = re.compile(r"\d+(?:\.\d+)?(?= ?%)")
VARYING = {"stats", "path"}
"""Cells that show seconds and bytes as bare numbers, or figures of `balanced`, which deals work out anew each time."""

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def ran():
    """Every notebook as it is after it was executed, by its name."""
    paths = notebooks.stored()
    variables = {"BIGJOIN_PROGRESS": "off"}
    return {path.stem: notebooks.tidied(one) for path, one in zip(paths, notebooks.executed(paths, variables), strict=True)}


@pytest.fixture(scope="module")
def kept():
    return {path.stem: nbformat.read(path, as_version=4) for path in notebooks.stored()}


def cell(notebook, name):
    return next(one for one in notebook.cells if one.id == name)


def plain(notebook, name: str) -> str:
    """What a cell prints and shows, as text."""
    return "".join(output.get("text") or output["data"]["text/plain"] for output in cell(notebook, name).outputs)


def numbers(text: str) -> list[int]:
    return [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text)]


def comparable(text: str) -> str:
    """Text without what differs from run to run."""
    for varying in (SECONDS, MEMORY, SHARES):
        text = varying.sub("#", text)
    return " ".join(text.split())


def test_all_notebooks_are_listed(kept):
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == kept.keys()
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert all(f"notebooks/{name}.ipynb" in page for name in kept)


def test_what_is_stored_was_printed(ran, kept):
    for name, notebook in kept.items():
        for stored, now in zip(notebook.cells, ran[name].cells, strict=True):
            assert stored.source == now.source
            if stored.cell_type == "code":
                assert [output.output_type for output in stored.outputs] == [output.output_type for output in now.outputs]
                assert stored.outputs or stored.source.rstrip().endswith(")"), f"{name}: run `make notebooks`"
                if stored.id not in VARYING:
                    mine, theirs = (comparable(plain(one, stored.id)) for one in (notebook, ran[name]))
                    assert mine == theirs, f"{name}, cell {stored.id}: run `make notebooks`"


def test_drawings_and_tables_are_there(ran):
    """Every value that has a form for notebooks is shown in it."""
    rich = {
        "first-steps": ("graph", "triangles", "draw", "show", "explain", "stats", "degrees", "estimate"),
        "payments": ("graph", "ring", "count", "find", "show", "explain", "epoch", "first", "second"),
        "paper": ("queries", "counts", "bounds", "loads", "apply", "relations", "join-explain"),
    }
    for name, shown in rich.items():
        for one in shown:
            outputs = cell(ran[name], one).outputs
            assert outputs, (name, one)
            assert all("text/html" in output["data"] for output in outputs), (name, one)
    assert len(cell(ran["paper"], "queries").outputs) == 5
    assert len(cell(ran["paper"], "loads").outputs) == 3


def test_nothing_is_written_to_stderr(ran):
    for name, notebook in ran.items():
        for one in notebook.cells:
            assert not [output.text for output in one.get("outputs", ()) if output.get("name") == "stderr"], (name, one.id)


def test_no_output_names_a_place_of_this_machine(kept):
    for path in notebooks.stored():
        assert not re.search(r"/tmp/|/home/|/work/|/root/", path.read_text()), path.name


def test_first_steps(ran, truth):
    notebook = ran["first-steps"]
    published = truth["graphs"]["soc-Epinions1"]
    counts = {name: one["count"] for name, one in published["undirected_unique"].items()}
    assert numbers(plain(notebook, "graph"))[:2] == [published["vertices"], published["undirected_edges"]]
    assert plain(notebook, "triangles") == str(counts["triangle"])
    assert plain(notebook, "rule") == str(counts["triangle"])
    assert numbers(plain(notebook, "languages")) == [counts["triangle"]] * 2
    assert float(plain(notebook, "arithmetic")) == counts["triangle"] / published["vertices"]
    assert plain(notebook, "by-sum") == str(counts["triangle"])
    houses, bound = numbers(plain(notebook, "stats-keys"))
    assert houses == counts["house"] <= bound
    count, low, high, _ = numbers(plain(notebook, "estimate"))
    assert low <= counts["5-clique"] <= high
    assert low <= count <= high
    assert plain(notebook, "exact") == str(counts["5-clique"])


def test_first_steps_by_brute_force(ran):
    """The cliques around one person, and the person in most triangles."""
    import gzip
    from importlib.resources import files

    neighbours: dict[int, set[int]] = {}
    with gzip.open(files("bigjoin") / "data" / "soc-Epinions1.txt.gz", "rt") as lines:
        for a, b in (map(int, line.split()) for line in lines if line[0].isdigit()):
            if a != b:
                neighbours.setdefault(a, set()).add(b)
                neighbours.setdefault(b, set()).add(a)
    around = sorted(neighbours[5])
    cliques = sum(
        c in neighbours[b] and d in neighbours[b] and d in neighbours[c]
        for b, c, d in combinations([one for one in around if len(neighbours[one]) > 2], 3)
        if c in neighbours[b]
    )
    assert plain(ran["first-steps"], "find-count") == str(cliques)
    triangles = {
        person: sum(len(mine & neighbours[other]) for other in mine) // 2
        for person, mine in neighbours.items()
        if len(mine) > 312  # others cannot be in so many
    }
    most = sorted(triangles.items(), key=lambda one: -one[1])
    shown = [numbers(line) for line in plain(ran["first-steps"], "by").splitlines() if re.match(r"\| *\d", line)]
    assert shown[0] == list(most[0])


def payments_of(notebook):
    names: dict = {}
    exec(cell(notebook, "payments").source, names)
    return [tuple(row) for row in names["payments"].itertuples(index=False)], dict(names["accounts"].itertuples(index=False))


def rings_of(payments, least=1000):
    large = [payment for payment in payments if payment[2] >= least]
    return sorted(
        (e[0], f[0], g[0], e[2], f[2], g[2], g[3])
        for e in large
        for f in payments
        if f[0] == e[1] and f[3] > e[3]
        for g in payments
        if g[0] == f[1] and g[1] == e[0] and g[3] > f[3]
    )


def test_rings_of_payments_by_brute_force(ran):
    notebook = ran["payments"]
    payments, country = payments_of(notebook)
    rings = rings_of(payments)
    assert plain(notebook, "count") == str(len(rings))
    shown = [tuple(numbers(line)[1:]) for line in plain(notebook, "find").splitlines()[1:]]
    assert sorted(shown) == rings
    payers: dict = {}
    for src, dst, amount, _ in payments:
        payers.setdefault(dst, []).append((src, amount))
    large = {
        b: (len({a for a, _ in paid}), sum(amount for _, amount in paid))
        for b, paid in payers.items()
        if len({a for a, _ in paid}) >= 7
    }
    groups = {b: (n, total) for _, b, n, total in (numbers(line) for line in plain(notebook, "groups").splitlines()[1:])}
    assert groups == large
    assert large
    every = rings_of(payments, least=0)
    by_country = re.findall(r"([A-Z]{2})\s+(\d+)", plain(notebook, "country"))
    assert {name: int(count) for name, count in by_country} == {
        name: sum(country[ring[0]] == name for ring in every) for name in ("AT", "BE", "CH") if by_country
    }


def test_epochs_of_payments_by_brute_force(ran):
    notebook = ran["payments"]
    before, _ = payments_of(notebook)
    first = [one for one in before if one[:2] != (603, 601)] + [(503, 504, 4000, 20), (504, 502, 3900, 22)]
    rings = [rings_of(before), rings_of(first)]
    created, destroyed = (len(set(one) - set(other)) for one, other in ((rings[1], rings[0]), (rings[0], rings[1])))
    assert f"ring +{created} -{destroyed}, now {len(rings[1])}" in plain(notebook, "epoch")
    assert len(plain(notebook, "epoch-table").splitlines()) == 1 + created + destroyed
    assert plain(notebook, "first") == f"Watch of ring: running, epoch 2; ring {len(rings[1]) + 1}; output in rings"
    assert plain(notebook, "second") == f"Watch of ring: stopped, epoch 3; ring {len(rings[1])}; output in rings"
    rows = [line.split("|")[1:-1] for line in plain(notebook, "output").splitlines() if re.match(r"\| +\d", line)]
    assert [[int(value) for value in row] for row in rows] == [[2, 1, 801, 802, 803], [3, -1, 801, 802, 803]]


def test_the_paper(ran, truth):
    notebook = ran["paper"]
    published = truth["graphs"]["soc-Epinions1"]["directed_homomorphic"]
    assert plain(notebook, "counts") == str(published["triangle"]["count"])
    rows = [line.split() for line in plain(notebook, "bounds").splitlines()[1:]]
    assert {name: int(count.replace(",", "")) for name, count, *_ in rows} == {
        name: published[name]["count"] for name in ("triangle", "4-clique", "diamond", "house", "5-clique")
    }
    edges = truth["graphs"]["soc-Epinions1"]["distinct_directed_edges_without_loops"]
    cover = {"triangle": 1.5, "4-clique": 2.0, "diamond": 2.0, "house": 2.5, "5-clique": 2.5}
    for name, _, bound, share in rows:
        assert float(bound) == pytest.approx(edges ** cover[name], rel=0.05)
        assert float(share) <= 1
    funnel = numbers(plain(notebook, "funnel"))
    assert funnel == [20_000 - 6_000] * 3  # each random edge closes a triangle
    figures = {line.split()[0]: [int(one) for one in line.split()[1:]] for line in plain(notebook, "path").splitlines()[1:]}
    partitioned, heavy_light, balanced = figures["critical_path"]
    assert partitioned > 4 * heavy_light
    assert partitioned > balanced


def test_delta_queries_of_the_paper(ran):
    notebook = ran["paper"]
    old = {(1, 2), (2, 3), (3, 1), (3, 4), (4, 2)}
    new = old - {(2, 3)} | {(4, 1), (1, 3)}

    def cycles(edges):
        return {(a, b, c) for a, b in edges for c in {d for pair in edges for d in pair} if {(b, c), (c, a)} <= edges}

    gone, came = len(cycles(old) - cycles(new)), len(cycles(new) - cycles(old))
    assert f"3-cycle +{came} -{gone}, now {len(cycles(new))}" in plain(notebook, "apply")
    assert plain(notebook, "delta-check") == "True"
    assert "edge[delta](a1, a2)" in plain(notebook, "delta")


def test_the_join_of_the_paper_by_brute_force(ran):
    notebook = ran["paper"]
    names: dict = {"pd": pd}
    exec(cell(notebook, "relations").source.partition("relations = ")[0], names)
    tables = (names[name] for name in ("offers", "needs", "places", "delivers"))
    offers, needs, places, delivers = (list(one.itertuples(index=False, name=None)) for one in tables)
    orders = {
        (project, part, supplier, price)
        for supplier, part, price in offers
        for project, wanted in needs
        if wanted == part
        for place, city in places
        if place == project and (supplier, city) in delivers
    }
    shown = {tuple(line.split()[1:]) for line in plain(notebook, "join").splitlines()[1:]}
    assert shown == {(project, part, supplier, str(price)) for project, part, supplier, price in orders}
