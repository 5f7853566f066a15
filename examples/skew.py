"""Every triangle goes through one vertex: compare the load of its owner under three strategies.

Run it with: .venv/bin/python examples/skew.py
"""

import bigjoin as bj
from bigjoin.generators import Funnel

WORKERS = 64
family = Funnel(vertices=60_001, edge_count=100_000)  # sources -> v* -> sinks, and edges from sources to sinks

with bj.Graph(family.table()) as graph:
    stats = {}
    for strategy in ("partitioned", "heavy-light", "balanced"):
        count = graph.count("triangle", strategy=strategy, workers=WORKERS)
        stats[strategy] = count.stats
        index = count.stats["index_tuples"]
        fullest = index["max"] / index["mean"]
        print(f"{strategy}: {count:,} triangles; the fullest worker has {fullest:.0f} x its share of the index")

# The critical path: what the busiest worker receives, summed over all exchanges. A cluster cannot be faster than that.
path = {strategy: found["critical_path"] for strategy, found in stats.items()}
for strategy in ("heavy-light", "balanced"):
    print(f"{strategy}: critical path more than five times shorter: {path['partitioned'] > 5 * path[strategy]}")
