"""Kept epochs: how an index is read as it was after one of its last epochs.

A version of an index is a manifest with files that never change. Small epochs are records of a log, so the first records of the
log make the versions after them. Before a manifest that has a log behind it is replaced, it is copied to a file of the build
that replaces it, and the new manifest lists it: with its log, its folders, and the epochs that can be read from it. These
folders stay until none of the last epochs needs them.

Neighbours in that list may share an epoch, after which the index was compacted: the later one is what the next epoch changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bigjoin.errors import BigjoinError
from bigjoin.index.manifest_entries import KeptEntry, Manifest
from bigjoin.index.manifest_file import after_epoch, kept_manifest, version_of
from bigjoin.storage import Place

KEPT_MANIFEST = "manifest.json"
"""What an earlier manifest is called in the folder of the build that has replaced it."""


def still_needed(kept: Sequence[KeptEntry], keep_epochs: int, *, next_epoch: int, last: int) -> tuple[KeptEntry, ...]:
    """Return the versions that some of the last epochs are read from.

    `next_epoch` is the first epoch of the version after them, and `last` the last epoch of the index.
    """
    later = (*(entry.epochs[0] for entry in kept), next_epoch)[1:]
    return tuple(entry for entry, first in zip(kept, later, strict=True) if last - keep_epochs < first)


def needed_by(begun: Manifest, last: int) -> tuple[KeptEntry, ...]:
    """Return the kept versions that a manifest still needs when its log ends with an epoch."""
    return still_needed(begun.kept, begun.keep_epochs, next_epoch=begun.epoch, last=last)


def oldest_epoch(begun: Manifest, last: int) -> int:
    """Return the oldest epoch that can be read, given the manifest before the log and the last epoch."""
    first = begun.kept[0].epochs[0] if begun.kept else begun.epoch
    return max(first, last - begun.keep_epochs)


@dataclass(frozen=True)
class KeptVersions:
    """All versions of an index that can be read, as of one moment."""

    path: Place
    begun: Manifest
    last: int
    """The last epoch."""

    @classmethod
    def of(cls, path: Place) -> KeptVersions:
        """Read what versions an index has."""
        begun, newest, _ = version_of(path)
        return cls(path, begun, newest.epoch)

    @property
    def oldest(self) -> int:
        """The oldest epoch that can be read."""
        return oldest_epoch(self.begun, self.last)

    def check(self, epoch: int) -> None:
        """Raise BigjoinError if an epoch cannot be read."""
        if epoch > self.last:
            raise BigjoinError(f"the index {self.path} has no epoch {epoch:,}: its last one is {self.last:,}")
        if epoch < self.oldest:
            more = "keep more of them with keep_epochs= (bigjoin watch --keep-epochs)"
            raise BigjoinError(
                f"epoch {epoch:,} of the index {self.path} is not kept, and the oldest is {self.oldest:,}: {more}"
            )

    def latest(self, epoch: int) -> Manifest:
        """Return the manifest after an epoch: the one that the next epoch changed."""
        self.check(epoch)
        if epoch >= self.begun.epoch:
            return after_epoch(self.path, self.begun, epoch)
        entry = next(entry for entry in reversed(self.begun.kept) if entry.epochs[0] <= epoch)
        return after_epoch(self.path, kept_manifest(self.path, entry), epoch)

    def earliest(self, epoch: int) -> Manifest:
        """Return the manifest that an epoch has committed, before any compaction after it."""
        self.check(epoch)
        for entry in self.begun.kept:
            if entry.epochs[0] <= epoch <= entry.epochs[1]:
                return after_epoch(self.path, kept_manifest(self.path, entry), epoch)
        return after_epoch(self.path, self.begun, epoch)

    def all_kept(self) -> list[Manifest]:
        """Return the newest manifest of each kept version that is needed."""
        return [
            after_epoch(self.path, kept_manifest(self.path, entry), entry.epochs[1])
            for entry in needed_by(self.begun, self.last)
        ]


def manifest_at(path: Place, epoch: int) -> Manifest:
    """Return the manifest of an index after one of its last epochs; raise BigjoinError if that epoch is not kept."""
    return KeptVersions.of(path).latest(epoch)
