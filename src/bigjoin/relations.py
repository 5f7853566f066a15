"""Relations: any multiway equi-join. DataFrames in, an int or a DataFrame out.

bj.join("q(a,b,c) := r(a,b), s(b,c), t(c,a)", r=df1, s=df2, t=df3)
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.errors import BigjoinError, QueryError, SourceError, did_you_mean
from bigjoin.index.directory import Index
from bigjoin.index.manifest import is_index
from bigjoin.index.writer import writing
from bigjoin.indexing import Rows, check_name
from bigjoin.ingest import relations as ingest
from bigjoin.ingest.memory import from_pandas
from bigjoin.ingest.relations import Domain, Encoded
from bigjoin.ingest.whole import named_apart, read_whole
from bigjoin.paths import is_remote
from bigjoin.planner import count_plan, factorized_plan, plan
from bigjoin.query.optional import branches
from bigjoin.query.plan import Extender, Plan, Step
from bigjoin.query.query import Atom, Query
from bigjoin.query.view import view_of
from bigjoin.spark.read import read_frame
from bigjoin.spark.session import get_session, scratch_directory
from bigjoin.verbs import Verbs


def join(
    query: str | Query,
    /,
    *,
    limit: int | None = None,
    strategy: str = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    where: str | None = None,
    deduplicate: bool = False,
    cross_product: bool = False,
    drop_nulls: bool = False,
    spark: SparkSession | None = None,
    **relations: Rows,
) -> DataFrame:
    """Return the join that a rule says, as a Spark DataFrame with a column for each attribute of its head.

    Relations are DataFrames, Arrow tables, pandas frames, paths of files or of an index, by the names that the rule gives them.
    To ask several questions, or to count, make `Relations` of them.
    """
    asked = Relations(relations, drop_nulls=drop_nulls, spark=spark)
    flags: dict[str, Any] = {"where": where, "deduplicate": deduplicate, "cross_product": cross_product}
    return asked.find(query, limit=limit, strategy=strategy, workers=workers, batch_size=batch_size, **flags)


class Relations(Verbs):
    """Relations of any arity, by name, ready for queries: count, exists, find, write, explain.

    Each query has the domains that it needs: columns that it joins or compares share a dictionary. What was encoded, and the
    tries that were built for one query, serve later ones with the same domains.
    """

    def __init__(self, relations: Mapping[str, Rows], *, drop_nulls: bool = False, spark: SparkSession | None = None) -> None:
        if not relations:
            raise BigjoinError("there are no relations: give at least one, as in r=frame")
        for name in relations:
            check_name(name, [])
        frames: list[Any] = [rows for rows in relations.values() if hasattr(rows, "mapInArrow")]
        self._spark = spark or (frames[0].sparkSession if frames else None)
        self._rows, self._drop_nulls = dict(relations), drop_nulls
        self._tables: dict[str, pa.Table] = {}
        self._held: dict[tuple[Domain, ...], _Held] = {}
        self._scratch = scratch_directory("relations")

    def table(self, name: str) -> pa.Table:
        """Return a relation's rows, read when they are first asked for."""
        if name not in self._tables:
            self._tables[name] = _read(name, self._rows[name], self._spark)
        return self._tables[name]

    def on(self, spark: SparkSession) -> Relations:
        """Return these relations, with their queries run by another session."""
        self._spark = spark
        self._count_jobs.clear()
        return self

    def close(self) -> None:
        """Remove the scratch indices. Frames from `find` cannot be read afterwards."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Relations:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Relations({', '.join(self._rows)})"

    def _index_for(self, query: Query) -> Index:
        domains = self._domains(query)
        held = self._held.get(domains)
        if held is None:
            used = {name: [c for d in domains for r, c in d.columns if r == name] for d in domains for name, _ in d.columns}
            tables = {name: self.table(name).select(_in_order(self.table(name), used[name])) for name in used}
            encoded = ingest.encode(tables, domains, drop_nulls=self._drop_nulls)
            held = self._held[domains] = _Held(encoded, self._scratch / str(len(self._held)))
        return held.index_for(query)

    def _domains(self, query: Query) -> tuple[Domain, ...]:
        """Return the domains of the columns that a query reads: those that share an attribute, or are compared."""
        columns_of: dict[str, list[tuple[str, str]]] = {}
        unions = _Unions()
        for atom in query.atoms:
            for column, attribute in self._columns(atom):
                columns_of.setdefault(attribute, []).append((atom.relation, column))
        for columns in columns_of.values():
            unions.join(*columns)
        for comparison in query.filters:
            if not comparison.properties and len(comparison.attributes) == 2:
                one, other = (columns_of[a][0] for a in comparison.attributes)
                unions.join(one, other)
        return tuple(Domain(f"{group[0][0]}.{group[0][1]}", group) for group in unions.groups())

    def _columns(self, atom: Atom) -> Iterator[tuple[str, str]]:
        """Give the columns that an atom reads, and the attribute of each."""
        if atom.relation not in self._rows:
            hint = did_you_mean(atom.relation, self._rows) or f"the relations are {', '.join(sorted(self._rows))}"
            raise QueryError(f"there is no relation {atom.relation!r}", atom.span, hint)
        names = self.table(atom.relation).column_names
        if atom.columns:
            for column in atom.columns:
                if column not in names:
                    hint = did_you_mean(column, names) or f"its columns are {', '.join(names)}"
                    raise QueryError(f"{atom.relation!r} has no column {column!r}", atom.span, hint)
            yield from zip(atom.columns, atom.attributes, strict=True)
            return
        if len(atom.attributes) != len(names):
            columns = f"{len(names)} column{'s' * (len(names) != 1)}"
            hint = f"they are {', '.join(names)}; to read some of them, name these, as in {atom.relation}({names[0]}: a)"
            raise QueryError(f"{atom.relation!r} has {columns}, not {len(atom.attributes)}", atom.span, hint)
        yield from zip(names, atom.attributes, strict=True)


@dataclass
class _Held:
    """Encoded relations, and the index with the column orders that queries have asked for so far."""

    encoded: Encoded
    folder: Path
    orders: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    index: Index | None = None
    versions: int = 0

    def index_for(self, query: Query) -> Index:
        """Return an index that holds what a query needs, written again if it needs more than the one that there is."""
        asked = _orders(query, self.encoded, self.orders)
        if self.index is None or asked != self.orders:
            self.orders, self.versions = asked, self.versions + 1
            with writing(self.folder.with_name(f"{self.folder.name}.{self.versions}")) as writer:
                self.index = writer.commit(ingest.write(self.encoded, asked, writer.folder))
        return self.index


class _Unions:
    """Sets of columns, joined as a query joins them."""

    def __init__(self) -> None:
        self.parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root(self, column: tuple[str, str]) -> tuple[str, str]:
        self.parents.setdefault(column, column)
        while self.parents[column] != column:
            column = self.parents[column]
        return column

    def join(self, *columns: tuple[str, str]) -> None:
        """Put columns into one set."""
        first, *others = sorted({self.root(column) for column in columns})
        for other in others:
            self.parents[other] = first

    def groups(self) -> list[tuple[tuple[str, str], ...]]:
        """Return the sets, in an order that depends on nothing else."""
        found: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for column in sorted(self.parents):
            found.setdefault(self.root(column), []).append(column)
        return [tuple(group) for group in found.values()]


def _orders(
    query: Query, encoded: Encoded, known: Mapping[str, tuple[tuple[int, ...], ...]]
) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return the column orders of each relation that plans for a query read, beside those that are known."""
    wanted: dict[str, set[tuple[int, ...]]] = {name: set(known.get(name, ())) for name in encoded.columns}
    for name, columns in encoded.columns.items():
        wanted[name] |= {(0, 1), (1, 0)} if len(columns) == 2 else {tuple(range(len(columns)))}
    for branch in branches(query):
        for relation, order in _read_orders(branch, encoded):
            wanted[relation].add(order)
    found = {}
    for name, orders in wanted.items():
        kept: list[tuple[int, ...]] = []
        for order in sorted(orders, key=lambda order: (-len(order), order)):
            if not any(other[: len(order)] == order for other in kept):
                kept.append((*order, *(c for c in range(len(encoded.columns[name])) if c not in order)))
        found[name] = tuple(sorted(kept))
    return found


def _read_orders(query: Query, encoded: Encoded) -> Iterator[tuple[str, tuple[int, ...]]]:
    statistics = encoded.statistics
    extenders: list[Extender] = []
    chosen: Plan = plan(query, statistics)
    extenders += [chosen.seed.extender, *chosen.seed.checks, *_extenders(chosen.steps)]
    terms = list(count_plan(query, statistics).terms)
    if not query.projects:
        terms.append(factorized_plan(query, statistics))
    for term in terms:
        extenders += _extenders(loop.step for loop in term.root.walk())
    for extender in extenders:
        view = view_of(extender.atom.relation)
        if view is None:
            yield extender.atom.relation, extender.columns
        elif not view.constants:
            yield view.relation, tuple(view.kept[c] for c in extender.columns)


def _extenders(steps: Iterable[Step]) -> list[Extender]:
    return [e for step in steps for e in (*step.extenders, *step.excluders, *step.checks)]


def _in_order(table: pa.Table, columns: Iterable[str]) -> list[str]:
    wanted = set(columns)
    return [name for name in table.column_names if name in wanted]


def _read(name: str, rows: Rows, spark: SparkSession | None) -> pa.Table:
    """Return the rows of a relation, whatever holds them."""
    if isinstance(rows, (str, Path)) and is_remote(str(rows)):
        table = read_frame(spark or get_session(), str(rows)).toArrow()
    elif isinstance(rows, (str, Path)):
        table = _of_index(Index.open(rows), name) if is_index(Path(rows)) else read_whole(str(rows))
    elif hasattr(rows, "mapInArrow"):
        table = rows.toArrow()
    elif isinstance(rows, pa.Table) or hasattr(rows, "dtypes"):
        table = rows if isinstance(rows, pa.Table) else from_pandas(rows)
    else:
        what = "a DataFrame, an Arrow table, a pandas frame or a path"
        raise BigjoinError(f"the relation {name!r} is a {type(rows).__name__}; give {what}")
    if not table.num_columns:
        raise SourceError(f"the relation {name!r} has no columns")
    return named_apart(table, f"the relation {name!r}")


def _of_index(index: Index, name: str) -> pa.Table:
    """Return the tuples of a relation of an index: of that name, or of the only one that it has."""
    known = index.manifest["relations"]
    if name not in known and len(known) > 1:
        hint = did_you_mean(name, known) or f"it has {', '.join(sorted(known))}"
        raise BigjoinError(f"the index {index.path} has no relation {name!r}; {hint}")
    relation = name if name in known else next(iter(known))
    statistics = index.statistics.relations[relation]
    order = min(order for order in statistics.lists if len(order) == statistics.arity)
    trie = index.extensions(relation, order)
    columns = trie.tuples(np.arange(len(trie)))
    names = statistics.columns or tuple(f"c{i + 1}" for i in range(statistics.arity))
    decoded = {names[c]: index.dictionaries[statistics.domains[c]].decode(columns[order.index(c)]) for c in range(len(order))}
    return pa.table(decoded)
