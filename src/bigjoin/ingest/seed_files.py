"""Files of seeds: tables whose columns are called as attributes are, or the ids of one attribute, one a line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from bigjoin.errors import SourceError, did_you_mean, shown
from bigjoin.ingest.delimited import read_delimited
from bigjoin.ingest.encodings import check_text
from bigjoin.ingest.files import PARQUET_SUFFIXES, SEPARATORS, first_lines, read_relation, words
from bigjoin.ingest.json_lines import JSON_SUFFIXES
from bigjoin.ingest.table import reading
from bigjoin.paths import check_regular, format_suffix


def read_seeds(source: str, attribute: str | None = None) -> tuple[pa.Table, bool]:
    """Return the columns of a file, and whether they are as a text spells them; or only the column of an attribute.

    The first line of a text has the names of its columns, unless the text is a list of one attribute's ids.
    """
    check_regular(source)
    path = Path(source)
    if not path.exists():
        raise SourceError(f"there is no file or directory {source}")
    is_text = not path.is_dir() and format_suffix(source) not in (*PARQUET_SUFFIXES, *JSON_SUFFIXES)
    with reading(source):
        table = _text(path, source, attribute) if is_text else read_relation(source)[0]
    return (table if attribute is None else _only(table, attribute, source)), is_text


def _text(path: Path, source: str, attribute: str | None) -> pa.Table:
    check_text(source, path)
    skipped, lines = first_lines(path)
    if not lines:
        if attribute is not None:  # a list of no ids
            return pa.table({attribute: pa.array([], pa.string())})
        raise SourceError(f"{source} is empty: its first line names attributes, and the lines below hold their ids")
    separator = max(SEPARATORS, key=lines[0].count)
    if separator not in lines[0] and len(lines[0].split()) > 1:
        separator = " "
    titles = words(lines[0], separator)
    titled = attribute is None or attribute in titles
    names = titles if titled else [f"f{i}" for i in range(len(titles))]
    table = read_delimited(path, separator, titled=titled, skipped=skipped, texts=names, nulls=[""], source=source)
    return table if titled or len(titles) > 1 else table.rename_columns([str(attribute)])


def _only(table: pa.Table, attribute: str, source: str) -> pa.Table:
    """Return the column of an attribute, or the only one, whatever it is called."""
    names = table.column_names
    if attribute not in names and len(names) > 1:
        hint = did_you_mean(attribute, names) or "give its ids alone, one a line"
        raise SourceError(f"{source} has {len(names)} columns, and none is called {attribute!r} ({shown(names, 120)}); {hint}")
    chosen = attribute if attribute in names else names[0]
    return table.select([chosen]).rename_columns([attribute])
