"""Watch a social graph that gains and loses edges: which groups of four mutual friends does each week create and destroy?

Run it with: .venv/bin/python examples/social.py
"""

import gzip
import random
from collections import Counter
from importlib.resources import as_file, files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import bigjoin as bj


def read_friends(path: Path) -> dict[int, list[int]]:
    """Return the friends of each person, in both directions."""
    friends: dict[int, set[int]] = {}
    with gzip.open(path, "rt") as lines:
        for a, b in (map(int, line.split()[:2]) for line in lines if line[0].isdigit()):
            if a != b:
                friends.setdefault(a, set()).add(b)
                friends.setdefault(b, set()).add(a)
    return {person: sorted(others) for person, others in sorted(friends.items())}


def generated_week(friends: dict[int, list[int]], week: int) -> list[tuple[int, int, str]]:
    """Return a week's updates: random friendships end, and friends of friends become friends (some of them already are)."""
    chance = random.Random(week)
    people = list(friends)
    updates = []
    for _ in range(400):
        person = chance.choice(people)
        friend = chance.choice(friends[person])
        updates.append((person, friend, "-"))
        person = chance.choice(friends[chance.choice(people)])
        middle = chance.choice(friends[person])
        updates.append((person, chance.choice(friends[middle]), "+"))
    return updates


def main() -> None:
    with as_file(files("bigjoin.data") / "soc-Epinions1.txt.gz") as path, bj.Graph(path, directed=False) as graph:
        friends = read_friends(path)
        print(f"groups of four at the start: {graph.count('4-clique', unique=True):,}")
        for week in (1, 2, 3):
            src, dst, op = zip(*generated_week(friends, week), strict=True)
            epoch = graph.apply(pa.table({"src": src, "dst": dst, "op": op}), "4-clique", unique=True)
            done = f"{epoch.fate.inserted} friendships begun, {epoch.fate.deleted} ended"
            print(f"week {epoch.number}: {done}; groups: +{epoch.created:,} -{epoch.destroyed:,}, now {epoch.count:,}")
            new = epoch.table.filter(pc.field("change") > 0).select(["a1", "a2", "a3", "a4"])
            groups, person = max((n, person) for person, n in Counter(p for column in new for p in column.to_pylist()).items())
            print(f"  person {person} is in {groups:,} of the new ones")
        print(f"counted again from scratch: {graph.count('4-clique', unique=True):,}")


if __name__ == "__main__":
    main()
