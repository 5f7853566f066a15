"""The flags of a query: which bindings count as matches, and which rows a result has.

A flag is an entry of FLAGS, a field of `Query` and a key of `languages.Flags`; everything else reads the table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of a query."""

    name: str
    help: str
    """What the command line says about it."""
    injective: bool = False
    """Whether the values of a match have to differ."""
    meaning: str = ""
    """What it adds to the sentence in which `explain` says what a match is."""
    printed: bool = True
    """Whether a printed query shows it: it changes the result."""
    stored: bool = True
    """Whether a materialised query remembers it."""

    @property
    def option(self) -> str:
        """Its option on the command line."""
        return f"--{self.name.replace('_', '-')}"


FLAGS = (
    Flag("distinct", "Find only matches whose vertices all differ.", injective=True),
    Flag(
        "unique",
        "Like --distinct, and find each subgraph only once.",
        injective=True,
        meaning=", one for each class under the query's automorphisms",
    ),
    Flag(
        "induced",
        "Like --distinct, and with no further edges among the vertices.",
        injective=True,
        meaning=", with no other edge among them",
    ),
    Flag("cross_product", "Allow a query whose parts share no attribute.", printed=False),
    Flag("deduplicate", "Give each row once, if the head leaves attributes out.", stored=False),
)
