"""bigjoin status: how far the watch of an index has come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from bigjoin.cli.options import PLACE, Options, answer, inspection_options
from bigjoin.index.contents import number_of
from bigjoin.memory import shown_size
from bigjoin.storage.place import Place

if TYPE_CHECKING:
    from bigjoin.streaming.status import OutputStatus, WatchStatus

_OUTPUT_HELP = "The folder that the watch writes to, to show what it has."


@click.command()
@click.option("--output", metavar="PATH", type=PLACE, help=_OUTPUT_HELP)
@inspection_options
def status(directory: Place, output: Place | None, options: Options) -> None:
    """Show how far the watch of the index DIR has come: its last epoch, where that came from, and counts of matches.

    You can ask while a watch is running: nothing is locked or changed.
    """
    from bigjoin.streaming.status import status_of

    found = status_of(directory, output)
    answer(options, asdict(found), told(found))


def told(found: WatchStatus) -> Iterator[str]:
    """Give the status of a watch as lines of text."""
    yield f"{found.index}: epoch {found.epoch:,}, committed {found.committed}"
    if found.ledger is not None:
        file = f", {found.ledger.name}" if found.ledger.name is not None else ""
        yield f"  follows {found.ledger.source}, until batch {found.ledger.batch:,}{file}"
    if found.keep_epochs:
        yield f"  epochs {found.oldest:,} to {found.epoch:,} are readable"
    yield f"  {f'written now by {found.writer}' if found.writer is not None else 'nobody is writing it now'}"
    for query in found.queries:
        current = "" if query.current else f" at epoch {query.epoch:,}, which is not the last"
        yield f"  {number_of(query.count, 'match', 'matches')}{current}: {query.query}"
    if found.vertices is not None:
        yield f"  {number_of(found.vertices, 'vertex', 'vertices')}"
    for name, relation in found.relations.items():
        rows = f" in {number_of(relation.rows, 'row', 'rows')}" if relation.rows is not None else ""
        yield f"  {name}: {number_of(relation.edges, 'edge', 'edges')}{rows}"
    if found.clock is not None:
        yield f"  window: the clock of {found.clock.relation}.{found.clock.column} is at {found.clock.at}"
    log = f"; log: {number_of(found.log.records, 'record', 'records')}, {shown_size(found.log.bytes)}" if found.log else ""
    yield f"  {number_of(found.runs, 'run', 'runs')} with {number_of(found.run_tuples, 'update', 'updates')}{log}"
    freeable = f"; a vacuum would free {shown_size(found.freeable)}" if found.freeable else ""
    yield f"  {shown_size(found.bytes)}{freeable}"
    if found.waiting:
        yield f"  outputs of {number_of(found.waiting, 'epoch', 'epochs')} are finished when a watch names their folder"
    if found.output is not None:
        yield from _output(found.output)


def _output(output: OutputStatus) -> Iterator[str]:
    """Give what an output folder has as lines of text."""
    waiting = f"; {number_of(len(output.waiting), 'epoch waits', 'epochs wait')}" if output.waiting else ""
    yield f"{output.path}: {'no epoch yet' if output.epoch is None else f'last epoch {output.epoch:,}'}{waiting}"
    for name, query in output.queries.items():
        spans = ", ".join(f"{span.first or '...'}-{span.last or ''}" for span in query.spans)
        count = f", {number_of(query.count, 'match', 'matches')}" if query.count is not None else ""
        dropped = "" if query.watched else ", dropped"
        yield f"  {name}: in {query.folder or '.'}, epochs {spans}{count}{dropped}: {query.query}"
    if output.quarantined is not None:
        yield f"  {number_of(output.quarantined, 'update', 'updates')} in quarantine"
