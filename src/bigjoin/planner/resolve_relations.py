"""Find what atoms read: columns by name or place, and views if they leave some out; refuse what a source cannot answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bigjoin.errors import QueryError, did_you_mean
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom, Query
from bigjoin.query.read import View, ViewColumn
from bigjoin.query.statistics import EDGE_COLUMNS, RelationStatistics, Statistics
from bigjoin.query.terms import Constant, Operand


def resolve_atoms(draft: Draft) -> Draft:
    """Replace the draft's query by the resolved one, and take its atoms and filters."""
    query = resolve_relations(draft.query, draft.statistics)
    return replace(draft, query=query, atoms=query.atoms, filters=query.filters)


def resolve_relations(query: Query, statistics: Statistics) -> Query:
    """Return the query with every atom's attributes in the order of what it reads: a relation, its rows, or a view.

    A positive atom that names some columns reads the relation as if it had no others. A negated one with `_`, or with
    constants, says that there is no such tuple.
    """
    known, constants = frozenset(query.attributes), query.constants
    resolved = (_resolved(atom, known, statistics, constants) for atom in query.atoms)
    atoms = tuple(read for atom in resolved for read in _defined(atom, statistics))
    bound = {a for atom in atoms for a in atom.attributes}
    filters = tuple(f for f in query.filters if bound.issuperset(f.attributes))
    return _with_constants_once(replace(query, atoms=atoms, filters=filters), statistics)


def _defined(atom: Atom, statistics: Statistics) -> tuple[Atom, ...]:
    """Return the atoms that an atom over a materialised relation stands for; plans decide whether to read the relation."""
    definition = statistics.relation(atom).definition
    if definition is None or atom.negated or atom.optional:
        return (atom,)
    names = dict(zip(definition.head, atom.attributes, strict=True))
    return tuple(replace(part.renamed(names), span=atom.span) for part in definition.atoms)


def _with_constants_once(query: Query, statistics: Statistics) -> Query:
    """Return the query with one attribute for a constant that occurs several times: `distinct` is not about equal constants."""
    if not query.injective:
        return query
    domains = statistics.domains_of(query.positive)
    names = {a: a for atom in query.atoms for a in atom.attributes}
    first: dict[tuple[str, str], str] = {}
    for left, right in query.constants.items():
        if isinstance(left, str) and left.startswith("_") and left not in query.head:
            names[left] = first.setdefault((domains[left], repr(right)), left)
    atoms = tuple(atom.renamed(names) for atom in query.atoms)
    return replace(query, atoms=atoms, filters=tuple(dict.fromkeys(f.renamed(names) for f in query.filters)))


def check_domains(draft: Draft) -> Draft:
    """Return the draft unchanged; raise QueryError if an attribute would have values of two domains."""
    domains = {a: draft.domain(a) for a in draft.attributes}
    for atom in draft.atoms:
        for attribute, domain in zip(atom.attributes, draft.statistics.of(atom).domains, strict=True):
            if domains[attribute] != domain:
                message = f"{attribute!r} is {_a(domains[attribute])} elsewhere, and {_a(domain)} here"
                raise QueryError(message, atom.span, "use two attributes")
    return draft


def _resolved(atom: Atom, known: Collection[str], statistics: Statistics, constants: Mapping[Operand, Constant]) -> Atom:
    """Return an atom with the attributes of what it reads; `known` are those that positive atoms bind."""
    relation = _relation(atom, statistics)
    attributes: list[str | None] = list(atom.attributes)
    if atom.columns:
        attributes = _by_name(atom, relation)
    elif len(attributes) != statistics.of(atom).arity:
        raise _misfit(atom, relation)
    is_open = attributes[-1] not in known and attributes[-1] not in constants
    if atom.negated and len(attributes) > relation.arity and is_open:
        attributes.pop()  # no edge with any id: no edge at all
    columns: list[ViewColumn] = []
    for place, attribute in enumerate(attributes):
        if attribute is None:
            columns.append("left out")
        elif not atom.negated or attribute in known:
            columns.append("kept")
        else:
            first = attributes.index(attribute)
            columns.append(constants.get(attribute, "left out" if first == place else first))
    if len(attributes) > relation.arity and set(columns) != {"kept"}:
        hint = "bind its ends and its id by other atoms, or leave the id out"
        raise QueryError(f"'{atom}' names an edge by its id, but leaves some of its columns open", atom.span, hint)
    kept = tuple(a for a, column in zip(attributes, columns, strict=True) if a is not None and column == "kept")
    if not kept:
        hint = "name an attribute that another atom binds" if atom.negated else "name at least one column"
        raise QueryError(f"'{atom}' is not joined to any other atom", atom.span, hint)
    view = atom.view if len(kept) == len(columns) else View(tuple(columns))
    return replace(atom, attributes=kept, columns=(), view=view)


def _relation(atom: Atom, statistics: Statistics) -> RelationStatistics:
    known = statistics.relations
    try:
        return statistics.relation(atom)
    except KeyError:
        hint = did_you_mean(atom.relation, known) or f"the source has {', '.join(sorted(known))}"
        raise QueryError(f"there is no relation {atom.relation!r}", atom.span, hint) from None


def _by_name(atom: Atom, relation: RelationStatistics) -> list[str | None]:
    """Return the attribute of each column of a relation, None for columns that an atom does not name."""
    given = dict(zip(atom.columns, atom.attributes, strict=True))
    for column in given:
        if column not in relation.columns:
            names = ", ".join(relation.columns) or "without names: write attributes in their order"
            hint = did_you_mean(column, relation.columns) or f"its columns are {names}"
            raise QueryError(f"{atom.relation!r} has no column {column!r}", atom.span, hint)
    return [given.get(column) for column in relation.columns]


def _a(domain: str) -> str:
    return f"{'an' if domain[0] in 'aeiou' else 'a'} {domain}"


def _misfit(atom: Atom, relation: RelationStatistics) -> QueryError:
    """Return the error for an atom with too few or too many attributes."""
    name, arity, asked = atom.relation, relation.arity, len(atom.attributes)
    columns = f"{arity} column{'s' * (arity != 1)}"
    hint = f"write {name}({', '.join('abcdefgh'[:arity])})"
    if relation.rows is not None:
        message = f"{name!r} has {columns}, and an edge id as one more, not {asked}"
        return QueryError(message, atom.span, f"{hint}, or {name}({', '.join('abcdefgh'[:arity])}, e) to name the edge")
    if relation.columns in ((), EDGE_COLUMNS) and arity == 2 and asked == 3:
        message = f"this index keeps no edge ids for {name!r}: it has {columns}, not {asked}"
        hint += ", or build the index from a table with further columns or with --parallel (parallel=True), which keeps them"
        return QueryError(message, atom.span, hint)
    return QueryError(f"{name!r} has {columns}, not {asked}", atom.span, hint)
