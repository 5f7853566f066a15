"""Pictures: they are XML, hold what they should and nothing that users wrote as markup, and show measured numbers."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bigjoin as bj
from bigjoin.drawing.bars import about
from bigjoin.drawing.curves import Curve
from bigjoin.drawing.draw import drawn
from bigjoin.drawing.explanation import MAX_TERMS, explanation_page
from bigjoin.drawing.layout import overlapping, placed
from bigjoin.drawing.pattern import PatternDrawing
from bigjoin.drawing.small_graph import DrawnEdge, DrawnVertex, SmallGraph
from bigjoin.drawing.text_width import shortened, width_of, wrapped
from bigjoin.explain import explain
from bigjoin.explained import explained, with_runs
from bigjoin.languages import named, read
from bigjoin.markup import element, escaped, joined
from bigjoin.planner import all_branches
from bigjoin.query.statistics import assumed_graph
from tests.case_file import read_cases
from tests.test_cli import refused, run_here
from tests.treatments import prepare

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "style", "rect", "g", "text", "title", "path", "circle"}

NAMES = [*named.names(), "12-clique", "12-cycle", "12-path", "12-star"]
TEXTS = [
    "q(a) := edge(a,a)",
    "q(a) := edge(a,a), edge(a,b), edge(b,b), edge(b,a)",
    "q(a,b,e,f) := edge(a,b,e), edge(a,b,f), edge(b,a), e.amount > f.amount, e.amount > 5 or e.amount is null",
    "q(a,b) := edge(a,b), edge(b,a), not edge(a,a), edge(a,5), edge('<b>&',b)",
    "q(a,b,x) := edge(a,b), optional edge(b,x), not edge(_,a), not edge(a,_)",
    "ring(a) := simple edge*3..5(a,a,e), next(e).time > e.time",
    "q(a,b) := edge*1..3(a,b), acyclic edge*2(b,c), length(e) > 1, edge*1..2(a,c,e)",
    "q(a,b,c) := edge(a,b), vertex(c), edge(b,c), a in (1,2,3), a < b",
    "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)",
    "(a)-[]-(b); (b)-[*1..2]->(c)",
    "MATCH (a)-[e]->(b)<-[f]-(c) WHERE a.name = 'x' AND NOT (a)-[]->(c) RETURN a, c ORDER BY a LIMIT 3",
    "MATCH (a)-[*1..2]->(b) WHERE NOT EXISTS { (b)-[]->(c)-[]->(a) } OPTIONAL MATCH (b)-[]->(d)-[]->(x) RETURN a, d",
    "q(a,b,c) := edge(a,b), edge(b,c), " + ", ".join(f"a < {n}" for n in range(40)),
]
WILD = [
    "<script>alert('1')</script>",
    '"><img src=x onerror=alert(1)>',
    "a & b",
    "]]>",
    "\x00\x1b[31m\x7f\u202eabc\ud800",
    "日本語のとても長い名前です、本当にとても長い",
    "🙂👩‍👩‍👧 é e\u0301",
    "7f3b2c1e-aaaa-bbbb-cccc-1234567890ab" * 20,
    " \n\t",
    "",
    "-",
    "None",
]


def parsed(svg: str) -> ET.Element:
    """A picture, which is XML with the elements that pictures have, no ids, and no reference to anything outside."""
    root = ET.fromstring(svg)
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= ELEMENTS
    for one in root.iter():
        assert not {"id", "href", "onload"} & one.attrib.keys()
        assert not any("url(" in value or "javascript:" in value for value in one.attrib.values() if one.tag != f"{SVG}title")
    return root


def texts(root: ET.Element) -> str:
    return "\n".join("".join(one.itertext()) for one in root.iter(f"{SVG}text"))


def vertices(root: ET.Element) -> list[str]:
    return [one.attrib["data-name"] for one in root.iter() if one.attrib.get("class") == "bigjoin-vertex"]


def edges(root: ET.Element) -> list[tuple[str, str]]:
    found = (one.attrib for one in root.iter() if one.attrib.get("class") == "bigjoin-edge")
    return [(one["data-source"], one["data-target"]) for one in found]


# Patterns


@pytest.mark.parametrize("name", NAMES)
def test_every_vertex_and_edge_of_a_pattern_is_in_the_picture(name):
    query = read(name).query
    root = parsed(bj.draw(name).svg)
    assert vertices(root) == list(dict.fromkeys(a for atom in query.atoms for a in atom.attributes))
    assert edges(root) == [atom.attributes for atom in query.atoms] or sorted(edges(root)) == sorted(
        atom.attributes for atom in query.atoms
    )
    assert set(texts(root).split()) >= set(query.attributes)
    assert 'd="M' in bj.draw(name).svg


@pytest.mark.parametrize("text", TEXTS)
def test_patterns_in_all_languages(text):
    statement = read(text)
    root = parsed(drawn(statement).svg)
    shown = texts(root)
    for block in statement.everything:
        pattern = PatternDrawing(block.query)
        assert set(vertices(root)) >= set(pattern.vertex_names)
        for atom in block.query.atoms:
            if pattern.is_edge(atom):
                assert pattern.ends(atom) in edges(root)
        assert len([line for line in pattern.conditions() if line in shown]) >= min(11, len(pattern.conditions()))


@pytest.mark.parametrize("text", [*NAMES, *TEXTS])
def test_vertices_do_not_overlap(text):
    for block in read(text).everything:
        for query in (
            block.query,
            *all_branches(block.query, assumed_graph(symmetric=False, properties=["amount", "time", "name"])),
        ):
            graph = PatternDrawing(query).graph()
            assert overlapping({vertex.name: vertex.extent for vertex in graph.vertices}, graph.places) == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_graph_has_vertices_that_overlap(data):
    size = data.draw(st.integers(1, 24))
    wide = data.draw(st.sampled_from([30.0, 60.0, 168.0]))
    extents = {
        f"v{i}": (data.draw(st.sampled_from([12.0, 30.0, wide])), data.draw(st.sampled_from([26.0, 30.0, 76.0])))
        for i in range(size)
    }
    pairs = list(combinations(extents, 2)) + [(name, name) for name in extents]
    chosen = data.draw(st.lists(st.sampled_from(pairs), max_size=40, unique=True))
    labels = {pair: data.draw(st.sampled_from([0.0, 0.0, 80.0, 150.0])) for pair in chosen}
    places = placed(extents, labels)
    assert places.keys() == extents.keys()
    assert overlapping(extents, places) == []
    assert places == placed(extents, labels)


def test_a_star_of_thirty_and_a_path_of_sixty_four():
    star = SmallGraph.of([DrawnVertex(f"v{i}", f"v{i}") for i in range(31)], [DrawnEdge("v0", f"v{i}") for i in range(1, 31)])
    assert overlapping({vertex.name: vertex.extent for vertex in star.vertices}, star.places) == []
    hub, leaves = star.places["v0"], [star.places[f"v{i}"] for i in range(1, 31)]
    distances = [((x - hub[0]) ** 2 + (y - hub[1]) ** 2) ** 0.5 for x, y in leaves]
    assert max(distances) < 1.2 * min(distances)
    rule = "q(a0) := " + ", ".join(f"edge(a{i}, a{i + 1})" for i in range(64))
    assert len(edges(parsed(bj.draw(rule).svg))) == 64


def test_lines_end_at_the_rims_of_their_vertices():
    graph = SmallGraph.of(
        [DrawnVertex("a", "a"), DrawnVertex("b", "a long name")],
        [DrawnEdge("a", "b"), DrawnEdge("b", "a"), DrawnEdge("a", "a")],
    )
    figure = graph.figure()
    assert figure.width > 100
    paths = re.findall(r'd="(M[^"]*)"', figure.markup)
    assert sum(path.endswith("Z") for path in paths) == 3  # arrowheads
    assert sum(" Q" in path for path in paths) == 2  # both directions are bent
    assert sum(" C" in path for path in paths) == 1  # a loop


def test_a_part_of_a_curve_begins_and_ends_on_it():
    curve = Curve(((0.0, 0.0), (50.0, 100.0), (100.0, 0.0)))
    part = curve.part(0.25, 0.75)
    for share in (0.0, 0.5, 1.0):
        assert part.at(share) == pytest.approx(curve.at(0.25 + share / 2))


def test_marks_of_edges():
    def one(text: str) -> ET.Element:
        return parsed(bj.draw(text).svg)

    assert "stroke-dasharray" in ET.tostring(one("q(a,b) := edge(a,b), not edge(b,a)")).decode()
    assert "bigjoin-orange" in ET.tostring(one("q(a,b) := edge(a,b), not edge(b,a)")).decode()
    assert "stroke-dasharray" in ET.tostring(one("q(a,b,c) := edge(a,b), optional edge(b,c)")).decode()
    assert "stroke-dasharray" not in ET.tostring(one("triangle")).decode()
    assert sum(one.tag == f"{SVG}circle" for one in one("q(a,b) := edge*2..3(a,b)").iter()) == 2
    assert "edge 2..3" in texts(one("q(a,b) := edge*2..3(a,b)"))
    assert "e: pays" in texts(one("q(a,b,e) := pays(a,b,e), knows(b,a)"))
    assert "person" in texts(one("q(a,b) := edge(a,b), person(a), not company(b)"))
    assert "not company" in texts(one("q(a,b) := edge(a,b), person(a), not company(b)"))
    assert vertices(one("q(a,b,c,d) := r(a,b,c), s(c,d), t(a,c,d)")) == ["a", "b", "c", "d", "atom 1", "atom 3"]
    arrows = [len(re.findall(r'd="M[^"]*Z"', bj.draw("4-clique", undirected=undirected).svg)) for undirected in (False, True)]
    assert arrows == [6, 0]


def test_what_is_wrong_is_one_sentence():
    with pytest.raises(bj.QueryError, match="did you mean 'triangle'"):
        bj.draw("traingle")
    with pytest.raises(bj.QueryError, match="what a SELECT means depends on its tables"):
        bj.draw("SELECT a.src FROM edge a JOIN edge b ON a.dst = b.src")
    with pytest.raises(bj.OptionError, match="draw has no argument 'uniqe'; did you mean 'unique'"):
        bj.draw("triangle", uniqe=True)


# Markup and text


@pytest.mark.parametrize("text", WILD)
def test_everything_is_escaped(text):
    root = ET.fromstring(element("svg", element("text", text, data_name=text), xmlns="http://www.w3.org/2000/svg"))
    assert [one.tag for one in root.iter()] == [f"{SVG}svg", f"{SVG}text"]
    found = re.sub("[\x00-\x08\x7f\x1b\u202e\ud800]", "\ufffd", text)
    assert root[0].text == (found or None)
    assert joined(text, element("g")) == escaped(text) + "<g></g>"


@pytest.mark.parametrize("text", WILD)
def test_texts_fit(text):
    for most in (20.0, 60.0, 150.0):
        cut = shortened(text, most, 12.0)
        assert width_of(cut, 12.0) <= max(most, width_of("\u2026", 12.0))
        assert all(width_of(line, 12.0) <= max(most, width_of("\u2026", 12.0)) for line in wrapped(text, most, 12.0))
    assert shortened("short", 100.0, 12.0) == "short"
    assert shortened("a0123456789z", 50.0, 12.0)[0] == "a"
    assert shortened("a0123456789z", 50.0, 12.0)[-1] == "z"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.04, "0.04"),
        (7.4, "7.4"),
        (12.3, "12"),
        (999.6, "1 K"),
        (1234, "1.2 K"),
        (99_949, "100 K"),
        (5e6, "5 M"),
        (3.2e9, "3.2 G"),
        (8e19, "8.0e19"),
        (float("inf"), "very many"),
    ],
)
def test_estimates_have_two_digits(value, said):
    assert about(value) == said


# Plans


def bars(svg: str) -> list[tuple[str, str]]:
    """The sizes that a picture shows as bars, in order: what they are, and the text beside them."""
    return re.findall(r'data-(expected|real)="([^"]*)"', svg)


GRAPH = [(a, b) for a, b in combinations(range(9), 2) if (a * b) % 3 != 1] + [(7, 2), (8, 0), (3, 3), (5, 4)]


def graph(directed: bool = True) -> bj.Graph:
    return bj.Graph(pa.table({"src": [a for a, _ in GRAPH], "dst": [b for _, b in GRAPH]}), directed=directed)


def told(stats) -> list[str]:
    """The sizes of a run; where a loop goes over all codes, there are no candidates."""
    sizes = (
        ("candidates", "prefixes") if step["candidates"] or not step["prefixes"] else ("prefixes",) for step in stats["steps"]
    )
    return [f"{step[what]:,}" for step, names in zip(stats["steps"], sizes, strict=True) for what in names]


BY_LOOPS = "This run counted with the loops below instead of these steps, so only their expected sizes are shown."


@pytest.mark.parametrize(
    "query",
    [
        "triangle",
        "diamond",
        "house",
        "4-clique",
        "3-star",
        "4-path",
        "q(a) := edge(a,b), edge(b,c), a < c",
        "q(a,b) := edge(a,b), not edge(b,a)",
    ],
)
@pytest.mark.parametrize("unique", [False, True])
def test_real_sizes_of_a_count_are_those_of_its_stats(query, unique):
    with graph(directed=False) as undirected:
        explanation = undirected.explain(query, analyze=True, strategy="local", unique=unique)
    _, steps, loops = re.findall(r"<svg.*?</svg>", explanation.html, re.DOTALL)
    assert [text for kind, text in bars(loops) if kind == "real"] == told(explanation.stats)
    assert [text for kind, text in bars(steps) if kind == "expected"]
    real = [text for kind, text in bars(steps) if kind == "real"]
    assert real == (told(explanation.stats)[-len(real) :] if real else [])
    assert bool(real) == (explanation.explained.queries[0].parts[0].steps_run is not None)
    caption = re.findall("<figcaption.*?>(.*?)</figcaption>", explanation.html)
    assert caption == [BY_LOOPS] * (not real)


def test_without_a_run_nothing_is_said_of_it():
    assert "This run" not in explanation_page(explained(read("house")))


@pytest.mark.parametrize("query", ["house", "octahedron", "6-clique", "prism"])
@pytest.mark.parametrize("unique", [False, True])
def test_loops_are_written_in_full(query, unique):
    """In as many lines as they need, none of which ends within an atom."""
    given = explained(read(query, unique=unique), undirected=True)
    loops = parsed(re.findall(r"<svg.*?</svg>", explanation_page(given), re.DOTALL)[2])
    shown = " ".join(texts(loops).split())
    assert "\u2026" not in shown
    for nest in given.queries[0].parts[0].counted.terms[:MAX_TERMS]:
        for loop in nest.root.walk():
            assert all(str(part) in shown for part in loop.step.parts)
    for line in texts(loops).splitlines():
        assert line.count("(") == line.count(")")
    assert float(loops.attrib["width"]) < 980


def test_a_loop_with_very_many_conditions_has_a_few_lines():
    given = explained(read("q(a,b) := edge(a,b), " + ", ".join(f"a < {n}" for n in range(200))))
    loops = parsed(re.findall(r"<svg.*?</svg>", explanation_page(given), re.DOTALL)[2])
    assert re.search(r"^and \d+ more lines$", texts(loops), re.MULTILINE)


def test_loops_may_be_the_steps_of_a_plan():
    queries = explained(read("4-clique", unique=True), undirected=True).queries
    steps = [{"term": 0, "attribute": f"a{n}", "prefixes": 10 * n, "candidates": 100 * n} for n in (1, 2, 3, 4)]
    (found,) = with_runs(queries, {"steps": steps})[0].parts
    assert [(run.prefixes, run.candidates) for run in found.steps_run] == [(20, 200), (30, 300), (40, 400)]
    assert [run.prefixes for run in found.loops_run[0]] == [10, 20, 30, 40]
    (other,) = with_runs(queries, {"steps": steps[::-1]})[0].parts
    assert (other.steps_run, other.loops_run) == (None, None)


def test_real_sizes_of_a_tree_of_lengths():
    with graph() as directed:
        explanation = directed.explain("q(a,b) := acyclic edge*1..3(a,b)", analyze=True, strategy="local")
    assert explanation.explained.queries[0].tree_run is not None
    assert [text for kind, text in bars(explanation.html) if kind == "real"] == told(explanation.stats)


@pytest.mark.spark
@pytest.mark.parametrize("strategy", ["partitioned", "balanced", "heavy-light", "shared"])
@pytest.mark.parametrize(
    "query", ["triangle", "house", "q(a,b) := edge*1..2(a,b)", "MATCH (a)-[]->(b) OPTIONAL MATCH (b)-[]->(a) RETURN a, b"]
)
def test_real_sizes_of_steps_are_those_of_the_stats(query, strategy, spark):
    with graph() as directed:
        explanation = directed.on(spark).explain(query, analyze=True, strategy=strategy, workers=3)
    shown = "".join(
        svg for svg in re.findall(r"<svg.*?</svg>", explanation.html, re.DOTALL) if strategy != "shared" or "over " in svg
    )
    assert [text for kind, text in bars(shown) if kind == "real"] == told(explanation.stats)


@pytest.mark.parametrize("name", ["triangle", "house", "4-clique", "bowtie", "5-path"])
def test_panels_show_every_step(name):
    statement = read(name, unique=True)
    given = explained(statement, undirected=True)
    plan = given.queries[0].parts[0].plan
    svgs = re.findall(r"<svg.*?</svg>", explanation_page(given), re.DOTALL)
    _, steps, loops = (parsed(svg) for svg in svgs)
    titles = re.findall(r"^(\d+)\. (?:the seed: |extend by )(.*)$", texts(steps), re.MULTILINE)
    assert [attributes for _, attributes in titles] == [
        ", ".join(plan.seed.attributes),
        *(step.attribute for step in plan.steps),
    ]
    assert len(edges(steps)) == len(titles) * len(statement.query.atoms)
    assert len(re.findall(r"^.*over \w+:", texts(loops), re.MULTILINE)) == sum(
        len(list(nest.root.walk())) for nest in given.queries[0].parts[0].counted.terms[:MAX_TERMS]
    )


def test_text_and_page_come_from_one_value():
    with graph(directed=False) as undirected:
        explanation = undirected.explain("triangle", unique=True)
        again = explain(read("triangle", unique=True), undirected.index.statistics, strategy=explanation.explained.strategy)
    assert explanation == again
    assert isinstance(explanation, str)
    assert repr(explanation) == str(explanation)
    assert explanation.stats is None
    assert explanation.html.startswith("<!DOCTYPE html>\n<html")
    assert str(escaped(str(explanation))) in explanation.html
    assert "<script" not in explanation.html
    assert explanation._repr_html_().startswith('<div class="bigjoin')
    assert bj.Explanation("a text")._repr_html_() is None
    assert "a text" in bj.Explanation("a text").html


@pytest.mark.parametrize("text", [*TEXTS, "12-clique", "6-cycle"])
def test_any_statement_has_a_page(text):
    known = assumed_graph(symmetric=False, properties=["amount", "time", "name"])
    page = explanation_page(explained(read(text), known))
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        parsed(svg)
    assert ET.fromstring(re.sub(r"^<!DOCTYPE html>\n", "", page)).tag == "html"


CASES = [q for q in read_cases() if q.error is None and not any(epoch.error for epoch in q.epochs)]


@pytest.mark.parametrize("question", CASES, ids=lambda question: f"{question.file}:{min(question.spellings)}")
def test_cases_have_a_page(question):
    prepared = prepare(question, next(iter(question.spellings.values())))
    page = explanation_page(explained(prepared.query, prepared.index.statistics))
    assert ET.fromstring(re.sub(r"^<!DOCTYPE html>\n", "", page)).tag == "html"


def test_delta_queries_have_panels():
    page = explanation_page(explained(read("4-clique", unique=True), undirected=True, delta=True))
    assert "dQ1" in page
    page = explanation_page(explained(read("q(a,b,c) := edge(a,b), edge(b,c), not edge(a,c)"), delta=True))
    assert "dQ3" in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        parsed(svg)


def test_a_sum_of_many_queries_has_a_page_of_bounded_size():
    page = explanation_page(explained(read("q(a,b) := edge*1..12(a,b)")))
    assert "and 9 more parts" in page
    assert page.count("<svg") < 12
    page = explanation_page(explained(read("(a)-[]-(b); (b)-[]-(c); (c)-[]-(d)")))
    assert "more queries: see the text" in page


# Matches


def test_matches_have_their_ids_and_properties():
    payments = [("ann", "bob", 900.5), ("bob", "cleo", 850.0), ("cleo", "ann", 800.0), ("cleo", "dan", 1.0)]
    table = pa.table(
        {"src": [a for a, _, _ in payments], "dst": [b for _, b, _ in payments], "amount": [c for *_, c in payments]}
    )
    with bj.Graph(table) as rows:
        shown = rows.show("q(a, b, c, e.amount) := edge(a,b,e), edge(b,c,f), edge(c,a), a < b, a < c")
        said = texts(parsed(shown.svg))
        assert "the only match" in said
        for text in ("ann", "bob", "cleo", "amount 900.5"):
            assert text in said
        assert "dan" not in said
        assert "no match" in texts(parsed(rows.show("q(a,b) := edge(a,b), edge(b,a)").svg))
        assert "all 4 matches" in texts(parsed(rows.show("q(a,b) := edge(a,b)").svg))
        first = rows.show("q(a,b) := edge(a,b)", limit=2)
        assert "the first 2 matches" in texts(parsed(first.svg))
        assert repr(first) == "Drawing('q(a,b) := edge(a,b)')"
        with pytest.raises(bj.BigjoinError, match="at most 200"):
            rows.show("triangle", limit=201)
        with pytest.raises(bj.QueryError, match="decides about rows after they are found"):
            rows.show("q(a, count(*)) := edge(a,b) having count(*) > 1")


def test_equal_ids_are_one_vertex():
    with bj.Graph([(1, 1), (1, 2)]) as loops:
        root = parsed(loops.show("q(a,b,c) := edge(a,b), edge(b,c)").svg)
    names = [pair for pair in edges(root) if pair[0].startswith("vertex")]
    assert ("vertex 0", "vertex 0") in names
    assert sorted(names) == [("vertex 0", "vertex 0"), ("vertex 0", "vertex 0"), ("vertex 0", "vertex 1")]


def test_paths_are_drawn_with_all_their_edges():
    with bj.Graph([(1, 2), (2, 3), (3, 4)]) as chain:
        root = parsed(chain.show("q(a,b) := edge*2..3(a,b), a = 1").svg)
    assert len([pair for pair in edges(root) if pair[0].startswith("vertex")]) == 2 + 3
    assert {"1", "2", "3", "4"} <= set(texts(root).split())


def test_matches_of_every_kind_of_text():
    with graph() as directed:
        for text in (
            "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)",
            "MATCH (a)-[e]->(b) OPTIONAL MATCH (b)-[]->(a) RETURN a, b",
            "MATCH (a)-[]->(b) RETURN a, count(*) AS n",
            "SELECT a.src FROM edge a JOIN edge b ON a.dst = b.src",
            "q(a, a + b as both) := edge(a,b), a in (1, 2)",
        ):
            parsed(directed.show(text, limit=3).svg)
        assert "both" not in texts(parsed(directed.show("triangle", seeds={"a1": [1]}).svg))
    relations = bj.Relations(
        {"r": pa.table({"x": [1, 2], "y": [2, 3], "z": ["<p>", "q"]}), "s": pa.table({"z": ["<p>"], "w": [1]})}
    )
    said = texts(parsed(relations.show("q(a,b,c,d) := r(a,b,c), s(c,d)").svg))
    assert "<p>" in said


@pytest.mark.parametrize("text", WILD)
def test_wild_ids_are_text(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        pytest.skip("no table holds it")
    with bj.Graph(pa.table({"src": [text, "b"], "dst": ["b", text], "note": [text, text]})) as wild:
        drawing = wild.show("q(a, b, e.note) := edge(a,b,e), edge(b,a)")
        parsed(drawing.svg)
        parsed(wild.draw_degrees().svg)


# Degrees and loads


def test_degrees_are_those_of_the_graph():
    with graph(directed=False) as undirected:
        root = parsed(undirected.draw_degrees().svg)
    simple = {frozenset(pair) for pair in GRAPH if pair[0] != pair[1]}
    degrees = [sum(v in pair for pair in simple) for v in range(9)]
    buckets = [sum(low <= degree < 2 * low for degree in degrees) for low in (1, 2, 4, 8)]
    columns = [int(one.attrib["data-size"]) for one in root.iter() if "data-size" in one.attrib]
    assert columns == buckets[: len(columns)]
    assert sum(columns) == 9


def test_loads_of_tasks():
    with graph() as directed:
        count = directed.count("triangle", strategy="local")
    drawing = count.draw_loads()
    parsed(drawing.svg)
    assert repr(drawing) == "Drawing('loads under local')"
    seconds = count.stats["tasks"]["seconds"]
    assert [text for _, text in bars(drawing.svg)] == [f"{seconds['max']:,.2f} s", f"{seconds['mean']:,.2f} s"]
    with pytest.raises(bj.BigjoinError, match="is of no run"):
        bj.Count(5).draw_loads()


@pytest.mark.spark
@pytest.mark.parametrize("strategy", ["partitioned", "balanced"])
def test_loads_of_workers(strategy, spark):
    with graph() as directed:
        count = directed.on(spark).count("triangle", strategy=strategy, workers=3)
    shown = [text for kind, text in bars(count.draw_loads().svg) if kind == "real"]
    assert shown[0] == f"{count.stats['load']['max']:,}"
    assert shown[2:-1] == [f"{one['max']:,}" for one in count.stats["exchange_loads"]]


# Files and the command line


def test_pictures_and_pages_are_saved(tmp_path):
    drawing = bj.draw("triangle")
    drawing.save(tmp_path / "t.svg")
    assert (tmp_path / "t.svg").read_text() == drawing.svg
    drawing.save(str(tmp_path / "t.html"))
    assert (tmp_path / "t.html").read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.html", "t.svg"]
    for wrong, message in (
        (tmp_path / "t.png", r"end its name in \.svg or \.html"),
        (tmp_path / "none" / "t.svg", "there is no directory"),
        (tmp_path, "end its name"),
        ("s3://bucket/t.svg", "is a URL"),
    ):
        with pytest.raises(bj.OutputError, match=message):
            drawing.save(wrong)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in GRAPH))
    return tmp_path


def test_draw_from_the_command_line(source, monkeypatch):
    for name in ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "BIGJOIN_CONF"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        done = run_here("draw", *arguments, "--quiet", cwd=source)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    assert run("triangle") == bj.draw("triangle").svg + "\n"
    assert run("triangle", "--undirected", "-o", "t.svg") == ""
    assert (source / "t.svg").read_text() == bj.draw("triangle", undirected=True).svg
    assert "not" in texts(parsed(run("q(a,b) := edge(a,b), not edge(b,a)", "edges.txt")))
    run("triangle", "edges.txt", "--matches", "3", "-o", "m.svg", "--strategy", "local")
    assert "the first 3 matches" in texts(parsed((source / "m.svg").read_text()))
    run("edges.txt", "--degrees", "-o", "d.html")
    assert "<svg" in (source / "d.html").read_text()
    assert "largest hubs" in run("triangle", "edges.txt", "--degrees")
    parsed(run("SELECT a.src FROM edge a JOIN edge b ON a.dst = b.src", "edges.txt"))
    parsed(run("q(a,b) := r(a,b), r(b,a)", "--relation", "r=edges.txt", "--columns", "src,dst"))
    run_here("explain", "house", "--html", "h.html", cwd=source)
    assert (source / "h.html").read_text().startswith("<!DOCTYPE html>")
    done = run_here("count", "triangle", "edges.txt", "--loads", "l.svg", "--strategy", "local", "--quiet", cwd=source)
    assert done.returncode == 0
    parsed((source / "l.svg").read_text())
    done = run_here(
        "explain", "triangle", "edges.txt", "--analyze", "--html", "a.html", "--strategy", "local", "--quiet", cwd=source
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert [kind for kind, _ in bars((source / "a.html").read_text())].count("real") in (5, 5 + 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["draw", "traingle", "-o", "t.svg"], "did you mean 'triangle'?"),
        (["draw", "triangle", "-o", "t.png"], "end its name in .svg or .html"),
        (["draw", "triangle", "-o", "none/t.svg"], "there is no directory"),
        (["draw", "triangle", "-o", "t.svg", "--matches", "3"], "--matches needs a SOURCE"),
        (["draw", "triangle", "edges.txt", "-o", "t.svg", "--matches", "3", "--degrees"], "either --matches or --degrees"),
        (["draw", "triangle", "edges.txt", "-o", "t.svg", "--matches", "0"], "--matches"),
        (["draw", "triangle", "edges.txt", "-o", "t.svg", "--matches", "1000"], "a picture shows at most 200 matches"),
        (["draw", "nowhere.txt", "--degrees", "-o", "t.svg"], "there is no file or directory nowhere.txt"),
        (["draw", "q(a,b) := knows(a,b)", "edges.txt", "-o", "t.svg"], "knows"),
        (
            ["draw", "select a.src from edge a join edge b on a.dst = b.src", "-o", "t.svg"],
            "what a SELECT means depends on its tables",
        ),
        (["explain", "triangle", "--html", "t.svg"], "end its name in .html"),
        (["explain", "triangle", "--html", "t.html", "--as", "cypher"], "either --as or --html"),
        (["explain", "traingle", "--html", "t.html"], "did you mean 'triangle'?"),
        (["count", "triangle", "edges.txt", "--loads", "t.txt"], "end its name in .svg or .html"),
        (["count", "triangle", "edges.txt", "--loads", "t.svg", "--exists"], "leave out --exists"),
        (["count", "triangle", "edges.txt", "--loads", "t.svg", "--by", "a1"], "leave out --by"),
    ],
)
def test_mistakes_leave_no_file(arguments, sentence, source):
    done = run_here(*arguments, cwd=source)
    assert refused(done, sentence)
    assert sorted(path.name for path in source.iterdir()) == ["edges.txt"]


def test_a_picture_does_not_replace_its_source(tmp_path):
    (tmp_path / "edges.svg").write_text("1 2\n")
    assert refused(
        run_here("draw", "edges.svg", "--degrees", "-o", "edges.svg", cwd=tmp_path), "edges.svg is the source itself"
    )


def test_drawing_imports_neither_spark_nor_numba():
    program = """if True:
        import sys
        import bigjoin as bj
        bj.draw("house", unique=True)._repr_html_()
        from bigjoin.explained import explained, with_runs
        from bigjoin.drawing.explanation import MAX_TERMS, explanation_page
        from bigjoin.languages import read
        explanation_page(explained(read("house")))
        loaded = {name.split(".")[0] for name in sys.modules}
        assert not loaded & {"pyspark", "py4j", "numba", "pandas", "pyarrow"}, loaded
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_pictures_of_the_page_are_there():
    folder = Path(__file__).parents[1] / "docs" / "drawing"
    named_there = re.findall(r"\(drawing/([\w.-]+)\)", (folder.parent / "drawing.md").read_text())
    assert sorted(named_there) == sorted(path.name for path in folder.iterdir())
    for path in folder.glob("*.svg"):
        parsed(path.read_text())
