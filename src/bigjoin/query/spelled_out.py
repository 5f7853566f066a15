"""Spell out what a query leaves open until the source is known: lengths of paths, relations, directions, rows, what differs.

A relationship of a pattern may be of several relations, or stand in either direction. Then the query is a sum of queries, one
for each choice, as with optional atoms. Where a relation keeps the rows of its source each row matches, else each pair.
Relationships of one Cypher clause differ: as rows if there are rows, otherwise as pairs, and an undirected edge is one
relationship, whichever of its two tuples is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, count, product
from math import prod

from bigjoin.errors import QueryError
from bigjoin.query.decide_tests import filters_of, never, with_tests_decided
from bigjoin.query.expressions import Call, Expression, mapped
from bigjoin.query.operators import EQUAL, NOT_EQUAL
from bigjoin.query.optional import denied, with_bound_head
from bigjoin.query.paths import lengthened
from bigjoin.query.query import Atom, Comparison, Predicate, Query, QueryFilter
from bigjoin.query.statistics import VERTEX, RelationStatistics, Statistics
from bigjoin.query.terms import Constant

MAX_CHOICES = 256
"""Queries that a pattern may be the sum of."""

_Reading = tuple[Atom, ...]
"""The atoms that one reading of an atom consists of: several, if it is negated."""

_Types = dict[str, tuple[str, bool]]
"""The relation of each attribute that names a relationship, and whether that is its type."""


def spelled_out(query: Query, statistics: Statistics) -> tuple[Query, ...]:
    """Return queries without paths and patterns whose matches are disjoint and together are those of the query."""
    decided = with_tests_decided(query)
    plain = [each for one in decided for each in lengthened(one, lambda atom: _keeps_rows(atom, statistics))]
    readings = [[list(_readings(atom, each, statistics)) for atom in each.atoms] for each in plain]
    if (choices := sum(prod(map(len, each)) for each in readings)) > MAX_CHOICES:
        hint = "give relationships a type and a direction, or ask an undirected graph (--undirected)"
        message = f"relationships in either direction, or of several types, make this query a sum of {choices:,} queries"
        raise QueryError(f"{message}; at most {MAX_CHOICES} are planned", hint=hint)
    return tuple(read for each in zip(plain, readings, strict=True) for read in _read_all(*each, statistics))


def _read_all(query: Query, readings: list[list[_Reading]], statistics: Statistics) -> Iterator[Query]:
    """Give the queries that the readings of a query's atoms make."""
    if all(atom.pattern is None for atom in query.atoms):
        yield query
        return
    chosen = [choice for choice in product(*readings) if _is_one_relation_a_row(choice)]
    yield from (_read(query, choice, statistics) for choice in chosen or [next(product(*readings))])


def _keeps_rows(atom: Atom, statistics: Statistics) -> bool:
    """Tell whether the edges of an atom have ids: those of all relations that it may be read from, as far as they are known."""
    relations = [atom.relation]
    if atom.pattern is not None:
        relations = list(atom.pattern.relations) or edge_relations(statistics) or relations
    known = [statistics.relations.get(name) for name in relations]
    return all(relation is None or relation.rows is not None for relation in known)


def refuse_rows_of_several(shared: Iterable[str], query: Query, statistics: Statistics) -> None:
    """Refuse shared attributes that are rows of a relationship of several relations: each of these has its own numbers."""
    for attribute in shared:
        patterns = (atom.pattern for atom in query.atoms if attribute in atom.attributes[2:] and atom.pattern is not None)
        if any(len(pattern.relations or edge_relations(statistics)) > 1 for pattern in patterns):
            message = f"a further pattern or condition about {attribute!r}, which may be of several types, is not supported yet"
            raise QueryError(message, hint=f"give it a type, as in -[{attribute}:{edge_relations(statistics)[0]}]->")


def _is_one_relation_a_row(choice: tuple[_Reading, ...]) -> bool:
    """Tell whether every row is read from one relation: relationships that have one name are one."""
    relations: dict[str, str] = {}
    reads = (read for reading in choice for read in reading if read.pattern is not None and not read.negated)
    rows = (read for read in reads if len(read.attributes) > 2)
    return all(relations.setdefault(read.attributes[2], read.relation) == read.relation for read in rows)


def edge_relations(statistics: Statistics) -> list[str]:
    """Return the relations that a relationship without a type may be of: `edge`, or else all that hold edges."""
    known = [name for name, r in statistics.relations.items() if r.arity == 2 and not r.materialized]
    return ["edge"] if "edge" in known else known


def _readings(atom: Atom, query: Query, statistics: Statistics) -> Iterator[_Reading]:
    """Give the ways in which an atom of a pattern can be read.

    A negated one denies all of them at once. An optional one is any of them, or else none, which denies all of them. One that
    only has to be there may hold in several ways: then the first that does counts.
    """
    pattern = atom.pattern
    if pattern is None:
        yield (atom,)
        return
    if pattern.relations == (VERTEX,) and VERTEX in statistics.relations:
        hint = "give that relation another name, or join the vertex to an edge"
        raise QueryError(f"all vertices are wanted, but the source has a relation {VERTEX!r} of its own", atom.span, hint)
    found = []
    for relation in dict.fromkeys(pattern.relations or edge_relations(statistics) or [atom.relation]):
        read = replace(atom, relation=relation)
        found.append(read)
        known = statistics.relations.get(relation)
        if pattern.either and len(set(atom.attributes[:2])) == 2 and not (known is not None and known.symmetric):
            found.append(replace(read, attributes=(*reversed(read.attributes[:2]), *read.attributes[2:])))
    if atom.negated:
        yield tuple(found)
    elif atom.optional and len(found) > 1:
        yield from ((replace(read, optional=False),) for read in found)
        yield tuple(denied(read, query) for read in found)
    elif not pattern.rows and len(atom.attributes) <= 2:
        yield from ((read, *(replace(other, negated=True) for other in found[:i])) for i, read in enumerate(found))
    else:
        yield from ((read,) for read in found)


def _read(query: Query, readings: tuple[_Reading, ...], statistics: Statistics) -> Query:
    """Return the query that one choice of readings makes."""
    taken = {a for atom in query.atoms for a in atom.attributes}
    fresh = (name for n in count(1) if (name := f"_row{n}") not in taken)
    atoms: list[Atom] = []
    filters = list(query.filters)
    rows: dict[str, str] = {}
    """The relation of each attribute that is a row."""
    named = [read for reading in readings for read in reading if len(read.attributes) > 2]
    types = {read.attributes[2]: (read.relation, _says_type(read, statistics)) for read in named}
    dropped: set[str] = set()
    of_clause: dict[int, list[tuple[Atom, bool]]] = {}
    for atom, reading in zip(query.atoms, readings, strict=True):
        for read in reading:
            pattern, plain = read.pattern, replace(read, pattern=None)
            known = statistics.relations.get(read.relation)
            if pattern is not None and pattern.rows and known is not None and not read.columns:
                plain = _rowwise(plain, known, fresh)
                dropped |= set(read.attributes) - set(plain.attributes)
            atoms.append(plain)
            if pattern is None or read.negated:
                continue
            if len(plain.attributes) > 2:
                rows[plain.attributes[2]] = plain.relation
            if pattern.clause is not None:
                of_clause.setdefault(pattern.clause, []).append((plain, bool(pattern.relations)))
            if pattern.either and read.attributes[:2] != atom.attributes[:2]:  # the second direction of a loop is the first
                filters.append(Comparison(read.attributes[0], NOT_EQUAL.text, read.attributes[1]))
    apart = _apart(atoms, filters, statistics)
    for together in of_clause.values():
        for (one, has_type), (other, other_has_type) in combinations(together, 2):
            if one.relation == other.relation:
                filters += _differing(one, other, statistics, apart)
            elif (
                has_type != other_has_type and "edge" in (one.relation, other.relation) and _ways(one, other, statistics, apart)
            ):
                hint = "give both of them a type, or write them in two MATCH clauses"
                both = f"{one.relation!r} and {other.relation!r}"
                raise QueryError(f"these have to differ, and {both} may share relationships", other.span, hint)
    decided = tuple(f for given in filters for f in _decided(given, rows, types, query))
    spelled = replace(query, atoms=tuple(atoms), filters=decided)
    kept = [i for i, term in enumerate(query.head) if not (isinstance(term, str) and term in dropped)]
    head = tuple(_with_rows_decided(query.head[i], rows, types) for i in kept)
    names = tuple(query.columns[i] for i in kept) if query.names or head != tuple(query.head[i] for i in kept) else ()
    return with_bound_head(replace(spelled, head=head, names=names))


def _decided(given: QueryFilter, rows: dict[str, str], types: _Types, query: Query) -> Iterator[QueryFilter]:
    """Give a filter; of rows of two relations, which are never equal, nothing or what never holds."""
    if isinstance(given, Predicate):
        expression = _with_rows_decided(given.expression, rows, types)
        left = (given,) if expression == given.expression else filters_of(expression, given, query)
        yield from (never(query),) if left is None else left
        return
    relations = {rows.get(str(side)) for side in (given.left, given.right)}
    if given.properties or given.also or None in relations or len(relations) < 2 or not given.operator.symmetric:
        yield given
    elif given.operator.reflexive:
        yield replace(never(query), span=given.span)


def _says_type(atom: Atom, statistics: Statistics) -> bool:
    """Tell whether the relation of a relationship is its type: `edge` is not if there are others, which divide it by type."""
    others = (name for name, r in statistics.relations.items() if r.arity == 2 and not r.materialized and name != atom.relation)
    return bool(atom.pattern is not None and atom.pattern.relations) or atom.relation != "edge" or not any(others)


def _with_rows_decided(expression: Expression, rows: dict[str, str], types: _Types) -> Expression:
    """Return an expression in which the types of relationships, and whether rows of two relations are equal, are known."""

    def change(part: Expression) -> Expression:
        match part:
            case Call("type" | "relation" as what, (str() as row,)) if row in types:
                relation, is_said = types[row]
                if what == "type" and not is_said:
                    hint = "give it a type, or write the property that holds its type"
                    raise QueryError(f"the type of {row!r} is not known: it is a row of {relation!r}", part.span, hint)
                return Constant(relation)
            case Call(EQUAL.text | NOT_EQUAL.text as operator, (str() as one, str() as other)):
                both = rows.get(one), rows.get(other)
                return part if None in both or both[0] == both[1] else Constant(operator == NOT_EQUAL.text)
        return part

    return mapped(expression, change)


def _rowwise(atom: Atom, relation: RelationStatistics, fresh: Iterator[str]) -> Atom:
    """Return an atom with the attribute of its row if the relation keeps rows, otherwise without."""
    if relation.arity == 1:
        return atom
    if relation.rows is None or relation.arity != 2:
        return replace(atom, attributes=atom.attributes[:2])
    return atom if len(atom.attributes) > 2 or atom.negated else replace(atom, attributes=(*atom.attributes, next(fresh)))


def _apart(atoms: list[Atom], filters: list[QueryFilter], statistics: Statistics) -> set[frozenset[str]]:
    """Return the pairs of attributes that are sure to differ."""
    found = {frozenset(f.attributes) for f in filters if f.keeps_apart}
    for atom in atoms:
        known = statistics.relations.get(atom.relation)
        if known is not None and known.loops == 0 and known.arity == 2 and not (atom.negated or atom.optional or atom.columns):
            found.add(frozenset(atom.attributes[:2]))
    return {pair for pair in found if len(pair) == 2}


def _ways(one: Atom, other: Atom, statistics: Statistics, apart: set[frozenset[str]]) -> list[tuple[tuple[str, str], ...]]:
    """Return the ways in which two relationships may have the same ends: which attributes would have to be equal."""
    (a, b), (c, d) = one.attributes[:2], other.attributes[:2]
    known = statistics.relations.get(one.relation)
    ways = [((a, c), (b, d)), *([((a, d), (b, c))] if known is not None and known.symmetric else [])]
    return [way for way in ways if not any(frozenset(pair) in apart for pair in way)]


def _differing(one: Atom, other: Atom, statistics: Statistics, apart: set[frozenset[str]]) -> Iterator[Comparison]:
    """Give what keeps two relationships of a relation apart, unless something else does."""
    ways = _ways(one, other, statistics, apart)
    if not ways or len(one.attributes) != len(other.attributes):  # one asks for a row that the relation does not keep
        return
    if len(one.attributes) > 2:
        yield Comparison(one.attributes[2], NOT_EQUAL.text, other.attributes[2])
        return
    for way in ways:
        first, *also = [pair for pair in way if pair[0] != pair[1]] or [way[0]]
        yield Comparison(first[0], NOT_EQUAL.text, first[1], tuple(also))
