"""Say paths in the other language: what a rule says of each edge of a path, Cypher says of each member of a list."""

from __future__ import annotations

from dataclasses import replace

from bigjoin.languages.say_expressions import NameOf, Spoken, UnsaidError, in_cypher
from bigjoin.query.early_bounds import edges_of
from bigjoin.query.expressions import Call, Expression, attributes_of, walk
from bigjoin.query.query import Atom, Query
from bigjoin.query.spelled_out import edge_relations, spelled_out
from bigjoin.query.statistics import Statistics
from bigjoin.query.terms import Constant, Property


def with_paths(query: Query, statistics: Statistics) -> Query | None:
    """Return a query in which all but its paths is spelled out; None if paths have to be as well."""
    kept: dict[str, Atom] = {}
    atoms: list[Atom] = []
    for number, atom in enumerate(query.atoms):
        if atom.hops is None:
            atoms.append(atom)
            continue
        if (path := _plain(atom, query, statistics, f"_path{number}")) is None:
            return None
        kept[f"path {number}"] = path
        atoms.append(Atom(f"path {number}", path.attributes))
    spelled = spelled_out(replace(query, atoms=tuple(atoms)), statistics)
    if len(spelled) > 1:
        return None
    return replace(spelled[0], atoms=tuple(kept.get(atom.relation, atom) for atom in spelled[0].atoms))


def _plain(atom: Atom, query: Query, statistics: Statistics, name: str) -> Atom | None:
    """Return a path without a pattern, if it means the same."""
    pattern = atom.pattern
    if pattern is None:
        return atom
    relations = pattern.relations or edge_relations(statistics) or (atom.relation,)
    known = statistics.relations.get(relations[0])
    others = [other.pattern.clause for other in query.atoms if other.pattern is not None and other is not atom]
    turns = pattern.backward or (pattern.either and not (known is not None and known.symmetric))
    if len(relations) > 1 or turns or pattern.clause in others:
        return None
    has_rows = known is not None and known.rows is not None
    named = (*atom.attributes, name) if has_rows and len(atom.attributes) == 2 else atom.attributes
    return replace(atom, relation=relations[0], attributes=named, pattern=None)


class PathsInCypher:
    """Says expressions of a query that may be about its paths, as Cypher does."""

    def __init__(self, query: Query, name_of: NameOf) -> None:
        self._paths = [a for atom in query.atoms if atom.hops is not None for a in atom.attributes[2:]]
        self._name_of = name_of
        self._taken = {a for atom in query.atoms for a in atom.attributes}
        self._names = {path: self._fresh(f"path_{path.lstrip('_')}") for path in self._paths}
        self._each, self._place = self._fresh("r"), self._fresh("i")
        """What goes through a list, and through places."""
        self._used: set[str] = set()
        """The paths whose nodes are asked for."""

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def prefix(self, atom: Atom) -> str:
        """Return what stands before the pattern of a path: its name, if something was said of its nodes."""
        return f"{self._names[atom.attributes[2]]} = " if set(atom.attributes[2:]) & self._used else ""

    def is_about(self, expression: Expression) -> bool:
        """Tell whether an expression is about a path."""
        return not set(self._paths).isdisjoint(attributes_of(expression))

    def condition(self, expression: Expression) -> str:
        """Return a condition, which holds for each edge that it is about."""
        each, members, said = self._of_each(expression)
        return f"all({each} IN {members} WHERE {said})" if each else said

    def column(self, expression: Expression) -> str:
        """Return a column, which is a list if it is about each edge."""
        if isinstance(expression, str):
            return self._name_of(expression)
        each, members, said = self._of_each(expression)
        return f"[{each} IN {members} | {said}]" if each else said

    def _of_each(self, expression: Expression) -> tuple[str, str, str]:
        """Return a variable, the list that it goes through, and what is said of each; no variable if it is said once."""
        about = edges_of(expression, self._paths)
        if len(about) > 1:
            raise UnsaidError(str(expression))
        if not about:
            return "", "", in_cypher(self._placed(expression, "", ""), self._name_of)  # of no edge, but of ends
        ((path, needs_next),) = about.items()
        if not needs_next and not any(isinstance(p, Call) and p.function in ("src", "dst") for p in walk(expression)):
            return self._each, self._name_of(path), in_cypher(self._placed(expression, path, self._each), self._name_of)
        said = in_cypher(self._placed(expression, path, f"{self._name_of(path)}[{self._place}]"), self._name_of)
        return self._place, f"range(0, size({self._name_of(path)}) - {1 + needs_next})", said

    def _placed(self, expression: Expression, path: str, each: str) -> Expression:
        """Return an expression about a certain edge of a path, with the places of others as Cypher writes them."""
        match expression:
            case Call("length", (str() as name,)) if name in self._paths:
                return Spoken(f"size({self._name_of(name)})")
            case Call("nodes", (str() as name,)):
                return Spoken(f"nodes({self._path(name)})")
            case Call("edges", (str() as name,)):
                return Spoken(self._name_of(name))
            case Call("first" | "last" | "next" | "src" | "dst"):
                return Spoken(f"id({self._at(expression)})")
            case Call(".", (inner, Constant(str() as key))):
                return Property(Spoken(self._at(inner)), key)
            case Property(name) if path and name == path:
                return replace(expression, attribute=Spoken(each))
            case str() if path and expression == path:
                return Spoken(f"id({each})")
            case Call(_, arguments):
                return replace(expression, arguments=tuple(self._placed(a, path, each) for a in arguments))
        return expression

    def _path(self, name: str) -> str:
        self._used.add(name)
        return self._names[name]

    def _at(self, part: Expression) -> str:
        """Return an edge or a vertex by its place."""
        place = self._place
        match part:
            case Call("first" | "last" as which, (str() as name,)):
                return f"{'head' if which == 'first' else 'last'}({self._name_of(name)})"
            case Call("next", (str() as name,)):
                return f"{self._name_of(name)}[{place} + 1]"
            case Call("src" | "dst" as end, (str() as name,)):
                return f"nodes({self._path(name)})[{place}{' + 1' * (end == 'dst')}]"
            case Call("src" | "dst" as end, (Call("next", (str() as name,)),)):
                return f"nodes({self._path(name)})[{place} + {1 + (end == 'dst')}]"
            case Call("src", (Call("first", (str() as name,)),)):
                return f"head(nodes({self._path(name)}))"
            case Call("dst", (Call("last", (str() as name,)),)):
                return f"last(nodes({self._path(name)}))"
        raise UnsaidError(str(part))
