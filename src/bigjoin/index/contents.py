"""What an index holds, in a line and as a table: sizes, relations with their columns, and properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bigjoin.html_tables import table
from bigjoin.markup import Markup
from bigjoin.query.statistics import VERTEX, RelationStatistics, Statistics

MAX_NAMES = 8
"""Names of relations, or of the columns of one, that a line has room for."""


@dataclass(frozen=True)
class RelationContents:
    """What is told of a relation."""

    name: str
    columns: tuple[str, ...]
    """Those of its tuples, and the properties of its rows."""
    size: int
    """Its tuples; an edge of an undirected graph is one."""
    rows: int | None
    """Its rows, if parallel edges are kept apart."""
    what: str

    def __str__(self) -> str:
        return f"{self.name}({names(self.columns)})"


def is_directed(statistics: Statistics) -> bool:
    """Tell whether edges have a direction."""
    return not any(relation.symmetric for relation in statistics.relations.values())


def edge_count(statistics: Statistics) -> int:
    """Return the number of edges in all relations. Parallel edges count once, and so do both directions of undirected edges."""
    relations = statistics.relations.values()
    tuples = sum(relation.tuples for relation in relations if relation.arity == 2 and not relation.materialized)
    return tuples if is_directed(statistics) else tuples // 2


def relations_of(statistics: Statistics) -> Iterator[RelationContents]:
    """Give what is told of each relation: edges first, then labels, then stored results."""
    told = {"edges": 0, "label": 1, "relation": 2, "stored result": 3}
    found = [_contents(name, relation, statistics) for name, relation in statistics.relations.items()]
    yield from sorted(found, key=lambda one: told[one.what])


def _contents(name: str, relation: RelationStatistics, statistics: Statistics) -> RelationContents:
    what, of_rows = _kind(relation), relation.rows
    halved = what == "edges" and relation.symmetric
    properties = {} if of_rows is None else statistics.properties.get(of_rows.domains[-1], {})
    known = relation.columns or (("id",) if relation.arity == 1 else tuple(f"c{i + 1}" for i in range(relation.arity)))
    rows = None if of_rows is None else of_rows.tuples // 2 if halved else of_rows.tuples
    return RelationContents(name, (*known, *properties), relation.tuples // 2 if halved else relation.tuples, rows, what)


def _kind(relation: RelationStatistics) -> str:
    if relation.materialized:
        return "stored result"
    if relation.arity == 1:
        return "label"
    return "edges" if relation.arity == 2 and VERTEX in relation.domains else "relation"


def sizes_line(statistics: Statistics) -> str:
    """Return how large a graph is."""
    vertices = number_of(statistics.domains[VERTEX], "vertex", "vertices")
    kind = "directed" if is_directed(statistics) else "undirected"
    return f"{vertices}, {number_of(edge_count(statistics), 'edge', 'edges')}, {kind}"


def contents_line(statistics: Statistics, epoch: int) -> str:
    """Return what an index holds, in one line."""
    parts = [sizes_line(statistics)] if VERTEX in statistics.domains else []
    parts += [found] if (found := names(list(map(str, relations_of(statistics))))) else []
    parts += [f"vertices({names(['id', *known])})"] if (known := statistics.properties.get(VERTEX)) else []
    return "; ".join([*parts, *([f"epoch {epoch:,}"] if epoch else [])])


def contents_table(statistics: Statistics) -> Markup:
    """Return what an index holds as a table: a row for each relation, and one for the vertices."""
    rows = [(one.name, one.what, one.size, one.rows, names(one.columns)) for one in relations_of(statistics)]
    if VERTEX in statistics.domains:
        columns = names(["id", *statistics.properties.get(VERTEX, {})])
        rows.append(("", "vertices", statistics.domains[VERTEX], None, columns))
    has_rows = any(row[3] is not None for row in rows)
    header = ("relation", "what", "tuples", *(("rows",) if has_rows else ()), "columns")
    return table([row if has_rows else (*row[:3], row[4]) for row in rows], header)


def number_of(count: int, one: str, many: str) -> str:
    """Return a number and what it counts."""
    return f"{count:,} {one if count == 1 else many}"


def names(given: Sequence[str]) -> str:
    """Return a list of names, as far as a line has room for them."""
    more = len(given) - MAX_NAMES
    return ", ".join(given) if more <= 0 else f"{', '.join(given[:MAX_NAMES])} and {more} more"
