"""Let a count of all matches read the middle of an epoch: negated atoms do so otherwise than positive ones."""

from __future__ import annotations

from dataclasses import replace

from bigjoin.planner.draft import Draft
from bigjoin.query.read import Version


def read_half_way(draft: Draft) -> Draft:
    """Set the version of negated atoms, which half way read what the epoch deletes together with what it inserts."""
    return replace(draft, atoms=tuple(replace(a, version=Version.NOT_NEW) if a.negated else a for a in draft.atoms))
