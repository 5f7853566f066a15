"""The brute-force oracle: every binding of every attribute, tested against the definition. It imports nothing of ours.

A query here is plain data: head names, atoms (relation, names, negated) and filters (left, operator, right), where a name is a
str and a constant is a tuple ("const", value).
"""

from __future__ import annotations

import operator
from itertools import permutations, product

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


def matches(relations, head, atoms, filters=(), *, distinct=False, unique=False, induced=False, symmetric=False):
    """The list of matches as tuples in the order of the head; for `unique`, the smallest of each class."""
    relations = {name: set(map(tuple, tuples)) for name, tuples in relations.items()}
    injective = distinct or unique or induced
    positive = [a for a in atoms if not a[2]]
    values = {}
    for relation, names, _ in positive:
        for column, name in enumerate(names):
            here = {t[column] for t in relations[relation]}
            values[name] = values[name] & here if name in values else here
    found = []
    for binding in product(*(sorted(values[name]) for name in head)):
        at = dict(zip(head, binding, strict=True))
        if injective and len(set(binding)) < len(binding):
            continue
        if not all((tuple(at[n] for n in names) in relations[r]) != negated for r, names, negated in atoms):
            continue
        if not all(OPERATORS[op](_value(left, at), _value(right, at)) for left, op, right in filters):
            continue
        if induced and _extra(relations, positive, head, at, symmetric):
            continue
        found.append(binding)
    if unique:
        group = automorphisms(head, atoms, filters, symmetric=symmetric, induced=induced)
        found = sorted({min(tuple(b[i] for i in p) for p in group) for b in found})
    return found


def automorphisms(head, atoms, filters=(), *, symmetric=False, induced=False):
    """The permutations of positions that map the atoms and the filters to themselves, for matches whose values differ."""

    def atom(relation, names, negated):
        return relation, frozenset(names) if symmetric else tuple(names), negated

    def comparison(left, op, right):
        if isinstance(left, str) and isinstance(right, str) and left != right:
            op = {"<=": "<", ">=": ">"}.get(op, op)  # the same, where values differ
        flip = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
        return frozenset([(left, op, right), (right, flip[op], left)])

    def trivial(left, op, right):
        return (isinstance(left, str) and isinstance(right, str) and op == "!=" and left != right) or (
            left == right and op in ("=", "<=", ">=")
        )

    filters = [f for f in filters if not trivial(*f)]
    atoms = [a for a in atoms if not (induced and a[2])]  # `induced` says so already, of all attributes alike
    wanted = {atom(*a) for a in atoms}, {comparison(*f) for f in filters}
    group = []
    for image in permutations(range(len(head))):
        to = {name: head[i] for name, i in zip(head, image, strict=True)}
        mapped = (
            {atom(r, [to[n] for n in names], negated) for r, names, negated in atoms},
            {comparison(to.get(left, left), op, to.get(right, right)) for left, op, right in filters},
        )
        if mapped == wanted:
            group.append(image)
    return group


def _extra(relations, positive, head, at, symmetric):
    """Whether a relation of the query holds a tuple over the match's values that no atom asks for."""
    for relation in {r for r, _, _ in positive}:
        asked = {tuple(at[n] for n in names) for r, names, _ in positive if r == relation}
        if symmetric:
            asked |= {t[::-1] for t in asked}
        arity = len(next(iter(asked)))
        if any(t in relations[relation] and t not in asked for t in product([at[n] for n in head], repeat=arity)):
            return True
    return False


def _value(side, at):
    return at[side] if isinstance(side, str) else side[1]
