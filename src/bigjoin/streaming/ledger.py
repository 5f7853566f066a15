"""The ledger: which batch of which source an index has applied last, so that none is applied twice."""

from __future__ import annotations

from bigjoin.errors import BigjoinError
from bigjoin.index.directory import Index
from bigjoin.index.manifest_entries import LedgerEntry


def is_committed(index: Index, entry: LedgerEntry, *, adopt: bool) -> bool:
    """Tell whether an index has a batch already; raise BigjoinError if it is not the next one either.

    `adopt` accepts a source that the index has not followed so far.
    """
    known = index.manifest.ledger
    source, batch = entry.source, entry.batch
    if known is not None and known.source == source:
        if batch > known.batch + 1:
            raise BigjoinError(
                f"batch {batch} of {source} does not follow batch {known.batch}, the last one that {index.path} has"
            )
        return batch <= known.batch
    if known is not None and not adopt:
        raise BigjoinError(
            f"the index {index.path} follows {known.source}, until its batch {known.batch}, and not {source}: "
            "go on with that, or ask for the new one with adopt=True (--adopt)"
        )
    if batch > 0 and not adopt:
        raise BigjoinError(
            f"{source} has given {batch} batches before this one, and the index {index.path} has none of them: build the "
            "index that it belongs to, begin with a new checkpoint, or go on from here with adopt=True (--adopt)"
        )
    return False
