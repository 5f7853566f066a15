"""Count with an index that is divided among workers, and look at what travelled."""

import pyarrow as pa

import bigjoin as bj

ring = [(i, (i + k) % 200) for i in range(200) for k in (1, 2, 5)]
hub = [(0, i) for i in range(1, 200)]
edges = sorted({tuple(sorted(edge)) for edge in ring + hub if edge[0] != edge[1]})

graph = bj.Graph(pa.table({"src": [a for a, _ in edges], "dst": [b for _, b in edges]}), directed=False)
for strategy in ("shared", "partitioned"):
    count = graph.count("triangle", unique=True, strategy=strategy, workers=8)
    print(f"{strategy}: {count} triangles")

stats = count.stats
print(f"{stats['exchanges']} exchanges, {stats['tuples']} tuples sent")
print(f"a worker owns at most {stats['index_tuples']['max']} of {graph.edge_count * 2} tuples")
for step in stats["steps"]:
    print(f"{step['attribute']}: {step['candidates']} candidates, {step['prefixes']} prefixes")
