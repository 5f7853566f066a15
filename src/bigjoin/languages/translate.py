"""Say a query in another language, where that language can say it: `bigjoin explain --as rule|motif|cypher`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from textwrap import indent
from typing import Literal

from bigjoin.errors import QueryError
from bigjoin.languages.say_expressions import UnsaidError, in_cypher, in_rule
from bigjoin.languages.say_paths import PathsInCypher, with_paths
from bigjoin.query.expressions import Call, Expression, Holds, Predicate, mapped, terms_of, walk
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import Atom, Comparison, Query, QueryFilter, column_of
from bigjoin.query.seeds import shown_seeds
from bigjoin.query.spelled_out import spelled_out
from bigjoin.query.statement import QueryBlock, RowStage, Statement
from bigjoin.query.statistics import VERTEX, Statistics, assumed_graph
from bigjoin.query.terms import Constant, Property

Target = Literal["rule", "motif", "cypher"]

_SUBPATTERNS = {"exists": "if there is", "not exists": "if there is no", "optional": "with, where there is one,"}


def translated(statement: Statement, target: Target, statistics: Statistics | None = None) -> str:
    """Return a statement in another language; raise QueryError for what cannot be said there."""
    if statement.query.seeds:
        raise QueryError("no language can say seeds", hint="leave them out here")
    if statement.language == target:
        return statement.text.strip()
    try:
        return _translated(statement, target, statistics)
    except QueryError as error:
        others = [other for other in ("rule", "motif", "cypher") if other != target and _can_say(statement, other, statistics)]
        hint = f"--as {' or '.join(others)} can" if others else "explain prints what it means, in words"
        raise QueryError(error.message, error.span, hint) from None


def _translated(statement: Statement, target: Target, statistics: Statistics | None) -> str:
    if (more := statement.beyond_query) is not None:
        raise _unsaid(more, target)
    known = statistics or assumed_for(statement)
    queries = spelled_out(statement.query, known)
    paths = [atom.hops for atom in statement.query.atoms if atom.hops is not None]
    if paths and (target == "rule" or (target == "cypher" and all(hops.mode == "trail" for hops in paths))):
        kept = with_paths(statement.query, known)
        queries = queries if kept is None else (kept,)
    if len(queries) > 1 and paths:
        raise _unsaid("a path of several lengths" if target == "motif" else "a path of this kind", target)
    if len(queries) > 1:
        within = (part for f in statement.query.filters if isinstance(f, Predicate) for part in walk(f.expression))
        decided = any(isinstance(part, Holds) for part in within)
        raise _unsaid("a pattern within OR" if decided else "a relationship of several types or directions", target)
    if target != "rule" and statement.language in ("rule", "name"):
        for atom in queries[0].positive:
            relation = known.relations.get(atom.relation)
            if statistics is not None and relation is not None and relation.rows is not None and len(atom.attributes) == 2:
                raise _unsaid(f"'{atom}', a set of pairs, where the index keeps rows", target)
    try:
        return {"rule": _parseable_rule, "motif": _motif, "cypher": _cypher}[target](queries[0])
    except UnsaidError as error:
        raise _unsaid(f"'{error}'", target) from None


def _can_say(statement: Statement, target: Target, statistics: Statistics | None) -> bool:
    try:
        return bool(statement.language == target or _translated(statement, target, statistics))
    except QueryError:
        return False


def as_rule(statement: Statement, statistics: Statistics | None = None) -> str:
    """Return the rules that a statement means, and in words what becomes of their rows."""
    known = statistics or assumed_for(statement)
    return "\n".join([*(line for block in statement.blocks for line in _rules(block, known)), *becomes(statement)])


def becomes(statement: Statement) -> list[str]:
    """Say in words what becomes of the rows of a statement's queries."""
    terms = dict(zip(statement.names, statement.head, strict=True))
    lines = [line for stage in statement.before for line in _said_of(stage, terms)]
    if (grouping := statement.grouping) is not None:
        lines.append(str(grouping))
    named = [f"{terms[name]} as {name}" for name in statement.columns if name in terms and _natural(terms[name]) != name]
    lines += [f"with {', '.join(named)}"] if named else []
    if statement.deduplicate or statement.query.deduplicate:
        lines.append("each row once")
    if statement.order:
        shown = {
            key: key.column if key.column in statement.columns else _sort_key(key.column, statement) for key in statement.order
        }
        keys = (f"{name}{' descending' if key.descending else ''}" for key, name in shown.items())
        lines.append(f"sorted by {', '.join(keys)}")
    if statement.skip:
        lines.append(f"without the first {statement.skip:,} rows")
    if statement.limit is not None:
        lines.append(f"at most {statement.limit:,} rows")
    if statement.count_column is not None:
        lines.append("counted")
    return lines


def _said_of(stage: RowStage, terms: Mapping[str, Expression]) -> Iterator[str]:
    """Say what is computed of rows in a stage, and which are left; names are those of terms."""

    def meant(part: Expression) -> Expression:
        return str(terms.get(part, part)) if isinstance(part, str) else part

    columns = [f"{mapped(term, meant)} as {name}" for name, term in stage.columns if term != name and not name.startswith("_")]
    if columns:
        yield f"with {', '.join(columns)}"
    if stage.grouping is not None:
        yield str(stage.grouping)
    if stage.where is not None:
        yield f"where {mapped(stage.where, meant)}"


def _sort_key(name: str, statement: Statement) -> str:
    """Return what rows are sorted by, if it is not one of their columns."""
    if statement.grouping is not None:
        return statement.grouping.written(dict(statement.grouping.columns)[name])
    found = dict(zip(statement.names or statement.query.columns, statement.head or statement.query.head, strict=True))
    return str(found[name])


def assumed_for(statement: Statement, *, symmetric: bool = False) -> Statistics:
    """Return what is assumed about a source that is not given: it keeps rows if a relationship has a name, otherwise pairs."""
    atoms = [atom for block in statement.everything for atom in block.query.atoms]
    terms = [term for block in statement.everything for f in block.query.filters for term in f.properties]
    heads = (part for term in (*statement.query.head, *statement.head) for part in terms_of(term))
    properties = [term.name for term in (*terms, *heads) if isinstance(term, Property)]
    known = assumed_graph(symmetric=symmetric, properties=properties)
    if all(atom.pattern is None for atom in atoms) or any(len(atom.attributes) > 2 for atom in atoms):
        return known
    return replace(known, relations={name: replace(r, rows=None) for name, r in known.relations.items()})


def _rules(block: QueryBlock, statistics: Statistics) -> list[str]:
    try:
        queries = spelled_out(block.query, statistics)
    except QueryError:  # too many to list
        queries = (block.query,)
    lines = [_rule(query) + "".join(f"  [{name} = {value}]" for name, value in block.constants) for query in queries]
    for sub in block.subpatterns:
        lines += [_SUBPATTERNS[sub.kind], *(indent(line, "  ") for line in _rules(sub.block, statistics))]
    return lines


def _rule(query: Query, say: Callable[[Expression], str] = str, *, named: bool = False) -> str:
    """Return a query as a rule that can be parsed, given how to say an expression, and perhaps with the names of its columns.

    Attributes that only serve to read rows become `_`.
    """
    used = [a for atom in query.atoms for a in atom.attributes] + [a for f in query.filters for a in f.attributes]
    names = {a: "_" if a.startswith("_") and used.count(a) == 1 else a for a in used}
    constants = {left: right for left, right in query.constants.items() if isinstance(left, str) and left.startswith("_")}
    names |= {str(a): str(right) for a, right in constants.items() if used.count(str(a)) == 2}
    said = {a for a in constants if names[str(a)] != a}
    kept = tuple(f for f in query.filters if not (isinstance(f, Comparison) and f.is_constant and f.left in said))
    body = [str(replace(atom, attributes=tuple(names[a] for a in atom.attributes), pattern=None)) for atom in query.atoms]
    flags = "".join(f"  [{name}]" for name in ("distinct", "unique", "induced") if getattr(query, name))
    body += [*shown_seeds(query.seeds), *(say(f.expression) if isinstance(f, Predicate) else str(f) for f in kept)]
    columns = zip(query.head, query.columns, strict=True)
    head = (say(t) + (f" as {_quoted(n)}" if named and n != _natural(t) else "") for t, n in columns)
    return f"{query.name}({', '.join(head)}) := {', '.join(body)}{flags}"


def _quoted(name: str) -> str:
    """Return the name of a column as a rule writes it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else str(Constant(name))


def _parseable_rule(query: Query) -> str:
    """Return a query as a rule in which all expressions mean the same, and columns have their names."""
    if query.deduplicate:
        raise _unsaid("DISTINCT", "rule")
    return _rule(query, str if query.dialect == "sql" else in_rule, named=True)


def _motif(query: Query) -> str:
    """Return a query as a motif, which has edges of one relation and nothing else."""
    if query.filters:
        raise _unsaid(f"the condition '{query.filters[0]}'", "motif")
    for flag in ("distinct", "unique", "induced", "deduplicate"):
        if getattr(query, flag):
            raise _unsaid(f"the flag {flag}", "motif")
    if not all(isinstance(term, str) for term in query.head) or query.names:
        raise _unsaid("a column of its own", "motif")
    if query.projects and any(not a.startswith("_") and a not in query.head for a in query.attributes):
        raise _unsaid("that columns are left out", "motif")
    relations = {atom.relation for atom in query.atoms if len(atom.attributes) > 1}
    terms: list[str] = []
    for atom in sorted(query.atoms, key=lambda atom: atom.negated):
        if atom.optional:
            raise _unsaid("an optional atom", "motif")
        if atom.relation == VERTEX and not atom.negated:
            terms.append(f"({atom.attributes[0]})")
            continue
        if len(relations) > 1 or len(atom.attributes) < 2 or len(atom.attributes) > 3 or atom.columns:
            raise _unsaid(f"'{atom}'", "motif")
        a, b = ("" if name.startswith("_") else name for name in atom.attributes[:2])
        e = atom.attributes[2] if len(atom.attributes) > 2 else ""
        terms.append(f"{'!' * atom.negated}({a})-[{'' if e.startswith('_') else e}]->({b})")
    return "; ".join(terms)


def _cypher(query: Query) -> str:
    """Return a query as Cypher, with one MATCH for each atom, so that relationships may be the same."""
    if query.unique or query.induced:
        raise _unsaid(f"the flag {'unique' if query.unique else 'induced'}", "cypher")
    if query.distinct and any(atom.hops is not None for atom in query.atoms):
        raise _unsaid("the flag distinct of a path", "cypher")
    clauses: list[str] = []
    optional: list[str] = []
    paths = PathsInCypher(query, _name)
    conditions = [_cypher_condition(f, paths, alone=len(query.filters) == 1) for f in query.filters]
    columns = query.names or tuple(_natural(term) for term in query.head)
    terms = [paths.column(t) if paths.is_about(t) else _operand(t) for t in query.head]
    for atom in query.atoms:
        if atom.columns or len(atom.attributes) > 3:
            raise _unsaid(f"'{atom}'", "cypher")
        pattern = paths.prefix(atom) + _cypher_pattern(atom)
        if atom.negated:
            conditions.append(f"NOT EXISTS {{ {pattern} }}")
        else:
            (optional if atom.optional else clauses).append(pattern)
    if query.distinct:
        vertices = [a for a in query.attributes if any(a in atom.attributes[:2] for atom in query.positive)]
        conditions += [f"{_name(a)} <> {_name(b)}" for a, b in combinations(vertices, 2)]
    named = zip(terms, (None if paths.is_about(term) else _plain(term) for term in query.head), columns, strict=True)
    returned = (said + (f" AS {_name(name)}" if name not in (said, natural) else "") for said, natural, name in named)
    lines = [f"MATCH {pattern}" for pattern in clauses]
    lines += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    lines += [f"OPTIONAL MATCH {pattern}" for pattern in optional]
    what = ", ".join(returned) or "count(*)"
    return "\n".join([*lines, f"RETURN {'DISTINCT ' if query.deduplicate else ''}{what}"])


def _natural(term: Expression) -> str:
    return column_of(term)


def _plain(term: Expression) -> str | None:
    """Return what Cypher calls a column without an alias, if that is the same in a rule."""
    return None if isinstance(term, Call | Constant) else column_of(term)


def _cypher_pattern(atom: Atom) -> str:
    ends = ["" if a.startswith("_") and atom.negated else _name(a) for a in atom.attributes]
    if len(ends) == 1:
        return f"({ends[0]})" if atom.relation == VERTEX else f"({ends[0]}:{_name(atom.relation)})"
    variable = ends[2] if len(ends) > 2 and not atom.attributes[2].startswith("_") else ""
    kind = "" if atom.relation == "edge" else f":{_name(atom.relation)}"
    return f"({ends[0]})-[{variable}{kind}{atom.hops or ''}]->({ends[1]})"


def _cypher_condition(given: QueryFilter, paths: PathsInCypher, *, alone: bool) -> str:
    expression = given.expression if isinstance(given, Predicate) else Call(given.op, (given.left, given.right))
    if paths.is_about(expression) and not (isinstance(given, Comparison) and given.also):
        said = paths.condition(expression)
        return said if alone or said.startswith("all(") else f"({said})"
    if isinstance(given, Predicate):
        said = in_cypher(given.expression, _name)
        return said if alone or given.expression.function not in ("or", "xor") else f"({said})"
    if given.also:
        raise _unsaid(f"'{given}'", "cypher")
    operator = "<>" if given.operator is NOT_EQUAL else given.op
    with_constant = isinstance(given.left, Constant) or isinstance(given.right, Constant)
    is_order = not given.operator.symmetric
    sides = (
        f"id({_name(side)})" if isinstance(side, str) and (with_constant or is_order) else _operand(side)
        for side in (given.left, given.right)
    )
    return f" {operator} ".join(sides)


def _operand(side: Expression) -> str:
    return _name(side) if isinstance(side, str) else in_cypher(side, _name)


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


def _unsaid(what: str, target: Target) -> QueryError:
    languages = {"rule": "a rule", "motif": "a motif", "cypher": "Cypher"}
    return QueryError(f"{languages[target]} cannot say {what}")
