r"""What \relations, \queries and \set list, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bigjoin.cli.shell.settings import Settings
from bigjoin.cli.shell.warm import Opened

if TYPE_CHECKING:
    import pyarrow as pa

    from bigjoin.query.statistics import Statistics


def relations_listed(opened: Opened) -> pa.Table:
    """Return what can be asked: each relation with its columns and their types, and how many tuples it has."""
    from bigjoin.relations import Relations

    if isinstance(opened.asked, Relations):
        schemas = {name: opened.asked.schema(name) for name in opened.options.relations}
        rows = [
            (name, "relation", _columns((field.name, str(field.type)) for field in schema), path)
            for (name, schema), path in zip(schemas.items(), opened.options.relations.values(), strict=True)
        ]
        return _table(("relation", "what", "columns", "source"), rows)
    statistics = opened.asked.index.statistics
    return _table(("relation", "what", "columns", "tuples", "rows"), list(_of_graph(statistics)))


def _of_graph(statistics: Statistics) -> Iterable[tuple[str, str, str, int, int | None]]:
    from bigjoin.index.contents import relations_of
    from bigjoin.query.statistics import VERTEX

    for one in relations_of(statistics):
        columns = _columns(typed_columns(statistics, one.name).items())
        yield one.name, one.what, columns, one.size, one.rows
    yield VERTEX, "vertices", _columns(vertex_columns(statistics).items()), statistics.domains[VERTEX], None


def typed_columns(statistics: Statistics, relation: str) -> dict[str, str]:
    """Return the columns of a relation and their types, those of its rows included."""
    known = statistics.relations[relation]
    names = known.columns or (("id",) if known.arity == 1 else tuple(f"c{i + 1}" for i in range(known.arity)))
    columns = {name: statistics.ids.get(domain, "") for name, domain in zip(names, known.domains, strict=False)}
    return {**columns, **({} if known.rows is None else statistics.properties.get(known.rows.domains[-1], {}))}


def vertex_columns(statistics: Statistics) -> dict[str, str]:
    """Return the columns of vertices and their types."""
    from bigjoin.query.statistics import VERTEX

    return {"id": statistics.ids.get(VERTEX, ""), **statistics.properties.get(VERTEX, {})}


def queries_listed(defined: Mapping[str, str]) -> pa.Table:
    """Return the queries that have names: those defined here, and those that everybody has."""
    from bigjoin.languages import named

    known = [(name, str(named.parse(name)).split(" := ", 1)[-1]) for name in named.names()]
    return _table(("query", "means"), [*((name, " ".join(text.split())) for name, text in defined.items()), *known])


def settings_listed(settings: Settings) -> pa.Table:
    """Return what can be set, and what is."""
    return _table(("setting", "value", "what it does"), list(settings.rows()))


def _columns(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}".rstrip() for name, kind in columns)


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
