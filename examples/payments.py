"""Watch a stream of payments for rings of three to five accounts, and report each ring as soon as it closes.

Run it with: .venv/bin/python examples/payments.py
or, with your own payments: .venv/bin/python examples/payments.py TRANSACTIONS.csv [MINIMUM [WINDOW]]
where the first four columns are payer, payee, amount and time (a number, for example of a day).
"""

import json
import os
import random
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import bigjoin as bj
from bigjoin.spark.session import get_session

COLUMNS = ["src", "dst", "amount", "time"]


def ring_rule(length: int, minimum: float) -> str:
    """Return the rule of a ring: each payment is later than the one before, and none is below the minimum."""
    accounts, payments = [f"a{i}" for i in range(length)], [f"p{i}" for i in range(length)]
    atoms = [f"edge({accounts[i]}, {accounts[(i + 1) % length]}, {payments[i]})" for i in range(length)]
    large = [f"{p}.amount >= {minimum}" for p in payments]
    later = [f"{p}.time < {q}.time" for p, q in pairwise(payments)]
    columns = [*accounts, *(f"{p}.amount" for p in payments), f"{payments[-1]}.time"]
    return f"ring{length}({', '.join(columns)}) := {', '.join(atoms + large + later)}"


def generated_payments() -> pd.DataFrame:
    """Return ten days of payments: random ones among 60 accounts, rings to be found, and rings not to be found."""
    chance = random.Random(7)
    rows = [(*chance.sample(range(60), 2), chance.randint(10, 600), day) for day in range(1, 11) for _ in range(25)]
    rows += [(101, 102, 5000, 1), (102, 103, 4900, 2), (103, 101, 4800, 4)]  # a ring of three
    rows += [(102, 103, 4950, 3)]  # a second payment between two of them: a second ring
    rows += [(201, 202, 9000, 2), (202, 203, 8000, 3), (203, 204, 7500, 4), (204, 201, 7000, 6)]  # a ring of four
    rows += [(301, 302, 2000, 3), (302, 303, 1900, 4), (303, 304, 1800, 5), (304, 305, 1700, 6), (305, 301, 1600, 7)]
    rows += [(401, 402, 3000, 1), (402, 403, 3000, 5), (403, 401, 3000, 9)]  # too slow for a window of five days
    rows += [(501, 502, 400, 4), (502, 503, 390, 5), (503, 501, 380, 6)]  # too small
    rows += [(601, 602, 7000, 8), (602, 603, 7000, 7), (603, 601, 7000, 6)]  # in the wrong order
    return pd.DataFrame(rows, columns=COLUMNS)


def write_days(payments: pd.DataFrame, folder: Path) -> None:
    """Write a file for each day, as if the days had arrived one after another."""
    folder.mkdir()
    for number, (day, paid) in enumerate(payments.groupby("time")):
        file = folder / f"day-{day:05}.parquet"
        pq.write_table(pa.Table.from_pandas(paid.assign(op="+"), preserve_index=False), file)
        os.utime(file, (number, number))  # Spark reads files in the order of their times


def tell(epoch: bj.Epoch) -> None:
    """Print the rings that an epoch closes. This runs before the commit, so it may run again after a failure."""
    for changes in epoch.queries.values():
        for _, change, *row, time in sorted(tuple(row.values()) for row in changes.table.to_pylist()):
            if change > 0:  # a ring that leaves the window has -1
                half = len(row) // 2
                paid = "".join(f" {account} -({amount:g})->" for account, amount in zip(row[:half], row[half:], strict=True))
                print(f"day {time}:{paid} {row[0]}", flush=True)


def main() -> None:
    source, minimum, window = (*sys.argv[1:], *("", "500", "5")[len(sys.argv) - 1 :])
    payments = pd.read_csv(source).iloc[:, :4].set_axis(COLUMNS, axis=1) if source else generated_payments()
    folder = Path(tempfile.mkdtemp())
    write_days(payments, folder / "days")

    # The index of an empty graph defines the columns that its edges will have.
    bj.build_index(pa.Table.from_pandas(payments.iloc[:0], preserve_index=False), folder / "bank.index")
    graph = bj.Graph.open(folder / "bank.index")

    spark = get_session()
    schema = spark.read.parquet(str(folder / "days")).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "days"))
    watching = graph.watch(
        {f"ring{length}": ring_rule(length, float(minimum)) for length in (3, 4, 5)},
        stream,
        distinct=True,  # the accounts of a ring differ
        window=float(window),  # a payment expires when the latest one is this much later
        time="time",
        output=folder / "rings",
        function=tell,
        trigger={"availableNow": True},  # stop when all files are read; otherwise wait for more
    )
    watching.awaitTermination()

    # The output has the same: a folder for each query and epoch, and a line of counts for each epoch.
    signed = Counter(pq.read_table(folder / "rings" / "ring3")["change"].to_pylist())
    print("rings of three that appeared and expired:", signed[1], signed[-1])
    last = json.loads((folder / "rings" / "_counts.jsonl").read_text().splitlines()[-1])
    counts = {name: figures["count"] for name, figures in last["queries"].items()}
    print(f"within the window after epoch {last['epoch']}:", counts)
    spark.stop()


if __name__ == "__main__":
    main()
