"""Draw SELECTs at random, each as Spark SQL has it and as DuckDB does, over small tables with NULLs and equal rows."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa

from tests.drawn_expressions import Draw, Text
from tests.drawn_expressions import edges as rich_edges

ENDS = ("src", "dst")


def tables(seed: int) -> dict[str, pa.Table]:
    """Tables: `e` with columns of every kind, `g` a set of pairs, `h` pairs with NULLs and equal rows, `v` names of ids."""
    chance = random.Random(seed)

    def some(values, rows, nulls):
        return [None if chance.random() < nulls else chance.choice(values) for _ in range(rows)]

    rows = chance.choice([6, 12, 18])
    e = rich_edges(chance, vertices=5, rows=rows)
    if seed % 2:
        e = e.set_column(0, "src", pa.array(some(range(5), rows, 0.15), pa.int64()))
        e = e.set_column(1, "dst", pa.array(some(range(5), rows, 0.15), pa.int64()))
    if seed % 3 == 0:
        e = pa.concat_tables([e, e.slice(0, 3)])
    pairs = sorted({(chance.randrange(5), chance.randrange(5)) for _ in range(9)})
    h = 14
    return {
        "e": e,
        "g": pa.table({"src": pa.array([p[0] for p in pairs], pa.int64()), "dst": pa.array([p[1] for p in pairs], pa.int64())}),
        "h": pa.table(
            {"src": pa.array(some(range(4), h, 0.2), pa.int32()), "dst": pa.array(some(range(4), h, 0.2), pa.int64())}
        ),
        "v": pa.table(
            {"id": pa.array(range(5), pa.int64()), "name": ["a", "ab", None, "abc", "b%"], "age": [1, None, 3, 40, 2]}
        ),
        "none": pa.table({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())}),
    }


class SqlDraw(Draw):
    """Draws expressions about aliases of `e`, with functions as SQL writes them."""

    def test(self, depth):
        part, piece = self.text(depth), self.chance.choice(["a", "b", "ab", "", "é"])
        form = self.chance.choice(["like", "startswith", "endswith", "contains", "rlike"])
        if form in ("like", "rlike"):
            drawn = super().test(depth)
            return drawn if " starts with " not in drawn.ours and " ends with " not in drawn.ours else self.test(depth)
        names = {"startswith": "starts_with", "endswith": "ends_with", "contains": "contains"}
        return Text(f"{form}({part.ours}, '{piece}')", f"{names[form]}({part.duckdb}, '{piece}')")


class DrawnSelect:
    """A SELECT in the making."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.aliases: list[tuple[str, str]] = []
        """Alias and table."""
        self.optional: set[str] = set()
        self.where: list[Text] = []
        self.names = iter("abcdpqrstuvw")

    def some(self, *choices):
        return self.chance.choice(choices)

    def chosen(self, share: float) -> bool:
        return self.chance.random() < share

    # FROM

    def key(self, table: str) -> str:
        return self.some("id") if table == "v" else self.some(*ENDS)

    def table(self) -> str:
        return self.some("e", "e", "e", "g", "g", "g", "h", "v", *(["none"] if self.chosen(0.1) else []))

    def source(self, table: str, alias: str) -> str:
        """A table under a name, perhaps as a SELECT."""
        if table in ("e", "g", "h") and self.chosen(0.06):
            inner = f" where {self.some('src', 'dst')} {self.some('<', '>', '<>')} {self.chance.randrange(4)}" * self.chosen(
                0.5
            )
            columns = "*" if self.chosen(0.5) else ", ".join(COLUMNS[table])
            return f"(select {columns} from {table}{inner}) {alias}"
        return f"{table} {self.some('', 'as ')}{alias}"

    def equality(self, alias: str, table: str, before: list[tuple[str, str]]) -> str:
        other, of = self.chance.choice(before)
        sides = [f"{alias}.{self.key(table)}", f"{other}.{self.key(of)}"]
        if self.chosen(0.05):
            sides[0] = self.some(f"({sides[0]} + 1)", f"abs({sides[0]})", f"cast({sides[0]} as double)")
        self.chance.shuffle(sides)
        return " = ".join(sides)

    def from_(self, count: int) -> str:
        alias, table = next(self.names), self.table()
        self.aliases.append((alias, table))
        text = f"from {self.source(table, alias)}"
        for number in range(1, count):
            alias, table = next(self.names), self.table()
            certain = [one for one in self.aliases if one[0] not in self.optional]
            kind = "left" if self.chosen(0.25) else "inner"
            before = self.aliases if kind == "left" and self.chosen(0.3) else certain
            parts = [self.equality(alias, table, before)]
            if self.chosen(0.35) or (number == count - 1 and self.chosen(0.5)):
                parts.append(self.equality(alias, table, before))
            source = self.source(table, alias)
            plain = " " not in source.removeprefix(f"{table} as ").removeprefix(f"{table} ")
            if number == 1 and plain and table in "egh" and self.aliases[0][1] in "egh" and self.chosen(0.08):
                text += (
                    f" {self.some('join', 'left join', 'right join')} {source} using ({self.some('src', 'dst', 'dst, src')})"
                )
                kind = "right" if " right join " in text else "left" if " left join " in text else "inner"
            elif number == 1 and self.chosen(0.06):
                text += f" right join {source} on {' and '.join(parts)}"
                kind = "right"
            elif kind == "inner" and self.chosen(0.2) and not self.optional:
                text += f", {source}"
                self.where += [Text(part) for part in parts]
            else:
                if kind == "left" and self.chosen(0.3):
                    parts.append(self.simple([(alias, table), *(before if self.chosen(0.5) else [])]))
                if kind == "inner" and self.chosen(0.15):
                    parts.append(self.simple([(alias, table), *certain]))
                word = {"left": self.some("left join", "left outer join"), "inner": self.some("join", "inner join")}[kind]
                text += f" {word} {source} on {' and '.join(parts)}"
            self.aliases.append((alias, table))
            if kind == "left":
                self.optional.add(alias)
            if kind == "right":
                self.optional.add(self.aliases[0][0])
        return text

    # Conditions

    def column(self, aliases: list[tuple[str, str]], kind: str = "number") -> str:
        """A column of one of some aliases."""
        alias, table = self.chance.choice(aliases)
        columns = {"e": ("src", "dst", "i", "j"), "v": ("id", "age")}.get(table, ENDS)
        return f"{alias}.{self.chance.choice(columns)}"

    def simple(self, aliases: list[tuple[str, str]]) -> str:
        """A condition about columns that all tables have."""
        left = self.column(aliases)
        right = self.some(self.column(aliases), str(self.chance.randrange(4)))
        form = self.chance.randrange(6)
        if form == 0:
            return f"{left} is {self.some('', 'not ')}null"
        if form == 1:
            return f"{left} {self.some('', 'not ')}in ({right}, {self.chance.randrange(4)})"
        if form == 2:
            return (
                f"({left} {self.some('<', '>', '=')} {right} or {self.column(aliases)} {self.some('is null', '> 1', '<> 2')})"
            )
        return f"{left} {self.some('<', '<=', '>', '>=', '<>', '=')} {right}"

    def condition(self) -> Text:
        rich = tuple(alias for alias, table in self.aliases if table == "e")
        if rich and self.chosen(0.6):
            return SqlDraw(self.chance, rich, depth=self.some(1, 2)).condition()
        return Text(self.simple(self.aliases))

    def subquery(self) -> Text:
        """EXISTS, NOT EXISTS, IN or NOT IN."""
        outer = [one for one in self.aliases if one[0] not in self.optional or self.chosen(0.2)]
        alias, table = next(self.names), self.table()
        inner = [(alias, table)]
        text = f"from {self.source(table, alias)}"
        parts = []
        if self.chosen(0.25):
            more, of = next(self.names), self.table()
            text += f" join {self.source(of, more)} on {self.equality(more, of, inner)}"
            inner.append((more, of))
        is_in = self.chosen(0.25)
        if not is_in or self.chosen(0.3):
            parts.append(self.equality(alias, table, outer))
        if self.chosen(0.3):
            parts.append(self.equality(inner[-1][0], inner[-1][1], outer))
        if self.chosen(0.3):
            parts.append(self.simple(inner))
        if self.chosen(0.2):
            parts.append(self.simple([*inner, *outer]))
        where = f" where {' and '.join(parts)}" if parts else ""
        negated = "not " * self.chosen(0.45)
        if is_in:
            value, of = self.chance.choice(outer)
            return Text(f"{value}.{self.key(of)} {negated}in (select {alias}.{self.key(table)} {text}{where})")
        return Text(f"{negated}exists (select {self.some('1', '*', alias + '.' + self.key(table))} {text}{where})")

    # SELECT

    def value(self) -> Text:
        rich = tuple(alias for alias, table in self.aliases if table == "e")
        if rich and self.chosen(0.3):
            draw = SqlDraw(self.chance, rich, depth=2)
            return self.some(draw.integer, draw.text, draw.boolean, draw.double)(self.some(1, 2))
        if self.chosen(0.1):
            return Text(f"coalesce({self.column(self.aliases)}, -1)")
        return Text(self.column(self.aliases))

    def aggregate(self) -> Text:
        form = self.some("count(*)", "count(*)", "count", "count distinct", "sum", "min", "max", "avg")
        if form == "count(*)":
            return Text(form)
        name, distinct = (form.split()[0], "distinct " * ("distinct" in form))
        value = Text(self.column(self.aliases)) if form in ("sum", "avg") else self.value()
        if form in ("sum", "avg") and self.chosen(0.2):
            value = Text(f"{value.ours} * 2 + 1")
        found = Text(f"{name}({distinct}{value.ours})", f"{name}({distinct}{value.duckdb})")
        if self.chosen(0.1):
            return Text(
                f"({found.ours} + 1)" if form in ("count", "sum") else found.ours,
                f"({found.duckdb} + 1)" if form in ("count", "sum") else found.duckdb,
            )
        return found

    def select(self) -> tuple[str, str, bool]:
        """The text for us and for DuckDB, and whether its rows are in a total order."""
        from_ = self.from_(self.some(1, 2, 2, 3, 3, 4))
        self.where += [self.condition() for _ in range(self.some(0, 0, 1, 1, 2))]
        if self.chosen(0.4):
            self.where.append(self.subquery())
        self.chance.shuffle(self.where)
        form = self.some("plain", "plain", "star", "count", "groups", "groups", "global")
        tail, keys = "", []
        distinct = False
        if form == "count":
            items = [Text("count(*)")]
        elif form == "star":
            items = [Text(self.some("*", f"{self.aliases[0][0]}.*"))]
            if " using (" in from_:  # * begins with the columns of USING in Spark, and with those of the left table in DuckDB
                items = [Text(f"{self.aliases[0][0]}.*, {self.aliases[1][0]}.*")]
        elif form == "plain":
            items = [self.value() for _ in range(self.some(1, 2, 3))]
            distinct = self.chosen(0.25)
        elif form == "global":
            items = [self.aggregate() for _ in range(self.some(1, 2, 3))]
        else:
            keys = [self.value() for _ in range(self.some(1, 1, 2))]
            items = [*keys, *(self.aggregate() for _ in range(self.some(0, 1, 2)))]
            self.chance.shuffle(items)
        named = [Text(f"{item.ours} as c{n}", f"{item.duckdb} as c{n}") for n, item in enumerate(items)]
        if form == "star":
            named = items
        if keys:
            by = [str(items.index(key) + 1) if self.chosen(0.3) else key for key in keys]
            tail = Text(
                " group by " + ", ".join(k if isinstance(k, str) else k.ours for k in by),
                " group by " + ", ".join(k if isinstance(k, str) else k.duckdb for k in by),
            )
        else:
            tail = Text(" ", " ")
        if (keys or form == "global") and self.chosen(0.3):
            having = self.some(
                "count(*) > 1", f"count({self.column(self.aliases)}) >= 1", f"min({self.column(self.aliases)}) < 3"
            )
            tail = Text(f"{tail.ours} having {having}", f"{tail.duckdb} having {having}")
        ordered = False
        if form != "star" and self.chosen(0.4):
            order = []
            for number in self.chance.sample(range(len(items)), len(items)):
                name = self.some(f"c{number}", str(number + 1))
                order.append(f"{name} {self.some('asc', 'desc')} nulls {self.some('first', 'last')}")
            cut = f" limit {self.some(0, 1, 3, 10)}{self.some('', ' offset 1')}" * self.chosen(0.6)
            more = f" order by {', '.join(order)}{cut}"
            tail, ordered = Text(f"{tail.ours}{more}", f"{tail.duckdb}{more}"), True
        head = "select " + "distinct " * distinct
        found = []
        for side in ("ours", "duckdb"):
            listed = ", ".join(getattr(item, side) for item in named)
            where = " and ".join(
                f"{getattr(part, side)}" if len(self.where) == 1 else f"({getattr(part, side)})" for part in self.where
            )
            found.append(f"{head}{listed} {from_}{' where ' + where if where else ''}{getattr(tail, side)}".strip())
        return found[0], found[1], ordered


COLUMNS = {
    "e": ("src", "dst", "n", "i", "j", "x", "d", "s", "t", "day", "ok"),
    "g": ENDS,
    "h": ENDS,
}


def drawn(seed: int) -> tuple[str, str, bool]:
    """A SELECT for us, the same for DuckDB, and whether its rows are in a total order."""
    return DrawnSelect(seed).select()


def connected(known: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """A connection of DuckDB that has some tables."""
    connection = duckdb.connect()
    for name, table in known.items():
        connection.register(name, table)
    return connection


def plain_rows(rows) -> list[tuple]:
    """Rows in a form in which numbers of all types are compared by value, and times are times."""

    def value_of(value):
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, float) and value != value:
            return "NaN"
        if isinstance(value, int | float | Decimal):
            return f"{float(value) + 0.0:.10g}"
        if isinstance(value, datetime.datetime):
            return value.replace(tzinfo=None)
        return value

    return [tuple(map(value_of, row)) for row in rows]


def same(ours, theirs, *, ordered: bool) -> bool:
    """Whether two results are the same: as lists if they are in order, else as bags."""
    ours, theirs = plain_rows(ours), plain_rows(theirs)
    return ours == theirs if ordered else Counter(ours) == Counter(theirs)
