"""bigjoin index: build a durable index, which is then a SOURCE; look at one, verify it, tidy it up."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.cli.options import Options, index_options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.source import check_exists, start_spark
from bigjoin.defaults import PART_SIZE
from bigjoin.paths import is_remote

if TYPE_CHECKING:
    from bigjoin.index.directory import Index
    from bigjoin.query.query import Query

_MATERIALIZE = "Store a query's result as a relation, which plans then read where it pays. If SOURCE is DIR, that is all."
_PART = "Rows that a task holds at once; memory follows it."
BAR = 40
"""Width of the longest bar of a histogram."""


@click.command()
@click.argument("source")
@click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@click.option("--relation", "relations", multiple=True, metavar="NAME=PATH", help="A further relation over the same vertices.")
@click.option("--name", default="edge", metavar="NAME", show_default=True, help="What SOURCE's relation is called.")
@click.option("--vertices", metavar="PATH", help="A table of vertices: their ids, and columns that become properties.")
@click.option("--labels", metavar="COLUMN", help="The vertices' column of labels; each is a relation [default: label].")
@click.option("--types", metavar="COLUMN", help="A column of SOURCE with the type of each edge; each is a relation, too.")
@click.option("--columns", metavar="A,B,...", help="Names for SOURCE's columns, src and dst first.")
@click.option("--no-properties", is_flag=True, help="Leave out the columns beyond src and dst.")
@click.option("--parallel", is_flag=True, help="Give every row an id, also where there are no further columns.")
@click.option("--drop-nulls", is_flag=True, help="Drop edges with a NULL id instead of refusing them.")
@click.option("--materialize", "materialized", multiple=True, metavar="NAME=QUERY", help=_MATERIALIZE)
@click.option("--shards", type=click.IntRange(min=1), metavar="N", help="Workers to deal the lists to [default: 1].")
@click.option("--part-size", type=click.IntRange(min=1), metavar="N", default=PART_SIZE, show_default=True, help=_PART)
@click.option("--info", is_flag=True, help="Show what the index SOURCE holds.")
@click.option("--verify", is_flag=True, help="Compare every file with its checksum; with DIR, after building it.")
@click.option("--vacuum", is_flag=True, help="Remove files of the index SOURCE that its current version does not need.")
@index_options
def index(source: str, directory: Path | None, info: bool, verify: bool, vacuum: bool, options: Options, **build: Any) -> None:
    """Build the index of SOURCE in DIR, for many queries; DIR is then a SOURCE.

    An index that is already in DIR is replaced when the new one is complete. If SOURCE is an index, it is written again, with
    other --shards or --undirected. With --info, --verify or --vacuum and no DIR, SOURCE is an index to look at.
    """
    if directory is None:
        if not (info or verify or vacuum):
            raise click.UsageError("name the directory DIR to build the index in (or use --info, --verify or --vacuum)")
        _inspect(Path(source), info=info, verify=verify, vacuum=vacuum, options=options)
        return
    if vacuum:
        raise click.UsageError("--vacuum takes an index, and nothing else")
    _build(source, directory, verify, options, **build)


def _build(
    source: str,
    directory: Path,
    verify: bool,
    options: Options,
    *,
    relations: tuple[str, ...],
    name: str,
    vertices: str | None,
    labels: str | None,
    types: str | None,
    columns: str | None,
    no_properties: bool,
    parallel: bool,
    drop_nulls: bool,
    shards: int | None,
    part_size: int,
    materialized: tuple[str, ...],
) -> None:
    from bigjoin.index.directory import Index
    from bigjoin.index.manifest import check_target, is_index
    from bigjoin.index.writer import verify as verify_index
    from bigjoin.indexing import build_index, run_for
    from bigjoin.materialize import definitions, materialize
    from bigjoin.streaming.compaction import settled_in_place

    check_target(directory)
    paths = {name: source}
    for relation in relations:
        other, found, path = relation.partition("=")
        if not found or not path:
            raise click.UsageError(f"--relation {relation}: write NAME=PATH")
        if other in paths:
            raise click.UsageError(f"--relation {relation}: there are two relations {other!r}")
        paths[other] = path
    for path in (*paths.values(), *((vertices,) if vertices else ())):
        check_exists(path)
    stored = _named_queries(materialized)
    whole = not is_remote(source) and is_index(Path(source))
    if whole and (len(paths) > 1 or name != "edge"):
        raise click.UsageError(f"{source} is an index: --name and --relation are for tables of edges")
    before = Index.open(source) if whole else None
    chosen: dict[str, Any] = {
        "vertices": vertices,
        "labels": labels,
        "types": types,
        "columns": [column.strip() for column in columns.split(",")] if columns else None,
        "properties": not no_properties,
        "parallel": parallel,
        "drop_nulls": drop_nulls,
        "shards": shards,
    }
    with Reporter(quiet=options.quiet) as report:
        started = time.perf_counter()
        spark = partial(start_spark, options, report)
        if before is not None and stored and _only_adds(before, directory, chosen, undirected=options.undirected):
            run = run_for(before, spark, report.share)
            built = materialize(settled_in_place(before), stored, run, part=part_size, progress=report.stage)
        else:
            built = build_index(
                source if whole else paths,
                directory,
                directed=not options.undirected,
                **chosen,
                materialized=stored,
                part_size=part_size,
                spark=spark,
                progress=report.stage,
                share=report.share,
            )
        seconds = time.perf_counter() - started
        if verify:
            report.stage("verifying")
            verify_index(built)
    known = definitions(before) if before is not None else {}
    if dropped := known.keys() - definitions(built).keys():
        click.echo(f"not kept, as edges have no direction now: the materialised {', '.join(sorted(dropped))}", err=True)
    summary = describe(built) | {"seconds": seconds} | ({"verified": True} if verify else {})
    if options.as_json:
        click.echo(json.dumps(summary, default=str))
        return
    show(summary)
    edges = sum(relation["source"]["rows"] for relation in summary["relations"].values())
    click.echo(f"built in {seconds:.1f} s, {edges / seconds:,.0f} rows a second" + (", and verified" if verify else ""))
    click.echo(f"{directory} is now a SOURCE")


def _only_adds(index: Index, directory: Path, chosen: dict[str, Any], *, undirected: bool) -> bool:
    """Tell whether an index is to get further relations where it is, and nothing else."""
    from bigjoin.graph import Graph

    nothing = chosen == {**dict.fromkeys(chosen), "properties": True, "parallel": False, "drop_nulls": False}
    turns = undirected and Graph.open(index.path).directed
    return nothing and not turns and index.path.resolve() == directory.resolve()


def _named_queries(materialized: tuple[str, ...]) -> dict[str, Query]:
    """Return the queries to materialise, by name: read before anything is built, so that a typo costs nothing."""
    from bigjoin.languages import parse

    stored: dict[str, Query] = {}
    for entry in materialized:
        name, found, query = entry.partition("=")
        if not found or not query.strip():
            raise click.UsageError(f"--materialize {entry}: write NAME=QUERY, as in tri=triangle")
        if name in stored:
            raise click.UsageError(f"--materialize {entry}: there are two relations {name!r}")
        stored[name] = parse(query)
    return stored


def _inspect(path: Path, *, info: bool, verify: bool, vacuum: bool, options: Options) -> None:
    from bigjoin.index.directory import Index
    from bigjoin.index.writer import vacuum as vacuum_index
    from bigjoin.index.writer import verify as verify_index

    opened = Index.open(path)
    said: dict[str, Any] = describe(opened) if info else {}
    if verify:
        with Reporter(quiet=options.quiet) as report:
            report.stage("verifying")
            said |= {"verified": True, "verified_bytes": verify_index(opened)}
    if vacuum:
        said["freed"] = vacuum_index(path)
    if options.as_json:
        click.echo(json.dumps(said, default=str))
        return
    if info:
        show(said)
    if verify:
        files = len(opened.manifest.files)
        click.echo(f"{path} is as it was written: {files} files, {said['verified_bytes'] / 2**20:,.1f} MB, all checksums agree")
    if vacuum:
        click.echo(f"{said['freed'] / 2**20:,.1f} MB freed in {path}")


def describe(index: Index) -> dict[str, Any]:
    """Return what an index holds, as the summary shows it."""
    from bigjoin.index.directory import VERTEX
    from bigjoin.index.entries import SourceEntry
    from bigjoin.index.trust import verify_degrees

    manifest = index.manifest
    statistics = index.statistics
    verify_degrees(index, VERTEX)
    ids = index.dictionaries[VERTEX].ids
    directed = not any(relation.symmetric for relation in statistics.relations.values())
    edge_relations = [entry for entry in manifest.relations.values() if len(entry.domains) == 2 and not entry.is_stored_result]
    tries = {file for r in edge_relations for order in r.orders.values() for level in order.levels for file in level.files}
    own = {name: relation for name, relation in statistics.relations.items() if not relation.materialized}
    edges = {name: r.tuples if directed else r.tuples // 2 for name, r in own.items() if r.arity == 2}
    return {
        "vertices": statistics.domains[VERTEX],
        "ids": manifest.domains[VERTEX].type,
        "edges": sum(edges.values()),
        "directed": directed,
        "relations": {
            name: {
                "edges": count,
                "loops": statistics.relations[name].loops,
                "rows": statistics.domains.get(f"{name} edge"),
                "properties": dict(statistics.properties.get(f"{name} edge", {})),
                "source": asdict(manifest.relations[name].source or SourceEntry(0, 0, 0, 0)),
            }
            for name, count in edges.items()
        },
        "labels": {name: r.tuples for name, r in own.items() if r.arity == 1},
        "materialized": {
            name: {"query": entry.definition.query, "tuples": entry.tuples}
            for name, entry in manifest.relations.items()
            if entry.definition is not None
        },
        "vertex_properties": dict(statistics.properties.get(VERTEX, {})),
        "bytes": index.bytes,
        "bytes_per_edge": sum(manifest.files[name].bytes for name in tries) / max(1, sum(edges.values())),
        "codes": manifest.codes,
        "shards": manifest.shards,
        "epoch": manifest.epoch,
        "format": manifest.version,
        "created": manifest.created,
        "degrees": list(manifest.degrees.histogram),
        "hubs": [{"id": ids[code].as_py(), "degree": degree} for code, degree in manifest.degrees.hubs],
    }


def show(said: dict[str, Any]) -> None:
    """Print what an index holds."""
    kind = "directed" if said["directed"] else "undirected"
    click.echo(f"{said['vertices']:,} vertices (ids: {said['ids']}), {said['edges']:,} {kind} edges")
    for name, relation in said["relations"].items():
        source = relation["source"]
        parts = [f"{source['rows']:,} rows read", f"{source['duplicates']:,} duplicates {_fate(relation)}"]
        parts.append(f"{source['loops']:,} loops {'kept' if said['directed'] else 'dropped'}")
        parts += [f"{source['nulls']:,} with NULL ids dropped"] if source["nulls"] else []
        click.echo(f"  {name}: {relation['edges']:,} edges; {', '.join(parts)}")
        if relation["properties"]:
            click.echo(f"    properties: {_columns(relation['properties'])}")
    if said["vertex_properties"]:
        click.echo(f"  vertex properties: {_columns(said['vertex_properties'])}")
    if said["labels"]:
        click.echo("  labels: " + ", ".join(f"{name} {count:,}" for name, count in said["labels"].items()))
    for name, stored in said["materialized"].items():
        click.echo(f"  {name}: {stored['tuples']:,} tuples of {stored['query']}")
    click.echo(
        f"{said['bytes'] / 2**20:,.1f} MB on disk; lists {said['bytes_per_edge']:.1f} bytes an edge; "
        f"{said['shards']} {'shard' if said['shards'] == 1 else 'shards'}, {said['codes']} codes, format {said['format']}"
    )
    if sum(said["degrees"]):
        click.echo("degree        vertices")
        for line in _bars(said["degrees"]):
            click.echo(line)
        click.echo("largest hubs: " + ", ".join(f"{hub['id']} ({hub['degree']:,})" for hub in said["hubs"]))


def _fate(relation: dict[str, Any]) -> str:
    return "dropped" if relation["rows"] is None else "kept as rows"


def _columns(properties: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in properties.items())


def _bars(histogram: list[int]) -> list[str]:
    """Return a bar for each range of degrees; a vertex more is at least a sliver."""
    most = max(histogram)
    lines = []
    for bucket, count in enumerate(histogram):
        low, high = (0, 0) if bucket == 0 else (1 << (bucket - 1), (1 << bucket) - 1)
        if bucket == 0 and not count:
            continue
        span = f"{low:,}" if low == high else f"{low:,}-{high:,}"
        eighths = -(-count * BAR * 8 // most)
        bar = "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
        lines.append(f"{span:>13} {count:>12,} {bar}".rstrip())
    return lines
