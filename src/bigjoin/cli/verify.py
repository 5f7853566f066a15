"""bigjoin verify: check that the files of an index are as they were written."""

from __future__ import annotations

from bigjoin.cli.options import Answer, Options, inspection
from bigjoin.cli.progress import Reporter
from bigjoin.storage.place import Place


def verified(directory: Place, options: Options) -> Answer:
    """Compare every file of the index DIR with its checksum, and check that its contents are consistent."""
    from bigjoin.index.directory import Index
    from bigjoin.index.writer import verify as verify_index

    index = Index.open(directory)
    with Reporter(quiet=options.quiet) as report:
        report.stage("verifying")
        size = verify_index(index)
    files = f"{len(index.manifest.files)} files, {size / 2**20:,.1f} MB"
    return {"verified": True, "verified_bytes": size}, [f"{directory} is as it was written: {files}, all checksums agree"]


verify = inspection("verify", verified)
