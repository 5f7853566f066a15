"""Updates that arrive as Parquet, and as files of a folder; what is watched is looked at afterwards."""

import json
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

import bigjoin as bj


def prepare(folder, spark):
    (folder / "arriving").mkdir()
    pq.write_table(pa.table({"src": [1], "dst": [4], "op": ["+"]}), folder / "arriving" / "1.parquet")
    nothing = pa.table({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())})
    bj.build_index(nothing, folder / "graph.index")
    (folder / "updates").mkdir()
    (folder / "updates" / "001.csv").write_text("src,dst,op\n1,2,+\n2,3,+\n3,1,+\n")
    (folder / "updates" / "002.csv").write_text("src,dst,op\n3,1,-\n3,4,+\n4,1,+\n")

    times = pa.table(
        {**{name: pa.array([], pa.int64()) for name in ("src", "dst")}, "paid_at": pa.array([], pa.timestamp("us"))}
    )
    bj.build_index(times, folder / "bank.index", directed=True)
    (folder / "paid").mkdir()
    for number, payers in enumerate((range(6), range(3, 10))):
        when = [datetime(2026, 3, 1) + timedelta(hours=number + payer) for payer in payers]
        paid = {
            "src": [*payers],
            "dst": [99] * len(when),
            "paid_at": pa.array(when, pa.timestamp("us")),
            "op": ["+"] * len(when),
        }
        pq.write_table(pa.table(paid), folder / "paid" / f"{number}.parquet")


def check(folder, names):
    assert pq.read_table(folder / "fans" / "epoch=1", partitioning=None).to_pylist() == []
    assert pq.read_table(folder / "fans" / "epoch=2", partitioning=None).to_pylist() == [{"change": 1, "b": 99, "n": 13}]
    streamed = [row for path in (folder / "busy").glob("epoch=*") for row in pq.read_table(path, partitioning=None).to_pylist()]
    assert streamed == [{"change": 1, "b": 99, "n": 13}]
    signed = {
        (name, epoch): sorted((row["change"], row["a1"] + row["a2"] + row["a3"]) for row in rows.to_pylist())
        for name in ("3-cycle", "four")
        for epoch in (1, 2)
        for rows in [pq.read_table(folder / "cycles" / name / f"epoch={epoch}", partitioning=None)]
    }
    assert signed[("3-cycle", 1)] == [(1, 6)]
    assert signed[("3-cycle", 2)] == [(-1, 6)]
    assert signed[("four", 1)] == []
    assert [change for change, _ in signed[("four", 2)]] == [1]
    lines = [json.loads(line) for line in (folder / "cycles" / "_counts.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
