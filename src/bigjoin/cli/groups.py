"""Print the groups of a count, or write them to a file: the largest first, and those of one size in order of their keys."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.cli.find import ROWS_SHOWN, print_csv, print_json, show
from bigjoin.cli.options import Options
from bigjoin.cli.source import asking

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from bigjoin.cli.progress import Reporter
    from bigjoin.graph import Graph
    from bigjoin.local.matches import PartFile
    from bigjoin.query.statement import Statement
    from bigjoin.relations import Relations


def print_groups(query: Statement, source: str | None, by: str, output: Path | None, options: Options) -> None:
    """Count by groups and show them: a table on a terminal, CSV on a pipe, JSON lines with --json, or a file."""
    if output is not None:
        from bigjoin.output import check_target

        for path in (source, *options.relations.values()):
            check_target(output, path)
    from bigjoin.group_counts import group_keys
    from bigjoin.output import assemble, staging
    from bigjoin.storage.scratch import scratch_directory

    group_keys(by, query)  # report a mistake before Spark takes seconds to start
    with asking(query, source, options, doing="counting") as (graph, report):
        groups = _counted(graph, query, by, options, report)
        table, written = None, 0
        parts: list[PartFile] = []
        if output is not None:
            with staging(output) as folder:
                parts, schema = _write(groups, folder, output.suffix.lower())
                assemble([file for file, _ in parts], schema, output, folder)
            written = sum(rows for _, rows in parts)
        elif sys.stdout.isatty() and not options.as_json:
            table = _first(groups)
        else:
            parts, _ = _write(groups, scratch_directory("groups"), ".arrow" if options.as_json else ".csv")
        columns = groups.schema.names
    if output is not None:
        click.echo(f"{written:,} {'group' if written == 1 else 'groups'} in {output}", err=True)
    elif table is not None:
        show(table)
        if table.num_rows == ROWS_SHOWN:
            click.echo(f"the {ROWS_SHOWN} largest groups; -o FILE writes all", err=True)
    else:
        files = (file for file, _ in parts)
        try:
            print_json(files) if options.as_json else print_csv(files, columns)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _counted(graph: Graph | Relations, query: Statement, by: str, options: Options, report: Reporter) -> pa.Table | DataFrame:
    """Return the groups in order: a table if they are counted in this process, otherwise a DataFrame."""
    found = graph.group_table(query, by, progress=report.share, **options.run, **options.limits)
    if found is not None:
        return found
    from bigjoin.group_frames import in_order

    return in_order(graph.count(query, by=by, progress=report.share, **options.run, **options.limits))


def _first(groups: Any) -> pa.Table:
    """Return the largest groups."""
    return groups.limit(ROWS_SHOWN).toArrow() if hasattr(groups, "mapInArrow") else groups.slice(0, ROWS_SHOWN)


def _write(groups: pa.Table | DataFrame, folder: Path, suffix: str) -> tuple[list[PartFile], pa.Schema]:
    """Write groups to one file in a folder."""
    from bigjoin.local.matches import write_table
    from bigjoin.spark.frames import write_frame

    if hasattr(groups, "mapInArrow"):
        return write_frame(groups.coalesce(1), folder, suffix)
    return write_table(groups, folder, suffix), groups.schema
