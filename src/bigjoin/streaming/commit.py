"""The commit of an epoch, which makes it exactly once.

A small epoch is committed by one record at the end of the index's log (`epoch_log.py`), which is synced. It holds the updates,
the counts, the ledger's entry, and what is left to be done for the output. A large epoch, and any when the log has grown,
writes its updates to files, with those of the log as one run, and makes them durable; then the manifest is replaced, which
begins another log. On a store, where nothing can grow, every epoch is committed like that, and there is no log. In both cases
the output was made durable before the commit, and is renamed into place after it. A process that is killed before the commit
has done nothing; one that is killed after it leaves a rename for the next process.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from bigjoin.index.directory import Index
from bigjoin.index.epoch_files import EpochFiles, FilesForLog, FilesInFolder
from bigjoin.index.epoch_log import EpochLog
from bigjoin.index.manifest_entries import LedgerEntry, Manifest, PublicationEntry, WatchedEntry
from bigjoin.index.runs import merge_runs, to_merge
from bigjoin.index.writer import Writer, building
from bigjoin.streaming.epoch import Epoch
from bigjoin.streaming.live import StagedEpoch

RUN_RETENTION_SECONDS = 60.0
"""How long merged runs stay for processes that still read them."""
MAX_LOGGED_BYTES = 1 << 20
"""The size of a table of updates up to which its epoch is a record of the log."""
MAX_LOG_BYTES = 1 << 24
"""The size from which on a log is not continued: whoever opens the index reads it."""
MAX_LOG_RECORDS = 256
"""How many epochs a log has at most: whoever opens the index applies them one by one."""
LOG_NAME = "epochs.log"


class EpochCommit(Protocol):
    """One way to commit an epoch."""

    @property
    def identity(self) -> str:
        """That of the version which it commits."""

    @property
    def files(self) -> EpochFiles:
        """Where the files of the epoch go."""

    @property
    def is_last_step(self) -> bool:
        """Whether `commit` writes, so that everything else has to be on disk; if not, that is up to the log."""

    def commit(self, index: Index, manifest: Manifest) -> tuple[Index, EpochLog | None]:
        """Commit a manifest with its files; `index` is the one before.

        Return the index, and the log for further epochs if there can be one.
        """


class ToLog:
    """Commits by a record at the end of a log, once that is written."""

    is_last_step = False

    def __init__(self, index: Index, log: EpochLog) -> None:
        self.log, self.identity = log, uuid.uuid4().hex[:12]
        self.files = FilesForLog(log.name, index.epoch + 1)

    def commit(self, index: Index, manifest: Manifest) -> tuple[Index, EpochLog]:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        manifest = replace(manifest, identity=self.identity, created=now)
        after = index.followed_by(self.log.append(index.manifest, manifest, self.files.held), self.log.held)
        after.keep(self.files.held)  # until the log becomes a manifest, when they are merged
        return after, self.log


class ToManifest:
    """Commits by replacing the manifest, and begins a log where files can grow."""

    is_last_step = True

    def __init__(self, writer: Writer) -> None:
        self.writer, self.identity = writer, writer.identity
        self.files = FilesInFolder(writer.storage, writer.folder)

    def commit(self, index: Index, manifest: Manifest) -> tuple[Index, EpochLog | None]:
        in_log, new = _runs_in_log(manifest), len(manifest.runs) - len(index.runs)
        count = to_merge([run.tuples for run in manifest.runs], least=max(1, in_log + new))
        manifest = merge_runs(index.followed_by(manifest, {}), self.files, count=count if in_log or count > 1 else 0)
        self.files.drop_unused(manifest)
        kept = manifest.in_use(index.manifest.files)
        log = None if self.writer.storage.is_store else self.files.name(LOG_NAME)
        committed = self.writer.commit(manifest, kept=kept, retention=RUN_RETENTION_SECONDS, verified=index.verifies, log=log)
        known = index.followed_by(committed.manifest, {})
        committed.verified.update(known.verified)
        committed.base.verified.update(known.base.verified)
        return committed, None if log is None else EpochLog(committed.storage, log)


def _runs_in_log(manifest: Manifest) -> int:
    """Return how many runs lie in the log; these come after all others."""
    entries = (manifest.files.get(run.deltas) for run in manifest.runs)
    return sum(entry is not None and entry.offset is not None for entry in entries)


@contextmanager
def committing(index: Index, log: EpochLog | None, size: int, *, begins_log: bool = False) -> Iterator[EpochCommit]:
    """Give the way to commit an epoch whose table of updates has some size; an epoch that fails leaves nothing behind.

    `begins_log` says that the epoch changes what no record of a log does, so that it has to begin another.
    """
    has_room = log is not None and log.end.place <= MAX_LOG_BYTES and log.end.records < MAX_LOG_RECORDS and not begins_log
    if log is not None and has_room and size <= MAX_LOGGED_BYTES:
        yield ToLog(index, log)
    else:
        with building(index.path) as writer:
            yield ToManifest(writer)


def commit_epoch(
    index: Index,
    staged: StagedEpoch,
    epoch: Epoch,
    commit: EpochCommit,
    *,
    counts: Mapping[str, int],
    ledger: LedgerEntry | None,
    publications: tuple[PublicationEntry, ...],
    keep_epochs: int,
) -> tuple[Index, EpochLog | None]:
    """Commit an epoch with the counts of queries, the ledger entry and the output to be finished, all at once.

    `publications` is output that is not in place yet, with that of other folders: it is published when a watch names their
    folder again.
    """
    manifest = staged.manifest
    watched = {text: WatchedEntry(str(count), epoch.number) for text, count in counts.items()}
    manifest = replace(manifest, watched=watched, ledger=ledger or manifest.ledger, publications=publications)
    return commit.commit(index, replace(manifest, keep_epochs=keep_epochs))
