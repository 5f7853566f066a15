"""Assume about changing relations only what stays true: statistics of today say little about a relation that grows."""

from __future__ import annotations

from dataclasses import replace

from bigjoin.errors import QueryError
from bigjoin.planner.draft import Draft
from bigjoin.query.statistics import VERTEX, RelationStatistics, Statistics, assumed_graph

MIN_KNOWN_TUPLES = 1000
"""Tuples from which on the statistics of a relation are trusted to say what it will be like."""

_NO_SEEDS = "delta queries have no seeds"
_WITHOUT_SEEDS = "leave the seeds out, and filter the matches that are reported"


def refuse_unchanging(draft: Draft) -> Draft:
    """Refuse atoms over what updates do not maintain: seeds, and the relation of all vertices."""
    if draft.query.seeds:
        raise QueryError(_NO_SEEDS, hint=_WITHOUT_SEEDS)
    for atom in draft.atoms:
        known = draft.statistics.relations.get(atom.relation)
        if known is None and atom.relation == VERTEX and VERTEX in draft.statistics.domains:
            message = f"'{atom}' ranges over all vertices, which a watch does not follow"
            raise QueryError(message, atom.span, "join the vertex to an edge that has to be there")
        if known is not None and known.given:
            raise QueryError(_NO_SEEDS, hint=_WITHOUT_SEEDS)
    return draft


def foresee_updates(draft: Draft) -> Draft:
    """Forget shortcuts by stored results, the absence of loops, and the sizes of small relations."""
    return replace(draft, statistics=foreseen(draft.statistics), shortcuts=())


def foreseen(statistics: Statistics) -> Statistics:
    """Return what stays true of relations that change: a label that all vertices have today will be missing on another one."""
    relations = {name: _foreseen(relation) for name, relation in statistics.relations.items()}
    return replace(statistics, relations=relations, domains={name: size + 1 for name, size in statistics.domains.items()})


def _foreseen(relation: RelationStatistics) -> RelationStatistics:
    assumed = assumed_graph(symmetric=relation.symmetric).relations["edge"]
    if relation.tuples < MIN_KNOWN_TUPLES and relation.arity == 2 and relation.lists.keys() == assumed.lists.keys():
        relation = replace(relation, tuples=assumed.tuples, lists=assumed.lists, catalogue=assumed.catalogue)
    return replace(relation, definition=None, loops=relation.loops if relation.symmetric else max(1, relation.loops))
