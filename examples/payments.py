"""Watch payments: rings that close, accounts that many pay, and what is paid to suspects, through a bad night and a restart.

Run it with: .venv/bin/python examples/payments.py
or, with your own payments: .venv/bin/python examples/payments.py TRANSACTIONS.csv [MINIMUM [WINDOW]]
where the first four columns are payer, payee, amount and time (a number, for example of a day).
"""

import json
import os
import random
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import bigjoin as bj

SCHEMA = "relation string, src long, dst long, id long, op string, label string, payment long, amount double, time long"
"""What arrives: rows about edges, which are payments, and about vertices, which are accounts."""

RESTART = 6
"""The day before which the watch is stopped and started again."""


def ring_rule(length: int, minimum: float) -> str:
    """Return the rule of a ring: each payment is later than the one before, and none is below the minimum."""
    accounts, payments = [f"a{i}" for i in range(length)], [f"p{i}" for i in range(length)]
    atoms = [f"edge({accounts[i]}, {accounts[(i + 1) % length]}, {payments[i]})" for i in range(length)]
    large = [f"{p}.amount >= {minimum}" for p in payments]
    later = [f"{p}.time < {q}.time" for p, q in pairwise(payments)]
    differ = [f"{a} != {b}" for i, a in enumerate(accounts) for b in accounts[:i]]
    columns = [*accounts, *(f"{p}.amount" for p in payments), f"{payments[-1]}.time"]
    return f"ring{length}({', '.join(columns)}) := {', '.join(atoms + large + later + differ)}"


def watched_rules(minimum: float) -> dict[str, str]:
    """Return everything that is watched, by name."""
    rings = {f"ring{length}": ring_rule(length, minimum) for length in (3, 4, 5)}
    return {
        **rings,
        "fanin": "fanin(b, count(p) as payments, sum(p.amount) as total) := "
        "edge(a, b, p), p.amount < 100 having payments >= 10",
        "suspects": f"suspects(a, b, p.amount) := edge(a, b, p), suspect(b), p.amount >= {minimum}",
    }


def generated_payments() -> pd.DataFrame:
    """Return ten days of payments: random ones among 60 accounts, rings to be found, rings not to be found, and a fan-in."""
    chance = random.Random(7)
    rows = [(*chance.sample(range(60), 2), chance.randint(100, 600), day) for day in range(1, 11) for _ in range(25)]
    rows += [(101, 102, 5000, 1), (102, 103, 4900, 2), (103, 101, 4800, 4)]  # a ring of three
    rows += [(102, 103, 4950, 3)]  # a second payment between two of them: a second ring
    rows += [(201, 202, 9000, 2), (202, 203, 8000, 3), (203, 204, 7500, 4), (204, 201, 7000, 6)]  # a ring of four
    rows += [(301, 302, 2000, 3), (302, 303, 1900, 4), (303, 304, 1800, 5), (304, 305, 1700, 6), (305, 301, 1600, 7)]
    rows += [(401, 402, 3000, 1), (402, 403, 3000, 5), (403, 401, 3000, 9)]  # too slow for a window of five days
    rows += [(501, 502, 400, 4), (502, 503, 390, 5), (503, 501, 380, 6)]  # too small
    rows += [(601, 602, 7000, 8), (602, 603, 7000, 7), (603, 601, 7000, 6)]  # in the wrong order
    rows += [(700 + number, 799, 20, 3 + number // 4) for number in range(12)]  # twelve small payments within three days
    return pd.DataFrame(rows, columns=["src", "dst", "amount", "time"])


def other_updates() -> pd.DataFrame:
    """Return what else arrives: accounts that become suspects, a correction, and rows that nobody can read."""
    rows = [
        {"relation": "vertex", "id": 203, "op": "=", "label": "suspect", "day": 4},
        {"relation": "edge", "src": 102, "dst": 103, "op": "=", "payment": 253, "amount": 49.5, "time": 3, "day": 5},
        {"relation": "edge", "src": 1, "dst": None, "op": "+", "amount": 10, "time": 6, "day": 6},
        {"relation": "edge", "src": 1, "dst": 2, "op": "?", "amount": 10, "time": 6, "day": 6},
        {"relation": "vertex", "id": 203, "op": "=", "label": "cleared", "day": 7},
    ]
    return pd.DataFrame(rows)


def write_days(updates: pd.DataFrame, folder: Path) -> None:
    """Write a file for each day, as if the days had arrived one after another."""
    folder.mkdir(exist_ok=True)
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    types = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
    schema = pa.schema([(name, types[column.split()[1]]) for name, column in zip(names, SCHEMA.split(", "), strict=True)])
    for day, mine in updates.groupby("day"):
        file = folder / f"day-{day:05}.parquet"
        pq.write_table(pa.Table.from_pandas(mine.reindex(columns=names), schema, preserve_index=False), file)
        os.utime(file, (day, day))  # Spark reads files in the order of their times


def tell(epoch: bj.Epoch) -> None:
    """Print what an epoch changes. This runs before the commit, so it may run again after a failure."""
    for name, changes in epoch.queries.items():
        for _, change, *row in sorted(tuple(row.values()) for row in changes.table.to_pylist()):
            if name == "fanin":
                crossed = "is paid by many" if change > 0 else "is no longer paid by many"
                print(f"epoch {epoch.number}: {row[0]} {crossed}: {row[1]} payments, {row[2]:g} in all", flush=True)
            elif name == "suspects":
                sign = "+" if change > 0 else "-"
                print(f"epoch {epoch.number}: {sign} {row[0]} -({row[2]:g})-> suspect {row[1]}", flush=True)
            else:  # a ring closes, or it leaves the window, or a correction breaks it
                half = (len(row) - 1) // 2
                paid = "".join(f" {account} -({amount:g})->" for account, amount in zip(row[:half], row[half:-1], strict=True))
                print(f"epoch {epoch.number}: {'+' if change > 0 else '-'}{paid} {row[0]}", flush=True)


def main() -> None:
    source, minimum, window = (*sys.argv[1:], *("", "500", "5")[len(sys.argv) - 1 :])
    columns = ["src", "dst", "amount", "time"]
    payments = pd.read_csv(source).iloc[:, :4].set_axis(columns, axis=1) if source else generated_payments()
    payments = payments.assign(relation="edge", op="+", payment=range(len(payments)), day=payments["time"])
    updates = payments if source else pd.concat([payments, other_updates()])
    folder = Path(tempfile.mkdtemp())

    # The first rows of the graph define the columns and the labels that it will have.
    accounts = pa.table({"id": [203, 1], "label": ["cleared", "suspect"]})
    empty = pa.table({"src": [1], "dst": [2], "payment": [-1], "amount": [0.0], "time": [0]})
    bj.build_index(empty, folder / "bank.index", vertices=accounts)
    graph = bj.Graph.open(folder / "bank.index")

    spark = bj.session()

    def watch() -> None:
        """Watch the files that are there. Whoever calls it again goes on where it stopped, also after a crash."""
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "days"))
        watching = graph.watch(
            watched_rules(float(minimum)),
            stream,
            key="payment",  # what tells two payments between the same accounts apart
            window=float(window),  # a payment expires when the latest one is this much later
            time="time",
            on_bad_row="quarantine",
            output=folder / "found",
            function=tell,
            trigger={"availableNow": True},  # stop when all files are read; otherwise wait for more
        )
        watching.awaitTermination()

    write_days(updates[updates["day"] < RESTART], folder / "days")
    watch()
    print("-- stopped, and started again --", flush=True)
    write_days(updates[updates["day"] >= RESTART], folder / "days")
    watch()

    # The output has the same: a folder for each query and epoch, a line of counts for each epoch, and what was bad.
    last = json.loads((folder / "found" / "_counts.jsonl").read_text().splitlines()[-1])
    counts = {name: figures["count"] for name, figures in last["queries"].items()}
    print(f"within the window after epoch {last['epoch']}:", counts)
    for file in sorted((folder / "found" / "_quarantine").glob("*/*.parquet")):
        for row in pq.read_table(file, partitioning=None).to_pylist():
            print(f"bad, in {file.parent.name}: {row['reason']}")
    spark.stop()


if __name__ == "__main__":
    main()
