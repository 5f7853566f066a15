"""Count a few motifs in a graph that is a Spark DataFrame, and look at some matches.

Run it with: .venv/bin/python examples/count_motifs.py
"""

import bigjoin as bj

spark = bj.session()
payments = spark.createDataFrame(
    [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("cat", "dan"), ("dan", "eve"), ("eve", "cat"), ("eve", "eve")],
    "src string, dst string",
)

graph = bj.Graph(payments)
print(graph)
for motif in ("2-path", "3-cycle", "4-cycle"):
    print(f"{motif}: {graph.count(motif, unique=True)}")

cycles = graph.find("cycle(a,b,c) := edge(a,b), edge(b,c), edge(c,a)", where="a < b and a < c")
print(sorted(tuple(row) for row in cycles.collect()))
