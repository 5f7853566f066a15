"""Print the groups of a count, or write them to a file: the largest first, and those of one size in order of their keys."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.cli.options import Options
from bigjoin.cli.printing import form_of_rows, print_files, print_table, rows_shown, until_reader_leaves
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

        for path in options.paths(source):
            check_target(output, path)
    from bigjoin.group_counts import group_keys
    from bigjoin.output import assemble, staging
    from bigjoin.storage.scratch import scratch_directory

    group_keys(by, query)  # report a mistake before Spark takes seconds to start
    form = form_of_rows(options)
    most = rows_shown(options, form)
    with ExitStack() as ending:
        with asking(query, source, options, doing="counting") as (graph, report):
            groups = _counted(graph, query, by, options, report)
            table, written = None, 0
            parts: list[PartFile] = []
            if output is not None:
                with staging(output) as folder:
                    parts, schema = _write(groups, folder, output.suffix.lower())
                    assemble([file for file, _ in parts], schema, output, folder)
                written = sum(rows for _, rows in parts)
            elif most is not None:
                table = _first(groups, most + 1)
            else:
                folder = scratch_directory("groups")
                ending.callback(shutil.rmtree, folder, ignore_errors=True)
                parts, _ = _write(groups, folder, ".arrow" if form == "json" else ".csv")
            columns = groups.schema.names
        if output is not None:
            click.echo(f"{written:,} {'group' if written == 1 else 'groups'} in {output}", err=True)
        elif table is not None:
            print_table(table.slice(0, most), form)
            if most is not None and table.num_rows > most:
                click.echo(f"the {most} largest groups; -o FILE writes all", err=True)
        else:
            with until_reader_leaves(options):
                print_files((file for file, _ in parts), form, columns)


def _counted(graph: Graph | Relations, query: Statement, by: str, options: Options, report: Reporter) -> pa.Table | DataFrame:
    """Return the groups in order: a table if they are counted in this process, otherwise a DataFrame."""
    found = graph.group_table(query, by, progress=report.share, **options.run, **options.limits)
    if found is not None:
        return found
    from bigjoin.group_frames import in_order

    return in_order(graph.count(query, by=by, progress=report.share, **options.run, **options.limits))


def _first(groups: Any, number: int) -> pa.Table:
    """Return the largest groups."""
    return groups.limit(number).toArrow() if hasattr(groups, "mapInArrow") else groups.slice(0, number)


def _write(groups: pa.Table | DataFrame, folder: Path, suffix: str) -> tuple[list[PartFile], pa.Schema]:
    """Write groups to one file in a folder."""
    from bigjoin.local.matches import write_table
    from bigjoin.spark.frames import write_frame

    if hasattr(groups, "mapInArrow"):
        return write_frame(groups.coalesce(1), folder, suffix)
    return write_table(groups, folder, suffix), groups.schema
