"""A cluster whose machines share nothing but a store: every strategy, epochs, builds, scratch and results go through it."""

from __future__ import annotations

import json
import random
import uuid

import pyarrow.parquet as pq
import pytest
from fsspec import filesystem

from tests.store.test_index_on_a_store import cycles

pytestmark = [pytest.mark.store, pytest.mark.slow]

PROGRAM = """
import json, sys
from pyspark.sql import functions as F
import bigjoin as bj
url, edges = sys.argv[1], [tuple(edge) for edge in json.loads(sys.argv[2])]
spark = bj.session()
frame = spark.createDataFrame(edges, "src long, dst long").repartition(3)
bj.build_index(frame.select("src", "dst"), url + "/graph.index", shards=3, spark=spark)
graph = bj.Graph.open(url + "/graph.index", spark=spark)
told = {"counts": {}, "found": {}, "by": {}}
for strategy in ("local", "shared", "partitioned", "balanced"):
    told["counts"][strategy] = graph.count("3-cycle", strategy=strategy)
    if strategy != "local":
        told["found"][strategy] = sorted(map(tuple, graph.find("3-cycle", strategy=strategy).collect()))
        groups = graph.count("c(a, b, c) := edge(a, b), edge(b, c), edge(c, a)", by="a", strategy=strategy)
        told["by"][strategy] = sorted(map(tuple, groups.collect()))
told["epochs"] = []
for a, b in ((101, 1), (1, 102), (102, 101)):
    epoch = graph.apply([{"src": a, "dst": b, "op": "+"}], "3-cycle", strategy="partitioned")
    told["epochs"].append([epoch.number, epoch.count])
graph = bj.Graph.open(url + "/graph.index", spark=spark)
graph.write("3-cycle", url + "/cycles.parquet", strategy="shared")
told["joined"] = bj.Graph(frame, spark=spark).count("3-cycle", strategy="shared")
print(json.dumps(told))
"""


def test_machines_that_share_only_a_store(cluster, s3):
    chosen, folder = random.Random(1), f"{s3.url}/{uuid.uuid4().hex}"
    edges = sorted({(a, b) for a, b in (chosen.sample(range(40), 2) for _ in range(300))})
    variables = {**s3.environment, "BIGJOIN_SCRATCH": f"{folder}/scratch"}
    told = json.loads(cluster.run(PROGRAM, folder, json.dumps(edges), variables=variables, timeout=560).splitlines()[-1])
    wanted = {(a, b, c) for a, b in edges for x, c in edges if x == b and (c, a) in set(edges)}
    assert set(told["counts"].values()) == {len(wanted)}
    assert len(told["counts"]) == 4
    for strategy, found in told["found"].items():
        assert {tuple(match) for match in found} == wanted, strategy
        assert len(found) == len(wanted), strategy
    begins = sorted([a, sum(match[0] == a for match in wanted)] for a in {match[0] for match in wanted})
    assert all(groups == begins for groups in told["by"].values()), told["by"]
    after = [*edges, (101, 1), (1, 102), (102, 101)]
    assert told["epochs"] == [[1, len(wanted)], [2, len(wanted)], [3, cycles(after)]]
    assert told["joined"] == len(wanted)
    store = filesystem("s3", **s3.storage_options, use_listings_cache=False)
    with store.open(f"{folder}/cycles.parquet") as file:
        assert pq.read_table(file).num_rows == cycles(after)
    left = [name for name in store.find(folder) if "_bigjoin_scratch" in name]
    assert not left
    for name in store.find(folder):
        assert s3.secret_key.encode() not in store.cat_file(name), name
