"""Lets Spark find the data source `bigjoin` by itself: it imports packages with this prefix, and looks for `DefaultSource`.

It does so for every session that reads any source written in Python, so nothing is imported here that is not needed for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from bigjoin.data_source import PatternSource


class DefaultSource(DataSource):
    """The matches of a query, as a table; see `bigjoin.data_source`."""

    @classmethod
    def name(cls) -> str:
        """Return what follows USING, and what `format` takes."""
        return "bigjoin"

    def schema(self) -> StructType:
        """Return the columns of the query."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the matches."""
        return self._source().reader(schema)

    def _source(self) -> PatternSource:
        from bigjoin.data_source import PatternSource

        return PatternSource(self.options)
