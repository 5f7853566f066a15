"""What a shell asks: a graph or relations that stay open from one question to the next, and are opened again after changes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bigjoin.cli.options import Options
from bigjoin.cli.progress import Reporter
from bigjoin.cli.shell.late_spark import LateSpark
from bigjoin.cli.source import STDIN, STDIN_NAME, may_stay, note_reading, open_source, why_spark
from bigjoin.defaults import LOCAL
from bigjoin.errors import RowsWarning, SourceError
from bigjoin.paths import is_remote, shown_name
from bigjoin.quota import quota

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bigjoin.graph import Graph
    from bigjoin.query.statement import Statement
    from bigjoin.relations import Relations

_NOTHING_OPEN = "nothing is open: \\open PATH opens a graph, and \\relation NAME PATH adds a relation"


@dataclass
class Opened:
    """A graph, or relations, and where they come from."""

    asked: Graph | Relations
    source: str | None
    """The path of a graph; None for relations."""
    options: Options
    """How they were read."""
    files: dict[str, tuple[int, int, int] | None] = field(default_factory=dict)
    """By the path of each file that tells of changes: its state when it was last looked at."""
    identity: str | None = None
    """If it is an index: which version of it is open."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return ", ".join(self.options.relations) if self.source is None else shown_name(self.source)


class WarmSource:
    """Opens sources, keeps the last one open, and gives it to questions."""

    def __init__(self, options: Options) -> None:
        self.options = options
        """How relations are read, and where Spark is."""
        self.spark = LateSpark(options.master, options.conf)
        self.opened: Opened | None = None
        self._reason = ""
        """Why Spark would start now."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths of what is open."""
        if self.opened is None:
            return []
        return [*self.opened.options.relations.values(), *([] if self.opened.source is None else [self.opened.source])]

    def open(self, source: str, options: Options) -> None:
        """Open a graph, in place of what was open."""
        with Reporter(quiet=options.quiet) as report:
            self._take(self._graph(source, options, report))

    def relate(self, name: str, path: str, options: Options) -> None:
        """Add a relation to those that are open, or put it in the place of one; a graph is closed."""
        known = {} if self.opened is None else self.opened.options.relations
        with Reporter(quiet=options.quiet) as report:
            self._take(self._relations({**known, name: path}, options, report, new=name))

    def add_all(self, options: Options) -> None:
        """Open the relations that options name."""
        with Reporter(quiet=options.quiet) as report:
            self._take(self._relations(options.relations, options, report))

    def refresh(self, options: Options) -> None:
        """Open what is open again, as it is now."""
        opened = self.check_open()
        if opened.source == STDIN or STDIN in opened.options.relations.values():
            raise SourceError(f"{STDIN_NAME} can be read only once")
        with Reporter(quiet=options.quiet) as report:
            if opened.source is None:
                self._take(self._relations(opened.options.relations, replace(opened.options, quiet=options.quiet), report))
            else:
                self._take(self._graph(opened.source, replace(opened.options, quiet=options.quiet), report))

    def close(self) -> None:
        """Close what is open, and end a start of Spark."""
        if self.opened is not None:
            self.opened.asked.close()
        self.spark.end()

    @contextmanager
    def asking(
        self, query: Statement, options: Options, *, doing: str, runs: bool
    ) -> Iterator[tuple[Graph | Relations, Reporter]]:
        """Give what a question is about, as it is now, and a reporter of progress; Spark starts if the question needs it."""
        options = replace(options, master=self.options.master, conf=self.options.conf)
        self.check_open()
        with Reporter(quiet=options.quiet) as report, warnings.catch_warnings():
            warnings.simplefilter("ignore" if options.quiet else "always", RowsWarning)
            asked, stays = self._current(options, report), may_stay(options)
            self._reason = _reason(query, options)

            def start() -> SparkSession:
                report.stage("starting Spark")
                session = self.session(quiet=options.quiet)
                report.stage(f"{doing} {query.name}")
                return session

            self._lead(asked, options, start, stays=stays)
            if runs and not stays:
                asked.plan(query)  # report a query that does not fit before Spark takes seconds to start
                _ = asked.spark  # what `auto` chooses depends on it
            report.stage(f"{doing} {query.name}")
            with quota().stopped_by(self.spark.interrupt):
                yield asked, report

    def session(self, *, quiet: bool = False) -> SparkSession:
        """Return the session, which may have to start."""
        if self.spark.state != "running" and not quiet:
            click.echo(f"bigjoin: note: Spark starts: {self._reason}", err=True)
        return self.spark.session()

    def _lead(self, asked: Graph | Relations, options: Options, start: Callable[[], SparkSession], *, stays: bool) -> None:
        """Tell a graph or relations where the session comes from, and whether they may do without one."""
        from bigjoin.spark.sources import no_session

        asked.stay_here(no_session if options.run["strategy"] == LOCAL else start, stays=stays)
        asked.why_spark = why_spark(options)

    def check_open(self) -> Opened:
        """Return what is open; if nothing is, say how to open something."""
        if self.opened is None:
            raise click.UsageError(_NOTHING_OPEN)
        return self.opened

    def _take(self, opened: Opened) -> None:
        """Put something in the place of what is open."""
        before, self.opened = self.opened, opened
        if before is not None:
            before.asked.close()

    def _graph(self, source: str, options: Options, report: Reporter) -> Opened:
        from bigjoin.index.manifest_file import MANIFEST, is_index, read_manifest

        path = Path(source)
        is_ours = not is_remote(source) and is_index(path)
        telling = [] if is_remote(source) else [path]
        if is_ours:
            log = read_manifest(path).log  # to which epochs are appended
            telling = [path / name for name in (MANIFEST, log) if name is not None]
        files = {str(file): _state(str(file)) for file in telling}  # before it is opened, so that no change is missed
        identity = read_manifest(path).identity if is_ours else None
        self._reason = "the source is large, or lies elsewhere"
        asked = open_source(source, replace(options, warm=self), report)
        return Opened(asked, source, options, files, identity)

    def _relations(self, relations: Mapping[str, str], options: Options, report: Reporter, new: str | None = None) -> Opened:
        """Return relations; a new one is read now, so that what is wrong with it is said at once."""
        here = replace(options, relations=relations, master=None, conf={}, undirected=False)
        files = {path: _state(path) for path in relations.values() if not is_remote(path)}
        found = cast("Relations", open_source(None, here, report))
        self._reason = "a relation is large, or lies elsewhere"
        self._lead(found, options, partial(self.session, quiet=options.quiet), stays=True)
        for name in relations if new is None else [new]:
            found.schema(name)
            if (reading := found.readings.get(name)) is not None:
                note_reading(options, reading.source, reading, ())
        return Opened(found, None, here, files)

    def _current(self, options: Options, report: Reporter) -> Graph | Relations:
        """Return what is open: an index at its current version; of other sources that have changed, say so, once."""
        opened = self.check_open()
        for path, before in opened.files.items():
            if (state := _state(path)) == before:
                continue
            if opened.identity is None:
                _note(options, f"{path} has changed since it was read: \\refresh reads it again")
            elif self._is_another_version(opened):  # if it cannot be opened, the next question tries again
                assert opened.source is not None
                report.stage("opening the index again")
                self._take(self._graph(opened.source, replace(opened.options, quiet=True), report))
                _note(options, f"{opened.name} has changed, and is asked as it is now")
                return self.check_open().asked
            opened.files[path] = state
        return opened.asked

    def _is_another_version(self, opened: Opened) -> bool:
        """Tell whether an index on disk is another version than the one that is open."""
        from bigjoin.index.manifest_file import read_manifest

        assert opened.source is not None
        found = read_manifest(Path(opened.source)).identity
        if found not in (opened.identity, cast("Graph", opened.asked).index.identity):
            return True
        opened.identity = found  # the shell itself has merged updates into it
        return False


def _reason(query: Statement, options: Options) -> str:
    """Return why a question needs Spark."""
    from bigjoin.table_answers import needs_spark

    if options.run["strategy"] != "auto":
        return f"the strategy is {options.run['strategy']}"
    if (why := why_spark(options)) is not None:
        return why
    if (what := needs_spark(query)) is not None:
        return f"{what} is its work"
    return "the question is more work than its start, or its work alone"


def _note(options: Options, text: str) -> None:
    if not options.quiet:
        click.echo(f"bigjoin: note: {text}", err=True)


def _state(path: str) -> tuple[int, int, int] | None:
    """Return what of a file shows that it has changed; None if there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
