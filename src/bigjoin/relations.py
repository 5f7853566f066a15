"""Relations: any multiway equi-join. DataFrames in, an int or a DataFrame out.

bj.join("q(a,b,c) := r(a,b), s(b,c), t(c,a)", r=df1, s=df2, t=df3)
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bigjoin.defaults import StrategyName
from bigjoin.errors import BigjoinError, QueryError, SourceError, did_you_mean
from bigjoin.index.directory import Index
from bigjoin.index.entries import check_name
from bigjoin.index.manifest import is_index
from bigjoin.index.run import Run, in_threads
from bigjoin.index.writer import writing
from bigjoin.indexing import ALONE, LARGE, Rows
from bigjoin.ingest import relations as ingest
from bigjoin.ingest.memory import from_pandas
from bigjoin.ingest.relations import Chunked, Domain, Encoded
from bigjoin.ingest.whole import named_apart, read_whole
from bigjoin.paths import check_regular, is_remote
from bigjoin.planner import count_plan, factorized_plan, meaning, plan
from bigjoin.planner.draft import Draft
from bigjoin.query.nest import nest_of
from bigjoin.query.query import Atom, Query
from bigjoin.spark.failures import told
from bigjoin.spark.ingest import runner
from bigjoin.spark.read import frame_schema, read_frame, spool
from bigjoin.spark.session import get_session, scratch_directory
from bigjoin.streaming.compaction import settled
from bigjoin.verbs import Verbs


@told()
def join(
    query: str | Query,
    /,
    *,
    limit: int | None = None,
    strategy: StrategyName = "auto",
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
    options = {"limit": limit, "strategy": strategy, "workers": workers, "batch_size": batch_size, "where": where}
    for name, given in options.items():
        if hasattr(given, "mapInArrow") or hasattr(given, "columns"):
            raise BigjoinError(f"{name!r} is an option of join: for a relation of that name, make Relations({{{name!r}: ...}})")
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
        self._opened: dict[str, Chunked | DataFrame] = {}
        self._spooled: dict[tuple[str, ...], Chunked] = {}
        self._held: dict[tuple[Domain, ...], _Held] = {}
        self._scratch, self._owns_scratch = scratch_directory("relations"), True

    def schema(self, name: str) -> pa.Schema:
        """Return a relation's columns and their types."""
        if name not in self._opened:
            self._opened[name] = _open(name, self._rows[name], self._spark)
        opened = self._opened[name]
        schema = opened.schema if isinstance(opened, Chunked) else frame_schema(opened, f"the relation {name!r}")
        if not len(schema):
            raise SourceError(f"the relation {name!r} has no columns")
        return named_apart(schema, f"the relation {name!r}")

    def _columns_of(self, name: str, columns: Sequence[str]) -> Chunked:
        """Return some columns of a relation; those of a DataFrame are written down, once, by its own tasks."""
        opened = self._opened[name]
        if isinstance(opened, Chunked):
            return opened.select(columns)
        if (name, *columns) not in self._spooled:
            self._spooled[name, *columns] = spool(opened, columns, f"the relation {name!r}", self._scratch)
        return self._spooled[name, *columns]

    def on(self, spark: SparkSession) -> Relations:
        """Return a copy of the relations whose queries run in another session; the files still belong to this one."""
        other = copy(self)
        other._spark, other._owns_scratch = spark, False
        for kept_by_session in ("_count_jobs", "_results"):
            other.__dict__.pop(kept_by_session, None)
        return other

    def close(self) -> None:
        """Remove the scratch indices and results. Frames from `find` cannot be read afterwards."""
        self._results.free()
        if self._owns_scratch:
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
            used = {name: {c for d in domains for r, c in d.columns if r == name} for d in domains for name, _ in d.columns}
            chosen = {name: [c for c in self.schema(name).names if c in used[name]] for name in used}
            relations = {name: self._columns_of(name, columns) for name, columns in chosen.items()}
            large = sum(r.rows for r in relations.values()) > ALONE and all(r.in_files for r in relations.values())
            run = runner(self.spark) if large else in_threads
            folder = Path(tempfile.mkdtemp(dir=self._scratch))
            encoded = ingest.encode(relations, domains, folder, run, drop_nulls=self._drop_nulls)
            held = self._held[domains] = _Held(encoded, folder, run)
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
        names = self.schema(atom.relation).names
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
    run: Run
    orders: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    index: Index | None = None

    def index_for(self, query: Query) -> Index:
        """Return an index that holds what a query needs; column orders that it lacks are added."""
        asked = _orders(query, self.encoded, self.orders)
        if self.index is None or asked != self.orders:
            self.index = self._with(asked)
            self.orders = asked
        return self.index

    def _with(self, asked: Mapping[str, tuple[tuple[int, ...], ...]]) -> Index:
        with writing(self.folder / "index") as writer:
            manifest = self.encoded.manifest(writer.folder) if self.index is None else self.index.manifest
            new = {name: [o for o in orders if o not in self.orders.get(name, ())] for name, orders in asked.items()}
            found = self.encoded.write(new, writer.folder, self.folder, self.run)
            for name, entry in manifest.relations.items():
                found[name] = replace(entry, orders={**entry.orders, **found[name].orders})
            return writer.commit(replace(manifest, relations=found), self.run, kept=manifest.files)


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
    wanted: dict[str, set[tuple[int, ...]]] = {name: set(known.get(name, ())) for name in encoded.names}
    for name, columns in encoded.names.items():
        wanted[name] |= {(0, 1), (1, 0)} if len(columns) == 2 else {tuple(range(len(columns)))}
    for part in meaning(query, encoded.statistics):
        for relation, order in _read_orders(part):
            wanted[relation].add(order)
    found = {}
    for name, orders in wanted.items():
        kept: list[tuple[int, ...]] = []
        for order in sorted(orders, key=lambda order: (-len(order), order)):
            if not any(other[: len(order)] == order for other in kept):
                kept.append((*order, *(c for c in range(len(encoded.names[name])) if c not in order)))
        found[name] = tuple(sorted(kept))
    return found


def _read_orders(part: Draft) -> Iterator[tuple[str, tuple[int, ...]]]:
    nests = [nest_of(plan(part)), *count_plan(part).terms, *([] if part.query.projects else [factorized_plan(part)])]
    for extender in (e for nest in nests for loop in nest.root.walk() for e in loop.step.lists):
        relation, view = extender.atom.relation, extender.atom.view
        if view is None:
            yield relation, extender.columns
        elif not view.constants:
            yield relation, tuple(view.kept[c] for c in extender.columns)


def _open(name: str, rows: Rows, spark: SparkSession | None) -> Chunked | DataFrame:
    """Return what holds the rows of a relation: tables in memory, or a DataFrame, which may be larger."""
    if isinstance(rows, (str, Path)):
        check_regular(rows)
        if not is_remote(str(rows)) and is_index(Path(rows)):
            return Chunked.of(_of_index(settled(Index.open(rows)), name))
        if is_remote(str(rows)) or _is_large_parquet(Path(rows)):
            return read_frame(spark or get_session(), str(rows))
        return Chunked.of(read_whole(str(rows)))
    if hasattr(rows, "mapInArrow"):
        return rows
    if isinstance(rows, pa.Table):
        return Chunked.of(rows)
    if hasattr(rows, "dtypes"):
        return Chunked.of(from_pandas(rows))
    what = "a DataFrame, an Arrow table, a pandas frame or a path"
    raise BigjoinError(f"the relation {name!r} is a {type(rows).__name__}; give {what}")


def _is_large_parquet(path: Path) -> bool:
    files = list(path.rglob("*.parquet")) if path.is_dir() else [path] * (path.suffix == ".parquet" and path.exists())
    return sum(file.stat().st_size for file in files) > LARGE


def _of_index(index: Index, name: str) -> pa.Table:
    """Return the tuples of a relation of an index: of that name, or of the only one that it has."""
    known = index.statistics.relations
    own = [other for other, relation in known.items() if not relation.materialized]
    if name not in known and len(own) > 1:
        hint = did_you_mean(name, known) or f"it has {', '.join(sorted(known))}"
        raise BigjoinError(f"the index {index.path} has no relation {name!r}; {hint}")
    relation = name if name in known else own[0]
    statistics = known[relation]
    order = min(order for order in statistics.lists if len(order) == statistics.arity)
    trie = index.trie(relation, order)
    columns = trie.tuples(np.arange(len(trie)))
    names = statistics.columns or tuple(f"c{i + 1}" for i in range(statistics.arity))
    decoded = {names[c]: index.dictionaries[statistics.domains[c]].decode(columns[order.index(c)]) for c in range(len(order))}
    return pa.table(decoded)
