"""DuckDB: the self join that its optimizer plans, or the form that somebody would write by hand."""

from __future__ import annotations

import tempfile

import duckdb

from bigjoin_bench.memory import half_of_memory
from bigjoin_bench.peers.sql import as_join, by_hand, restricted
from bigjoin_bench.question import Answer, Input, Question

_DIRECTED = "CREATE TABLE edge AS SELECT DISTINCT src::{ids} AS src, dst::{ids} AS dst FROM '{path}' ORDER BY ALL"

_UNDIRECTED = """
CREATE TABLE place AS
    SELECT id, (row_number() OVER (ORDER BY count(*), id))::INTEGER AS n
    FROM (SELECT src AS id FROM '{path}' UNION ALL SELECT dst FROM '{path}') GROUP BY id;
CREATE TABLE oriented AS
    SELECT least(x.n, y.n) AS src, greatest(x.n, y.n) AS dst
    FROM '{path}' e, place x, place y WHERE e.src = x.id AND e.dst = y.id ORDER BY ALL;
CREATE TABLE both_ways AS SELECT src, dst FROM oriented UNION ALL SELECT dst, src FROM oriented ORDER BY ALL;
"""
"""Vertices are numbered by degree, and edges point upwards: the best symmetry restriction, once and for all queries."""


class DuckDB:
    """An in-memory database with the edges sorted, in the narrowest type that holds their ids."""

    def __init__(self, *, threads: int, by_hand: bool = False) -> None:
        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {threads}")
        self.connection.execute(f"SET memory_limit = '{half_of_memory()}MB'")
        self.by_hand = by_hand
        self.undirected = False

    def version(self) -> str:
        return str(duckdb.__version__)

    def load(self, graph: Input) -> None:
        """Make the tables."""
        self._spill = tempfile.TemporaryDirectory(prefix="bigjoin-bench-duckdb-")
        self.connection.execute(f"SET temp_directory = '{self._spill.name}'")
        self.undirected = graph.undirected
        (largest,) = self.connection.execute(f"SELECT max(greatest(src, dst)) FROM '{graph.path}'").fetchone()
        ids = "INTEGER" if largest < 2**31 else "BIGINT"
        self.connection.execute((_UNDIRECTED if graph.undirected else _DIRECTED).format(path=graph.path, ids=ids))

    def run(self, question: Question) -> Answer:
        """Count."""
        if self.by_hand:
            sql = by_hand(question.query, undirected=self.undirected)
        else:
            sql = restricted(question.query) if self.undirected else as_join(question.query)
        return Answer(int(self.connection.execute(sql).fetchone()[0] or 0))
