"""What the planner sees of an index: the statistics in its manifest."""

from __future__ import annotations

from bigjoin.index.manifest_entries import DefinitionEntry, Manifest, RelationEntry
from bigjoin.query.query import Atom
from bigjoin.query.statistics import EDGE_COLUMNS, Definition, RelationStatistics, Statistics


def statistics_of(manifest: Manifest) -> Statistics:
    """Return the statistics of all relations and domains."""
    return Statistics(
        {name: _relation(entry) for name, entry in manifest.relations.items()},
        {name: domain.size for name, domain in manifest.domains.items()},
        {name: domain.properties for name, domain in manifest.domains.items() if domain.properties},
        {name: domain.type for name, domain in manifest.domains.items()},
    )


def _relation(entry: RelationEntry) -> RelationStatistics:
    return RelationStatistics(
        domains=entry.domains,
        tuples=entry.tuples,
        symmetric=entry.symmetric,
        loops=entry.loops,
        lists={columns: order.lists for columns, order in entry.orders.items()},
        catalogue=entry.catalogue,
        rows=None if entry.rows is None else _relation(entry.rows),
        columns=entry.columns or (EDGE_COLUMNS if len(entry.domains) == 2 else ()),
        symmetries=entry.symmetries,
        materialized=entry.is_stored_result,
        definition=_definition(entry.definition),
    )


def _definition(entry: DefinitionEntry | None) -> Definition | None:
    """Return the query of a materialised relation, if it consists of atoms alone: plans use no others."""
    if entry is None or entry.head is None or entry.atoms is None:
        return None
    return Definition(entry.head, tuple(Atom(name, tuple(attributes)) for name, *attributes in entry.atoms))
