"""From drafts to queries: each use of a table becomes an atom, each key an attribute, and other columns properties of a row.

Uses of one table read the same keys where they can, so that they share tries and plans see one relation. A use needs its row
where a column that is no key is looked at, or where rows with equal keys have to be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bigjoin.errors import DisconnectedError, QueryError
from bigjoin.languages.sql_drafts import AtomBlock, BlockDraft, KeyOfUse
from bigjoin.languages.sql_scope import FreshNames, Use
from bigjoin.languages.sql_tables import SqlTables, TableKey, TableRead, column_key, key_of
from bigjoin.languages.sql_tree import SqlExpression, inside, span_of
from bigjoin.query.expressions import Call, Expression, Predicate, mapped
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import Atom, Comparison, Query, QueryFilter, conditions
from bigjoin.query.statement import QueryBlock, Subpattern
from bigjoin.query.terms import Property

MAX_SHARED_KEYS = 3
"""Keys that uses of a table have in common: plans weigh every order of an atom's attributes."""

_Place = tuple[int, str]
"""The number of a draft, and the name of a use in it."""


@dataclass(frozen=True)
class _Read:
    """How a use is read in a draft."""

    use: Use
    keys: tuple[TableKey, ...]
    row: bool


class Queries:
    """The queries of a statement's drafts, and what each column is in them."""

    def __init__(
        self, main: BlockDraft, tables: SqlTables, fresh: FreshNames, outputs: Sequence[SqlExpression], cross_product: bool
    ) -> None:
        self.tables, self.fresh, self.cross_product = tables, fresh, cross_product
        self.drafts = list(main.walk())
        self.columns = self._referenced(outputs)
        self.attributes: dict[tuple[int, KeyOfUse], str] = {}
        """By draft, and by the first key of a class: its attribute."""
        self.domains: dict[str, set[tuple[str, TableKey]]] = {}
        """By attribute: the columns that it ranges over."""
        self.reads = self._reads()
        self.optional = {atom.use.name: self._optional_read(atom) for atom in main.atoms if atom.sub.kind == "optional"}
        self.main = self._block(main)

    # What is looked at

    def _referenced(self, outputs: Sequence[SqlExpression]) -> dict[_Place, set[str]]:
        """Return the columns of each use that a draft looks at, besides equalities of keys."""
        found: dict[_Place, set[str]] = {(n, use.name): set() for n, draft in enumerate(self.drafts) for use in draft.uses}
        homes = {use.name: n for n, draft in enumerate(self.drafts) for use in draft.block.uses}

        def look(number: int | None, expression: SqlExpression) -> None:
            for part in inside(expression):
                if isinstance(part, Property):
                    place = homes.get(part.attribute, 0) if number is None else number
                    found.setdefault((place, part.attribute), set()).add(part.name)

        for number, draft in enumerate(self.drafts):
            for condition in draft.filters:
                look(number, condition)
            for condition in draft.later:
                look(None, condition)
        for output in outputs:
            look(None, output)
        return found

    def _joined(self, number: int, use: str) -> set[TableKey]:
        """Return the keys of a use that are joined to others, or shared."""
        draft = self.drafts[number]
        known = [key for keys in draft.classes.joined().values() for key in keys]
        return {key for name, key in (*known, *draft.shares, *draft.demanded) if name == use}

    # How tables are read

    def _reads(self) -> dict[_Place, _Read]:
        joined = {place: self._joined(*place) for place in self.columns if place[1] in self._names(place[0])}
        optional = [atom for atom in self.drafts[0].atoms if atom.sub.kind == "optional"]
        of_table: dict[str, list[set[TableKey]]] = {}
        looked_at: dict[str, set[TableKey]] = {}
        for place, keys in joined.items():
            table = self.drafts[place[0]].use(place[1]).table
            of_table.setdefault(table, []).append(keys)
            looked_at.setdefault(table, set()).update(keys, map(column_key, self.columns[place]))
        for atom in optional:
            of_table.setdefault(atom.use.table, []).append({key for key, _ in atom.keys})
            looked = map(column_key, self.columns.get((0, atom.use.name), ()))
            looked_at.setdefault(atom.use.table, set()).update((key for key, _ in atom.keys), looked)
        self.shared = {table: self._shared_keys(table, keys, looked_at[table]) for table, keys in of_table.items()}
        return {place: self._read(*place, keys) for place, keys in joined.items()}

    def _names(self, number: int) -> set[str]:
        return {use.name for use in self.drafts[number].uses}

    def _shared_keys(self, table: str, joined: list[set[TableKey]], looked_at: set[TableKey]) -> tuple[TableKey, ...] | None:
        """Return the keys that all uses of a table have, or None if each has its own.

        Two columns at most, without NULLs and equal rows, are keys even if they are not joined: then no use needs its row.
        """
        if (fixed := self.tables.fixed_keys(table)) is not None:
            return fixed
        keys = set[TableKey]().union(*joined)
        never_null = not any(self.tables.may_be_null(table, key) for key in keys)
        if 0 < len(looked_at) <= 2 and self._is_set(table, looked_at):
            return self._ordered(table, looked_at)
        return self._ordered(table, keys) if never_null and len(keys) <= MAX_SHARED_KEYS else None

    def _is_set(self, table: str, keys: set[TableKey]) -> bool:
        """Tell whether some keys are never NULL, and no two rows agree in them."""
        return not any(self.tables.may_be_null(table, key) for key in keys) and self.tables.is_distinct(table, keys)

    def _ordered(self, table: str, keys: set[TableKey]) -> tuple[TableKey, ...]:
        """Return keys in the order of the table's columns, those that are computed last."""
        order = {column_key(column): place for place, column in enumerate(self.tables.columns(table))}
        return tuple(sorted(keys, key=lambda key: (order.get(key, len(order)), str(key))))

    def _read(self, number: int, name: str, joined: set[TableKey]) -> _Read:
        draft = self.drafts[number]
        use = draft.use(name)
        keys = self.shared[use.table] or self._ordered(use.table, joined)
        is_copy = use in draft.copies
        if is_copy or name in draft.rows:
            self.tables.check_row(use.table, use.span)
        needs_row = is_copy or name in draft.rows or self._looks_beyond(use, self.columns[number, name], keys)
        if draft.sub is not None and draft.sub.kind == "optional" and not needs_row:
            shared = {key for key in keys if draft.is_shared((name, key))}
            needs_row = shared == set(keys)  # nothing else tells whether there is a row
        if not needs_row and draft.counts:
            needs_row = not self.tables.is_distinct(use.table, keys)
        return _Read(use, keys, needs_row or not keys)

    def _looks_beyond(self, use: Use, columns: set[str], keys: tuple[TableKey, ...]) -> bool:
        """Tell whether columns of a row are looked at that are no keys."""
        return self.tables.row_key(use.table) is None and not {column_key(column) for column in columns} <= set(keys)

    def _optional_read(self, atom: AtomBlock) -> _Read:
        joined = {key for key, _ in atom.keys}
        keys = self.shared[atom.use.table] or self._ordered(atom.use.table, joined)
        shown = {column_key(column) for column in self.columns.get((0, atom.use.name), ())}
        needs_row = self._looks_beyond(atom.use, self.columns.get((0, atom.use.name), set()), keys)
        needs_row = needs_row or (bool(shown & joined) and set(keys) <= joined)
        return _Read(atom.use, keys, needs_row or not self.tables.is_distinct(atom.use.table, keys))

    # Attributes

    def _attribute(self, number: int, key: KeyOfUse) -> str:
        """Return the attribute of a key: that of its class, or of the key of the block around it that it shares."""
        draft = self.drafts[number]
        first = draft.classes.first(key)
        if (number, first) not in self.attributes:
            shared = next((known for one, known in draft.shares.items() if draft.classes.first(one) == first), None)
            if shared is not None:
                home = self._home(shared[0])
                assert home is not None
                self.attributes[number, first] = self._attribute(home, shared)
            else:
                order = [use.name for use in draft.uses]
                equal = [known for known in draft.classes.parents if draft.classes.first(known) == first and known[0] in order]
                use, named = min(equal or [first], key=lambda known: order.index(known[0]) if known[0] in order else len(order))
                self.attributes[number, first] = self.fresh.name(f"{use}.{_name_of(named)}")
        return self.attributes[number, first]

    def _home(self, use: str) -> int | None:
        """Return the number of the draft whose own use has a name; None if it is an optional atom."""
        return next((n for n, draft in enumerate(self.drafts) if any(u.name == use for u in draft.block.uses)), None)

    def term(self, column: Property) -> Expression:
        """Return what a column of a statement's rows is: an attribute, or a property of a row.

        A key of a LEFT JOIN that equals one of the block around it is that attribute, where the LEFT JOIN finds a row.
        """
        home = self._home(column.attribute)
        if home is None:
            joined = dict(next(atom.keys for atom in self.drafts[0].atoms if atom.use.name == column.attribute))
            read, equal = self.optional[column.attribute], {key: self._attribute(0, known) for key, known in joined.items()}
        else:
            draft, read = self.drafts[home], self.reads[home, column.attribute]
            is_optional = draft.sub is not None
            keys = [key for key in read.keys if is_optional and draft.is_shared((column.attribute, key))]
            equal = {key: self._attribute(home, (column.attribute, key)) for key in keys}
        if key_of(column) not in read.keys:
            return self._property(home or 0, read, column)
        if key_of(column) not in equal:
            return self._attribute(home or 0, (column.attribute, key_of(column)))
        own = [self._attribute(home or 0, (column.attribute, key)) for key in read.keys if key not in equal]
        if not read.row and not own:
            hint = "show the column that it equals"
            raise QueryError(f"'{column}', which may be missing, cannot be told from what it equals", column.span, hint)
        return Call("case", (Call("is not null", (read.use.name if read.row else own[0],)), equal[key_of(column)]), column.span)

    def _term(self, number: int, column: Property) -> Expression:
        """Return what a column is in the query of one draft."""
        read = self.reads[number, column.attribute]
        if key_of(column) in read.keys:
            return self._attribute(number, (column.attribute, key_of(column)))
        return self._property(number, read, column)

    def _property(self, number: int, read: _Read, column: Property) -> Property:
        """Return a column that is no key: a property of the row, or of the key that stands for it."""
        key = self.tables.row_key(read.use.table)
        of = read.use.name if key is None else self._attribute(number, (read.use.name, key))
        return Property(of, column.name, column.span)

    # Queries

    def _block(self, draft: BlockDraft) -> QueryBlock:
        number = self.drafts.index(draft)
        atoms = [self._atom(number, self.reads[number, use.name]) for use in draft.uses]
        atoms += [self._set_atom(number, atom) for atom in draft.atoms]
        filters = tuple(f for condition in draft.filters for f in self._filters(number, condition, atoms[0]))
        query = Query("sql", (atoms[0].attributes[0],), tuple(atoms), filters, cross_product=self.cross_product)
        if not self.cross_product:
            self._refuse_cross_product(draft, query)
        subs = []
        for sub in draft.subs:
            assert sub.sub is not None
            inner = self._block(sub)
            subs.append(Subpattern(inner, self._shared(sub), sub.sub.kind))
        return QueryBlock(query, tuple(subs))

    def _shared(self, draft: BlockDraft) -> tuple[str, ...]:
        """Return the attributes that a sub-block shares with the block around it."""
        number = self.drafts.index(draft)
        keys = [self._attribute(number, key) for key in draft.shares]
        return tuple(dict.fromkeys([*keys, *(use.name for use in draft.copies)]))

    def _atom(self, number: int, read: _Read) -> Atom:
        attributes = [self._attribute(number, (read.use.name, key)) for key in read.keys]
        self._note(read.use.table, read.keys, attributes)
        row = [read.use.name] * read.row
        return self.tables.atom(TableRead(read.use.table, read.keys, read.row), [*attributes, *row], read.use.span)

    def _set_atom(self, number: int, atom: AtomBlock) -> Atom:
        """Return the atom of a sub-block: of its keys alone, unless its columns are shown."""
        equal = {key: self._attribute(number, outside) for key, outside in atom.keys}
        parts = [mapped(condition, _unqualified) for condition in atom.where]
        where = parts[0] if len(parts) == 1 else Call("and", tuple(parts)) if parts else None
        if atom.sub.kind == "optional":
            read = self.optional[atom.use.name]
            keys, row = read.keys, read.row
            attributes = [equal[key] if key in equal else self._attribute(number, (atom.use.name, key)) for key in keys]
        else:
            keys, row = self._ordered(atom.use.table, set(equal)), False
            attributes = [equal[key] for key in keys]
        self._note(atom.use.table, keys, attributes)
        read_as = TableRead(atom.use.table, keys, row, where)
        found = self.tables.atom(read_as, [*attributes, *[atom.use.name] * row], atom.use.span)
        return replace(found, negated=atom.sub.kind == "not exists", optional=atom.sub.kind == "optional")

    def _note(self, table: str, keys: Sequence[TableKey], attributes: Sequence[str]) -> None:
        for key, attribute in zip(keys, attributes, strict=True):
            self.domains.setdefault(attribute, set()).add((table, key))

    # Conditions

    def _filters(self, number: int, condition: SqlExpression, first: Atom) -> tuple[QueryFilter, ...]:
        """Return a condition as filters of a query."""
        if self.tables.truth(condition) is False:
            some = first.attributes[0]
            return (Comparison(some, NOT_EQUAL.text, some, span=span_of(condition)),)
        if isinstance(condition, Property):
            kind = self.tables.columns(self.drafts[number].use(condition.attribute).table)[condition.name]
            if not kind.startswith("bool"):
                raise QueryError(f"'{condition}' is {kind}, and no condition", condition.span, "compare it with something")
        found = mapped(condition, lambda part: self._term(number, part) if isinstance(part, Property) else part)
        return tuple(self._comparable(f) for f in conditions(found, "sql", span_of(condition)))

    def _comparable(self, found: QueryFilter) -> QueryFilter:
        """Return a comparison of attributes that have no dictionary in common as one of their values."""
        if not isinstance(found, Comparison) or found.properties or not isinstance(found.right, str):
            return found
        if not isinstance(found.left, str) or self._domain(found.left) == self._domain(found.right):
            return found
        return Predicate(Call(found.op, (found.left, found.right), found.span), found.span)

    def _domain(self, attribute: str) -> frozenset[tuple[str, TableKey]]:
        """Return the columns that share a dictionary with those of an attribute, directly or through others."""
        found = set(self.domains.get(attribute, ()))
        while more := [columns for columns in self.domains.values() if columns & found and not columns <= found]:
            found = found.union(*more)
        return frozenset(found)

    def _refuse_cross_product(self, draft: BlockDraft, query: Query) -> None:
        """Refuse tables that no equality joins."""
        parts: list[set[str]] = []
        for scope in (set(atom.attributes) for atom in query.positive):
            touched = [part for part in parts if part & scope]
            parts = [part for part in parts if part not in touched] + [scope.union(*touched)]
        apart = []
        for part in parts:
            uses = zip(draft.uses, query.atoms, strict=False)
            apart.append(next(use for use, atom in uses if part & set(atom.attributes)))
        if len(parts) == 1 and (draft.sub is None or draft.sub.kind != "optional" or draft.shares or draft.copies):
            return
        self._refuse_types(draft)
        if len(parts) == 1:
            assert draft.outer is not None
            apart = [draft.outer.uses[0], *apart]
        names = " and ".join(use.name for use in apart[:2])
        message = f"no equality joins {names}, so the answer is a cross product"
        how = f"join them, as in ON {apart[0].name}.x = {apart[1].name}.y"
        raise DisconnectedError(message, apart[1].span, f"{how}, or ask for it with cross_product=True (--cross-product)")

    def _refuse_types(self, draft: BlockDraft) -> None:
        """Refuse an equality of two tables' columns whose types are not joined."""
        for condition in draft.filters:
            match condition:
                case Call("=", (Property(one, name) as left, Property(other, other_name) as right)) if one != other:
                    kinds = [
                        self.tables.columns(draft.use(use).table)[column] for use, column in ((one, name), (other, other_name))
                    ]
                    if any(self.tables.fixed_keys(draft.use(use).table) is not None for use in (one, other)):
                        hint = "give the tables by themselves, as in bj.sql(text, edge=...)"
                        raise QueryError("the tables of a graph are joined by their ids alone", span_of(condition), hint)
                    message = f"{left} is {kinds[0]}, and {right} is {kinds[1]}, which are not joined"
                    raise QueryError(message, span_of(condition), "cast one of them, so that both have one type")


def _unqualified(part: Expression) -> Expression:
    return key_of(part) if isinstance(part, Property) else part


def _name_of(key: TableKey) -> str:
    return key.name if isinstance(key, Property) else key.function.replace(" ", "_") if isinstance(key, Call) else "key"
