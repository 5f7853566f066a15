"""bigjoin vacuum: remove the files that the current version of an index does not need."""

from __future__ import annotations

from bigjoin.cli.options import Answer, Options, inspection
from bigjoin.storage.place import Place


def vacuumed(directory: Place, _: Options) -> Answer:
    """Remove the files of the index DIR that its current version does not need.

    Queries that began before the last change of the index may still read these files: let them finish first.
    """
    from bigjoin.index.writer import vacuum as vacuum_index

    freed = vacuum_index(directory)
    return {"freed": freed}, [f"{freed / 2**20:,.1f} MB freed in {directory}"]


vacuum = inspection("vacuum", vacuumed)
