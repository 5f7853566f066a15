"""What a command is asked: QUERY with its flags, and the seeds of --seeds."""

from __future__ import annotations

import re
from pathlib import Path

import click

from bigjoin.cli.options import Options
from bigjoin.languages import Flags, read
from bigjoin.query.statement import Statement


def question(query: str, options: Options) -> Statement:
    """Return what QUERY asks for. A mistake is reported here, before Spark takes seconds to start."""
    flags: Flags = {**options.flags}
    files = flags.pop("seeds", ())
    statement = read(query, **flags)
    if not files:
        return statement
    from bigjoin.seed_sets import AllOf  # Arrow and Spark take a moment to import, and most questions have no seeds
    from bigjoin.seeds import seeded

    return seeded(statement, AllOf(map(_seeds, files)))


def _seeds(given: str) -> str | dict[str, Path]:
    """Return seeds as the verbs take them: a file of attributes that are restricted jointly, or of the ids of one."""
    named = re.fullmatch(r"([^\W\d]\w*)=(.*)", given)
    if given.strip() and (named is None or Path(given).exists()):
        return given
    if named is None or not named[2].strip():
        raise click.UsageError(f"--seeds {given}: write ATTRIBUTE=FILE, or a FILE whose first line names attributes")
    return {named[1]: Path(named[2])}
