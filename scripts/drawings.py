"""Draw the pictures of docs/drawing.md again, into docs/drawing: patterns, matches, a plan, degrees and loads.

Run it with: make figures
"""

from __future__ import annotations

import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import pyarrow as pa

import bigjoin as bj
from bigjoin.drawing.drawing import Drawing
from bigjoin.drawing.explanation import plan_figure
from bigjoin.drawing.figure import in_rows
from bigjoin.drawing.load_plot import load_figure

FOLDER = Path(__file__).parents[1] / "docs" / "drawing"

PAYMENTS = [("ann", "bob", 900), ("bob", "cleo", 850), ("cleo", "ann", 800), ("cleo", "dan", 120), ("dan", "bob", 75)]
RING = "ring(a, b, c, e.amount, f.amount, g.amount) := edge(a,b,e), edge(b,c,f), edge(c,a,g), a < b, a < c"
CONDITIONS = (
    "q(a, b) := pays(a,b,e), pays(a,b,f), person(a), company(b), not knows(a,b), e.amount > 1000, f.time < e.time + '1 day'"
)


def patterns() -> None:
    """Draw what needs no graph."""
    bj.draw("house", undirected=True).save(FOLDER / "house.svg")
    bj.draw(CONDITIONS).save(FOLDER / "conditions.svg")


def matches() -> None:
    """Draw the rings of a few payments."""
    with bj.Graph([{"src": a, "dst": b, "amount": amount} for a, b, amount in PAYMENTS]) as graph:
        graph.show(RING).save(FOLDER / "matches.svg")


def of_the_bundled_graph() -> None:
    """Draw a plan with its run, and degrees."""
    with as_file(files("bigjoin.data") / "soc-Epinions1.txt.gz") as source, tempfile.TemporaryDirectory() as folder:
        index = bj.build_index(source, Path(folder) / "index", directed=False)
        graph = bj.Graph.open(index.path)
        explanation = graph.explain("4-clique", unique=True, analyze=True, strategy="partitioned", workers=8)
        explanation.save(FOLDER / "4-clique.html")
        assert explanation.explained is not None
        Drawing.of(plan_figure(explanation.explained), "the steps of the 4-clique").save(FOLDER / "steps.svg")
        graph.draw_degrees().save(FOLDER / "degrees.svg")


def loads() -> None:
    """Draw what workers get in a graph in which everything goes through one hub, under two strategies."""
    rim = list(range(1, 30_001))
    edges = pa.table({"src": [0] * len(rim) + rim[:-1], "dst": rim + rim[1:]})
    with bj.Graph(edges, directed=False) as graph:
        counts = [graph.count("triangle", strategy=strategy, workers=8) for strategy in ("partitioned", "balanced")]
    beside = in_rows([load_figure(count.stats, strategy=count.strategy) for count in counts], most=1200.0, gap=60.0)
    Drawing.of(beside, "loads under partitioned and balanced").save(FOLDER / "loads.svg")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    patterns()
    matches()
    of_the_bundled_graph()
    loads()
