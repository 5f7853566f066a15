"""The commit of an epoch, which makes it exactly once.

The run of updates and the matches are written and made durable; then the manifest is replaced, which commits the epoch, its
output and its entry in the ledger at once; then the output is renamed into place. A process that is killed before the commit
has done nothing; one that is killed after it leaves a rename for the next process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import LedgerEntry, WatchedEntry
from bigjoin.index.runs import drop_unused, merge_runs
from bigjoin.index.writer import Writer
from bigjoin.streaming.epoch import Epoch
from bigjoin.streaming.live import StagedEpoch
from bigjoin.streaming.output import WatchOutput

RUN_RETENTION_SECONDS = 60.0
"""How long merged runs stay for processes that still read them."""


def commit_epoch(
    index: Index,
    staged: StagedEpoch,
    epoch: Epoch,
    writer: Writer,
    *,
    counts: Mapping[str, int],
    ledger: LedgerEntry | None,
    output: WatchOutput | None,
) -> Index:
    """Replace the manifest by one that has the epoch, the counts of queries, the ledger entry and the output to be finished.

    Outputs of other folders stay on the manifest's list: they are published when a watch names their folder again.
    """
    manifest = merge_runs(Index(index.path, staged.manifest), writer.folder, staged.manifest)
    publications = manifest.publications
    if output is not None:
        publications = (*output.others(manifest), output.publication(epoch.number, epoch.line))
    watched = {text: WatchedEntry(str(count), epoch.number) for text, count in counts.items()}
    manifest = replace(manifest, watched=watched, ledger=ledger or manifest.ledger, publications=publications)
    drop_unused(writer.folder, manifest)
    kept = manifest.in_use(index.manifest.files)
    return writer.commit(manifest, kept=kept, retention=RUN_RETENTION_SECONDS, verified=index.verifies)
