"""bigjoin index: build a durable index, which is then a SOURCE."""

from __future__ import annotations

import time
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.cli.completion import files
from bigjoin.cli.info import describe, described, summary
from bigjoin.cli.options import PLACE, Options, answer, index_options, named_option
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import check_exists, note_readings, spooled, start_spark
from bigjoin.cli.vacuum import vacuumed
from bigjoin.cli.verify import verified
from bigjoin.defaults import PART_SIZE
from bigjoin.languages import parse
from bigjoin.reading import JUDGED
from bigjoin.storage.place import Place

if TYPE_CHECKING:
    from bigjoin.query.query import Query

_MATERIALIZE = "Store a query's result as a relation, which plans read where it is cheaper. If SOURCE is DIR, do nothing else."
_VERTICES = "A table of vertices: their ids, and columns that become properties."
_PART_SIZE = "How many rows a task holds at once. Larger parts take more memory."
_FORMER_OPTIONS = {"info": described, "verify": verified, "vacuum": vacuumed}
"""Options that have become commands. They still work, with a note, until the next release."""


@click.command()
@click.argument("source", shell_complete=files)
@click.argument("directory", metavar="DIR", type=PLACE, required=False)
@named_option("--relation", "relations", "PATH", text="A further relation over the same vertices; may be repeated.")
@click.option("--name", default="edge", metavar="NAME", show_default=True, help="The name of SOURCE's relation.")
@click.option("--vertices", metavar="PATH", shell_complete=files, help=_VERTICES)
@click.option("--labels", metavar="COLUMN", help="The vertices' column of labels; each becomes a relation [default: label].")
@click.option("--types", metavar="COLUMN", help="SOURCE's column of edge types; each type also becomes a relation.")
@click.option("--no-properties", is_flag=True, help="Leave out the columns beyond src and dst.")
@click.option("--parallel", is_flag=True, help="Give every row an id, even without further columns.")
@click.option("--drop-nulls", is_flag=True, help="Drop edges with a NULL id instead of refusing them.")
@named_option("--materialize", "stored", "QUERY", text=_MATERIALIZE, example=", as in tri=triangle")
@click.option("--shards", type=click.IntRange(min=1), metavar="N", help="Divide the lists among N workers [default: 1].")
@click.option("--part-size", type=click.IntRange(min=1), metavar="N", default=PART_SIZE, show_default=True, help=_PART_SIZE)
@click.option("--info", is_flag=True, hidden=True)
@click.option("--verify", is_flag=True, hidden=True)
@click.option("--vacuum", is_flag=True, hidden=True)
@index_options
def index(source: str, directory: Place | None, stored: dict[str, str], options: Options, **build: Any) -> None:
    """Build an index of SOURCE in DIR, where it stays. Then use DIR as the SOURCE of any number of queries.

    If DIR already has an index, it is replaced once the new one is complete. If SOURCE is an index, it is written again, with
    other --shards or --undirected.
    """
    moved = [name for name in _FORMER_OPTIONS if build.pop(name)]
    for name in moved:
        click.echo(f"bigjoin: note: --{name} is now a command of its own: bigjoin {name} {directory or source}", err=True)
    if directory is not None:
        if "vacuum" in moved:
            raise click.UsageError("--vacuum takes only the directory of an index")
        queries = {name: parse(query) for name, query in stored.items()}  # report a typo before building anything
        _build(source, directory, queries, options, verify="verify" in moved, **build)
    elif not moved:
        raise click.UsageError("name the directory DIR to build the index in")
    else:
        facts, lines = zip(*(_FORMER_OPTIONS[name](Path(source), options) for name in moved), strict=True)
        answer(options, dict(chain.from_iterable(each.items() for each in facts)), chain.from_iterable(lines))


def _build(
    source: str,
    directory: Place,
    queries: dict[str, Query],
    options: Options,
    *,
    verify: bool,
    name: str,
    no_properties: bool,
    part_size: int,
    **build: Any,
) -> None:
    """Build an index, and print what it holds; `build` are further arguments of build_index."""
    from bigjoin.graph import Graph
    from bigjoin.index.directory import Index
    from bigjoin.index.manifest_file import check_target
    from bigjoin.index.writer import verify as verify_index
    from bigjoin.indexing import build_index, run_for
    from bigjoin.materialize import definitions, materialize
    from bigjoin.spark.store_options import index_at
    from bigjoin.streaming.compaction import compact_in_place

    check_target(directory)
    if name in options.relations:
        raise click.UsageError(f"--relation {name}={options.relations[name]}: there are two relations {name!r}")
    given = {"source": source, "vertices": build["vertices"], **{f"r {n}": p for n, p in options.relations.items()}}
    given = spooled({name: path for name, path in given.items() if path is not None})
    source, build["vertices"] = given["source"], given.get("vertices")
    relations = {name: given[f"r {name}"] for name in options.relations}
    for path in given.values():
        check_exists(path)
    at = index_at(source)
    before = None if at is None else Index.open(at)
    if before is not None and (options.relations or name != "edge"):
        raise click.UsageError(f"{source} is an index: --name and --relation are for tables of edges")
    changes_edges = no_properties or options.drop_nulls or any(build.values()) or options.reading != JUDGED
    with Reporter(quiet=options.quiet) as report:
        started = time.perf_counter()
        spark = partial(start_spark, options, report)
        if (
            before is not None
            and queries
            and not changes_edges
            and before.path.resolve() == directory.resolve()
            and not (options.undirected and Graph.open(before.path).directed)
        ):
            runner = run_for(before, spark, report.share)
            built = materialize(compact_in_place(before), queries, runner, part=part_size, progress=report.stage)
        else:
            built = build_index(
                source if before is not None else {name: source, **relations},
                directory,
                directed=not options.undirected,
                properties=not no_properties,
                drop_nulls=options.drop_nulls,
                materialized=queries,
                part_size=part_size,
                spark=spark,
                progress=report.stage,
                share=report.share,
                **vars(options.reading),
                **build,
            )
            if before is None:
                note_readings(built, options)
        seconds = time.perf_counter() - started
        if verify:
            report.stage("verifying")
            verify_index(built)
    known = definitions(before) if before is not None else {}
    if dropped := known.keys() - definitions(built).keys():
        click.echo(f"not kept, because edges no longer have a direction: {', '.join(sorted(dropped))}", err=True)
    facts = describe(built) | {"seconds": seconds} | ({"verified": True} if verify else {})
    rows = sum(relation["source"]["rows"] for relation in facts["relations"].values())
    speed = f"built in {seconds:.1f} s, {rows / seconds:,.0f} rows a second" + (", and verified" if verify else "")
    answer(options, facts, [*summary(facts), speed, f"{directory} is now a SOURCE"])
