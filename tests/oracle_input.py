"""What oracles are told: a question's query and source as plain data, which is all that naive.py and duckdb.py know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from bigjoin.languages import parse
from bigjoin.query.query import Query
from bigjoin.query.terms import Constant, Operand, Property, attribute_of
from tests.case_file import Cells, Epoch, Question, Row, Source, Table, shown
from tests.oracles import changing, duckdb, naive

VERTEX = "vertex"
INSERTIONS = ("+", "insert", "1")
NAN = float("nan")
"""The one NaN that ids are: Python finds it in sets, as it is the same object."""


@cache
def parsed(question: Question, spelling: str) -> Query:
    return parse(spelling, **question.options)


def ruled(question: Question, spelling: str) -> Query:
    """The query as a rule: patterns leave open what only a source decides, and their first spelling is a rule."""
    query = parsed(question, spelling)
    is_pattern = any(atom.pattern is not None for atom in query.atoms)
    return parsed(question, next(iter(question.spellings.values()))) if is_pattern else query


@dataclass(eq=False)
class Contents:
    """The content of a source: tuples by relation, and properties by domain, column and value."""

    relations: dict[str, set[Row]] = field(default_factory=dict)
    """Where rows have ids, tuples of both lengths."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    types: dict[str, list[pa.DataType]] = field(default_factory=dict)
    properties: dict[str, dict[str, dict[Any, Any]]] = field(default_factory=dict)
    meaning: dict[str, Query] = field(default_factory=dict)
    """The queries of stored relations that are atoms alone: they are meant wherever a rule names the relation."""
    with_ids: set[str] = field(default_factory=set)
    """The relations whose rows have ids."""
    ids: set[Any] = field(default_factory=set)
    """The vertices of a graph."""
    symmetric: bool = False
    is_graph: bool = True


def contents(source: Source) -> Contents:
    """Return the content of a source as it is in its file."""
    if not source.is_graph:
        found = Contents(is_graph=False)
        for name, table in source.tables.items():
            rows = [tuple(NAN if v != v else v for v in row) for row in table.rows]
            _enter(found, name, table, [row for row in rows if None not in row or "drop_nulls" not in source.options])
        return found
    return graph_contents(source, {name: edges_of(source, name) for name in source.tables})


def _enter(found: Contents, name: str, table: Table, rows: Sequence[Row]) -> None:
    found.relations[name] = set(rows)
    found.columns[name], found.types[name] = tuple(table.schema.names), list(table.schema.types)


def edges_of(source: Source, relation: str) -> changing.Relation:
    """Return the edges of a relation, ready to be changed."""
    table = source.tables[relation]
    columns = tuple(table.schema.names[2:])
    edges = [
        changing.Edge(row[0], row[1], dict(zip(columns, row[2:], strict=True)), number) for number, row in enumerate(table.rows)
    ]
    return changing.Relation(edges, bool(source.directed), source.has_ids(relation), len(edges), columns)


def graph_contents(source: Source, edges: Mapping[str, changing.Relation]) -> Contents:
    """Return the content of a graph with these edges."""
    found = Contents(symmetric=not source.directed)
    ids = found.ids = {end for relation in edges.values() for edge in relation.edges for end in (edge.src, edge.dst)}
    if source.vertices is not None:
        found.ids = ids = ids | {row[0] for row in source.vertices.rows}
    for name, relation in edges.items():
        table = source.tables[name]
        if column := source.options.get("types"):
            for kind in sorted({edge.values[column] for edge in relation.edges} - {None}):
                own = [edge for edge in relation.edges if edge.values[column] == kind]
                _enter_edges(found, kind, [changing.Edge(e.src, e.dst, e.values, i) for i, e in enumerate(own)], table, source)
        _enter_edges(found, name, relation.edges, table, source)
    if source.vertices is not None:
        table, rows = source.vertices, source.vertices.rows
        names = table.schema.names
        found.properties[VERTEX] = {
            name: dict.fromkeys(ids) | {row[0]: row[i] for row in rows} for i, name in enumerate(names) if i
        }
        label = source.options.get("labels", "label")
        if label in names:
            for kind in {row[names.index(label)] for row in rows} - {None}:
                found.relations[kind] = {(row[0],) for row in rows if row[names.index(label)] == kind}
                found.columns[kind], found.types[kind] = ("id",), [table.schema.types[0]]
    for name, text in source.stored.items():
        query = parse(text)
        found.relations[name] = set(answer(query, found))
        if not (query.filters or query.injective or query.projects):
            found.meaning[name] = query
        found.columns[name] = query.columns
        found.types[name] = [next(iter(found.types.values()))[0]] * len(query.columns)
    return found


def _enter_edges(found: Contents, name: str, edges: list[changing.Edge], table: Table, source: Source) -> None:
    tuples = set()
    for edge in edges:
        for ends in {(edge.src, edge.dst)} if source.directed else {(edge.src, edge.dst), (edge.dst, edge.src)}:
            tuples |= {ends, (*ends, edge.number)} if source.has_ids(table.name) else {ends}
    found.relations[name] = tuples
    found.with_ids |= {name} if source.has_ids(table.name) else set()
    found.columns[name] = tuple(table.schema.names[:2])
    found.types[name] = [*table.schema.types[:2], pa.int64()]
    found.properties[f"{name} edge"] = {
        column: {edge.number: edge.values[column] for edge in edges} for column in table.schema.names[2:]
    }


@dataclass
class Asked:
    """A query as plain data, with what it is asked of."""

    relations: dict[str, set[Row]]
    names: tuple[str, ...]
    """Every attribute: those of optional atoms come last."""
    atoms: list[tuple[str, tuple, bool]]
    filters: list[tuple]
    known: dict[str, Any]
    """What else oracles take: domains, properties, optional atoms, whether the graph is undirected."""
    types: dict[str, list[pa.DataType]]


def asked_of(query: Query, known: Contents) -> Asked:
    """Return a query as plain data."""
    bound = set(query.attributes)
    constants = {
        f.left: ("const", f.right.value)
        for f in query.filters
        if isinstance(f.left, str) and f.left not in bound and isinstance(f.right, Constant)
    }
    relations, types = dict(known.relations), dict(known.types)
    atoms, optional = [], []
    for atom in query.atoms:
        name = atom.relation
        if (meaning := known.meaning.get(name)) is not None and not (atom.negated or atom.optional):
            to = dict(zip(meaning.head, atom.attributes, strict=True))
            atoms += [(part.relation, tuple(to[a] for a in part.attributes), False) for part in meaning.atoms]
            continue
        if name == VERTEX and name not in relations:
            relations[name], types[name] = {(id_,) for id_ in known.ids}, [next(iter(types.values()))[0]]
        if atom.columns:
            at = [known.columns[name].index(column) for column in atom.columns]
            name = f"{name}({','.join(atom.columns)})"
            relations[name] = {tuple(row[i] for i in at) for row in known.relations[atom.relation] if len(row) > max(at)}
            types[name] = [known.types[atom.relation][i] for i in at]
        names = tuple(constants.get(attribute, attribute) for attribute in atom.attributes)
        if atom.optional:
            optional.append((name, names))
            continue
        atoms.append((name, names, atom.negated))
        if atom.relation in known.with_ids and len(names) == 3 and not atom.negated:
            atoms.append((name, names[:2], False))  # an edge with an id is one of the pair
    domains = _domains(query, known)

    def side(operand: Operand) -> Any:
        if isinstance(operand, Constant):
            return ("const", operand.value)
        if isinstance(operand, Property) and not _is_id(operand, domains, known):
            return ("property", operand.attribute, operand.name)
        return attribute_of(operand)

    filters = [(side(f.left), f.op, side(f.right)) for f in query.filters if f.left not in constants and not f.also]
    for f in (f for f in query.filters if f.also):
        left, right = zip(*f.pairs, strict=True)
        filters.append((("tuple", *left), f.op, ("tuple", *right)))
    own = [name for _, names in optional for name in names if isinstance(name, str) and name not in bound]
    more = {"domains": domains, "properties": known.properties, "optional": optional, "symmetric": known.symmetric}
    return Asked(relations, (*query.attributes, *dict.fromkeys(own)), atoms, filters, more, types)


def _is_id(term: Property, domains: Mapping[str, Any], known: Contents) -> bool:
    return term.name == "id" and "id" not in known.properties.get(domains[term.attribute], {})


def _domains(query: Query, known: Contents) -> dict[str, Any]:
    """Return what each attribute ranges over: in a graph vertices or the edges of a relation, else the columns it joins."""
    if known.is_graph:
        return {
            attribute: f"{atom.relation} edge" if i == 2 and atom.relation in known.with_ids else VERTEX
            for atom in query.atoms
            for i, attribute in enumerate(atom.attributes)
        }
    groups: dict[Any, set] = {}

    def join(one: Any, other: Any) -> None:
        both = groups.setdefault(one, {one}) | groups.setdefault(other, {other})
        for member in both:
            groups[member] = both

    for atom in query.atoms:
        for column, attribute in zip(atom.columns or known.columns[atom.relation], atom.attributes, strict=True):
            join(("attribute", attribute), (atom.relation, column))
    for comparison in query.filters:
        if len(comparison.attributes) == 2:
            join(*(("attribute", attribute) for attribute in comparison.attributes))
    return {
        attribute: str(min(groups["attribute", attribute], key=str)) for atom in query.atoms for attribute in atom.attributes
    }


def answer(query: Query, known: Contents) -> list[Row]:
    """Return the rows of a query by brute force."""
    asked = asked_of(query, known)
    flags = {flag: getattr(query, flag) for flag in ("distinct", "unique", "induced")}
    found = naive.matches(asked.relations, asked.names, asked.atoms, asked.filters, **flags, **asked.known)
    return _headed(query, asked, known, found)


def answer_in_sql(query: Query, known: Contents) -> list[Row]:
    """Return the rows of a query that is not `unique` by DuckDB."""
    asked = asked_of(query, known)
    flags = {"distinct": query.injective, "induced": query.induced, "types": asked.types}
    found = duckdb.matches(asked.relations, asked.names, asked.atoms, asked.filters, **flags, **asked.known)
    return _headed(query, asked, known, found)


def _headed(query: Query, asked: Asked, known: Contents, found: list[Row]) -> list[Row]:
    """Return matches with the columns of the head."""
    domains = asked.known["domains"]
    rows = []
    for match in found:
        at = dict(zip(asked.names, match, strict=True))
        row = []
        for term in query.head:
            value = at[attribute_of(term)]
            if isinstance(term, Property) and value is not None and not _is_id(term, domains, known):
                value = known.properties[domains[term.attribute]][term.name][value]
            row.append(value)
        rows.append(tuple(row))
    return list(dict.fromkeys(rows)) if query.deduplicate and query.projects else rows


def canonical(query: Query, rows: Sequence[Cells], known: Contents) -> list[Cells]:
    """Return rows sorted; for `unique`, each as the smallest of its class, as any of a class may be found."""
    if not query.unique:
        return sorted(rows)
    group = _automorphisms(query, known)
    return sorted(min(tuple(row[i] for i in image) for image in group) for row in rows)


@cache
def _automorphisms(query: Query, known: Contents) -> list[tuple[int, ...]]:
    assert set(query.head) == set(query.attributes), "rows of `unique` need a head with every attribute and no properties"
    asked = asked_of(query, known)
    return naive.automorphisms(query.head, asked.atoms, asked.filters, symmetric=known.symmetric, induced=query.induced)


def cells(rows: Sequence[Row]) -> list[Cells]:
    """Return rows as text."""
    return [tuple(map(shown, row)) for row in rows]


def history(question: Question) -> Iterator[tuple[Contents, dict[str, int]]]:
    """Give the content of a graph before the first epoch and after each, and what became of the updates of each."""
    source = question.source
    edges = {name: edges_of(source, name) for name in source.tables}
    if question.window is not None:
        _give_window(edges["edge"], source.tables["edge"], *question.window)
    before = graph_contents(source, edges)
    seen = before.ids
    yield before, {}
    for epoch in question.epochs:
        fate: Counter = Counter()
        for name, updates in _updates(question, epoch).items():
            fate += edges[name].apply(updates)
        after = graph_contents(source, edges)
        fate["vertices"] = len(after.ids - seen)
        seen |= after.ids
        yield after, {figure: number for figure, number in fate.items() if number}


def _give_window(relation: changing.Relation, table: Table, column: str, length: str) -> None:
    kind = table.schema.field(column).type
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    relation.set_window(column, changing.length_of(length, of_time=is_time))


def _updates(question: Question, epoch: Epoch) -> dict[str, list[changing.Update]]:
    """Return the updates of an epoch by relation, in the order in which they are meant."""
    names = epoch.updates.schema.names
    rows = [dict(zip(names, row, strict=True)) for row in epoch.updates.rows]
    rows.sort(key=lambda row: row[question.order] if question.order else row["op"] in INSERTIONS)
    found: dict[str, list[changing.Update]] = {}
    tables = question.source.tables
    default = "edge" if "edge" in tables else next(iter(tables))
    for row in rows:
        relation = row.get("relation", default)
        values = {name: row[name] for name in tables[relation].schema.names[2:] if name in row}
        found.setdefault(relation, []).append(changing.Update(row["op"] in INSERTIONS, row["src"], row["dst"], values))
    return found
