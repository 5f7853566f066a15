"""bigjoin verify: whether the files of an index are as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bigjoin.cli.options import Options, answer, output_options
from bigjoin.cli.progress import Reporter


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@output_options
def verify(directory: Path, options: Options) -> None:
    """Compare every file of the index DIR with its checksum, and check that the arrays make sense."""
    facts, line = verified(directory, options)
    answer(options, facts, [line])


def verified(directory: Path, options: Options) -> tuple[dict[str, Any], str]:
    """Verify an index, and return what was verified as facts and as a sentence."""
    from bigjoin.index.directory import Index
    from bigjoin.index.writer import verify as verify_index

    index = Index.open(directory)
    with Reporter(quiet=options.quiet) as report:
        report.stage("verifying")
        size = verify_index(index)
    files = f"{len(index.manifest.files)} files, {size / 2**20:,.1f} MB"
    return {"verified": True, "verified_bytes": size}, f"{directory} is as it was written: {files}, all checksums agree"
