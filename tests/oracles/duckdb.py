"""DuckDB as the second oracle: a query, as plain data like naive.py's, becomes SQL. It imports nothing of ours."""

from __future__ import annotations

import duckdb
import pyarrow as pa


def matches(relations, head, atoms, filters=(), *, distinct=False, induced=False, symmetric=False):
    """The list of matches (not for `unique`) as tuples in the order of the head."""
    connection = duckdb.connect()
    for name, tuples in relations.items():
        tuples = sorted(set(map(tuple, tuples)))
        arity = len(tuples[0]) if tuples else max(len(names) for r, names, _ in atoms if r == name)
        columns = {f"c{i}": [t[i] for t in tuples] for i in range(arity)}
        connection.register(
            f"{name}_", pa.table(columns) if tuples else pa.table({c: pa.array([], pa.int64()) for c in columns})
        )
    return sorted(connection.execute(sql(head, atoms, filters, distinct, induced, symmetric)).fetchall())


def sql(head, atoms, filters=(), distinct=False, induced=False, symmetric=False):
    """The query as SQL over tables NAME_ with columns c0, c1, ..."""
    positive = [(r, names) for r, names, negated in atoms if not negated]
    at, where = {}, []
    for i, (_, names) in enumerate(positive):
        for column, name in enumerate(names):
            place = f"t{i}.c{column}"
            where += [f"{place} = {at[name]}"] if name in at else []
            at.setdefault(name, place)

    def absent(relation, names):
        conditions = " AND ".join(f"n.c{c} = {at[name]}" for c, name in enumerate(names))
        return f"NOT EXISTS (SELECT 1 FROM {relation}_ n WHERE {conditions})"

    where += [absent(r, names) for r, names, negated in atoms if negated]
    where += [f"{_side(left, at)} {op.replace('!=', '<>')} {_side(right, at)}" for left, op, right in filters]
    if distinct or induced:
        where += [f"{at[a]} <> {at[b]}" for i, a in enumerate(head) for b in head[i + 1 :]]
    if induced:
        asked = {(r, tuple(names)) for r, names in positive}
        asked |= {(r, names[::-1]) for r, names in asked} if symmetric else set()
        pairs = [(r, (a, b)) for r in {r for r, _ in positive} for a in head for b in head]
        where += [absent(r, names) for r, names in pairs if (r, names) not in asked]
    tables = ", ".join(f"{r}_ t{i}" for i, (r, _) in enumerate(positive))
    return f"SELECT {', '.join(at[name] for name in head)} FROM {tables}" + (f" WHERE {' AND '.join(where)}" if where else "")


def _side(side, at):
    if isinstance(side, str):
        return at[side]
    return "'" + side[1].replace("'", "''") + "'" if isinstance(side[1], str) else str(side[1])
