"""Find money that goes round in a circle: rings of three to five accounts, of any of these lengths, with one rule.

Run it with: .venv/bin/python examples/rings.py
or, with your own payments: .venv/bin/python examples/rings.py TRANSACTIONS.csv [DAYS]
where the first four columns are payer, payee, amount and time (a number, for example of a day).
"""

import random
import sys
import tempfile
from pathlib import Path

import pandas as pd

import bigjoin as bj

COLUMNS = ["src", "dst", "amount", "time"]


def generated_payments() -> pd.DataFrame:
    """Return a month of payments among 120 accounts, with rings to be found and rings not to be found."""
    chance = random.Random(3)
    rows = [(*chance.sample(range(120), 2), chance.randint(10, 600), chance.randint(1, 30)) for _ in range(300)]
    rows += [(501, 502, 5000, 1), (502, 503, 4900, 4), (503, 501, 4800, 9)]  # a ring of three
    rows += [(502, 503, 4950, 6)]  # a second payment between two of them: a second ring
    rows += [(601, 602, 9000, 2), (602, 603, 8000, 3), (603, 604, 7500, 5), (604, 605, 7000, 8), (605, 601, 6900, 9)]
    rows += [(701, 702, 3000, 1), (702, 703, 3000, 9), (703, 701, 3000, 25)]  # too slow for ten days
    rows += [(801, 802, 7000, 9), (802, 803, 7000, 8), (803, 801, 7000, 7)]  # in the wrong order
    return pd.DataFrame(rows, columns=COLUMNS)


def main() -> None:
    source, days = (*sys.argv[1:], *("", "10")[len(sys.argv) - 1 :])
    payments = pd.read_csv(source).iloc[:, :4].set_axis(COLUMNS, axis=1) if source else generated_payments()
    folder = Path(tempfile.mkdtemp())
    bj.build_index(payments, folder / "bank.index")
    graph = bj.Graph.open(folder / "bank.index")

    # e is the whole path: next(e) is the payment after each one, first(e) and last(e) are those at the ends.
    ring = f"""
        ring(nodes(e) as accounts, e.amount as amounts, first(e).time as since, last(e).time as until) :=
            simple edge*3..5(a, a, e), next(e).time > e.time, last(e).time - first(e).time < {days}
    """
    print("rings:", graph.count(ring))
    for accounts, amounts, since, until in sorted(tuple(row) for row in graph.find(ring).collect()):
        paid = "".join(f"{account} -({amount})-> " for account, amount in zip(accounts[:-1], amounts, strict=True))
        print(f"days {since} to {until}: {paid}{accounts[-1]}")

    by_length = graph.find("q(length(e) as length, count(*) as rings) :=" + ring.partition(":=")[2] + " order by length")
    print("by length:", {row["length"]: row["rings"] for row in by_length.collect()})

    # The same rule can be watched. These updates close a ring, and take back what was paid within another.
    last = payments["time"].max() + 1
    updates = pd.DataFrame(
        [
            (901, 902, 100, last, "+"),
            (902, 903, 100, last + 1, "+"),
            (903, 901, 100, last + 2, "+"),
            (502, 503, None, None, "-"),
        ],
        columns=[*COLUMNS, "op"],
    )
    epoch = graph.apply(updates, ring)
    for change, accounts, amounts in sorted(
        (row["change"], row["accounts"], row["amounts"]) for row in epoch.table.to_pylist()
    ):
        print("new:" if change > 0 else "gone:", accounts, amounts)


if __name__ == "__main__":
    main()
