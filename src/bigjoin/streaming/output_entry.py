"""What an output folder says about itself, in `_bigjoin.json`: whose output it is, and where and when each query was watched.

A query keeps its folder from the first day, whatever is watched beside it. The epochs that the folder reports of it are
recorded as spans: a query that is dropped and added again has a gap between two of them, and so has one whose index was
changed by others meanwhile. Within a span, the matches at its beginning and all signed rows so far add up to what there is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

from bigjoin.errors import OutputError
from bigjoin.index.manifest_entries import BoundedCount
from bigjoin.index.typed_json import from_json, matching

FolderName: TypeAlias = Annotated[str, matching("|[A-Za-z_0-9][A-Za-z0-9_-]*", "the folder of a query")]
"""Empty for the output folder itself."""


@dataclass(frozen=True, slots=True)
class SpanEntry:
    """A stretch of epochs that an output reports of a query, one after another."""

    first: BoundedCount | None = None
    """The first epoch; None if an older version of bigjoin, which recorded none, has begun the span."""
    count: Annotated[str, matching("-?[0-9]+", "a number")] | None = None
    """How many matches there were before it; text, since JSON readers lose digits of large numbers."""
    last: BoundedCount | None = None
    """The last epoch; None as long as the query is watched."""


@dataclass(frozen=True, slots=True)
class OutputQueryEntry:
    """A query that an output reports, or has reported: its text, its folder, and when it was watched."""

    query: str
    folder: FolderName
    spans: tuple[SpanEntry, ...] = ()

    @property
    def is_watched(self) -> bool:
        """Whether it is among the queries of the last watch."""
        return bool(self.spans) and self.spans[-1].last is None


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """What a folder says about itself: the index and the queries that it is the output of."""

    index: str
    queries: Mapping[str, OutputQueryEntry] = field(default_factory=dict)
    identity: str | None = None
    """Folders of older versions have none."""


@dataclass(frozen=True, slots=True)
class ToReport:
    """A query as it is asked to be watched: its text, and whether somebody has given it its name."""

    text: str
    is_named: bool = False


def read_entry(content: bytes) -> OutputEntry:
    """Return what the content of `_bigjoin.json` says; raise ValueError or WrongFieldError if it makes no sense.

    Older versions have texts for queries, whose folders follow from their number.
    """
    known: Any = json.loads(content)
    if isinstance(known, dict) and isinstance(queries := known.get("queries"), dict):
        spans: list[dict[str, int]] = [{}]  # of which nothing is known
        described = {
            name: {"query": one, "folder": "" if len(queries) == 1 else name, "spans": spans} if isinstance(one, str) else one
            for name, one in queries.items()
        }
        known = {**known, "queries": described}
    return from_json(OutputEntry, known)


def folders_of(asked: Mapping[str, ToReport], known: OutputEntry, path: object) -> dict[str, str]:
    """Return the folder of each query: the one that it has, or one of its own; raise OutputError if the output refuses it.

    A single query that nobody has named has the output folder itself, which therefore has to be new.
    """
    folders = {}
    for name, query in asked.items():
        before = known.queries.get(name)
        if before is not None:
            if before.query != query.text:
                raise OutputError(
                    f"{path} has another query by the name {name!r} ({before.query}): give this one another name (NAME=QUERY)"
                )
            folders[name] = before.folder
        elif len(asked) == 1 and not query.is_named:
            if known.queries:
                texts = "; ".join(one.query for one in known.queries.values())
                raise OutputError(
                    f"{path} is the output of other queries ({texts}): name this one (NAME=QUERY), or choose a new folder"
                )
            folders[name] = ""
        elif name.startswith("_"):
            raise OutputError(f"the matches of {name!r} would be in a folder that readers pass over: give it another name")
        else:
            folders[name] = name
    return folders


def with_spans(
    known: OutputEntry,
    asked: Mapping[str, ToReport],
    folders: Mapping[str, str],
    *,
    epoch: int,
    last: int,
    counts: Mapping[str, int],
) -> OutputEntry:
    """Return what an output says once queries are watched from after an epoch on, when each has a count of matches.

    `last` is the last epoch that the output reports: if the index has later ones, others have written them.
    """
    queries = {}
    for name, query in known.queries.items():
        spans = query.spans
        begins_later = query.is_watched and (spans[-1].first or 0) > epoch + 1  # epochs were lost in a power failure
        if query.is_watched and (name not in asked or last < epoch or begins_later):
            closed = replace(spans[-1], last=last)
            is_empty = closed.first is not None and closed.first > last
            spans = (*spans[:-1], *(() if is_empty else (closed,)))
        if spans or name in asked:
            queries[name] = replace(query, spans=spans)
    for name, one in asked.items():
        query = queries.get(name, OutputQueryEntry(one.text, folders[name]))
        if not query.is_watched:
            query = replace(query, spans=(*query.spans, SpanEntry(epoch + 1, str(counts[name]))))
        queries[name] = query
    return replace(known, queries=queries)
