"""Count matches that are too many to list, see how it works, and return matches as lists instead of all combinations.

Run it with: .venv/bin/python examples/count_without_listing.py
"""

import pyarrow as pa

import bigjoin as bj

# One account pays 300 others, and two of those pay each other.
hub = pa.table({"src": [0] * 300 + [1, 2], "dst": [*range(1, 301), 2, 1]})
graph = bj.Graph(hub)

print(graph.count("10-star"))  # ten payments of one account, in any order: a number with 25 digits
print(graph.count("4-star", unique=True))  # four different payees, each combination once

print(graph.explain("4-star", unique=True).split("a count is\n")[1].split("\n\n")[0])

stars = graph.find("q(a, b, c) := edge(a, b), edge(a, c)", factorized=True)
for row in sorted(stars.collect(), key=lambda row: row["a"]):
    print(row["a"], "pays", len(row["b"]), "x", len(row["c"]))
