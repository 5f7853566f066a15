"""bigjoin index: build a durable index, which is then a SOURCE."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.cli.info import describe, summary
from bigjoin.cli.options import Options, answer, index_options, named_option
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import check_exists, start_spark
from bigjoin.cli.vacuum import vacuumed
from bigjoin.cli.verify import verified
from bigjoin.defaults import PART_SIZE
from bigjoin.languages import parse
from bigjoin.paths import is_remote

if TYPE_CHECKING:
    from bigjoin.index.directory import Index
    from bigjoin.query.query import Query

_MATERIALIZE = "Store a query's result as a relation, which plans then read where it pays. If SOURCE is DIR, that is all."
_PART_SIZE = "Rows that a task holds at once; memory grows with it."
_UNCHANGED = {"properties": True, "parallel": False, "drop_nulls": False}
"""What options that change the edges of an index are if nobody gives them; others are None."""


def _split(_: click.Context, __: click.Parameter, names: str | None) -> list[str] | None:
    return [name.strip() for name in names.split(",")] if names else None


@click.command()
@click.argument("source")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path), required=False)
@named_option("--relation", "relations", "PATH", text="A further relation over the same vertices; may be repeated.")
@click.option("--name", default="edge", metavar="NAME", show_default=True, help="What SOURCE's relation is called.")
@click.option("--vertices", metavar="PATH", help="A table of vertices: their ids, and columns that become properties.")
@click.option("--labels", metavar="COLUMN", help="The vertices' column of labels; each is a relation [default: label].")
@click.option("--types", metavar="COLUMN", help="A column of SOURCE with the type of each edge; each is a relation, too.")
@click.option("--columns", metavar="A,B,...", callback=_split, help="Names for SOURCE's columns, src and dst first.")
@click.option("--no-properties", is_flag=True, help="Leave out the columns beyond src and dst.")
@click.option("--parallel", is_flag=True, help="Give every row an id, also where there are no further columns.")
@click.option("--drop-nulls", is_flag=True, help="Drop edges with a NULL id instead of refusing them.")
@named_option("--materialize", "stored", "QUERY", text=_MATERIALIZE, example=", as in tri=triangle")
@click.option("--shards", type=click.IntRange(min=1), metavar="N", help="Workers to deal the lists to [default: 1].")
@click.option("--part-size", type=click.IntRange(min=1), metavar="N", default=PART_SIZE, show_default=True, help=_PART_SIZE)
@click.option("--info", is_flag=True, hidden=True)
@click.option("--verify", is_flag=True, hidden=True)
@click.option("--vacuum", is_flag=True, hidden=True)
@index_options
def index(
    source: str,
    directory: Path | None,
    info: bool,
    verify: bool,
    vacuum: bool,
    stored: dict[str, str],
    options: Options,
    **build: Any,
) -> None:
    """Build the index of SOURCE in DIR, for many queries; DIR is then a SOURCE.

    An index that is already in DIR is replaced when the new one is complete. If SOURCE is an index, it is written again, with
    other --shards or --undirected.
    """
    moved = {"info": info, "verify": verify, "vacuum": vacuum}
    for name in (name for name, given in moved.items() if given):
        click.echo(f"bigjoin: note: --{name} is now a command of its own: bigjoin {name} {directory or source}", err=True)
    if directory is None:
        if not any(moved.values()):
            raise click.UsageError("name the directory DIR to build the index in")
        _inspect(Path(source), options, **moved)
        return
    if vacuum:
        raise click.UsageError("--vacuum takes an index, and nothing else")
    queries = {name: parse(query) for name, query in stored.items()}  # before anything is built: a typo costs nothing
    _build(source, directory, queries, options, verify=verify, **build)


def _inspect(path: Path, options: Options, *, info: bool, verify: bool, vacuum: bool) -> None:
    """Do what the commands info, verify and vacuum do, with one answer."""
    from bigjoin.index.directory import Index

    facts = describe(Index.open(path)) if info else {}
    lines = list(summary(facts)) if info else []
    for asked, inspect in ((verify, partial(verified, path, options)), (vacuum, partial(vacuumed, path))):
        if asked:
            more, line = inspect()
            facts |= more
            lines.append(line)
    answer(options, facts, lines)


def _build(
    source: str,
    directory: Path,
    queries: dict[str, Query],
    options: Options,
    *,
    verify: bool,
    name: str,
    no_properties: bool,
    part_size: int,
    **build: Any,
) -> None:
    """Build an index, and tell what it holds; `build` are arguments of build_index."""
    from bigjoin.index.directory import Index
    from bigjoin.index.manifest import check_target, is_index
    from bigjoin.index.writer import verify as verify_index
    from bigjoin.indexing import build_index, run_for
    from bigjoin.materialize import definitions, materialize
    from bigjoin.streaming.compaction import compact_in_place

    check_target(directory)
    if name in options.relations:
        raise click.UsageError(f"--relation {name}={options.relations[name]}: there are two relations {name!r}")
    for path in (source, *options.relations.values(), *filter(None, [build["vertices"]])):
        check_exists(path)
    before = Index.open(source) if not is_remote(source) and is_index(Path(source)) else None
    if before is not None and (options.relations or name != "edge"):
        raise click.UsageError(f"{source} is an index: --name and --relation are for tables of edges")
    build |= {"properties": not no_properties, "drop_nulls": options.drop_nulls}
    with Reporter(quiet=options.quiet) as report:
        started = time.perf_counter()
        spark = partial(start_spark, options, report)
        if before is not None and queries and _only_adds(before, directory, build, undirected=options.undirected):
            run = run_for(before, spark, report.share)
            built = materialize(compact_in_place(before), queries, run, part=part_size, progress=report.stage)
        else:
            built = build_index(
                source if before is not None else {name: source, **options.relations},
                directory,
                directed=not options.undirected,
                materialized=queries,
                part_size=part_size,
                spark=spark,
                progress=report.stage,
                share=report.share,
                **build,
            )
        seconds = time.perf_counter() - started
        if verify:
            report.stage("verifying")
            verify_index(built)
    known = definitions(before) if before is not None else {}
    if dropped := known.keys() - definitions(built).keys():
        click.echo(f"not kept, as edges have no direction now: the materialised {', '.join(sorted(dropped))}", err=True)
    facts = describe(built) | {"seconds": seconds} | ({"verified": True} if verify else {})
    rows = sum(relation["source"]["rows"] for relation in facts["relations"].values())
    speed = f"built in {seconds:.1f} s, {rows / seconds:,.0f} rows a second" + (", and verified" if verify else "")
    answer(options, facts, [*summary(facts), speed, f"{directory} is now a SOURCE"])


def _only_adds(index: Index, directory: Path, build: dict[str, Any], *, undirected: bool) -> bool:
    """Tell whether an index is to get further relations where it is, and nothing else."""
    from bigjoin.graph import Graph

    unchanged = build == {**dict.fromkeys(build), **_UNCHANGED}
    turns = undirected and Graph.open(index.path).directed
    return unchanged and not turns and index.path.resolve() == directory.resolve()
