"""One vertex that every triangle goes through: who is asked about it, under two strategies.

Run it: python examples/skew.py
"""

import pyarrow as pa

import bigjoin as bj
from bigjoin.generators import Funnel

WORKERS = 64
family = Funnel(vertices=60_001, edge_count=100_000)  # sources -> v* -> sinks, and edges past it
columns = [[], []]
for chunk in range(family.chunks):
    for column, numbers in zip(columns, family.edges(chunk), strict=True):
        column.extend(numbers.tolist())

with bj.Graph(pa.table({"src": columns[0], "dst": columns[1]})) as graph:
    for strategy in ("partitioned", "balanced"):
        count = graph.count("triangle", strategy=strategy, workers=WORKERS)
        stats = count.stats
        worst = stats["critical_path"] * WORKERS / stats["tuples"]
        index = stats["index_tuples"]
        print(f"{strategy}: {count:,} triangles")
        print(f"  busiest worker: {worst:.0f} x its share of the tuples, exchange by exchange")
        print(f"  fullest worker: {index['max'] / index['mean']:.0f} x its share of the index")
