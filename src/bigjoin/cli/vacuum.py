"""bigjoin vacuum: remove the files of an index that its current version does not need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bigjoin.cli.options import Options, answer, output_options


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@output_options
def vacuum(directory: Path, options: Options) -> None:
    """Remove the files of the index DIR that its current version does not need.

    Queries that began before the last change of the index may still read them: let those end first.
    """
    facts, line = vacuumed(directory)
    answer(options, facts, [line])


def vacuumed(directory: Path) -> tuple[dict[str, Any], str]:
    """Vacuum an index, and return what was freed as facts and as a sentence."""
    from bigjoin.index.writer import vacuum as vacuum_index

    freed = vacuum_index(directory)
    return {"freed": freed}, f"{freed / 2**20:,.1f} MB freed in {directory}"
