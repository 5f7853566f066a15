"""bigjoin info: describe what an index holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from bigjoin.cli.options import Answer, Facts, Options, inspection
from bigjoin.storage.place import Place

if TYPE_CHECKING:
    from bigjoin.index.directory import Index
    from bigjoin.index.manifest_entries import ReadingEntry

BAR_WIDTH = 40
"""Characters of the longest bar of a histogram."""


def described(directory: Place, _: Options) -> Answer:
    """Show what the index DIR contains: vertices, edges, properties, labels, stored results, degrees and hubs."""
    from bigjoin.index.directory import Index

    facts = describe(Index.open(directory))
    return facts, summary(facts)


info = inspection("info", described)


def describe(index: Index) -> Facts:
    """Return what an index holds, as --json prints it."""
    from bigjoin.index.directory import VERTEX
    from bigjoin.index.kept import KeptVersions
    from bigjoin.index.manifest_entries import SourceEntry
    from bigjoin.index.trust import verify_degrees

    verify_degrees(index, VERTEX)
    manifest, statistics, ids = index.manifest, index.statistics, index.dictionaries[VERTEX].ids
    directed = not any(relation.symmetric for relation in statistics.relations.values())
    relations: dict[str, Facts] = {}
    labels, materialized = {}, {}
    list_files: set[str] = set()
    for name, entry in manifest.relations.items():
        relation = statistics.relations[name]
        if entry.definition is not None:
            materialized[name] = {"query": entry.definition.query, "tuples": entry.tuples}
        elif relation.arity == 1:
            labels[name] = relation.tuples
        elif relation.arity == 2:
            relations[name] = {
                "edges": relation.tuples if directed else relation.tuples // 2,
                "loops": relation.loops,
                "rows": statistics.domains.get(f"{name} edge"),
                "properties": dict(statistics.properties.get(f"{name} edge", {})),
                "source": asdict(entry.source or SourceEntry(0, 0, 0, 0)),
                "reading": None if entry.reading is None else asdict(entry.reading),
                "read": None if entry.reading is None else read_as(entry.reading, ("src", "dst")),
            }
            list_files.update(file for order in entry.orders.values() for level in order.levels for file in level.files)
    edges: int = sum(facts["edges"] for facts in relations.values())
    return {
        "vertices": statistics.domains[VERTEX],
        "ids": manifest.domains[VERTEX].type,
        "edges": edges,
        "directed": directed,
        "relations": relations,
        "labels": labels,
        "materialized": materialized,
        "vertices_reading": None if (of := manifest.domains[VERTEX].reading) is None else asdict(of),
        "vertices_read": None if of is None else read_as(of, ("id",)),
        "vertex_properties": dict(statistics.properties.get(VERTEX, {})),
        "bytes": index.bytes,
        "bytes_per_edge": sum(manifest.files[file].bytes for file in list_files) / max(1, edges),
        "codes": manifest.codes,
        "shards": manifest.shards,
        "epoch": manifest.epoch,
        "oldest_epoch": KeptVersions.of(index.path).oldest if manifest.keep_epochs else manifest.epoch,
        "format": manifest.version,
        "created": manifest.created,
        "degrees": list(manifest.degrees.histogram),
        "hubs": [{"id": ids[code].as_py(), "degree": degree} for code, degree in manifest.degrees.hubs],
    }


def read_as(reading: ReadingEntry, ends: Sequence[str]) -> str:
    """Return how a source was read, as a sentence that begins with its name."""
    return f"{reading.source}: {reading.sentence(ends)}"


def summary(facts: Facts) -> Iterator[str]:
    """Give what an index holds as lines of text."""
    kind, loops = ("directed", "kept") if facts["directed"] else ("undirected", "dropped")
    yield f"{facts['vertices']:,} vertices (ids: {facts['ids']}), {facts['edges']:,} {kind} edges"
    for name, relation in facts["relations"].items():
        source, duplicates = relation["source"], "dropped" if relation["rows"] is None else "kept as rows"
        parts = [f"{source['rows']:,} rows read", f"{source['duplicates']:,} duplicates {duplicates}"]
        parts += [f"{source['loops']:,} loops {loops}"]
        parts += [f"{source['nulls']:,} with NULL ids dropped"] if source["nulls"] else []
        yield f"  {name}: {relation['edges']:,} edges; {', '.join(parts)}"
        if relation["read"] is not None:
            yield f"    read {relation['read']}"
        yield from _columns("    properties", relation["properties"])
    if facts["vertices_read"] is not None:
        yield f"  vertices: read {facts['vertices_read']}"
    yield from _columns("  vertex properties", facts["vertex_properties"])
    if facts["labels"]:
        yield "  labels: " + ", ".join(f"{name} {count:,}" for name, count in facts["labels"].items())
    for name, stored in facts["materialized"].items():
        yield f"  {name}: {stored['tuples']:,} tuples of {stored['query']}"
    yield (
        f"{facts['bytes'] / 2**20:,.1f} MB on disk; lists {facts['bytes_per_edge']:.1f} bytes an edge; "
        f"{facts['shards']} {'shard' if facts['shards'] == 1 else 'shards'}, {facts['codes']} codes, format {facts['format']}"
    )
    if facts["oldest_epoch"] < facts["epoch"]:
        yield f"epochs {facts['oldest_epoch']:,} to {facts['epoch']:,} are readable (--epoch)"
    if sum(facts["degrees"]):
        yield "degree        vertices"
        yield from _bars(facts["degrees"])
        yield "largest hubs: " + ", ".join(f"{hub['id']} ({hub['degree']:,})" for hub in facts["hubs"])


def _columns(title: str, properties: Mapping[str, str]) -> Iterator[str]:
    if properties:
        yield f"{title}: " + ", ".join(f"{name} ({kind})" for name, kind in properties.items())


def _bars(histogram: list[int]) -> Iterator[str]:
    """Give a bar for each range of degrees, rounded up so that even a single vertex is visible."""
    for bucket, count in enumerate(histogram):
        if bucket or count:
            low, high = (1 << bucket) >> 1, (1 << bucket) - 1
            degrees = f"{low:,}" if low == high else f"{low:,}-{high:,}"
            full, eighths = divmod(-(-count * BAR_WIDTH * 8 // max(histogram)), 8)
            yield f"{degrees:>13} {count:>12,} {'█' * full}{' ▏▎▍▌▋▊▉'[eighths]}".rstrip()
