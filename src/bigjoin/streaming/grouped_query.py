"""Queries whose matches are grouped, or whose equal rows count once: what a watch of them keeps, and what it reports.

Delta queries know nothing of groups. They list the signed matches of the query inside, with the columns that groups are made
of; what these do to the groups is up to `grouped_changes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bigjoin.errors import QueryError
from bigjoin.group_counts import group_keys, is_distinct
from bigjoin.languages.keys import GROUP_COUNT
from bigjoin.languages.translate import becomes
from bigjoin.planner import delta_branches, meaning
from bigjoin.planner.isomorphism import Shape
from bigjoin.planner.symmetries import Symmetries
from bigjoin.query.expressions import Expression, Holds, Predicate, attributes_of, walk
from bigjoin.query.grouping import Aggregate, Grouping
from bigjoin.query.query import Query
from bigjoin.query.statement import RowStage, Statement
from bigjoin.query.statistics import Statistics
from bigjoin.table_rows import computed

_ONLY_MATCHES = "watch the matches, and group what the epochs report"


@dataclass(frozen=True)
class RowStep:
    """What is computed of each row, by name, and what is true of the rows that are left; without columns, all stay."""

    columns: tuple[tuple[str, Expression], ...] = ()
    where: Expression | None = None

    def of(self, rows: pa.Table, carried: str, query: Query) -> pa.Table:
        """Return what the step makes of rows, with one more column that each row carries along."""
        columns = self.columns or tuple((name, name) for name in rows.column_names if name != carried)
        return computed(rows, [*columns, (carried, carried)], self.where, query.dialect, query.zone)


@dataclass(frozen=True)
class GroupedQuery:
    """A query whose matches are put into groups as they come and go."""

    query: Query
    """Its matches are grouped, each as often as it is there. Its head has what groups are made of."""
    attributes: tuple[str, ...]
    """The attributes that groups are made of."""
    grouping: Grouping | None
    """The keys and aggregates; None if each row is a group, which is reported once."""
    before: tuple[RowStep, ...]
    """What becomes of the matches before they are grouped."""
    after: tuple[RowStep, ...]
    """What becomes of the groups."""
    columns: tuple[str, ...]
    """Those of the rows that are reported."""
    text: str
    """What is watched, as it is called in an index and in the folder of its output."""

    @property
    def has_bound(self) -> bool:
        """Whether only some groups are in the result: these are reported when they enter it and when they leave it."""
        return any(step.where is not None for step in self.after)

    def listed(self, statistics: Statistics) -> tuple[Query, int]:
        """Return the query whose signed matches are grouped, and how many of them there are for each match that counts.

        Under `unique`, a subgraph counts in each group that one of its symmetric forms belongs to. These are as many groups as
        there are forms, divided by the automorphisms that fix what groups are made of.
        """
        query = self.query
        if not query.unique:
            return query, 1
        drafts = [draft for branch in delta_branches(query, statistics) for draft in meaning(branch, statistics)]
        symmetries = [Symmetries(Shape(draft)) for draft in drafts]
        if not any(one.all.images(name) for one in symmetries for name in self.attributes if name in one.all.orbit_of):
            return query, 1
        if len(drafts) == 1 and self.grouping is not None and self.grouping.counts_matches and not self.before:
            return replace(query, unique=False, distinct=True), symmetries[0].fixing(self.attributes).order
        raise QueryError(
            "under 'unique' it is not said which vertex of a match has which name, so these groups cannot be watched",
            hint="leave 'unique' out, or count matches by attributes: only count(*) is the same for all symmetric forms",
        )


def grouped_query(statement: Statement, by: str | Sequence[str] | None = None) -> GroupedQuery | None:
    """Return what is grouped and how, if a statement groups matches or drops equal rows, or `by` says what to count by.

    Raise QueryError for what cannot be watched.
    """
    _check(statement)
    if by is not None:
        return _counted_by(statement, by)
    query, last = statement.query, RowStage(grouping=statement.grouping, deduplicate=statement.deduplicate)
    if statement.count_column is not None:
        last = replace(last, grouping=Grouping((), (("_v0", Aggregate("count")),), ((statement.count_column, "_v0"),)))
    steps = [*(["distinct"] if _drops_rows(query) else []), *(step for s in (*statement.before, last) for step in _steps(s))]
    places = [place for place, step in enumerate(steps) if not isinstance(step, RowStep)]
    if not places:
        return None
    if len(places) > 1:
        raise QueryError("groups of groups, or of distinct rows, cannot be watched", hint=_ONLY_MATCHES)
    (place,) = places
    state = steps[place]
    grouping = state if isinstance(state, Grouping) else None
    before = tuple(step for step in steps[:place] if isinstance(step, RowStep))
    after = tuple(step for step in steps[place + 1 :] if isinstance(step, RowStep))
    if grouping is not None:
        after = (RowStep(grouping.columns, grouping.having), *after)
    count_column = (statement.count_column,) if statement.count_column is not None else ()
    columns = count_column or statement.columns or query.columns
    is_plain = len(after) == (0 if grouping is None else 1) and not before
    if is_plain:
        text = str(query) if grouping is None else _as_rule(query, grouping)
    else:
        text = f"{query}; {'; '.join(becomes(statement))}; {', '.join(columns)}"
    return _grouped(replace(query, deduplicate=False), grouping, before, after, columns, text)


def _counted_by(statement: Statement, by: str | Sequence[str]) -> GroupedQuery:
    """Return the count of a statement's matches by some keys, as `count(by=)` gives it."""
    keys = group_keys(by, statement)
    if is_distinct(statement) or not statement.counts_as_queries:
        raise QueryError("distinct rows that are counted by groups cannot be watched", hint=_ONLY_MATCHES)
    names = [name for name, _ in keys]
    columns = (*((name, name) for name in names), (GROUP_COUNT, "_v0"))
    grouping = Grouping(keys, (("_v0", Aggregate("count")),), columns)
    query = replace(statement.query, head=tuple(term for _, term in keys), names=tuple(names))
    after = (RowStep(grouping.columns),)
    return _grouped(query, grouping, (), after, (*names, GROUP_COUNT), _as_rule(query, grouping))


def _grouped(
    query: Query,
    grouping: Grouping | None,
    before: tuple[RowStep, ...],
    after: tuple[RowStep, ...],
    columns: tuple[str, ...],
    text: str,
) -> GroupedQuery:
    attributes = tuple(dict.fromkeys(name for term in query.head for name in attributes_of(term)))
    if not query.head:  # matches are only counted, and have to have a column
        query = replace(query, head=query.attributes[:1], names=())
    return GroupedQuery(query, attributes, grouping, before, after, columns, text)


def _check(statement: Statement) -> None:
    """Refuse what a watch has no groups for."""
    plain = replace(statement, before=(), grouping=None, count_column=None, deduplicate=False)
    more = plain.beyond_query
    for stage in statement.before:
        more = more or ("ORDER BY" if stage.order else "SKIP" if stage.skip else "LIMIT" if stage.limit is not None else None)
    if more is None:
        return
    hint = "write it as a rule" if statement.unread is not None else "leave it out, or use it on what the watch writes"
    raise QueryError(f"{more} has no incremental meaning, so it cannot be watched", hint=hint)


def _drops_rows(query: Query) -> bool:
    """Tell whether equal rows count once and there may be some, in a source that is not known yet."""
    if not query.deduplicate:
        return False
    open_atoms = any(atom.pattern is not None or atom.hops is not None for atom in query.atoms)
    parts = (part for each in query.filters if isinstance(each, Predicate) for part in walk(each.expression))
    return query.projects or open_atoms or any(isinstance(part, Holds) for part in parts)


def _steps(stage: RowStage) -> Iterator[RowStep | Grouping | str]:
    """Give what a stage does to rows, one after the other."""
    if stage.columns:
        yield RowStep(stage.columns)
    if stage.grouping is not None:
        yield stage.grouping
    if stage.deduplicate:
        yield "distinct"
    if stage.where is not None:
        yield RowStep(where=stage.where)


def _as_rule(query: Query, grouping: Grouping) -> str:
    """Return a query with its groups as a rule would say it."""
    said = str(replace(query, head=(), names=(), deduplicate=query.deduplicate))
    columns = []
    for name, term in grouping.columns:
        written = grouping.written(term)
        columns.append(written if written == name else f"{written} as {name}")
    bound = "" if grouping.having is None else f" having {grouping.written(grouping.having)}"
    return said.replace(f"{query.name}()", f"{query.name}({', '.join(columns)})", 1) + bound
