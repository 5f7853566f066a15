"""Relations: joins of any relations on equal columns. DataFrames in, an int or a DataFrame out.

bj.join("q(a,b,c) := r(a,b), s(b,c), t(c,a)", r=df1, s=df2, t=df3)
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bigjoin.defaults import ListOptions, StrategyName
from bigjoin.errors import BigjoinError, OptionError, QueryError, SourceError, did_you_mean, warn_of_reading
from bigjoin.html_tables import table, titled
from bigjoin.index.contents import names, number_of
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import ColumnOrder, ReadingEntry, check_name
from bigjoin.index.manifest_file import is_index
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.index.writer import writing
from bigjoin.indexing import MAX_BYTES_READ_HERE, MAX_ROWS_INDEXED_HERE
from bigjoin.ingest.files import decoded, named_apart, read_relation, relation_columns
from bigjoin.ingest.relations import Domain, Encoded, encode
from bigjoin.ingest.table import Table
from bigjoin.languages import Flags, read, recognized
from bigjoin.languages.sql_meaning import meaning_of
from bigjoin.paths import shown_path
from bigjoin.planner import count_plan, factorized_plan, meaning, plan
from bigjoin.planner.draft import Draft
from bigjoin.query.nest import nest_of
from bigjoin.query.paths import lengthened
from bigjoin.query.query import Atom, Comparison, Query
from bigjoin.query.seeds import SeedsLike
from bigjoin.query.statement import Statement
from bigjoin.reading import JUDGED, ReadingOptions
from bigjoin.signatures import with_known_keywords
from bigjoin.spark.failures import with_plain_errors
from bigjoin.spark.sources import TableLike, column_names, no_session, read_rows
from bigjoin.spark.tasks import runner
from bigjoin.sql_relations import RelationTables
from bigjoin.storage.scratch import scratch_directory
from bigjoin.streaming.compaction import without_runs
from bigjoin.verbs import Verbs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SELECT = "select#"
"""What the queries of a SELECT are called, with its number: no rule has such a name."""


@with_plain_errors()
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
    seeds: SeedsLike = None,
    drop_nulls: bool = False,
    timeout: float | None = None,
    memory: int | str | None = None,
    cancel: threading.Event | None = None,
    spark: SparkSession | None = None,
    **relations: TableLike,
) -> DataFrame:
    """Join any relations as a rule says, and return a Spark DataFrame with a column for each attribute of its head.

    To ask several questions, or to count, use `Relations`.

    Examples:
        >>> knows = [{"a": "ann", "b": "bob"}, {"a": "bob", "b": "cat"}]
        >>> lives = [{"person": "ann", "city": "Ghent"}, {"person": "bob", "city": "Ghent"}]
        >>> frame = bj.join("q(p, q, c) := knows(p, q), lives(p, c), lives(q, c)", knows=knows, lives=lives)
        >>> [tuple(row) for row in frame.collect()]
        [('ann', 'bob', 'Ghent')]

    Args:
        query: The rule.
        limit: Return at most this many rows.
        strategy: Where the query runs; `"auto"` chooses. See `Graph`.
        workers: The number of tasks or threads, or of owners of keys.
        batch_size: How many matches or proposals to hold at once.
        where: More conditions.
        deduplicate: Return each row once, if the head leaves attributes out.
        cross_product: Allow a rule whose parts share no attribute.
        seeds: Restrict attributes to ids, as for `Graph`. If the rule has a relation called `seeds`, this is that relation.
        drop_nulls: Drop rows with a NULL. By default, they are an error.
        timeout: End the query after this many seconds.
        memory: End the query when a process takes more than this: bytes, or text such as `"2GB"`.
        cancel: An event that ends the query when it is set.
        spark: The session that runs the query.
        **relations: The relations, by the names that the rule gives them: DataFrames, Arrow tables, pandas frames, lists, or
            paths of files or of an index.
    """
    if seeds is not None and any(atom.relation == "seeds" for block in read(query).everything for atom in block.query.atoms):
        relations, seeds = {**relations, "seeds": seeds}, None
    options = {"limit": limit, "strategy": strategy, "workers": workers, "batch_size": batch_size, "where": where}
    flags = {"deduplicate": deduplicate, "cross_product": cross_product, "drop_nulls": drop_nulls}
    _check_keywords("join", {**options, **flags, "timeout": timeout, "memory": memory, "cancel": cancel}, relations)
    return Relations(relations, drop_nulls=drop_nulls, spark=spark).find(
        query,
        limit=limit,
        strategy=strategy,
        workers=workers,
        batch_size=batch_size,
        where=where,
        deduplicate=deduplicate,
        cross_product=cross_product,
        seeds=seeds,
        timeout=timeout,
        memory=memory,
        cancel=cancel,
    )


@with_plain_errors()
def sql(
    text: str,
    /,
    *,
    limit: int | None = None,
    strategy: StrategyName = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    cross_product: bool = False,
    timeout: float | None = None,
    memory: int | str | None = None,
    cancel: threading.Event | None = None,
    spark: SparkSession | None = None,
    **relations: TableLike,
) -> DataFrame:
    """Run a SELECT that joins tables, with a worst-case optimal join, and return a Spark DataFrame.

    As in any SQL, every row of a table counts, even if there are equal rows. To ask several questions, or to count, use
    `Relations`.

    Examples:
        >>> e = [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}, {"src": 3, "dst": 1}]
        >>> text = "SELECT a.src FROM e a JOIN e b ON a.dst = b.src JOIN e c ON b.dst = c.src AND c.dst = a.src ORDER BY a.src"
        >>> [row.src for row in bj.sql(text, e=e).collect()]
        [1, 2, 3]

    Args:
        text: The SELECT, in Spark's dialect.
        limit: Return at most this many rows.
        strategy: Where the query runs; `"auto"` chooses. See `Graph`.
        workers: The number of tasks or threads, or of owners of keys.
        batch_size: How many matches or proposals to hold at once.
        cross_product: Allow joins without an equality.
        timeout: End the query after this many seconds.
        memory: End the query when a process takes more than this: bytes, or text such as `"2GB"`.
        cancel: An event that ends the query when it is set.
        spark: The session that runs the query.
        **relations: The tables, by the names that the SELECT gives them: DataFrames, Arrow tables, pandas frames, lists, or
            paths.
    """
    options = {"limit": limit, "strategy": strategy, "workers": workers, "batch_size": batch_size}
    flags = {"cross_product": cross_product}
    _check_keywords("sql", {**options, **flags, "timeout": timeout, "memory": memory, "cancel": cancel}, relations)
    for name in relations.keys() & (Flags.__annotations__.keys() | ListOptions.__annotations__.keys()):
        if not re.search(rf"\b{name}\b", str(text), re.IGNORECASE):
            raise OptionError(f"sql has no option {name!r}: write it in SQL, or make Relations and use their verbs")
    if not isinstance(text, str) or recognized(text.strip()) != "sql":
        raise QueryError("this is no SELECT", hint="for a rule, use bj.join; for a motif or Cypher, bj.Graph(edges).find")
    found = Relations(relations, spark=spark)
    return found.find(
        text,
        limit=limit,
        strategy=strategy,
        workers=workers,
        batch_size=batch_size,
        cross_product=cross_product,
        timeout=timeout,
        memory=memory,
        cancel=cancel,
    )


def _check_keywords(function: str, options: Mapping[str, object], relations: Mapping[str, object]) -> None:
    """Refuse a table as an option, and what can only be meant as an option as a table: both are keywords."""
    for name, given in options.items():
        if hasattr(given, "mapInArrow") or hasattr(given, "columns"):
            hint = f"for a relation of that name, make Relations({{{name!r}: ...}})"
            raise BigjoinError(f"{name!r} is an option of {function}: {hint}")
    for name, given in relations.items():
        if given is None or isinstance(given, bool | int | float):
            hint = did_you_mean(name, options) or f"its options are {', '.join(options)}"
            raise OptionError(f"{function} has no option {name!r}, and {given!r} is no table; {hint}")


class Relations(Verbs):
    """Relations with any number of columns, ready for questions.

    `Relations` has the same questions as `Graph`: `count`, `exists`, `find`, `arrow`, `write`, `estimate` and `explain`, with
    the same keywords. What has been indexed for one query is reused by later queries that join the same columns. The options
    on how to read a source apply to every relation.

    Examples:
        >>> relations = bj.Relations({"knows": [{"a": "ann", "b": "bob"}, {"a": "bob", "b": "cat"}]})
        >>> relations.count("q(x, y, z) := knows(x, y), knows(y, z)")
        1
        >>> relations.exists("q(x) := knows(x, 'cat')")
        True

    Args:
        relations: The relations by their names: DataFrames, Arrow tables, pandas frames, lists, or paths of files or of an
            index.
        src: With `dst`: read only these two columns of a source, by name or by position from 1.
        dst: With `src`: read only these two columns of a source.
        columns: Names for the columns of a text file without a header. For other sources, the columns to read.
        header: Whether the first line of a text file is a header. By default, bigjoin judges by its content.
        delimiter: What separates the columns of a text file.
        encoding: The encoding of a text file; by default UTF-8.
        drop_nulls: Whether to drop rows with a NULL. By default, they are an error.
        spark: The session that runs queries. By default, the active one, or a local one that starts when it is needed.
    """

    @with_known_keywords("Relations")
    def __init__(
        self,
        relations: Mapping[str, TableLike],
        *,
        src: str | int | None = None,
        dst: str | int | None = None,
        columns: Sequence[str] | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        drop_nulls: bool = False,
        spark: SparkSession | None = None,
    ) -> None:
        if not hasattr(relations, "items"):
            kind = type(relations).__name__
            raise BigjoinError(f"relations is a {kind}; give them by name, as in Relations({{'r': rows}})")
        if not relations:
            raise BigjoinError("there are no relations: give at least one, as in r=frame")
        self._said = ReadingOptions(src, dst, None, columns, header, delimiter, encoding)
        self._readings: dict[str, ReadingEntry] = {}
        for name in relations:
            check_name(name, [])
        frames: list[Any] = [rows for rows in relations.values() if hasattr(rows, "mapInArrow")]
        self._spark = spark or (frames[0].sparkSession if frames else None)
        self._rows, self._drop_nulls = dict(relations), drop_nulls
        self._opened: dict[str, Table | DataFrame] = {}
        self._spooled: dict[tuple[str, ...], Table] = {}
        self._encoded: dict[tuple[Domain, ...], _EncodedIndex] = {}
        self._selects: dict[object, Statement] = {}
        """What SELECTs mean, by their trees and the time zone."""
        self._encoded_selects: dict[str, _EncodedIndex] = {}
        """What the queries of SELECTs read, by the name that these queries have."""
        self._scratch, self._owns_scratch = scratch_directory("relations"), True

    def schema(self, name: str) -> pa.Schema:
        """Return the columns of a relation and their types.

        Args:
            name: The name of the relation.
        """
        if name not in self._opened:
            self._opened[name] = self._open(name)
        opened = self._opened[name]
        schema = opened.schema if isinstance(opened, Table) else _frame_schema(opened, f"the relation {name!r}")
        if not len(schema):
            raise SourceError(f"the relation {name!r} has no columns")
        return named_apart(schema, f"the relation {name!r}")

    @property
    def readings(self) -> Mapping[str, ReadingEntry]:
        """How files were read: by name, for those relations that queries have used so far."""
        return self._readings

    def _open(self, name: str) -> Table | DataFrame:
        """Return what holds the rows of a relation: a table in memory, or a DataFrame, which may be larger."""
        what, lenient = f"the relation {name!r}", len(self._rows) > 1
        rows, said = read_rows(self._rows[name], what, self._spark, None, self._said)
        if isinstance(rows, str) and is_index(Path(rows)):
            if not lenient and self._said != JUDGED:
                raise BigjoinError(f"{rows} is an index, which says itself what its columns are: leave out how it is read")
            return Table.of(_of_index(without_runs(Index.open(rows)), name), what)
        if isinstance(rows, str) and _is_large_parquet(Path(rows)):
            from bigjoin.spark.read import read_frame

            rows = read_frame(self.spark, rows)[0]
        if isinstance(rows, str):
            table, entry = read_relation(decoded(rows, said, lambda: self._scratch), said, lenient=lenient)
            self._readings[name] = entry
            if entry.is_guess:
                warn_of_reading(f"{entry.source}: {entry.sentence(())}")
            return Table.of(table, what)
        if not lenient:
            said.check_is_text(what)
        if isinstance(rows, pa.Table):
            return Table.of(relation_columns(named_apart(rows, what), what, said)[0], what)
        if said.src is None and said.dst is None and said.columns is None:
            return rows
        chosen = relation_columns(_frame_schema(rows, what).empty_table(), what, said)[0].column_names
        return rows.select(*(f"`{column.replace('`', '``')}`" for column in chosen))

    def _columns_of(self, name: str, columns: Sequence[str]) -> Table:
        """Return some columns of a relation; those of a DataFrame are written to files, once, by its own tasks."""
        opened = self._opened[name]
        if isinstance(opened, Table):
            return opened.select(columns)
        if (name, *columns) not in self._spooled:
            from bigjoin.spark.read import spool

            self._spooled[name, *columns] = spool(opened, columns, f"the relation {name!r}", self._scratch)
        return self._spooled[name, *columns]

    def on(self, spark: SparkSession) -> Relations:
        """Return a copy of the relations whose queries run in another session.

        The original still owns the files, so do not close it while you use the copy.

        Args:
            spark: The session for the copy.
        """
        other = copy(self)
        other._spark, other._owns_scratch = spark, False
        other._begin()
        return other

    def close(self) -> None:
        """Remove the scratch indices and results, and stop running queries. You cannot read frames from `find` after this."""
        self._running.stop("the relations were closed while this query ran: make them again")
        self._results.free()
        if self._owns_scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Relations:
        return self

    def __repr__(self) -> str:
        return f"Relations: {'; '.join(', '.join(filter(None, told)) for told in map(self._told, self._rows))}"

    def _repr_html_(self) -> str:
        told = [self._told(name) for name in self._rows]
        width = 3 if any(source for _, _, source in told) else 2
        return titled("Relations", None, table([row[:width] for row in told], ("relation", "rows", "source")[:width]))

    def _told(self, name: str) -> tuple[str, str, str]:
        """Return a relation with its columns, its number of rows and its file, as far as they are known without reading it."""
        given, opened = self._rows[name], self._opened.get(name)
        file = f"from {shown_path(Path(given))}" if isinstance(given, str | Path) else ""
        columns, rows = (opened.schema.names, opened.rows) if isinstance(opened, Table) else (None, None)
        with suppress(Exception):  # a DataFrame whose session has ended
            columns = column_names(given) if columns is None else columns
            table: Any = given
            if rows is None and not file and (isinstance(given, pa.Table | Sequence) or hasattr(given, "iloc")):
                rows = len(table)
        shape = name if columns is None else f"{name}({names(columns)})"
        return shape, "" if rows is None else number_of(rows, "row", "rows"), file

    def _complete(self, statement: Statement) -> Statement:
        with self._lock:
            asked = (statement.unread, self.zone)  # what a text means depends on the zone
            if asked not in self._selects:
                self._selects[asked] = self._select(statement)
            return self._selects[asked]

    def _select(self, statement: Statement) -> Statement:
        """Return what a SELECT means for these relations, and keep the index that it is asked of."""
        if self._drop_nulls:
            raise BigjoinError("drop_nulls is not for SQL, which says itself what becomes of NULLs: leave it out")

        def columns(name: str) -> dict[str, str]:
            return {field.name: str(field.type) for field in self.schema(name)}

        tables = RelationTables(columns, self._columns_of, list(self._rows), lambda: self.zone)
        name = f"{_SELECT}{len(self._selects) + 1}"
        found = meaning_of(statement.unread, statement.text, tables, name)
        read = [table.table for table in tables.tables.values()]
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        run = self._runner(read)
        self._encoded_selects[name] = _EncodedIndex(tables.encoded(found, folder, run), folder, run)
        return found

    def _runner(self, tables: Sequence[Table]) -> StageRunner:
        """Return what runs the stages of an index: Spark's tasks, if the tables are large and lie in files."""
        large = sum(table.rows or 0 for table in tables) > MAX_ROWS_INDEXED_HERE
        in_files = not any(table.in_memory for table in tables if table.rows)
        return runner(self.spark) if large and in_files and self._start is not no_session else in_threads

    def _index_for(self, query: Query) -> Index:
        with self._lock:
            if query.name.startswith(_SELECT):
                return self._encoded_selects[query.name].index_for(query)
            return self._encoded_for(query)

    def _encoded_for(self, query: Query) -> Index:
        domains = self._domains(query)
        held = self._encoded.get(domains)
        if held is None:
            used = {name: {c for d in domains for r, c in d.columns if r == name} for d in domains for name, _ in d.columns}
            chosen = {name: [c for c in self.schema(name).names if c in used[name]] for name in used}
            relations = {name: self._columns_of(name, columns) for name, columns in chosen.items()}
            run = self._runner(list(relations.values()))
            folder = Path(tempfile.mkdtemp(dir=self._scratch))
            encoded = encode(relations, domains, folder, run, drop_nulls=self._drop_nulls)
            held = self._encoded[domains] = _EncodedIndex(encoded, folder, run)
        return held.index_for(query)

    def _domains(self, query: Query) -> tuple[Domain, ...]:
        """Return the domains of the columns that a query reads: those that share an attribute, or are compared."""
        columns_of: dict[str, list[tuple[str, str]]] = {}
        plain = lengthened(query, lambda _: False)
        for meant in (meant for each in plain for atom in each.atoms for meant in self._read_as(atom)):
            for column, attribute in self._columns(meant):
                columns_of.setdefault(attribute, []).append((meant.relation, column))
        comparisons = (f for each in plain for f in each.filters if isinstance(f, Comparison) and not f.properties)
        pairs = (pair for comparison in comparisons for pair in comparison.pairs)
        compared = ([side for side in pair if isinstance(side, str)] for pair in pairs)
        groups = [*map(set, columns_of.values()), *({columns_of[a][0] for a in both} for both in compared if len(both) == 2)]
        return tuple(Domain(".".join(columns[0]), columns) for columns in _connected(groups))

    def _read_as(self, atom: Atom) -> Iterator[Atom]:
        """Give an atom of a pattern as what it may read: relations of pairs, without the rows that they do not keep."""
        if (pattern := atom.pattern) is None:
            yield atom
            return
        pairs = ["edge"] if "edge" in self._rows else [name for name in self._rows if len(self.schema(name)) == 2]
        for name in pattern.relations or pairs or [atom.relation]:
            ends = atom.attributes[:2] if pattern.rows and not atom.columns else atom.attributes
            yield replace(atom, relation=name, attributes=ends)

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
class _EncodedIndex:
    """Encoded relations, and the index with the column orders that queries have asked for so far."""

    encoded: Encoded
    folder: Path
    run: StageRunner
    orders: dict[str, tuple[ColumnOrder, ...]] = field(default_factory=dict)
    index: Index | None = None

    def index_for(self, query: Query) -> Index:
        """Return an index that holds what a query needs, adding the column orders that it lacks."""
        asked = _orders(query, self.encoded, self.orders)
        if self.index is None or asked != self.orders:
            self.index = self._with(asked)
            self.orders = asked
        return self.index

    def _with(self, asked: Mapping[str, tuple[ColumnOrder, ...]]) -> Index:
        with writing(self.folder / "index") as writer:
            manifest = self.encoded.manifest(writer.folder) if self.index is None else self.index.manifest
            new = {name: [o for o in orders if o not in self.orders.get(name, ())] for name, orders in asked.items()}
            found = self.encoded.write(new, writer.folder, self.folder, self.run)
            for name, entry in manifest.relations.items():
                found[name] = replace(entry, orders={**entry.orders, **found[name].orders})
            return writer.commit(replace(manifest, relations=found), self.run, kept=manifest.files)


def _frame_schema(frame: DataFrame, source: str) -> pa.Schema:
    from bigjoin.spark.read import frame_schema

    return frame_schema(frame, source)


def _connected(groups: Iterable[set[tuple[str, str]]]) -> list[tuple[tuple[str, str], ...]]:
    """Return the columns of groups in sets, one for all groups that have a column in common, directly or through others."""
    sets: list[set[tuple[str, str]]] = []
    for group in groups:
        sets = [other for other in sets if not other & group] + [group.union(*(other for other in sets if other & group))]
    return sorted(tuple(sorted(columns)) for columns in sets)


def _orders(query: Query, encoded: Encoded, known: Mapping[str, tuple[ColumnOrder, ...]]) -> dict[str, tuple[ColumnOrder, ...]]:
    """Return the column orders of each relation: those known already, and those that plans for a query read."""
    wanted: dict[str, set[ColumnOrder]] = {name: set(known.get(name, ())) for name in encoded.relations}
    for name, relation in encoded.relations.items():
        width = len(relation.columns)
        wanted[name] |= {(0, 1), (1, 0)} if width == 2 else {tuple(range(width))}
    for part in meaning(query, encoded.statistics):
        for name, order in _read_orders(part):
            wanted[name].add(order)
    found = {}
    for name, orders in wanted.items():
        kept: list[ColumnOrder] = []
        for order in sorted(orders, key=lambda order: (-len(order), order)):
            if not any(other[: len(order)] == order for other in kept):
                kept.append((*order, *(c for c in range(len(encoded.relations[name].columns)) if c not in order)))
        found[name] = tuple(sorted(kept))
    return found


def _read_orders(part: Draft) -> Iterator[tuple[str, ColumnOrder]]:
    nests = [nest_of(plan(part)), *count_plan(part).terms, *([] if part.query.projects else [factorized_plan(part)])]
    for extender in (e for nest in nests for loop in nest.root.walk() for e in loop.step.lists):
        relation, view = extender.atom.relation, extender.atom.view
        known = part.statistics.relation(extender.atom)
        if known.given or len(extender.atom.attributes) > known.arity:
            continue  # it is not part of the index, or reads rows, which have one order
        if view is None:
            yield relation, extender.columns
        elif not view.constants:
            yield relation, tuple(view.kept[c] for c in extender.columns)


def _is_large_parquet(path: Path) -> bool:
    files = list(path.rglob("*.parquet")) if path.is_dir() else [path] * (path.suffix == ".parquet" and path.exists())
    return sum(file.stat().st_size for file in files) > MAX_BYTES_READ_HERE


def _of_index(index: Index, name: str) -> pa.Table:
    """Return the tuples of the relation of that name in an index, or of its only relation."""
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
