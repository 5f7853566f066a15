"""How the blocks of a statement are joined: by which keys, and what of their sub-blocks is an atom, and what a join of rows.

Equalities between columns of two tables make these columns one attribute, so that `e a JOIN e b ON a.dst = b.src` is
e(x, y), e(y, z). A sub-block of one table that is joined by equalities alone is one more atom: positive for EXISTS, negated for
NOT EXISTS, optional for LEFT JOIN. Any other sub-block is a query of its own, whose rows are joined by the attributes that it
shares: keys that cannot be NULL, or else the rows of the tables that it names, which it then reads once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from bigjoin.errors import QueryError
from bigjoin.languages.sql_scope import SubBlock, TableBlock, Use
from bigjoin.languages.sql_strict import is_missing, refuses_nulls
from bigjoin.languages.sql_tables import SqlTables, TableKey, key_of
from bigjoin.languages.sql_tree import SqlExpression, span_of, uses_of
from bigjoin.query.expressions import Call
from bigjoin.query.optional import MAX_OPTIONAL_ATOMS
from bigjoin.query.terms import Property

KeyOfUse: TypeAlias = tuple[str, TableKey]
"""The name of a use, and a key of its table."""


MAX_KEYS = 4
"""Keys by which two uses are joined; further equalities are filters. Plans weigh every order of an atom's attributes."""


class KeyClasses:
    """Keys of uses that are equal, in classes."""

    def __init__(self) -> None:
        self.parents: dict[KeyOfUse, KeyOfUse] = {}

    def first(self, key: KeyOfUse) -> KeyOfUse:
        """Return the key that stands for a class."""
        while (parent := self.parents.setdefault(key, key)) != key:
            key = parent
        return key

    def unite(self, one: KeyOfUse, other: KeyOfUse) -> None:
        """Make two keys equal."""
        first, second = self.first(one), self.first(other)
        self.parents[second] = first

    def is_full(self, one: KeyOfUse, other: KeyOfUse) -> bool:
        """Tell whether two uses are joined already, and by as many keys as plans should weigh."""
        keys = [{key for name, key in self.parents if name == use} | {key} for use, key in (one, other)]
        joined = any({one[0], other[0]} <= {use for use, _ in equal} for equal in self.joined().values())
        return joined and max(map(len, keys)) > MAX_KEYS

    def joined(self) -> dict[KeyOfUse, list[KeyOfUse]]:
        """Return the classes of several keys, by the first of each."""
        found: dict[KeyOfUse, list[KeyOfUse]] = {}
        for key in self.parents:
            found.setdefault(self.first(key), []).append(key)
        return {first: keys for first, keys in found.items() if len(keys) > 1}


@dataclass(frozen=True)
class AtomBlock:
    """A sub-block that is one atom of the block around it: what its keys equal there, and which rows it reads."""

    use: Use
    sub: SubBlock
    keys: tuple[tuple[TableKey, KeyOfUse], ...]
    where: tuple[SqlExpression, ...]


@dataclass
class BlockDraft:
    """A block whose joins are decided."""

    block: TableBlock
    outer: BlockDraft | None = None
    sub: SubBlock | None = None
    copies: list[Use] = field(default_factory=list)
    """Uses of the block around it that it reads once more; their rows are shared."""
    classes: KeyClasses = field(default_factory=KeyClasses)
    shares: dict[KeyOfUse, KeyOfUse] = field(default_factory=dict)
    """Its keys that equal keys of the block around it, which are shared."""
    filters: list[SqlExpression] = field(default_factory=list)
    later: list[SqlExpression] = field(default_factory=list)
    """Conditions about tables that may be missing, for when these have been joined."""
    demanded: set[KeyOfUse] = field(default_factory=set)
    """Keys that have to be attributes, since sub-blocks share them."""
    rows: set[str] = field(default_factory=set)
    """Uses whose rows have to be attributes, since sub-blocks share them."""
    atoms: list[AtomBlock] = field(default_factory=list)
    subs: list[BlockDraft] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        """Whether it matters how often a row occurs: not where it only has to exist."""
        return self.sub is None or (self.sub.kind == "optional" and self.outer is not None and self.outer.counts)

    @property
    def uses(self) -> list[Use]:
        """All tables that it reads."""
        return [*self.block.uses, *self.copies]

    def use(self, name: str) -> Use:
        """Return a use by its name."""
        return next(use for use in self.uses if use.name == name)

    def is_shared(self, key: KeyOfUse) -> bool:
        """Tell whether a key equals one of the block around it."""
        return any(self.classes.first(one) == self.classes.first(key) for one in self.shares)

    def walk(self) -> Iterator[BlockDraft]:
        """Give the draft and those of its sub-blocks."""
        yield self
        for sub in self.subs:
            yield from sub.walk()

    def is_connected(self) -> bool:
        """Tell whether equalities, or keys that equal one of the block around it, join all uses."""
        scopes = [{use for use, _ in keys} for keys in self.classes.joined().values()]
        for outside in set(self.shares.values()):
            scopes.append({use for (use, _), known in self.shares.items() if known == outside})
        found = [{use.name} for use in self.uses]
        for scope in scopes:
            touched = [part for part in found if part & scope]
            found = [part for part in found if part not in touched] + ([set[str]().union(*touched)] if touched else [])
        return len(found) == 1


@dataclass(frozen=True)
class BlockDrafting:
    """Decides the joins of blocks, given a source's tables and what is computed of the rows."""

    tables: SqlTables
    outputs: tuple[SqlExpression, ...]

    def draft(self, block: TableBlock, outer: BlockDraft | None = None, sub: SubBlock | None = None) -> BlockDraft:
        """Decide the joins of a block and of its sub-blocks."""
        draft = BlockDraft(block, outer, sub)
        own = {use.name for use in block.uses}
        optional = {use.name for use in block.all_uses()} - own
        linking = []
        for condition in block.conditions:
            names = uses_of(condition)
            if names & optional:
                if outer is not None:
                    _refuse(condition, "a condition about a table that may be missing, within a subquery or LEFT JOIN,")
                draft.later.append(condition)
            elif names - own:
                linking.append(condition)
            else:
                self._add(draft, condition)
        if outer is not None:
            self._link(draft, outer, linking)
        for inner in block.subs:
            self._check_unknown(inner, draft)
            if (atom := self._as_atom(inner, draft)) is not None:
                draft.atoms.append(atom)
                draft.demanded |= {outside for _, outside in atom.keys}
            else:
                draft.subs.append(self.draft(inner.block, draft, inner))
        return draft

    # Conditions

    def _add(self, draft: BlockDraft, condition: SqlExpression) -> None:
        """Add a condition about the uses of a draft: an equality of two of them makes their keys one attribute."""
        sides = self._equality(condition, draft.uses)
        if sides is not None and not draft.classes.is_full(*sides):
            draft.classes.unite(*sides)
        elif self.tables.truth(condition) is not True and condition not in draft.filters:
            draft.filters.append(condition)

    def _equality(self, condition: SqlExpression, uses: Iterable[Use]) -> tuple[KeyOfUse, KeyOfUse] | None:
        """Return the keys that an equality between two uses is about; None if it is none, or they cannot be joined."""
        match condition:
            case Call("=", (left, right)):
                one, other = uses_of(left), uses_of(right)
                if len(one) != 1 or len(other) != 1 or one == other:
                    return None
                tables = {use.name: use.table for use in uses}
                (first,), (second,) = one, other
                keys = self.tables.common_keys((tables[first], key_of(left)), (tables[second], key_of(right)))
                return None if keys is None else ((first, keys[0]), (second, keys[1]))
        return None

    def _never_null(self, draft: BlockDraft, key: KeyOfUse) -> bool:
        """Tell whether a key is never NULL in the rows of a draft."""
        is_joined = draft.classes.first(key) in draft.classes.joined()
        return is_joined or not self.tables.may_be_null(draft.use(key[0]).table, key[1])

    # Sub-blocks

    def _link(self, draft: BlockDraft, outer: BlockDraft, linking: list[SqlExpression]) -> None:
        """Join a sub-block to the block around it: share keys if that is enough, otherwise rows of tables."""
        own = {use.name for use in draft.block.uses}
        named = set[str]().union(*map(uses_of, linking)) - own
        for condition in linking:
            if any(_home(name, outer) is None for name in uses_of(condition) - own):
                hint = "a subquery can name the tables of the SELECT around it, and a LEFT JOIN those before it"
                _refuse(condition, "a condition about a table further outside, or joined later,", hint)
        if self._share(draft, outer, linking) and draft.is_connected():
            for name, key in draft.shares.values():
                home = _home(name, outer)
                assert home is not None
                home.demanded.add((name, key))
            return
        draft.shares = {}
        for names in (named, named | {use.name for use in outer.block.uses}):
            self._copy(draft, outer, linking, names)
            for condition in linking:
                self._add(draft, condition)
            if draft.is_connected():
                return

    def _share(self, draft: BlockDraft, outer: BlockDraft, linking: list[SqlExpression]) -> bool:
        """Share keys with the block around, if all conditions are equalities with such that are never NULL there."""
        assert draft.sub is not None
        own = {use.name for use in draft.block.uses}
        around = [*outer.block.all_uses(), *draft.uses]
        for condition in linking:
            sides = self._equality(condition, around)
            if sides is None or not uses_of(condition) & own:
                return False
            inner, outside = sides if sides[0][0] in own else (sides[1], sides[0])
            home = _home(outside[0], outer)
            assert home is not None
            drops_nulls = draft.sub.kind == "exists" and home is outer  # rows with a NULL are none of the result anyway
            if not drops_nulls and not self._never_null(home, outside):
                return False
            if home is not outer and home.is_shared(outside):  # it would have a value even where its table is missing
                return False
            if draft.shares.setdefault(inner, outside) != outside or len(draft.shares) > MAX_KEYS:
                return False
        first = draft.classes.first
        return len({first(inner) for inner in draft.shares}) == len({(first(i), o) for i, o in draft.shares.items()})

    def _copy(self, draft: BlockDraft, outer: BlockDraft, linking: list[SqlExpression], names: set[str]) -> None:
        """Let a sub-block read uses of the block around it once more, with what is known of them, and share their rows."""
        for name in sorted(names - {use.name for use in draft.copies}):
            home = _home(name, outer)
            assert home is not None
            if home is not outer and not any(refuses_nulls(condition, {name}) for condition in linking):
                about = next(condition for condition in linking if name in uses_of(condition))
                _refuse(about, "a condition that may hold where a table of a LEFT JOIN is missing")
            home.rows.add(name)
            draft.copies.append(home.use(name))
        here = {use.name for use in draft.copies}
        for condition in _known_conditions(outer):
            if uses_of(condition) <= here:
                self._add(draft, condition)

    def _as_atom(self, sub: SubBlock, outer: BlockDraft) -> AtomBlock | None:
        """Return a sub-block as an atom of the block around it, if one atom can say it."""
        block = sub.block
        if len(block.uses) != 1 or block.subs:
            return None
        (use,) = block.uses
        keys: dict[TableKey, KeyOfUse] = {}
        where = [condition for condition in block.conditions if uses_of(condition) <= {use.name}]
        for condition in (condition for condition in block.conditions if condition not in where):
            names = uses_of(condition) - {use.name}
            if any(name not in {one.name for one in outer.block.uses} for name in names):
                return None
            sides = self._equality(condition, (use, *outer.block.uses))
            if sides is None or use.name not in uses_of(condition):
                return None
            inner, outside = sides if sides[0][0] == use.name else (sides[1], sides[0])
            if keys.setdefault(inner[1], outside) != outside:
                return None
            if sub.kind != "exists" and not self._never_null(outer, outside):
                return None
        where = [condition for condition in where if self.tables.truth(condition) is not True]
        if not 0 < len(keys) <= MAX_KEYS or (where and not self.tables.filters(use.table)):
            return None
        if sub.kind == "optional" and not self._may_be_optional(use, outer):
            return None
        return AtomBlock(use, sub, tuple(keys.items()), tuple(where))

    def _may_be_optional(self, use: Use, outer: BlockDraft) -> bool:
        """Tell whether a LEFT JOIN can be an optional atom: its columns are shown as they are, and nothing else is."""
        if outer.outer is not None or sum(atom.sub.kind == "optional" for atom in outer.atoms) >= MAX_OPTIONAL_ATOMS:
            return False
        elsewhere = [*outer.block.conditions, *(c for sub in outer.block.subs for c in _all_conditions(sub, without=use))]
        is_named = any(use.name in uses_of(condition) for condition in elsewhere)
        shown = (part for part in self.outputs if use.name in uses_of(part))
        return not is_named and all(isinstance(part, Property) for part in shown)

    def _check_unknown(self, sub: SubBlock, outer: BlockDraft) -> None:
        """Refuse a NOT IN that may be unknown: with a NULL on either side it is neither true nor false."""
        tables = {use.name: use.table for use in (*sub.block.uses, *outer.block.uses)}
        for expression in sub.unknown:
            names = uses_of(expression)
            known = len(names) == 1 and names <= tables.keys()
            if not known or self.tables.may_be_null(tables[next(iter(names))], key_of(expression)):
                hint = "write NOT EXISTS (SELECT ... WHERE y = x), which is true where there is no such row"
                raise QueryError("NOT IN with a SELECT, where a side may be NULL, is not read", sub.span, hint)


def settle(block: TableBlock, tables: SqlTables, outputs: tuple[SqlExpression, ...]) -> None:
    """Turn LEFT JOINs into inner joins where no padded row gets through, and into NOT EXISTS where only padded ones do."""
    changed = True
    while changed:
        changed = False
        for place, sub in enumerate(block.subs):
            mine = {use.name for use in sub.block.all_uses()}
            if sub.kind != "optional":
                continue
            needed = [c for other in block.subs if other.kind == "exists" for c in other.block.conditions]
            if any(refuses_nulls(condition, mine) for condition in (*block.conditions, *needed)):
                block.uses += sub.block.uses
                block.conditions += sub.block.conditions
                block.subs[place : place + 1] = sub.block.subs
                changed = True
                break
            if (condition := _only_missing(block, sub, tables, outputs)) is not None:
                block.conditions.remove(condition)
                sub.kind = "not exists"
                changed = True
                break
    for sub in block.subs:
        settle(sub.block, tables, outputs)


def _only_missing(
    block: TableBlock, sub: SubBlock, tables: SqlTables, outputs: tuple[SqlExpression, ...]
) -> SqlExpression | None:
    """Return the condition `b.x IS NULL` that only rows without a match of b satisfy, if b is named nowhere else."""
    mine = {use.name: use.table for use in sub.block.uses}
    for condition in block.conditions:
        column = is_missing(condition)
        if column is None or column.attribute not in mine:
            continue
        is_matched = any(refuses_nulls(part, {column}) for part in sub.block.conditions)
        elsewhere = [c for c in block.conditions if c is not condition]
        elsewhere += [c for other in block.subs if other is not sub for c in _all_conditions(other)]
        is_named = any(uses_of(part) & {use.name for use in sub.block.all_uses()} for part in (*elsewhere, *outputs))
        if not is_named and (is_matched or not tables.may_be_null(mine[column.attribute], key_of(column))):
            return condition
    return None


def _all_conditions(sub: SubBlock, without: Use | None = None) -> Iterator[SqlExpression]:
    """Give the conditions of a sub-block and of those within it, except for that of one use."""
    if without is None or without not in sub.block.uses:
        yield from (*sub.block.conditions, *sub.unknown)
    for inner in sub.block.subs:
        yield from _all_conditions(inner, without)


def _known_conditions(outer: BlockDraft) -> Iterator[SqlExpression]:
    """Give the conditions that the rows of a block satisfy, and those about a LEFT JOIN's rows, if it has found some."""
    yield from outer.block.conditions
    for sub in (sub for sub in outer.block.subs if sub.kind == "optional"):
        own = {use.name for use in sub.block.uses}
        yield from (condition for condition in sub.block.conditions if uses_of(condition) & own)


def _home(use: str, outer: BlockDraft) -> BlockDraft | None:
    """Return the draft that binds a use of a block or of its LEFT JOINs, None if it lies further outside."""
    if any(one.name == use for one in outer.block.uses):
        return outer
    optional = (sub for sub in outer.subs if sub.sub is not None and sub.sub.kind == "optional")
    return next((found for sub in optional if (found := _home(use, sub)) is not None), None)


def _refuse(condition: SqlExpression, what: str, hint: str | None = None) -> NoReturn:
    raise QueryError(f"{what} is not read", span_of(condition), hint)
