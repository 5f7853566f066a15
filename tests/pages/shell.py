"""A few payments, scripts of questions about them, and a session at a terminal, which runs as a script."""

import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import click
from tests.page_blocks import blocks_of, check_printed

from bigjoin.cli.options import Options
from bigjoin.cli.shell.commands import asking
from bigjoin.cli.shell.session import ShellSession, sentence_and_code
from bigjoin.cli.shell.settings import Settings
from bigjoin.cli.shell.texts import entries
from bigjoin.errors import BigjoinError

PAGE = Path(__file__).parents[2] / "docs" / "shell.md"
PAYMENTS = "src,dst,amount\n1,2,50\n2,3,900\n3,1,20\n3,4,700\n4,1,10\n"
PROMPT, GOES_ON = "bigjoin> ", "     ... "
SECONDS = re.compile(r"\d+\.\d{3} s\n")


def prepare(folder, spark):
    (folder / "pays.csv").write_text(PAYMENTS)
    shown = "\n".join(block.text for block in blocks_of(PAGE) if block.language == "console")
    for name in ("questions.txt", "wrong.txt"):
        (folder / name).write_text(re.search(rf"^\$ cat {name}\n(.*?)^\$ ", shown, re.MULTILINE | re.DOTALL)[1])


def check(folder, names):
    """Run each transcript in a session of its own, and compare what is printed, but for the seconds."""
    for block in blocks_of(PAGE):
        if block.text.startswith(PROMPT):
            settings = Settings()
            settings.set("format", "table")
            session = ShellSession(Options(quiet=True), settings)
            with mock.patch.dict("os.environ", COLUMNS="100", TERM="dumb"):
                answered(session, "\\open pays.csv")
                run_transcript(str(block), block.text, session)
            session.sources.close()


def run_transcript(where, text, session):
    for typed in re.split(rf"^{PROMPT}", text, flags=re.MULTILINE)[1:]:
        first, *lines = typed.splitlines(keepends=True)
        more = [line for line in lines if line.startswith(GOES_ON)]
        asked = first + "".join(line.removeprefix(GOES_ON) for line in more)
        (entry,) = entries(asked.removesuffix("\n"), asking())
        check_printed(where, SECONDS.sub("", "".join(lines[len(more) :])), answered(session, entry.text))


def answered(session, text):
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            session.run(text)
        except (BigjoinError, click.ClickException) as error:
            out.write(f"bigjoin: {sentence_and_code(error)[0]}\n")
    return out.getvalue()
