"""Start from a few vertices: who forms triangles with them, in a social graph of 76,000 people.

Run it with: .venv/bin/python examples/seeds.py
"""

from importlib.resources import as_file, files

import pandas as pd

import bigjoin as bj

with as_file(files("bigjoin.data") / "soc-Epinions1.txt.gz") as path:
    graph = bj.Graph(path, directed=False)

some = [18, 143, 645]
print("triangles in all:", graph.count("triangle", unique=True))
print("with a corner among some people:", graph.count("triangle", unique=True, seeds={"a1": some}))
print("with two corners among them:", graph.count("triangle", unique=True, seeds={"a1": some, "a2": some}))

# A table restricts attributes jointly: these pairs, and not every combination of their ends.
pairs = pd.DataFrame({"a": [18, 143, 143], "b": [645, 645, 1_000_000]})
found = graph.find("q(a,b,c) := edge(a,b), edge(b,c), edge(c,a)", seeds=pairs)
print("triangles over some pairs:", found.count())
print(str(graph.plan("triangle", unique=True, seeds={"a1": some})).splitlines()[0])
