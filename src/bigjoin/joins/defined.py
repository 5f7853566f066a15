"""The query of a stored result, as its index says it."""

from __future__ import annotations

from typing import Any

from bigjoin.index.manifest_entries import DefinitionEntry
from bigjoin.languages import parse
from bigjoin.query.query import Query


def defined(definition: DefinitionEntry) -> Query:
    """Return the query that a stored result is the result of."""
    flags: Any = dict.fromkeys(definition.flags, True)
    return parse(definition.query, **flags)
