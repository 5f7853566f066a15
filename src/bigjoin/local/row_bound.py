"""A bound on the rows of a result that many tasks find: each tells how many it has, and ends with an error if all are too many.

The numbers lie in files of a folder that every task sees. A task writes its own before it adds up all of them, so the task that
writes last sees every number: no result with more rows than allowed is ever complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from bigjoin.errors import RowLimitError
from bigjoin.storage import Place, is_on_store


@dataclass(frozen=True)
class RowBound:
    """The most rows of a result, and the folder in which tasks say how many they have."""

    most: int
    folder: Place

    def watched(self, batches: Iterator[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """Give the batches of a task, unless all tasks together have found too many rows."""
        rows, mine = 0, self.folder / str(task)
        for batch in batches:
            rows += batch.num_rows
            self._note(mine, rows)
            yield batch

    def _note(self, mine: Place, rows: int) -> None:
        number = b"%020d" % rows
        if not is_on_store(mine):  # overwritten in place with a fixed width, so that nobody reads half of a number
            with mine.open("r+b" if mine.exists() else "wb", buffering=0) as file:
                file.write(number)
        else:
            mine.write_bytes(number)
        found = sum(int(file.read_bytes() or 0) for file in self.folder.iterdir())
        if found > self.most:
            raise too_many_rows(self.most)


def too_many_rows(most: int) -> RowLimitError:
    """Return the error of a result that turns out to have more rows than allowed."""
    return RowLimitError(
        f"there are more than the {most:,} rows that max_rows allows: ask for fewer (limit, sample, where), only count them, "
        "or allow more"
    )
