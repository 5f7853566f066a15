"""The versions that a process of Spark's tasks keeps from one epoch to the next."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from bigjoin.index.directory import Index
from bigjoin.index.runs import read_deltas
from bigjoin.index.versions import Versions, versions_of
from bigjoin.storage import Place


@dataclass(frozen=True)
class BegunEpoch:
    """The versions of an index with the epoch of its last run begun."""

    identity: str
    """Of the version of the index that the epoch commits."""
    versions: Versions


class VersionCache:
    """For each index, by path, the epoch that was begun last.

    The process that applies updates passes its versions along. Tasks get a manifest instead, whose last run is the epoch, and
    have to read the runs from files; from one epoch to the next that is one run only.
    """

    def __init__(self) -> None:
        self._epochs: dict[Place, BegunEpoch] = {}
        self._lock = Lock()

    def begun(self, index: Index) -> Versions:
        """Return the versions of an index with its last run begun as an epoch."""
        with self._lock:
            path, manifest = index.path.absolute(), index.manifest
            cached = self._epochs.get(path)
            if cached is not None and cached.identity == manifest.identity:
                return cached.versions
            self._epochs.pop(path, None)  # so that a failure below leaves nothing half begun
            *runs, last = index.runs
            if cached is not None and cached.identity == manifest.previous:
                versions = cached.versions
                versions.commit()
            else:
                versions = versions_of(index, runs)
            versions.begin(read_deltas(index, last), index.statistics)
            self._epochs[path] = BegunEpoch(manifest.identity, versions)
            return versions


WORKER_VERSIONS = VersionCache()
"""The only cache of versions in a process. It is read where a pickled `Phase` arrives in a task, and nowhere else."""
