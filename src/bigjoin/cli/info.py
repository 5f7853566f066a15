"""bigjoin info: what an index holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bigjoin.cli.options import Options, answer, output_options

if TYPE_CHECKING:
    from bigjoin.index.directory import Index

LONGEST_BAR = 40
"""Characters of the longest bar of a histogram."""


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@output_options
def info(directory: Path, options: Options) -> None:
    """Show what the index DIR holds: vertices, edges, properties, labels, materialised relations, degrees and hubs."""
    from bigjoin.index.directory import Index

    facts = describe(Index.open(directory))
    answer(options, facts, summary(facts))


def describe(index: Index) -> dict[str, Any]:
    """Return what an index holds, as --json prints it."""
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
    given = {name: relation for name, relation in statistics.relations.items() if not relation.materialized}
    edges = {name: r.tuples if directed else r.tuples // 2 for name, r in given.items() if r.arity == 2}
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
        "labels": {name: r.tuples for name, r in given.items() if r.arity == 1},
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


def summary(facts: dict[str, Any]) -> Iterator[str]:
    """Give the lines that tell what an index holds."""
    kind = "directed" if facts["directed"] else "undirected"
    yield f"{facts['vertices']:,} vertices (ids: {facts['ids']}), {facts['edges']:,} {kind} edges"
    for name, relation in facts["relations"].items():
        source, duplicates = relation["source"], "dropped" if relation["rows"] is None else "kept as rows"
        parts = [f"{source['rows']:,} rows read", f"{source['duplicates']:,} duplicates {duplicates}"]
        parts.append(f"{source['loops']:,} loops {'kept' if facts['directed'] else 'dropped'}")
        parts += [f"{source['nulls']:,} with NULL ids dropped"] if source["nulls"] else []
        yield f"  {name}: {relation['edges']:,} edges; {', '.join(parts)}"
        if relation["properties"]:
            yield f"    properties: {_columns(relation['properties'])}"
    if facts["vertex_properties"]:
        yield f"  vertex properties: {_columns(facts['vertex_properties'])}"
    if facts["labels"]:
        yield "  labels: " + ", ".join(f"{name} {count:,}" for name, count in facts["labels"].items())
    for name, stored in facts["materialized"].items():
        yield f"  {name}: {stored['tuples']:,} tuples of {stored['query']}"
    yield (
        f"{facts['bytes'] / 2**20:,.1f} MB on disk; lists {facts['bytes_per_edge']:.1f} bytes an edge; "
        f"{facts['shards']} {'shard' if facts['shards'] == 1 else 'shards'}, {facts['codes']} codes, format {facts['format']}"
    )
    if sum(facts["degrees"]):
        yield "degree        vertices"
        yield from _bars(facts["degrees"])
        yield "largest hubs: " + ", ".join(f"{hub['id']} ({hub['degree']:,})" for hub in facts["hubs"])


def _columns(properties: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in properties.items())


def _bars(histogram: list[int]) -> Iterator[str]:
    """Give a bar for each range of degrees, rounded up, so that a single vertex can be seen."""
    for bucket, count in enumerate(histogram):
        low, high = (0, 0) if bucket == 0 else (1 << (bucket - 1), (1 << bucket) - 1)
        if bucket == 0 and not count:
            continue
        degrees = f"{low:,}" if low == high else f"{low:,}-{high:,}"
        eighths = -(-count * LONGEST_BAR * 8 // max(histogram))
        bar = "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
        yield f"{degrees:>13} {count:>12,} {bar}".rstrip()
