"""What matches are grouped by, as text: attributes, properties and expressions, such as `a1, a2.city, year(e.time) as year`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.query.expressions import Expression, attributes_of

Key: TypeAlias = tuple[str, Expression]
"""A column of the result, and what its values are."""

GROUP_COUNT = "count"
"""The column of the result that holds the counts."""

_HINT = "name attributes of the query, or properties of them, as in a1, a2.city"


def parse_keys(by: str | Sequence[str], attributes: Collection[str]) -> tuple[Key, ...]:
    """Return the keys that a text, or a sequence of texts, lists; refuse what is no attribute of the query, or listed twice."""
    if not isinstance(by, str) and not (isinstance(by, Sequence) and all(isinstance(one, str) for one in by)):
        raise QueryError(f"by is {by!r}: it lists what matches are grouped by", hint=_HINT)

    texts = [by] if isinstance(by, str) else list(by)
    if not all(text.strip() for text in texts) or not texts:
        raise QueryError("by is empty: it lists what matches are grouped by", hint=_HINT)
    keys = [key for text in texts for key in _read(text, attributes)]
    names = [name for name, _ in keys]
    for name, key in keys:
        if names.count(name) > 1:
            raise QueryError(f"by lists {name!r} twice", hint="list it once, or give one of them a name, as in a.city as home")
        if name == GROUP_COUNT:
            hint = f"give the key another name, as in {key} as key"
            raise QueryError(f"the counts are in the column {name!r}, which a key has too", hint=hint)
    return tuple(keys)


def _read(text: str, attributes: Collection[str]) -> tuple[Key, ...]:
    from bigjoin.languages import datalog  # a parser, which counts without groups do not need

    keys = datalog.parse_properties(text)
    for _, key in keys:
        used = attributes_of(key)
        if unknown := next((name for name in used if name not in attributes), None):
            hint = did_you_mean(unknown, attributes) or f"the query has {', '.join(attributes)}"
            place = text.find(unknown)
            raise QueryError(
                f"the query has no attribute {unknown!r} to group by", Span(text, place, place + len(unknown)), hint
            )
        if not used:
            raise QueryError(f"'{key}' is about constants alone, so there would be one group", hint=_HINT)
    return keys
