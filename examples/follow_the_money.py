"""Build a durable index of payments with amounts and accounts with labels, and query its properties.

Run it with: .venv/bin/python examples/follow_the_money.py
"""

import tempfile
from pathlib import Path

import pandas as pd

import bigjoin as bj

folder = Path(tempfile.mkdtemp())
pd.DataFrame(
    [
        ("ann", "bob", 900, "2024-05-01"),
        ("ann", "bob", 950, "2024-05-02"),
        ("bob", "cat", 1800, "2024-05-03"),
        ("cat", "ann", 1700, "2024-05-04"),
        ("cat", "dan", 20, "2024-05-05"),
    ],
    columns=["src", "dst", "amount", "day"],
).to_csv(folder / "pays.csv", index=False)
knows = pd.DataFrame([("ann", "cat"), ("bob", "dan")], columns=["src", "dst"])
people = pd.DataFrame({"id": ["ann", "bob", "cat", "dan", "eve"], "label": ["person", "shop", "person", "shop", "person"]})

# One directory holds two relations over one dictionary, the columns of payments, and a label for every vertex.
bj.build_index({"pays": folder / "pays.csv", "knows": knows}, folder / "bank.index", vertices=people)

graph = bj.Graph.open(folder / "bank.index")
print("pairs that paid:", graph.count("q(a,b) := pays(a,b)"))
print("payments:", graph.count("q(a,b,e) := pays(a,b,e)"))
print("payments of 900 or more:", graph.count("q(a,b,e) := pays(a,b,e)", where="e.amount >= 900"))
print("people:", graph.count("q(a) := person(a)"))

# Money that returns to where it started, each payment on a later day than the one before.
cycles = graph.find(
    "round(a,b,c,e,f,g,e.amount,g.amount) := pays(a,b,e), pays(b,c,f), pays(c,a,g), knows(a,c)",
    where="e.day < f.day and f.day < g.day",
)
for row in sorted(tuple(row) for row in cycles.collect()):
    print(row)
