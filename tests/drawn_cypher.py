"""Cypher drawn at random, compared with the oracle: without Spark, or (as a program) in a session of a process of its own."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa

from bigjoin.errors import QueryError
from bigjoin.indexing import build_index
from bigjoin.languages import read
from bigjoin.planner import meaning
from tests.drawn_motifs import Report
from tests.oracles.cypher import NamedPath, Query, answer
from tests.oracles.cypher_values import comparable
from tests.oracles.random_cypher import LABELS, draw_cypher, draw_cypher_graph
from tests.oracles.random_cypher_paths import draw_cypher_paths
from tests.statements import answered, counted

KINDS = ("rows", "types", "pairs", "undirected", "undirected pairs")
"""Indices: a relation for each type, or one that a column divides; without ids of relationships; without directions."""
NODE = {"x": pa.int64(), "y": pa.int64(), "s": pa.string(), "f": pa.float64(), "b": pa.bool_(), "t": pa.timestamp("us")}
RELATIONSHIP = {"w": pa.int64(), "s": pa.string(), "t": pa.timestamp("us")}

REFUSED = ("has nothing to do with one row", "two columns are called", "two constants are compared", "a sum of")
"""What is refused on purpose."""

Find = Callable[[str, dict], tuple[list[str], list[tuple]]]


@dataclass
class Drawn:
    """A graph as the oracle has it, and as tables of the kind of index that is made of it."""

    kind: str
    nodes: dict
    relationships: list[tuple]

    @classmethod
    def of(cls, random: Random, kind: str) -> Drawn:
        """Draw a graph; its relationships are numbered as rows are."""
        nodes, relationships = draw_cypher_graph(random)
        if kind.startswith("undirected"):  # such an index has no loops
            ends = list(nodes)
            relationships = [
                (name, source, target if source != target else next(e for e in ends if e != source), *rest)
                for name, source, target, *rest in relationships
            ]
        rows: dict[str, int] = defaultdict(int)
        numbered = []
        for _, source, target, of, properties in relationships:
            group = "" if kind == "types" else of
            numbered.append((rows[group], source, target, of, properties))
            rows[group] += 1
        return cls(kind, nodes, numbered)

    @property
    def graph(self) -> tuple[dict, list[tuple]]:
        return self.nodes, self.relationships

    @property
    def options(self) -> dict[str, bool]:
        """What the oracle has to know about the index."""
        return {"pairs": self.kind.endswith("pairs"), "undirected": self.kind.startswith("undirected")}

    def tables(self) -> dict[str, pa.Table] | pa.Table:
        """The edges."""
        of_type = defaultdict(list)
        for row in self.relationships:
            of_type["" if self.kind == "types" else row[3]].append(row)
        tables = {name: self._table(rows) for name, rows in of_type.items()}
        return tables[""] if self.kind == "types" else tables

    def _table(self, rows: list[tuple]) -> pa.Table:
        ends = {"src": self._ids([row[1] for row in rows]), "dst": self._ids([row[2] for row in rows])}
        if self.options["pairs"]:
            return pa.table(ends)
        more = {name: pa.array([row[4].get(name) for row in rows], kind) for name, kind in RELATIONSHIP.items()}
        kinds = {"type": [row[3] for row in rows]} if self.kind == "types" else {}
        return pa.table({**ends, **more, **kinds})

    def _ids(self, ids: list) -> pa.Array:
        return pa.array(ids, pa.string() if isinstance(next(iter(self.nodes)), str) else pa.int64())

    def vertices(self) -> pa.Table:
        """The vertices; which labels they have is said by columns, from which `labels` are made."""
        properties = {n: pa.array([p.get(n) for _, p in self.nodes.values()], kind) for n, kind in NODE.items()}
        labels = {f"is_{label}": [label in has for has, _ in self.nodes.values()] for label in LABELS}
        return pa.table({"id": self._ids(list(self.nodes)), **properties, **labels})

    def index(self, path: Path):
        """An index, without Spark."""
        options = {"types": "type"} if self.kind == "types" else {}
        labels = {label: f"{label}(a) := vertex(a), a.is_{label} = true" for label in LABELS}
        directed = not self.options["undirected"]
        tables = self.tables()
        return build_index(tables, path, vertices=self.vertices(), directed=directed, materialized=labels, **options)


def check(text: str, query: Query, drawn: Drawn, find: Find, report: Report) -> None:
    """Compare one text on one graph."""
    if drawn.kind == "types" and _relationships(query) & set(_named((query.clauses, query.returns))):
        report.skipped["ids of relationships, which differ between a type and all of them"] += 1
        return
    wanted = [comparable(row) for row in answer(query, drawn.graph, **drawn.options)]
    unordered = {place for place, operand in enumerate(query.returns) if operand[:2] == ("aggregate", "collect")}
    shown = f"{text!r} {query.parameters or ''} on {drawn}"
    try:
        found = find(text, query.parameters)[1]
        rows = [comparable(tuple(v if i in unordered else _in_order(v) for i, v in enumerate(row))) for row in found]
    except QueryError as error:
        first = str(error).splitlines()[0]
        if "not supported yet" in first:
            report.skipped[first] += 1
        elif drawn.options["pairs"] and ("keeps no edge ids" in first or "no property" in first or "no properties" in first):
            report.skipped["relationships without ids"] += 1
        elif drawn.kind == "types" and "may share relationships" in first:
            report.skipped["a relationship with a type beside one without"] += 1
        elif any(known in first for known in REFUSED):
            report.refused += 1
        else:
            report.differences.append(f"{shown}: {error}")
        return
    except Exception as error:
        report.differences.append(f"{shown}: {error!r}")
        return
    report.compared += 1
    if Counter(rows) != Counter(wanted):
        more, less = Counter(rows) - Counter(wanted), Counter(wanted) - Counter(rows)
        few = f"more: {more.most_common(3)}, less: {less.most_common(3)}"
        report.differences.append(f"{shown}: {len(rows)} rows, not {len(wanted)}; {few}")
        return
    places = [operand[1] for operand, _ in query.order if operand[0] == "column"]
    if len(places) == len(query.order) and [[row[p] for p in places] for row in rows] != [
        [row[p] for p in places] for row in wanted
    ]:
        report.differences.append(f"{shown}: not in order")


def _relationships(query: Query) -> set[str]:
    patterns = [pattern for kind, *clause in query.clauses if kind != "with" for pattern in clause[0]]
    paths = {pattern.name for pattern in patterns if isinstance(pattern, NamedPath)}
    return {relationship[0] for pattern in patterns for relationship in pattern[1::2]} - {None} | paths


def _in_order(value):
    """The list of a path, which has an order, as the oracle has it."""
    return tuple(value) if isinstance(value, list) else value


def _named(part) -> Iterator[str]:
    """The variables that operands name, and relationships whose type is asked for."""
    if isinstance(part, tuple):
        if len(part) == 2 and part[0] in ("variable", "type", "relationships"):
            yield part[1]
        for each in part:
            yield from _named(each)


def without_spark(drawn: Drawn, path: Path, way: str) -> Find:
    """Answers from an index, along one path of execution; counts are compared with them."""
    index = drawn.index(path)

    def find(text: str, parameters: dict) -> tuple[list[str], list[tuple]]:
        statement = read(text, parameters=parameters)
        for block in statement.everything:
            meaning(block.query, index.statistics)
        columns, rows = answered(statement, index, way)
        if (number := counted(statement, index, way)) is not None:
            assert number == _number(statement, rows), (text, number, rows)
        return columns, rows

    return find


def _number(statement, rows: list[tuple]) -> int:
    """What count says of the rows of a text: the number itself, if that is what the text returns."""
    return sum(row[0] for row in rows) if statement.count_column else len(rows)


def drawn_texts(seed: int, texts: int, *, paths: bool = False) -> tuple[Drawn, list[tuple[str, Query]]]:
    """A graph of one kind, and queries; with `paths`, most of them have relationships of several hops."""
    random = Random(seed)
    drawn = Drawn.of(random, KINDS[seed % len(KINDS)])
    return drawn, [(draw_cypher_paths if paths else draw_cypher)(random, drawn.graph) for _ in range(texts)]


# In Spark


def in_spark(spark, seeds, texts: int, report: Report, folder: Path) -> None:
    """Ask drawn texts of a Graph: find, count and exists."""
    import bigjoin as bj

    for seed in seeds:
        drawn, asked = drawn_texts(seed, texts)
        drawn.index(folder / str(seed))
        graph = bj.Graph.open(folder / str(seed), spark=spark)
        for text, query in asked:

            def find(text: str, parameters: dict, graph=graph) -> tuple[list[str], list[tuple]]:
                frame = graph.find(text, parameters=parameters)
                rows = [tuple(row) for row in frame.collect()]
                statement = read(text, parameters=parameters)
                number = _number(statement, rows)
                counted = graph.count(text, parameters=parameters)
                assert counted == number, (text, counted, rows)
                assert graph.exists(text, parameters=parameters) == (number > 0), text
                return frame.columns, rows

            check(text, query, drawn, find, report)
        graph.close()


def main(first: int, last: int, texts: int) -> int:
    import tempfile

    from bigjoin.spark.session import get_session

    spark = get_session("local[1]")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        in_spark(spark, range(first, last), texts, report, Path(folder))
    sys.stdout.write(f"{report}\n")
    return len(report.differences)


if __name__ == "__main__":
    sys.exit(min(1, main(*map(int, sys.argv[1:]))))
