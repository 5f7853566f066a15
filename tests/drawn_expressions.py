"""Draw expressions at random, each as a rule writes it and as DuckDB does: typed, nested, about NULLs and NaN.

What the two mean differently by design is not drawn, or is spelled so that both mean the same.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

EPOCH = datetime.datetime(2024, 1, 1)


def edges(chance: random.Random, vertices: int = 9, rows: int = 40) -> pa.Table:
    """A table of edges with properties of every kind, a fifth of them NULL."""

    def some(values):
        return [None if chance.random() < 0.2 else chance.choice(values) for _ in range(rows)]

    times = [EPOCH + datetime.timedelta(hours=h, microseconds=m) for h in range(0, 2000, 37) for m in (0, 1)]
    return pa.table(
        {
            "src": pa.array([chance.randrange(vertices) for _ in range(rows)], pa.int64()),
            "dst": pa.array([chance.randrange(vertices) for _ in range(rows)], pa.int64()),
            "n": pa.array(range(rows), pa.int64()),
            "i": pa.array(some([-7, -1, 0, 1, 2, 3, 40]), pa.int64()),
            "j": pa.array(some([-3, 1, 2, 5]), pa.int32()),
            "x": pa.array(some([-1.5, 0.0, -0.0, 0.25, 2.0, 1e10, float("nan"), float("inf")]), pa.float64()),
            "d": pa.array(some([Decimal("0.10"), Decimal("1.50"), Decimal("-2.25"), Decimal("3.00")]), pa.decimal128(10, 2)),
            "s": pa.array(some(["", "a", "ab", "abc", "b%", "A b", "été", "x_y"]), pa.string()),
            "t": pa.array(some(times), pa.timestamp("us")),
            "day": pa.array(some([time.date() for time in times]), pa.date32()),
            "ok": pa.array(some([True, False]), pa.bool_()),
        }
    )


@dataclass
class Text:
    """An expression as a rule writes it, and as DuckDB does."""

    ours: str
    duckdb: str = ""

    def __post_init__(self):
        self.duckdb = self.duckdb or self.ours


@dataclass
class Draw:
    """Draws expressions about edges, given their names."""

    chance: random.Random
    names: tuple[str, ...] = ("e", "f")
    depth: int = 3
    time_column: str = "t"
    used: set[str] = field(default_factory=set)

    def column(self, *columns: str) -> Text:
        name = self.chance.choice(self.names)
        self.used.add(name)
        return Text(f"{name}.{self.chance.choice(columns)}")

    def of(self, *choices, depth):
        """One of some ways to go on; at the bottom the first."""
        return self.chance.choice(choices if depth > 0 else choices[:2])(depth - 1)

    # Conditions

    def condition(self, depth: int | None = None) -> Text:
        depth = self.depth if depth is None else depth
        return self.of(
            self.comparison,
            self.comparison,
            self.logic,
            self.negation,
            self.member,
            self.null,
            self.test,
            self.between,
            depth=depth,
        )

    def comparison(self, depth):
        kind = self.chance.choice([self.number, self.number, self.text, self.time, self.boolean])
        left, right = kind(depth), kind(depth)
        op = self.chance.choice(["<", "<=", ">", ">=", "=", "!="])
        return Text(f"({left.ours}) {op} ({right.ours})", f"({left.duckdb}) {op} ({right.duckdb})")

    def logic(self, depth):
        parts = [self.condition(depth) for _ in range(self.chance.choice([2, 2, 3]))]
        word = f" {self.chance.choice(['and', 'or'])} "
        return Text(word.join(f"({p.ours})" for p in parts), word.join(f"({p.duckdb})" for p in parts))

    def negation(self, depth):
        part = self.condition(depth)
        return Text(f"not ({part.ours})", f"not ({part.duckdb})")

    def member(self, depth):
        kind = self.chance.choice([self.number, self.text])
        if kind == self.number and self.chance.random() < 0.5:
            return self.among_numbers(depth)
        parts = [kind(0 if i else depth) for i in range(self.chance.choice([2, 3, 4]))]
        word = self.chance.choice(["in", "not in"])
        more = ", null" if self.chance.random() < 0.2 else ""
        ours, theirs = ([getattr(p, side) for p in parts] for side in ("ours", "duckdb"))
        return Text(
            f"({ours[0]}) {word} ({', '.join(ours[1:])}{more})", f"({theirs[0]}) {word} ({', '.join(theirs[1:])}{more})"
        )

    def among_numbers(self, depth):
        """A list of constants, perhaps a long one, whose type may be another than that of the value."""
        part, word = self.number(depth), self.chance.choice(["in", "not in"])
        known = self.chance.choice(
            [["-7", "0", "1", "2", "40"], ["0.5", "1.5", "2.0", "40.25", "-1.5"], ["1e0", "25e-2", "1e10"]]
        )
        members = ", ".join(self.chance.choice(known) for _ in range(self.chance.randint(1, 12)))
        return Text(f"({part.ours}) {word} ({members})", f"({part.duckdb}) {word} ({members})")

    def null(self, depth):
        part = self.chance.choice([self.number, self.text, self.time])(depth)
        word = self.chance.choice(["is null", "is not null"])
        return Text(f"({part.ours}) {word}", f"({part.duckdb}) {word}")

    def between(self, depth):
        parts = [self.number(depth) for _ in range(3)]
        word = self.chance.choice(["between", "not between"])
        ours, theirs = ([f"({getattr(p, side)})" for p in parts] for side in ("ours", "duckdb"))
        return Text(f"{ours[0]} {word} {ours[1]} and {ours[2]}", f"{theirs[0]} {word} {theirs[1]} and {theirs[2]}")

    def test(self, depth):
        part, piece = self.text(depth), self.chance.choice(["a", "b", "ab", "%", "", "é"])
        form = self.chance.choice(["like", "starts with", "ends with", "contains", "rlike"])
        if form == "like":
            pattern = self.chance.choice(["a%", "%b%", "_b_", "", "%"])
            return Text(f"({part.ours}) like '{pattern}'", f"({part.duckdb}) like '{pattern}'")
        if form == "rlike":
            pattern = self.chance.choice(["^a", "b.?$", "[ab]+", "^(a|x)", "."])
            return Text(f"({part.ours}) rlike '{pattern}'", f"regexp_matches({part.duckdb}, '{pattern}')")
        name, theirs = {
            "starts with": ("startswith", "starts_with"),
            "ends with": ("endswith", "ends_with"),
            "contains": ("contains", "contains"),
        }[form]
        return Text(f"{name}({part.ours}, '{piece}')", f"{theirs}({part.duckdb}, '{piece}')")

    # Values

    def boolean(self, depth):
        if depth > 0 and self.chance.random() < 0.3:
            part = self.condition(depth - 1)
            return Text(f"({part.ours})", f"({part.duckdb})")
        return self.chance.choice([self.column("ok"), Text("true"), Text("false")])

    def number(self, depth):
        kind = self.chance.choice([self.integer, self.integer, self.double, self.decimal])
        return kind(depth)

    def integer(self, depth):
        return self.of(
            lambda _: self.column("i", "j"),
            lambda _: Text(str(self.chance.choice([-2, 0, 1, 3, 100]))),
            self._integer_arithmetic,
            self._of_text,
            self._of_time,
            self._chosen_integer,
            depth=depth,
        )

    def _integer_arithmetic(self, depth):
        op = self.chance.choice(["+", "-", "*"])
        left, right = self.integer(depth), self.integer(depth)
        left = Text(left.ours, f"cast({left.duckdb} as bigint)")
        return Text(f"({left.ours} {op} {right.ours})", f"({left.duckdb} {op} {right.duckdb})")

    def _of_text(self, depth):
        part = self.text(depth)
        return Text(f"length({part.ours})", f"length({part.duckdb})")

    def _of_time(self, depth):
        part, name = self.time(depth), self.chance.choice(["year", "month", "day", "hour", "quarter", "dayofyear"])
        return Text(f"{name}({part.ours})", f"{name}({part.duckdb})")

    def _chosen_integer(self, depth):
        condition, one, other = self.condition(depth), self.integer(depth), self.integer(depth)
        form = self.chance.choice(["case", "coalesce", "nullif", "abs", "greatest"])
        if form == "case":
            return Text(
                f"case when {condition.ours} then {one.ours} else {other.ours} end",
                f"case when {condition.duckdb} then {one.duckdb} else {other.duckdb} end",
            )
        if form == "abs":
            return Text(f"abs({one.ours})", f"abs({one.duckdb})")
        return Text(f"{form}({one.ours}, {other.ours})", f"{form}({one.duckdb}, {other.duckdb})")

    def double(self, depth):
        return self.of(lambda _: self.column("x"), lambda _: self.column("x"), self._double_arithmetic, depth=depth)

    def _double_arithmetic(self, depth):
        left, right = self.double(depth), self.number(depth)
        op = self.chance.choice(["+", "-", "*"])
        if op == "*" and self.chance.random() < 0.3:  # never zero
            return Text(f"(({left.ours}) / 4.0)", f"(({left.duckdb}) / 4.0::double)")
        return Text(f"(({left.ours}) {op} ({right.ours}))", f"(({left.duckdb}) {op} ({right.duckdb})::double)")

    def decimal(self, depth):
        return self.of(
            lambda _: self.column("d"),
            lambda _: Text(self.chance.choice(["0.5", "1.50", "-0.1"])),
            self._decimal_arithmetic,
            depth=depth,
        )

    def _decimal_arithmetic(self, _):
        left, right = self.decimal(0), self.decimal(0)
        op = self.chance.choice(["+", "-", "*"])
        return Text(f"({left.ours} {op} {right.ours})", f"({left.duckdb} {op} {right.duckdb})")

    def text(self, depth):
        return self.of(
            lambda _: self.column("s"),
            lambda _: Text(f"'{self.chance.choice(['', 'a', 'ab', 'Z', 'é'])}'"),
            self._made_text,
            depth=depth,
        )

    def _made_text(self, depth):
        part, other = self.text(depth), self.text(depth)
        forms = {
            "lower": ("lower({0})", "lower({0})"),
            "upper": ("upper({0})", "upper({0})"),
            "join": ("({0} || {1})", "({0} || {1})"),
            "substring": ("substring({0}, 2, 2)", "substring({0}, 2, 2)"),
            "left": ("left({0}, 2)", "left({0}, 2)"),
            "replace": ("replace({0}, 'a', 'bb')", "replace({0}, 'a', 'bb')"),
            "trim": ("trim({0})", "trim({0})"),
            "coalesce": ("coalesce({0}, {1})", "coalesce({0}, {1})"),
        }
        ours, theirs = self.chance.choice(list(forms.values()))
        return Text(ours.format(part.ours, other.ours), theirs.format(part.duckdb, other.duckdb))

    def time(self, depth):
        return self.of(
            lambda _: self.column(self.time_column),
            lambda _: self.column(self.time_column),
            self._moved_time,
            lambda _: Text("timestamp '2024-02-01 00:00:00'"),
            depth=depth,
        )

    def _moved_time(self, depth):
        part = self.time(depth)
        span = self.chance.choice(["1 day", "36 hours", "1 month", "90 seconds"])
        op = self.chance.choice(["+", "-"])
        return Text(f"({part.ours} {op} interval '{span}')", f"({part.duckdb} {op} interval '{span}')")
