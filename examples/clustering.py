"""Clustering coefficients: how many of a vertex's pairs of neighbours are neighbours themselves.

Triangles are counted by vertex, and degrees too, without listing either. Run it with: .venv/bin/python examples/clustering.py
"""

import pyarrow as pa
from pyspark.sql import functions as F

import bigjoin as bj

# Four friends who all know each other, and ann, who also knows eve and fay, who do not know each other.
pairs = ["ann bob", "ann cem", "ann dan", "bob cem", "bob dan", "cem dan", "ann eve", "ann fay"]
ends = [pair.split() for pair in pairs]
graph = bj.Graph(pa.table({"src": [a for a, _ in ends], "dst": [b for _, b in ends]}), directed=False)

triangles = graph.count("triangle", unique=True, by="a1 as vertex")  # each triangle counts at its three corners
degrees = graph.count("q(a, b) := edge(a, b)", by="a as vertex").withColumnRenamed("count", "degree")
local = degrees.join(triangles, "vertex", "left").na.fill(0, "count")
local = local.withColumn("clustering", F.try_divide(2 * F.col("count"), F.col("degree") * (F.col("degree") - 1)))
for row in local.orderBy("vertex").collect():
    print(row["vertex"], row["degree"], row["count"], row["clustering"])

pairs_of_neighbours = graph.count("2-star", unique=True)
print("transitivity", 3 * graph.count("triangle", unique=True) / pairs_of_neighbours)

for row in graph.count("4-cycle", unique=True, by=("a1", "a2")).where("a1 < a2").orderBy("a1", "a2").collect():
    print(row["a1"], row["a2"], "are neighbours on", row["count"], "cycles of four")
