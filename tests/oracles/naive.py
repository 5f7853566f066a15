"""The brute-force oracle: every binding of every attribute, tested against the definition. It imports nothing of ours.

A query here is plain data: head names, atoms (relation, names, negated) and filters (left, operator, right), where a name is a
str, a constant is a tuple ("const", value), a property is a tuple ("property", name, property), and the sides of a `!=`
between tuples are ("tuple", name, name, ...). A relation whose rows have
ids holds tuples of both lengths. In a negated atom a name may also be None, which stands for anything, or a constant; so it
may in the atoms (relation, names) of `optional`, whose own names are the last of the head. `domains` says what a name ranges
over, where there is more than one domain, and `properties` what values have: properties[domain][property][value], None where it
is missing.
"""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations, product
from math import inf

OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


def undirected(edges):
    """Both directions of every edge, without loops."""
    return {(a, b) for s, d in edges for a, b in ((s, d), (d, s)) if a != b}


def matches(
    relations,
    head,
    atoms,
    filters=(),
    *,
    distinct=False,
    unique=False,
    induced=False,
    symmetric=False,
    domains=None,
    properties=None,
    optional=(),
):
    """The list of matches as tuples in the order of the head; for `unique`, the smallest of each class."""
    relations = {name: set(map(tuple, tuples)) for name, tuples in relations.items()}
    injective = distinct or unique or induced
    positive = [a for a in atoms if not a[2]]
    values = {}
    for relation, names, _ in positive:
        for column, name in enumerate(names):
            here = {t[column] for t in relations[relation] if len(t) == len(names)}
            values[name] = values[name] & here if name in values else here
    domains = domains or dict.fromkeys(head)
    names = tuple(name for name in head if name in values)
    found = []
    for at in _bindings(relations, names, positive, values):
        if injective and len({(domains[n], at[n]) for n in names}) < len(names):
            continue
        if any(_tuples(relations[r], names, at) for r, names, negated in atoms if negated):
            continue
        known = at, domains, properties
        if not all(_holds(_value(left, *known), op, _value(right, *known)) for left, op, right in filters):
            continue
        if induced and _extra(relations, positive, names, at, symmetric, domains):
            continue
        found += (tuple(whole[name] for name in head) for whole in _with_optional(relations, optional, at))
    if unique:
        group = automorphisms(head, atoms, filters, symmetric=symmetric, induced=induced)
        found = sorted({min(tuple(b[i] for i in p) for p in group) for b in found})
    return found


def _bindings(relations, names, atoms, values, at=None):
    """Every binding of the names that satisfies the atoms; an atom is tested as soon as all its names are bound."""
    at = at or {}
    if len(at) == len(names):
        yield at
        return
    name = names[len(at)]
    known = {*at, name}
    due = [(r, asked) for r, asked, _ in atoms if name in asked and known.issuperset(asked)]
    for value in sorted(values[name], key=repr):
        longer = {**at, name: value}
        if all(tuple(longer[n] for n in asked) in relations[r] for r, asked in due):
            yield from _bindings(relations, names, atoms, values, longer)


def _tuples(relation, names, at):
    """The tuples of a relation that agree with a binding; what it does not bind is free, but one name is one value."""
    found = []
    for row in relation:
        own = {}
        if len(row) == len(names) and all(_agrees(name, value, at, own) for name, value in zip(names, row, strict=True)):
            found.append(own)
    return found


def _agrees(name, value, at, own):
    if name is None:
        return True
    if isinstance(name, tuple):
        return _holds(value, "=", name)
    return at[name] == value or at[name] is value if name in at else own.setdefault(name, value) == value


def _with_optional(relations, optional, at):
    """The binding with every combination of what optional atoms add to it, or NULL where one has nothing to add."""
    choices = []
    for relation, names in optional:
        own = {name: None for name in names if isinstance(name, str) and name not in at}
        if own:
            choices.append(_tuples(relations[relation], names, at) or [own])
    for combination in product(*choices):
        whole = dict(at)
        for more in combination:
            whole |= more
        yield whole


def automorphisms(head, atoms, filters=(), *, symmetric=False, induced=False):
    """The permutations of positions that map the atoms and the filters to themselves, for matches whose values differ."""

    def atom(relation, names, negated):
        return relation, (frozenset(names[:2]), *names[2:]) if symmetric else tuple(names), negated

    def comparison(left, op, right):
        if isinstance(left, str) and isinstance(right, str) and left != right:
            op = {"<=": "<", ">=": ">"}.get(op, op)  # the same, where values differ
        flip = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
        return frozenset([(left, op, right), (right, flip[op], left)])

    def trivial(left, op, right):
        ids = isinstance(left, str) and isinstance(right, str)
        return ids and ((op == "!=" and left != right) or (left == right and op in ("=", "<=", ">=")))

    def renamed(side, to):
        return (side[0], to[side[1]], side[2]) if side[0] == "property" else to.get(side, side)

    filters = [f for f in filters if not trivial(*f)]
    joined = {relation for relation, _, negated in atoms if not negated}
    if induced:  # it says so already, of all attributes alike
        atoms = [a for a in atoms if not (a[2] and a[0] in joined and len(a[1]) == 2)]
    wanted = {atom(*a) for a in atoms}, {comparison(*f) for f in filters}
    group = []
    for image in permutations(range(len(head))):
        to = {name: head[i] for name, i in zip(head, image, strict=True)}
        mapped = (
            {atom(r, [to[n] for n in names], negated) for r, names, negated in atoms},
            {comparison(renamed(left, to), op, renamed(right, to)) for left, op, right in filters},
        )
        if mapped == wanted:
            group.append(image)
    return group


def _extra(relations, positive, head, at, symmetric, domains):
    """Whether a relation of the query holds a pair of the match's values that no atom asks for."""
    for relation, ends in {(r, domains[names[0]]) for r, names, _ in positive if len(names) > 1}:
        asked = {tuple(at[n] for n in names[:2]) for r, names, _ in positive if r == relation}
        if symmetric:
            asked |= {t[::-1] for t in asked}
        values = [at[n] for n in head if domains[n] == ends]
        if any(t in relations[relation] and t not in asked for t in product(values, repeat=2)):
            return True
    return False


def _value(side, at, domains, properties):
    if isinstance(side, str):
        return at[side]
    if side[0] == "tuple":
        return repr([at[name] for name in side[1:]])
    return side if side[0] == "const" else properties[domains[side[1]]][side[2]][at[side[1]]]


def _holds(left, op, right):
    """Whether a comparison holds: never with what is missing; a constant is read as what it is compared with."""
    left, right = _moment(left), _moment(right)
    if isinstance(left, tuple):
        left = _as(left[1], right)
    elif isinstance(right, tuple):
        right = _as(right[1], left)
    elif isinstance(left, Decimal) != isinstance(right, Decimal) and float in (type(left), type(right)):
        left, right = float(left), float(right)
    if left is None or right is None:
        return False
    if left != left or right != right:  # as in SQL, NaN equals itself and is larger than any number
        left, right = left != left, right != right
    return OPERATORS[op](left, right)


def _as(constant, value):
    if isinstance(value, datetime):
        moment = datetime.fromisoformat(constant)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if isinstance(value, float):
        try:
            return float(constant)
        except OverflowError:  # beyond any number that a double can be
            return inf if constant > 0 else -inf
    return Decimal(str(constant)) if isinstance(value, Decimal) else constant


def _moment(value):
    """A date or a time as a time without a zone, which is UTC; other values as they are."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return datetime(value.year, value.month, value.day) if isinstance(value, date) else value
