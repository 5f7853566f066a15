"""The elements of a motif as columns of its rows: structs of ids and properties, or a column for each field."""

from __future__ import annotations

from bigjoin.errors import QueryError
from bigjoin.query.spelled_out import edge_relations
from bigjoin.query.statement import Element, Statement
from bigjoin.query.statistics import VERTEX, Statistics
from bigjoin.query.terms import Property, Term


def flat_columns(statement: Statement, statistics: Statistics) -> list[str]:
    """Return the columns of a statement's rows as a file without structs has them."""
    if statement.count_column is not None:
        return [statement.count_column]
    elements = {element.name: element for block in statement.blocks for element in block.elements}
    found = []
    for name in statement.columns or statement.query.columns:
        fields = [field for field, _ in struct_fields(elements[name], statistics)] if name in elements else []
        found += [f"{name}.{field}" for field in fields] or [name]
    return found


def struct_fields(element: Element, statistics: Statistics) -> list[tuple[str, Term]]:
    """Return the fields of a struct: ids first, then properties, each with what it is in a query."""
    if element.ends is None:
        known = statistics.properties.get(VERTEX, {})
        return [("id", element.attribute), *((name, Property(element.attribute, name)) for name in known if name != "id")]
    ends: list[tuple[str, Term]] = list(zip(("src", "dst"), element.ends, strict=True))
    (relation,) = edge_relations(statistics)
    rows = statistics.relations[relation].rows
    known = {} if rows is None else statistics.properties.get(rows.domains[-1], {})
    return [*ends, *((name, Property(element.attribute, name)) for name in known if name not in ("src", "dst"))]


def check_relations(statement: Statement, statistics: Statistics) -> None:
    """Refuse motifs over several relations: an edge of a motif has no type."""
    if statement.has_structs and len(known := edge_relations(statistics)) > 1:
        hint = f"use Cypher, MATCH (a)-[e:{known[0]}]->(b) RETURN a, b, or a rule"
        raise QueryError(f"motifs have no types, and the graph has the relations {', '.join(known)}", hint=hint)
