"""The graph that the page about limits asks about: all edges between twenty vertices, so that it has 20 choose 3 triangles."""

from itertools import combinations


def prepare(folder, spark):
    (folder / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in combinations(range(20), 2)))
