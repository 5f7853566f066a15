"""The prompt of a shell: where texts are typed, completed, found in the history, and handed over when they are complete."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from bigjoin import __version__
from bigjoin.cli.printing import leave_reader
from bigjoin.cli.shell.cancelling import Ended
from bigjoin.cli.shell.commands import SHELL_COMMANDS, asking
from bigjoin.cli.shell.completion import CompletedWord, Known, RelationColumns, candidates
from bigjoin.cli.shell.history import entries_of, history_file, keep, without_repeats
from bigjoin.cli.shell.listings import typed_columns, vertex_columns
from bigjoin.cli.shell.script import AlreadyTold
from bigjoin.cli.shell.session import Quit, ShellSession, sentence_and_code
from bigjoin.cli.shell.settings import SETTABLE, values_of
from bigjoin.cli.shell.texts import entries, is_complete
from bigjoin.errors import QueryCancelledError, bounded
from bigjoin.languages.named import names

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from bigjoin.graph import Graph

PROMPT, GOES_ON = "bigjoin> ", "     ... "

MAX_NAME_WIDTH = 32
"""Characters of a source's name in the toolbar."""

_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse ansibrightblack",
        "prompt": "bold",
        "continuation": "ansibrightblack",
        "text.keyword": "bold",
        "text.string": "ansigreen",
        "text.number": "ansicyan",
        "text.comment": "ansibrightblack",
        "text.command": "ansiblue",
    }
)
_KEYWORDS = (
    "match|optional|where|return|with|select|from|join|left|on|group|order|by|having|limit|skip|distinct|exists|as|and|or|not|in|is|"
    "null|like|between|case|when|then|else|end|count|sum|min|max|avg|simple|trail|acyclic|walk"
)
_PARTS = re.compile(
    rf"(?P<comment>(?:^|(?<=\s))(?:#|--\s|//).*)|(?P<string>\"[^\"]*\"?|'[^']*'?)|(?P<number>\b\d+(?:\.\d+)?\b)"
    rf"|(?P<keyword>\b(?:{_KEYWORDS})\b)|(?P<command>^\s*\\[\w?-]+\+?)",
    re.IGNORECASE,
)


class Terminal:
    """Asks for texts on a terminal, and has a session run them."""

    def __init__(self, session: ShellSession, *, input: Input | None = None, output: Output | None = None) -> None:  # noqa: A002
        self.session, self._input, self._output = session, input, output
        self.history = KeptHistory()
        session.history = self.history.get_kept
        self.prompt = self._prompt()

    def _prompt(self) -> PromptSession[str]:
        """Return what asks for a text."""
        output = self._output
        if output is None and not is_dumb_terminal():
            output = create_output(sys.stdout if sys.stdout.isatty() else sys.stderr)
        return PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation=[("class:continuation", GOES_ON)],
            key_bindings=_keys(lambda text: is_complete(text, asking())),
            history=self.history,
            completer=_Completer(lambda: known_to(self.session)),
            complete_while_typing=False,
            search_ignore_case=True,
            enable_suspend=True,
            enable_open_in_editor=True,
            tempfile_suffix=".txt",
            lexer=_Colours(),
            style=_STYLE,
            include_default_pygments_style=False,
            bottom_toolbar=self._toolbar,
            input=self._input,
            output=output,
        )

    def converse(self) -> None:
        """Ask and answer until the user leaves."""
        click.echo(f"bigjoin {__version__}: \\help explains, Ctrl-D leaves", err=True)
        while True:
            try:
                if is_dumb_terminal():  # which prints each character once more for each text before
                    self.prompt = self._prompt()
                if not self.answer(self.prompt.prompt()):
                    return
            except Ended:
                raise
            except KeyboardInterrupt:
                continue
            except EOFError:
                return

    def answer(self, text: str) -> bool:
        """Run what was typed or pasted, and tell whether the session goes on."""
        for entry in entries(text, asking(), pasted=True):
            try:
                self.session.run(entry.text)
            except Quit:
                return False
            except BrokenPipeError:
                leave_reader()
                return False
            except QueryCancelledError:
                click.echo("bigjoin: cancelled", err=True)
                return True
            except AlreadyTold:
                return True
            except Exception as error:
                click.echo(f"bigjoin: {bounded(sentence_and_code(error)[0])}", err=True)
        return True

    def _toolbar(self) -> StyleAndTextTuples:
        """Return what is open, the strategy, the state of Spark, and what is set."""
        text = self.prompt.default_buffer.text
        if "\n" in text.strip("\n") or text.endswith("\n"):
            ends = not text.endswith("\n") and is_complete(text, asking())
            return [("", " Enter runs it, Alt-Enter begins a line" if ends else " an empty line ends it")]
        sources, shown = self.session.sources, dict(self.session.settings.shown)
        parts = [_size_of(self.session), shown.pop("strategy", "auto"), f"Spark {sources.spark.state}"]
        parts += [f"{name} {value}" for name, value in shown.items() if name not in ("timing", "quiet")]
        return [("", " " + " · ".join(parts))]


def _size_of(session: ShellSession) -> str:
    """Return what is open, and how large it is."""
    from bigjoin.index.contents import sizes_line
    from bigjoin.relations import Relations

    opened = session.sources.opened
    if opened is None:
        return "nothing open"
    asked = opened.asked
    name = opened.name if len(opened.name) <= MAX_NAME_WIDTH else Path(opened.name).name
    name = name if len(name) <= MAX_NAME_WIDTH else f"...{name[-MAX_NAME_WIDTH:]}"
    return name if isinstance(asked, Relations) else f"{name}: {sizes_line(asked.index.statistics)}"


def known_to(session: ShellSession) -> Known:
    """Return what can be completed in a session now."""
    from bigjoin.relations import Relations

    relations: dict[str, RelationColumns] = {}
    vertex: tuple[str, ...] = ()
    opened = session.sources.opened
    asked = None if opened is None else opened.asked
    if opened is not None and isinstance(asked, Relations):
        relations = {name: RelationColumns(tuple(asked.schema(name).names)) for name in opened.options.relations}
    elif asked is not None:
        statistics = cast("Graph", asked).index.statistics
        for name, known in statistics.relations.items():
            columns = tuple(typed_columns(statistics, name))
            relations[name] = RelationColumns(columns[: known.arity], columns[known.arity :])
        vertex = tuple(vertex_columns(statistics))
    settings = {name: tuple(filter(None, values_of(name).split(", "))) for name in SETTABLE}
    commands = {command.name: command.completes for command in SHELL_COMMANDS}
    return Known(commands, asking(), settings, [*session.defined, *names()], relations, vertex)


class KeptHistory(History):
    """What was typed, in this session and in earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self._file = history_file()
        self._texts = without_repeats(entries_of(self._file))

    def get_kept(self) -> list[str]:
        """Return all entries, the oldest first."""
        return list(self._texts)

    def load_history_strings(self) -> Iterable[str]:
        """Give the entries, the latest first."""
        return reversed(self._texts)

    def append_string(self, string: str) -> None:
        """Add an entry, unless it repeats the last one."""
        text = string.rstrip()
        if text.strip() and self._texts[-1:] != [text]:
            super().append_string(text)

    def store_string(self, string: str) -> None:
        """Keep an entry for later sessions."""
        self._texts.append(string)
        keep(self._file, string)


class _Completer(Completer):
    def __init__(self, known: Callable[[], Known]) -> None:
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        seen: set[str] = set()
        for one in candidates(document.text_before_cursor, document.text_after_cursor, self._known()):
            if one.text not in seen:
                seen.add(one.text)
                yield _completion(one)


def _completion(one: CompletedWord) -> Completion:
    return Completion(one.text, start_position=-one.typed, display_meta=one.about)


class _Colours(Lexer):
    """Colours the parts of a text that look alike in all languages."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = document.lines

        def coloured(number: int) -> StyleAndTextTuples:
            line, at, found = lines[number] if number < len(lines) else "", 0, []
            for part in _PARTS.finditer(line):
                found += [("", line[at : part.start()]), (f"class:text.{part.lastgroup}", part[0])]
                at = part.end()
            return [*found, ("", line[at:])]

        return coloured


def _keys(ends: Callable[[str], bool]) -> KeyBindings:
    """Return the keys that are the shell's own: Enter hands a complete text over, Alt-Enter begins a line."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif ends(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("escape", "enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
