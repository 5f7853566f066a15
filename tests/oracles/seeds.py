"""What seeds mean: of all matches those that satisfy them, one of each class under the automorphisms that keep them.

Seeds are plain data here: pairs of names and rows, where a row has a value for each name. It imports nothing of ours.
"""

from __future__ import annotations

from tests.oracles import naive


def matches(relations, head, atoms, filters=(), *, seeds, unique=False, symmetric=False, induced=False, **flags):
    """The matches that satisfy all seeds, and the group by which those of `unique` are told apart."""
    flags |= {"distinct": unique or flags.get("distinct", False), "symmetric": symmetric, "induced": induced}
    every = naive.matches(relations, head, atoms, filters, **flags)
    found = [match for match in every if all(_satisfies(dict(zip(head, match, strict=True)), one) for one in seeds)]
    if not unique:
        return found, None
    every = naive.automorphisms(head, atoms, filters, symmetric=symmetric, induced=induced)
    group = [image for image in every if _keeps(dict(zip(head, (head[i] for i in image), strict=True)), seeds)]
    return sorted({representative(match, group) for match in found}), group


def representative(match, group):
    """The smallest of a match's class."""
    return min(tuple(match[i] for i in image) for image in group)


def _satisfies(at, seeds):
    names, rows = seeds
    return tuple(at[name] for name in names) in {tuple(row) for row in rows if None not in row}


def _keeps(to, seeds):
    """Whether renaming the attributes turns seeds into themselves: the same sets of rows, each with its names."""
    return {_said(names, rows, to) for names, rows in seeds} == {_said(names, rows, {}) for names, rows in seeds}


def _said(names, rows, to):
    names = [to.get(name, name) for name in names]
    return frozenset(names), frozenset(frozenset(zip(names, row, strict=True)) for row in rows if None not in row)
