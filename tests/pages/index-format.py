"""An index with updates that are not compacted; read as the page says, it holds the edges that are left."""

import pyarrow as pa

import bigjoin as bj

EDGES = [(1, 2), (2, 3)]
EPOCHS = ([(3, 1, "+"), (4, 4, "+")], [(1, 2, "-"), (7, 1, "+")], [(1, 2, "+"), (4, 4, "-"), (9, 7, "+")])


def prepare(folder, spark):
    bj.build_index(pa.table({"src": [1, 2], "dst": [2, 3]}), folder / "graph.index")
    graph = bj.Graph.open(folder / "graph.index")
    for epoch in EPOCHS:
        src, dst, op = zip(*epoch, strict=True)
        graph.apply(pa.table({"src": src, "dst": dst, "op": op}))


def check(folder, names):
    wanted = set(EDGES)
    for a, b, change in (update for epoch in EPOCHS for update in epoch):
        (wanted.add if change == "+" else wanted.discard)((a, b))
    vertices, edges = names["manifest"]["domains"]["vertex"], names["manifest"]["relations"]["edge"]
    ids = [i for part in vertices["ids"] for i in pa.ipc.open_file(names["opened"](part)).read_all()["id"].to_pylist()]
    assert {(ids[a], ids[b]) for a, b in names["edges"]} == wanted
    assert len(ids) == vertices["size"] > vertices["stored"] == 3
    assert edges["tuples"] == len(wanted)
    assert names["manifest"]["epoch"] == 3
