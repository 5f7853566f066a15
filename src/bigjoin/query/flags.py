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
    Flag("distinct", "The vertices of a match differ.", injective=True),
    Flag(
        "unique",
        "Distinct, and one match for each subgraph (class under automorphisms).",
        injective=True,
        meaning=", one for each class under the query's automorphisms",
    ),
    Flag(
        "induced",
        "Distinct, and no other edge among the vertices of a match.",
        injective=True,
        meaning=", with no other edge among them",
    ),
    Flag("cross_product", "Allow a query whose parts share no attribute.", printed=False),
    Flag("deduplicate", "Each row once, if the head leaves attributes out.", stored=False),
)
