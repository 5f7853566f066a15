"""Answers to SQL without Spark: the matches of each query along one path of execution, put together in Python."""

from __future__ import annotations

from bigjoin.relations import Relations
from tests.statements import answered, counted


def answered_sql(relations: Relations, text: str, way: str, **flags) -> tuple[list[str], list[tuple]]:
    """The columns and rows of a SELECT, in order if it asks for one; they are counted as well, where that is possible."""
    statement = relations._read(text, flags)
    index = [relations._index_for(block.query) for block in statement.everything][-1]  # which has what all of them need
    columns, rows = answered(statement, index, way)
    if (number := counted(statement, index, way)) is not None:
        assert number == (sum(row[0] for row in rows) if statement.count_column else len(rows)), text
    return columns, rows
