"""Joining Parquet files: the whole has the rows of all parts."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bigjoin.joined_parquet import join_parquet

TABLES = {
    "numbers": pa.table({"a": list(range(1000)), "b": [i * 0.5 if i % 7 else None for i in range(1000)]}),
    "text": pa.table({"a": [f"é{i % 5}" for i in range(300)], "b": [b"\x00\xff" * (i % 3) for i in range(300)]}),
    "lists": pa.table({"a": [list(range(i % 4)) or None for i in range(200)]}),
    "others": pa.table(
        {
            "when": [datetime(2024, 1, 1, 12, i % 60) for i in range(100)],
            "price": [Decimal(i) / 4 for i in range(100)],
            "yes": [i % 2 == 0 for i in range(100)],
        }
    ),
    "empty": pa.table({"a": pa.array([], pa.int64())}),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "options",
    [{}, {"row_group_size": 11}, {"compression": "zstd"}, {"use_dictionary": False}, {"write_page_index": True}],
    ids=str,
)
def test_a_joined_file_has_the_rows_of_all_parts(name, options, tmp_path):
    table = TABLES[name]
    parts = [tmp_path / f"{i}.parquet" for i in range(3)]
    for part in parts:
        pq.write_table(table, part, **options)
    groups = pq.read_metadata(parts[0]).num_row_groups
    whole = tmp_path / "whole.parquet"
    join_parquet(parts, whole)
    wanted = pa.concat_tables([table] * 3)
    assert pq.read_table(whole).equals(wanted)
    metadata = pq.read_metadata(whole)
    assert metadata.num_rows == wanted.num_rows
    assert metadata.num_row_groups == 3 * groups
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM '{whole}'").fetchone() == (wanted.num_rows,)
