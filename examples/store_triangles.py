"""Store a subquery: once triangles are stored, cliques are joins of triangles."""

from importlib.resources import as_file, files

import bigjoin as bj

with as_file(files("bigjoin.data") / "soc-Epinions1.txt.gz") as edges, bj.Graph(edges, directed=False) as graph:
    before = graph.count("4-clique", unique=True)
    print(f"{graph.materialize('tri', 'triangle'):,} bindings of a triangle are stored")
    print(next(line for line in graph.explain("4-clique", unique=True).splitlines() if line.startswith("rewritten")))
    print("the same count:", graph.count("4-clique", unique=True) == before)
    print("edges that close no triangle:", graph.count("q(a, b) := edge(a, b), not tri(a, b, _)", unique=True))
