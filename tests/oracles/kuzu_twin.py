"""The Kuzu database as a second opinion on Cypher: a graph in memory, as render_kuzu wants it. It imports nothing of ours.

All nodes are in one table, whose columns say which labels they have; each type of relationship is a table. The package `kuzu`
is optional: only `connection` imports it.
"""

from __future__ import annotations

from datetime import datetime

LABELS = ["A", "B", "C"]
OTHERS = {"s": "", "t": datetime(2024, 1, 1)}
"""Properties, and a value of each."""


def connection(graph):
    """A connection to a new database that holds a graph of draw_cypher_graph."""
    import kuzu

    nodes, relationships = graph
    database = kuzu.Connection(kuzu.Database(":memory:", buffer_pool_size=64 << 20, max_num_threads=1), num_threads=1)
    labels = sorted({*LABELS, *(label for has, _ in nodes.values() for label in has)})
    columns = _columns([properties for _, properties in nodes.values()], {"x": 0, "y": 0, **OTHERS, "f": 0.0, "b": True})
    flags = ", ".join(f"is_{label} BOOLEAN" for label in labels)
    key = _type(next(iter(nodes)))
    database.execute(f"CREATE NODE TABLE N (id {key} PRIMARY KEY, {_declared(columns)}, {flags})")
    for name, (has, properties) in nodes.items():
        values = {"id": name} | properties | {f"is_{label}": label in has for label in labels}
        database.execute(f"CREATE (:N {{{_parameters(values)}}})", values)
    columns = _columns([properties for *_, properties in relationships], {"w": 0, **OTHERS})
    for kind in sorted({kind for _, _, _, kind, _ in relationships}):
        database.execute(f"CREATE REL TABLE {kind} (FROM N TO N, rid INT64, {_declared(columns)})")
    for name, source, target, kind, properties in relationships:
        values = {"rid": name} | properties
        text = f"MATCH (a:N), (b:N) WHERE a.id = $source AND b.id = $target CREATE (a)-[:{kind} {{{_parameters(values)}}}]->(b)"
        database.execute(text, values | {"source": source, "target": target})
    return database


def run(database, text: str, parameters: dict) -> list[tuple] | None:
    """The rows of a query; None if it aggregates what is aggregated, after a WITH, which Kuzu refuses."""
    try:
        result = database.execute(text, {name: value for name, value in parameters.items() if f"${name}" in text})
    except RuntimeError as error:
        if "nested aggregation" in str(error):
            return None
        raise
    rows = []
    while result.has_next():
        rows.append(tuple(result.get_next()))
    return rows


def _columns(all_properties, known: dict) -> dict:
    return known | {key: value for properties in all_properties for key, value in properties.items() if value is not None}


def _type(value) -> str:
    kinds = {str: "STRING", bool: "BOOLEAN", float: "DOUBLE", datetime: "TIMESTAMP"}
    return kinds.get(type(value), "INT64")


def _declared(columns: dict) -> str:
    return ", ".join(f"{key} {_type(value)}" for key, value in columns.items())


def _parameters(values: dict) -> str:
    return ", ".join(f"{key}: ${key}" for key in values)
