"""Say a query in another language, where that language can say it: `bigjoin explain --as rule|motif|cypher`."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from textwrap import indent
from typing import Literal

from bigjoin.errors import QueryError
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import Atom, Comparison, Query
from bigjoin.query.spelled_out import spelled_out
from bigjoin.query.statement import QueryBlock, Statement
from bigjoin.query.statistics import VERTEX, Statistics, assumed_graph
from bigjoin.query.terms import Constant, Operand, Property

Target = Literal["rule", "motif", "cypher"]

_SUBPATTERNS = {"exists": "if there is", "not exists": "if there is no", "optional": "with, where there is one,"}


def translated(statement: Statement, target: Target, statistics: Statistics | None = None) -> str:
    """Return a statement in another language; raise QueryError for what cannot be said there."""
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
    if len(queries) > 1:
        raise _unsaid("a relationship of several types or directions", target)
    if target == "rule" and statement.query.names:
        raise _unsaid("another name for a column", target)
    if target != "rule" and statement.language in ("rule", "name"):
        for atom in queries[0].positive:
            relation = known.relations.get(atom.relation)
            if statistics is not None and relation is not None and relation.rows is not None and len(atom.attributes) == 2:
                raise _unsaid(f"'{atom}', a set of pairs, where the index keeps rows", target)
    return {"rule": _rule, "motif": _motif, "cypher": _cypher}[target](queries[0])


def _can_say(statement: Statement, target: Target, statistics: Statistics | None) -> bool:
    try:
        return bool(statement.language == target or _translated(statement, target, statistics))
    except QueryError:
        return False


def as_rule(statement: Statement, statistics: Statistics | None = None) -> str:
    """Return the rules that a statement means, and in words what becomes of their rows."""
    known = statistics or assumed_for(statement)
    lines = [line for block in statement.blocks for line in _rules(block, known)]
    terms = dict(zip(statement.names, statement.head, strict=True))
    named = [f"{terms[name]} as {name}" for name in statement.columns if name in terms and _natural(terms[name]) != name]
    lines += [f"with {', '.join(named)}"] if named else []
    if statement.deduplicate or statement.query.deduplicate:
        lines.append("each row once")
    if statement.order:
        shown = {key: key.column if key.column in statement.columns else terms[key.column] for key in statement.order}
        keys = (f"{name}{' descending' if key.descending else ''}" for key, name in shown.items())
        lines.append(f"sorted by {', '.join(keys)}")
    if statement.skip:
        lines.append(f"without the first {statement.skip:,} rows")
    if statement.limit is not None:
        lines.append(f"at most {statement.limit:,} rows")
    if statement.count_column is not None:
        lines.append("counted")
    return "\n".join(lines)


def assumed_for(statement: Statement, *, symmetric: bool = False) -> Statistics:
    """Return what is assumed about a source that is not given: it keeps rows if a relationship has a name, otherwise pairs."""
    atoms = [atom for block in statement.everything for atom in block.query.atoms]
    terms = [term for block in statement.everything for f in block.query.filters for term in f.properties]
    properties = [term.name for term in (*terms, *statement.query.head, *statement.head) if isinstance(term, Property)]
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


def _rule(query: Query) -> str:
    """Return a query as a rule that can be parsed: attributes that only serve to read rows become `_`."""
    used = [a for atom in query.atoms for a in atom.attributes] + [a for f in query.filters for a in f.attributes]
    names = {a: "_" if a.startswith("_") and used.count(a) == 1 else a for a in used}
    constants = {f.left: f for f in query.filters if f.is_constant and isinstance(f.left, str) and f.left.startswith("_")}
    names |= {str(a): str(f.right) for a, f in constants.items() if used.count(str(a)) == 2}
    kept = tuple(f for f in query.filters if not (f.left in constants and names[str(f.left)] != f.left))
    body = [str(replace(atom, attributes=tuple(names[a] for a in atom.attributes), pattern=None)) for atom in query.atoms]
    flags = "".join(f"  [{name}]" for name in ("distinct", "unique", "induced") if getattr(query, name))
    return f"{query.name}({', '.join(map(str, query.head))}) := {', '.join([*body, *map(str, kept)])}{flags}"


def _motif(query: Query) -> str:
    """Return a query as a motif, which has edges of one relation and nothing else."""
    if query.filters:
        raise _unsaid(f"the condition '{query.filters[0]}'", "motif")
    for flag in ("distinct", "unique", "induced", "deduplicate"):
        if getattr(query, flag):
            raise _unsaid(f"the flag {flag}", "motif")
    if any(isinstance(term, Property) for term in query.head) or query.names:
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
    clauses: list[str] = []
    optional: list[str] = []
    conditions = [_cypher_comparison(f) for f in query.filters]
    for atom in query.atoms:
        if atom.columns or len(atom.attributes) > 3:
            raise _unsaid(f"'{atom}'", "cypher")
        pattern = _cypher_pattern(atom)
        if atom.negated:
            conditions.append(f"NOT EXISTS {{ {pattern} }}")
        else:
            (optional if atom.optional else clauses).append(pattern)
    if query.distinct:
        vertices = [a for a in query.attributes if any(a in atom.attributes[:2] for atom in query.positive)]
        conditions += [f"{_name(a)} <> {_name(b)}" for a, b in combinations(vertices, 2)]
    columns = query.names or tuple(_natural(term) for term in query.head)
    returned = (_operand(t) + (f" AS {_name(n)}" if n != _natural(t) else "") for t, n in zip(query.head, columns, strict=True))
    lines = [f"MATCH {pattern}" for pattern in clauses]
    lines += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    lines += [f"OPTIONAL MATCH {pattern}" for pattern in optional]
    what = ", ".join(returned) or "count(*)"
    return "\n".join([*lines, f"RETURN {'DISTINCT ' if query.deduplicate else ''}{what}"])


def _natural(term: str | Property) -> str:
    return term.column if isinstance(term, Property) else term


def _cypher_pattern(atom: Atom) -> str:
    ends = ["" if a.startswith("_") and atom.negated else _name(a) for a in atom.attributes]
    if len(ends) == 1:
        return f"({ends[0]})" if atom.relation == VERTEX else f"({ends[0]}:{_name(atom.relation)})"
    variable = ends[2] if len(ends) > 2 and not atom.attributes[2].startswith("_") else ""
    kind = "" if atom.relation == "edge" else f":{_name(atom.relation)}"
    return f"({ends[0]})-[{variable}{kind}]->({ends[1]})"


def _cypher_comparison(comparison: Comparison) -> str:
    if comparison.also:
        raise _unsaid(f"'{comparison}'", "cypher")
    operator = "<>" if comparison.operator is NOT_EQUAL else comparison.op
    with_constant = isinstance(comparison.left, Constant) or isinstance(comparison.right, Constant)
    is_order = not comparison.operator.symmetric
    sides = (
        f"id({_name(side)})" if isinstance(side, str) and (with_constant or is_order) else _operand(side)
        for side in (comparison.left, comparison.right)
    )
    return f" {operator} ".join(sides)


def _operand(side: Operand) -> str:
    if isinstance(side, Constant):
        return str(side)
    return f"{_name(side.attribute)}.{_name(side.name)}" if isinstance(side, Property) else _name(side)


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


def _unsaid(what: str, target: Target) -> QueryError:
    languages = {"rule": "a rule", "motif": "a motif", "cypher": "Cypher"}
    return QueryError(f"{languages[target]} cannot say {what}")
