"""What a shell completes where a command takes a query or a file: the names of queries, and whatever files it knows."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from bigjoin.languages.named import MAX_K, names


def query_names(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
    """Return the names of queries that begin with what was typed; large members of families only where that is a number."""
    return [name for name in (names(MAX_K) if typed[:1].isdigit() else names()) if name.startswith(typed.casefold())]


def files(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem[str]]:
    """Leave what was typed to the shell, which completes it as a path."""
    return [CompletionItem(typed, type="file")]


def query_names_or_files(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem[str]]:
    """Complete several queries that a path follows: nobody knows yet which of them a word is."""
    return [CompletionItem(name) for name in query_names(context, parameter, typed)] or files(context, parameter, typed)
