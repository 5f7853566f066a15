"""DuckDB as the second oracle: a query, as plain data like naive.py's, becomes SQL. It imports nothing of ours."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa


def matches(
    relations,
    head,
    atoms,
    filters=(),
    *,
    distinct=False,
    induced=False,
    symmetric=False,
    domains=None,
    properties=None,
    optional=(),
    types=None,
):
    """The list of matches (not for `unique`) as tuples in the order of the head.

    `types` gives the Arrow types of the columns of a relation, where its tuples do not tell.
    """
    connection = _connection()
    for name, arity in {(relation, len(names)) for relation, names, *_ in (*atoms, *optional)}:
        tuples = sorted((t for t in set(map(tuple, relations[name])) if len(t) == arity), key=repr)
        kinds = (types or {}).get(name) or [None if tuples else pa.int64()] * arity
        columns = [pa.array([t[i] for t in tuples], kind) for i, kind in enumerate(kinds[:arity])]
        connection.register(_table(name, arity), pa.table(columns, names=[f"c{i}" for i in range(arity)]))
    for domain, known in (properties or {}).items():
        for number, column in enumerate(known.values()):
            values = pa.table([list(column), list(column.values())], names=["k", "v"])
            connection.register(f"p_{_word(domain)}_{number}", values)
    text = sql(
        head,
        atoms,
        filters,
        distinct,
        induced,
        symmetric,
        domains=domains,
        optional=optional,
        places={d: {p: f"p_{_word(d)}_{i}" for i, p in enumerate(known)} for d, known in (properties or {}).items()},
    )
    rows = connection.execute(text).fetchall()
    return rows if optional else sorted(rows)


@cache
def _connection():
    """One connection for all queries: to make one takes longer than a small query."""
    return duckdb.connect()


def sql(head, atoms, filters=(), distinct=False, induced=False, symmetric=False, *, domains=None, optional=(), places=None):
    """The query as SQL over tables NAME_ARITY with columns c0, c1, ..., and tables of properties with columns k and v."""
    positive = [(r, names) for r, names, negated in atoms if not negated]
    at, where = {}, []
    for i, (_, names) in enumerate(positive):
        for column, name in enumerate(names):
            place = f"t{i}.c{column}"
            where += [f"{place} = {at[name]}"] if name in at else []
            at.setdefault(name, place)

    def agrees(alias, names, own):
        """That a tuple agrees with what is bound; its own names are noted."""
        for column, name in enumerate(names):
            place = f"{alias}.c{column}"
            if isinstance(name, tuple):
                yield f"{place} = {_literal(name[1])}"
            elif name in at or name in own:
                yield f"{place} = {at.get(name) or own[name]}"
            elif name is not None:
                own[name] = place

    def absent(relation, names):
        conditions = " AND ".join(agrees("n", names, {})) or "true"
        return f"NOT EXISTS (SELECT 1 FROM {_table(relation, len(names))} n WHERE {conditions})"

    def side(operand):
        if isinstance(operand, str):
            return at[operand]
        if operand[0] == "tuple":
            return f"({', '.join(map(side, operand[1:]))})"
        if operand[0] == "const":
            return _literal(operand[1])
        _, name, wanted = operand
        return f"(SELECT v FROM {places[domains[name]][wanted]} WHERE k = {at[name]})"

    where += [absent(r, names) for r, names, negated in atoms if negated]
    where += [f"{side(left)} {op.replace('!=', '<>')} {side(right)}" for left, op, right in filters]
    listed = [name for name in head if name in at]
    if distinct or induced:
        pairs = [(a, b) for i, a in enumerate(listed) for b in listed[i + 1 :]]
        where += [f"{at[a]} <> {at[b]}" for a, b in pairs if domains is None or domains[a] == domains[b]]
    if induced:
        asked = {(r, tuple(names[:2])) for r, names in positive}
        asked |= {(r, names[::-1]) for r, names in asked} if symmetric else set()
        for relation, ends in {(r, domains and domains[names[0]]) for r, names in positive if len(names) > 1}:
            values = [name for name in listed if domains is None or domains[name] == ends]
            where += [absent(relation, (a, b)) for a in values for b in values if (relation, (a, b)) not in asked]
    tables = ", ".join(f"{_table(r, len(names))} t{i}" for i, (r, names) in enumerate(positive))
    bound = f"FROM {tables}" + (f" WHERE {' AND '.join(where)}" if where else "")
    if not optional:
        return f"SELECT {', '.join(at[name] for name in head)} {bound}"
    shown = ", ".join(f'{place} AS "{name}"' for name, place in at.items())
    at, joins = {name: f'm."{name}"' for name in at}, []
    more = {}
    for i, (relation, names) in enumerate(optional):
        own = {}
        conditions = " AND ".join(agrees(f"o{i}", names, own)) or "true"
        if own:
            joins.append(f"LEFT JOIN {_table(relation, len(names))} o{i} ON {conditions}")
            more |= own
    columns = ", ".join((at | more)[name] for name in head)
    return f"SELECT {columns} FROM (SELECT {shown} {bound}) m {' '.join(joins)}"


def _table(relation, arity):
    return f"{_word(relation)}_{arity}"


def _word(name):
    return "".join(c if c.isalnum() else "_" for c in str(name))


def _literal(value):
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
